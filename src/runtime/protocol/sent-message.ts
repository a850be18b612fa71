/**
 * Checks of a message from outside. The host checks a message that is given as a value, the session thread a message
 * that is given as bytes of JSON. A large body never becomes a string on the host: parsing it there would block the
 * event loop, and its strings would fill the host's heap.
 */
import { z } from 'zod';
import { KEY_CHARACTERS_MAX } from '../../base/bounds.ts';
import { checkBlocks } from '../../base/content-rules.ts';
import type { Draft } from '../../base/draft.ts';
import { ConfigError, ContentError, describeValue, InvalidArgumentError } from '../../base/errors.ts';
import { fingerprint } from '../../base/fingerprint.ts';
import { NotPlainError, toPlainJson, wellFormed } from '../../base/json.ts';
import { type ContentBlock, DELIVERIES, type Deliver, isBlank } from '../../base/messages.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { AnswerForm } from '../../session/state/answer-form.ts';
import type { ReplacedMessage } from '../../session/state/inputs.ts';
import { estimateContent, formBytes } from '../../session/state/tokens.ts';
import { answerForm } from './output-option.ts';
import type { ShardMethods } from './protocol.ts';

/** The form in which a session thread accepts a message. */
export type SentMessage = Omit<ShardMethods['session.send']['request'], 'session' | 'agent' | 'follow'>;

/** The options with which a message is sent. */
interface SentOptions {
  readonly key?: string | undefined;
  readonly deliver?: Deliver | undefined;
  readonly bounceBack?: boolean | undefined;
  readonly from?: string | undefined;
  readonly replaces?: ReplacedMessage | undefined;
  readonly output?: unknown;
}

const options = {
  key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional(),
  deliver: z.enum(DELIVERIES).optional(),
  bounceBack: z.boolean().optional(),
  from: z.string().min(1).max(KEY_CHARACTERS_MAX).transform(wellFormed).optional(),
  replaces: z
    .union([
      z.strictObject({ id: z.string().min(1) }),
      z.strictObject({ key: z.string().min(1).max(KEY_CHARACTERS_MAX) }),
    ])
    .optional(),
};
/** Options of `send`. */
export const sendSchema: z.ZodType<SentOptions & { readonly signal?: AbortSignal | undefined }> = z.strictObject({
  ...options,
  signal: z.instanceof(AbortSignal).optional(),
  output: z.unknown().optional(),
});
/** The members of a block are checked with the content. */
const postedSchema = z.strictObject({
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
  ...options,
  output: z.record(z.string(), z.unknown()).optional(),
});

/**
 * Puts the options of a message into the request that has its content. Sets members one by one, because that is faster:
 * most messages have no options, and this function runs for a thousand messages at once.
 */
export function putOptions(message: Draft<SentMessage>, sent: SentOptions): void {
  const { key, deliver, bounceBack, from, replaces } = sent;
  if (sent.output !== undefined) putForm(message, sent);
  if (deliver !== undefined) message.deliver = deliver;
  if (bounceBack !== undefined) message.bounceBack = bounceBack;
  if (from !== undefined) message.from = from;
  if (replaces !== undefined) message.replaces = replaces;
  if (key !== undefined) {
    message.key = key;
    message.fingerprint = messageFingerprint(message.content, message.output);
  }
}

/** Deliveries that begin a separate turn. Only a message with such a delivery can ask for a structured answer. */
const ALONE: ReadonlySet<Deliver> = new Set(['turn', 'interrupt', 'reject']);

function putForm(message: Draft<SentMessage>, { deliver = 'turn', output }: SentOptions): void {
  if (!ALONE.has(deliver)) {
    throw new ConfigError(
      `option "send.deliver": a message with a structured answer has a separate turn, so it cannot be ${JSON.stringify(deliver)}; use turn, interrupt or reject`,
      { data: { key: 'send.deliver', value: deliver } },
    );
  }
  message.deliver = deliver;
  message.output = answerForm(output, 'send.output');
}

/**
 * The message in bytes of JSON: `{ content, key, deliver, bounceBack, from, replaces, output }`. Throws
 * `InvalidArgumentError` for bytes without the form of a message, `ContentError` for content that cannot be stored, and
 * `ConfigError` for a structured answer that cannot be asked for.
 */
export function postedMessage(json: Uint8Array): SentMessage {
  const { content, ...sent } = posted(json);
  const message: Draft<SentMessage> = { content: checkContent(content) };
  putOptions(message, sent);
  return message;
}

/** The key of a posted message; undefined when it has none. Throws like `postedMessage`. */
export function postedKey(json: Uint8Array): string | undefined {
  return posted(json).key;
}

function posted(json: Uint8Array): z.infer<typeof postedSchema> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (error) {
    throw notJson(error);
  }
  try {
    return parseOption(postedSchema, 'body', value);
  } catch (error) {
    throw error instanceof ConfigError ? notMessage(error) : error;
  }
}

/**
 * The error for bytes that do not have the form of a message. A message of the right form that cannot be accepted has
 * another error.
 */
function notMessage(cause: ConfigError): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', cause.message, { cause });
}

/** The error omits the parser's own text, because the parser quotes the body in its errors. */
function notJson(cause: unknown): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', 'the body is not JSON in UTF-8', { cause });
}

/**
 * Content in the form that may be stored: plain, well-formed, not blank, made of blocks that a user may send. Throws
 * `ContentError`.
 */
export function checkContent(content: unknown): string | readonly ContentBlock[] {
  if (typeof content !== 'string' && !Array.isArray(content)) {
    throw new ContentError(`content must be a string or content blocks, got ${describeValue(content)}`);
  }
  let plain: string | readonly ContentBlock[];
  try {
    plain =
      typeof content === 'string' ? wellFormed(content) : (toPlainJson(content) as unknown as readonly ContentBlock[]);
  } catch (error) {
    if (error instanceof NotPlainError) throw new ContentError(`content is ${error.message}`, { cause: error });
    throw error;
  }
  if (typeof plain !== 'string') checkBlocks(plain, 'content', 'message');
  if (isBlank(plain)) throw new ContentError('content must not be blank');
  return plain;
}

/** The fingerprint of a message. It covers the content, and the form of the answer that the message asks for. */
export function messageFingerprint(content: string | readonly ContentBlock[], output: AnswerForm | undefined): string {
  return fingerprintOf(output === undefined ? content : JSON.stringify([content, output.key]));
}

/**
 * The bytes that a message takes in the bounds of its mailbox: the bytes of its content and of the form of its answer.
 * A text counts in UTF-8; the bytes of blocks are estimated.
 */
export function messageBytes(content: string | readonly ContentBlock[], output: AnswerForm | undefined): number {
  const bytes = typeof content === 'string' ? Buffer.byteLength(content) : estimateContent(content) * 4;
  return output === undefined ? bytes : bytes + formBytes(output);
}

/** A short fingerprint of a content. If a key comes again with another fingerprint, it was reused for other content. */
export function fingerprintOf(content: string | readonly ContentBlock[]): string {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  return fingerprint(text);
}
