/**
 * Decides whether a request continues a message thread. A thread is a conversation that the Messages API keeps for some
 * minutes, so that a request sends only its new messages (R62). Pure.
 *
 * A request continues only a thread that certainly holds the same conversation. Every other request is sent whole and
 * creates a thread. A whole request is always correct, because the log is the source of the conversation.
 *
 * The API publishes no list of the fields that a thread keeps. So every field counts as kept unless the API is known
 * to take it from each request.
 */
import { createHash } from 'node:crypto';
import { MESSAGE_THREAD_ID_BYTES_MAX, MESSAGE_THREAD_MS_MAX } from '../../base/bounds.ts';
import { NotPlainError, stableText } from '../../base/json.ts';
import { modelTraits } from '../../context/model-traits.ts';
import { withoutMarks } from '../cache-marks.ts';
import type { ModelRequest, ModelResponse, RequestMessage, RequestTool, ThreadStep } from '../provider.ts';

/** The beta of requests with a thread. */
export const THREADS_BETA = 'message-threads-2026-08-12';

/** The end of a thread, from which a request may continue it. */
export interface ThreadAnchor {
  /** The id of the answer under which the API keeps the thread. */
  readonly responseId: string;
  /** The hash of the account and of the fields that the thread keeps. */
  readonly fixedHash: string;
  /** Messages of the thread, the answer included, and their hash. */
  readonly length: number;
  readonly historyHash: string;
  /** True if the model continues its answer when a request has no new message. */
  readonly isPaused: boolean;
  /** Monotonic ms at which the answered request was sent. */
  readonly sentAtMs: number;
}

/**
 * Fields that the API takes from each request of a thread. `transport` is not a field; its betas are hashed separately.
 */
const FREE_FIELDS: ReadonlySet<string> = new Set([
  ...['messages', 'max_tokens', 'stop_sequences', 'metadata', 'stream', 'cache_control', 'diagnostics', 'transport'],
]);
/** Fields that a request with a thread may not have. */
const UNSUPPORTED_FIELDS = ['context_management', 'fallbacks'] as const;
const PAUSES: ReadonlySet<string> = new Set(['pause_turn', 'compaction']);

/** True if the request may have a thread: its session wants one, and its model and its fields allow it. */
export function isThreadable(request: ModelRequest): boolean {
  if (request.transport?.threads !== true || modelTraits(request.model).threads !== true) return false;
  return UNSUPPORTED_FIELDS.every((field) => !Object.hasOwn(request, field));
}

/**
 * How a request uses a thread. `anchor`: the end of the session's thread; missing: there is none, or a request has
 * already continued it. `account`: a text that differs for other credentials or another address. `nowMs`:
 * monotonic.
 */
export function decideThread(
  anchor: ThreadAnchor | undefined,
  request: ModelRequest,
  account: string,
  nowMs: number,
): ThreadStep {
  if (anchor === undefined || nowMs - anchor.sentAtMs >= MESSAGE_THREAD_MS_MAX) return CREATE;
  const { messages } = request;
  const next = messages[anchor.length];
  // Without a new message only a paused answer is continued. If the next message is an assistant's, it extends the
  // answer with which the thread ends, so the thread does not hold the same conversation.
  if (next === undefined ? !anchor.isPaused || messages.length < anchor.length : next.role !== 'user') return CREATE;
  if (anchor.fixedHash !== fixedHash(request, account)) return CREATE;
  if (anchor.historyHash !== historyHash(messages.slice(0, anchor.length))) return CREATE;
  return { kind: 'continue', previousMessageId: anchor.responseId, messagesFrom: anchor.length };
}

const CREATE: ThreadStep = { kind: 'create' };

/**
 * The end of the thread after an answer. `sentAtMs`: monotonic ms at which the request was sent. Undefined if the
 * thread must not be continued: after a refusal, after an answer by another model, and if the answer is empty or has no
 * id.
 */
export function anchorAfter(
  request: ModelRequest,
  response: ModelResponse,
  account: string,
  sentAtMs: number,
): ThreadAnchor | undefined {
  const { id, content, stop_reason: stopReason, usage } = response;
  if (id === undefined || id === '' || Buffer.byteLength(id) > MESSAGE_THREAD_ID_BYTES_MAX) return undefined;
  if (stopReason === null || stopReason === 'refusal') return undefined;
  // The answer was not checked yet, so its content may have any form.
  if (!Array.isArray(content) || content.length === 0) return undefined;
  if (content.some((block) => String(block.type) === 'fallback')) return undefined;
  if (usage?.iterations?.some(({ type }) => type === 'fallback_message') === true) return undefined;
  try {
    return {
      responseId: id,
      fixedHash: fixedHash(request, account),
      length: request.messages.length + 1,
      historyHash: historyHash([...request.messages, { role: 'assistant', content }]),
      isPaused: PAUSES.has(stopReason),
      sentAtMs,
    };
  } catch (error) {
    // An answer that is nested too deeply is refused later. No request contains it.
    if (error instanceof NotPlainError) return undefined;
    throw error;
  }
}

const REPLAYED_CODES: ReadonlySet<string> = new Set([
  ...['thread_not_found', 'thread_already_continued', 'thread_continue_in_flight', 'thread_fingerprint_mismatch'],
]);

/**
 * How a refused request is sent again. `none`: without a thread, and the session gets no thread any more. Undefined:
 * the request is not sent again. At most two attempts follow a refusal: a `create`, and one without a thread.
 */
export function stepAfterRefusal(step: ThreadStep, errorCode: unknown): ThreadStep | 'none' | undefined {
  if (errorCode === 'thread_unsupported_request') return 'none';
  return step.kind === 'continue' && typeof errorCode === 'string' && REPLAYED_CODES.has(errorCode)
    ? CREATE
    : undefined;
}

/** Messages and tool lists never change once made, so these maps cache their hashes. */
const messageHashes = new WeakMap<RequestMessage, string>();
const toolHashes = new WeakMap<readonly RequestTool[], string>();

function fixedHash(request: ModelRequest, account: string): string {
  const { tools, ...fields } = request;
  const kept = Object.entries(fields).filter(([field]) => !FREE_FIELDS.has(field));
  const betas = [...(request.transport?.betas ?? [])].sort();
  return hashOf([account, stableText(Object.fromEntries(kept)), tools === undefined ? '' : hashOfTools(tools), betas]);
}

function hashOfTools(tools: readonly RequestTool[]): string {
  let hash = toolHashes.get(tools);
  if (hash === undefined) {
    hash = hashOf(tools);
    toolHashes.set(tools, hash);
  }
  return hash;
}

/** The hash of the hashes of all messages, so that a message is hashed once while it lives. */
function historyHash(messages: readonly RequestMessage[]): string {
  return digest(messages.map(hashOfMessage).join(' '));
}

/** Cache marks do not change the hash of a message. A text has the same hash as a block with that text. */
function hashOfMessage(message: RequestMessage): string {
  let hash = messageHashes.get(message);
  if (hash === undefined) {
    const { role, content } = withoutMarks(message);
    hash = hashOf([role, typeof content === 'string' ? [{ type: 'text', text: content }] : content]);
    messageHashes.set(message, hash);
  }
  return hash;
}

function hashOf(value: unknown): string {
  return digest(stableText(value));
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
