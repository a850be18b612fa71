/**
 * The audit log of a store that gets another number of shards: the new shard of each row. A row about the whole store
 * belongs to the first shard.
 *
 * A row keeps its number, and its session determines its shard. So a reader's position in the rows of each shard stays
 * valid when a store gets its former number of shards again.
 */
import { auditEntry } from '../../base/audit/audit-entry.ts';
import { SCAN_ROWS } from '../../base/bounds.ts';
import { shardOf } from '../../base/ids.ts';
import type { Engine } from '../engine.ts';

/** A row of the audit log with its new shard. */
export interface MovedAuditRow {
  readonly shard: number;
  readonly number: number;
  readonly text: string;
}

/** The rows of these engines, ascending by number, so that each new shard gets its rows ascending. */
export function* movedAudit(from: readonly Engine[], shards: number): Iterable<MovedAuditRow> {
  const queues = from.map((engine) => new RowQueue(engine));
  let last = 0;
  for (;;) {
    let first: RowQueue | undefined;
    for (const queue of queues) if ((queue.next ?? Infinity) < (first?.next ?? Infinity)) first = queue;
    const row = first?.take();
    if (row === undefined) return;
    const [number, text] = row;
    // Two shards may have the same number if the clock was set back between two changes of the number of shards. The
    // later row then gets the next number, so that no row replaces another.
    last = Math.max(number, last + 1);
    const { session } = auditEntry(number, text);
    yield { shard: session === undefined ? 0 : shardOf(session, shards), number: last, text };
  }
}

/** The rows of one engine that were not taken yet. It reads `SCAN_ROWS` at once. */
class RowQueue {
  readonly #engine: Engine;
  #rows: readonly (readonly [number, string])[];
  #index = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#rows = engine.audit({ after: 0, limit: SCAN_ROWS });
  }

  /** The number of the next row; undefined if none is left. */
  get next(): number | undefined {
    return this.#rows[this.#index]?.[0];
  }

  take(): readonly [number, string] | undefined {
    const row = this.#rows[this.#index];
    if (row === undefined) return undefined;
    this.#index += 1;
    if (this.#index === this.#rows.length) {
      this.#rows = this.#engine.audit({ after: row[0], limit: SCAN_ROWS });
      this.#index = 0;
    }
    return row;
  }
}
