/** `edit_file`: replaces one passage of a text file and answers with a diff (contract §11.2). */
import { z } from 'zod';
import { EDIT_ATTEMPTS_MAX, FILE_BYTES_MAX } from '../../base/bounds.ts';
import { parseOption } from '../../base/parse-option.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { type Tool, type ToolContext, tool } from '../tool.ts';
import { withOrigin } from '../tool-origin.ts';
import { FileToolError, failureText, type Location, locateNew, readRegular } from './file-access.ts';
import { regionDiff } from './region-diff.ts';
import { inTurn, replaceFile, syncName } from './replace-file.ts';
import { type Planned, planEdit, unplanEdit, type Wanted } from './text-edit.ts';

/** Options of `editFile`. */
export interface EditFileOptions {
  /**
   * No file outside this directory is changed, not even through a link or `..`. Relative paths start here. If missing,
   * any file may be changed.
   */
  readonly root?: string;
  /** Bytes of the largest file, before and after the edit; default 10 MiB. */
  readonly maxFileSize?: number;
}

/** The model's input. */
export interface EditFileInput {
  readonly path: string;
  readonly old_text: string;
  readonly new_text: string;
}

interface Bounds {
  readonly root: string | undefined;
  readonly maxFileSize: number;
  readonly remedy: string;
}

const optionsSchema = z.strictObject({
  root: z.string().min(1).optional(),
  maxFileSize: z.number().int().positive().optional(),
});

const input = z.object({
  path: z.string().describe('Path of the file; a relative one starts at the working directory'),
  old_text: z.string().describe('Text to replace, exactly as in the file; it must occur once'),
  new_text: z.string().describe('What to put in its place; empty to delete it'),
});

const FUZZY_NOTE = '[fuzzy match: old_text was found by its lines when white space was ignored. Check the diff.]\n\n';
const FOUND_NOTE = '[The call was cut off and its outcome looked for: new_text is in the file, old_text is not.]';

/**
 * An `edit_file` tool with its own options. Throws `ConfigError` for bad options. The tool's failures are results
 * (`{ error }`).
 *
 * The file is replaced in one step, as by `writeFile`. Of two simultaneous edits both are made: the second edit starts
 * from the result of the first. If another process changes the file during an edit, the file is read again. Only UTF-8
 * is edited: other encodings would lose bytes.
 *
 * The tool's effect is `probe`: a second run would not find `old_text`, or would find it in the text that the first run
 * inserted. After a crash the file is checked. If `new_text` is not where the edit would have put it, the edit is made.
 * If the file has `new_text` there but no `old_text`, the call is answered as done. If the file has both, the outcome
 * is reported as unknown, because `new_text` may contain `old_text`.
 */
export function editFile(options: EditFileOptions = {}): Tool<EditFileInput> {
  const given = parseOption(optionsSchema, 'editFile', options);
  const bounds: Bounds = {
    root: given.root,
    maxFileSize: given.maxFileSize ?? FILE_BYTES_MAX,
    remedy: 'use bash with sed to change a larger one',
  };
  const made = tool({
    name: 'edit_file',
    description:
      'Replace one part of a text file: old_text must occur exactly once and becomes new_text. Include enough lines ' +
      'around it to make it unique. Returns the change as a diff.',
    snippet: 'change one place of a text file',
    input,
    effect: 'probe',
    run: (call, { signal }) => withErrorResult(call, () => edit(call, bounds, signal)),
    probe: ({ input: call }) => withErrorResult(call, () => outcomeOf(call, bounds)),
  });
  return withOrigin(made, workerUrl('./edit-file', import.meta.url).href, 'editFile', given);
}

async function withErrorResult<T>(
  call: EditFileInput,
  work: () => Promise<T>,
): Promise<T | { readonly error: string }> {
  try {
    return await work();
  } catch (error) {
    return { error: failureText(error, call.path, 'write') };
  }
}

