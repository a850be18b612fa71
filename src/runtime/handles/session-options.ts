/** The options of a session's methods, and their checks: sending, reading, approving, forking. Host thread. */
import { z } from 'zod';
import {
  APPROVAL_REASON_CHARACTERS_MAX,
  AUTHOR_CHARACTERS_MAX,
  BUDGET_TOKENS_MAX,
  PAGE_BYTES_MAX,
  SERVER_PAGE_DEFAULT,
  SERVER_PAGE_MAX,
} from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, ContentError, describeValue, InvalidArgumentError, InvalidNameError } from '../../base/errors.ts';
import { checkSessionId, filterId, idWithin, tenantOf } from '../../base/ids.ts';
import { type Json, NotPlainError, stableText, toPlainJson, wellFormed } from '../../base/json.ts';
import type { Deliver } from '../../base/messages.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { OutputSchema } from '../protocol/output-option.ts';
import type { PageBounds, PageKind } from '../protocol/pages.ts';
import type { ShardMethods } from '../protocol/protocol.ts';
import { fingerprintOf } from '../protocol/sent-message.ts';

/** Options of `send`. */
export interface SendOptions {
  /** Idempotency: the same key with the same content returns the same receipt. */
  readonly key?: string;
  /** How a busy session treats the message; see the table in docs/sessions.md. Default `ride`. */
  readonly deliver?: Deliver;
  /** If the turn fails, the message leaves the log again and returns in a `bounce_back` event. Default false. */
  readonly bounceBack?: boolean;
  /**
   * When this signal aborts, the caller no longer waits for the acceptance. The message may still be accepted. If it
   * has a key, send it again with that key to find out.
   */
  readonly signal?: AbortSignal;
  /** The sender, for the record. */
  readonly from?: string;
  /**
   * The earlier message that this message replaces, because the earlier message was edited or needs another answer.
   * Name the earlier message by the key with which it was sent, or by its id in `history`. The transition that accepts
   * the new message also removes the earlier one and everything after it from the history. So after a crash both
   * changes are there, or neither. A running turn is interrupted. If the earlier message still waits in the mailbox, it
   * is withdrawn and nothing is interrupted. The receipts of removed messages stay as they are.
   */
  readonly replaces?: { readonly key: string } | { readonly id: string };
}

/** Options of `send` and `ask` for a structured answer. */
export interface StructuredSendOptions<Output extends OutputSchema = OutputSchema>
  extends Omit<SendOptions, 'deliver'> {
  /** The form of the answer. The message has a separate turn, whose answer has this form. */
  readonly output: Output;
  /**
   * Default `turn`. The other deliveries are not possible: with them the message may join another turn, and then it
   * cannot ask for a form.
   */
  readonly deliver?: 'turn' | 'interrupt' | 'reject';
}

/** Options of `usage`. */
export interface UsageOptions {
  /** True: the tokens of all descendants of the session are included. Default false. */
  readonly tree?: boolean;
}

/** Options of `fork`. */
export interface ForkOptions {
  /**
   * The seq of the last message that the fork takes over. If that message is inside a round, the fork includes the
   * whole round. Default: all messages.
   */
  readonly at?: number;
  /**
   * The fork's id; default `<parent>:fork-<n>`. The id decides the session thread. On another thread than its parent's,
   * the fork copies the messages instead of sharing the log. A fork belongs to the same tenant as its parent.
   */
  readonly id?: string;
  /** The person or program that makes the fork, for the audit log. At most 256 characters. */
  readonly by?: string;
}

/** Options of `page`. */
export interface PageOptions {
  /** The `next` of the previous page; default: the first page. */
  readonly after?: string;
  /** Maximum number of items: 1 to 1,000, 100 by default. */
  readonly limit?: number;
  /** Approximate maximum of bytes, not counting the first item; default 1 MB. */
  readonly bytesMax?: number;
}

/** A person's decision about a call. */
export interface ApprovalDecision {
  readonly allow: boolean;
  /** The reason of a denial, for the model. */
  readonly reason?: string;
  /**
   * The input with which an allowed call runs, in place of the model's input. It is checked against the tool's schema.
   */
  readonly input?: Readonly<Record<string, unknown>>;
  /** The person or program that decides, for the record: `approval.decided` names it. At most 256 characters. */
  readonly by?: string;
}

