/**
 * The beginnings of the logs of sessions. A log begins with its first entry or, if its older part was removed, with a
 * base. A base is a blob that stands for the removed part.
 *
 * Owns: the beginnings that are not durable yet, through the gate (`lmdb/commit-gate.ts`). Does not own: the rows,
 * which `log-erasure.ts` erases, and the contents of a base, which only its readers know.
 *
 * Invariants:
 *  P1 the end of the removed part and the note that leads to that part's rows are in one batch; the base is in that
 *     batch, in an earlier batch, or in the engine. So after a crash the session has its whole log, or the base and the
 *     rest of the log;
 *  P2 a removed part ends at the end of a row. So all entries that a session has in one row are removed, or none is;
 *  P3 no reader goes back beyond the beginning of a log, because the rows before it may be erased.
 */
import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import type { LogErasure } from './log-erasure.ts';
import type { Erasure, LogStart, Position, SessionKey } from './position.ts';
import { positionOf, rowOf } from './rows/row-codec.ts';

type EarlierPart = Pick<Erasure, 'earlier'>;

/** The parts of its journal that the beginnings need. */
export interface LogStartParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  readonly erasure: LogErasure;
  /** Missing: the store is not encrypted. */
  readonly vault: Vault | undefined;
  readonly nameOf: (key: SessionKey) => string | undefined;
}

/** See the head of the file. */
export class LogStarts {
  readonly #parts: LogStartParts;

  constructor(parts: LogStartParts) {
    this.#parts = parts;
  }

  /** The beginning of a session's log; undefined if nothing of it was removed. */
  of(key: SessionKey): LogStart | undefined {
    const start = this.#stored(key);
    return start === undefined || this.#parts.vault === undefined ? start : this.#parts.vault.start(start);
  }

  /** True for a row that is not durable yet. Such a row can still get further entries. */
  isUnwritten(row: number): boolean {
    return this.#parts.erasure.isUnwritten(row);
  }

  /** The last row before a session's log begins, which readers leave out; 0: none. */
  rowBefore(key: SessionKey): number {
    const start = this.#stored(key);
    return start === undefined ? 0 : rowOf(start.position);
  }

  /**
   * Removes the part of a session's log up to `position`, and puts a base in its place. Atomic, durable with the next
   * flush. `base`: the address of the base, a blob that belongs to this session. The row of `position` must be durable,
   * and no later entry of the session may be in it. Returns false and changes nothing in these cases: the journal
   * refuses writes, the session was removed, the row is not durable, or the log already begins after that row.
   */
  cut(key: SessionKey, position: Position, base: string): boolean {
    const { gate, erasure, vault, nameOf } = this.#parts;
    const name = nameOf(key);
    const row = rowOf(position);
    if (gate.isRefused || name === undefined || erasure.isUnwritten(row)) return false;
    if (row <= this.rowBefore(key)) return false;
    const batch = gate.open;
    const earlier = this.#earlier(key);
    const former = this.#stored(key);
    // The table has the address under which the blob is stored. In an encrypted store this address is not the hash of
    // the text. So a reader of the disk cannot check a guess of the text.
    const place = vault === undefined ? base : vault.newAddress(base);
    if (former !== undefined && former.base !== place) batch.blobs.set(former.base, undefined);
    batch.starts.set(key, { position: positionOf(row + 1, 0) - 1, base: place });
    erasure.begin(key, { name, row, heirs: [], keeps: true, ...earlier }, batch);
    return true;
  }

  /** Called when a session is removed. Returns the parts that were removed earlier, for the note about its rows. */
  remove(key: SessionKey, batch: WriteBatch): EarlierPart {
    const earlier = this.#earlier(key);
    if (earlier.earlier !== undefined) batch.starts.set(key, undefined);
    return earlier;
  }

  /** The beginning with the address under which its base is stored. */
  #stored(key: SessionKey): LogStart | undefined {
    const { gate, engine } = this.#parts;
    const pending = gate.find(({ starts }) => (starts.has(key) ? { start: starts.get(key) } : undefined));
    return pending === undefined ? engine.startOf(key) : pending.start;
  }

  #earlier(key: SessionKey): EarlierPart {
    const row = this.rowBefore(key);
    if (row === 0) return {};
    const note = this.#parts.erasure.notes.get(key);
    return { earlier: [{ row, left: note?.row ?? 0 }, ...(note?.earlier ?? [])] };
  }
}
