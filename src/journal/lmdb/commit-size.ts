/**
 * Computes how many pages a commit may write at worst. Pure.
 *
 * LMDB copies each page it changes, up to the root. It splits pages that are full, keeps large values in separate
 * pages, and writes the list of free pages. The computed number is never less than what a commit writes. Often it is
 * several times more.
 */

/** If an entry (key, value and head) exceeds this share of a page, LMDB may put its value into separate pages. */
const INLINE_SHARE = 0.45;
/** Bytes of the head of a page. */
const PAGE_HEAD_BYTES = 24;
/** Bytes of an entry in a page beside its key and value. */
const ENTRY_HEAD_BYTES = 24;
/** Bytes of one page number in the list of free pages. */
const FREE_ENTRY_BYTES = 8;
/** Pages at worst for the tables' records and for the roots: a path of pages for each, with every page split. */
const ROOT_PAGES = 8;
/** Levels that a table may have grown by since its shape was read. */
const LEVELS_GROWN = 2;

/** The changes that a commit makes to one table. */
export interface TableChange {
  /** Entries put or removed. */
  readonly entries: number;
  /** Bytes of keys and values that share a page with others. */
  readonly inlineBytes: number;
  /** The number of separate pages for large values. */
  readonly overflowPages: number;
  /** True if entries of unknown size may be replaced or removed, so that their pages become free. */
  readonly frees: boolean;
  /** The separate pages of entries of known size that are replaced or removed. */
  readonly freedPages: number;
}

/** The present size of a table. */
export interface TableShape {
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
}

/** Counts the changes that a commit makes to one table. */
export class ChangeTally implements TableChange {
  entries = 0;
  inlineBytes = 0;
  overflowPages = 0;
  frees = false;
  freedPages = 0;
  readonly #pageBytes: number;

  constructor(pageBytes: number) {
    this.#pageBytes = pageBytes;
  }

  /** Counts an entry that is put. `isNew`: the entry replaces no other. */
  put(keyBytes: number, valueBytes: number, isNew = false): void {
    this.entries += 1;
    if (!isNew) this.frees = true;
    const bytes = keyBytes + valueBytes + ENTRY_HEAD_BYTES;
    if (bytes <= this.#pageBytes * INLINE_SHARE) {
      this.inlineBytes += bytes;
      return;
    }
    this.inlineBytes += keyBytes + ENTRY_HEAD_BYTES;
    this.overflowPages += this.#separatePages(valueBytes);
  }

  /** Counts an entry whose old value has a known size. `valueBytes` missing: the entry is removed. */
  replace(keyBytes: number, oldValueBytes: number, valueBytes?: number): void {
    if (valueBytes === undefined) this.entries += 1;
    else this.put(keyBytes, valueBytes, true);
    this.freedPages += this.#separatePages(oldValueBytes);
  }

  /** Counts an entry that is removed. */
  remove(): void {
    this.entries += 1;
    this.frees = true;
  }

  /** One page more than the value fills, because LMDB may or may not use another page for a value that just fits. */
  #separatePages(valueBytes: number): number {
    return Math.ceil((valueBytes + 2 * PAGE_HEAD_BYTES) / this.#pageBytes) + 1;
  }
}

/**
 * Pages that a commit may write. `free` is the present list of free pages. `grownPages`: pages by which each table may
 * have grown since its shape was read.
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
    // A full page splits at its first new entry. Each half splits again only after at least a quarter of a page was
    // added.
    const splits = Math.min(
      change.entries,
      2 * (shape.leafPages + grownPages + 1) + Math.ceil((8 * change.inlineBytes) / pageBytes),
    );
    const branchesMet = Math.min(change.entries * (shape.depth + 1), shape.branchPages + grownPages);
    pages += copied + splits + Math.ceil(splits / 2) + branchesMet + shape.depth + LEVELS_GROWN + change.overflowPages;
    freed += copied + change.freedPages + (change.frees ? shape.overflowPages + grownPages : 0);
  }
  const freeTree = free.branchPages + free.leafPages + free.overflowPages;
  // The commit reads, shortens and writes back the list of free pages. It also writes the record of the pages it frees.
  return pages + 2 * freeTree + Math.ceil((freed * FREE_ENTRY_BYTES) / pageBytes) + 2;
}
