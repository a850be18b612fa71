/**
 * `apply` defines what a session remembers. It folds one record into a state and publishes its durable events to an
 * observer. Live sessions and replays use the same fold, so they cannot differ.
 *
 * The given state is changed in place and returned; otherwise `apply` is pure. If each record copied the messages, the
 * cost of a half-step would grow with the history. A caller that needs the earlier state must fold the log again.
 * `apply` keeps S1 to S9 of `state.ts`.
 *
 * This file only dispatches. Each record is applied in the file of its area in this folder; `decide/` writes the
 * records. The areas are mailbox, turn, answer, run-loop, children, lifecycle, models, eviction, goals, enrichment,
 * memory, compression, history, tasks, retention. They share the `Fold`.
 */

import { defined } from '../../base/defined.ts';
import type { ReadContent } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { estimateTokens } from '../state/tokens.ts';
import { applyLost, applyResponded } from './answer.ts';
import {
  applyBudget,
  applyBudgetUsed,
  applyChildExited,
  applyChildNamed,
  applyChildRevived,
  applyChildStarted,
  applySpawned,
} from './children.ts';
import { applyCompacted, applyCompacting, applyCompactionFailed } from './compression.ts';
import { applyEnrichment, applyNamed } from './enrichment.ts';
import { applyEvicted } from './eviction.ts';
import { Fold, type Observer } from './fold.ts';
import { applyGoalChange, applyGoalCompleted } from './goals.ts';
import { applyEdited, applyRolledBack } from './history.ts';
import {
  applyCreated,
  applyExited,
  applyForked,
  applyForkMade,
  applyPaused,
  applyRecovered,
  applyRestarted,
  applyRestartScheduled,
  applyResumed,
  applyRevived,
  applySystem,
  applyUpgraded,
} from './lifecycle.ts';
import { applyAccepted, applyDropped, applyLetterDropped, applyPoisoned, applyRecalled } from './mailbox.ts';
import { applyMemory } from './memory.ts';
import { applyModel } from './models.ts';
import { applyHistoryRemoved } from './retention.ts';
import {
  applyAsked,
  applyContinued,
  applyCorrected,
  applyDecided,
  applyGathered,
  applyMisanswered,
  applyProceeded,
  applySuspended,
} from './run-loop.ts';
import { applyTaskActivated, applyTaskStarted } from './tasks.ts';
import { applyBlocked, applyClaimed, applyClosed, applyFailed, applyRetried, finishTurn } from './turn.ts';

/**
 * Folds one record. `at`: epoch ms of its transition. Throws an Error for a record that `decide` cannot have written.
 */
export function apply(
  state: SessionState,
  record: SessionRecord,
  at: number,
  observer?: Observer,
  readContent?: ReadContent,
): SessionState {
  applyRecord(new Fold(state, at, observer, readContent), record);
  return state;
}

/** Folds all records of one transition. */
export function applyAll(
  state: SessionState,
  records: readonly SessionRecord[],
  at: number,
  observer?: Observer,
  readContent?: ReadContent,
): SessionState {
  const fold = new Fold(state, at, observer, readContent);
  for (const record of records) applyRecord(fold, record);
  return state;
}

