/**
 * Makes another task active, so that another branch of the conversation is shown. Changes the given state in place, as
 * `apply` does; otherwise pure. Keeps S1 of `state.ts`.
 */

import { showBranch } from '../history/branch.ts';
import { forgetHidden, settleSuspension } from '../history/edited-calls.ts';
import { addTask, enterTask } from '../history/tasks.ts';
import { publicMessage } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { Wish } from '../state/tasks.ts';
import type { Fold } from './fold.ts';

/** A task begins below another, and becomes active. */
export function applyTaskStarted(fold: Fold, record: RecordOf<'taskStarted'>): void {
  addTask(fold.state.tasks, record.id, record.parent, record.title);
  activate(fold, { task: record.id, cause: 'start' });
}

/** An existing task becomes active. */
export function applyTaskActivated(fold: Fold, record: RecordOf<'taskActivated'>): void {
  activate(fold, { task: record.id, cause: record.cause });
}

/**
 * Makes a task active; during a turn this waits for the turn's end (B4). Messages of other branches leave the
 * conversation, and messages of the task's branch return. One event reports both changes.
 */
export function activate(fold: Fold, wish: Wish): void {
  const { state } = fold;
  if (state.turn !== undefined) {
    state.tasks.wished = wish;
    return;
  }
  enterTask(state.tasks, wish, state.nextMessageSeq, fold.at);
  publishBranch(fold, wish.cause === 'start' ? 'startTask' : wish.cause);
}

/**
 * Shows the messages of the active branch. If they differ from those shown before, opens an epoch and publishes them.
 */
export function publishBranch(fold: Fold, operation: string): void {
  const { state } = fold;
  const { shown, hidden } = showBranch(state);
  if (shown.length + hidden.length === 0) return;
  fold.openEpoch();
  fold.countAndPublish({
    type: 'history.changed',
    operation,
    removed: hidden.map((message) => message.seq),
    created: shown.map(publicMessage),
    updated: [],
  });
  if (state.suspended === undefined) return;
  const pending = state.openCalls.size;
  forgetHidden(state, hidden);
  if (settleSuspension(state, pending)) fold.countAndPublish({ type: 'session.state', state: 'idle' });
}
