/**
 * The audit log of a journal: rows with ascending numbers. A row belongs to no session, so a row about a session stays
 * when that session is removed. The journal does not know the meaning of a row.
 *
 * Owns: the number of the newest row. Does not own: the rows. Those that are not durable yet are in the batches of the
 * gate (`lmdb/commit-gate.ts`), the others in the engine.
 *
 * Invariants:
 *  A1 `add` writes into the open batch and never closes it. The next transition or removal is in the same batch. So a
 *     row and the act of which it speaks are durable together, or neither is;
 *  A2 numbers rise. A number is made from the clock, so that all rows before a moment can be found. If the clock was
 *     set back, the number is the next one after the newest row. The remainder of a number divided by `SHARDS_MAX` is
 *     the number of the shard, so that no two shards give out the same number;
 *  A3 in an encrypted store a row is encrypted with the data key that belongs to no session.
 */
import { SHARDS_MAX } from '../base/bounds.ts';
import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';

/**
 * Numbers of one millisecond: 32 rows for each of `SHARDS_MAX` shards. More rows take numbers of later milliseconds.
 */
const NUMBERS_PER_MS = 32 * SHARDS_MAX;

/** A row of the audit log. */
export interface AuditRow {
  readonly number: number;
  /** A JSON text. */
  readonly text: string;
}

/** The audit log; see the head of the file. */
export interface AuditRows {
  /** Writes a row. Durable with the transition or removal that follows at once. `at`: epoch ms. `json`: a JSON text. */
  add(at: number, json: string): void;
  /** Rows above `after`, ascending, at most `limit`. Throws `StoreCorruptError` if a row cannot be decrypted. */
  read(after: number, limit: number): readonly AuditRow[];
  /** Epoch ms of the oldest row, roughly; undefined if there is none. */
  oldestAt(): number | undefined;
  /** Removes the oldest rows that were written before `at` (epoch ms), at most `limit`. Returns how many it removed. */
  removeBefore(at: number, limit: number): number;
}

/** The parts of its journal that the audit log needs. */
export interface StoredAuditParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  /** Missing: the store is not encrypted. */
  readonly vault: Vault | undefined;
  /** The number of the shard. */
  readonly shard: number;
}

/** The number of the next row of a shard (A2). `newest`: the number of the newest row, 0 if there is none. */
export function auditNumber(newest: number, at: number, shard: number): number {
  const least = Math.max(newest + 1, at * NUMBERS_PER_MS);
  return Math.ceil((least - shard) / SHARDS_MAX) * SHARDS_MAX + shard;
}

/** The number of the newest stored row, 0 if there is none. */
export function newestAudit(engine: Engine): number {
  return engine.audit({ after: 0, limit: 1, isNewestFirst: true })[0]?.[0] ?? 0;
}

/** See the head of the file. */
export class StoredAudit implements AuditRows {
  readonly #parts: StoredAuditParts;
  #newest: number;

  constructor(parts: StoredAuditParts) {
    this.#parts = parts;
    this.#newest = newestAudit(parts.engine);
  }

  add(at: number, json: string): void {
    const { gate, vault, shard } = this.#parts;
    if (gate.isRefused) return;
    const number = auditNumber(this.#newest, at, shard);
    this.#newest = number;
    const text = vault?.sealAudit(number, json) ?? json;
    const batch = gate.open;
    batch.audit.set(number, text);
    // If the batch is full now, the next transition closes it (A1).
    batch.bytes += text.length;
  }

  read(after: number, limit: number): readonly AuditRow[] {
    const { vault } = this.#parts;
    return this.#stored(after, limit).map(([number, text]) => ({
      number,
      text: vault === undefined ? text : vault.audit(number, text),
    }));
  }

  oldestAt(): number | undefined {
    const [oldest] = this.#stored(0, 1);
    return oldest === undefined ? undefined : Math.floor(oldest[0] / NUMBERS_PER_MS);
  }

  removeBefore(at: number, limit: number): number {
    const { gate } = this.#parts;
    if (gate.isRefused) return 0;
    const old = this.#stored(0, limit).filter(([number]) => number < at * NUMBERS_PER_MS);
    for (const [number] of old) gate.open.audit.set(number, undefined);
    return old.length;
  }

  /** The rows as they are stored, including rows that are not durable yet. */
  #stored(after: number, limit: number): readonly (readonly [number, string])[] {
    const { engine, gate } = this.#parts;
    const added: (readonly [number, string])[] = [];
    const removed = new Set<number>();
    gate.each(({ audit }) => {
      for (const [number, text] of audit) {
        if (text === undefined) removed.add(number);
        else if (number > after) added.push([number, text]);
      }
    });
    // A refused write may have succeeded after all, so a row may be in the batches and in the engine.
    for (const [number] of added) removed.add(number);
    const durable = engine.audit({ after, limit: limit + removed.size }).filter(([number]) => !removed.has(number));
    return [...durable, ...added].slice(0, limit);
  }
}
