/**
 * The journal over an engine. It keeps every promise of the Journal port (`journal.ts`) that does not depend on how
 * bytes are stored. A row of the log holds the entries of several transitions (`rows/row-codec.ts`).
 *
 * Owns: the next row number and session key, the row being filled, and the last row of each session touched since the
 * last durable checkpoint. Through its gate (`lmdb/commit-gate.ts`) it owns the batches that are not yet durable. Does
 * not own: durable data, which is the engine's.
 *
 * Invariants, beside J1 to J7 of the port and G1 to G5 of the gate:
 *  E1 a read sees the batches that are not yet durable, newest first, and then the data of the engine. Data that a
 *     refused write dropped from the gate disappears from every read at once (J3);
 *  E2 row numbers only rise while the journal is open, even after a refused write. A position contains a row number, so
 *     positions only rise too;
 *  E3 a session's key has a name from `intern` until `remove`. Entries can be written and read under the key only
 *     during that time. No key is given out twice, so the rows of a removed session stay unread until they are erased
 *     (`log-erasure.ts`);
 *  E4 a checkpoint ends the row that is being filled, so that it covers whole rows.
 */
import {
  FLUSH_BYTES_MAX,
  FLUSH_ROWS_MAX,
  JOURNAL_NAME_CHARACTERS_MAX,
  ROW_BYTES_MAX,
  ROW_TURNS_MAX,
} from '../base/bounds.ts';
import { CancelledError, InvalidNameError, LimitError } from '../base/errors.ts';
import type { StoreEncryption } from './encryption/master-keys.ts';
import { vaultOf } from './encryption/stored-keys.ts';
import type { Vault } from './encryption/vault.ts';
import { createBatch, type Engine, isEmptyBatch, lastGivenRow, type WriteBatch } from './engine.ts';
import type { Journal, JournalStatistics, TailPage } from './journal.ts';
import { LastRows } from './last-rows.ts';
import { CommitGate } from './lmdb/commit-gate.ts';
import { LogErasure } from './log-erasure.ts';
import { type LastRow, type LogSource, readEntry, readSession, readTail, tailSessions } from './log-reader.ts';
import { LogStarts } from './log-starts.ts';
import type { Erasure, Head, JournalCopy, Position, SessionKey, StoredEntry, TurnEntry } from './position.ts';
import { listNames, type NameQuery } from './rows/name-list.ts';
import { heldData, positionOf, type Row, rowOf, rowTurns } from './rows/row-codec.ts';
import { storedJson } from './rows/stored-text.ts';
import { StoredAudit } from './stored-audit.ts';
import { StoredBlobs } from './stored-blobs.ts';
import { StoredDrafts } from './stored-drafts.ts';
import { createStoredLog, type StoredLog } from './stored-log.ts';
import { StoredMedia } from './stored-media.ts';
import { StoredResults } from './stored-results.ts';

/**
 * Printable ASCII, so that every way of sorting names gives the same order. Session ids use a subset of these
 * characters.
 */
const NAME = /^[\x21-\x7e]+$/;
/** Keys are stored in 32 bits. */
const SESSION_KEY_MAX = 0xffff_ffff;

/** The options of a journal over an engine. */
export interface EngineJournalOptions {
  /** Calls `run` once, soon, never synchronously: after all callers of the current tick have run. */
  readonly schedule: (run: () => void) => void;
  /** Missing: the store is not encrypted. */
  readonly encryption?: StoreEncryption;
  /** The number of the shard; missing: 0. */
  readonly shard?: number;
}

