/**
 * Applies a history operation to a session: to its messages (`apply/edit.ts`), open calls, branches and memory, and
 * publishes the events. Changes the given state in place, as `apply` does; otherwise pure.
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
 * Applies an edit and publishes one event for it: `message.created`, `message.updated` or `message.removed` if one
 * message changed, otherwise `history.changed`, which lists all changed messages.
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
  // The next request differs from the refused one, so the refusal no longer blocks the session.
  if (opensEpoch && isRefusedRequest(state.blocked)) state.blocked = undefined;
  const given = [...added, ...updated].some((message) => message.history?.taskId !== undefined);
  if (given) adoptGivenTasks(fold, added);
  rememberEdit(fold, record);
  publishEdit(fold, record, { removed, added, updated });
  if (pending > 0) settleCalls(state, changed, (body) => fold.countAndPublish(body));
  if (state.suspended !== undefined && settleSuspension(state, pending)) {
    fold.countAndPublish({ type: 'session.state', state: 'idle' });
  }
  // A given message may name a task that the active branch does not show.
  if (given) publishBranch(fold, record.operation);
  if (record.silent === false && fold.observer?.said !== undefined)
    for (const group of groups) fold.observer.said(group);
  if (state.active !== undefined) publishActive(fold);
}

/** Takes over the tasks that added messages name, if the session had no tasks before. */
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

/** The preceding edit removed the messages of a failed turn. */
export function applyRolledBack(fold: Fold, record: RecordOf<'rolledBack'>): void {
  fold.state.failure = undefined;
  fold.countAndPublish({ type: 'session.rollback', reason: record.reason, index: record.index });
}
