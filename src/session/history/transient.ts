/** Merges transient messages, which are never logged, into the visible history and into requests. Pure. */

import type { TransientMessage } from '../state/edit-request.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { type HistoryEntry, historyEntries } from './history-form.ts';
import { loggedForm } from './logged-form.ts';

const NONE: readonly TransientMessage[] = [];

/** The visible history with its transient messages. Transient messages have no logged message and the seq 0. */
export function visibleEntries(
  state: SessionState,
  transients: readonly TransientMessage[] = NONE,
): readonly HistoryEntry[] {
  const entries = historyEntries(state);
  if (transients.length === 0) return entries;
  const places = placesOf(
    transients,
    entries.map((entry) => entry.logged.at(-1)?.seq ?? 0),
  );
  return merged(entries, places, ({ message }): HistoryEntry[] => [{ message, seq: 0, logged: [] }]);
}

/** The messages of a request: logged messages, with the transient messages at their positions. */
export function messagesShown(state: SessionState, transients: readonly TransientMessage[]): readonly LoggedMessage[] {
  const places = placesOf(
    transients,
    state.messages.map((message) => message.seq),
  );
  return merged(state.messages, places, ({ message, anchor }) =>
    loggedForm(message).map((draft): LoggedMessage => ({ ...draft, seq: anchor, at: 0 })),
  );
}

/**
 * The transient messages by the number of other messages before them. A transient message follows the message at its
 * anchor. If that message is gone, the transient message follows the last message with a lower seq.
 */
function placesOf(
  transients: readonly TransientMessage[],
  seqs: readonly number[],
): ReadonlyMap<number, readonly TransientMessage[]> {
  const places = new Map<number, TransientMessage[]>();
  for (const transient of transients) {
    const { anchor } = transient;
    const named = anchor === 0 ? -1 : seqs.indexOf(anchor);
    const index = anchor === 0 || named !== -1 ? named : seqs.findLastIndex((seq) => seq <= anchor);
    const before = places.get(index + 1);
    if (before === undefined) places.set(index + 1, [transient]);
    else before.push(transient);
  }
  return places;
}

function merged<T>(
  items: readonly T[],
  places: ReadonlyMap<number, readonly TransientMessage[]>,
  made: (transient: TransientMessage) => readonly T[],
): readonly T[] {
  const result: T[] = [];
  for (let index = 0; index <= items.length; index += 1) {
    for (const transient of places.get(index) ?? NONE) result.push(...made(transient));
    const item = items[index];
    if (index < items.length && item !== undefined) result.push(item);
  }
  return result;
}
