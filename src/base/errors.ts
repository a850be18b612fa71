/**
 * All errors a caller can receive. There is one base class with a stable `code`; a subclass exists only where the
 * caller acts differently. The length of a message is bounded when the error is made, because it may quote text from
 * outside.
 *
 * Three rules of this library: a broken invariant is an assertion and crashes the actor; a failure of a model or a tool
 * is data, never a throw; an error that crosses a thread is encoded by `src/threads/error-codec.ts`, because structured
 * clone drops class, name and code.
 */

import { boundedText, isRecord, NotPlainError, toPlainJson } from './json.ts';

/** Stable, documented codes. A program may switch on them; a message is for people. */
export type ErrorCode =
  | 'config'
  | 'unknown_agent'
  | 'agent_mismatch'
  | 'agent_missing'
  | 'upgrade_failed'
  | 'unknown_session'
  | 'invalid_name'
  | 'content'
  | 'session_busy'
  | 'key_reused'
  | 'redaction_failed'
  | 'mailbox_full'
  | 'limit'
  | 'store_locked'
  | 'store_corrupt'
  | 'store_full'
  | 'store_lost'
  | 'store_not_writable'
  | 'store_version'
  | 'store_key'
  | 'shard_moved'
  | 'not_here'
  | 'turn_failed'
  | AnswerErrorCode
  | 'cancelled'
  | 'timeout'
  | 'model_authentication'
  | 'model_rate_limited'
  | 'model_overloaded'
  | 'model_invalid_request'
  | 'model_protocol'
  | 'model_timeout'
  | 'model_connection'
  | 'out_of_memory'
  | 'internal'
  | InvalidArgumentCode;

/**
 * Codes of a turn that ended without the structured answer that was asked for: the answer did not fit its schema after
 * all corrections, the model refused, or the answer was cut by a token limit.
 */
export type AnswerErrorCode = 'answer_invalid' | 'answer_refused' | 'answer_cut';

/** Codes of `InvalidArgumentError`: the fault in the arguments of a method. */
export type InvalidArgumentCode =
  | 'callback_required'
  | 'lookup_key_required'
  | 'lookup_key_ambiguous'
  | 'message_not_found'
  | 'letter_not_found'
  | 'tool_message_not_removable'
  | 'files_require_prompt'
  | 'invalid_index'
  | 'invalid_task'
  | 'invalid_argument';

/** An error inside an event, a record or a state: plain data, safe to store. */
export interface ErrorShape {
  readonly name: string;
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable?: boolean;
  readonly data?: Readonly<Record<string, unknown>>;
}

/** Options shared by every error of this library. */
export interface ErrorDetails {
  readonly cause?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly retryable?: boolean;
}

/** Base of every error this library throws. `retryable`: the same call may succeed later, unchanged. */
export class TroupeError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(boundedText(textOf(message)), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.retryable = details.retryable === true;
    this.data = details.data === undefined ? {} : boundedMembers(details.data);
  }
}

/**
 * An option is unknown or has a bad value: fix the program. The message names the key, the value's type and the
 * expected form. Code `unknown_agent`: no agent has that name. Code `agent_mismatch`: the session was made with another
 * agent than the one named; `data` names both.
 */
export class ConfigError extends TroupeError {
  constructor(
    message: string,
    details: ErrorDetails & { readonly code?: 'config' | 'unknown_agent' | 'agent_mismatch' } = {},
  ) {
    super(details.code ?? 'config', message, details);
  }
}

/**
 * A session is blocked because its agent, or the version of the agent with which its turn began, is not defined. The
 * session continues when the store is opened with that definition. `data` has `agent`, and `version` if the turn has
 * one.
 */
export class AgentMissingError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('agent_missing', message, details);
  }
}

/**
 * A session is blocked because the `upgrade` function of its agent threw, or returned edits that cannot be applied.
 * Nothing of the session has changed. `resume()` tries again, and so does the next open. `data` has `agent`, `from` and
 * `version`.
 */
export class UpgradeError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('upgrade_failed', message, details);
  }
}

/** A session id or name is not of the allowed form. */
export class InvalidNameError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('invalid_name', message, details);
  }
}

/** The content of a message is blank, has blocks that a user may not send, or cannot be stored as plain JSON. */
export class ContentError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('content', message, details);
  }
}

