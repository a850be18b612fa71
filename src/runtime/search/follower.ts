/**
 * Updates the index of all messages from the logs of the shards. Runs on the index's thread.
 *
 * Owns: the position in each log, and the facts about each session that reading further requires. Does not own: the
 * index, the logs.
 * Invariants:
 *  W1 a page of a log is applied as a whole: the known sessions, the index and the log position change together,
 *     between two awaits;
 *  W2 some sessions are read as a whole up to a row of their log, and followed from that row. These are sessions with a
 *     message that was taken back or changed, and forks, whose log lacks the beginning. Until such a session has been
 *     read as a whole, the session is behind, and none of its messages can be found;
 *  W3 one pass runs at a time; a pass sees everything that was durable before it began. It reads each log up to the
 *     end that the first page of that log names. Otherwise a growing log could keep the pass from ending. An erasure
 *     waits for the pass.
 */
import { z } from 'zod';
import { SEARCH_BATCH_MESSAGES, SEARCH_PAGE_NAMES } from '../../base/bounds.ts';
import { asError, StoreCorruptError } from '../../base/errors.ts';
import { shardOf } from '../../base/ids.ts';
import { rowChecksum } from '../../journal/rows/row-codec.ts';
import { entriesOf, type ShippedRow, shippedRows } from '../../journal/rows/shipped-rows.ts';
import type { IndexedMessage } from '../../search/search-index.ts';
import { searchableText } from '../../search/searchable.ts';
import { foldTexts, newTextFold, type TextFold, textFoldOf, textFoldSchema } from '../../search/text-fold.ts';
import { bySeq } from '../../session/history/branch.ts';
import { decodeTransition, type TransitionRecords } from '../../session/state/records.ts';
import { type AskShard, readSession, type SessionPlace } from './reader.ts';

/** The index, as the follower uses it. */
export interface FollowedIndex {
  put(session: string, message: IndexedMessage): void;
  removeSessions(sessions: Iterable<string>): void;
  /** May throw an error of the device; the other methods never throw. */
  makeRoom(): void;
}

/** The follower's knowledge of a session. Without a fold the session is read as a whole (W2). */
interface FollowedSession {
  readonly key: number;
  readonly session: string;
  fold?: TextFold | undefined;
  /** The newest row of the session when the session was last read as a whole; 0: it never was. */
  row: number;
  name?: string | undefined;
}

interface FollowedShard {
  /** The last row that was read. */
  row: number;
  /** The checksum of the last row that was read. It identifies the log until rows are rewritten. */
  checksum: number;
  /** The number of writes that had rewritten rows of the log when the log was last read. */
  rewrites: number;
  readonly sessions: Map<number, FollowedSession>;
}

/** The follower's position, saved with the index. */
export interface SavedFollower {
  readonly shards: readonly {
    readonly row: number;
    readonly checksum: number;
    readonly rewrites: number;
    readonly sessions: readonly FollowedSession[];
  }[];
}

/** See `SavedFollower`. */
export const savedFollowerSchema: z.ZodType<SavedFollower> = z.object({
  shards: z
    .array(
      z.object({
        row: z.number(),
        checksum: z.number(),
        // An index of an earlier version lacks this member: rows were not rewritten then.
        rewrites: z.number().default(0),
        sessions: z
          .array(
            z.object({
              key: z.number().int(),
              session: z.string(),
              fold: textFoldSchema.optional(),
              row: z.number(),
              name: z.string().optional(),
            }),
          )
          .readonly(),
      }),
    )
    .readonly(),
});

/** See the head of the file. */
export class SearchFollower {
  readonly #ask: AskShard;
  readonly #index: FollowedIndex;
  readonly #shards: readonly FollowedShard[];
  /** The known sessions by id. */
  readonly #known = new Map<string, FollowedSession>();
  /** Sessions that must be read as a whole. */
  readonly #behind = new Set<FollowedSession>();
  /** Ids of deleted sessions for which the shard must still say which session has the id now. */
  readonly #doubtful = new Set<string>();
  /** The shards whose saved position was compared with their log. */
  readonly #compared = new Set<number>();
  #isReading = false;
  /** Called after each page that was applied. */
  readonly #stepped: () => void;