/** See the head of this file. */
export class EngineJournal implements Journal {
  readonly stored: StoredLog;
  readonly drafts: StoredDrafts;
  readonly audit: StoredAudit;
  readonly results: StoredResults;
  readonly starts: LogStarts;
  readonly originOf: (key: SessionKey) => string | undefined;
  readonly copyTo: ((directory: string, known?: string) => Promise<JournalCopy>) | undefined;
  readonly resultKey: Journal['resultKey'];
  readonly compaction: Journal['compaction'];
  readonly snapshots: Journal['snapshots'];
  readonly #engine: Engine;
  readonly #source: LogSource;
  readonly #gate: CommitGate<WriteBatch>;
  readonly #vault: Vault | undefined;
  readonly #media: StoredMedia;
  readonly #blobs: StoredBlobs;
  readonly #erasure: LogErasure;
  #nextRow = 1;
  #nextKey: SessionKey = 1;
  #checkpointed: Position = 0;
  /** The row that takes the next transition. It is the last row of the open batch. */
  #row: Row | undefined;
  /** Rows in the gate, by number, ascending. */
  #unwritten: Map<number, Row> = new Map();
  readonly #lastRows: LastRows;
  #recovering: Promise<Position> | undefined;
  #closing: Promise<void> | undefined;
  #turns = 0;
  #rows = 0;
  #flushes = 0;
  #flushMs = 0;

