/** `read_file`: reads a text file, or a window of its lines (contract §11.2). */
import { basename } from 'node:path';
import { z } from 'zod';
import { FILE_BYTES_MAX, FILE_BYTES_SHOWN_MAX, FILE_LINES_SHOWN_MAX } from '../../base/bounds.ts';
import { parseOption } from '../../base/parse-option.ts';
import { openedFile } from '../../journal/encryption/sealed-file.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { fileKeyOf } from '../file-key.ts';
import { type Tool, tool } from '../tool.ts';
import { withOrigin } from '../tool-origin.ts';
import { FileToolError, failureText, locate, readRegular } from './file-access.ts';

/** Options of `readFile`. */
export interface ReadFileOptions {
  /**
   * Files outside this directory cannot be read, not even through a link or `..`. Relative paths start here. If
   * missing, any file may be read.
   */
  readonly root?: string;
  /** Bytes of the largest file; default 10 MiB. */
  readonly maxFileSize?: number;
  /** Lines of one answer; default 2,000. */
  readonly maxReadLines?: number;
  /** Bytes of one answer; default 50,000. */
  readonly maxReadBytes?: number;
}

/** The model's input. */
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

const REMEDY = 'use bash with head or tail for parts of it';

/**
 * A `read_file` tool with its own bounds. Throws `ConfigError` for bad options. The tool's failures are results
 * (`{ error }`).
 */
export function readFile(options: ReadFileOptions = {}): Tool<ReadFileInput> {
  const given = parseOption(optionsSchema, 'readFile', options);
  const bounds: Bounds = {
    root: given.root,
    maxFileSize: given.maxFileSize ?? FILE_BYTES_MAX,
    maxReadLines: given.maxReadLines ?? FILE_LINES_SHOWN_MAX,
    maxReadBytes: given.maxReadBytes ?? FILE_BYTES_SHOWN_MAX,
  };
  const made = tool({
    name: 'read_file',
    description:
      'Read a text file. Long files are shown in parts: continue with offset, the line to start at, and limit, the number of lines.',
    snippet: 'read a text file, whole or in parts',
    input,
    effect: 'pure',
    truncate: false,
    run: async (call, context) => {
      try {
        return await read(call, bounds, fileKeyOf(context));
      } catch (error) {
        return { error: failureText(error, call.path, 'read') };
      }
    },
  });
  return withOrigin(made, READ_FILE_URL, 'readFile', given);
}

/** The module of `read_file`, for tool threads. */
export const READ_FILE_URL: string = workerUrl('./read-file', import.meta.url).href;

/** `key`: the key of the file, if the file is an encrypted result. */
async function read(call: ReadFileInput, bounds: Bounds, key: Buffer | undefined): Promise<string> {
  const found = await readRegular(await locate(call.path, bounds.root), call.path, { ...bounds, remedy: REMEDY });
  const bytes = key === undefined ? found : openedFile(key, basename(call.path), found);
  if (bytes === undefined) throw new FileToolError(`The file cannot be decrypted: ${call.path}`);
  return windowOf(linesOf(new TextDecoder().decode(bytes)), call, bounds);
}

function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The requested lines, up to the first bound that is reached. If there are more, a hint says how to continue. */
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
    throw new FileToolError(
      `Line ${offset} exceeds ${bounds.maxReadBytes} bytes; use bash with sed or cut for parts of it.`,
    );
  }
  const last = offset + shown.length - 1;
  const text = shown.join('\n');
  if (last >= lines.length) return text;
  return `${text}\n\n[Showing lines ${offset}-${last} of ${lines.length}. Use offset=${last + 1} to continue.]`;
}

/** The `read_file` tool with the default bounds, for every file that the process can read. */
export const read_file: Tool<ReadFileInput> = readFile();
