/**
 * The stored form of a segment, and the class `StoredSegment`, which reads it. That class keeps the columns of the
 * documents and the first term of each block in memory. It reads texts, terms and posting lists on demand.
 *
 * ```
 * columns   5 × u32 for each document: session, seq, epoch seconds, length, end of its text; then u8: kind
 * texts     for each document: u32 CRC-32, UTF-8
 * postings  for each term: u32 CRC-32, the bytes of its posting list
 * blocks    of 32 terms, ascending: u32 CRC-32, then for each term: u16 length, UTF-8,
 *           u32 offset and u32 length of its postings, u32 number of its documents
 * index     u32 offset of each block and of the end of the last one; the first term of each block, one on a line
 * footer    JSON: the offsets of all these parts; then u32 length of the JSON, u32 its CRC-32, u32 magic number
 * ```
 *
 * All numbers are little-endian. Offsets in texts, postings and blocks count from the beginning of their part.
 *
 * Invariants:
 *  D1 every byte is checked against its checksum before it is used;
 *  D2 a segment does not change once it is written.
 */
import { crc32 } from 'node:zlib';
import { isRecord } from '../base/json.ts';
import { PostingList } from './posting-list.ts';
import type { SearchableText } from './searchable.ts';
import type { Segment, SegmentText } from './segment.ts';

/** The stored bytes of a segment. */
export interface SegmentBytes {
  readonly length: number;
  /** Reads `length` bytes from offset `at`. Throws if they cannot be read. */
  read(at: number, length: number): Buffer;
}

/** The bytes of a segment differ from those that were written. */
export class DamagedSegmentError extends Error {
  override readonly name = 'DamagedSegmentError';
}

interface Footer {
  readonly documents: number;
  readonly texts: number;
  readonly postings: number;
  readonly blocks: number;
  readonly index: number;
  readonly indexBytes: number;
  /** Checksum of columns and index. */
  readonly checksum: number;
}

const FORMAT = 1;
const MARK = 0x5453_4d31;
const TAIL_BYTES = 12;
const BLOCK_TERMS = 32;
const COLUMNS = 5;
const KINDS: readonly SearchableText['kind'][] = ['human', 'anima', 'system', 'thought'];

/** The stored form of a segment, which `StoredSegment` reads. */
export function encodeSegment(segment: Segment): readonly Buffer[] {
  const { columns, texts, textBytes } = encodeDocuments(segment);
  const { postings, postingBytes, blocks, blockBytes, index } = encodeTerms(segment);
  const texts0 = columns.length;
  const postings0 = texts0 + textBytes;
  const blocks0 = postings0 + postingBytes;
  const footer: Footer & { readonly v: number } = {
    v: FORMAT,
    documents: segment.count,
    texts: texts0,
    postings: postings0,
    blocks: blocks0,
    index: blocks0 + blockBytes,
    indexBytes: index.length,
    checksum: crc32(index, crc32(columns)),
  };
  const text = Buffer.from(JSON.stringify(footer));
  const tail = Buffer.alloc(TAIL_BYTES);
  tail.writeUInt32LE(text.length, 0);
  tail.writeUInt32LE(crc32(text), 4);
  tail.writeUInt32LE(MARK, 8);
  return [columns, ...texts, ...postings, ...blocks, index, text, tail];
}

function encodeDocuments(segment: Segment): {
  readonly columns: Buffer;
  readonly texts: readonly Buffer[];
  readonly textBytes: number;
} {
  const { count } = segment;
  const columns = Buffer.alloc(count * (4 * COLUMNS + 1));
  const texts: Buffer[] = [];
  let textBytes = 0;
  for (let document = 0; document < count; document += 1) {
    const { kind, text } = segment.textOf(document);
    const bytes = sealed(Buffer.from(text));
    texts.push(bytes);
    textBytes += bytes.length;
    const values = [
      segment.sessionOf(document),
      segment.seqOf(document),
      segment.secondsOf(document),
      segment.lengthOf(document),
      textBytes,
    ];
    for (const [column, value] of values.entries()) columns.writeUInt32LE(value, 4 * (column * count + document));
    columns.writeUInt8(KINDS.indexOf(kind), 4 * COLUMNS * count + document);
  }
  return { columns, texts, textBytes };
}

