/** `write_file`: writes a whole file, completely or not at all (contract §11.2). */
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { sep } from 'node:path';
import { z } from 'zod';
import { FILE_BYTES_MAX } from '../../base/bounds.ts';
import { systemCodeOf } from '../../base/errors.ts';
import { parseOption } from '../../base/parse-option.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { type Tool, type ToolContext, tool } from '../tool.ts';
import { withOrigin } from '../tool-origin.ts';
import { FileToolError, failureText, type Location, locateNew, readRegular } from './file-access.ts';
import { inTurn, replaceFile, syncName } from './replace-file.ts';

/** Options of `writeFile`. */
export interface WriteFileOptions {
  /**
   * Nothing outside this directory is written, not even through a link or `..`. Relative paths start here. If missing,
   * any file may be written.
   */
  readonly root?: string;
  /** UTF-8 bytes of the largest content; default 10 MiB. */
  readonly maxFileSize?: number;
}

/** The model's input. */
export interface WriteFileInput {
  readonly path: string;
  readonly content: string;
}

interface Bounds {
  readonly root: string | undefined;
  readonly maxFileSize: number;
}

const optionsSchema = z.strictObject({
  root: z.string().min(1).optional(),
  maxFileSize: z.number().int().positive().optional(),
});

const input = z.object({
  path: z.string().describe('Path of the file; a relative one starts at the working directory'),
  content: z.string().describe('The whole content, written as it is'),
});

/**
 * A `write_file` tool with its own options. Throws `ConfigError` for bad options. The tool's failures are results
 * (`{ error }`).
 *
 * The file is replaced in one step: after a kill, or for a reader, it has the old content or the new. Missing
 * directories are made, links are followed, and the mode stays. The content is on disk when the result is available.
 *
 * The tool's effect is `probe`:
 * - not `pure`: a pure call may run before the log has it, and would write a file that no logged call asked for;
 * - not `keyed`: a second run would undo changes that others made in between;
 * - not `once`: the file shows whether the call took effect.
 *
 * After a crash, a file that has the content is answered as written, and is not touched. Any other file is written.
 * Such a file may never have been written by the call, or may have changed since. These two cases look the same, so the
 * requested content wins.
 */
export function writeFile(options: WriteFileOptions = {}): Tool<WriteFileInput> {
  const given = parseOption(optionsSchema, 'writeFile', options);
  const bounds: Bounds = {
    root: given.root,
    maxFileSize: given.maxFileSize ?? FILE_BYTES_MAX,
  };
  const made = tool({
    name: 'write_file',
    description:
      'Write a text file: the content becomes the whole file, whatever was there before. Missing directories are made. ' +
      'To change a part of a file use edit_file.',
    snippet: 'write a text file, whole',
    input,
    effect: 'probe',
    run: async (call, context) => {
      try {
        return await write(call, bounds, context);
      } catch (error) {
        return { error: failureText(error, call.path, 'write') };
      }
    },
    probe: async ({ input: call }) => {
      try {
        return await writtenAnswer(call, bounds);
      } catch {
        // If the check fails, the run reports why.
        return undefined;
      }
    },
  });
  return withOrigin(made, workerUrl('./write-file', import.meta.url).href, 'writeFile', given);
}

async function write(call: WriteFileInput, bounds: Bounds, { signal }: ToolContext): Promise<string> {
  const { path } = call;
  const bytes = Buffer.from(call.content);
  if (bytes.length > bounds.maxFileSize) {
    throw new FileToolError(`Content too large for ${path}: ${bytes.length} bytes, at most ${bounds.maxFileSize}.`);
  }
  const place = await locateNew(path, bounds.root);
  if (isDirectoryName(path)) throw new FileToolError(`Is a directory: ${path}`);
  await inTurn(place.real, () => replaceFile({ real: place.real, path, root: bounds.root, bytes, signal }));
  return answer(call, place);
}

function isDirectoryName(path: string): boolean {
  return path.endsWith('/') || path.endsWith(sep);
}

function answer({ content }: WriteFileInput, { named }: Location): string {
  return `Wrote ${Buffer.byteLength(content)} bytes to ${named}`;
}

/** The answer of a call whose content is in the file. */
async function writtenAnswer(call: WriteFileInput, bounds: Bounds): Promise<string | undefined> {
  const place = await locateNew(call.path, bounds.root);
  const bytes = Buffer.from(call.content);
  const stats = await statsOf(place.real);
  if (stats === undefined || stats.size !== bytes.length || isDirectoryName(call.path)) return undefined;
  if (!bytes.equals(await readRegular(place, call.path, { ...bounds, remedy: '' }))) return undefined;
  await syncName(place.real);
  return answer(call, place);
}

async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** The `write_file` tool with the default bound, for every file that the process can write. */
export const write_file: Tool<WriteFileInput> = writeFile();
