/** `read_file`: a text file, or a window of its lines (contract §11.2). */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import { z } from 'zod';
import { parseOption, parseSettings } from '../../base/settings.ts';
import { type Tool, tool } from '../tool.ts';

/** Options of `readFile`; sizes default to the settings' defaults. */
export interface ReadFileOptions {
  /** Files outside this directory cannot be read, by link or by `..`; relative paths start here. Missing: no containment. */
  readonly root?: string;
  /** Bytes of the largest file. */
  readonly maxFileSize?: number;
  /** Lines of one answer. */
  readonly maxReadLines?: number;
  /** Bytes of one answer. */
  readonly maxReadBytes?: number;
}

/** What the model sends. */
export interface ReadFileInput {
  readonly path: string;
  readonly offset?: number | undefined;
  readonly limit?: number | undefined;
}

interface Bounds {
  readonly root: string | undefined;
  readonly maxFileSize: number;
  readonly maxReadLines: number;
  readonly maxReadBytes: number;
}

const size = z.number().int().positive();
const optionsSchema = z.strictObject({
  root: z.string().min(1).optional(),
  maxFileSize: size.optional(),
  maxReadLines: size.optional(),
  maxReadBytes: size.optional(),
});

const input = z.object({
  path: z.string().describe('Path of the file; a relative one starts at the working directory'),
  offset: z.number().int().optional().describe('First line to show, from 1'),
  limit: z.number().int().optional().describe('Lines to show at most'),
});

/** A failure told to the model. */
class ReadError extends Error {}

/**
 * A `read_file` tool with bounds of its own. Throws `ConfigError` for bad options. Its failures are results
 * (`{ error }`).
 */
export function readFile(options: ReadFileOptions = {}): Tool<ReadFileInput> {
  const given = parseOption(optionsSchema, 'readFile', options);
  const { tools } = parseSettings({});
  const bounds: Bounds = {
    root: given.root,
    maxFileSize: given.maxFileSize ?? tools.maxFileSize,
    maxReadLines: given.maxReadLines ?? tools.maxReadLines,
    maxReadBytes: given.maxReadBytes ?? tools.maxReadBytes,
  };
  return tool({
    name: 'read_file',
    description:
      'Read a text file. Long files are shown in parts: go on with offset, the line to start at, and limit, the number of lines.',
    snippet: 'read a text file, whole or in parts',
    input,
    effect: 'pure',
    truncate: false,
    run: async (call) => {
      try {
        return await read(call, bounds);
      } catch (error) {
        return { error: errorText(error, call.path) };
      }
    },
  });
}

async function read(call: ReadFileInput, bounds: Bounds): Promise<string> {
  if (call.path.trim() === '') throw new ReadError('path cannot be blank');
  const text = await contentOf(await locate(call.path, bounds.root), call.path, bounds);
  return windowOf(linesOf(text), call, bounds);
}

/** The file's own path, links resolved; inside the root where there is one (F72). */
async function locate(path: string, root: string | undefined): Promise<string> {
  if (root === undefined) return resolve(path);
  const realRoot = await realpath(root);
  const wanted = resolve(realRoot, path);
  // Before the disk is asked, so that an answer tells nothing of what lies outside.
  if (!contains(realRoot, wanted)) throw new ReadError(`Outside the permitted directory: ${path}`);
  const real = await realpath(wanted);
  if (!contains(realRoot, real)) throw new ReadError(`Outside the permitted directory: ${path}`);
  return real;
}

function contains(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

async function contentOf(file: string, path: string, bounds: Bounds): Promise<string> {
  // Not blocking: opening a pipe without a writer would hold a thread of the pool for ever. With a root, a link put in
  // the file's place after it was checked is refused.
  const link = bounds.root === undefined ? 0 : (constants.O_NOFOLLOW ?? 0);
  const handle = await open(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | link);
  try {
    checkKind(await handle.stat(), path, bounds.maxFileSize);
    const bytes = await readBounded(handle, bounds.maxFileSize);
    if (bytes === undefined) throw tooLarge(path, bounds.maxFileSize);
    return new TextDecoder().decode(bytes);
  } finally {
    await handle.close();
  }
}

function checkKind(stats: Stats, path: string, maxFileSize: number): void {
  if (stats.isDirectory()) throw new ReadError(`Is a directory: ${path}`);
  if (!stats.isFile()) throw new ReadError(`Not a regular file: ${path}`);
  if (stats.size > maxFileSize) throw tooLarge(path, maxFileSize);
}

function tooLarge(path: string, maxFileSize: number): ReadError {
  return new ReadError(
    `File too large: ${path}. Max readable size is ${maxFileSize} bytes; use bash with head or tail for parts of it.`,
  );
}

/** All bytes, or `undefined` when there are more than `bytesMax`: a file may grow, and some report no size at all. */
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

function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The lines asked for, up to the first bound, and a hint how to go on when there are more. */
function windowOf(lines: readonly string[], call: ReadFileInput, bounds: Bounds): string {
  if (lines.length === 0) return '';
  const offset = Math.max(1, call.offset ?? 1);
  const limit = Math.min(Math.max(1, call.limit ?? bounds.maxReadLines), bounds.maxReadLines);
  if (offset > lines.length) {
    return `[The file has ${lines.length} lines: offset ${offset} is beyond end of file.]`;
  }
  const shown: string[] = [];
  let bytes = 0;
  for (const line of lines.slice(offset - 1, offset - 1 + limit)) {
    bytes += Buffer.byteLength(line) + 1;
    if (bytes - 1 > bounds.maxReadBytes) break;
    shown.push(line);
  }
  if (shown.length === 0) {
    throw new ReadError(
      `Line ${offset} exceeds ${bounds.maxReadBytes} bytes; use bash with sed or cut for parts of it.`,
    );
  }
  const last = offset + shown.length - 1;
  const text = shown.join('\n');
  if (last >= lines.length) return text;
  return `${text}\n\n[Showing lines ${offset}-${last} of ${lines.length}. Use offset=${last + 1} to continue.]`;
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
  ERR_INVALID_ARG_VALUE: 'Invalid path',
};

function errorText(error: unknown, path: string): string {
  if (error instanceof ReadError) return error.message;
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  const reason = typeof code === 'string' && Object.hasOwn(REASONS, code) ? REASONS[code] : undefined;
  return reason === undefined ? `Cannot read ${path}: ${String(code ?? error)}` : `${reason}: ${path}`;
}

/** Reads any file the process can, with the settings' default bounds. */
export const read_file: Tool<ReadFileInput> = readFile();
