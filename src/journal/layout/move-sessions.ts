/**
 * Copies the sessions of a store into another number of shards. The new shards are empty engines. No other code uses
 * the old or the new engines meanwhile. This module uses only engines; `change-layout.ts` has the files of the store.
 *
 * A row keeps its number, and a transition keeps its number in the row. So a row of a new shard has the entries of
 * all old rows with that number. The positions in heads, states, webhook cursors and back pointers stay valid.
 * Transitions of two session trees may get the same position. They belong to different sessions, and a session reads
 * only its own.
 *
 * Owns: the keys and rows that sessions have in the new shards. Does not own: the engines.
 *
 * Invariants:
 *  Y1 each session, with its whole tree, is in the shard that `shardOf` names for the new number of shards. It has the
 *     same entries at the same positions, and the same head, draft, blobs and media. A fork whose parent gets another
 *     shard gets a copy of its beginning. For a removed session, only its erasure note is copied. The note goes to the
 *     shard of a session that still needs the removed session's results;
 *  Y2 each session gets a new key, higher than every key that an old shard gave out. The shard and the key that it
 *     had first are kept (`Journal.originOf`). So a name made of a shard and a key never stands for two sessions;
 *  Y3 the checkpoint of each new shard covers the highest row number that an old shard gave out. Numbering continues
 *     there. So every later transition has a higher position than every earlier one, in any shard. A cursor with a
 *     position for each old shard stays valid;
 *  Y4 a session may have entries after the checkpoint of its old shard. If it has a head, it is marked as runnable,
 *     so that the next open reads those entries. If it has no head, the checkpoint of its new shard ends before the
 *     first of them;
 *  Y5 memory is bounded: `SCAN_ROWS` rows for each old shard, batches of `LAYOUT_BATCH_BYTES`, and about 200 bytes
 *     for each session;
 *  Y6 each row of the audit log is in the shard of its session, even if the session was removed (`moved-audit.ts`).
 */
import { LAYOUT_BATCH_BYTES, SCAN_NAMES, SCAN_ROWS } from '../../base/bounds.ts';
import { rootOf, shardOf } from '../../base/ids.ts';
import { createBatch, type Engine, isEmptyBatch, lastGivenRow, type WriteBatch } from '../engine.ts';
import { EngineJournal } from '../engine-journal.ts';
import type { Journal } from '../journal.ts';
import { located } from '../log-reader.ts';
import type { Erasure, Head, LogStart, Position, SessionKey } from '../position.ts';
import { movedAddress, withMovedMedia, withoutMedia } from '../rows/media-text.ts';
import { decodeRow, type HeldEntry, positionOf, type Row, rowTurns } from '../rows/row-codec.ts';
import { blobAddress } from '../rows/stored-text.ts';
import { movedAudit } from './moved-audit.ts';

/** Bytes that a session takes in a batch besides its name: its keys, and the entries of maps. */
const NAME_BYTES = 200;
/** The first entry of every fork contains this text. */
const FORK_MARK = '"forked"';

/** Interprets sessions for a move. The journal does not know what their entries mean. */
export interface SessionReading {
  /** A head's data, with each address of a blob replaced by the result of `moved`. */
  moveHead(data: string, moved: (address: string) => string): string;
  /**
   * The session that has the beginning of a fork in its log. `firstEntry`: the fork's first entry. Undefined if that
   * entry holds the beginning itself, or the session is not a fork.
   */
  sharedWith(firstEntry: string): string | undefined;
  /** The text of a fork's beginning, read from its parent's log; undefined if it is stored separately already. */
  beginning(journal: Journal, name: string, key: SessionKey): string | undefined;
  /** The session's head; made from its log if it has none. */
  headOf(journal: Journal, name: string, key: SessionKey): Head;
  /** The head with the address of the fork's beginning added. */
  withBase(head: Head, base: string): Head;
}

/** The source and the target of a move. */
export interface MoveParts {
  readonly from: readonly Engine[];
  /** New and empty. */
  readonly to: readonly Engine[];
  readonly reading: SessionReading;
  /** Called after each write with the bytes written so far. */
  readonly progress?: (bytes: number) => void;
}

