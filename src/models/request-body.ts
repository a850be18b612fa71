/**
 * Encodes a `ModelRequest` as the Messages API takes it, with cache marks.
 *
 * Marks are set only in the wire body: on the last tool that is not loaded later, on the system prompt, and on the last markable block of the
 * last message. Where the system prompt begins with a part that all sessions of the agent share, that part has a mark in
 * place of the tools. Those are three of the four that the API allows (R16). The fourth is the newest mark that came with the
 * content; if it is a one-hour mark, the tool mark and the system mark are one-hour marks too (R18). With
 * `transport.cacheTtl` of an hour all marks are one-hour marks, and a given mark of five minutes is left out. A message
 * is encoded once while it lives: in a session of a thousand messages each call encodes only the new ones.
 *
 * Thoughts, parts and metadata of other vendors' models are left out (`block-origin.ts`).
 *
 * A request with a message thread has at most three marks (R62), so marks that came with the content are left out. If it
 * continues a thread, its body has only what the API does not keep.
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
 * The body of a request as it is sent: with its message thread, and without the parts that the API has if the request
 * continues one.
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
  // Without a new message the mark is on the end of the thread: each request needs one, or the cache is not read.
  if (messages.length === 0) fields.push(`"cache_control":${JSON.stringify(lastMark)}`);
  fields.push(`"messages":[${encodeMessages(messages, lastMark)}]`, '"stream":true');
  return `{${fields.join(',')}}`;
}

function encodeField(key: string, value: unknown, request: ModelRequest, mark: CacheControl): string | undefined {
  if (key === 'system' && request.system !== undefined) {
    if (request.system.trim() === '') return undefined;
    return JSON.stringify(systemTexts(request).map((text) => ({ type: 'text', text, cache_control: mark })));
  }
  // The mark of a shared part of the system prompt covers the tools before it, and there are four marks in all.
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
 * The message with a mark on its last block that can carry one. Text becomes a block, since only blocks carry marks.
 */
function withMark(message: RequestMessage, mark: CacheControl): unknown {
  const blocks: readonly ContentBlock[] =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  const place = blocks.findLastIndex(canCarryMark);
  // If this block, or a block of another type after it, already has a mark, that mark stays the last one (R18).
  if (place === -1 || blocks.slice(place).some((block) => 'cache_control' in block)) return message;
  const content = blocks.map((block, index) => (index === place ? { ...block, cache_control: mark } : block));
  return { ...message, content };
}

function hasLongMark(message: RequestMessage): boolean {
  return marksOf(message) > 0 && JSON.stringify(message.content).includes('"ttl":"1h"');
}

/** True if the block can carry a cache mark: empty text cannot (R17), nor can thinking (R43). */
function canCarryMark(block: ContentBlock): boolean {
  return MARKABLE.has(block.type) && !(block.type === 'text' && block.text.trim() === '');
}
