/**
 * Walks all pages that the newest state of an LMDB file leads to, and checks them. Each page must be used once, lie
 * where its parent says, and come no later than the last page according to the meta page. Its keys must be in order and
 * within its parent's bounds. Each table must have the pages, entries and depth of its record. No free page may be in
 * use.
 */
import {
  compareKeys,
  doKeysRise,
  entryKey,
  type LeafNode,
  PageDamage,
  type PageFile,
  type PageFrame,
  type PageMeta,
  type PageTree,
} from './pages.ts';

/** Callbacks for the findings of a walk. */
export interface WalkVisitor {
  /** Receives an entry of a table, in key order. `PageDamage` thrown here is reported like any other. */
  entry?(tree: PageTree, node: LeafNode): void;
  /**
   * If it returns false, `entry` receives only the entries of this table whose values are in separate pages. Without
   * this callback, `entry` receives all entries.
   */
  wants?(tree: PageTree): boolean;
  /**
   * Receives damage; the walk skips the pages below the damaged page. Without this callback the first damage is thrown.
   */
  damage?(damage: PageDamage, tree: PageTree): void;
}

/** The result of a walk. */
export interface WalkResult {
  readonly tables: readonly PageTree[];
  readonly pagesSeen: number;
  readonly freePages: number;
  /** False if the walk stopped at `pagesMax`. */
  readonly isWhole: boolean;
}

interface Step {
  readonly tree: PageTree;
  readonly page: number;
  readonly depth: number;
  readonly low: Buffer | undefined;
  readonly high: Buffer | undefined;
}

interface Tally {
  branchPages: number;
  leafPages: number;
  overflowPages: number;
  entries: number;
  isDamaged: boolean;
}

/**
 * Walks a file. With `pagesMax` it visits the pages nearest to the roots, level by level; otherwise all pages, each
 * table in the order of its keys. Throws `PageDamage` unless the visitor has a `damage` callback.
 */
export function walkPages(file: PageFile, meta: PageMeta, visitor: WalkVisitor, pagesMax?: number): WalkResult {
  const walk = new Walk(file, meta, visitor);
  return walk.run(pagesMax);
}

/**
 * Walks all pages of a file like `walkPages`, and waits for `pause` from time to time. The file must not change
 * meanwhile.
 */
export async function walkInSlices(
  file: PageFile,
  meta: PageMeta,
  visitor: WalkVisitor,
  pause: () => Promise<void> | undefined,
): Promise<WalkResult> {
  const walk = new Walk(file, meta, visitor);
  for (const _step of walk.steps(undefined)) {
    const pausing = pause();
    if (pausing !== undefined) await pausing;
  }
  return walk.result;
}

class Walk {
  readonly #file: PageFile;
  readonly #meta: PageMeta;
  readonly #visitor: WalkVisitor;
  readonly #used: Uint8Array;
  readonly #tallies = new Map<PageTree, Tally>();
  readonly #tables: PageTree[] = [];
  #freePages = 0;
  #seen = 0;
  #stepsMax = Number.POSITIVE_INFINITY;
  /** True if pages beyond the bound were left out before they were queued. */
  #isCut = false;
  #isWhole = false;

  constructor(file: PageFile, meta: PageMeta, visitor: WalkVisitor) {
    this.#file = file;
    this.#meta = meta;
    this.#visitor = visitor;
    // One bit for each page the file can hold, whatever its records say. Free pages may be beyond the end of the file.
    this.#used = new Uint8Array(Math.ceil(file.size / meta.pageBytes / 8) + 1);
  }

  run(pagesMax: number | undefined): WalkResult {
    const steps = this.steps(pagesMax);
    while (steps.next().done !== true);
    return this.result;
  }

