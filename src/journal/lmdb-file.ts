/**
 * A look at an LMDB file before LMDB maps it. LMDB trusts its file: a foreign or cut one ends the process with a signal, which
 * no one can catch. Reads only.
 *
 * What is looked at: both meta pages, and that the file is as long as the newer one says. A file may rightly be a little
 * shorter, as pages that were taken and given back in one transaction are never written; then the trees are walked to see
 * whether a page that is needed is missing. Layout: struct MDB_meta, MDB_page and MDB_node of LMDB's mdb.c with the 24-byte
 * page header of data version 0x20.
 */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { StoreCorruptError } from '../base/errors.ts';

const META_FLAG = 0x08;
const BRANCH_FLAG = 0x01;
const LEAF_FLAG = 0x02;
const NODE_BIG_DATA = 0x01;
const NODE_SUB_DATA = 0x02;
const MAGIC = 0xbeefc0de;
const PAGE_HEADER_BYTES = 24;
const NODE_HEADER_BYTES = 8;
const META_BYTES = 160;
const PAGE_BYTES_MIN = 512;
const PAGE_BYTES_MAX = 65_536;
const NO_ROOT = 0xffff_ffff_ffff_ffffn;
/** Levels of a tree: more is a cycle. LMDB's own bound. */
const DEPTH_MAX = 32;

interface Meta {
  readonly pageBytes: number;
  readonly roots: readonly bigint[];
  readonly lastPage: bigint;
  readonly transaction: bigint;
}

/** Looks at a file that changes meanwhile, at most. */
const LOOKS_MAX = 5;

/** Throws `StoreCorruptError` naming `path` and the reason when the file cannot be one that LMDB wrote and kept whole. */
export async function checkLmdbFile(path: string): Promise<void> {
  for (let look = 1; ; look += 1) {
    const before = await stat(path);
    try {
      return await checkOnce(path);
    } catch (error) {
      const after = await stat(path);
      // An owner that is about to be fenced off may still write: what looks cut short was read between two of its pages.
      const isWritten = after.size !== before.size || after.mtimeMs !== before.mtimeMs;
      if (!isWritten || look === LOOKS_MAX) throw error;
    }
  }
}

async function checkOnce(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    if (size === 0) throw corrupt(path, 'the file is empty');
    const meta = await newestMeta(file, path, size);
    if (size < Number(meta.lastPage + 1n) * meta.pageBytes) {
      for (const root of meta.roots) await walkTree(file, path, size, meta.pageBytes, root, 0);
    }
  } finally {
    await file.close();
  }
}

async function newestMeta(file: FileHandle, path: string, size: number): Promise<Meta> {
  const first = parseMeta(await readBytes(file, path, 0, META_BYTES), path);
  const second = parseMeta(await readBytes(file, path, first.pageBytes, META_BYTES), path);
  if (second.pageBytes !== first.pageBytes) throw corrupt(path, 'its two meta pages disagree');
  const newest = first.transaction >= second.transaction ? first : second;
  const pages = BigInt(Math.ceil(size / first.pageBytes));
  for (const root of newest.roots) {
    if (root !== NO_ROOT && root >= pages) throw corrupt(path, 'the file is cut short');
  }
  return newest;
}

function parseMeta(bytes: Buffer, path: string): Meta {
  const flags = bytes.readUInt16LE(18);
  if ((flags & META_FLAG) === 0 || bytes.readUInt32LE(24) !== MAGIC) {
    throw corrupt(path, 'it does not begin as an LMDB file does');
  }
  const pageBytes = bytes.readUInt32LE(48);
  const isPower = (pageBytes & (pageBytes - 1)) === 0;
  if (!isPower || pageBytes < PAGE_BYTES_MIN || pageBytes > PAGE_BYTES_MAX) {
    throw corrupt(path, `a page size of ${pageBytes} bytes`);
  }
  return {
    pageBytes,
    roots: [bytes.readBigUInt64LE(88), bytes.readBigUInt64LE(136)],
    lastPage: bytes.readBigUInt64LE(144),
    transaction: bytes.readBigUInt64LE(152),
  };
}

/** Visits every page a tree needs; throws when one of them is not in the file. */
async function walkTree(
  file: FileHandle,
  path: string,
  size: number,
  pageBytes: number,
  root: bigint,
  depth: number,
): Promise<void> {
  if (root === NO_ROOT) return;
  if (depth > DEPTH_MAX) throw corrupt(path, 'its tree of pages is not a tree');
  const page = await readBytes(file, path, Number(root) * pageBytes, pageBytes);
  const flags = page.readUInt16LE(18);
  const nodes = page.readUInt16LE(20) >> 1;
  if ((flags & (BRANCH_FLAG | LEAF_FLAG)) === 0 || PAGE_HEADER_BYTES + nodes * 2 > pageBytes) {
    throw corrupt(path, `page ${root} is not a page of a tree`);
  }
  for (let index = 0; index < nodes; index += 1) {
    const at = PAGE_HEADER_BYTES + page.readUInt16LE(PAGE_HEADER_BYTES + index * 2);
    if (at + NODE_HEADER_BYTES > pageBytes) throw corrupt(path, `page ${root} is damaged`);
    const low = BigInt(page.readUInt32LE(at));
    const nodeFlags = page.readUInt16LE(at + 4);
    const data = at + NODE_HEADER_BYTES + page.readUInt16LE(at + 6);
    if ((flags & BRANCH_FLAG) !== 0) {
      await walkTree(file, path, size, pageBytes, low | (BigInt(nodeFlags) << 32n), depth + 1);
    } else if ((nodeFlags & NODE_SUB_DATA) !== 0) {
      if (data + 48 > pageBytes) throw corrupt(path, `page ${root} is damaged`);
      await walkTree(file, path, size, pageBytes, page.readBigUInt64LE(data + 40), depth + 1);
    } else if ((nodeFlags & NODE_BIG_DATA) !== 0) {
      if (data + 8 > pageBytes) throw corrupt(path, `page ${root} is damaged`);
      const end = Number(page.readBigUInt64LE(data)) * pageBytes + PAGE_HEADER_BYTES + Number(low);
      if (end > size) throw corrupt(path, 'the file is cut short');
    }
  }
}

async function readBytes(file: FileHandle, path: string, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await file.read(buffer, 0, length, position);
  if (bytesRead < length) throw corrupt(path, 'the file is cut short');
  return buffer;
}

function corrupt(path: string, reason: string): StoreCorruptError {
  return new StoreCorruptError(`the store ${path} cannot be read: ${reason}; the file was left as it is`, {
    data: { path, reason },
  });
}