  constructor(engine: Engine, options: EngineJournalOptions) {
    this.#engine = engine;
    this.#vault = vaultOf(options.encryption, {
      engine,
      gate: () => this.#gate,
      isRemoved: (key) => this.nameOf(key) === undefined,
    });
    const reveal = this.#vault?.reveal;
    this.originOf = (key) => engine.originOf(key);
    this.#lastRows = new LastRows(engine, (key) => this.nameOf(key) !== undefined);
    this.#source = {
      engine,
      reveal,
      unwrittenRow: (number) => this.#unwritten.get(number),
      unwrittenRows: (from) => [...this.#unwritten.values()].filter((row) => row.number >= from),
      isVisible: (key) => this.nameOf(key) !== undefined,
      rowBefore: (key) => this.starts.rowBefore(key),
      filled: (data) => this.#media.filled(data),
    };
    this.stored = createStoredLog({
      engine,
      newestRow: (key) => (this.nameOf(key) === undefined ? 0 : this.#lastRows.of(key)),
      rowBefore: (key) => this.starts.rowBefore(key),
      unwrittenBefore: (row, key) =>
        this.#unwritten.get(row)?.entries.find((entry) => entry.key === key)?.previousRow ?? 0,
      storedBlob: (address) => this.#blobs.storedForm(address),
      reveal,
    });
    this.#gate = new CommitGate<WriteBatch>({
      create: createBatch,
      isEmpty: isEmptyBatch,
      write: (batch) => this.#write(batch),
      written: (batch) => this.#written(batch),
      refused: () => this.#refused(),
      schedule: options.schedule,
    });
    this.#media = new StoredMedia(engine, this.#gate, this.#vault);
    const parts = { engine, gate: this.#gate, vault: this.#vault };
    this.#blobs = new StoredBlobs({ ...parts, media: this.#media });
    const nameOf = (key: SessionKey): string | undefined => this.nameOf(key);
    this.drafts = new StoredDrafts({ ...parts, nameOf });
    this.audit = new StoredAudit({ ...parts, shard: options.shard ?? 0 });
    this.#erasure = new LogErasure({ engine, gate: this.#gate, isUnwritten: (row) => this.#unwritten.has(row) });
    this.starts = new LogStarts({ ...parts, erasure: this.#erasure, nameOf });
    const isNeeded = (key: SessionKey): boolean => this.#erasure.isNeeded(key, this.#isThere);
    this.results = new StoredResults({ ...parts, isNeeded, grew: (bytes) => this.#grow(this.#gate.open, bytes) });
    this.resultKey = this.#vault?.resultKey.bind(this.#vault);
    this.compaction = engine.compaction;
    this.snapshots = engine.snapshots;
    const copy = engine.copyTo?.bind(engine);
    this.copyTo = copy && (async (directory, known) => this.flushed().then(() => copy(directory, known)));
    this.#load();
  }

  get fence(): number {
    return this.#engine.fence;
  }

  keyOf(name: string): SessionKey | undefined {
    this.#checkOpen();
    const pending = this.#gate.find((batch) => (batch.names.has(name) ? { key: batch.names.get(name) } : undefined));
    return pending === undefined ? this.#engine.keyOf(name) : pending.key;
  }

  nameOf(key: SessionKey): string | undefined {
    this.#checkOpen();
    const pending = this.#gate.find((batch) => (batch.keys.has(key) ? { name: batch.keys.get(key) } : undefined));
    return pending === undefined ? this.#engine.nameOf(key) : pending.name;
  }

  /** Throws `InvalidNameError` for a name that is not 1..512 printable ASCII characters, `LimitError` at 2^32 keys. */
  intern(name: string): SessionKey {
    const known = this.keyOf(name);
    if (known !== undefined) return known;
    if (name.length > JOURNAL_NAME_CHARACTERS_MAX || !NAME.test(name)) {
      throw new InvalidNameError(`a session's name is 1 to ${JOURNAL_NAME_CHARACTERS_MAX} printable ASCII characters`);
    }
    if (this.#nextKey > SESSION_KEY_MAX) {
      throw new LimitError('the journal has given out all its session keys', { data: { limit: 'sessionKeys' } });
    }
    const key = this.#nextKey;
    this.#nextKey += 1;
    if (this.#gate.isRefused) return key;
    const batch = this.#gate.open;
    batch.names.set(name, key);
    batch.keys.set(key, name);
    batch.nextKey = this.#nextKey;
    this.#grow(batch, name.length * 2);
    return key;
  }

  /** Throws `TroupeError` (`unknown_session`) for a key without a name (E3), before anything is put. */
  append(entries: readonly TurnEntry[]): Position {
    this.#checkOpen();
    if (this.#gate.isRefused) {
      // `recover` forgets this transition, but its position is never given out again (E2).
      const lost = positionOf(this.#nextRow, 0);
      this.#nextRow += 1;
      return lost;
    }
    const places: LastRow[] = [];
    for (const entry of entries) places.push(this.#lastRows.touch(entry.key));
    const row = this.#row ?? this.#openRow();
    const turn = row.turns;
    row.turns += 1;
    let bytes = 0;
    for (let index = 0; index < entries.length; index += 1) {
      const entry = entries[index];
      const place = places[index];
      if (entry === undefined || place === undefined) break;
      const taken = this.#media.take(entry.data, entry.key);
      const stored = storedJson(taken.text);
      const sealed = this.#vault?.sealEntry(entry.key, row.number, turn, stored.text);
      const dataBytes = sealed?.length ?? stored.bytes;
      if (place.row !== row.number) {
        place.previousRow = place.row;
        place.row = row.number;
      }
      row.entries.push({
        key: entry.key,
        turn,
        previousRow: place.previousRow,
        data: sealed ?? heldData(stored.text, stored.bytes),
        dataBytes,
      });
      row.bytes += dataBytes;
      bytes += dataBytes + taken.bytes;
    }
    this.#turns += 1;
    if (row.turns >= ROW_TURNS_MAX || row.bytes >= ROW_BYTES_MAX) this.#row = undefined;
    this.#grow(this.#gate.open, bytes);
    return positionOf(row.number, turn);
  }

  flushed(): Promise<void> {
    this.#checkOpen();
    return this.#gate.flushed();
  }

  recover(): Promise<Position> {
    this.#checkOpen();
    this.#recovering ??= this.#recover().finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  /** Throws `StoreCorruptError` when the row is missing or damaged. */
  entry(key: SessionKey, position: Position): StoredEntry | undefined {
    if (this.nameOf(key) === undefined || rowOf(position) <= this.starts.rowBefore(key)) return undefined;
    return readEntry(this.#source, key, position);
  }

  /** Throws `StoreCorruptError` from the iteration when a row is missing or damaged. */
  *read(key: SessionKey, after: Position): Iterable<StoredEntry> {
    if (this.nameOf(key) === undefined) return;
    yield* readSession(this.#source, key, this.#lastRows.of(key), after, this.starts.rowBefore(key));
  }

  /**
   * Ends at the last entry that was appended before the first entry was requested. Throws `StoreCorruptError` from the
   * iteration.
   */
  *tail(after: Position): Iterable<StoredEntry> {
    this.#checkOpen();
    yield* readTail(this.#source, after, this.end() + 1);
  }

  /** Throws `StoreCorruptError` when a row is missing or damaged. */
  tailKeys(after: Position): ReadonlySet<SessionKey> {
    return this.tailPage(after, Number.POSITIVE_INFINITY).keys;
  }

  /** Throws `StoreCorruptError` when a row is missing or damaged. */
  tailPage(after: Position, limit: number): TailPage {
    this.#checkOpen();
    const { keys, lastRow } = tailSessions(this.#source, after, limit);
    return { keys, end: lastRow === undefined ? this.end() : positionOf(lastRow + 1, 0) - 1 };
  }

  end(): Position {
    const open = this.#row;
    return (open === undefined ? positionOf(this.#nextRow, 0) : positionOf(open.number, open.turns)) - 1;
  }

  head(key: SessionKey): Head | undefined {
    this.#checkOpen();
    const pending = this.#gate.find((batch) => (batch.heads.has(key) ? { head: batch.heads.get(key) } : undefined));
    const head = pending === undefined ? this.#engine.head(key) : pending.head;
    return head === undefined || this.#vault === undefined ? head : this.#vault.head(head);
  }

  checkpoint(heads: readonly Head[], upTo: Position, outdated: readonly string[] = []): void {
    this.#checkOpen();
    if (this.#gate.isRefused) return;
    const batch = this.#gate.open;
    let bytes = 0;
    for (const head of heads) {
      // If a session was removed while its head was folded, the head must not bring the session back.
      if (this.nameOf(head.key) === undefined) continue;
      const data = storedJson(head.data);
      const plain = { ...head, data: data.text };
      batch.heads.set(head.key, this.#vault?.sealHead(plain) ?? plain);
      bytes += data.bytes;
    }
    for (const [key, place] of this.#lastRows.touched()) {
      // The rows since the last checkpoint may have entries of sessions that were removed.
      if (place.row > 0 && this.nameOf(key) !== undefined) batch.lastRows.set(key, place.row);
    }
    for (const address of outdated) this.#blobs.remove(address, batch);
    this.#row = undefined;
    batch.checkpoint = { upTo, indexedRow: this.#nextRow - 1 };
    this.#checkpointed = upTo;
    this.#grow(batch, bytes);
  }

  checkpointed(): Position {
    this.#checkOpen();
    return this.#checkpointed;
  }

  runnable(): Iterable<SessionKey> {
    this.#checkOpen();
    const keys = new Set(this.#engine.runnable());
    let changed = false;
    this.#gate.each((batch) => {
      for (const [key, head] of batch.heads) {
        changed = true;
        if (head?.runnable === true) keys.add(key);
        else keys.delete(key);
      }
    });
    return changed ? [...keys].sort((a, b) => a - b) : keys;
  }

  names(options: NameQuery): readonly (readonly [string, SessionKey])[] {
    this.#checkOpen();
    const changes = new Map<string, SessionKey | undefined>();
    this.#gate.each((batch) => {
      for (const [name, key] of batch.names) changes.set(name, key);
    });
    return listNames(options, changes, (from, exclusive, limit) => this.#engine.names(from, exclusive, limit));
  }

  remove(keys: readonly SessionKey[], heirs: ReadonlyMap<SessionKey, readonly SessionKey[]> = new Map()): void {
    this.#checkOpen();
    if (this.#gate.isRefused) return;
    // All changes go into one batch, fetched once, so that the removal is atomic.
    const batch = this.#gate.open;
    for (const key of keys) {
      const name = this.nameOf(key);
      if (name === undefined) continue;
      const note = { name, row: this.#lastRows.of(key), heirs: heirs.get(key) ?? [] };
      this.#erasure.begin(key, { ...note, ...this.starts.remove(key, batch) }, batch);
      batch.names.set(name, undefined);
      batch.keys.set(key, undefined);
      batch.heads.set(key, undefined);
      batch.lastRows.set(key, undefined);
      batch.drafts.set(key, undefined);
      this.#lastRows.delete(key);
      this.#media.removeAll(key, batch);
      // Forks may still need the results (RT3 of `stored-results.ts`, V2 of `vault.ts`).
      const hasHeirs = (heirs.get(key) ?? []).length > 0;
      this.#blobs.removeAll(key, batch, hasHeirs);
      if (!hasHeirs) this.#vault?.remove(key, batch);
    }
  }

  erasures(): ReadonlyMap<SessionKey, Erasure> {
    return this.#erasure.notes;
  }

  erasable(): readonly SessionKey[] {
    return this.#erasure.ready(this.#isThere);
  }

  /** Throws `StoreCorruptError` when a row cannot be read. */
  eraseSome(): boolean {
    this.#checkOpen();
    if (this.#gate.isRefused) return false;
    const batch = this.#gate.open;
    const bytes = this.#erasure.slice(batch);
    this.#grow(batch, bytes);
    return bytes > 0;
  }

  erased(keys: Iterable<SessionKey>): void {
    this.#checkOpen();
    if (this.#gate.isRefused) return;
    const batch = this.#gate.open;
    // Some notes are about the removed part of a log. Their sessions still exist and need their results.
    for (const key of this.#erasure.end(keys, batch)) {
      if (this.nameOf(key) !== undefined) continue;
      this.#blobs.removeAll(key, batch, false);
      this.#vault?.remove(key, batch);
    }
  }

  putBlob(text: string, owner?: SessionKey): string {
    this.#checkOpen();
    const { address, bytes } = this.#blobs.put(text, owner);
    if (bytes > 0) this.#grow(this.#gate.open, bytes);
    return address;
  }

  blob(address: string): string | undefined {
    this.#checkOpen();
    return this.#blobs.get(address);
  }

  statistics(): JournalStatistics {
    return { turns: this.#turns, rows: this.#rows, flushes: this.#flushes, flushMs: this.#flushMs };
  }

  /**
   * Rejects with the error of the last flush if that flush is refused; the journal is closed in that case too. A second
   * call has no further effect.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close(this.#gate.isRefused ? Promise.resolve() : this.#gate.flushed());
    return this.#closing;
  }

  async #close(flushed: Promise<void>): Promise<void> {
    try {
      await flushed;
    } finally {
      await this.#engine.close();
    }
  }

  readonly #isThere = (key: SessionKey): boolean => this.nameOf(key) !== undefined;

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new CancelledError('the store is closed');
  }

  /**
   * Loads the engine's state, at open and after a refusal. Numbers that were given out before are not given out again
   * (E2, E3).
   */
  #load(): void {
    const state = this.#engine.state();
    this.#nextRow = Math.max(this.#nextRow, lastGivenRow(state) + 1);
    this.#nextKey = Math.max(this.#nextKey, state.nextKey);
    this.#checkpointed = state.checkpointed;
    this.#lastRows.forget();
    this.#erasure.load();
    this.#vault?.clear();
  }

  #openRow(): Row {
    const row: Row = { number: this.#nextRow, turns: 0, bytes: 0, entries: [] };
    this.#nextRow += 1;
    this.#row = row;
    this.#gate.open.rows.push(row);
    this.#unwritten.set(row.number, row);
    return row;
  }

  /** Counts the bytes added to the open batch, and closes a batch that has reached its bound. */
  #grow(batch: WriteBatch, bytes: number): void {
    batch.bytes += bytes;
    const full = batch.rows.length >= FLUSH_ROWS_MAX && this.#row === undefined;
    if (!full && batch.bytes < FLUSH_BYTES_MAX) return;
    this.#row = undefined;
    this.#gate.seal();
  }

  async #write(batch: WriteBatch): Promise<void> {
    const last = batch.rows.at(-1);
    if (last !== undefined && last === this.#row) this.#row = undefined;
    const started = performance.now();
    await this.#engine.write(batch);
    this.#flushMs = performance.now() - started;
    this.#flushes += 1;
    this.#rows += batch.rows.length;
  }

  #written(batch: WriteBatch): void {
    for (const row of batch.rows) this.#unwritten.delete(row.number);
    if (batch.checkpoint !== undefined) this.#lastRows.stored(batch.lastRows);
  }

  #refused(): void {
    this.#row = undefined;
    this.#unwritten = new Map();
    this.#load();
  }

  async #recover(): Promise<Position> {
    if (this.#gate.isRefused) {
      await this.#engine.reopen();
      this.#load();
      this.#gate.reset();
    }
    const { lastRow } = this.#engine.state();
    const bytes = lastRow === 0 ? undefined : this.#engine.row(lastRow);
    return bytes === undefined ? 0 : positionOf(lastRow, rowTurns(bytes, lastRow) - 1);
  }
}
