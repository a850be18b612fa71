/** Goals and pinned messages, as a state holds them. Plain data. */

/** A goal. Times are epoch ms. */
export interface GoalNode {
  readonly id: number;
  readonly parentId?: number;
  readonly description: string;
  readonly createdAt: number;
  readonly completedAt?: number;
}

/** A pinned message: it is shown again once it has left the window. */
export interface Pin {
  readonly seq: number;
  /** The shortened message: 1 to 200 characters. */
  readonly text: string;
  readonly tokens: number;
  /** Goal ids, at least one of them open. */
  readonly goals: readonly number[];
}

/** All goals and pins. `goals` is ascending by id, `pins` ascending by seq. */
export interface GoalBook {
  readonly goals: readonly GoalNode[];
  readonly pins: readonly Pin[];
  readonly next: number;
  /** Token limit of the pins that are shown. Set at an eviction, when messages leave the window. */
  readonly pinTokens: number;
}
