/**
 * A compact copy of an open environment (the LMDB file of one shard): a new file with the contents of one commit, and
 * nothing else.
 *
 * LMDB writes the copy on a thread of the pool, from a snapshot, while commits continue. The pages that commits free
 * meanwhile are not reused until the copy ends, so the source may grow.
 *
 * LMDB copies only the used parts of its tree pages, so the gaps in them have bytes of other pages. It copies overflow
 * pages, which hold the large values, whole. Behind its value, an overflow page may have bytes of a page that lay there
 * before. The branch pages have keys of removed entries (`separators.ts`). So every page of the copy is visited here
 * once more.
 *
 * Invariants:
 *  C1 the copy shows one commit: the newest one when the copy began, or a later one;
 *  C2 the copy has no byte that its commit does not have: gaps in pages and the ends of overflow pages are zeros, and
 *     the keys of branch pages are beginnings of keys that the copy has;
 *  C3 the copy passes the checks of `file.ts`, as a file that LMDB alone wrote does: each page header has the number of
 *     its commit, and the two meta pages are one commit apart;
 *  C4 when `copyCompact` resolves, the file is synced. If it rejects, a part of a file may be left.
 */
import { chmod, type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Key, RootDatabase } from 'lmdb';
import { COPY_PIECE_BYTES } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import { SliceWatch } from '../live-compaction.ts';
import {
  FLAGS_AT,
  LEAF_FLAG,
  LOWER_AT,
  META_TRANSACTION_AT,
  NODE_BIG_DATA,
  NODE_HEADER_BYTES,
  OVERFLOW_FLAG,
  PAGE_BYTES_AT,
  PAGE_HEADER_BYTES,
  UPPER_AT,
} from './page-layout.ts';
import { Separators } from './separators.ts';
import { DATA_FILE } from './tables.ts';

/** Offsets in the header of a page. */
const TRANSACTION_AT = 8;
const OVERFLOW_PAGES_AT = 20;
/** The commit number that LMDB writes into each copied tree page's header, and into each overflow value's entry. */
const COPIED_TRANSACTION = 1n;
/** Pages before the first page of a tree: the two meta pages. */
const META_PAGES = 2;

/**
 * If a copy fails, lmdb's error has the text of the system's error, but not its code. These are the codes of the texts
 * that a caller distinguishes.
 */
const CODES: readonly (readonly [text: RegExp, code: string])[] = [
  [/no space left/i, 'ENOSPC'],
  [/quota/i, 'EDQUOT'],
  [/too large/i, 'EFBIG'],
  [/input\/output/i, 'EIO'],
];

/**
 * Copies an environment into `directory`, which exists and has no data file. Resolves to the bytes of the copy. The
 * environment must stay open until then. Rejects with the system's error. `slices` measures the work on this thread.
 */
export async function copyCompact(
  root: RootDatabase<unknown, Key>,
  directory: string,
  slices: SliceWatch = new SliceWatch(),
): Promise<number> {
  try {
    await root.backup(directory, true);
  } catch (error) {
    const cause = asError(error);
    const code = CODES.find(([text]) => text.test(cause.message))?.[1];
    throw code === undefined ? cause : Object.assign(new Error(cause.message, { cause }), { code });
  }
  const path = join(directory, DATA_FILE);
  await chmod(path, PRIVATE_FILE_MODE);
  const file = await open(path, 'r+');
  try {
    const bytes = await clean(file, slices);
    await file.sync();
    return bytes;
  } finally {
    await file.close();
  }
}

