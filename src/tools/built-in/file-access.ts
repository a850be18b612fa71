/**
 * The parts that all file tools share: resolving paths, containment in a root, bounded reading, and messages for file
 * system errors.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { systemCodeOf } from '../../base/errors.ts';
import { contains, isForbidden, openedPath } from './opened-file.ts';

/** A failure whose message the model receives. */
export class FileToolError extends Error {}

/** The location of a file. */
export interface Location {
  /** The path as the model named it, made absolute. */
  readonly named: string;
  /** The file's real path, with links resolved. */
  readonly real: string;
}

/** The most links followed for a path that does not exist yet; the system's own bound is 40. */
const LINKS_MAX = 40;

/**
 * The location of a file to read, with links resolved. If there is a root, the location is inside it (F72). Throws
 * `FileToolError` for a path outside the root, and for files of the kernel and of a store. Also throws the file
 * system's errors.
 */
export async function locate(path: string, root: string | undefined): Promise<Location> {
  checkPath(path);
  if (root !== undefined) return await locateInside(path, root, realpath);
  const named = resolve(path);
  // The path is checked before links are resolved, because links in /proc lead to any file that a process has open.
  if (await isForbidden(named, root)) throw forbidden(path);
  return await allowed({ named, real: await realpath(named) }, path, root);
}

/** Throws `FileToolError` for a location of the kernel or of a store. */
async function allowed(place: Location, path: string, root: string | undefined): Promise<Location> {
  if (await isForbidden(place.real, root)) throw forbidden(path);
  return place;
}

function forbidden(path: string): FileToolError {
  return new FileToolError(`Not permitted: ${path} belongs to the system, or to the store of a runtime.`);
}

/**
 * The location of a file to write. The file and its directories need not exist. Every link on the way is followed, even
 * a dangling one, so that new files cannot lie outside the root either. Throws like `locate`.
 */
export async function locateNew(path: string, root: string | undefined): Promise<Location> {
  checkPath(path);
  if (root !== undefined) return await locateInside(path, root, realPlace);
  const named = resolve(path);
  if (await isForbidden(named, root)) throw forbidden(path);
  return await allowed({ named, real: await realPlace(named) }, path, root);
}

function checkPath(path: string): void {
  if (path.trim() === '') throw new FileToolError('path cannot be blank');
}

async function locateInside(path: string, root: string, follow: (path: string) => Promise<string>): Promise<Location> {
  const realRoot = await realpath(root);
  const named = resolve(realRoot, path);
  // The path is checked before any access to the file, so that an answer reveals nothing about files outside the root.
  if (!contains(realRoot, named)) throw outside(path);
  if (await isForbidden(named, realRoot)) throw forbidden(path);
  const real = await follow(named);
  if (!contains(realRoot, real)) throw outside(path);
  return await allowed({ named, real }, path, realRoot);
}

function outside(path: string): FileToolError {
  return new FileToolError(`Outside the permitted directory: ${path}`);
}

/**
 * Throws `FileToolError` when an open file is outside the root, or is a file of the kernel or of a store. `asked`: the
 * path by which the file was opened.
 */
export async function checkOpened(
  handle: FileHandle,
  asked: string,
  path: string,
  root: string | undefined,
): Promise<void> {
  const real = await openedPath(handle, asked);
  if (real === undefined) throw outside(path);
  const realRoot = root === undefined ? undefined : await realpath(root);
  if (realRoot !== undefined && !contains(realRoot, real)) throw outside(path);
  if (await isForbidden(real, realRoot)) throw forbidden(path);
}

/** `realpath` of a path whose end may be missing: the missing names are kept as given. */
async function realPlace(path: string, linksLeft: number = LINKS_MAX): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
  }
  const parent = await realPlace(dirname(path), linksLeft);
  const place = join(parent, basename(path));
  const target = await linkTarget(place);
  if (target === undefined) return place;
  if (linksLeft === 0) throw new FileToolError(`Too many links: ${path}`);
  return await realPlace(resolve(parent, target), linksLeft - 1);
}

/** The target of a link; `undefined` for a path that is not a link or does not exist. */
async function linkTarget(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'ENOENT' || code === 'EINVAL') return undefined;
    throw error;
  }
}

/** The bounds of reading a file. */
export interface ReadBounds {
  readonly root: string | undefined;
  /** Bytes of the largest file. */
  readonly maxFileSize: number;
  /** Advice about a larger file, as the end of a sentence. */
  readonly remedy: string;
}

/**
 * All bytes of a regular file. Throws `FileToolError` for any other kind of file, and for a file beyond the bound. Also
 * throws the file system's errors.
 */
export async function readRegular({ real }: Location, path: string, bounds: ReadBounds): Promise<Buffer> {
  // O_NONBLOCK: opening a pipe without a writer would block a thread of Node's thread pool forever. O_NOFOLLOW: a link
  // that replaced the file after the check is refused. `checkOpened` detects a link that replaced a directory.
  const handle = await open(real, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0));
  try {
    await checkOpened(handle, real, path, bounds.root);
    const stats = await handle.stat();
    checkKind(stats, path);
    if (stats.size > bounds.maxFileSize) throw tooLarge(path, bounds);
    const bytes = await readBounded(handle, bounds.maxFileSize);
    if (bytes === undefined) throw tooLarge(path, bounds);
    return bytes;
  } finally {
    await handle.close();
  }
}

/** Throws `FileToolError` unless the file is a regular file. */
export function checkKind(stats: Stats, path: string): void {
  if (stats.isDirectory()) throw new FileToolError(`Is a directory: ${path}`);
  if (!stats.isFile()) throw new FileToolError(`Not a regular file: ${path}`);
}

function tooLarge(path: string, { maxFileSize, remedy }: ReadBounds): FileToolError {
  return new FileToolError(`File too large: ${path}. Max readable size is ${maxFileSize} bytes; ${remedy}.`);
}

/**
 * All bytes, or `undefined` when there are more than `bytesMax`. The size is not trusted: a file may grow, and some
 * files report no size at all.
 */
async function readBounded(handle: FileHandle, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let total = 0;
  for await (const chunk of handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
    total += chunk.length;
    if (total > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, total);
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'File not found',
  ENOTDIR: 'File not found',
  EISDIR: 'Is a directory',
  EACCES: 'Permission denied',
  EPERM: 'Permission denied',
  ELOOP: 'Too many links',
  ENAMETOOLONG: 'Path too long',
  ENXIO: 'Not a regular file',
  ENOSPC: 'No space left on device',
  EDQUOT: 'No space left on device',
  EFBIG: 'No space left on device',
  EROFS: 'Read-only file system',
  ERR_INVALID_ARG_VALUE: 'Invalid path',
};
/** Messages for failed writes that differ from those for failed reads. */
const WRITE_REASONS: Readonly<Record<string, string>> = {
  ENOTDIR: 'Not a directory on the way',
  EEXIST: 'Not a directory on the way',
};

/** The model's text for a failure. Accepts anything, never throws. */
export function failureText(error: unknown, path: string, deed: 'read' | 'write'): string {
  if (error instanceof FileToolError) return error.message;
  const code = systemCodeOf(error);
  const reason =
    deed === 'write' ? (reasonOf(WRITE_REASONS, code) ?? reasonOf(REASONS, code)) : reasonOf(REASONS, code);
  return reason === undefined ? `Cannot ${deed} ${path}: ${code ?? String(error)}` : `${reason}: ${path}`;
}

function reasonOf(reasons: Readonly<Record<string, string>>, code: string | undefined): string | undefined {
  return code !== undefined && Object.hasOwn(reasons, code) ? reasons[code] : undefined;
}
