/**
 * Collects everything that can still be read from one environment (the LMDB file of one shard). It walks the tables as
 * far as possible. If the walk finds damage, all pages of the file are searched for entries. It writes nothing and does
 * not call LMDB.
 */

import { walkPages } from '../lmdb/page-walk.ts';
import { PageDamage, type PageFile, type PageMeta, type PageTree } from '../lmdb/pages.ts';
import { TABLE_FLAGS, type TableName } from '../lmdb/tables.ts';
import { rowTurns } from '../rows/row-codec.ts';
import { unpackTable } from '../rows/row-packing.ts';
import { StoreIndex, wrongTables } from './store-index.ts';

/** The collected contents of a file. */
export interface SalvageIndex {
  readonly index: StoreIndex;
  readonly damage: readonly { readonly reason: string; readonly page?: number }[];
  readonly pages: number;
  readonly freePages: number;
  /** True if the walk found damage, so that all pages were searched. Then deleted entries may reappear. */
  readonly isSearched: boolean;
}

/** The tables that an entry found by the search may belong to. They are tried in this order. */
const SEARCHED: readonly TableName[] = [
  'log',
  'keys',
  'names',
  'heads',
  'lastRows',
  'runnable',
  'dataKeys',
  'blobs',
  'media',
  'origins',
  'starts',
  'audit',
];

/** Collects the contents of a file. Throws only the system's errors. */
export function gatherIndex(file: PageFile): SalvageIndex {
  const index = new StoreIndex();
  const damage: { reason: string; page?: number }[] = [];
  const note = ({ message, page }: PageDamage): void => {
    damage.push(page === undefined ? { reason: message } : { reason: message, page });
  };
  let meta: PageMeta | undefined;
  let result: { readonly pagesSeen: number; readonly freePages: number } = { pagesSeen: 0, freePages: 0 };
  try {
    meta = file.meta();
  } catch (error) {
    if (!(error instanceof PageDamage)) throw error;
    note(error);
    meta = file.anyMeta();
  }
  if (meta !== undefined) {
    const entry = index.add.bind(index, file);
    const walked = walkPages(file, meta, { entry, damage: note });
    for (const reason of wrongTables(walked.tables, index.format)) damage.push({ reason });
    result = walked;
  }
  const isReached = damage.length === 0;
  if (!isReached) search(file, index);
  for (const each of index.damaged) note(each);
  if (isReached && index.damaged.length === 0) {
    for (const reason of index.disagreements()) damage.push({ reason });
  }
  return { index, damage, pages: result.pagesSeen, freePages: result.freePages, isSearched: !isReached };
}

/** Adds the entries of all leaf pages, also of pages no longer in use. Known entries stay as they are. */
function search(file: PageFile, index: StoreIndex): void {
  for (let number = 2; number < file.pages; number += 1) {
    const found = leafPage(file, number);
    for (const node of found) {
      for (const name of SEARCHED) {
        const piece = new StoreIndex();
        piece.add(file, treeNamed(name), node);
        if (piece.damaged.length === 0 && isWhole(file, piece)) {
          index.addMissing(piece);
          break;
        }
      }
    }
  }
}

function leafPage(
  file: PageFile,
  number: number,
): Extract<ReturnType<PageFile['treePage']>, { kind: 'leaf' }>['nodes'] {
  try {
    const page = file.treePage(number, treeNamed('log'));
    return page.kind === 'leaf' ? page.nodes : [];
  } catch (error) {
    if (error instanceof PageDamage) return [];
    throw error;
  }
}

/** False if the entry's key looks like a row number but its value is not a row. Then it is no entry of the log. */
function isWhole(file: PageFile, piece: StoreIndex): boolean {
  for (const [row, { offset, length }] of piece.rows) {
    try {
      rowTurns(unpackTable(file.bytes(offset, length), row), row);
    } catch {
      return false;
    }
  }
  return true;
}

function treeNamed(name: TableName): PageTree {
  // While the table of an entry is not known, its key may have any form.
  const empty = { depth: 1, branchPages: 0, leafPages: 0, overflowPages: 0, entries: 0, root: undefined };
  return { name, flags: name === 'log' ? 0 : TABLE_FLAGS[name], ...empty };
}