  /** The findings of a walk that has ended. */
  get result(): WalkResult {
    return { tables: this.#tables, pagesSeen: this.#seen, freePages: this.#freePages, isWhole: this.#isWhole };
  }

  /** Walks one page with each `next`. */
  *steps(pagesMax: number | undefined): Generator<undefined> {
    this.#stepsMax = pagesMax ?? Number.POSITIVE_INFINITY;
    const steps: Step[] = [];
    const push = (tree: PageTree): void => {
      this.#tallies.set(tree, { branchPages: 0, leafPages: 0, overflowPages: 0, entries: 0, isDamaged: false });
      if (tree.root !== undefined) {
        steps.push({ tree, page: tree.root, depth: 1, low: undefined, high: undefined });
      }
    };
    let at = 0;
    // The free list comes last: its pages must not be used by a tree.
    for (const tree of [this.#meta.main, this.#meta.free]) {
      push(tree);
      while (at < steps.length && (pagesMax === undefined || this.#seen < pagesMax)) {
        const step = pagesMax === undefined ? steps.pop() : steps[at++];
        if (step !== undefined) this.#take(step, steps, push, pagesMax === undefined);
        yield;
      }
    }
    this.#isWhole = at >= steps.length && !this.#isCut;
    if (this.#isWhole) for (const [tree, tally] of this.#tallies) this.#compare(tree, tally);
  }

  #take(step: Step, steps: Step[], push: (tree: PageTree) => void, isDeep: boolean): void {
    const { tree } = step;
    try {
      this.#step(step, steps, push, isDeep);
    } catch (error) {
      this.#damaged(error, tree);
    }
  }

  #damaged(error: unknown, tree: PageTree): void {
    if (!(error instanceof PageDamage) || this.#visitor.damage === undefined) throw error;
    const tally = this.#tallies.get(tree);
    if (tally !== undefined) tally.isDamaged = true;
    this.#visitor.damage(error, tree);
  }

  #step({ tree, page, depth, low, high }: Step, steps: Step[], push: (tree: PageTree) => void, isDeep: boolean): void {
    const tally = this.#tallies.get(tree);
    if (tally === undefined) return;
    this.#seen += 1;
    this.#use(page, 1);
    const found = this.#file.frame(page);
    if (found.kind === 'branch') {
      const nodes = this.#file.branchNodes(found);
      this.#checkFrame(found, tree, depth, low, high);
      tally.branchPages += 1;
      // With a bound, `steps` keeps the visited pages too, and only its first `pagesMax` steps are taken. So no more
      // steps are queued.
      const room = isDeep ? nodes.length : Math.min(nodes.length, this.#stepsMax - steps.length);
      if (room < nodes.length) this.#isCut = true;
      const below = nodes.slice(0, Math.max(0, room)).map((node, index): Step => {
        const next = nodes[index + 1]?.key ?? high;
        return { tree, page: node.page, depth: depth + 1, low: index === 0 ? low : node.key, high: next };
      });
      steps.push(...(isDeep ? below.reverse() : below));
      return;
    }
    const nodes = this.#wants(tree) ? this.#file.leafNodes(found, tree) : this.#file.distantNodes(found, tree);
    this.#checkFrame(found, tree, depth, low, high);
    tally.leafPages += 1;
    tally.entries += found.places.length;
    for (const node of nodes) {
      try {
        this.#entry(tree, node, tally, push, isDeep);
      } catch (error) {
        this.#damaged(error, tree);
      }
    }
  }

  #wants(tree: PageTree): boolean {
    return tree === this.#meta.free || this.#visitor.wants?.(tree) !== false;
  }

  #entry(tree: PageTree, node: LeafNode, tally: Tally, push: (tree: PageTree) => void, isDeep: boolean): void {
    if (node.overflow !== undefined) {
      tally.overflowPages += node.overflow.pages;
      this.#use(node.overflow.page, node.overflow.pages);
      if (isDeep) this.#file.checkOverflow(node.overflow);
    }
    if ((node.tree !== undefined) !== (tree === this.#meta.main)) throw new PageDamage('a table stands among entries');
    if (tree === this.#meta.free) this.#markFree(node);
    if (node.tree === undefined) {
      this.#visitor.entry?.(tree, node);
      return;
    }
    this.#tables.push(node.tree);
    push(node.tree);
  }

  /** Checks that the page's level is right, and that its keys rise and are within the bounds of the parent. */
  #checkFrame(
    found: PageFrame,
    tree: PageTree,
    depth: number,
    low: Buffer | undefined,
    high: Buffer | undefined,
  ): void {
    const page = found.number;
    if ((found.kind === 'leaf') !== (depth === tree.depth)) throw new PageDamage('it stands at another level', page);
    // LMDB does not use the first key of a branch page, which may be outdated.
    const first = found.kind === 'branch' ? 1 : 0;
    const last = found.places.length - 1;
    if (last < first) return;
    const isBehind = low === undefined || compareKeys(entryKey(found, first), low, tree) >= 0;
    if (!isBehind || !doKeysRise(found, first, tree)) throw new PageDamage('its keys do not rise', page);
    if (high !== undefined && compareKeys(entryKey(found, last), high, tree) >= 0) {
      throw new PageDamage('a key belongs to another page', page);
    }
  }

  /**
   * Reads a record of the free list: a count, then single pages and blocks of pages. A block is stored as its negated
   * length and its first page. 0 is a gap.
   */
  #markFree(node: LeafNode): void {
    const bytes = this.#file.bytes(node.offset, node.length);
    const words = Math.floor(bytes.length / 8);
    const count = words === 0 ? 0n : bytes.readBigUInt64LE(0);
    if (words === 0 || count >= BigInt(words)) throw new PageDamage('a record of free pages is damaged');
    for (let index = 1; index <= Number(count); index += 1) {
      const word = bytes.readBigInt64LE(index * 8);
      if (word === 0n) continue;
      let [page, pages] = [word, 1n];
      if (word < 0n) {
        index += 1;
        if (index > Number(count)) throw new PageDamage('a record of free pages is damaged');
        [page, pages] = [bytes.readBigInt64LE(index * 8), -word];
      }
      if (page < 2n || page + pages > BigInt(this.#meta.lastPage) + 1n) {
        throw new PageDamage('a free page lies outside the file');
      }
      this.#freePages += Number(pages);
      this.#use(Number(page), Number(pages));
    }
  }

  /**
   * Marks pages as used. Throws `PageDamage` for a page that is used twice. It also throws for a page after the last
   * page according to the meta page, because LMDB does not find such a page.
   */
  #use(page: number, pages: number): void {
    if (page + pages - 1 > this.#meta.lastPage) throw new PageDamage('it lies behind the last page of the file', page);
    for (let each = page; each < page + pages; each += 1) {
      const at = each >> 3;
      const bit = 1 << (each & 7);
      const known = this.#used[at];
      if (known === undefined) return;
      if ((known & bit) !== 0) throw new PageDamage('it is used twice', each);
      this.#used[at] = known | bit;
    }
  }

  #compare(tree: PageTree, tally: Tally): void {
    if (tally.isDamaged) return;
    const isRight =
      tally.entries === tree.entries &&
      tally.branchPages === tree.branchPages &&
      tally.leafPages === tree.leafPages &&
      tally.overflowPages === tree.overflowPages;
    if (isRight) return;
    const name = JSON.stringify(tree.name);
    this.#damaged(
      new PageDamage(`the table ${name} should have ${tree.entries} entries, but has ${tally.entries}`),
      tree,
    );
  }
}
