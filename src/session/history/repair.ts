/**
 * Calls without a result, and results without a call: what there is of them in a history, and the two ways to mend it. Pure:
 * the list given is never changed, and returned as it is where there is nothing to do.
 */
import type { AssistantMessage, HistoryCall, HistoryMessage, ToolMessage } from '../../base/history-message.ts';

/** What stands for a result that never came. */
export const INTERRUPTED_RESULT = 'Tool call interrupted before completion.';

/** Calls of a message; none of any but an assistant. */
export function callsOf(message: HistoryMessage | undefined): readonly HistoryCall[] {
  return message?.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

/** Ids of the calls that have a result anywhere. */
export function answeredIds(messages: readonly HistoryMessage[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) if (message.role === 'tool') ids.add(message.toolCallId);
  return ids;
}

/** The result that says a call was interrupted; with the id given. */
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
 * Every call without a result anywhere gets one that says it was interrupted, right after its assistant message, in call
 * order. Also the ids that were filled, in that order. With `enabled` false the list is returned as it is.
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
 * Takes out exchanges that were cut off in the middle of a history: an assistant message with a call that has no result
 * anywhere, with all its results, and results of no call. The last assistant message stays as it is while only results
 * follow it: it can be resumed. With `enabled` false the list is returned as it is.
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

/** The last assistant message, if nothing but results follows it. */
function resumeBoundary(messages: readonly HistoryMessage[]): AssistantMessage | undefined {
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message?.role === 'assistant') return message;
    if (message?.role !== 'tool') return undefined;
  }
  return undefined;
}
