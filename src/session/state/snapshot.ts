/** Writes a state as text, for a session's head in the journal, and reads it back, also from earlier versions. */

import { isOpenChild } from './child-link.ts';
import { failedTurn, type LastTurn } from './last-turn.ts';
import type { Content, MailboxEntry } from './messages.ts';
import { SharedMedia } from './shared-media.ts';
import type { BouncingMessage, CurrentCall, SessionState } from './state.ts';
import { addCallIds, emptyState } from './state.ts';
import { plainTasks, restoreTasks } from './tasks.ts';
import { contentBytes } from './tokens.ts';

/** The text form of a state. `restoreState(snapshotState(s))` equals `s`. */
export function snapshotState(state: SessionState): string {
  return JSON.stringify({
    ...state,
    openCalls: [...state.openCalls],
    callIds: [...state.callIds],
    keys: [...state.keys],
    editKeys: state.editKeys === undefined ? undefined : [...state.editKeys],
    receipts: [...state.receipts],
    children: [...state.children],
    childQueue: [...state.childQueue],
    childrenAtWork: undefined,
    childNames: [...state.childNames],
    hiddenChildren: [...state.hiddenChildren],
    childKeys: [...state.childKeys],
    tasks: plainTasks(state.tasks),
    compactions: [...state.compactions],
  });
}

/** The state that a text describes. The text is not validated: the journal's checksums protect it. */
export function restoreState(text: string, media: SharedMedia = new SharedMedia()): SessionState {
  const plain = media.parse(text) as SessionState &
    Record<
      | 'openCalls'
      | 'callIds'
      | 'keys'
      | 'editKeys'
      | 'receipts'
      | 'children'
      | 'childQueue'
      | 'childrenAtWork'
      | 'childNames'
      | 'hiddenChildren'
      | 'childKeys'
      | 'compactions'
      | 'tasks',
      never
    >;
  // The members are assigned over an empty state, because members that were undefined are absent from the text.
  const state: SessionState = Object.assign(emptyState(plain.id), plain, {
    // Heads written before compression existed have no `compactions`.
    compactions: new Map(
      // Heads of earlier versions lack the times of compressions. `updatedAt` is the latest possible time.
      (plain.compactions as [number, { task: number | undefined; at?: number }][] | undefined)?.map(
        ([number, made]) => [number, { task: made.task, at: made.at ?? plain.updatedAt }],
      ) ?? [],
    ),
    openCalls: new Map(plain.openCalls),
    callIds: new Set(plain.callIds),
    keys: new Map(plain.keys),
    editKeys: plain.editKeys === undefined ? undefined : new Map(plain.editKeys),
    receipts: new Map(plain.receipts),
    children: new Map(plain.children),
    childQueue: new Set(plain.childQueue ?? []),
    childNames: new Set(plain.childNames),
    hiddenChildren: new Set(plain.hiddenChildren),
    childKeys: new Map(plain.childKeys),
    tasks: restoreTasks(plain.tasks),
  });
  // In earlier versions a half-step had at most one rider (an entry delivered with `ride`). Heads of these versions
  // have `rider` instead of `bouncing`.
  if (state.current !== undefined) state.current = withBouncing(state.current);
  const { compaction } = state.current ?? {};
  if (state.current !== undefined && compaction?.overflow !== undefined) {
    const overflow = { ...compaction.overflow, suspended: withBouncing(compaction.overflow.suspended) };
    state.current = { ...state.current, compaction: { ...compaction, overflow } };
  }
  // `callIds` of older heads lack the ids of hidden calls.
  addCallIds(state, state.hidden);
  if (plain.mailboxBytes === undefined) measureMailbox(state);
  // Dead letters of older heads lack the time at which they were set aside. In the oldest heads, the entries of dead
  // letters also lack their size.
  state.deadLetters = plain.deadLetters.map(({ entry, error, at = entry.at }) => ({
    entry:
      entry.bytes === undefined ? { ...(entry as MailboxEntry), bytes: contentBytes(entry.content as Content) } : entry,
    error,
    at,
  }));
  if (!('spoken' in plain)) {
    // An older snapshot lacks `spoken`, and may lack `last`. The messages that left its window cannot be counted.
    state.spoken = undefined;
    state.last ??= lastTurnBefore(state);
  }
  // An older snapshot does not say when messages left the window. `updatedAt` is the latest possible time.
  if (!('departures' in plain) && (state.floor > 0 || state.compactions.size > 0)) state.departures = [state.updatedAt];
  for (const child of state.children.values()) {
    if (!isOpenChild(child)) continue;
    // Older heads have no queue. Their children were queued in the order of their spawning.
    if (child.queued === true) state.childQueue.add(child.id);
    else state.childrenAtWork += 1;
  }
  return state;
}

function withBouncing(call: CurrentCall): CurrentCall {
  const { rider, ...rest } = call as CurrentCall & { rider?: BouncingMessage & { readonly bounceBack: boolean } };
  if (rider === undefined) return call;
  const { bounceBack, ...message } = rider;
  return bounceBack ? { ...rest, bouncing: [message] } : { ...rest, keeps: true };
}

/** Counts the mailbox bytes of an older snapshot, which has all contents but no sizes. */
function measureMailbox(state: SessionState): void {
  state.mailbox = state.mailbox.map((entry) => ({ ...entry, bytes: contentBytes(entry.content as Content) }));
  for (const { bytes, seed } of state.mailbox) if (seed === undefined) state.mailboxBytes += bytes;
}

/** The end of the last turn, derived from an older snapshot that does not have it. */
function lastTurnBefore({ suspended, failure, exit, settled, receipts }: SessionState): LastTurn | undefined {
  if (suspended !== undefined) return { outcome: 'suspended' };
  if (failure !== undefined) return failedTurn(failure.error);
  if (exit?.error !== undefined) return failedTurn(exit.error);
  for (const id of settled.toReversed()) {
    const receipt = receipts.get(id);
    if (receipt?.status === 'failed') return failedTurn(receipt.error);
    if (receipt?.status === 'answered' || receipt?.status === 'suspended') return { outcome: receipt.status };
    if (receipt?.status === 'cancelled') return { outcome: 'interrupted' };
  }
  return undefined;
}
