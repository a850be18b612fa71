/** The rows a tree shows: ordered, filtered, folded. Pure. */
import type { SessionNode } from './session-tree.ts';

/** What the rows are ordered by. A parent stands where the foremost of its tree would. */
export type TreeOrder = 'id' | 'mailbox' | 'age' | 'tokens';

/** Which sessions: all, those at work, those with a full mailbox, those that stopped over something. */
export type TreeSubset = 'all' | 'busy' | 'waiting' | 'trouble';

/** What to show. */
export interface TreeView {
  readonly order: TreeOrder;
  /** The order the other way round. */
  readonly isReversed: boolean;
  /** Looked for in id, name and agent, without case. */
  readonly filter: string;
  readonly subset: TreeSubset;
  /** Ids of the sessions whose children are shown. A filter shows the ones it finds anyhow. */
  readonly open: ReadonlySet<string>;
}

/** One row. `level`, `place` and `siblings` count from 1, as the roles of a tree want them. */
export interface TreeRow {
  readonly node: SessionNode;
  readonly level: number;
  readonly place: number;
  readonly siblings: number;
  /** Undefined when it has no children to show. */
  readonly isOpen: boolean | undefined;
}

/** The rows, top to bottom. Of n sessions known and m shown, takes time of the order of n, and m log m for the ordering. */
export function arrange(roots: readonly SessionNode[], view: TreeView): readonly TreeRow[] {
  const filter = view.filter.trim().toLowerCase();
  const isFiltered = filter !== '' || view.subset !== 'all';
  const kept = isFiltered ? keptOf(roots, filter, view.subset) : undefined;
  const keys = view.order === 'id' ? undefined : keysOf(roots, view.order);
  const direction = view.isReversed ? -1 : 1;
  const compare = (a: SessionNode, b: SessionNode): number => {
    const byKey = keys === undefined ? 0 : (keys.get(b) ?? 0) - (keys.get(a) ?? 0);
    return (byKey === 0 ? compareSiblings(a, b) : byKey) * direction;
  };
  const rows: TreeRow[] = [];
  const visit = (nodes: readonly SessionNode[], level: number): void => {
    const shown = kept === undefined ? [...nodes] : nodes.filter((node) => kept.has(node));
    shown.sort(compare);
    for (const [index, node] of shown.entries()) {
      const hasChildren = kept === undefined ? node.children.length > 0 : node.children.some((each) => kept.has(each));
      const isOpen = hasChildren ? isFiltered || view.open.has(node.id) : undefined;
      rows.push({ node, level, place: index + 1, siblings: shown.length, isOpen });
      if (isOpen === true) visit(node.children, level + 1);
    }
  };
  visit(roots, 1);
  return rows;
}

/** Ids in the order people count: numbers by value. Children of one parent differ by their number alone. */
function compareSiblings(a: SessionNode, b: SessionNode): number {
  if (a.parent === undefined || b.parent === undefined) return COLLATOR.compare(a.id, b.id);
  return numberOf(a.id) - numberOf(b.id);
}

function numberOf(id: string): number {
  return Number(id.slice(id.lastIndexOf(':') + 1)) || 0;
}

const COLLATOR = new Intl.Collator('en', { numeric: true });

/** What is found, and all that is above it. */
function keptOf(roots: readonly SessionNode[], filter: string, subset: TreeSubset): ReadonlySet<SessionNode> {
  const kept = new Set<SessionNode>();
  const visit = (node: SessionNode): boolean => {
    let isKept = isFound(node, filter, subset);
    for (const child of node.children) if (visit(child)) isKept = true;
    if (isKept) kept.add(node);
    return isKept;
  };
  roots.forEach(visit);
  return kept;
}

function isFound(node: SessionNode, filter: string, subset: TreeSubset): boolean {
  if (subset === 'busy' && node.state === 'idle') return false;
  if (subset === 'waiting' && node.mailbox === 0 && node.phase === undefined) return false;
  if (subset === 'trouble' && node.trouble === undefined && node.ended !== 'failed') return false;
  if (filter === '') return true;
  const { id, name, agent } = node;
  return [id, name ?? '', agent].some((text) => text.toLowerCase().includes(filter));
}

/** The greatest of each tree, from the leaves up. */
function keysOf(roots: readonly SessionNode[], order: TreeOrder): ReadonlyMap<SessionNode, number> {
  const keys = new Map<SessionNode, number>();
  const visit = (node: SessionNode): number => {
    let key = order === 'mailbox' ? node.mailbox : order === 'age' ? node.updatedAt : (node.tokens ?? 0);
    for (const child of node.children) key = Math.max(key, visit(child));
    keys.set(node, key);
    return key;
  };
  roots.forEach(visit);
  return keys;
}
