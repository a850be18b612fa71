/**
 * Reads pages of an LMDB file without LMDB. LMDB trusts its file: a damaged file ends the process with a signal. Here
 * every length and location is checked before it is used, so a file of any bytes gives pages or `PageDamage`.
 *
 * Owns: one file opened for reading, and the pieces of it that were read last. Writes nothing. Reads block the thread.
 * The layout is in `page-layout.ts`.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { DOCTOR_PIECES_MAX, STORE_CHECK_BYTES_MAX, STORE_ROOM_BYTES_MAX } from '../../base/bounds.ts';
import {
  BRANCH_FLAG,
  DATA_VERSION,
  INTEGER_KEY_FLAG,
  LEAF_FLAG,
  MAGIC,
  META_FLAG,
  META_TRANSACTION_AT,
  NODE_BIG_DATA,
  NODE_HEADER_BYTES,
  NODE_SUB_DATA,
  OVERFLOW_FLAG,
  PAGE_BYTES_AT,
  PAGE_HEADER_BYTES,
} from './page-layout.ts';

const TREE_BYTES = 48;
const OVERFLOW_BYTES = 24;
const META_BYTES = 168;
const PAGE_BYTES_MIN = 512;
const PAGE_BYTES_MAX = 65_536;
const PAGE_BYTES_USUAL = 4_096;
/** The most levels of a tree: LMDB's own bound. */
const DEPTH_MAX = 32;
const PIECE_BYTES = 256 * 1024;
/** Bytes read ahead when pages are visited in random order. */
const SCATTERED_PIECE_BYTES = 16 * 1024;
const UINT16 = 2 ** 16;
const UINT32 = 2 ** 32;
/** Address space that a 64-bit process can have. */
const MAP_BYTES_MAX = 2 ** 47;

/**
 * The error for a page, or a reference to a page, that is not what LMDB wrote. `page` is missing for damage of the
 * whole file.
 */
export class PageDamage extends Error {
  override readonly name: string = 'PageDamage';
  readonly page: number | undefined;

  constructor(reason: string, page?: number) {
    super(page === undefined ? reason : `page ${page}: ${reason}`);
    this.page = page;
  }
}

/** The contents of a tree's record. `root` undefined: the tree is empty. */
export interface PageTree {
  readonly name: string;
  readonly flags: number;
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
  readonly entries: number;
  readonly root: number | undefined;
}

/** The content of a meta page: one state of the file. */
export interface PageMeta {
  readonly pageBytes: number;
  readonly lastPage: number;
  readonly transaction: number;
  readonly free: PageTree;
  readonly main: PageTree;
}

/** A child of a branch page. `key` is empty for the first. */
export interface BranchNode {
  readonly key: Buffer;
  readonly page: number;
}

/** The location of a large value, and the commit that wrote it. */
export interface OverflowPlace {
  readonly page: number;
  readonly pages: number;
  readonly transaction: number;
}

/**
 * An entry of a leaf page. The value is `length` bytes at `offset` of the file; with `overflow`, the value is in
 * overflow pages.
 */
export interface LeafNode {
  readonly key: Buffer;
  readonly offset: number;
  readonly length: number;
  readonly overflow?: OverflowPlace;
  /** The record of a table, if the entry is such a record. */
  readonly tree?: PageTree;
}

/** A page of a tree, checked. */
export type TreePage =
  | { readonly kind: 'branch'; readonly nodes: readonly BranchNode[] }
  | { readonly kind: 'leaf'; readonly nodes: readonly LeafNode[] };

/** A page of a tree whose header and table of entries are right. */
export interface PageFrame {
  readonly number: number;
  readonly kind: TreePage['kind'];
  readonly bytes: Buffer;
  /** The same bytes as words of 16 bits, for the loops over entries. */
  readonly words: Uint16Array;
  /** Offsets of the page's entries, all even, in the order of their keys. */
  readonly places: readonly number[];
}

/** An LMDB file opened for reading; see the head of the file. */
export class PageFile {
  readonly path: string;
  /** Bytes of the file when it was opened. */
  readonly size: number;
  readonly #descriptor: number;
  /** Pieces of the file, least recently used first. */
  readonly #pieces = new Map<number, Buffer>();
  #pieceBytes: number;
  #pageBytes = 0;
  #transaction = 0;

