/**
 * What becomes of a session as a whole: it is created, or begins as a fork; it is paused, recovered, started again, and ends.
 * Pure but linear, as `apply`.
 */

import { plantSeed } from '../history/fork-seed.ts';
import { repinTask } from '../rules/goals.ts';
import type { RecordOf } from '../state/records.ts';
import { estimateContent } from '../state/tokens.ts';
import { evict } from './eviction.ts';
import type { Fold } from './fold.ts';

/** The session exists; a child's task is its first message. */
export function applyCreated(fold: Fold, record: RecordOf<'created'>): void {
  const { state } = fold;
  state.agent = record.agent;
  state.depth = record.depth;
  state.parent = record.parent;
  state.spawnCallId = record.spawnCallId;
  state.name = record.name;
  state.unnamed = record.unnamed === true;
  state.prompt = record.prompt;
  state.grants = record.grants;
  state.replies = record.replies ?? 'mailbox';
  state.createdAt = fold.at;
  if (record.budget !== undefined) state.budget = { ...record.budget, below: 0 };
  if (record.task === undefined) return;
  state.goal = { description: record.task, completed: false };
  appendTask(fold, record.task);
}

function appendTask(fold: Fold, task: string): void {
  fold.append({ type: 'user_message', content: task, tokens: estimateContent(task), pinned: true });
}

/** The log up to here is shared with a fork, or was copied for it. */
export function applyForkMade({ state }: Fold, record: RecordOf<'forkMade'>): void {
  state.nextFork = record.fork + 1;
  if (record.copied !== true) state.forks.push(record.child);
}

/** The session begins as a fork: what it begins with is planted here, or was folded before. */
export function applyForked({ state, at }: Fold, { origin, seed }: RecordOf<'forked'>): void {
  if (seed !== undefined) plantSeed(state, seed);
  if (state.agent === undefined) throw new Error('a fork without what it begins with');
  state.origin = origin;
  state.createdAt = at;
}

/** The system function gave a text. Another one than what was answered in this epoch already is another request (A8). */
export function applySystem(fold: Fold, record: RecordOf<'system'>): void {
  const { state } = fold;
  if (state.sealedSeq > 0 && state.system !== undefined && state.system.text !== record.text) {
    fold.openEpoch();
    // It is what the call is made with that waited for it.
    if (state.current !== undefined) delete state.current.outdated;
  }
  state.system = { epoch: Math.max(record.epoch, state.epoch), text: record.text };
}

/** Nothing is claimed before it is resumed. */
export function applyPaused(fold: Fold): void {
  fold.state.paused = true;
  if (fold.counts()) fold.tell({ type: 'session.state', state: fold.state.state, phase: 'paused' });
}

/** Paused, or stopped by refused credentials, it goes on. */
export function applyResumed(fold: Fold): void {
  fold.state.paused = false;
  fold.state.blocked = undefined;
  if (fold.counts()) fold.tell({ type: 'session.state', state: fold.state.state });
}

/** It goes on after a crash. What that changed stands in records of its own: here it is told. */
export function applyRecovered(fold: Fold, record: RecordOf<'recovered'>): void {
  if (fold.counts()) {
    fold.tell({ type: 'session.recovered', redone: record.redone, synthesized: record.synthesized });
  }
}

/** A child ends. */
export function applyExited({ state }: Fold, record: RecordOf<'exited'>): void {
  const { type: _type, ...exit } = record;
  // The first exit is the one a handle's `reply()` gives; a child woken again later has answered already.
  state.exit ??= exit;
  // Whoever has ended is not started again; a wait left behind would keep it from ever being quiet.
  state.restartAt = undefined;
}

/** A child waits out a fault before it is started again. */
export function applyRestartScheduled({ state, at }: Fold, record: RecordOf<'restartScheduled'>): void {
  state.restartAt = record.dueAt;
  state.restartWaitMs = Math.max(0, record.dueAt - at);
}

/** A child starts again: what it knew has left the window, its task stands first. */
export function applyRestarted(fold: Fold): void {
  const { state } = fold;
  state.restartAt = undefined;
  // What a suspended run left open is left behind with the rest.
  state.suspended = undefined;
  state.openCalls.clear();
  repinTask(state, state.nextMessageSeq);
  // Folded to be read whole, it keeps what the child left behind.
  if (!state.keepsAll) evict(fold, state.nextMessageSeq);
  appendTask(fold, state.goal?.description ?? '');
}