/** Folds the next record of a transition. Throws an Error for a record that `decide` cannot have written. */
export function applyRecord(fold: Fold, record: SessionRecord): void {
  const { state } = fold;
  state.updatedAt = fold.at;
  switch (record.type) {
    case 'created':
      return applyCreated(fold, record);
    case 'accepted':
      return applyAccepted(fold, record);
    case 'claimed':
      return applyClaimed(fold, record);
    case 'epoch':
      state.fingerprint = record.fingerprint;
      state.traits = record.traits;
      applyModel(fold, record.model);
      fold.openEpoch();
      if (record.resends === true && state.current !== undefined) delete state.current.outdated;
      return;
    case 'system':
      return applySystem(fold, record);
    case 'evicted':
      return applyEvicted(fold, record);
    case 'responded':
      return applyResponded(fold, record);
    case 'retried':
      return applyRetried(fold, record);
    case 'failed':
      return applyFailed(fold, record);
    case 'lost':
      return applyLost(fold, record);
    case 'noted':
      fold.append({ type: 'system_message', content: record.content, tokens: estimateTokens(record.content) });
      return;
    case 'closed':
      return applyClosed(fold, record);
    case 'corrected':
      return applyCorrected(fold, record);
    case 'dropped':
      return applyDropped(fold, record);
    case 'recalled':
      return applyRecalled(fold, record);
    case 'poisoned':
      return applyPoisoned(fold, record);
    case 'historyRemoved':
      return applyHistoryRemoved(fold, record);
    case 'letterDropped':
      return applyLetterDropped(fold, record);
    case 'interrupted':
      state.interruptRequested = true;
      state.interruptReason = record.reason;
      if (fold.counts()) fold.publish({ type: 'interrupt.acknowledged', ...defined({ reason: record.reason }) });
      return;
    case 'released':
      return finishTurn(fold, 'cancelled');
    case 'spawned':
      return applySpawned(fold, record);
    case 'childStarted':
      return applyChildStarted(fold, record);
    case 'childRevived':
      return applyChildRevived(fold, record);
    case 'started':
      state.queued = false;
      return;
    case 'revived':
      return applyRevived(fold, record);
    case 'budgetUsed':
      return applyBudgetUsed(fold, record);
    case 'budgetSet':
    case 'budgetShared':
      return applyBudget(fold, record);
    case 'childExited':
      return applyChildExited(fold, record);
    case 'goalCompleted':
      return applyGoalCompleted(fold);
    case 'goalCreated':
    case 'goalUpdated':
    case 'goalDone':
    case 'pinned':
      return applyGoalChange(fold, record);
    case 'exited':
      return applyExited(fold, record);
    case 'restartScheduled':
      return applyRestartScheduled(fold, record);
    case 'restarted':
      return applyRestarted(fold);
    case 'paused':
      return applyPaused(fold);
    case 'resumed':
      return applyResumed(fold, record);
    case 'recovered':
      return applyRecovered(fold, record);
    case 'upgraded':
      return applyUpgraded(fold, record);
    case 'edited':
      return applyEdited(fold, record);
    case 'taskStarted':
      return applyTaskStarted(fold, record);
    case 'taskActivated':
      return applyTaskActivated(fold, record);
    case 'forkMade':
      return applyForkMade(fold, record);
    case 'forked':
      return applyForked(fold, record);
    case 'compacting':
      return applyCompacting(fold, record);
    case 'compacted':
      return applyCompacted(fold, record);
    case 'compactionFailed':
      return applyCompactionFailed(fold, record);
    case 'summaryBegun':
    case 'summaryAwaited':
    case 'summaryEnded':
    case 'remembered':
    case 'summaryFailed':
    case 'summaryDropped':
      return applyMemory(fold, record);
    case 'gathered':
      return applyGathered(fold, record);
    case 'proceeded':
      return applyProceeded(fold, record);
    case 'suspended':
      return applySuspended(fold, record);
    case 'continued':
      return applyContinued(fold, record);
    case 'asked':
      return applyAsked(fold, record);
    case 'misanswered':
      return applyMisanswered(fold, record);
    case 'decided':
      return applyDecided(fold, record);
    case 'blocked':
      return applyBlocked(fold, record);
    case 'preparing':
    case 'recalling':
    case 'prepared':
      return applyEnrichment(fold, record);
    case 'named':
      return applyNamed(fold, record);
    case 'childNamed':
      return applyChildNamed(fold, record);
    case 'rolledBack':
      return applyRolledBack(fold, record);
    default:
      // A record without a case does not compile.
      record satisfies never;
  }
}
