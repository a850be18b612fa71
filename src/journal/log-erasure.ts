/**
 * Takes the entries of removed sessions, and of removed parts of logs, out of the rows of the log, a bounded slice at
 * a time.
 *
 * Owns: for each removed session or part, the newest row that still has entries of it. Does not own: the rows, which
 * are in the engine, and the batches of the gate (`lmdb/commit-gate.ts`).
 *
 * Invariants:
 *  X1 the removal of a session and the note of its newest row are in one batch. So after a crash the store has either
 *     the session or the note;
 *  X2 only durable rows are rewritten. The entries of other sessions keep their bytes and the numbers of their
 *     transitions, so all positions and back pointers stay right;
 *  X3 a rewritten row, and the notes that lead to the rows before it, are in one batch. So a crash repeats a slice or
 *     continues after it, and no row is forgotten;
 *  X4 the last row of the log is never removed, only emptied: it says which numbers were given out;
 *  X5 the removed part of a log (`log-starts.ts`) is erased like a removed session. A later note of the same session
 *     replaces the note of that part. The later note skips the rows already erased for that part, and leads to the
 *     others.
 */
import { ERASE_SLICE_BYTES_MAX, ERASE_SLICE_ROWS_MAX } from '../base/bounds.ts';
import { lowerBound } from '../base/lower-bound.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import { located } from './log-reader.ts';
import type { Erasure, SessionKey } from './position.ts';
import { corruptRow, reduceRow } from './rows/row-codec.ts';

/** The parts of its journal that an erasure needs. */
export interface LogErasureParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  /** True for a row that is not durable yet. */
  readonly isUnwritten: (row: number) => boolean;
}

/** See the head of the file. */
export class LogErasure {
  readonly #parts: LogErasureParts;
  readonly #notes = new Map<SessionKey, Erasure>();
  /** The sessions of the notes by their newest row. */
  readonly #sessions = new Map<number, SessionKey[]>();
  /** The rows of `#sessions`, ascending. */
  #rows: number[] = [];

  constructor(parts: LogErasureParts) {
    this.#parts = parts;
  }

  /** Reads the notes of the engine, at open and after a refused write. */
  load(): void {
    this.#notes.clear();
    this.#sessions.clear();
    for (const [key, erasure] of this.#parts.engine.erasures()) {
      this.#notes.set(key, erasure);
      if (erasure.row > 0) this.#sessions.set(erasure.row, [...(this.#sessions.get(erasure.row) ?? []), key]);
    }
    this.#rows = [...this.#sessions.keys()].sort((a, b) => a - b);
  }

  /** The notes about removed sessions and removed parts of logs whose data may still be stored. */
  get notes(): ReadonlyMap<SessionKey, Erasure> {
    return this.#notes;
  }

  /** True for a row that is not durable yet. */
  isUnwritten(row: number): boolean {
    return this.#parts.isUnwritten(row);
  }

  /**
   * Notes that a session, or the older part of its log, was removed, in the batch that removes it.
   * `erasure.row`: the newest row with entries that were removed, 0 for none.
   */
  begin(key: SessionKey, erasure: Erasure, batch: WriteBatch): void {
    this.#note(key, erasure, batch);
  }