/** Options of `answer` and `decline`. */
export interface ReplyOptions {
  /** The person or program that answers, as in `ApprovalDecision`. */
  readonly by?: string;
}

/** Options of a deletion. */
export interface DeleteOptions {
  /** The person or program that deletes, for the audit log. At most 256 characters. */
  readonly by?: string;
}

const wholeNumber = z.number().int().min(0);
const messagesSchema = z.strictObject({ after: wholeNumber.optional(), limit: wholeNumber.optional() });

const pageKindSchema = z.enum(['messages', 'pending', 'viewport', 'request']);
const pageSchema = z.strictObject({
  after: z.string().optional(),
  limit: z.number().int().min(1).max(SERVER_PAGE_MAX).optional(),
  bytesMax: z.number().int().min(1).optional(),
});
const PLACE = /^\d{1,15}$/;
/** The form of a position in the mailbox: the kind of delivery and the number of an entry. */
const PENDING_PLACE = /^[0-4]-\d{1,15}$/;

const reasonSchema = z.string().max(APPROVAL_REASON_CHARACTERS_MAX).transform(wellFormed).optional();
/** The author of a change, as its caller names it. */
export const bySchema: z.ZodType<string | undefined> = z
  .string()
  .min(1)
  .max(AUTHOR_CHARACTERS_MAX)
  .transform(wellFormed)
  .optional();
const approvalSchema = z.strictObject({
  allow: z.boolean(),
  reason: reasonSchema,
  input: z.record(z.string(), z.unknown()).optional(),
  by: bySchema,
});
const replySchema = z.strictObject({ by: bySchema });
const deleteSchema = z.strictObject({ by: bySchema });

/** Options of a deletion, checked. Throws `ConfigError`. */
export function checkDeleteOptions(options: unknown): DeleteOptions {
  return defined(parseOption(deleteSchema, 'delete', options));
}

/** A number of tokens that a budget may have. */
export const budgetSchema: z.ZodNumber = z.number().int().min(1).max(BUDGET_TOKENS_MAX);
const usageSchema = z.strictObject({ tree: z.boolean().optional() });

const forkSchema = z.strictObject({ at: z.number().optional(), id: z.string().optional(), by: bySchema });

/** The options of `session.messages`, checked. Throws `ConfigError`. */
export function checkMessagesOptions(options: unknown): { readonly after?: number; readonly limit?: number } {
  const { after, limit } = parseOption(messagesSchema, 'messages', options);
  return defined({ after, limit });
}

/** The arguments of `session.page`, checked. Throws `ConfigError`. */
export function checkPageOptions<Kind extends PageKind>(
  of: Kind,
  options: PageOptions,
): PageBounds & { readonly of: PageKind } {
  const kind = parseOption(pageKindSchema, 'page.of', of);
  const { after, limit = SERVER_PAGE_DEFAULT, bytesMax = PAGE_BYTES_MAX } = parseOption(pageSchema, 'page', options);
  const form = kind === 'pending' ? PENDING_PLACE : PLACE;
  if (after !== undefined && !form.test(after)) {
    throw new ConfigError(`option "page.after" must be the next of a page of ${kind}, got ${describeValue(after)}`, {
      data: { key: 'page.after' },
    });
  }
  return { of: kind, limit, bytesMax, ...defined({ after }) };
}

/** Checks the options of `session.usage`. Returns true if the whole tree counts. Throws `ConfigError`. */
export function checkUsageOptions(options: unknown): boolean {
  return parseOption(usageSchema, 'usage', options).tree === true;
}

/** The argument of `session.setBudget`, checked. Throws `ConfigError`. */
export function checkBudget(tokens: unknown): { readonly tokens?: number } {
  const limit = parseOption(budgetSchema.nullable(), 'setBudget.tokens', tokens);
  return limit === null ? {} : { tokens: limit };
}

/** The argument of `session.recall`, checked. Throws `ConfigError`. */
export function checkPendingId(pendingId: unknown): number {
  return parseOption(wholeNumber, 'recall.pendingId', pendingId);
}

/** The argument of `session.interrupt`, checked. Throws `ConfigError`. */
export function checkInterrupt(reason: unknown): { readonly reason?: string } {
  return defined({ reason: parseOption(reasonSchema, 'interrupt.reason', reason) });
}

