/**
 * How many pages a commit may write at worst. Pure.
 *
 * LMDB copies each page it changes, up to the root; splits pages that are full; keeps large values in pages of their own; and writes
 * the list of free pages. The sum is never less than what a commit writes; it is often several times more.
 */

/** Bytes of an entry, key and value and head, from which LMDB may give the value pages of its own, in parts of a page. */
const INLINE_SHARE = 0.45;
/** Bytes of the head of a page. */
const PAGE_HEAD_BYTES = 24;
/** Bytes beside an entry's key and value in a page. */
const ENTRY_HEAD_BYTES = 24;
/** Bytes of one page number in the list of free pages. */
const FREE_ENTRY_BYTES = 8;
/** Pages of the record of tables and of the roots: a path each, split at worst. */
const ROOT_PAGES = 8;
/** Levels that a table may have grown by since its shape was read. */
const LEVELS_GROWN = 2;

/** What one table is given. */
export interface TableChange {
  /** Entries put or removed. */
  readonly entries: number;
  /** Bytes of keys and values that lie among others in a page. */
  readonly inlineBytes: number;
  /** Pages of the values that lie in pages of their own. */
  readonly overflowPages: number;
  /** Entries may take the place of others, or leave: their pages become free. */
  readonly frees: boolean;
}

/** What a table holds already. */
export interface TableShape {
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
}

/** Gathers what a commit gives one table. */
export class ChangeTally implements TableChange {
  entries = 0;
  inlineBytes = 0;
  overflowPages = 0;
  frees = false;
  readonly #pageBytes: number;

  constructor(pageBytes: number) {
    this.#pageBytes = pageBytes;
  }

  /** An entry is put. `isNew`: it takes the place of none. */
  put(keyBytes: number, valueBytes: number, isNew = false): void {
    this.entries += 1;
    if (!isNew) this.frees = true;
    const bytes = keyBytes + valueBytes + ENTRY_HEAD_BYTES;
    if (bytes <= this.#pageBytes * INLINE_SHARE) {
      this.inlineBytes += bytes;
      return;
    }
    this.inlineBytes += keyBytes + ENTRY_HEAD_BYTES;
    // One more than it fills: a value that just fits may be put either way.
    this.overflowPages += Math.ceil((valueBytes + 2 * PAGE_HEAD_BYTES) / this.#pageBytes) + 1;
  }

  /** An entry is removed. */
  remove(): void {
    this.entries += 1;
    this.frees = true;
  }
}

/**
 * Pages that a commit may write. `free` is the list of free pages as it stands. `grownPages`: the shapes of the tables are as of some
 * commits ago, and that many pages may have come to each since.
 */
export function pagesOfCommit(
  changes: readonly { readonly change: TableChange; readonly shape: TableShape }[],
  free: TableShape,
  grownPages: number,
  pageBytes: number,
): number {
  let pages = ROOT_PAGES;
  let freed = 0;
  for (const { change, shape } of changes) {
    if (change.entries === 0) continue;
    const copied = Math.min(
      change.entries * (shape.depth + LEVELS_GROWN),
      shape.branchPages + shape.leafPages + grownPages,
    );
    // A page that is met full splits at once; a half splits again when it took a quarter of a page more, at the least.
    const splits = Math.min(
      change.entries,
      2 * (shape.leafPages + grownPages + 1) + Math.ceil((8 * change.inlineBytes) / pageBytes),
    );
    const branchesMet = Math.min(change.entries * (shape.depth + 1), shape.branchPages + grownPages);
    pages += copied + splits + Math.ceil(splits / 2) + branchesMet + shape.depth + LEVELS_GROWN + change.overflowPages;
    freed += copied + (change.frees ? shape.overflowPages + grownPages : 0);
  }
  const freeTree = free.branchPages + free.leafPages + free.overflowPages;
  // Read, shortened and written back, beside the record of what this commit frees.
  return pages + 2 * freeTree + Math.ceil((freed * FREE_ENTRY_BYTES) / pageBytes) + 2;
}