/** Enforces C2 and C3. The file is read and written once, in pieces. Resolves to its size. */
async function clean(file: FileHandle, slices: SliceWatch): Promise<number> {
  const { size } = await file.stat();
  const head = await read(file, Buffer.alloc(PAGE_BYTES_AT + 4), 0);
  const pageBytes = head.readUInt32LE(PAGE_BYTES_AT);
  const tables = await read(file, Buffer.alloc(pageBytes), size - pageBytes);
  const cleaner = new PageCleaner(pageBytes, new Separators(tables));
  for (let offset = META_PAGES * pageBytes; offset < size; offset += COPY_PIECE_BYTES) {
    const piece = await read(file, Buffer.allocUnsafe(Math.min(COPY_PIECE_BYTES, size - offset)), offset);
    const distant = slices.run(() => cleaner.clean(piece, offset));
    await write(file, piece, offset);
    for (const { from, to } of distant) await write(file, Buffer.alloc(to - from), from);
  }
  await pairMetas(file, pageBytes, size);
  return size;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Cleans the pages of a copy. The pieces must be given in the order of the file. */
class PageCleaner {
  readonly #pageBytes: number;
  readonly #separators: Separators;
  /** The offset of the next page header. Only the first overflow page of a value has a header. */
  #next: number;

  constructor(pageBytes: number, separators: Separators) {
    this.#pageBytes = pageBytes;
    this.#separators = separators;
    this.#next = META_PAGES * pageBytes;
  }

  /** Cleans a piece at an offset of the file. Returns the ranges before the piece that must become zeros. */
  clean(piece: Buffer, offset: number): readonly Range[] {
    const distant: Range[] = [];
    while (this.#next < offset + piece.length) {
      const page = piece.subarray(this.#next - offset, this.#next - offset + this.#pageBytes);
      if (page.readUInt16LE(FLAGS_AT) === OVERFLOW_FLAG) {
        page.writeBigUInt64LE(COPIED_TRANSACTION, TRANSACTION_AT);
        this.#next += page.readUInt32LE(OVERFLOW_PAGES_AT) * this.#pageBytes;
        continue;
      }
      page.fill(0, PAGE_HEADER_BYTES + page.readUInt16LE(LOWER_AT), PAGE_HEADER_BYTES + page.readUInt16LE(UPPER_AT));
      this.#separators.visit(page, this.#next / this.#pageBytes);
      for (const { from, to } of this.#endsOfValues(page)) {
        // The pages of a value come before the page of its entry, often in the same piece.
        if (from < offset) distant.push({ from, to: Math.min(to, offset) });
        if (to > offset) piece.fill(0, Math.max(from, offset) - offset, to - offset);
      }
      this.#next += this.#pageBytes;
    }
    return distant;
  }

  /** The bytes behind the values that the entries of a page keep in overflow pages. */
  *#endsOfValues(page: Buffer): Iterable<Range> {
    if (page.readUInt16LE(FLAGS_AT) !== LEAF_FLAG) return;
    const end = PAGE_HEADER_BYTES + page.readUInt16LE(LOWER_AT);
    for (let at = PAGE_HEADER_BYTES; at < end; at += 2) {
      const node = PAGE_HEADER_BYTES + page.readUInt16LE(at);
      if (page.readUInt16LE(node + 4) !== NODE_BIG_DATA) continue;
      const place = node + NODE_HEADER_BYTES + page.readUInt16LE(node + 6);
      const first = Number(page.readBigUInt64LE(place));
      const pages = Number(page.readBigUInt64LE(place + 16));
      const from = first * this.#pageBytes + PAGE_HEADER_BYTES + page.readUInt32LE(node);
      yield { from, to: (first + pages) * this.#pageBytes };
    }
  }
}

/**
 * Enforces C3 for meta pages. LMDB writes the first meta page as that of an empty file. The second has the number of
 * the copy's commit. Here the first meta page gets the number of the commit before that one. The last page of the file
 * is the root of the tables. It gets the number of the copy's commit.
 */
async function pairMetas(file: FileHandle, pageBytes: number, size: number): Promise<void> {
  const commit = await read(file, Buffer.alloc(8), pageBytes + META_TRANSACTION_AT);
  const before = Buffer.alloc(8);
  before.writeBigUInt64LE(commit.readBigUInt64LE() - 1n);
  await write(file, before, META_TRANSACTION_AT);
  await write(file, commit, size - pageBytes + TRANSACTION_AT);
}

async function read(file: FileHandle, buffer: Buffer, offset: number): Promise<Buffer> {
  for (let done = 0; done < buffer.length; ) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, offset + done);
    if (bytesRead === 0) throw new Error(`the copy ends at ${offset + done} bytes`);
    done += bytesRead;
  }
  return buffer;
}

async function write(file: FileHandle, buffer: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    done += (await file.write(buffer, done, buffer.length - done, offset + done)).bytesWritten;
  }
}
