/** Summaries of messages that left the window, and the run that is writing one (contract §1.5), as a state has them. Plain data. */
import type { ErrorShape } from '../../base/errors.ts';

/** 1: of messages; 2: of snapshots of level 1. */
export type SnapshotLevel = 1 | 2;

/** A summary of the messages from a seq to a seq, both included. */
export interface Snapshot {
  readonly level: SnapshotLevel;
  /** Not blank, at most `SNAPSHOT_CHARACTERS_MAX` characters. */
  readonly text: string;
  readonly from: number;
  readonly to: number;
  readonly tokens: number;
}

/** What leaves the window with a run of level 1: by it is seen whether somebody else changed that meanwhile. */
export interface Leaving {
  /** Where the window begins then. */
  readonly boundary: number;
  readonly count: number;
  readonly tokens: number;
}

/** A summary under way. */
export interface SummaryRun {
  readonly run: number;
  readonly level: SnapshotLevel;
  readonly from: number;
  readonly to: number;
  /** From 1. */
  readonly attempt: number;
  /** Level 1 only. */
  readonly leaving?: Leaving;
  /** A half-step waits for it. */
  readonly isAwaited?: true;
  /** It is over, and is settled at the next message boundary (R14). */
  readonly ended?: SummaryEnd;
}

/** How a run ended. `text` missing: there is nothing to remember of it, and the window may go on all the same. */
export type SummaryEnd = { readonly text?: string } | { readonly error: ErrorShape };

/** See the head of the file. */
export interface Memory {
  /** By `to`, ascending. */
  readonly snapshots: readonly Snapshot[];
  readonly summarising?: SummaryRun;
  /** The seq that came next when a summary of messages had failed: as long as it does, none is tried again. */
  readonly failedAt?: number;
  /** Snapshots there were when summing them up failed: it is tried again when there are more. */
  readonly restsAt?: number;
  /** What the system prompt shows in this epoch. */
  readonly shown?: string;
  /** Tokens the snapshots shown may have, by level, as of the last one. */
  readonly budgets: SnapshotBudgets;
}

/** Tokens of the snapshots shown, by level. */
export interface SnapshotBudgets {
  readonly 1: number;
  readonly 2: number;
}