async function edit(call: EditFileInput, bounds: Bounds, signal: ToolContext['signal']): Promise<string> {
  const wanted = wantedOf(call);
  const place = await locateNew(call.path, bounds.root);
  return await inTurn(place.real, async () => {
    for (let attempt = 0; attempt < EDIT_ATTEMPTS_MAX; attempt += 1) {
      const answer = await editOnce({ call, wanted, place, bounds, signal });
      if (answer !== undefined) return answer;
    }
    throw new FileToolError(`${call.path} is being changed by others: try again`);
  });
}

function wantedOf({ path, old_text, new_text }: EditFileInput): Wanted {
  if (path.trim() === '') throw new FileToolError('path cannot be blank');
  if (old_text.trim() === '') throw new FileToolError('old_text cannot be blank');
  if (old_text === new_text) throw new FileToolError('old_text and new_text are identical');
  return { oldText: old_text, newText: new_text };
}

interface Edit {
  readonly call: EditFileInput;
  readonly wanted: Wanted;
  readonly place: Location;
  readonly bounds: Bounds;
  readonly signal: AbortSignal;
}

/** Makes one attempt at the edit; `undefined` if another process changed the file during the attempt. */
async function editOnce({ call, wanted, place, bounds, signal }: Edit): Promise<string | undefined> {
  const { path } = call;
  signal.throwIfAborted();
  const read = await readRegular(place, path, bounds);
  const planned = planEdit(decoded(read, path), wanted);
  if (planned.type !== 'edit') throw new FileToolError(refusal(planned, path));
  const diff = regionDiff(path, planned.region);
  const bytes = Buffer.from(planned.text);
  if (bytes.equals(read)) throw new FileToolError(`new_text is identical to the text in ${path}: nothing to change`);
  if (bytes.length > bounds.maxFileSize) {
    throw new FileToolError(`${path} would be too large: ${bytes.length} bytes, at most ${bounds.maxFileSize}.`);
  }
  const isCurrent = async (): Promise<boolean> => read.equals(await readRegular(place, path, bounds));
  if (!(await replaceFile({ real: place.real, path, root: bounds.root, bytes, signal, isCurrent }))) return undefined;
  return planned.isFuzzy ? FUZZY_NOTE + diff : diff;
}

function decoded(bytes: Buffer, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new FileToolError(`Not a UTF-8 text: ${path}. Use bash to change it.`, { cause: error });
  }
}

function refusal(planned: Exclude<Planned, { readonly type: 'edit' }>, path: string): string {
  if (planned.type === 'missing') {
    return `Could not find old_text in ${path}. Use read_file, and give the text exactly as it is there.`;
  }
  const matches = planned.isFuzzy ? 'fuzzy matches' : 'matches';
  return `old_text has ${planned.count} ${matches} in ${path} (lines: ${planned.lines}). Give more lines around the one you mean.`;
}

/** The outcome of a call that was cut off by a crash. `undefined` if the call can run, or fail, like a first call. */
async function outcomeOf(
  call: EditFileInput,
  bounds: Bounds,
): Promise<string | { readonly error: string } | undefined> {
  const wanted = wantedOf(call);
  const place = await locateNew(call.path, bounds.root);
  const text = decoded(await readRegular(place, call.path, bounds), call.path);
  const again = planEdit(text, wanted);
  const undone = unplanEdit(text, wanted);
  const isThere = undone.type !== 'missing' || (again.type === 'missing' && wanted.newText === '');
  if (!isThere) return undefined;
  if (again.type === 'missing') {
    await syncName(place.real);
    return undone.type === 'edit' ? `${FOUND_NOTE}\n\n${regionDiff(call.path, undone.region)}` : FOUND_NOTE;
  }
  return {
    error: `The call was cut off and its outcome is unknown: ${call.path} has both old_text and new_text. Use read_file to see the file.`,
  };
}

/** Edits any file that the process can edit, with the default bound. */
export const edit_file: Tool<EditFileInput> = editFile();
