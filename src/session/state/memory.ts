/**
 * Summaries of messages that left the window, and the run that is writing one (contract §1.5), as a state holds them.
 * Plain data.
 */
import type { ErrorShape } from '../../base/errors.ts';

/** Level 1 is a summary of messages. Level 2 is a summary of level 1 snapshots. */
export type SnapshotLevel = 1 | 2;

/** A summary of the messages between two seqs, both included. */
export interface Snapshot {
  readonly level: SnapshotLevel;
  /** The summary: not blank, at most `SNAPSHOT_CHARACTERS_MAX` characters. */
  readonly text: string;
  readonly from: number;
  readonly to: number;
  readonly tokens: number;
}

/** The messages that leave the window with a run of level 1. They show whether the window changed during the run. */
export interface Leaving {
  /** Seq at which the window begins afterwards. */
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
  /** How the run ended, once it has. The result is settled at the next message boundary. */
  readonly ended?: SummaryEnd;
}

/** How a run ended. `text` missing: there is nothing to remember, and the window may still move. */
export type SummaryEnd = { readonly text?: string } | { readonly error: ErrorShape };

/** The memory of messages that left a session's window. */
export interface Memory {
  /** All snapshots, ascending by `to`. */
  readonly snapshots: readonly Snapshot[];
  readonly summarising?: SummaryRun;
  /**
   * The next message's seq at the time a summary of messages failed. No other summary is tried before the next seq is
   * higher.
   */
  readonly failedAt?: number;
  /** The number of snapshots at the time summing them up failed. Summing up is tried again when there are more. */
  readonly restsAt?: number;
  /** The text the system prompt shows in this epoch. */
  readonly shown?: string;
  /** Token limits of the snapshots shown, by level, as of the last snapshot. */
  readonly budgets: SnapshotBudgets;
}

/** Tokens of the snapshots shown, by level. */
export interface SnapshotBudgets {
  readonly 1: number;
  readonly 2: number;
}
