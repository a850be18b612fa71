/** The preparation of a turn by an enricher, as a session's state holds it. Plain data. */

/** The preparation in progress. A session has at most one. */
export interface Enrichment {
  /** Number of the run in flight. */
  readonly run: number;
  /**
   * `preparing`: a turn is prepared. `recalling`: earlier messages are searched, because goals changed meanwhile.
   * `naming`: a sub-agent is named before its first turn.
   */
  readonly stage: 'preparing' | 'recalling' | 'naming';
  /** Pending id of the message whose turn is prepared. */
  readonly entry: number;
  /** Epoch ms at which the preparation began. */
  readonly at: number;
  /** True if a goal was created or reworded since the preparation began. */
  readonly goalsChanged: boolean;
}