  /** True if the results of a session are needed: by the session itself, or by a fork of it. */
  isNeeded(key: SessionKey, isThere: (key: SessionKey) => boolean): boolean {
    return isThere(key) || (this.#notes.has(key) && !this.ready(isThere).includes(key));
  }

  /** The removed sessions that are in no row any more, and whose other data no session needs. */
  ready(isThere: (key: SessionKey) => boolean): readonly SessionKey[] {
    const isNeeded = (note: Erasure): boolean =>
      note.heirs.some((heir) => {
        const left = this.#notes.get(heir);
        // A note with `keeps` is about the older part of a log; its session may still be there.
        return left === undefined || left.keeps === true ? isThere(heir) : isNeeded(left);
      });
    return Array.from(this.#notes).flatMap(([key, note]) => (note.row === 0 && !isNeeded(note) ? key : []));
  }

  /** Forgets the notes of those `keys` whose rows are all erased, and returns these keys. */
  end(keys: Iterable<SessionKey>, batch: WriteBatch): readonly SessionKey[] {
    const ended = [...keys].filter((key) => this.#notes.get(key)?.row === 0);
    for (const key of ended) {
      const keeps = this.#notes.get(key)?.keeps === true;
      this.#notes.delete(key);
      batch.erasures.set(key, undefined);
      if (!keeps) batch.isErased = true;
      // A session that lost only the older part of its log still needs its origin, because the names of its result
      // files contain it.
      if (!keeps && this.#parts.engine.originOf(key) !== undefined) batch.origins.set(key, undefined);
    }
    return ended;
  }

  /**
   * Puts one slice into a batch and returns its bytes; 0 if there is nothing to do now. Throws `StoreCorruptError` for
   * a row that cannot be read.
   */
  slice(batch: WriteBatch): number {
    let rows = 0;
    let bytes = 0;
    while (rows < ERASE_SLICE_ROWS_MAX && bytes < ERASE_SLICE_BYTES_MAX) {
      const row = this.#rows.at(-1);
      // A row that is not durable yet becomes durable with its flush, and a later slice takes it (X2).
      if (row === undefined || this.#parts.isUnwritten(row)) break;
      bytes += this.#rewrite(row, batch);
      rows += 1;
    }
    return bytes;
  }

  #rewrite(row: number, batch: WriteBatch): number {
    const { engine } = this.#parts;
    const keys = new Set(this.#sessions.get(row));
    const reduced = located(engine, () => {
      const plain = this.#rowOf(row);
      if (plain === undefined) throw corruptRow(row, 'it is not there');
      // Rows are taken from new to old. So the note of each removed session with entries in this row leads to this row
      // now.
      const found = reduceRow(plain, row, (key) => keys.has(key));
      for (const key of keys) {
        if (!found.taken.has(key)) throw corruptRow(row, `it has nothing of session key ${key}`);
      }
      return found;
    });
    this.#rows.pop();
    this.#sessions.delete(row);
    const isRemoved = reduced.isEmpty && row !== engine.state().lastRow;
    batch.rewrittenRows.set(row, isRemoved ? undefined : reduced.bytes);
    for (const [key, previousRow] of reduced.taken) {
      const note = this.#notes.get(key);
      if (note !== undefined) this.#note(key, behind(note, previousRow), batch);
    }
    return reduced.bytes.length;
  }

  /** The row as it will be once the batches of the gate are durable. */
  #rowOf(row: number): Buffer | undefined {
    const { gate, engine } = this.#parts;
    const pending = gate.find((batch) =>
      batch.rewrittenRows.has(row) ? { bytes: batch.rewrittenRows.get(row) } : undefined,
    );
    return pending === undefined ? engine.row(row) : pending.bytes;
  }

  #note(key: SessionKey, erasure: Erasure, batch: WriteBatch): void {
    this.#notes.set(key, erasure);
    batch.erasures.set(key, erasure);
    const { row } = erasure;
    if (row === 0) {
      // The bytes of the entries are left in free pages until the store is compacted.
      if (erasure.keeps !== true) batch.isErased = true;
      return;
    }
    const known = this.#sessions.get(row);
    if (known !== undefined) {
      known.push(key);
      return;
    }
    this.#sessions.set(row, [key]);
    this.#rows.splice(lowerBound(this.#rows, row), 0, row);
  }
}

/**
 * The note after its row was rewritten. `previousRow`: the next older row of the session. If that row is in a part
 * that was removed earlier, the note continues with the rows of that part that are not erased yet (X5).
 */
function behind({ earlier = [], ...note }: Erasure, previousRow: number): Erasure {
  let row = previousRow;
  let passed = 0;
  for (const part of earlier) {
    if (row > part.row) break;
    row = part.left;
    passed += 1;
  }
  const rest = earlier.slice(passed);
  return rest.length === 0 || row === 0 ? { ...note, row } : { ...note, earlier: rest, row };
}