function encodeTerms(segment: Segment): {
  readonly postings: readonly Buffer[];
  readonly postingBytes: number;
  readonly blocks: readonly Buffer[];
  readonly blockBytes: number;
  readonly index: Buffer;
} {
  const postings: Buffer[] = [];
  const blocks: Buffer[] = [];
  const places: number[] = [];
  const firsts: string[] = [];
  let postingBytes = 0;
  let blockBytes = 0;
  let block: Buffer[] = [];
  const endBlock = (): void => {
    if (block.length === 0) return;
    places.push(blockBytes);
    const bytes = sealed(Buffer.concat(block));
    blocks.push(bytes);
    blockBytes += bytes.length;
    block = [];
  };
  for (const [term, list] of segment.terms()) {
    if (block.length === 0) firsts.push(term);
    const bytes = sealed(list.bytes);
    const name = Buffer.from(term);
    const entry = Buffer.alloc(2 + name.length + 12);
    entry.writeUInt16LE(name.length, 0);
    name.copy(entry, 2);
    entry.writeUInt32LE(postingBytes, 2 + name.length);
    entry.writeUInt32LE(bytes.length, 6 + name.length);
    entry.writeUInt32LE(list.count, 10 + name.length);
    block.push(entry);
    postings.push(bytes);
    postingBytes += bytes.length;
    if (block.length === BLOCK_TERMS) endBlock();
  }
  endBlock();
  places.push(blockBytes);
  const numbers = Buffer.alloc(4 * places.length);
  for (const [index, place] of places.entries()) numbers.writeUInt32LE(place, 4 * index);
  return {
    postings,
    postingBytes,
    blocks,
    blockBytes,
    index: Buffer.concat([numbers, Buffer.from(firsts.join('\n'))]),
  };
}

/** The bytes with their checksum before them. */
function sealed(bytes: Uint8Array): Buffer {
  const found = Buffer.allocUnsafe(4 + bytes.length);
  found.writeUInt32LE(crc32(bytes), 0);
  found.set(bytes, 4);
  return found;
}

function unsealed(bytes: Buffer): Buffer {
  const content = bytes.subarray(4);
  if (bytes.length < 4 || crc32(content) !== bytes.readUInt32LE(0)) throw new DamagedSegmentError('a checksum differs');
  return content;
}

interface TermEntry {
  readonly term: string;
  readonly at: number;
  readonly bytes: number;
  readonly count: number;
}

/** See the head of the file. */
export class StoredSegment implements Segment {
  readonly count: number;
  /** Bytes of memory that the segment takes. */
  readonly heldBytes: number;
  readonly #source: SegmentBytes;
  readonly #footer: Footer;
  readonly #columns: Uint32Array;
  readonly #kinds: Uint8Array;
  /** The offset of each block, then the end of the last block. */
  readonly #places: Uint32Array;
  /** The first term of each block. */
  readonly #firsts: readonly string[];