  /** `stepped` is called at consistent moments, when the follower may be saved. */
  constructor(options: {
    readonly index: FollowedIndex;
    readonly ask: AskShard;
    readonly shards: number;
    readonly saved?: SavedFollower | undefined;
    readonly stepped: () => void;
  }) {
    const { saved } = options;
    this.#ask = options.ask;
    this.#index = options.index;
    this.#stepped = options.stepped;
    this.#shards = Array.from({ length: options.shards }, (_, shard) => restoredShard(saved?.shards[shard]));
    for (const { sessions } of this.#shards) {
      for (const each of sessions.values()) {
        this.#known.set(each.session, each);
        if (each.fold === undefined) this.#behind.add(each);
      }
    }
    if (saved === undefined) for (const shard of this.#shards.keys()) this.#compared.add(shard);
  }

  /** Number of known sessions. */
  get sessions(): number {
    return this.#known.size;
  }

  /** The name of a session, if it has one. */
  nameOf(session: string): string | undefined {
    const known = this.#known.get(session);
    return known?.fold === undefined ? known?.name : known.fold.name;
  }

  /** How far the index has read a session's log; `undefined`: the index has nothing of the session. */
  placeOf(session: string): (SessionPlace & { readonly row: number }) | undefined {
    const known = this.#known.get(session);
    if (known?.fold === undefined) return undefined;
    const shard = shardOf(session, this.#shards.length);
    const row = Math.max(known.row, this.#shards[shard]?.row ?? 0);
    return { shard, session, key: known.key, row };
  }

  /**
   * Reads everything written up to now in the shards of this node (`here`; missing: all). The others keep the texts and
   * positions of the last time that they were here, and are compared with their logs when they are here again. False:
   * the saved position does not belong to these logs, and indexing must start over. Rejects with the error of a shard;
   * the next pass continues from where this one stopped. Not called while a pass runs (W3).
   */
  async pass(here?: ReadonlySet<number>): Promise<boolean> {
    this.#isReading = true;
    try {
      return await this.#read((shard) => here?.has(shard) !== false);
    } finally {
      this.#isReading = false;
    }
  }

  async #read(isHere: (shard: number) => boolean): Promise<boolean> {
    for (const [shard, followed] of this.#shards.entries()) {
      if (!isHere(shard)) this.#compared.delete(shard);
      else if (!this.#compared.has(shard)) {
        if (!(await this.#isSameLog(shard, followed))) return false;
        await this.#forgetDeleted(shard, followed);
        this.#compared.add(shard);
      }
    }
    for (const [shard, followed] of this.#shards.entries()) if (isHere(shard)) await this.#readLog(shard, followed);
    for (const each of this.#behind) {
      if (isHere(shardOf(each.session, this.#shards.length))) await this.#readWhole(each);
    }
    return true;
  }

  async #readLog(shard: number, followed: FollowedShard): Promise<void> {
    for (let end: number | undefined; ; ) {
      const from = followed.row + 1;
      const read = await shippedRows((offset) => this.#ask(shard, 'search.log', { from, offset }));
      await this.#take(shard, followed, read.rows);
      followed.rewrites = read.rewrites;
      await this.#settleDoubts();
      this.#stepped();
      end ??= read.end;
      if (read.isLast || followed.row >= end) return;
    }
  }

  /** Forgets deleted sessions. */
  forget(sessions: readonly string[]): void {
    for (const session of sessions) {
      if (this.#isReading || this.#known.has(session)) this.#doubtful.add(session);
      this.#drop(session);
    }
    this.#index.removeSessions(sessions);
  }

  save(): SavedFollower {
    return {
      shards: this.#shards.map(({ sessions, ...place }) => ({ ...place, sessions: [...sessions.values()] })),
    };
  }

  /**
   * True if this is the log that was followed: it has the last saved row at its position, or rows were rewritten since
   * then. A log that was restored from an older copy has fewer rewrites, or lacks this row, or has another one there.
   */
  async #isSameLog(shard: number, { row, checksum, rewrites }: FollowedShard): Promise<boolean> {
    if (row === 0) return true;
    const { rows, rewrites: now } = await shippedRows((offset) =>
      this.#ask(shard, 'search.log', { from: row, offset }),
    );
    const [there] = rows;
    if (now !== rewrites) return now > rewrites;
    return there?.row === row && rowChecksum(there.bytes) === checksum;
  }

  async #forgetDeleted(shard: number, { sessions }: FollowedShard): Promise<void> {
    const names = await this.#namesOf(shard, [...sessions.keys()]);
    const deleted = [...sessions.values()].flatMap(({ key, session }) => (names.get(key) === session ? [] : session));
    for (const session of deleted) this.#drop(session);
    this.#index.removeSessions(deleted);
  }

  /** The present ids of sessions by key; a deleted session has none. */
  async #namesOf(shard: number, keys: readonly number[]): Promise<ReadonlyMap<number, string>> {
    const names = new Map<number, string>();
    for (let at = 0; at < keys.length; at += SEARCH_PAGE_NAMES) {
      const page = keys.slice(at, at + SEARCH_PAGE_NAMES);
      const found = await this.#ask(shard, 'search.names', { keys: page });
      for (const [index, name] of found.entries()) if (name !== null) names.set(page[index] ?? 0, name);
    }
    return names;
  }

  /** Applies rows (W1). The ids of new sessions are looked up first; then everything changes at once. */
  async #take(shard: number, followed: FollowedShard, rows: readonly ShippedRow[]): Promise<void> {
    const last = rows.at(-1);
    if (last === undefined) return;
    const read = rows.map((shipped) => ({ row: shipped.row, entries: entriesOf(shipped) }));
    const unknown = new Set<number>();
    for (const { entries } of read) for (const { key } of entries) if (!followed.sessions.has(key)) unknown.add(key);
    const names = await this.#namesOf(shard, [...unknown]);
    // Room is made first, because an error of the device must not leave half a page in the index.
    this.#index.makeRoom();
    for (const { row, entries } of read) {
      for (const { key, data } of entries) {
        const known = followed.sessions.get(key) ?? this.#made(followed, key, names.get(key));
        // The fold of a session that was read as a whole may have this row already. A session that is behind gets the
        // row when it is read as a whole.
        if (known?.fold !== undefined && row > known.row) this.#fold(known, known.fold, readTurn(data));
      }
    }
    followed.row = last.row;
    followed.checksum = rowChecksum(last.bytes);
  }

  /** Adds a session that is new to the follower; undefined when the session was deleted. */
  #made(followed: FollowedShard, key: number, session: string | undefined): FollowedSession | undefined {
    if (session === undefined) return undefined;
    // The id was reused, so the known facts belong to an earlier session.
    if (this.#known.has(session)) {
      this.#drop(session);
      this.#index.removeSessions([session]);
    }
    const made: FollowedSession = { key, session, fold: newTextFold(), row: 0 };
    followed.sessions.set(key, made);
    this.#known.set(session, made);
    return made;
  }

  #fold(known: FollowedSession, fold: TextFold, turn: TransitionRecords | undefined): void {
    const found = turn === undefined ? undefined : foldTexts(fold, turn);
    if (found === undefined) this.#fallBehind(known, fold);
    else for (const message of found) this.#index.put(known.session, message);
  }

  /** Removes the session's messages from the index until the session is read as a whole. */
  #fallBehind(known: FollowedSession, { name }: TextFold): void {
    known.fold = undefined;
    known.name = name;
    this.#behind.add(known);
    this.#index.removeSessions([known.session]);
  }

  /** Reads a session in its present state, and follows it from there (W2). */
  async #readWhole(known: FollowedSession): Promise<void> {
    const { key, session } = known;
    const shard = shardOf(session, this.#shards.length);
    let read: Awaited<ReturnType<typeof readSession>>;
    try {
      read = await readSession(this.#ask, { shard, session, key }, { keepsAll: true });
    } catch (error) {
      // A session that cannot be read stays out of the index, and must not delay the other sessions.
      if (asError(error) instanceof StoreCorruptError) return;
      throw error;
    }
    await this.#settleDoubts();
    // The session was deleted during the read, or while the doubts were settled.
    if (this.#known.get(session) !== known || read === undefined) return;
    const { state, row } = read;
    const messages = bySeq(state.messages).flatMap((message) => searchableText(message) ?? []);
    // An earlier attempt may have succeeded only in part, because the device refused the rest.
    this.#index.removeSessions([session]);
    for (let at = 0; at < messages.length; at += SEARCH_BATCH_MESSAGES) {
      this.#index.makeRoom();
      for (const message of messages.slice(at, at + SEARCH_BATCH_MESSAGES)) this.#index.put(session, message);
    }
    known.fold = textFoldOf(state);
    known.row = row;
    this.#behind.delete(known);
    this.#stepped();
  }

  /**
   * Determines which session now has the id of a deleted session. A page read earlier may still contain the deleted
   * session, and the id may be in use again. The shard's answer decides.
   */
  async #settleDoubts(): Promise<void> {
    for (const session of [...this.#doubtful]) {
      this.#doubtful.delete(session);
      const shard = shardOf(session, this.#shards.length);
      const key = (await this.#ask(shard, 'search.session', { session }))?.key;
      if (key !== undefined && this.#known.get(session)?.key === key) continue;
      this.#drop(session);
      this.#index.removeSessions([session]);
      const followed = this.#shards[shard];
      if (key === undefined || followed === undefined) continue;
      // The first records of the new session may already have been read and dropped.
      const made: FollowedSession = { key, session, row: 0 };
      followed.sessions.set(key, made);
      this.#known.set(session, made);
      this.#behind.add(made);
    }
  }

  #drop(session: string): void {
    const known = this.#known.get(session);
    if (known === undefined) return;
    this.#known.delete(session);
    this.#behind.delete(known);
    for (const { sessions } of this.#shards) {
      if (sessions.get(known.key) === known) sessions.delete(known.key);
    }
  }
}

function restoredShard(saved: SavedFollower['shards'][number] | undefined): FollowedShard {
  const sessions = new Map<number, FollowedSession>();
  for (const each of saved?.sessions ?? []) sessions.set(each.key, { ...each });
  return { row: saved?.row ?? 0, checksum: saved?.checksum ?? 0, rewrites: saved?.rewrites ?? 0, sessions };
}

/**
 * A transition; `undefined` for a text that cannot be decoded. Its session is then read as a whole. If that fails too,
 * the session stays out of the index.
 */
function readTurn(text: string): TransitionRecords | undefined {
  try {
    return decodeTransition(text);
  } catch {
    return undefined;
  }
}
