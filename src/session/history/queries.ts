/** Queries of a history. They only read its messages, which are given in order. Pure. */
import type { AssistantMessage, HistoryCall, HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { answeredIds, callsOf } from './repair.ts';

/** Ids of calls that have no result anywhere, in order. An id of two calls appears twice. */
export function orphanedToolCallIds(messages: readonly HistoryMessage[]): readonly string[] {
  const answered = answeredIds(messages);
  return messages.flatMap((message) =>
    callsOf(message).flatMap(({ callId }) => (answered.has(callId) ? [] : [callId])),
  );
}

/** The last assistant message, and its calls that have no result after it. */
export function pendingToolCalls(
  messages: readonly HistoryMessage[],
): readonly [assistant: AssistantMessage | null, calls: readonly HistoryCall[]] {
  const index = messages.findLastIndex((message) => message.role === 'assistant');
  const assistant = messages[index];
  if (assistant?.role !== 'assistant') return [null, []];
  const answered = answeredIds(messages.slice(index + 1));
  return [assistant, callsOf(assistant).filter(({ callId }) => !answered.has(callId))];
}

/** The number of assistant messages. */
export function steps(messages: readonly HistoryMessage[]): number {
  return messages.filter((message) => message.role === 'assistant').length;
}

/** The last assistant message, no matter what follows it. */
export function finalAssistantMessage(messages: readonly HistoryMessage[]): AssistantMessage | null {
  return messages.findLast((message) => message.role === 'assistant') ?? null;
}

/** True if there is a system message. */
export function hasSystemPrompt(messages: readonly HistoryMessage[]): boolean {
  return messages.some((message) => message.role === 'system');
}

/** True if the last message is an assistant message with calls, so that none of these calls has a result. */
export function hasPendingToolCalls(messages: readonly HistoryMessage[]): boolean {
  return callsOf(messages.at(-1)).length > 0;
}

/** The `sessionDate` of the newest message with `sessionContext`; null if there is none. */
export function lastSessionContextDate(messages: readonly HistoryMessage[]): string | null {
  return messages.findLast((message) => message.sessionContext === true)?.sessionDate ?? null;
}

/** The number of archives (chunks) on the newest index card; 0 if there is none. */
export function lastInjectedChunkCount(messages: readonly HistoryMessage[]): number {
  return messages.findLast((message) => message.chunkIndex === true)?.chunkCount ?? 0;
}

/** True for a message that the user wrote: it was not injected, and has no results of calls. */
export function isRealUserMessage(message: HistoryMessage): boolean {
  if (message.role !== 'user' || message.systemInjected === true) return false;
  return typeof message.content === 'string' || !message.content.some((block) => block.type === 'tool_result');
}

export function realUserMessages(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  return messages.filter(isRealUserMessage);
}

/** Index of the last message that the user wrote; null if there is none. */
export function lastRealUserIndex(messages: readonly HistoryMessage[]): number | null {
  const index = messages.findLastIndex(isRealUserMessage);
  return index === -1 ? null : index;
}

/** The first message that instructs a sub-agent; null if there is none. */
export function subagentInstructionMessage(messages: readonly HistoryMessage[]): HistoryMessage | null {
  return messages.find((message) => message.subagentInstructions === true) ?? null;
}

/** Tokens counted for a message in addition to its content. */
const MESSAGE_TOKENS = 4;

/** An estimate of the messages' tokens: 4 per message, plus its content and the names and arguments of its calls. */
export function estimateHistoryTokens(messages: readonly HistoryMessage[]): number {
  let total = 0;
  for (const message of messages) {
    total += MESSAGE_TOKENS + costOf(message.content);
    for (const call of callsOf(message)) total += textCost(call.name) + textCost(call.arguments);
  }
  return total;
}

function costOf(content: unknown): number {
  if (typeof content === 'string') return textCost(content);
  if (!Array.isArray(content)) return 0;
  let total = 0;
  for (const block of content as readonly unknown[]) {
    if (!isRecord(block)) continue;
    if (typeof block['text'] === 'string') total += textCost(block['text']);
    if (block['type'] === 'tool_result') total += costOf(block['content']);
    if (block['type'] === 'tool_use') total += textCost(JSON.stringify(block['input'] ?? {}));
  }
  return total;
}

const FIRST_PRINTABLE = 0x20;
const LAST_PRINTABLE = 0x7e;

/** Estimated tokens of a text: a quarter for each printable ASCII character, two thirds for each other code point. */
function textCost(text: string): number {
  let plain = 0;
  let other = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code >= FIRST_PRINTABLE && code <= LAST_PRINTABLE) plain += 1;
    else other += 1;
  }
  // The sum is in twelfths of a token, so that it is exact.
  return Math.ceil((plain * 3 + other * 8) / 12);
}
