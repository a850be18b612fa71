/** A turn that is being prepared before it is claimed (contract §8, Δ5), as a session's state keeps it. Plain data. */
import type { SessionState } from './state.ts';

/** The preparation under way: one at most in a session. */
export interface Enrichment {
  /** Number of the run that is out. */
  readonly run: number;
  /**
   * The turn is prepared; then, where goals changed meanwhile, what was said before is looked through. Or a sub-agent is named,
   * before its first turn.
   */
  readonly stage: 'preparing' | 'recalling' | 'naming';
  /** Pending id of the message whose turn it is. */
  readonly entry: number;
  /** Epoch ms at which it began. */
  readonly at: number;
  /** A goal was made or worded anew since it began. */
  readonly goalsChanged: boolean;
}

/** The session waits for the run of this number. */
export function isMuseDue(state: SessionState, run: number): boolean {
  const summary = state.memory?.summarising;
  return state.enrichment?.run === run || (summary?.run === run && summary.ended === undefined);
}
