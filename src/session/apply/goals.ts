/**
 * Applies goal and pin records to a session and publishes their events. Changes the given state in place, as `apply`
 * does; otherwise pure.
 */

import { applyGoal, completeTask, completeTaskGoal, type GoalRecord, goalsOf } from '../rules/goals.ts';
import { isReworded } from './enrichment.ts';
import type { Fold } from './fold.ts';

/** A child marked its own task completed. */
export function applyGoalCompleted(fold: Fold): void {
  const { state } = fold;
  completeTask(state);
  const isPublished = completeTaskGoal(state, fold.at);
  if (state.turn !== undefined) state.turn.marked = true;
  // The section with the task leaves the system prompt (§7.4), so the beginning of requests changes.
  fold.openEpoch();
  if (isPublished) publishGoals(fold);
}

/** A goal was created, reworded or completed, or messages were pinned to goals. */
export function applyGoalChange(fold: Fold, record: GoalRecord): void {
  const { state } = fold;
  const { enrichment } = state;
  if (enrichment !== undefined && isReworded(state, record)) {
    state.enrichment = { ...enrichment, goalsChanged: true };
  }
  const { opensEpoch, isPublished } = applyGoal(state, record, fold.at);
  if (opensEpoch) fold.openEpoch();
  if (isPublished) publishGoals(fold);
}

function publishGoals(fold: Fold): void {
  if (fold.counts()) fold.publish({ type: 'goals.updated', goals: goalsOf(fold.state) });
}
