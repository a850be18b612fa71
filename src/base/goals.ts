/** Goals of a session, as the API returns them, and requests to change them. Types only. */

/** The status of a goal. A goal is active until it is completed, and it cannot be reopened. */
export type GoalStatus = 'active' | 'completed';

/** A part of a goal. `id` is the number of the goal or part in its session, from 1. */
export interface SubGoal {
  readonly id: number;
  readonly description: string;
  readonly status: GoalStatus;
}

/**
 * A goal with its parts, oldest first. A part that is returned alone has no list of parts; it names its goal instead.
 */
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
