/**
 * Applies records about a session as a whole: it is created, or begins as a fork; it is paused, recovered, restarted,
 * and ends. Changes the given state in place, as `apply` does; otherwise pure.
 */

import { defined } from '../../base/defined.ts';
import { plantSeed } from '../history/fork-seed.ts';
import { isInTurn } from '../rules/epoch.ts';
import { repinTask } from '../rules/goals.ts';
import type { RecordOf } from '../state/records.ts';
import { estimateContent } from '../state/tokens.ts';
import { evict } from './eviction.ts';
import type { Fold } from './fold.ts';

/** The session exists; a child's task is its first message. */
export function applyCreated(fold: Fold, record: RecordOf<'created'>): void {
  const { state } = fold;
  state.agent = record.agent;
  state.version = record.version;
  state.depth = record.depth;
  state.parent = record.parent;
  state.spawnCallId = record.spawnCallId;
  state.name = record.name;
  state.unnamed = record.unnamed === true;
  state.queued = record.queued === true;
  state.prompt = record.prompt;
  state.grants = record.grants;
  state.form = record.output;
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

/** The session begins as a fork. Its first state is taken from the record, or is already in the state. */
export function applyForked({ state, at }: Fold, { origin, seed }: RecordOf<'forked'>): void {
  if (seed !== undefined) plantSeed(state, seed);
  if (state.agent === undefined) throw new Error('a fork without its first state');
  state.origin = origin;
  state.createdAt = at;
}

/**
 * The system prompt's function returned a text. If an answered request of this epoch had another text, a new epoch
 * opens (A8).
 */
export function applySystem(fold: Fold, record: RecordOf<'system'>): void {
  const { state } = fold;
  if (state.sealedSeq > 0 && state.system !== undefined && state.system.text !== record.text) {
    fold.openEpoch();
    // The current call is made with the new text, so it belongs to the new epoch.
    if (state.current !== undefined) delete state.current.outdated;
  }
  state.system = { epoch: Math.max(record.epoch, state.epoch), text: record.text };
}

/** The session has another version of its agent from here on. */
export function applyUpgraded(fold: Fold, { from, version }: RecordOf<'upgraded'>): void {
  const { state } = fold;
  if (isInTurn(state)) throw new Error('V1: moved to another version within a turn');
  state.version = version;
  if (fold.counts()) {
    fold.publish({ type: 'agent.upgraded', agent: state.agent ?? '', ...defined({ from, version }) });
  }
}

/** The session is paused. It claims no half-step before it is resumed. */
export function applyPaused(fold: Fold): void {
  fold.state.paused = true;
  if (fold.counts()) fold.publish({ type: 'session.state', state: fold.state.state, phase: 'paused' });
}

/** The session continues after a pause or a block. */
export function applyResumed(fold: Fold, record: RecordOf<'resumed'>): void {
  fold.state.paused = record.staysPaused === true;
  fold.state.blocked = undefined;
  if (fold.counts()) fold.publish({ type: 'session.state', state: fold.state.state });
}

/** The session continues after a crash. This record only publishes an event; other records have the changes. */
export function applyRecovered(fold: Fold, record: RecordOf<'recovered'>): void {
  if (fold.counts()) {
    fold.publish({ type: 'session.recovered', redone: record.redone, synthesized: record.synthesized });
  }
}

export function applyExited({ state }: Fold, record: RecordOf<'exited'>): void {
  const { type: _type, ...exit } = record;
  // A completed child keeps its first end and its reply, whatever its later work does.
  if (state.exit?.reason !== 'completed') state.exit = exit;
  state.revived = undefined;
  // An ended child is not restarted. If its wait for a restart remained, the child would stay resident forever.
  state.restartAt = undefined;
  state.queued = false;
}

/** A child that has ended is to work again. It starts when its parent has room among the working children. */
export function applyRevived({ state }: Fold, record: RecordOf<'revived'>): void {
  state.revived = record.resumes === true ? 'resumed' : 'waiting';
  state.queued = true;
}

/** This child waits for a transient fault to pass before it restarts. */
export function applyRestartScheduled({ state, at }: Fold, record: RecordOf<'restartScheduled'>): void {
  state.restartAt = record.dueAt;
  state.restartWaitMs = Math.max(0, record.dueAt - at);
}

/** This child restarts: its earlier messages leave the window, and its task is its first message again. */
export function applyRestarted(fold: Fold): void {
  const { state } = fold;
  state.restartAt = undefined;
  // A suspended run and its open calls end here.
  state.suspended = undefined;
  state.openCalls.clear();
  repinTask(state, state.nextMessageSeq);
  // A state that is folded only to read all messages keeps the earlier messages.
  if (!state.keepsAll) evict(fold, state.nextMessageSeq);
  appendTask(fold, state.goal?.description ?? '');
}
