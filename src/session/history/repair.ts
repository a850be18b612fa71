/**
 * Finds calls without a result and results without a call in a history, and repairs the history in one of two ways.
 * Pure: the given list is never changed, and is returned itself if there is nothing to repair.
 */
import type { AssistantMessage, HistoryCall, HistoryMessage, ToolMessage } from '../../base/history-message.ts';

/** The text in place of a result that never came. */
export const INTERRUPTED_RESULT = 'Tool call interrupted before completion.';

/** Calls of a message; none for any role but assistant. */
export function callsOf(message: HistoryMessage | undefined): readonly HistoryCall[] {
  return message?.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

/** Ids of the calls that have a result anywhere. */
export function answeredIds(messages: readonly HistoryMessage[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) if (message.role === 'tool') ids.add(message.toolCallId);
  return ids;
}

/** A result with the given id. It says that the call was interrupted. */
export function interruptedResult(call: HistoryCall, id: string, createdAt: number | string): ToolMessage {
  return {
    id,
    createdAt,
    role: 'tool',
    content: INTERRUPTED_RESULT,
    toolCallId: call.callId,
    name: call.name,
    error: INTERRUPTED_RESULT,
    errorType: 'interrupted',
  };
}

/**
 * Gives every call without a result a placeholder, which says that the call was interrupted. The placeholders follow
 * the assistant message, in call order. Also returns the ids of these calls, in that order. With `enabled` false the
 * list is returned unchanged.
 */
export function fillOrphans(
  messages: readonly HistoryMessage[],
  options: { readonly enabled?: boolean } = {},
): readonly [messages: readonly HistoryMessage[], filledIds: readonly string[]] {
  if (options.enabled === false) return [messages, []];
  const answered = answeredIds(messages);
  const taken = new Set(messages.map((message) => message.id));
  const filledIds: string[] = [];
  const filled = messages.flatMap((message): readonly HistoryMessage[] => {
    const orphans = callsOf(message).filter((call) => !answered.has(call.callId));
    if (orphans.length === 0) return [message];
    const placeholders = orphans.map((call) => {
      filledIds.push(call.callId);
      const id = freeId(taken, `${message.id}.${call.callId}`);
      taken.add(id);
      return interruptedResult(call, id, message.createdAt);
    });
    return [message, ...placeholders];
  });
  return filledIds.length === 0 ? [messages, []] : [filled, filledIds];
}

function freeId(taken: ReadonlySet<string>, wanted: string): string {
  let id = wanted;
  for (let copy = 2; taken.has(id); copy += 1) id = `${wanted}.${copy}`;
  return id;
}

/**
 * Removes incomplete rounds from a history. Results that belong to no call leave. Assistant messages with a call that
 * has no result anywhere leave with all their results. The last assistant message stays if only results follow it,
 * because its run can continue. With `enabled` false the list is returned unchanged.
 */
export function pruneOrphans(
  messages: readonly HistoryMessage[],
  options: { readonly enabled?: boolean } = {},
): readonly HistoryMessage[] {
  if (options.enabled === false) return messages;
  const boundary = resumeBoundary(messages);
  const answered = answeredIds(messages);
  const declared = new Set<string>();
  const offending = new Set<string>();
  const offenders = new Set<HistoryMessage>();
  for (const message of messages) {
    const calls = callsOf(message);
    for (const call of calls) declared.add(call.callId);
    if (message === boundary || calls.every((call) => answered.has(call.callId))) continue;
    offenders.add(message);
    for (const call of calls) offending.add(call.callId);
  }
  const kept = messages.filter((message) => {
    if (message.role !== 'tool') return !offenders.has(message);
    return declared.has(message.toolCallId) && !offending.has(message.toolCallId);
  });
  return kept.length === messages.length ? messages : kept;
}

/** The last assistant message, if only results follow it. */
function resumeBoundary(messages: readonly HistoryMessage[]): AssistantMessage | undefined {
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message?.role === 'assistant') return message;
    if (message?.role !== 'tool') return undefined;
  }
  return undefined;
}