/** The new shard and key of a session. */
export interface MovedSession {
  readonly shard: number;
  readonly key: SessionKey;
  /** See `Journal.originOf`. */
  readonly origin: string;
}

/** The result of a move. */
export interface MovedSessions {
  /**
   * Finds a session by its old shard and key, also a removed session whose note is still there. Undefined if there is
   * no such session.
   */
  find(shard: number, key: SessionKey): MovedSession | undefined;
  /** For each old shard, the last position in the last row that it gave out. */
  readonly ends: readonly Position[];
  readonly sessions: number;
  /** Bytes of everything that was copied, roughly. */
  readonly bytes: number;
}

/**
 * Copies all sessions; see the head of the file. Resolves when the engines have written everything. Rejects with the
 * errors of the engines: `StoreCorruptError` for an entry, blob or medium that cannot be read, `StoreFullError`.
 */
export async function moveSessions(parts: MoveParts): Promise<MovedSessions> {
  const move = new Move(parts);
  await move.run();
  return move;
}

/** A session that is moved. */
interface Session extends MovedSession {
  readonly name: string;
  readonly oldShard: number;
  readonly oldKey: SessionKey;
  /** The beginning of its log, if the older part was removed. */
  readonly start: LogStart | undefined;
  lastRow: number;
  /** True if the old shard's checkpoint does not cover its last entries. */
  isInTail: boolean;
  /** True for a fork if its beginning is in the log of a session that moves to another new shard. */
  isCut: boolean;
}

/** The rows of an old shard that were fetched but not copied yet. */
interface RowQueue {
  readonly shard: number;
  rows: readonly { readonly number: number; readonly bytes: Buffer }[];
  next: number;
}

class Move implements MovedSessions {
  readonly ends: readonly Position[];
  readonly #parts: MoveParts;
  readonly #sessions: readonly Map<SessionKey, Session>[];
  /** The removed sessions whose notes are still there. */
  readonly #removed: readonly Map<SessionKey, MovedSession>[];
  readonly #batches: WriteBatch[];
  /** For each new shard, the highest position that its checkpoint may have (Y4). */
  readonly #checkpoints: Position[];
  readonly #nextKeys: SessionKey[];
  readonly #lastRow: number;
  #pendingBytes = 0;
  bytes = 0;

  constructor(parts: MoveParts) {
    this.#parts = parts;
    const { from, to } = parts;
    const states = from.map((engine) => engine.state());
    this.ends = states.map((state) => positionOf(lastGivenRow(state) + 1, 0) - 1);
    this.#lastRow = Math.max(0, ...states.map(lastGivenRow));
    const firstKey = Math.max(1, ...states.map(({ nextKey }) => nextKey));
    this.#nextKeys = to.map(() => firstKey);
    this.#checkpoints = to.map(() => positionOf(this.#lastRow + 1, 0) - 1);
    this.#sessions = from.map(() => new Map());
    this.#removed = from.map(() => new Map());
    this.#batches = to.map(() => createBatch());
  }

  get sessions(): number {
    return this.#sessions.reduce((sum, { size }) => sum + size, 0);
  }

  find(shard: number, key: SessionKey): MovedSession | undefined {
    return this.#sessions[shard]?.get(key) ?? this.#removed[shard]?.get(key);
  }

