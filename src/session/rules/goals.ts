/**
 * Reads the goals of a session's state and changes them by records (contract §1.4, §6.7). A child's task is its first
 * goal, and the task's message its first pin. Until the child has another goal or pin, the state keeps only the task
 * (`state.goal`) and no book. The given state is changed in place, as in `apply`; otherwise pure.
 */
import type { Goal } from '../../base/goals.ts';
import { textOf } from '../../base/messages.ts';
import type { GoalBook } from '../state/goals.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import {
  EMPTY_BOOK,
  goalSummary,
  goalsText,
  withCompleted,
  withDescription,
  withGoal,
  withOnlyPin,
  withoutPinsOf,
  withPins,
} from './goal-book.ts';

/** The id of the goal that represents a child's task. */
const TASK_GOAL = 1;

export type GoalRecord = Extract<SessionRecord, { type: 'goalCreated' | 'goalUpdated' | 'goalDone' | 'pinned' }>;

/** The goals of a session: its book, or a book made of its task alone. */
export function bookOf(state: SessionState): GoalBook {
  if (state.goals !== undefined) return state.goals;
  const { goal, createdAt } = state;
  if (goal === undefined) return EMPTY_BOOK;
  const book = withGoal(EMPTY_BOOK, { description: goal.description, createdAt });
  if (goal.completed) return withCompleted(book, TASK_GOAL, state.updatedAt).book;
  const pinned = state.messages.find((message) => message.pinned === true);
  return pinned === undefined ? book : withPins(book, [{ seq: pinned.seq, text: textOf(pinned.content) }], [TASK_GOAL]);
}

/** The public form of a session's goals. */
export function goalsOf(state: SessionState): readonly Goal[] {
  return goalSummary(bookOf(state));
}

/** The goals and pins shown before the window; `undefined` if no message has left the window, or no goal is open. */
export function prefixText(state: SessionState): string | undefined {
  if (state.goals === undefined || state.floor <= 1) return undefined;
  return goalsText(state.goals, state.floor);
}

/** The consequences of a goal record that the fold must carry out. */
export interface GoalOutcome {
  /** True if the beginning of requests changed. */
  readonly opensEpoch: boolean;
  readonly isPublished: boolean;
}

/** Applies a record of goals. */
export function applyGoal(state: SessionState, record: GoalRecord, at: number): GoalOutcome {
  const before = bookOf(state);
  switch (record.type) {
    case 'goalCreated': {
      const { description, parentId } = record;
      const goal = { description, createdAt: at };
      state.goals = withGoal({ ...before, next: record.id }, parentId === undefined ? goal : { ...goal, parentId });
      break;
    }
    case 'goalUpdated':
      state.goals = withDescription(before, record.id, record.description);
      break;
    case 'goalDone':
      state.goals = withCompleted(before, record.id, at).book;
      break;
    case 'pinned':
      state.goals = withPins(before, record.messages, record.goals);
      break;
  }
  const changesPrompt = changeTask(state, record);
  // The text before the window stays the same within an epoch. Only its first appearance, or its removal, opens an
  // epoch.
  const changesPrefix = (prefixText(state) === undefined) !== (state.prefix === undefined);
  return { opensEpoch: changesPrompt || changesPrefix, isPublished: record.type !== 'pinned' };
}

/** Changes the task, if the record is about the task. True if the system prompt's section with the task changed. */
function changeTask(state: SessionState, record: GoalRecord): boolean {
  if (state.goal === undefined || state.goal.completed || record.type === 'pinned' || record.id !== TASK_GOAL) {
    return false;
  }
  if (record.type === 'goalUpdated') state.goal = { description: record.description, completed: false };
  else if (record.type === 'goalDone') completeTask(state);
  return true;
}

/** The task is done: its message is no longer shown once it has left the window. */
export function completeTask(state: SessionState): void {
  if (state.goal !== undefined) state.goal = { ...state.goal, completed: true };
  state.messages = state.messages.map((message) => {
    if (message.pinned === undefined) return message;
    const { pinned: _pinned, ...released } = message;
    return released;
  });
}

/** Completes the task's goal in the book, after the child marked its task as done. False if there is no book. */
export function completeTaskGoal(state: SessionState, at: number): boolean {
  if (state.goals === undefined) return false;
  state.goals = withCompleted(state.goals, TASK_GOAL, at).book;
  return true;
}

/** Makes a book before an eviction, so that pins of the evicted messages are remembered. */
export function rememberPins(state: SessionState, pinTokens: number): void {
  state.goals = { ...bookOf(state), pinTokens };
}

/** Pins the task's new message `seq` instead of the earlier one, when a child restarts. */
export function repinTask(state: SessionState, seq: number): void {
  if (state.goals === undefined || state.goal === undefined) return;
  state.goals = withOnlyPin(state.goals, TASK_GOAL, { seq, text: state.goal.description });
}

/** Removes the pins of deleted messages. */
export function unpin(state: SessionState, seqs: readonly number[]): void {
  if (state.goals !== undefined) state.goals = withoutPinsOf(state.goals, seqs);
}