  /** Throws `DamagedSegmentError` if the bytes are not a whole segment. */
  constructor(source: SegmentBytes) {
    this.#source = source;
    this.#footer = readFooter(source);
    const { documents, texts, index, indexBytes, checksum } = this.#footer;
    const columns = source.read(0, texts);
    const listed = source.read(index, indexBytes);
    if (columns.length !== documents * (4 * COLUMNS + 1) || crc32(listed, crc32(columns)) !== checksum) {
      throw new DamagedSegmentError('the columns differ from their checksum');
    }
    this.count = documents;
    this.#columns = numbersOf(columns, COLUMNS * documents);
    this.#kinds = Uint8Array.from(columns.subarray(4 * COLUMNS * documents));
    const { places, firsts } = readIndex(listed, this.#footer.index - this.#footer.blocks);
    this.#places = places;
    this.#firsts = firsts;
    this.heldBytes = columns.length + listed.length * 2;
  }

  /** Bytes of storage that the segment takes. */
  get storedBytes(): number {
    return this.#source.length;
  }

  sessionOf(document: number): number {
    return this.#column(0, document);
  }

  seqOf(document: number): number {
    return this.#column(1, document);
  }

  secondsOf(document: number): number {
    return this.#column(2, document);
  }

  lengthOf(document: number): number {
    return this.#column(3, document);
  }

  textOf(document: number): SegmentText {
    const from = document === 0 ? 0 : this.#column(4, document - 1);
    const bytes = unsealed(this.#source.read(this.#footer.texts + from, this.#column(4, document) - from));
    return { kind: KINDS[this.#kinds[document] ?? 0] ?? 'human', text: bytes.toString() };
  }

  list(term: string): PostingList | undefined {
    let low = 0;
    let high = this.#firsts.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#firsts[middle] ?? '') <= term) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return undefined;
    for (const entry of this.#block(low - 1)) {
      if (entry.term !== term) continue;
      const bytes = this.#source.read(this.#footer.postings + entry.at, entry.bytes);
      return new PostingList(unsealed(bytes), entry.count);
    }
    return undefined;
  }

  *terms(): Iterable<readonly [string, PostingList]> {
    for (let block = 0; block < this.#firsts.length; block += 1) {
      const entries = this.#block(block);
      const from = entries[0]?.at ?? 0;
      const last = entries.at(-1);
      const end = last === undefined ? from : last.at + last.bytes;
      const lists = this.#source.read(this.#footer.postings + from, end - from);
      for (const { term, at, bytes, count } of entries) {
        yield [term, new PostingList(unsealed(lists.subarray(at - from, at - from + bytes)), count)];
      }
    }
  }

  #block(block: number): readonly TermEntry[] {
    const from = this.#places[block] ?? 0;
    const bytes = unsealed(this.#source.read(this.#footer.blocks + from, (this.#places[block + 1] ?? from) - from));
    const entries: TermEntry[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + 2 + bytes.readUInt16LE(at);
      entries.push({
        term: bytes.toString('utf8', at + 2, end),
        at: bytes.readUInt32LE(end),
        bytes: bytes.readUInt32LE(end + 4),
        count: bytes.readUInt32LE(end + 8),
      });
      at = end + 12;
    }
    return entries;
  }

  #column(column: number, document: number): number {
    return this.#columns[column * this.count + document] ?? 0;
  }
}

function readFooter(source: SegmentBytes): Footer {
  if (source.length < TAIL_BYTES) throw new DamagedSegmentError('too short');
  const tail = source.read(source.length - TAIL_BYTES, TAIL_BYTES);
  const bytes = tail.readUInt32LE(0);
  if (tail.readUInt32LE(8) !== MARK || bytes > source.length - TAIL_BYTES) throw new DamagedSegmentError('no footer');
  const text = source.read(source.length - TAIL_BYTES - bytes, bytes);
  if (crc32(text) !== tail.readUInt32LE(4)) throw new DamagedSegmentError('the footer differs from its checksum');
  const footer: unknown = JSON.parse(text.toString());
  if (!isRecord(footer) || footer['v'] !== FORMAT) throw new DamagedSegmentError('a format of another version');
  // The members need no check, because the checksum proves that the footer is as it was written.
  return footer as unknown as Footer;
}

function readIndex(
  bytes: Buffer,
  blocksEnd: number,
): { readonly places: Uint32Array; readonly firsts: readonly string[] } {
  // The last offset is the end of the blocks, and all other offsets are lower.
  let count = 0;
  while (bytes.readUInt32LE(4 * count) !== blocksEnd) count += 1;
  const places = numbersOf(bytes, count + 1);
  const text = bytes.toString('utf8', 4 * (count + 1));
  return { places, firsts: count === 0 ? [] : text.split('\n') };
}

/** Copies little-endian numbers into an array of their own type, for any byte order of the machine. */
function numbersOf(bytes: Buffer, count: number): Uint32Array {
  const numbers = new Uint32Array(count);
  for (let index = 0; index < count; index += 1) numbers[index] = bytes.readUInt32LE(4 * index);
  return numbers;
}
