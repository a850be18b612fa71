/**
 * Checks an LMDB file before LMDB maps it. LMDB trusts its file: a foreign, cut or damaged file ends the process with a
 * signal that cannot be caught, or appears as a smaller store. Reads only.
 *
 * For a file up to `STORE_CHECK_ENTRIES_BYTES_MAX`, with up to `STORE_CHECK_ENTRIES_MAX` entries besides rows and
 * media, the check covers everything that no other check covers. That is all pages and their order, the free list, all
 * entries of the small tables and blobs, and whether the tables agree.
 *
 * Rows, blobs, media and entries have their own checksums, which each read checks. In a larger store one fault is not
 * noticed at once: an entry that cannot be found any more because its key was damaged.
 *
 * In a file of up to `STORE_CHECK_BYTES_MAX` all pages are checked. In a larger file only `STORE_CHECK_PAGES_MAX` pages
 * are checked, those nearest to the roots. Damage further down may end the process when LMDB reads it. `troupe doctor`
 * checks all pages.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay, setImmediate as nextTick } from 'node:timers/promises';
import {
  COMPACT_CHECK_SLICE_MS,
  STORE_CHECK_BYTES_MAX,
  STORE_CHECK_ENTRIES_BYTES_MAX,
  STORE_CHECK_ENTRIES_MAX,
  STORE_CHECK_PAGES_MAX,
} from '../../base/bounds.ts';
import { StoreVersionError } from '../../base/errors.ts';
import { StoreIndex, wrongTables } from '../check/store-index.ts';
import type { SliceWatch } from '../live-compaction.ts';
import { damageError } from './errors.ts';
import { walkInSlices, walkPages } from './page-walk.ts';
import { type LeafNode, PageDamage, PageFile, type PageMeta, type PageTree } from './pages.ts';
import { STORE_FORMAT } from './tables.ts';

/** How often a file is checked at most, if it changes between the checks. */
const LOOKS_MAX = 6;
/** Longer than the resolution of a file's times, so that a change between two checks is visible in these times. */
const LOOK_AGAIN_MS = 20;

/**
 * Rejects with `StoreCorruptError` when the file is damaged, or is not one of this library. The error has `path`, the
 * reason, and the page if it is known. Rejects with `StoreVersionError` for a newer format, and with the system's error
 * when the file cannot be read.
 */
export async function checkLmdbFile(path: string): Promise<void> {
  let before = await stat(path);
  for (let look = 1; ; look += 1) {
    try {
      checkOnce(path);
      return;
    } catch (error) {
      if (!(error instanceof PageDamage)) throw error;
      const after = await stat(path);
      // An owner that is about to be fenced off may still write. A check that reads between two of its writes may find
      // apparent damage.
      const isWritten = after.size !== before.size || after.mtimeMs !== before.mtimeMs;
      if (look > 1 && (!isWritten || look === LOOKS_MAX)) throw damageError(path, error);
      before = after;
    }
    await delay(LOOK_AGAIN_MS);
  }
}

/**
 * Checks all pages of a file that does not change, and its format and tables. With `'entries'` it checks each entry
 * too, by its seal or checksum. It works in slices of `COMPACT_CHECK_SLICE_MS`, between which other work of the thread
 * runs. Resolves to the texts of the table `meta`. Rejects like `checkLmdbFile`.
 */
export async function checkPages(
  path: string,
  slices: SliceWatch,
  depth: 'pages' | 'entries' = 'pages',
): Promise<ReadonlyMap<string, string>> {
  // The page of a large value is read alone: reading ahead would take a tenth of a millisecond for each large value.
  const file = new PageFile(path, 'scattered');
  try {
    const meta = file.meta();
    const index = new StoreIndex();
    const isDeep = depth === 'entries';
    const wants = (tree: PageTree): boolean => isDeep || tree.name === 'meta' || tree === meta.main;
    const entry = (tree: PageTree, node: LeafNode): void => {
      if (wants(tree)) index.add(file, tree, node);
      if (!isDeep) return;
      index.checkContents(file);
      index.forget();
    };
    let startedAt = performance.now();
    const pause = (): Promise<void> | undefined => {
      const ms = performance.now() - startedAt;
      if (ms < COMPACT_CHECK_SLICE_MS) return undefined;
      slices.took(ms);
      return nextTick().then(() =>
        slices.run(() => {
          startedAt = performance.now();
        }),
      );
    };
    const { tables } = await walkInSlices(file, meta, { entry, wants }, pause);
    checkFormat(path, index.format);
    for (const reason of wrongTables(tables, index.format)) throw new PageDamage(reason);
    for (const damage of index.damaged) throw damage;
    return index.records;
  } catch (error) {
    throw error instanceof PageDamage ? damageError(path, error) : error;
  } finally {
    file.close();
  }
}

function checkOnce(path: string): void {
  const file = new PageFile(path, 'scattered');
  try {
    const meta = file.meta();
    const index = new StoreIndex();
    // The file is longer than its used pages: room for commits is kept behind them.
    const usedBytes = Math.min(file.size, (meta.lastPage + 1) * meta.pageBytes);
    const withEntries =
      usedBytes <= STORE_CHECK_ENTRIES_BYTES_MAX && entriesBesideRows(file, meta) <= STORE_CHECK_ENTRIES_MAX;
    const wants = (tree: PageTree): boolean => withEntries || tree.name === 'meta' || tree === meta.main;
    const entry = (tree: PageTree, node: LeafNode): void => {
      if (wants(tree)) index.add(file, tree, node);
    };
    const pagesMax = usedBytes <= STORE_CHECK_BYTES_MAX ? undefined : STORE_CHECK_PAGES_MAX;
    const { tables } = walkPages(file, meta, { entry, wants }, pagesMax);
    checkFormat(path, index.format);
    for (const reason of wrongTables(tables, index.format)) throw new PageDamage(reason);
    for (const damage of index.damaged) throw damage;
    if (!withEntries) return;
    for (const reason of index.disagreements()) throw new PageDamage(reason);
    for (const address of index.wrongBlobs(file)) throw new PageDamage(`the blob ${address} is damaged`);
  } finally {
    file.close();
  }
}

/** Sum of the entry counts in the tables' records, which are all in one page; rows and media excepted. */
function entriesBesideRows(file: PageFile, { main }: PageMeta): number {
  const page = main.root === undefined ? undefined : file.treePage(main.root, main);
  if (page?.kind !== 'leaf') return 0;
  return page.nodes.reduce(
    (sum, { tree }) => sum + (tree === undefined || tree.name === 'log' || tree.name === 'media' ? 0 : tree.entries),
    0,
  );
}

function checkFormat(path: string, format: number | undefined): void {
  if (format === undefined) throw new PageDamage('it is not a journal of this library');
  if (format <= STORE_FORMAT) return;
  throw new StoreVersionError(
    `the store ${path} has format ${format}; this version reads up to ${STORE_FORMAT}. Nothing was written`,
    { data: { path, found: format, supported: STORE_FORMAT } },
  );
}
