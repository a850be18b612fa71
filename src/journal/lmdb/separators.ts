/**
 * Shortens the keys in the branch pages of a compact copy. Such a key is called a separator. LMDB makes a separator
 * from the first entry of a page. When that entry is removed, the separator stays, perhaps with the name of a deleted
 * session. In a copy each separator becomes the shortest key that the entries of the copy need.
 *
 * A separator must be above the last key of the pages before it, and not above the first key of the pages that it leads
 * to. The new separator is the beginning of that first key, one byte longer than the part that both keys share. No
 * valid separator is shorter, so the new one fits in the place of the former one.
 *
 * Owns: the first and the last key of each visited page, until the branch page that leads to it is visited. Does not
 * own: the pages.
 *
 * The pages must be visited in the order of the file. A compact copy has each page before the branch page that leads to
 * it, and the pages of each table before those of the next table.
 */
import {
  BRANCH_FLAG,
  FLAGS_AT,
  INTEGER_KEY_FLAG,
  LEAF_FLAG,
  LOWER_AT,
  NODE_HEADER_BYTES,
  NODE_SUB_DATA,
  PAGE_HEADER_BYTES,
  UPPER_AT,
} from './page-layout.ts';

/** Offsets in an entry: the high bits of a child's page or the flags, and the length of the key. */
const NODE_HIGH_AT = 4;
const NODE_KEY_BYTES_AT = 6;
/** Offsets in the record of a table. */
const TREE_FLAGS_AT = 4;
const TREE_ROOT_AT = 40;
const UINT32 = 2 ** 32;

/** A table of a copy. */
interface CopiedTable {
  /** The number of the table's root page, which is the last page of the table in the file. */
  readonly root: number;
  /**
   * True if the table's keys are integers. Integers are compared as a whole, so the separators of the table stay as
   * they are.
   */
  readonly hasIntegers: boolean;
}

interface Keys {
  readonly first: Buffer;
  readonly last: Buffer;
}

/** See the head of the file. */
export class Separators {
  readonly #tables: readonly CopiedTable[];
  readonly #keys = new Map<number, Keys>();

  /** `tables`: the root page of the tree of tables. A journal has few tables, so they fit in one leaf page. */
  constructor(tables: Buffer) {
    if (tables.readUInt16LE(FLAGS_AT) !== LEAF_FLAG) throw new Error('the tables of the copy need more than one page');
    this.#tables = placesOf(tables)
      .flatMap((at) => tableAt(tables, at) ?? [])
      .sort((a, b) => a.root - b.root);
  }

  /** Visits a page of a tree. If it is a branch page, its separators are replaced. */
  visit(page: Buffer, number: number): void {
    if (this.#tables.find(({ root }) => number <= root)?.hasIntegers !== false) return;
    const places = placesOf(page);
    const keys = page.readUInt16LE(FLAGS_AT) === BRANCH_FLAG ? this.#branch(page, places) : leafKeys(page, places);
    this.#keys.set(number, { first: Buffer.from(keys.first), last: Buffer.from(keys.last) });
  }

  #branch(page: Buffer, places: readonly number[]): Keys {
    const children = places.map((at) => {
      const child = page.readUInt32LE(at) + page.readUInt16LE(at + NODE_HIGH_AT) * UINT32;
      const keys = this.#keys.get(child);
      if (keys === undefined) throw new Error(`the copy has page ${child} behind the page that leads to it`);
      this.#keys.delete(child);
      return { head: Buffer.from(page.subarray(at, at + NODE_HEADER_BYTES)), keys };
    });
    const lower = PAGE_HEADER_BYTES + page.readUInt16LE(LOWER_AT);
    page.fill(0, PAGE_HEADER_BYTES);
    let end = page.length;
    for (const [index, { head, keys }] of children.entries()) {
      const before = children[index - 1]?.keys.last;
      // LMDB does not use the first key of a branch page.
      const key = before === undefined ? Buffer.alloc(0) : separator(before, keys.first);
      head.writeUInt16LE(key.length, NODE_KEY_BYTES_AT);
      end -= even(NODE_HEADER_BYTES + key.length);
      if (end < lower) throw new Error('the separators of a page of the copy need more room than it has');
      head.copy(page, end);
      key.copy(page, end + NODE_HEADER_BYTES);
      page.writeUInt16LE(end - PAGE_HEADER_BYTES, PAGE_HEADER_BYTES + index * 2);
    }
    page.writeUInt16LE(end - PAGE_HEADER_BYTES, UPPER_AT);
    const [first, last] = [children[0]?.keys.first, children.at(-1)?.keys.last];
    if (first === undefined || last === undefined) throw new Error('a page of the copy is empty');
    return { first, last };
  }
}

/** The shortest key that is above `before` and not above `key`. */
function separator(before: Buffer, key: Buffer): Buffer {
  let shared = 0;
  while (shared < before.length && shared < key.length && before[shared] === key[shared]) shared += 1;
  return key.subarray(0, shared + 1);
}

function leafKeys(page: Buffer, places: readonly number[]): Keys {
  const [first, last] = [places[0], places.at(-1)];
  if (first === undefined || last === undefined) throw new Error('a page of the copy is empty');
  return { first: keyAt(page, first), last: keyAt(page, last) };
}

/** The offsets of a page's entries, in the order of their keys. */
function placesOf(page: Buffer): readonly number[] {
  const entries = page.readUInt16LE(LOWER_AT) / 2;
  return Array.from(
    { length: entries },
    (_, index) => PAGE_HEADER_BYTES + page.readUInt16LE(PAGE_HEADER_BYTES + index * 2),
  );
}

function keyAt(page: Buffer, at: number): Buffer {
  const start = at + NODE_HEADER_BYTES;
  return page.subarray(start, start + page.readUInt16LE(at + NODE_KEY_BYTES_AT));
}

/** The table that an entry records; undefined for a table without entries. */
function tableAt(page: Buffer, at: number): CopiedTable | undefined {
  if (page.readUInt16LE(at + NODE_HIGH_AT) !== NODE_SUB_DATA) return undefined;
  const record = at + NODE_HEADER_BYTES + page.readUInt16LE(at + NODE_KEY_BYTES_AT);
  const root = page.readBigUInt64LE(record + TREE_ROOT_AT);
  if (root > BigInt(Number.MAX_SAFE_INTEGER)) return undefined;
  const hasIntegers = (page.readUInt16LE(record + TREE_FLAGS_AT) & INTEGER_KEY_FLAG) !== 0;
  return { root: Number(root), hasIntegers };
}

function even(bytes: number): number {
  return bytes + (bytes % 2);
}
