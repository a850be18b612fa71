/**
 * Encodes a `ModelRequest` as the body that the Messages API takes, with cache marks.
 *
 * The API allows four marks (R16). Three of them are set here, and exist only in the body:
 * - on the last tool without `defer_loading`. If the system prompt begins with a part that all sessions of the agent
 *   share, that part has this mark instead;
 * - on the end of the system prompt;
 * - on the last block of the last message that can carry a mark.
 *
 * The fourth is the newest mark that came with the content. If that is a one-hour mark, the first two marks are
 * one-hour marks too (R18). With `transport.cacheTtl` of an hour all marks are one-hour marks, and a five-minute mark
 * of the content is left out.
 *
 * The text of each message but the last is cached. So in a session of a thousand messages, a call encodes only the new
 * messages and the one that was last before.
 *
 * Thoughts, parts and metadata of other vendors' models are left out (`block-origin.ts`).
 *
 * A request with a message thread has at most three marks (R62), so marks that came with the content are left out. If
 * the request continues a thread, its body has only the parts that the API does not keep.
 */
import { withoutOrigins } from '../base/block-origin.ts';
import type { Json } from '../base/json.ts';
import type { CacheControl, ContentBlock } from '../base/messages.ts';
import { marksOf, withNewestMarks } from './cache-marks.ts';
import type { ModelRequest, RequestMessage, RequestTool } from './provider.ts';

/** Messages and tool lists never change once made, so the object is the key of its cached text. */
const messageTexts = new WeakMap<RequestMessage, string>();
const toolTexts = new WeakMap<readonly RequestTool[], string>();
const longToolTexts = new WeakMap<readonly RequestTool[], string>();
const plainToolTexts = new WeakMap<readonly RequestTool[], string>();

const MARK: CacheControl = { type: 'ephemeral' };
const LONG_MARK: CacheControl = { type: 'ephemeral', ttl: '1h' };
/** The most marks of the content that are kept besides our own. */
const GIVEN_MARKS_MAX = 1;
const MARKABLE: ReadonlySet<string> = new Set(['text', 'image', 'document', 'tool_use', 'tool_result']);

/** The body of a request: the fields that the Messages API takes. */
export function bodyOf(request: ModelRequest): Omit<ModelRequest, 'transport'> {
  if (request.transport === undefined) return request;
  const { transport: _transport, ...body } = request;
  return body;
}

/**
 * The body of a request as it is sent, with its message thread. If the request continues a thread, the parts that the
 * API keeps are left out.
 */
export function wireBody(request: ModelRequest): ReturnType<typeof bodyOf> & { readonly thread?: Json } {
  const step = request.transport?.thread;
  const body = bodyOf(request);
  if (step === undefined) return body;
  if (step.kind === 'create') return { ...body, thread: { type: 'create' } };
  const { system: _system, tools: _tools, messages, ...rest } = body;
  const thread = { type: 'continue', previous_message_id: step.previousMessageId };
  return { ...rest, thread, messages: messages.slice(step.messagesFrom) };
}

/** The JSON text of a streamed call. The same request gives the same text. */
export function encodeRequest(request: ModelRequest): string {
  const fields: string[] = [];
  const lastMark = request.transport?.cacheTtl === '1h' ? LONG_MARK : MARK;
  const body = wireBody(request);
  const givenMax = body.thread === undefined ? GIVEN_MARKS_MAX : 0;
  const messages = withNewestMarks(body.messages, givenMax, lastMark === LONG_MARK);
  const mark = lastMark === LONG_MARK || messages.some(hasLongMark) ? LONG_MARK : MARK;
  for (const [key, value] of Object.entries(body)) {
    const text = key === 'messages' ? undefined : encodeField(key, value, request, mark);
    if (text !== undefined) fields.push(`${JSON.stringify(key)}:${text}`);
  }
  // If there is no new message, the mark is on the end of the thread. A request without a mark does not read the cache.
  if (messages.length === 0) fields.push(`"cache_control":${JSON.stringify(lastMark)}`);
  fields.push(`"messages":[${encodeMessages(messages, lastMark)}]`, '"stream":true');
  return `{${fields.join(',')}}`;
}

function encodeField(key: string, value: unknown, request: ModelRequest, mark: CacheControl): string | undefined {
  if (key === 'system' && request.system !== undefined) {
    if (request.system.trim() === '') return undefined;
    return JSON.stringify(systemTexts(request).map((text) => ({ type: 'text', text, cache_control: mark })));
  }
  // The mark of a shared part of the system prompt also covers the tools before it. This saves one of the four marks.
  if (key === 'tools' && request.tools !== undefined) {
    return encodeTools(request.tools, systemTexts(request).length > 1 ? undefined : mark);
  }
  return JSON.stringify(value);
}

/** The blocks of the system prompt: the part that all sessions of the agent share, and the session's own part. */
function systemTexts({ system = '', transport }: ModelRequest): readonly string[] {
  const shared = transport?.sharedSystem ?? 0;
  return shared > 0 && shared < system.length ? [system.slice(0, shared), system.slice(shared)] : [system];
}

function encodeTools(tools: readonly RequestTool[], mark: CacheControl | undefined): string | undefined {
  if (tools.length === 0) return undefined;
  const texts = mark === undefined ? plainToolTexts : mark === MARK ? toolTexts : longToolTexts;
  const known = texts.get(tools);
  if (known !== undefined) return known;
  // A tool that is loaded later is not part of the cached beginning.
  const last = tools.findLastIndex((tool) => tool.defer_loading !== true);
  const marked = tools.map((tool, index) =>
    mark !== undefined && index === last ? { ...tool, cache_control: mark } : tool,
  );
  const text = JSON.stringify(marked);
  texts.set(tools, text);
  return text;
}

function encodeMessages(messages: readonly RequestMessage[], lastMark: CacheControl): string {
  // The mark is on the last message that is sent.
  const lastPlace = messages.findLastIndex((message) => withoutOrigins(message) !== undefined);
  return messages
    .map((message, place) => (place === lastPlace ? encodeLast(message, lastMark) : encodeMessage(message)))
    .filter((text) => text !== '')
    .join(',');
}

function encodeLast(message: RequestMessage, mark: CacheControl): string {
  const sent = withoutOrigins(message);
  return sent === undefined ? '' : JSON.stringify(withMark(sent, mark));
}

/** The JSON text of a message; empty if the message has nothing that Claude may get. */
function encodeMessage(message: RequestMessage): string {
  const known = messageTexts.get(message);
  if (known !== undefined) return known;
  const sent = withoutOrigins(message);
  const text = sent === undefined ? '' : JSON.stringify(sent);
  messageTexts.set(message, text);
  return text;
}

/**
 * The message with a mark on its last block that can carry one. Text becomes a block, because only blocks carry marks.
 */
function withMark(message: RequestMessage, mark: CacheControl): unknown {
  const blocks: readonly ContentBlock[] =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const place = blocks.findLastIndex(canCarryMark);
  // If this block or a later one already has a mark, that mark stays the last one (R18).
  if (place === -1 || blocks.slice(place).some((block) => 'cache_control' in block)) return message;
  const content = blocks.map((block, index) => (index === place ? { ...block, cache_control: mark } : block));
  return { ...message, content };
}

function hasLongMark(message: RequestMessage): boolean {
  return marksOf(message) > 0 && JSON.stringify(message.content).includes('"ttl":"1h"');
}

/** True if the block can carry a cache mark. Empty text (R17) and thinking (R43) cannot. */
function canCarryMark(block: ContentBlock): boolean {
  return MARKABLE.has(block.type) && !(block.type === 'text' && block.text.trim() === '');
}