/**
 * An argument, for example of a history operation, cannot be used; nothing was changed. `code` names the fault, the
 * message names the value.
 */
export class InvalidArgumentError extends TroupeError {
  constructor(code: InvalidArgumentCode, message: string, details: ErrorDetails = {}) {
    super(code, message, details);
  }
}

/** `deliver: 'reject'` was used on a session that is not idle. */
export class SessionBusyError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('session_busy', message, { retryable: true, ...details });
  }
}

/**
 * The function of the option `redact` failed, so its value was not stored. `data.kind`: the kind of the value. The
 * message quotes neither the value nor the function's own error.
 */
export class RedactionError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('redaction_failed', message, details);
  }
}

/** An idempotency key was used again with other content. */
export class KeyReusedError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('key_reused', message, details);
  }
}

/** The mailbox is at its bound. Nothing was stored; try again after `retryAfterMs`. */
export class MailboxFullError extends TroupeError {
  readonly retryAfterMs: number;
  constructor(message: string, details: ErrorDetails & { readonly retryAfterMs?: number } = {}) {
    const retryAfterMs = details.retryAfterMs ?? 1_000;
    super('mailbox_full', message, { retryable: true, ...details, data: { ...details.data, retryAfterMs } });
    this.retryAfterMs = retryAfterMs;
  }
}

/** A bound was reached: one of `limits`, of a budget, or of the library; `data.limit` names it. */
export class LimitError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('limit', message, details);
  }
}

/** Another process, or this one, has the data directory open. `data.pid` names the owner. */
export class StoreLockedError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_locked', message, { retryable: true, ...details });
  }
}

/** The files are not a readable store of this library. They were not changed. */
export class StoreCorruptError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_corrupt', message, details);
  }
}

/**
 * The disk or the store's memory map is full, the device refuses writes, or the database of the cluster does not
 * answer. Everything acknowledged is safe; `cause` has the reason.
 */
export class StoreFullError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_full', message, { retryable: true, ...details });
  }
}

/**
 * The files of an open store were removed, replaced or cut short under the runtime. Everything acknowledged is in the
 * original files. Nothing is written any more until the store is opened again. `data.reason` describes the fault.
 */
export class StoreLostError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_lost', message, details);
  }
}

/**
 * The data directory cannot be written: its rights, or those of the file system, forbid it. `data.path` names the file
 * or directory, `cause` has the reason.
 */
export class StoreNotWritableError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_not_writable', message, details);
  }
}

/** The store has a newer format than this version reads. Nothing was written to it. */
export class StoreVersionError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_version', message, details);
  }
}

/**
 * No key or another key was given for an encrypted store, or a key was given for a store that is not encrypted. Nothing
 * was written. `data.path` names the store.
 */
export class StoreKeyError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('store_key', message, details);
  }
}

/** Another node has the session. The request may have taken effect; repeat it at that node with the same key. */
export class ShardMovedError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('shard_moved', message, { retryable: true, ...details });
  }
}

/**
 * The turn that consumed a message failed, or the message bounced. `cause` and `data.error` have the reason. Code
 * `limit`: the run reached `maxSteps`. Codes `answer_…`: there is no structured answer, and `data.issues` says what did
 * not fit.
 */
export class TurnFailedError extends TroupeError {
  constructor(
    message: string,
    details: ErrorDetails & { readonly code?: 'turn_failed' | 'limit' | AnswerErrorCode } = {},
  ) {
    super(details.code ?? 'turn_failed', message, details);
  }
}

/** A call was cancelled on request. This is not a failure. */
export class CancelledError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('cancelled', message, details);
  }
}

/** A deadline passed. */
export class TimeoutError extends TroupeError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('timeout', message, { retryable: true, ...details });
  }
}

/** `data.reason` of a refused model call whose prompt does not fit the model's context. */
export const CONTEXT_OVERFLOW = 'context_overflow';

/** The codes of a failed model call. */
export type ModelErrorCode = Extract<ErrorCode, `model_${string}`>;

/**
 * A model call failed. `data.status` is the HTTP status where there was one, `retryAfterMs` the wait that the server
 * asked for. `retryable` is true for network faults, 429 and 5xx. A status that is no whole number counts as missing. A
 * wait that is `NaN`, infinite or negative, perhaps from a header that was not understood, counts as missing, too.
 */
