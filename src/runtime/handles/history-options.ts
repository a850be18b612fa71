/** The options and arguments of operations on a history, and their checks. Host thread. */
import { z } from 'zod';
import { HISTORY_MESSAGES_MAX, KEY_CHARACTERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { describeValue, InvalidArgumentError, LimitError } from '../../base/errors.ts';
import { fingerprint } from '../../base/fingerprint.ts';
import type { HistoryDraft } from '../../base/history-message.ts';
import { type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import { checkMessage, wrong } from '../../session/history/message-check.ts';
import type { ToApiOptions } from '../../session/history/to-api.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import { bySchema } from './session-options.ts';

/** Options of an operation that changes something. */
export interface EditOptions {
  /**
   * Idempotency: an operation that is repeated with the same key is done once, and every call returns the first
   * outcome. Operations that changed nothing are not remembered.
   */
  readonly key?: string;
  /** The person or program that changes the history, for the audit log. At most 256 characters. */
  readonly by?: string;
}

/** Options of `add` and `append`. */
export interface AddOptions extends EditOptions {
  /** True: no callback receives the message. */
  readonly silent?: boolean;
  /** True: the message is shown to the model while this process lives, and is never stored. */
  readonly transient?: boolean;
}

/** Options of `startTask`, `undo` and `switchTo`. */
export interface TaskOptions {
  /** The person or program that changes the branch, for the audit log. At most 256 characters. */
  readonly by?: string;
}

/** Options of `compress`. */
export interface CompressOptions {
  /**
   * True: more than `idleMinMessages` messages and at least `idleMinTokens` tokens (see the settings) are enough for a
   * compression, even below the usual bounds. Default false.
   */
  readonly force?: boolean;
}

const editSchema = z.strictObject({ key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional(), by: bySchema });
const addSchema = editSchema.extend({ silent: z.boolean().optional(), transient: z.boolean().optional() });
const apiSchema = z.strictObject({
  forceReasoningPad: z.boolean().optional(),
  taskChain: z.array(z.number()).nullable().optional(),
});
const taskSchema = z.strictObject({ by: bySchema });
const compressSchema = z.strictObject({ force: z.boolean().optional() });

/** Options whose members may be undefined. */
type Checked<Options> = { readonly [Key in keyof Options]?: Options[Key] | undefined };

/** The options of an operation, checked. `operation`: the name for the error. Throws `ConfigError`. */
export function checkEditOptions(operation: string, options: unknown): Checked<EditOptions> {
  return parseOption(editSchema, operation, options);
}

/** Options of `startTask`, `undo` or `switchTo`, checked. `operation`: the name for the error. Throws `ConfigError`. */
export function checkTaskOptions(operation: string, options: unknown): TaskOptions {
  return defined(parseOption(taskSchema, operation, options));
}

/** Options of `add` or `append`, checked. Throws `ConfigError`. */
export function checkAddOptions(operation: 'add' | 'append', options: unknown): Checked<AddOptions> {
  return parseOption(addSchema, operation, options);
}

/** Options of `toApi`, checked. Throws `ConfigError`. */
export function checkToApiOptions(options: unknown): ToApiOptions {
  const { forceReasoningPad, taskChain } = parseOption(apiSchema, 'toApi', options);
  return {
    ...defined({ forceReasoningPad, taskChain }),
  };
}

/** Options of `compress`, checked. Throws `ConfigError`. */
export function checkCompressOptions(options: unknown): Required<CompressOptions> {
  const { force = false } = parseOption(compressSchema, 'compress', options);
  return { force };
}

/** Throws `InvalidArgumentError` (`invalid_index`) for anything but the number of an archive. */
export function checkChunkNumber(number: unknown): void {
  if (Number.isSafeInteger(number) && Number(number) >= 1) return;
  throw new InvalidArgumentError(
    'invalid_index',
    `a chunk is named by an integer from 1, got ${describeValue(number)}`,
  );
}

/** A plain, well-formed copy of a value. Throws `InvalidArgumentError` for a value that cannot be stored. */
export function plain(value: unknown, name: string): Json {
  try {
    return toPlainJson(value);
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw notPlain(name, error);
  }
}

function notPlain(name: string, cause: NotPlainError): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', `${name} is ${cause.message}`, { cause });
}

/** Messages in storable form. Throws `InvalidArgumentError`, `LimitError`. */
export function checkMessages(messages: unknown): readonly HistoryDraft[] {
  if (!Array.isArray(messages)) throw wrong('messages', 'a list', messages);
  if (messages.length > HISTORY_MESSAGES_MAX) {
    throw new LimitError(`an operation brings at most ${HISTORY_MESSAGES_MAX} messages, got ${messages.length}`, {
      data: { limit: 'historyMessages', value: messages.length },
    });
  }
  // Copied one by one, because the bound on values applies to a single message.
  return messages.map((message: unknown, index) =>
    checkMessage(plain(message, `messages[${index}]`), `messages[${index}]`),
  );
}

/** A member of a target or handle; undefined for anything without members. */
export function memberOf(target: unknown, name: string): unknown {
  return typeof target === 'object' && target !== null ? Reflect.get(target, name) : undefined;
}

/**
 * The id of a message or of a call, as a text; undefined if the value is missing. The empty text does not count as
 * missing. Throws `InvalidArgumentError`.
 */
export function givenText(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw wrong(name, 'a string', value);
  return value;
}

/** Throws `InvalidArgumentError` (`callback_required`) for anything but a function. */
export function checkFunction(value: unknown, name: string): void {
  if (typeof value !== 'function') {
    throw new InvalidArgumentError('callback_required', `${name} must be a function`);
  }
}

/**
 * The fingerprint of an edit. An edit with a predicate counts by its operation alone, because the predicate may find
 * other messages when the call is repeated.
 */
export function fingerprintOf(edit: EditRequest): string {
  const text = 'epoch' in edit ? edit.operation : JSON.stringify(edit);
  return fingerprint(text);
}

/**
 * The incarnation in a message handle. Undefined for a plain id, which refers to a message of the present session.
 * `mine`: the session that is edited.
 */
export function incarnationOf(handle: unknown, need: 'required' | 'optional', mine: string): number | undefined {
  const session = memberOf(handle, 'session');
  const incarnation = memberOf(handle, 'incarnation');
  if (need === 'optional' && session === undefined && incarnation === undefined) return undefined;
  if (typeof session !== 'string' || typeof incarnation !== 'number') {
    throw wrong('handle', 'a handle, as append() resolves to', handle);
  }
  if (session === mine) return incarnation;
  throw new InvalidArgumentError(
    'invalid_argument',
    `the handle is of session ${JSON.stringify(session)}, this is the history of ${JSON.stringify(mine)}`,
    { data: { session, expected: mine } },
  );
}
