/**
 * Summaries of messages that left the window, and the run of Mneme that writes the next summary (contract §1.5), as a
 * state holds them. Plain data.
 */
import type { ErrorShape } from '../../base/errors.ts';

/** Level 1 is a summary of messages. Level 2 is a summary of level 1 snapshots. */
export type SnapshotLevel = 1 | 2;

/** A summary of the messages from one seq to another, both included. */
export interface Snapshot {
  readonly level: SnapshotLevel;
  /** The summary: not blank, at most `SNAPSHOT_CHARACTERS_MAX` characters. */
  readonly text: string;
  readonly from: number;
  readonly to: number;
  readonly tokens: number;
}

/** The messages that leave the window after a run of level 1. `count` and `tokens` reveal a change during the run. */
export interface Leaving {
  /** Seq at which the window begins once the messages have left. */
  readonly boundary: number;
  readonly count: number;
  readonly tokens: number;
}

/** A summary in progress. */
export interface SummaryRun {
  readonly run: number;
  readonly level: SnapshotLevel;
  readonly from: number;
  readonly to: number;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The messages that leave the window; only for a run of level 1. */
  readonly leaving?: Leaving;
  /** True if a half-step waits for this run. */
  readonly isAwaited?: true;
  /** How the run ended; missing while it runs. The result takes effect at the next message boundary. */
  readonly ended?: SummaryEnd;
}

/** How a run ended. `text` missing: there is nothing to remember. The messages may leave the window all the same. */
export type SummaryEnd = { readonly text?: string } | { readonly error: ErrorShape };

/** The memory of messages that left a session's window. */
export interface Memory {
  /** All snapshots, ascending by `to`. */
  readonly snapshots: readonly Snapshot[];
  readonly summarising?: SummaryRun;
  /**
   * `nextMessageSeq` when a summary of messages last failed. No other summary is tried before there are new messages.
   */
  readonly failedAt?: number;
  /**
   * The number of snapshots when an attempt to sum them up failed or gave no text. The next attempt waits for more
   * snapshots.
   */
  readonly restsAt?: number;
  /** The text of the snapshots in this epoch's system prompt. */
  readonly shown?: string;
  /** Token limits of the snapshots that are shown, by level. Set whenever a summary takes effect. */
  readonly budgets: SnapshotBudgets;
}

/** Token limits of the snapshots that are shown, by level. */
export interface SnapshotBudgets {
  readonly 1: number;
  readonly 2: number;
}
