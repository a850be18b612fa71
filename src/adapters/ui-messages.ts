/**
 * Converts the conversation of a session to the messages of `useChat`, for a page that loads. The messages have the
 * same parts that the stream of a turn makes, so a page looks the same before and after a reload.
 */
import type { HistoryMessage, ToolMessage } from '../base/history-message.ts';
import { isRecord } from '../base/json.ts';
import type { ContentBlock, UserContent } from '../base/messages.ts';
import { shownText } from '../events/view-modes.ts';
import type { Session } from '../index.ts';
import { messageSeq, pageId } from './replaced-message.ts';

/** A tool's call in a message, with its result if it has one. */
export type UiToolPart = { type: 'dynamic-tool'; toolName: string; toolCallId: string; input: unknown } & (
  | { state: 'input-available' }
  | { state: 'output-available'; output: unknown }
  | { state: 'output-error'; errorText: string }
);

/** One part of a message. */
export type UiPart =
  | { type: 'text' | 'reasoning'; text: string; state: 'done' }
  | { type: 'file'; mediaType: string; url: string }
  | { type: 'step-start' }
  | UiToolPart;

/** A message in the form of the AI SDK's `UIMessage`. */
export interface UiMessage {
  id: string;
  role: 'user' | 'assistant';
  parts: UiPart[];
}

/**
 * The messages of a session's conversation, oldest first, followed by the messages that wait in its mailbox. System
 * messages and messages that the system injected are left out. The answer of the running turn is also left out, because
 * `resumeResponse` streams it whole. The id of a user's message is the id that its page gave it. That is the key of the
 * message, without the suffix of a replacement (`replaced-message.ts`). A message without a key has the id that it has
 * in `history`. `chatInput` and `resumeResponse` understand both kinds of ids. A session that does not exist yet has no
 * messages.
 */
export async function uiMessages(session: Session): Promise<UiMessage[]> {
  const current = await session.current();
  const working = current === undefined ? undefined : await messageSeq(session, current);
  const waiting = await session.pending();
  const messages = await session.history.messages();
  const from = working === undefined ? -1 : messages.findIndex(({ id }) => id === `m${working}`);
  const shown: UiMessage[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.systemInjected === true || message.role === 'system') continue;
    if (message.role === 'user') shown.push(userMessage(message.key ?? message.id, message.content));
    else if (from === -1 || index < from) addAnswer(shown, message);
  }
  const known = new Set(shown.map(({ id }) => id));
  for (const { type, id, key = `pending-${id}`, content } of waiting) {
    if (type === 'user_message' && !known.has(pageId(key))) shown.push(userMessage(key, content));
  }
  return shown;
}

function userMessage(key: string, content: UserContent): UiMessage {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content } as const] : content;
  return { id: pageId(key), role: 'user', parts: blocks.flatMap(userPart) };
}

function userPart(block: ContentBlock): readonly UiPart[] {
  if (block.type === 'text') return [{ type: 'text', text: block.text, state: 'done' }];
  if ((block.type !== 'image' && block.type !== 'document') || !isRecord(block.source)) return [];
  const { type, media_type: mediaType, data } = block.source;
  if (type !== 'base64' || typeof mediaType !== 'string' || typeof data !== 'string') return [];
  return [{ type: 'file', mediaType, url: `data:${mediaType};base64,${data}` }];
}

/** Adds an answer to the assistant's message of its turn, or a result to its call in that message. */
function addAnswer(
  shown: UiMessage[],
  message: Extract<HistoryMessage, { readonly role: 'assistant' | 'tool' }>,
): void {
  let answer = shown.at(-1);
  if (message.role === 'tool') {
    const { parts = [] } = answer ?? {};
    const at = parts.findIndex((part) => part.type === 'dynamic-tool' && part.toolCallId === message.toolCallId);
    const call = parts[at];
    if (call?.type === 'dynamic-tool') parts[at] = answered(call, message);
    return;
  }
  if (answer?.role !== 'assistant') {
    answer = { id: message.id, role: 'assistant', parts: [] };
    shown.push(answer);
  }
  const { parts } = answer;
  parts.push({ type: 'step-start' });
  for (const { type, text } of message.reasoning ?? []) {
    if (type === 'text' && typeof text === 'string' && text !== '')
      parts.push({ type: 'reasoning', text, state: 'done' });
  }
  if (message.content !== '') parts.push({ type: 'text', text: message.content, state: 'done' });
  for (const { callId, name, arguments: input } of message.toolCalls ?? []) {
    parts.push({
      type: 'dynamic-tool',
      toolName: name,
      toolCallId: callId,
      state: 'input-available',
      input: loggedValue(input),
    });
  }
}

function answered({ type, toolName, toolCallId, input }: UiToolPart, { content, error }: ToolMessage): UiToolPart {
  const call = { type, toolName, toolCallId, input } as const;
  const text = shownText(content);
  if (error !== undefined && error !== null) return { ...call, state: 'output-error', errorText: text };
  return { ...call, state: 'output-available', output: loggedValue(text) };
}

/** The value of a text that is JSON; any other text unchanged. The log keeps inputs and results as text. */
export function loggedValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
