/**
 * The effects of a history operation on a whole session: on its messages (`apply/edit.ts`), its open calls, its
 * branches and its memory, and their events. Changes the given state in place, as `apply` does; otherwise pure.
 */
import { EDIT_KEYS_REMEMBERED_MAX } from '../../base/bounds.ts';
import { changedCalls, settleCalls, settleSuspension } from '../history/edited-calls.ts';
import { adoptTasks } from '../history/tasks.ts';
import { unpin } from '../rules/goals.ts';
import { afterEdit } from '../rules/memory.ts';
import { isRefusedRequest } from '../rules/run-loop.ts';
import { type LoggedMessage, publicMessage } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import { publishActive } from './activation.ts';
import { applyEdit, type EditOutcome } from './edit.ts';
import { countSpoken, type Fold, forgetOldest } from './fold.ts';
import { publishBranch } from './tasks.ts';

/**
 * One edit is one event. An edit of one message has the event of that change, an edit of several has one event that
 * lists them all.
 */
export function applyEdited(fold: Fold, record: RecordOf<'edited'>): void {
  const { state } = fold;
  const pending = state.openCalls.size;
  const changed = changedCalls(state, record);
  const shown = state.memory?.shown;
  if (state.memory !== undefined) state.memory = afterEdit(state.memory, record.operation);
  const { removed, added, updated, groups, opensEpoch } = applyEdit(state, record, fold.at, (draft) =>
    fold.place(draft),
  );
  for (const message of removed) countSpoken(state, message, -1);
  if (state.goals !== undefined) unpin(state, record.removed ?? []);
  if (opensEpoch || shown !== state.memory?.shown) fold.openEpoch();
  // The request that was refused is now a different one.
  if (opensEpoch && isRefusedRequest(state.blocked)) state.blocked = undefined;
  const given = [...added, ...updated].some((message) => message.history?.taskId !== undefined);
  if (given) adoptGivenTasks(fold, added);
  rememberEdit(fold, record);
  publishEdit(fold, record, { removed, added, updated });
  if (pending > 0) settleCalls(state, changed, (body) => fold.countAndPublish(body));
  if (state.suspended !== undefined && settleSuspension(state, pending)) {
    fold.countAndPublish({ type: 'session.state', state: 'idle' });
  }
  // A message may say that it belongs to a branch other than the one shown.
  if (given) publishBranch(fold, record.operation);
  if (record.silent === false && fold.observer?.said !== undefined)
    for (const group of groups) fold.observer.said(group);
  if (state.active !== undefined) publishActive(fold);
}

/** A history with its own tasks enters a session that had none. */
function adoptGivenTasks({ state, at }: Fold, added: readonly LoggedMessage[]): void {
  const { tasks, nextMessageSeq } = state;
  let highest = 0;
  for (const { history } of added)
    if (Number.isSafeInteger(history?.taskId)) highest = Math.max(highest, history?.taskId ?? 0);
  adoptTasks(tasks, highest, nextMessageSeq, at);
}

function rememberEdit({ state }: Fold, { key, fingerprint = '', value }: RecordOf<'edited'>): void {
  if (key === undefined) return;
  const keys = state.editKeys ?? new Map();
  state.editKeys = keys;
  keys.set(key, value === undefined ? { fingerprint } : { fingerprint, value });
  forgetOldest(keys, EDIT_KEYS_REMEMBERED_MAX);
}

function publishEdit(
  fold: Fold,
  record: RecordOf<'edited'>,
  { removed, added, updated }: Pick<EditOutcome, 'removed' | 'added' | 'updated'>,
): void {
  if (!fold.counts()) return;
  const [only] = [...removed, ...added, ...updated];
  if (only === undefined || removed.length + added.length + updated.length > 1) {
    fold.publish({
      type: 'history.changed',
      operation: record.operation,
      removed: removed.map((message) => message.seq),
      created: added.map(publicMessage),
      updated: updated.map(publicMessage),
    });
  } else if (removed.length > 0) {
    fold.publish({ type: 'message.removed', messageSeq: only.seq, reason: record.operation });
  } else {
    fold.publish({ type: added.length > 0 ? 'message.created' : 'message.updated', message: publicMessage(only) });
  }
}

/** The preceding edit removed what a failed turn left. */
export function applyRolledBack(fold: Fold, record: RecordOf<'rolledBack'>): void {
  fold.state.failure = undefined;
  fold.countAndPublish({ type: 'session.rollback', reason: record.reason, index: record.index });
}
