/** Plans the edit that replaces the whole history of the window by another one. It changes only what differs. Pure. */
import type { HistoryMessage } from '../../base/history-message.ts';
import { type HistoryEntry, historyEntries } from '../history/history-form.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

type Edited = Extract<SessionRecord, { type: 'edited' }>;

/**
 * The record of the edit that makes `messages` the window's history; undefined if the history equals `messages`
 * already. Messages with the same id and role at the same position change in place. From the first message that differs
 * in id or role, all messages are replaced.
 */
export function historyReplacement(
  state: SessionState,
  messages: readonly HistoryMessage[],
  operation: string,
  now: number,
): Edited | undefined {
  const entries = historyEntries(state);
  let same = 0;
  while (same < entries.length && same < messages.length && isSame(entries[same], messages[same])) same += 1;
  const updated = entries.slice(0, same).flatMap(({ seq, message }, index) => {
    const next = messages[index];
    return next === undefined || equalJson(next, message) ? [] : [{ seq, message: next }];
  });
  const removed = entries.slice(same).flatMap(({ logged }) => logged.map((message) => message.seq));
  const added = messages.slice(same).map((message, index) => {
    const given = typeof message.id === 'string' && message.id !== '' ? message.id : `m${state.nextMessageSeq + index}`;
    return { message: { ...message, id: given, createdAt: message.createdAt ?? now } };
  });
  if (updated.length + removed.length + added.length === 0) return undefined;
  return {
    type: 'edited',
    operation,
    ...(removed.length === 0 ? {} : { removed }),
    ...(updated.length === 0 ? {} : { updated }),
    ...(added.length === 0 ? {} : { added }),
  };
}

function isSame(entry: HistoryEntry | undefined, message: HistoryMessage | undefined): boolean {
  return entry?.message.id === message?.id && entry?.message.role === message?.role;
}

/** Compares messages as JSON texts. Messages with members in another order count as different. */
function equalJson(left: HistoryMessage, right: HistoryMessage): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