export class ModelError extends TroupeError {
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  constructor(
    code: ModelErrorCode,
    message: string,
    details: ErrorDetails & { readonly status?: number; readonly retryAfterMs?: number } = {},
  ) {
    const status = Number.isInteger(details.status) ? details.status : undefined;
    const waitMs = details.retryAfterMs;
    const retryAfterMs = waitMs !== undefined && Number.isFinite(waitMs) && waitMs >= 0 ? waitMs : undefined;
    const data: Record<string, unknown> = { ...details.data };
    if (status !== undefined) data['status'] = status;
    if (retryAfterMs !== undefined) data['retryAfterMs'] = retryAfterMs;
    super(code, message, { ...details, data });
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Status 401, 402 or 403, or no credentials. The session is blocked until `resume()`. */
export class ModelAuthenticationError extends ModelError {
  constructor(message: string, details: ErrorDetails & { readonly status?: number } = {}) {
    super('model_authentication', message, details);
  }
}

/**
 * Status 400, 404, 413 or 422: the same request would fail again. After a 404 (no such model) the session is blocked
 * until `resume()`.
 */
export class ModelInvalidRequestError extends ModelError {
  constructor(message: string, details: ErrorDetails & { readonly status?: number } = {}) {
    super('model_invalid_request', message, details);
  }
}

/** The thrown value as an Error: strings and foreign objects are wrapped, errors are returned as they are. */
export function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  if (typeof thrown === 'string') return new Error(thrown);
  return new Error(`non-error thrown: ${describeValue(thrown)}`, { cause: thrown });
}

/**
 * An error as plain data, for a record or an event. A foreign error becomes `internal` and keeps its name. An
 * embedder's code may have given the error members of any type.
 */
export function errorShape(thrown: unknown): ErrorShape {
  const error = asError(thrown);
  const [name, message] = [boundedText(textOf(error.name)), boundedText(textOf(error.message))];
  if (!(error instanceof TroupeError)) return { name, code: 'internal', message };
  const data = plainMembers(error.data);
  return {
    name,
    code: typeof error.code === 'string' ? error.code : 'internal',
    message,
    ...(error.retryable === true ? { retryable: true } : {}),
    ...(data === undefined ? {} : { data }),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : describeValue(value);
}

/**
 * The members of an error's data that can be stored and cloned; undefined if there are none. `omitted` describes the
 * last member that was left out. Never throws.
 */
export function plainMembers(data: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const kept: Readonly<Record<string, unknown>>[] = [];
  let omitted: string | undefined;
  for (const key of Object.keys(data)) {
    try {
      const value: unknown = Reflect.get(data, key);
      const member = toPlainJson({ [key]: value });
      if (isRecord(member)) kept.push(member);
    } catch (error) {
      omitted = error instanceof NotPlainError ? error.message : `${key}: ${describeValue(error)}`;
    }
  }
  if (omitted !== undefined) kept.push({ omitted });
  const members = Object.fromEntries(kept.flatMap((each) => Object.entries(each)));
  return Object.keys(members).length === 0 ? undefined : members;
}

/** The data of an error, its top-level texts bounded like the message. */
function boundedMembers(data: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const isLong = Object.values(data).some((value) => typeof value === 'string' && boundedText(value) !== value);
  if (!isLong) return data;
  const bounded = (value: unknown): unknown => (typeof value === 'string' ? boundedText(value) : value);
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, bounded(value)]));
}

