/**
 * Reads the log: for one session by its back pointers, for all sessions in order. Rows come from the engine or, while
 * they are not durable, from memory. A reader may pause between two entries for any time: it holds no cursor of the
 * database, and a row changes only where removed sessions or removed parts of logs are erased.
 */
import { READ_HELD_CHARACTERS_MAX, SCAN_ROWS } from '../base/bounds.ts';
import { StoreCorruptError } from '../base/errors.ts';
import type { Engine } from './engine.ts';
import { corruptError } from './lmdb/errors.ts';
import type { Position, SessionKey, StoredEntry } from './position.ts';
import {
  decodeRow,
  entryOf,
  positionOf,
  type Reveal,
  type Row,
  type RowSlice,
  rowOf,
  rowSessions,
  sessionsFrom,
  sliceRow,
} from './rows/row-codec.ts';

/** Rows fetched singly at the beginning of a scan of the log. */
const SINGLE_SCANS = 4;

/** The source of rows. */
export interface LogSource {
  readonly engine: Engine;
  /** A row that is not durable yet. It may still grow at its end. */
  unwrittenRow(number: number): Row | undefined;
  /** All rows that are not durable, starting at a number, ascending. These rows follow the durable rows. */
  unwrittenRows(from: number): readonly Row[];
  /** False for a session that was removed. */
  isVisible(key: SessionKey): boolean;
  /** The last row before a session's log begins; 0: none. */
  rowBefore(key: SessionKey): number;
  /** Decrypts the data of entries. Missing if the store is not encrypted. */
  readonly reveal?: Reveal | undefined;
  /** The data of an entry with its media. Throws `StoreCorruptError` for a medium that is missing or damaged. */
  filled(data: string): string;
}

/** The newest row of a session, and the session's row before that one (0: none). */
export interface LastRow {
  row: number;
  previousRow: number;
}

/**
 * The entries of one session after `after`, oldest first; `lastRow` is the newest row with entries of the session, 0
 * for none. Rows up to `rowBefore` are not read, because the log begins after them. Throws `StoreCorruptError` from
 * the iteration when a row is missing or damaged.
 */
export function* readSession(
  source: LogSource,
  key: SessionKey,
  lastRow: number,
  after: Position,
  rowBefore = 0,
): Iterable<StoredEntry> {
  const found: { readonly row: number; readonly slice: RowSlice | undefined }[] = [];
  let held = 0;
  // The chain runs from new to old. Entries within the bound are held in memory. The rows of the other entries are
  // fetched again while reading forward.
  for (let row = lastRow; row > rowBefore && row >= rowOf(after); ) {
    const slice = sliceOf(source, row, key);
    for (const entry of slice.entries) held += entry.data.length;
    found.push({ row, slice: held > READ_HELD_CHARACTERS_MAX ? undefined : slice });
    if (slice.previousRow >= row) throw corruptChain(key, row);
    row = slice.previousRow;
  }
  for (let step = found.pop(); step !== undefined; step = found.pop()) {
    for (const { turn, data } of (step.slice ?? sliceOf(source, step.row, key)).entries) {
      const position = positionOf(step.row, turn);
      if (position > after) yield { key, position, data: source.filled(data) };
    }
  }
}

/**
 * The entry that one transition wrote for a session; undefined when there is none. Throws `StoreCorruptError` when its
 * row is missing or damaged.
 */
export function readEntry(source: LogSource, key: SessionKey, position: Position): StoredEntry | undefined {
  const row = rowOf(position);
  const found = sliceOf(source, row, key).entries.find(({ turn }) => positionOf(row, turn) === position);
  return found === undefined ? undefined : { key, position, data: source.filled(found.data) };
}

/** The entries of all visible sessions after `after` and before `end`, oldest first. Throws like `readSession`. */
export function* readTail(source: LogSource, after: Position, end: Position): Iterable<StoredEntry> {
  let next = rowOf(after);
  for (let scans = 1; ; scans += 1) {
    // The first rows are fetched singly: a reader that continues needs many rows, but a reader that soon stops must not
    // pay for them.
    const stored = source.engine.rows(next, scans <= SINGLE_SCANS ? 1 : SCAN_ROWS);
    if (stored.length === 0) break;
    for (const { number, bytes } of stored) {
      yield* visible(
        source,
        number,
        located(source.engine, () => decodeRow(bytes, number, source.reveal)),
        after,
        end,
      );
      next = number + 1;
    }
  }
  // Nothing can become durable between the empty scan and this line, so no row is skipped or read twice.
  for (const row of source.unwrittenRows(next)) {
    yield* visible(
      source,
      row.number,
      row.entries.map((entry) => entryOf(entry, row.number, source.reveal)),
      after,
      end,
    );
  }
}

