/** Goals and pinned messages (contract §1.4), as a state has them. Plain data. */

/** A goal. Times are epoch ms. */
export interface GoalNode {
  readonly id: number;
  readonly parentId?: number;
  readonly description: string;
  readonly createdAt: number;
  readonly completedAt?: number;
}

/** A message that is shown again once it has left the window. */
export interface Pin {
  readonly seq: number;
  /** The message, cut; 1 to 200 characters. */
  readonly text: string;
  readonly tokens: number;
  /** Ids, at least one of them open. */
  readonly goals: readonly number[];
}

/** See the head of the file. `goals` ascending by id, `pins` ascending by seq. */
export interface GoalBook {
  readonly goals: readonly GoalNode[];
  readonly pins: readonly Pin[];
  readonly next: number;
  /** Tokens the pins shown may have, as of the last eviction. */
  readonly pinTokens: number;
}