const REBUILD: Readonly<Record<string, (message: string, details: ErrorDetails) => TroupeError>> = {
  config: (m, d) => new ConfigError(m, d),
  unknown_agent: (m, d) => new ConfigError(m, { ...d, code: 'unknown_agent' }),
  agent_mismatch: (m, d) => new ConfigError(m, { ...d, code: 'agent_mismatch' }),
  agent_missing: (m, d) => new AgentMissingError(m, d),
  upgrade_failed: (m, d) => new UpgradeError(m, d),
  invalid_name: (m, d) => new InvalidNameError(m, d),
  content: (m, d) => new ContentError(m, d),
  session_busy: (m, d) => new SessionBusyError(m, d),
  key_reused: (m, d) => new KeyReusedError(m, d),
  redaction_failed: (m, d) => new RedactionError(m, d),
  mailbox_full: (m, d) => new MailboxFullError(m, { ...d, ...numberField(d, 'retryAfterMs') }),
  limit: (m, d) => new LimitError(m, d),
  store_locked: (m, d) => new StoreLockedError(m, d),
  store_corrupt: (m, d) => new StoreCorruptError(m, d),
  store_full: (m, d) => new StoreFullError(m, d),
  store_lost: (m, d) => new StoreLostError(m, d),
  store_not_writable: (m, d) => new StoreNotWritableError(m, d),
  store_version: (m, d) => new StoreVersionError(m, d),
  store_key: (m, d) => new StoreKeyError(m, d),
  shard_moved: (m, d) => new ShardMovedError(m, d),
  turn_failed: (m, d) => new TurnFailedError(m, d),
  answer_invalid: (m, d) => new TurnFailedError(m, { ...d, code: 'answer_invalid' }),
  answer_refused: (m, d) => new TurnFailedError(m, { ...d, code: 'answer_refused' }),
  answer_cut: (m, d) => new TurnFailedError(m, { ...d, code: 'answer_cut' }),
  cancelled: (m, d) => new CancelledError(m, d),
  timeout: (m, d) => new TimeoutError(m, d),
  callback_required: (m, d) => new InvalidArgumentError('callback_required', m, d),
  lookup_key_required: (m, d) => new InvalidArgumentError('lookup_key_required', m, d),
  lookup_key_ambiguous: (m, d) => new InvalidArgumentError('lookup_key_ambiguous', m, d),
  message_not_found: (m, d) => new InvalidArgumentError('message_not_found', m, d),
  letter_not_found: (m, d) => new InvalidArgumentError('letter_not_found', m, d),
  tool_message_not_removable: (m, d) => new InvalidArgumentError('tool_message_not_removable', m, d),
  files_require_prompt: (m, d) => new InvalidArgumentError('files_require_prompt', m, d),
  invalid_index: (m, d) => new InvalidArgumentError('invalid_index', m, d),
  invalid_task: (m, d) => new InvalidArgumentError('invalid_task', m, d),
  invalid_argument: (m, d) => new InvalidArgumentError('invalid_argument', m, d),
  model_authentication: (m, d) => new ModelAuthenticationError(m, { ...d, ...numberField(d, 'status') }),
  model_invalid_request: (m, d) => new ModelInvalidRequestError(m, { ...d, ...numberField(d, 'status') }),
};

/** The error that a shape describes, in its original class. Unknown codes give the base class. */
export function errorFromShape(shape: ErrorShape, given?: unknown): TroupeError {
  const cause = given ?? causeOf(shape.data?.['causes']);
  const details: ErrorDetails = {
    ...(cause === undefined ? {} : { cause }),
    ...(shape.data === undefined ? {} : { data: shape.data }),
    retryable: shape.retryable ?? false,
  };
  const build = REBUILD[shape.code];
  if (build !== undefined) return build(shape.message, details);
  if (shape.code.startsWith('model_')) {
    return new ModelError(shape.code as ModelErrorCode, shape.message, {
      ...details,
      ...numberField(details, 'status'),
      ...numberField(details, 'retryAfterMs'),
    });
  }
  return new TroupeError(shape.code, shape.message, details);
}

/** The errors that `data.causes` of a shape describes, each the cause of the one before. */
function causeOf(causes: unknown): Error | undefined {
  if (!Array.isArray(causes)) return undefined;
  return causes.reduceRight((inner: Error | undefined, each: unknown) => {
    if (typeof each !== 'object' || each === null || !('message' in each)) return inner;
    const error = new Error(String(each.message), inner === undefined ? undefined : { cause: inner });
    return 'code' in each && typeof each.code === 'string' ? Object.assign(error, { code: each.code }) : error;
  }, undefined);
}

/**
 * The code of an error of Node or the system (`ENOENT`, `ERR_…`); undefined for anything without one. Never throws.
 */
export function systemCodeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Describes a value for an error message: its type, and a short form of it. Never throws. */
export function describeValue(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string')
    return `string ${JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)}`;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') {
    return `${typeof value} ${String(value)}`;
  }
  if (Array.isArray(value)) return `array of ${value.length}`;
  return typeof value;
}

function numberField<K extends string>(details: ErrorDetails, key: K): { readonly [P in K]?: number } {
  const value = details.data?.[key];
  return typeof value === 'number' ? ({ [key]: value } as { readonly [P in K]?: number }) : {};
}