/** The arguments of `session.approve`, checked. Throws `ConfigError`, `ContentError`. */
export function checkDecision(
  callId: unknown,
  decision: ApprovalDecision,
): Omit<ShardMethods['session.approve']['request'], 'session' | 'agent'> {
  const { allow, reason, input, by } = parseOption(approvalSchema, 'approve', decision);
  return {
    callId: callIdOf('approve', callId),
    allow,
    ...defined({ reason, by }),
    ...(input === undefined ? {} : { input: plainValue(input, 'input') }),
  };
}

/** The arguments of `session.answer`, checked. Throws `ConfigError`, `ContentError`. */
export function checkAnswer(callId: unknown, value: unknown, options: ReplyOptions): AnswerRequest {
  const { by } = parseOption(replySchema, 'answer', options);
  const plain = plainValue(value, 'the answer');
  const reply = { value: plain, fingerprint: fingerprintOf(stableText(plain)) };
  return { callId: callIdOf('answer', callId), reply, ...defined({ by }) };
}

/** The arguments of `session.decline`, checked. Throws `ConfigError`. */
export function checkDecline(callId: unknown, reason: unknown, options: ReplyOptions): AnswerRequest {
  const { by } = parseOption(replySchema, 'decline', options);
  const given = parseOption(reasonSchema, 'decline.reason', reason);
  return {
    callId: callIdOf('decline', callId),
    reply: { declined: true, ...defined({ reason: given }) },
    ...defined({ by }),
  };
}

type AnswerRequest = Omit<ShardMethods['session.answer']['request'], 'session' | 'agent'>;

function callIdOf(method: string, callId: unknown): string {
  return parseOption(z.string(), `${method}.callId`, callId);
}

/** The options of a session's `fork`, checked. Throws `ConfigError`, `InvalidArgumentError`, `InvalidNameError`. */
export function checkForkOptions(options: unknown, session: string): ForkOptions {
  const { at, id, by } = parseOption(forkSchema, 'fork', options);
  if (at !== undefined && !(Number.isSafeInteger(at) && at > 0)) {
    throw new InvalidArgumentError('invalid_argument', `\`at\` must be the seq of a message, got ${at}`);
  }
  return { ...defined({ at, by }), ...(id === undefined ? {} : { id: forkId(session, id) }) };
}

/**
 * The full id of a child. In `given`, the tenant may be left out; then it is the tenant of `parent`. Throws
 * `InvalidNameError`.
 */
export function childId(parent: string, given: string): string {
  return filterId(tenantOf(parent), given);
}

/** The full id of a fork. A fork belongs to the tenant of its session, so an id without a tenant gets that tenant. */
function forkId(session: string, given: string): string {
  const tenant = tenantOf(session);
  const id = idWithin(tenant, checkSessionId(given));
  if (id !== undefined && tenantOf(id) === tenant) return id;
  throw new InvalidNameError(
    `a fork of ${JSON.stringify(session)} is of the same tenant, so ${JSON.stringify(given)} cannot be its id`,
  );
}

/** A storable copy of a value. Throws `ContentError`. */
function plainValue(value: unknown, what: string): Json {
  try {
    return toPlainJson(value);
  } catch (error) {
    if (error instanceof NotPlainError) throw new ContentError(`${what} is ${error.message}`, { cause: error });
    throw error;
  }
}

const receiptSchema = z.strictObject({
  output: z.custom<OutputSchema>((value) => value !== undefined, 'must be the schema of an answer').optional(),
});

const listenerSchema = z
  .strictObject({ wait: z.boolean().optional(), signal: z.instanceof(AbortSignal).optional() })
  .optional();

/** The schema of the answer of a receipt, if there is one in `options`. Throws `ConfigError`. */
export function checkReceiptOptions(options: unknown): OutputSchema | undefined {
  return parseOption(receiptSchema, 'receipt', options).output;
}

/**
 * Checks the options of `onMessage`. Returns true if the session's runs wait for the listener. Throws `ConfigError`.
 */
export function checkListenerOptions(options: unknown): boolean {
  return parseOption(listenerSchema, 'onMessage', options)?.wait === true;
}
