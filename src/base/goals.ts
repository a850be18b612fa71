/** Goals as they are reported and requested. Types only. */

/** A goal is open until it is completed, once. */
export type GoalStatus = 'active' | 'completed';

/** A part of a goal. `id` counts the goals of the session from 1. */
export interface SubGoal {
  readonly id: number;
  readonly description: string;
  readonly status: GoalStatus;
}

/** A goal with its parts, oldest first. A part that is returned alone has no parts, and names its goal. */
export interface Goal extends SubGoal {
  readonly parentId?: number;
  readonly subGoals: readonly SubGoal[];
}

/** The possible changes to a session's goals. */
export type GoalChange =
  | { readonly action: 'create'; readonly description: string; readonly parentId?: number }
  | { readonly action: 'update'; readonly id: number; readonly description: string }
  | { readonly action: 'complete'; readonly id: number }
  /**
   * Pins messages to goals. A pinned message that has left the window is shown again while one of its goals is open.
   */
  | { readonly action: 'attach'; readonly messages: readonly number[]; readonly goals: readonly number[] };