  async run(): Promise<void> {
    await this.#giveKeys();
    await this.#copyRows();
    for (const sessions of this.#sessions) {
      for (const session of sessions.values()) await this.#copySession(session);
    }
    await this.#copyAudit();
    for (const [shard, batch] of this.#batches.entries()) {
      batch.nextKey = this.#nextKeys[shard];
      batch.checkpoint = { upTo: this.#checkpoints[shard] ?? 0, indexedRow: this.#lastRow };
    }
    await this.#write();
  }

  // ---- names and keys -----------------------------------------------------------------------------------------------

  async #giveKeys(): Promise<void> {
    const found: {
      readonly shard: number;
      readonly key: SessionKey;
      readonly name: string;
      readonly note?: Erasure;
    }[] = [];
    for (const [shard, engine] of this.#parts.from.entries()) {
      for (const [name, key] of allNames(engine)) found.push({ shard, key, name });
      for (const [key, note] of engine.erasures()) {
        // The removed part of a log is not copied, so nothing of it is left to erase.
        if (note.keeps !== true) found.push({ shard, key, name: note.name, note });
      }
    }
    // Keys rise roughly in the order in which sessions were made. Interrupted sessions resume in the order of their
    // keys.
    found.sort((a, b) => a.key - b.key || a.shard - b.shard);
    for (const { shard, key, name, note } of found) {
      const place = this.#placeOf(
        note === undefined ? name : this.#homeOf(shard, note),
        this.#parts.from[shard]?.originOf(key) ?? `${shard}-${key}`,
      );
      if (note === undefined)
        this.#name({
          ...place,
          name,
          oldShard: shard,
          oldKey: key,
          start: this.#parts.from[shard]?.startOf(key),
          lastRow: 0,
          isInTail: false,
          isCut: false,
        });
      else this.#removed[shard]?.set(key, place);
      await this.#writeIfLarge();
    }
    for (const { shard, key, note } of found) if (note !== undefined) this.#noteRemoved(shard, key, note);
  }

  #placeOf(name: string, origin: string): MovedSession {
    const shard = shardOf(name, this.#parts.to.length);
    const key = this.#nextKeys[shard] ?? 0;
    this.#nextKeys[shard] = key + 1;
    const batch = this.#batchOf(shard);
    batch.origins.set(key, origin);
    this.#grow(batch, NAME_BYTES);
    return { shard, key, origin };
  }

  /**
   * The name that decides the shard of a removed session. It is the name of a session that still needs its results.
   * If there is none, it is the removed session's own name.
   */
  #homeOf(shard: number, { name, heirs }: Erasure): string {
    const engine = this.#parts.from[shard];
    const names = heirs.flatMap((heir) => engine?.nameOf(heir) ?? engine?.erasures().get(heir)?.name ?? []);
    return names[0] ?? name;
  }

  #name(session: Session): void {
    const { oldShard, oldKey, shard, key, name } = session;
    this.#sessions[oldShard]?.set(oldKey, session);
    const batch = this.#batchOf(shard);
    batch.names.set(name, key);
    batch.keys.set(key, name);
    this.#grow(batch, name.length * 2);
  }

  /** Copies the note of a removed session. None of the session's entries is copied, so the note leads to no row. */
  #noteRemoved(shard: number, key: SessionKey, note: Erasure): void {
    const place = this.find(shard, key);
    if (place === undefined) return;
    const heirs = note.heirs.flatMap((heir) => {
      const found = this.find(shard, heir);
      return found?.shard === place.shard ? found.key : [];
    });
    this.#batchOf(place.shard).erasures.set(place.key, { name: note.name, row: 0, heirs });
  }

  // ---- rows ---------------------------------------------------------------------------------------------------------

  async #copyRows(): Promise<void> {
    const queues: RowQueue[] = this.#parts.from.map((_engine, shard) => ({ shard, rows: [], next: 1 }));
    for (;;) {
      for (const queue of queues) this.#fill(queue);
      const number = Math.min(...queues.map(({ rows }) => rows[0]?.number ?? Number.POSITIVE_INFINITY));
      if (number === Number.POSITIVE_INFINITY) break;
      const made = new Map<number, Row>();
      for (const queue of queues) {
        const [first] = queue.rows;
        if (first?.number !== number) continue;
        queue.rows = queue.rows.slice(1);
        this.#copyRow(queue.shard, number, first.bytes, made);
      }
      this.#putRows(made);
      await this.#writeIfLarge();
    }
  }

  #fill(queue: RowQueue): void {
    if (queue.rows.length > 0) return;
    queue.rows = this.#parts.from[queue.shard]?.rows(queue.next, SCAN_ROWS) ?? [];
    queue.next = (queue.rows.at(-1)?.number ?? queue.next) + 1;
  }

  /** Adds the entries of an old row to the new rows with the same number. */
  #copyRow(shard: number, number: number, bytes: Buffer, made: Map<number, Row>): void {
    const engine = this.#parts.from[shard];
    const sessions = this.#sessions[shard];
    if (engine === undefined || sessions === undefined) return;
    const { checkpointed } = engine.state();
    const turns = located(engine, () => rowTurns(bytes, number));
    for (const entry of located(engine, () => decodeRow(bytes, number))) {
      const session = sessions.get(entry.key);
      // The session was removed, and its entries are not erased yet.
      if (session === undefined) continue;
      const position = positionOf(number, entry.turn);
      // The entry is in the removed part of the log, which is not erased yet.
      if (position <= (session.start?.position ?? 0)) continue;
      if (session.lastRow === 0) session.isCut = this.#isCut(session, entry.data);
      if (position > checkpointed && !session.isInTail) this.#isLate(session, engine, position);
      session.lastRow = number;
      const row = made.get(session.shard) ?? { number, turns: 0, bytes: 0, entries: [] };
      made.set(session.shard, row);
      const data = withMovedMedia(entry.data, (address) => movedAddress(address, session.key));
      const dataBytes = data === entry.data ? entry.dataBytes : Buffer.byteLength(data);
      row.entries.push({ ...entry, key: session.key, data, dataBytes });
      row.turns = Math.max(row.turns, turns);
      row.bytes += dataBytes;
    }
  }

  #isCut({ name, shard }: Session, firstEntry: string): boolean {
    // The cheap checks come first. Few sessions are forks, and most forks have the same root as their parent.
    const origin = firstEntry.includes(FORK_MARK) ? this.#parts.reading.sharedWith(firstEntry) : undefined;
    return origin !== undefined && rootOf(origin) !== rootOf(name) && shardOf(origin, this.#parts.to.length) !== shard;
  }

  /** Called for the first entry of a session after the checkpoint of its old shard (Y4). */
  #isLate(session: Session, engine: Engine, position: Position): void {
    session.isInTail = true;
    if (engine.head(session.oldKey) !== undefined) return;
    const known = this.#checkpoints[session.shard] ?? 0;
    this.#checkpoints[session.shard] = Math.min(known, position - 1);
  }

  #putRows(made: ReadonlyMap<number, Row>): void {
    for (const [shard, row] of made) {
      row.entries.sort((a: HeldEntry, b: HeldEntry) => a.turn - b.turn);
      const batch = this.#batchOf(shard);
      batch.rows.push(row);
      this.#grow(batch, row.bytes);
    }
  }

  // ---- heads, blobs and media ---------------------------------------------------------------------------------------

  async #copySession(session: Session): Promise<void> {
    const { oldShard, oldKey, shard, key, start, lastRow, isInTail } = session;
    const engine = this.#parts.from[oldShard];
    if (engine === undefined) return;
    if (lastRow > 0) this.#batchOf(shard).lastRows.set(key, lastRow);
    this.#copyDraft(engine, session);
    for (const address of engine.mediaOf(oldKey)) {
      const bytes = engine.medium(address);
      if (bytes === undefined) continue;
      const batch = this.#batchOf(shard);
      batch.media.set(movedAddress(address, key), bytes);
      this.#grow(batch, bytes.length);
      await this.#writeIfLarge();
    }
    const blobs = new Map<string, string>();
    for (const address of engine.blobsOf(oldKey)) {
      blobs.set(address, this.#copyBlob(engine, address, session));
      await this.#writeIfLarge();
    }
    if (start !== undefined)
      this.#batchOf(shard).starts.set(key, { ...start, base: blobs.get(start.base) ?? start.base });
    const beginning = session.isCut ? located(engine, () => this.#beginning(engine, session)) : undefined;
    const head = beginning?.head ?? engine.head(oldKey);
    if (head === undefined) return;
    const data = located(engine, () =>
      this.#parts.reading.moveHead(head.data, (address) => {
        const moved = blobs.get(address) ?? this.#copyBlob(engine, address, session);
        blobs.set(address, moved);
        return moved;
      }),
    );
    const moved = { ...head, key, data, runnable: head.runnable || isInTail };
    this.#putHead(session, beginning === undefined ? moved : this.#parts.reading.withBase(moved, beginning.base));
    await this.#writeIfLarge();
  }

  #copyDraft(engine: Engine, { oldKey, shard, key }: Session): void {
    const draft = engine.draft(oldKey);
    if (draft === undefined) return;
    const batch = this.#batchOf(shard);
    batch.drafts.set(key, draft);
    this.#grow(batch, draft.length);
  }

  /**
   * Stores the beginning of a fork separately, and returns it with the fork's head; undefined if it is stored
   * already.
   */
  #beginning(engine: Engine, session: Session): { readonly base: string; readonly head: Head } | undefined {
    const { reading } = this.#parts;
    const { name, oldKey, shard, key } = session;
    const journal = new EngineJournal(engine, { schedule: () => undefined });
    const text = reading.beginning(journal, name, oldKey);
    if (text === undefined) return undefined;
    const batch = this.#batchOf(shard);
    const stored = withoutMedia(text, key, (address, bytes) => {
      batch.media.set(address, bytes);
      this.#grow(batch, bytes.length);
    });
    const base = blobAddress(stored, key);
    batch.blobs.set(base, stored);
    this.#grow(batch, stored.length);
    return { base, head: reading.headOf(journal, name, oldKey) };
  }

  #putHead({ shard, key }: Session, head: Head): void {
    const batch = this.#batchOf(shard);
    batch.heads.set(key, head);
    this.#grow(batch, head.data.length);
  }

  /** Copies a blob and returns its new address. A blob without an owner keeps its address. */
  #copyBlob(engine: Engine, address: string, { shard, key }: Session): string {
    const stored = engine.blob(address);
    // The blob that a head refers to may be missing. The session is then read from the log.
    if (stored === undefined) return address;
    const isOwned = address.includes('/');
    const text = isOwned ? withMovedMedia(stored, (medium) => movedAddress(medium, key)) : stored;
    const moved = isOwned ? blobAddress(text, key) : address;
    const batch = this.#batchOf(shard);
    batch.blobs.set(moved, text);
    this.#grow(batch, text.length);
    return moved;
  }

  async #copyAudit(): Promise<void> {
    for (const { shard, number, text } of movedAudit(this.#parts.from, this.#parts.to.length)) {
      const batch = this.#batchOf(shard);
      batch.audit.set(number, text);
      this.#grow(batch, text.length);
      await this.#writeIfLarge();
    }
  }

  // ---- batches ------------------------------------------------------------------------------------------------------

  #batchOf(shard: number): WriteBatch {
    const batch = this.#batches[shard];
    if (batch === undefined) throw new Error(`no shard ${shard}`);
    return batch;
  }

  #grow(batch: WriteBatch, bytes: number): void {
    batch.bytes += bytes;
    this.bytes += bytes;
    this.#pendingBytes += bytes;
  }

  async #writeIfLarge(): Promise<void> {
    if (this.#pendingBytes >= LAYOUT_BATCH_BYTES) await this.#write();
  }

  async #write(): Promise<void> {
    const batches = this.#batches.splice(0, this.#batches.length, ...this.#parts.to.map(() => createBatch()));
    this.#pendingBytes = 0;
    await Promise.all(
      batches.map((batch, shard) => (isEmptyBatch(batch) ? undefined : this.#parts.to[shard]?.write(batch))),
    );
    this.#parts.progress?.(this.bytes);
  }
}

function* allNames(engine: Engine): Iterable<readonly [string, SessionKey]> {
  let after = '';
  for (;;) {
    const page = engine.names(after, true, SCAN_NAMES);
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    [after] = last;
  }
}
