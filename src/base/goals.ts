/** Goals as they are told and asked for. Types only. */

/** A goal is open until it is completed, once. */
export type GoalStatus = 'active' | 'completed';

/** A part of a goal. `id` counts the goals of the session from 1. */
export interface SubGoal {
  readonly id: number;
  readonly description: string;
  readonly status: GoalStatus;
}

/** A goal with its parts, oldest first. A part asked for by itself has none, and names its goal. */
export interface Goal extends SubGoal {
  readonly parentId?: number;
  readonly subGoals: readonly SubGoal[];
}

/** What may be done to the goals of a session. */
export type GoalChange =
  | { readonly action: 'create'; readonly description: string; readonly parentId?: number }
  | { readonly action: 'update'; readonly id: number; readonly description: string }
  | { readonly action: 'complete'; readonly id: number }
  /** Pins messages to goals: shown again once they have left the window, while one of the goals is open. */
  | { readonly action: 'attach'; readonly messages: readonly number[]; readonly goals: readonly number[] };