  /** Throws the system's error. `order`: the order in which the pages of a large file will be visited. */
  constructor(path: string, order: 'scattered' | 'in order' = 'in order') {
    this.path = path;
    this.#descriptor = openSync(path, 'r');
    this.size = fstatSync(this.#descriptor).size;
    this.#pieceBytes = order === 'scattered' ? SCATTERED_PIECE_BYTES : PIECE_BYTES;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** Number of pages that are completely in the file. */
  get pages(): number {
    return this.#pageBytes === 0 ? 0 : Math.floor(this.size / this.#pageBytes);
  }

  /**
   * `length` bytes at `offset`; throws `PageDamage` when the file has fewer. The bytes belong to this object, not to
   * the caller.
   */
  bytes(offset: number, length: number): Buffer {
    if (!(offset >= 0 && length >= 0 && offset + length <= this.size)) throw new PageDamage('the file is cut short');
    const pieceBytes = this.#pieceBytes;
    const first = Math.floor(offset / pieceBytes);
    const at = offset - first * pieceBytes;
    if (at + length > pieceBytes) return this.#read(offset, length);
    const piece = this.#piece(first, pieceBytes);
    if (at + length > piece.length) throw new PageDamage('the file is cut short');
    return piece.subarray(at, at + length);
  }

  /**
   * Checks both meta pages against each other and returns the trees of the newer one. Throws `PageDamage`. A commit
   * with an even number writes the first meta page, a commit with an odd number the second. So the two are one commit
   * apart.
   */
  meta(): PageMeta {
    if (this.size === 0) throw new PageDamage('the file is empty');
    const first = parseMeta(this.bytes(0, META_BYTES));
    const second = parseMeta(this.bytes(first.pageBytes, META_BYTES));
    if (second.pageBytes !== first.pageBytes) throw new PageDamage('its two meta pages disagree');
    const [older, newer] =
      first.transaction > second.transaction ? ([second, first] as const) : ([first, second] as const);
    const isPair = newer.transaction - older.transaction === 1 && first.transaction % 2 === 0;
    if (!isPair && newer.transaction !== 0) throw new PageDamage('its two meta pages disagree');
    this.#pageBytes = first.pageBytes;
    this.#transaction = newer.transaction;
    this.#readAtOnce(newer);
    for (const { root } of [newer.free, newer.main]) if (root !== undefined) this.#checkPlace(root);
    for (const meta of [first, second]) this.#checkCommit(meta);
    return newer;
  }

  /**
   * Returns the newer of the usable meta pages, for a file in which `meta` finds damage. The returned page may describe
   * the commit before the last one. Undefined when neither meta page is usable. If neither can be read, the usual page
   * size is assumed, so that other pages can still be read.
   */
  anyMeta(): PageMeta | undefined {
    const found: PageMeta[] = [];
    for (const offset of [0, PAGE_BYTES_USUAL]) {
      try {
        found.push(parseMeta(this.bytes(offset, META_BYTES)));
      } catch (error) {
        if (!(error instanceof PageDamage)) throw error;
      }
    }
    this.#pageBytes = found[0]?.pageBytes ?? PAGE_BYTES_USUAL;
    const isCommit = (meta: PageMeta): boolean => {
      try {
        this.#checkCommit(meta);
        return true;
      } catch (error) {
        if (error instanceof PageDamage) return false;
        throw error;
      }
    };
    const [newest] = found.filter(isCommit).sort((a, b) => b.transaction - a.transaction);
    this.#transaction = newest?.transaction ?? Number.MAX_SAFE_INTEGER;
    return newest;
  }

  /** Reads a page of `tree`; throws `PageDamage` unless it is a page of that tree. Call `meta` first. */
  treePage(number: number, tree: PageTree): TreePage {
    const frame = this.frame(number);
    const nodes = frame.kind === 'leaf' ? this.leafNodes(frame, tree) : this.branchNodes(frame);
    return { kind: frame.kind, nodes } as TreePage;
  }

  /** Reads the header and the table of entries of a tree page, but not the entries. Throws like `treePage`. */
  frame(number: number): PageFrame {
    this.#checkPlace(number);
    const size = this.#pageBytes;
    const page = this.bytes(number * size, size);
    if (readNumber(page, 0) !== number) throw new PageDamage('it has the number of another page', number);
    // If a page claims a later commit, LMDB would treat it as a page that may be overwritten.
    if (!(readNumber(page, 8) <= this.#transaction)) throw new PageDamage('it claims to be of a later commit', number);
    const flags = page.readUInt16LE(18);
    const lower = page.readUInt16LE(20);
    const upper = page.readUInt16LE(22);
    const body = size - PAGE_HEADER_BYTES;
    if (flags !== BRANCH_FLAG && flags !== LEAF_FLAG) throw new PageDamage('it is not a tree page', number);
    const isOdd = lower % 2 !== 0 || lower > upper || upper > body;
    if (isOdd || lower === 0) throw new PageDamage('its table of entries is damaged', number);
    const words = new Uint16Array(page.buffer, page.byteOffset, size / 2);
    const places: number[] = [];
    const end = (PAGE_HEADER_BYTES + lower) / 2;
    for (let index = PAGE_HEADER_BYTES / 2; index < end; index += 1) {
      const place = words[index] ?? 0;
      const isInside = place >= upper && place + NODE_HEADER_BYTES <= body;
      if (!isInside || (place & 1) !== 0) throw new PageDamage('an entry lies outside', number);
      places.push(PAGE_HEADER_BYTES + place);
    }
    return { number, kind: flags === LEAF_FLAG ? 'leaf' : 'branch', bytes: page, words, places };
  }

  /** The entries of a branch page. Throws `PageDamage`. */
  branchNodes({ bytes, number, places }: PageFrame): readonly BranchNode[] {
    return places.map((at, index): BranchNode => {
      const key = keyAt(bytes, number, at);
      if (key.length === 0 && index > 0) throw new PageDamage('an entry without a key', number);
      const child = bytes.readUInt32LE(at) + bytes.readUInt16LE(at + 4) * UINT32;
      this.#checkPlace(child);
      return { key, page: child };
    });
  }

  /** The entries of a leaf page. Throws `PageDamage`. */
  leafNodes({ bytes, number, places }: PageFrame, tree: PageTree): readonly LeafNode[] {
    return places.map((at) => this.#leafNode(bytes, number, at, tree));
  }

  /**
   * Checks the entries of a leaf page as `leafNodes` does, and returns only those entries whose values lie elsewhere or
   * are tables. A page of small values may have two hundred other entries, which the caller does not need.
   */
  distantNodes({ bytes, words, number, places }: PageFrame, tree: PageTree): readonly LeafNode[] {
    const distant: LeafNode[] = [];
    const isInteger = (tree.flags & INTEGER_KEY_FLAG) !== 0;
    const size = this.#pageBytes;
    for (let index = 0; index < places.length; index += 1) {
      const at = places[index] ?? 0;
      const node = at >> 1;
      const keyBytes = words[node + 3] ?? 0;
      const end = at + NODE_HEADER_BYTES + keyBytes + (words[node] ?? 0) + (words[node + 1] ?? 0) * UINT16;
      const isPlain = words[node + 2] === 0 && keyBytes > 0 && end <= size;
      // An entry that this quick check does not accept gets the full check, which reports its damage in the usual way.
      if (!isPlain || (isInteger && keyBytes !== 4 && keyBytes !== 8)) {
        distant.push(this.#leafNode(bytes, number, at, tree));
      }
    }
    return distant;
  }

  /** Checks that the header of a value's overflow pages matches its entry. Throws `PageDamage`. */
  checkOverflow({ page, pages, transaction }: OverflowPlace): void {
    const header = this.bytes(page * this.#pageBytes, PAGE_HEADER_BYTES);
    const isRight =
      readNumber(header, 0) === page &&
      readNumber(header, 8) === transaction &&
      transaction <= this.#transaction &&
      header.readUInt16LE(18) === OVERFLOW_FLAG &&
      header.readUInt32LE(20) === pages;
    if (!isRight) throw new PageDamage('it is not the first page of the expected value', page);
  }

  #leafNode(page: Buffer, number: number, at: number, tree: PageTree): LeafNode {
    const key = keyAt(page, number, at);
    const isKeyRight = (tree.flags & INTEGER_KEY_FLAG) === 0 || key.length === 4 || key.length === 8;
    if (key.length === 0 || !isKeyRight) throw new PageDamage('a key is damaged', number);
    const length = page.readUInt32LE(at);
    const flags = page.readUInt16LE(at + 4);
    const data = at + NODE_HEADER_BYTES + key.length;
    const size = this.#pageBytes;
    if (flags === NODE_BIG_DATA) {
      if (data + OVERFLOW_BYTES > size) throw new PageDamage('an entry lies outside', number);
      const first = readNumber(page, data);
      const pages = readNumber(page, data + 16);
      this.#checkPlace(first);
      const end = first * size + PAGE_HEADER_BYTES + length;
      // The file may end inside the last page.
      const isRight = pages > 0 && end <= this.size && PAGE_HEADER_BYTES + length <= pages * size;
      if (!isRight) throw new PageDamage('the file is cut short', first);
      return {
        key,
        offset: first * size + PAGE_HEADER_BYTES,
        length,
        overflow: { page: first, pages, transaction: readNumber(page, data + 8) },
      };
    }
    if (data + length > size) throw new PageDamage('an entry lies outside', number);
    const node = { key, offset: number * size + data, length };
    if (flags === 0) return node;
    if (flags !== NODE_SUB_DATA || length !== TREE_BYTES) throw new PageDamage('an entry has an unknown kind', number);
    const name = key.toString('latin1').replace(/\0$/, '');
    return { ...node, tree: parseTree(page, data, name) };
  }

  /**
   * Every commit writes the root of the tables again, and the pages of the last two commits are never overwritten. If a
   * root belongs to another commit, the commit number in a meta page is damaged. The older meta page may then look like
   * the newer one.
   */
  #checkCommit({ main: { root }, transaction }: PageMeta): void {
    if (root === undefined) return;
    this.#checkPlace(root);
    const written = readNumber(this.bytes(root * this.#pageBytes, PAGE_HEADER_BYTES), 8);
    if (written !== transaction) throw new PageDamage('it is not of the commit its meta page names', root);
  }

  #checkPlace(page: number): void {
    if (!(page >= 2)) throw new PageDamage('it leads to no page', page);
    if (page >= this.size / this.#pageBytes) throw new PageDamage('the file is cut short', page);
  }

  /**
   * Makes all used pages of a small file one piece, but not the free room behind them, which may be large. If that room
   * is larger than a store ever keeps, the number of the last page may be damaged, so the pieces keep their usual size.
   */
  #readAtOnce({ lastPage, pageBytes }: PageMeta): void {
    const usedBytes = (lastPage + 1) * pageBytes;
    if (usedBytes > STORE_CHECK_BYTES_MAX || this.size > usedBytes + 2 * STORE_ROOM_BYTES_MAX) return;
    this.#pieces.clear();
    this.#pieceBytes = usedBytes;
  }

  #piece(index: number, pieceBytes: number): Buffer {
    const known = this.#pieces.get(index);
    if (known !== undefined) {
      this.#pieces.delete(index);
      this.#pieces.set(index, known);
      return known;
    }
    const offset = index * pieceBytes;
    const piece = this.#read(offset, Math.min(pieceBytes, this.size - offset));
    this.#pieces.set(index, piece);
    const [oldest] = this.#pieces.keys();
    if (this.#pieces.size > DOCTOR_PIECES_MAX && oldest !== undefined) this.#pieces.delete(oldest);
    return piece;
  }

  #read(offset: number, length: number): Buffer {
    const buffer = Buffer.allocUnsafe(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#descriptor, buffer, done, length - done, offset + done);
      if (read === 0) throw new PageDamage('the file is cut short');
      done += read;
    }
    return buffer;
  }
}

/** Compares two keys of a table. The result is below, equal to or above zero. */
export function compareKeys(a: Buffer, b: Buffer, tree: PageTree): number {
  if ((tree.flags & INTEGER_KEY_FLAG) === 0) return a.compare(b);
  return integerOf(a) - integerOf(b);
}

/** The number in a key of a table of integers. */
export function integerOf(key: Buffer): number {
  return integerAt(key, 0, key.length);
}

/** The key of an entry. Throws `PageDamage` when the key is outside the page. */
export function entryKey({ bytes, number, places }: PageFrame, index: number): Buffer {
  return keyAt(bytes, number, places[index] ?? 0);
}

/**
 * True when the keys of a page's entries rise, starting with the entry at `first`. Makes no buffer and calls no
 * function for each key, because this code runs before V8 compiles it. Throws `PageDamage` for a key that lies outside.
 */
export function doKeysRise(frame: PageFrame, first: number, tree: PageTree): boolean {
  return (tree.flags & INTEGER_KEY_FLAG) === 0 ? doTextsRise(frame, first) : doIntegersRise(frame, first);
}

function doTextsRise({ bytes, words, number, places }: PageFrame, first: number): boolean {
  let before = 0;
  let bytesBefore = 0;
  for (let index = first; index < places.length; index += 1) {
    const at = places[index] ?? 0;
    const start = at + NODE_HEADER_BYTES;
    const length = words[(at >> 1) + 3] ?? 0;
    if (start + length > bytes.length) throw new PageDamage('a key lies outside', number);
    if (index > first) {
      let same = 0;
      while (same < length && same < bytesBefore && bytes[start + same] === bytes[before + same]) same += 1;
      // If one key is the beginning of the other, the shorter key comes first.
      const isBeginning = same === length || same === bytesBefore;
      const isAbove = isBeginning ? length > bytesBefore : (bytes[start + same] ?? 0) > (bytes[before + same] ?? 0);
      if (!isAbove) return false;
    }
    before = start;
    bytesBefore = length;
  }
  return true;
}

function doIntegersRise({ bytes, words, number, places }: PageFrame, first: number): boolean {
  let before = -1;
  for (let index = first; index < places.length; index += 1) {
    const at = places[index] ?? 0;
    const key = (at + NODE_HEADER_BYTES) >> 1;
    const length = words[key - 1] ?? 0;
    if (at + NODE_HEADER_BYTES + length > bytes.length) throw new PageDamage('a key lies outside', number);
    const value =
      length === 8 ? readNumber(bytes, at + NODE_HEADER_BYTES) : (words[key] ?? 0) + (words[key + 1] ?? 0) * UINT16;
    if (value <= before) return false;
    before = value;
  }
  return true;
}

function integerAt(bytes: Buffer, start: number, end: number): number {
  return end - start === 8 ? readNumber(bytes, start) : bytes.readUInt32LE(start);
}

function keyAt(page: Buffer, number: number, at: number): Buffer {
  const start = at + NODE_HEADER_BYTES;
  const end = start + page.readUInt16LE(at + 6);
  if (end > page.length) throw new PageDamage('a key lies outside', number);
  return page.subarray(start, end);
}

function parseMeta(bytes: Buffer): PageMeta {
  if (bytes.readUInt16LE(18) !== META_FLAG || bytes.readUInt32LE(24) !== MAGIC) {
    throw new PageDamage('it does not begin as an LMDB file does');
  }
  if (bytes.readUInt32LE(28) !== DATA_VERSION) throw new PageDamage('it is of another version of LMDB');
  const pageBytes = bytes.readUInt32LE(PAGE_BYTES_AT);
  const isPower = (pageBytes & (pageBytes - 1)) === 0;
  if (!isPower || pageBytes < PAGE_BYTES_MIN || pageBytes > PAGE_BYTES_MAX) {
    throw new PageDamage(`a page size of ${pageBytes} bytes`);
  }
  const mapBytes = readNumber(bytes, 40);
  const free = parseTree(bytes, 48, 'free pages');
  const main = parseTree(bytes, 96, 'tables');
  const isOurs = free.flags === INTEGER_KEY_FLAG && main.flags === 0 && readNumber(bytes, 32) === 0;
  if (!isOurs || !(mapBytes > 0 && mapBytes <= MAP_BYTES_MAX)) throw new PageDamage('a meta page is damaged');
  const lastPage = readNumber(bytes, 144);
  const transaction = readNumber(bytes, META_TRANSACTION_AT);
  const isWhole = Number.isSafeInteger(transaction) && lastPage >= 1 && lastPage * pageBytes < mapBytes;
  if (!isWhole) throw new PageDamage('a meta page is damaged');
  return { pageBytes, lastPage, transaction, free, main };
}

function parseTree(bytes: Buffer, at: number, name: string): PageTree {
  const root = readNumber(bytes, at + 40);
  const isEmpty = bytes.readUInt32LE(at + 40) === UINT32 - 1 && bytes.readUInt32LE(at + 44) === UINT32 - 1;
  const tree: PageTree = {
    name,
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    branchPages: readNumber(bytes, at + 8),
    leafPages: readNumber(bytes, at + 16),
    overflowPages: readNumber(bytes, at + 24),
    entries: readNumber(bytes, at + 32),
    root: isEmpty ? undefined : root,
  };
  const isRight = isEmpty ? tree.depth === 0 && tree.entries === 0 : tree.depth >= 1 && tree.depth <= DEPTH_MAX;
  if (!isRight || root === 0) throw new PageDamage(`the record of the table ${JSON.stringify(name)} is damaged`);
  return tree;
}

/** Reads a number of 64 bits. A number above 2^53 becomes Infinity, which fails every check of a location or count. */
function readNumber(bytes: Buffer, at: number): number {
  const high = bytes.readUInt32LE(at + 4);
  return high >= 2 ** 21 ? Number.POSITIVE_INFINITY : bytes.readUInt32LE(at) + high * UINT32;
}
