/** The rows of a tree: ordered, filtered, and without the children of closed rows. Pure. */
import type { SessionNode } from './session-tree.ts';

/** The order of the rows. A parent takes the position of the first session among itself and its descendants. */
export type TreeOrder = 'id' | 'mailbox' | 'age' | 'tokens';

/** The sessions to show: all sessions, or only those at work, with waiting entries, or with trouble or dead letters. */
export type TreeSubset = 'all' | 'busy' | 'waiting' | 'trouble';

/** The settings of the tree. */
export interface TreeView {
  readonly order: TreeOrder;
  /** True if the order is reversed. */
  readonly isReversed: boolean;
  /** Text to find in id, name and agent; case is ignored. */
  readonly filter: string;
  readonly subset: TreeSubset;
  /** Ids of the sessions whose children are shown. With a filter, matching children are shown in any case. */
  readonly open: ReadonlySet<string>;
}

/** One row. `level`, `place` and `siblings` count from 1, as the ARIA roles of a tree require. */
export interface TreeRow {
  readonly node: SessionNode;
  readonly level: number;
  readonly place: number;
  readonly siblings: number;
  /** True if the children are shown; undefined when there are no children to show. */
  readonly isOpen: boolean | undefined;
}

/**
 * The rows, from top to bottom. For n known and m shown sessions this takes O(n) time, and O(m log m) for the ordering.
 */
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

/** Compares ids by the value of their numbers. Children of one parent differ only in their number. */
function compareSiblings(a: SessionNode, b: SessionNode): number {
  if (a.parent === undefined || b.parent === undefined) return COLLATOR.compare(a.id, b.id);
  return numberOf(a.id) - numberOf(b.id);
}

function numberOf(id: string): number {
  return Number(id.slice(id.lastIndexOf(':') + 1)) || 0;
}

const COLLATOR = new Intl.Collator('en', { numeric: true });

/** The matching sessions and all their ancestors. */
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
  const isTroubled = node.trouble !== undefined || node.ended === 'failed' || node.deadLetters > 0;
  if (subset === 'trouble' && !isTroubled) return false;
  if (filter === '') return true;
  const { id, name, agent } = node;
  return [id, name ?? '', agent].some((text) => text.toLowerCase().includes(filter));
}

/** The key of each session: the maximum over the session and its descendants, computed from the leaves up. */
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
