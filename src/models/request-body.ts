/**
 * The bytes of a request: a `ModelRequest` as the Messages API takes it, with cache marks.
 *
 * Marks stand on the wire body only: on the last tool, on the system prompt, and on the last block of the last message that
 * can carry one. Those are three of the four the API allows (R16); marks that came in with the content are dropped, so the
 * number never grows with the history. A message that was encoded once is not encoded again while it lives: in a session of
 * a thousand messages each call encodes the new ones only.
 */
import type { ContentBlock } from '../base/messages.ts';
import type { ModelRequest, RequestMessage, ToolSchema } from './provider.ts';

/** Messages and tool lists are never changed once made, so the object stands for its text. */
const messageTexts = new WeakMap<RequestMessage, string>();
const toolTexts = new WeakMap<readonly ToolSchema[], string>();

const MARK = { type: 'ephemeral' } as const;
const MARKABLE: ReadonlySet<string> = new Set(['text', 'image', 'document', 'tool_use', 'tool_result']);

/** The JSON text of a streamed call. The same request gives the same text. */
export function encodeRequest(request: ModelRequest): string {
  const fields: string[] = [];
  for (const [key, value] of Object.entries(request)) {
    const text = key === 'messages' ? undefined : encodeField(key, value, request);
    if (text !== undefined) fields.push(`${JSON.stringify(key)}:${text}`);
  }
  fields.push(`"messages":[${encodeMessages(request.messages)}]`, '"stream":true');
  return `{${fields.join(',')}}`;
}

function encodeField(key: string, value: unknown, request: ModelRequest): string | undefined {
  if (key === 'system' && request.system !== undefined) {
    if (request.system.trim() === '') return undefined;
    return JSON.stringify([{ type: 'text', text: request.system, cache_control: MARK }]);
  }
  if (key === 'tools' && request.tools !== undefined) return encodeTools(request.tools);
  return JSON.stringify(value);
}

function encodeTools(tools: readonly ToolSchema[]): string | undefined {
  if (tools.length === 0) return undefined;
  const known = toolTexts.get(tools);
  if (known !== undefined) return known;
  const marked = tools.map((tool, index) => (index === tools.length - 1 ? { ...tool, cache_control: MARK } : tool));
  const text = JSON.stringify(marked);
  toolTexts.set(tools, text);
  return text;
}

function encodeMessages(messages: readonly RequestMessage[]): string {
  return messages
    .map((message, index) =>
      index === messages.length - 1 ? JSON.stringify(withMark(message)) : encodeMessage(message),
    )
    .join(',');
}

function encodeMessage(message: RequestMessage): string {
  const known = messageTexts.get(message);
  if (known !== undefined) return known;
  const text = JSON.stringify(withoutMarks(message));
  messageTexts.set(message, text);
  return text;
}

/** The message with its last block that can carry a mark marked; text becomes a block, as only blocks carry marks. */
function withMark(message: RequestMessage): unknown {
  const plain = withoutMarks(message);
  const blocks: readonly ContentBlock[] =
    typeof plain.content === 'string' ? [{ type: 'text', text: plain.content }] : plain.content;
  const place = blocks.findLastIndex(canCarryMark);
  if (place === -1) return plain;
  const content = blocks.map((block, index) => (index === place ? { ...block, cache_control: MARK } : block));
  return { ...plain, content };
}

/** R17: not on empty text; R43: not on thinking. */
function canCarryMark(block: ContentBlock): boolean {
  return MARKABLE.has(block.type) && !(block.type === 'text' && block.text.trim() === '');
}

function withoutMarks(message: RequestMessage): RequestMessage {
  if (typeof message.content === 'string') return message;
  return { ...message, content: message.content.map(withoutMark) };
}

function withoutMark(block: ContentBlock): ContentBlock {
  if (block.type === 'tool_result' && Array.isArray(block.content)) {
    const content = (block.content as readonly ContentBlock[]).map(withoutMark);
    return dropMark({ ...block, content } as ContentBlock);
  }
  return dropMark(block);
}

function dropMark(block: ContentBlock): ContentBlock {
  if (!('cache_control' in block)) return block;
  const { cache_control: _dropped, ...rest } = block;
  return rest as ContentBlock;
}