/**
 * The sessions with entries after `after`, including removed sessions, in the order of their first entry after `after`.
 * Reads only the tables of the rows, because the data of an entry is read later, with its session. Ends with the row in
 * which `limit` sessions are reached; `lastRow` is then that row. Throws `StoreCorruptError`.
 */
export function tailSessions(
  source: LogSource,
  after: Position,
  limit: number,
): { readonly keys: ReadonlySet<SessionKey>; readonly lastRow?: number } {
  const found = new Set<SessionKey>();
  const first = rowOf(after);
  let next = first;
  for (;;) {
    const stored = source.engine.rows(next, SCAN_ROWS, 'table');
    if (stored.length === 0) break;
    for (const { number, bytes } of stored) {
      const turn = number === first ? after - positionOf(first, 0) + 1 : 0;
      for (const key of located(source.engine, () => sessionsFrom(bytes, number, turn))) found.add(key);
      if (found.size >= limit) return { keys: found, lastRow: number };
      next = number + 1;
    }
  }
  // The last of these rows may still grow, so a page never ends at one of them.
  for (const row of source.unwrittenRows(next)) {
    for (const { key, turn } of row.entries) if (positionOf(row.number, turn) > after) found.add(key);
  }
  return { keys: found };
}

/**
 * The last rows of the sessions written after row `indexedRow`, according to the durable rows. Throws
 * `StoreCorruptError`. The work is bounded by the number of rows between two checkpoints.
 */
export function scanLastRows(engine: Engine, indexedRow: number): Map<SessionKey, LastRow> {
  const found = new Map<SessionKey, LastRow>();
  for (let next = indexedRow + 1; ; ) {
    const stored = engine.rows(next, SCAN_ROWS, 'table');
    if (stored.length === 0) return found;
    for (const { number, bytes } of stored) {
      for (const [key, previousRow] of located(engine, () => rowSessions(bytes, number))) {
        found.set(key, { row: number, previousRow });
      }
      next = number + 1;
    }
  }
}

function* visible(
  source: LogSource,
  row: number,
  entries: readonly { readonly key: SessionKey; readonly turn: number; readonly data: string }[],
  after: Position,
  end: Position,
): Iterable<StoredEntry> {
  for (const { key, turn, data } of entries) {
    const position = positionOf(row, turn);
    if (position <= after || position >= end || !source.isVisible(key)) continue;
    if (row <= source.rowBefore(key)) continue;
    yield { key, position, data: source.filled(data) };
  }
}

function sliceOf(source: LogSource, row: number, key: SessionKey): RowSlice {
  const unwritten = source.unwrittenRow(row);
  if (unwritten !== undefined) {
    const entries = unwritten.entries
      .filter((entry) => entry.key === key)
      .map((entry) => entryOf(entry, row, source.reveal));
    return { previousRow: entries[0]?.previousRow ?? 0, entries };
  }
  const { engine } = source;
  return located(engine, () => {
    const bytes = engine.row(row);
    const slice = bytes === undefined ? undefined : sliceRow(bytes, row, key, source.reveal);
    if (slice !== undefined) return slice;
    // The session, or the older part of its log, was removed while it was read, and its entries are being erased.
    if (!source.isVisible(key) || row <= source.rowBefore(key)) return { previousRow: 0, entries: [] };
    throw corruptChain(key, row);
  });
}

/** Runs `read`. If it throws an error for damage, adds the path of the store and the remedy to that error. */
export function located<T>(engine: Engine, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof StoreCorruptError) || engine.path === undefined) throw error;
    const { message, data } = corruptError(engine.path, error);
    throw new StoreCorruptError(message, { cause: error, data: { ...data, ...error.data } });
  }
}

function corruptChain(key: SessionKey, row: number): StoreCorruptError {
  const reason = `the entries of session key ${key} lead to row ${row}, which has no entry of that session`;
  return new StoreCorruptError(`the journal cannot be read: ${reason}`, { data: { key, row, reason } });
}
