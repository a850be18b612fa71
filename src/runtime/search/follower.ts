/**
 * How the index of all messages follows the logs of the shards, on the index's own thread.
 *
 * Owns: how far into each log it has come, and what it must know of a session to read on. Does not own: the index, the logs.
 * Invariants:
 *  W1 a page of a log is taken in as one: what is known, the index and the place in the log change together, between two awaits;
 *  W2 a session whose messages are not those its records said (one was taken back or changed), or that does not begin with them
 *     (a fork), is read as a whole up to a row of its log, and followed from that row; until that has succeeded it is behind,
 *     and nothing of it can be found;
 *  W3 one pass at a time; a pass that begins sees all that was durable before it.
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
import { decodeTurn, type RecordTurn } from '../../session/state/records.ts';
import { type AskShard, readSession, type SessionPlace } from './reader.ts';

/** What a follower tells of what it reads. */
export interface FollowedIndex {
  put(session: string, message: IndexedMessage): void;
  removeSessions(sessions: Iterable<string>): void;
  /** May throw what the device throws; the others never do. */
  makeRoom(): void;
}

/** What is known of a session. Without a fold it is read as a whole (W2). */
interface FollowedSession {
  readonly key: number;
  readonly session: string;
  fold?: TextFold | undefined;
  /** The newest row that was in it when it was read as a whole; 0: it never was. */
  row: number;
  name?: string | undefined;
}

interface FollowedShard {
  /** The last row that was read. */
  row: number;
  /** What stood there, to know the log again. */
  checksum: number;
  readonly sessions: Map<number, FollowedSession>;
}

/** How far the follower is, to be saved with the index. */
export interface SavedFollower {
  readonly shards: readonly {
    readonly row: number;
    readonly checksum: number;
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
  /** By name: what is known of the session. */
  readonly #known = new Map<string, FollowedSession>();
  /** Sessions that are to be read as a whole. */
  readonly #behind = new Set<FollowedSession>();
  /** Deleted since the last pass: of these it is asked what there is under the name now. */
  readonly #doubtful = new Set<string>();
  /** What was saved was compared with the logs. */
  #isCompared: boolean;
  #isReading = false;
  /** Called behind each page that was taken in. */
  readonly #stepped: () => void;

  /** `stepped` is called where all is consistent, so that it may be saved. */
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
    this.#isCompared = saved === undefined;
  }

  /** Sessions it knows. */
  get sessions(): number {
    return this.#known.size;
  }

  /** The name of a session, where it has one. */
  nameOf(session: string): string | undefined {
    const known = this.#known.get(session);
    return known?.fold === undefined ? known?.name : known.fold.name;
  }

  /** Where what the index has of a session ends; `undefined`: it has nothing of it. */
  placeOf(session: string): (SessionPlace & { readonly row: number }) | undefined {
    const known = this.#known.get(session);
    if (known?.fold === undefined) return undefined;
    const shard = shardOf(session, this.#shards.length);
    const row = Math.max(known.row, this.#shards[shard]?.row ?? 0);
    return { shard, session, key: known.key, row };
  }

  /**
   * Reads what was written up to now. False: what was saved does not belong to these logs, and all must begin anew. Rejects with
   * what a shard answers; another pass goes on where this one was. Not called while a pass is under way (W3).
   */
  async pass(): Promise<boolean> {
    this.#isReading = true;
    try {
      return await this.#read();
    } finally {
      this.#isReading = false;
    }
  }

  async #read(): Promise<boolean> {
    if (!this.#isCompared) {
      for (const [shard, followed] of this.#shards.entries()) {
        if (!(await this.#isSameLog(shard, followed))) return false;
        await this.#forgetDeleted(shard, followed);
      }
      this.#isCompared = true;
    }
    for (const [shard, followed] of this.#shards.entries()) {
      for (;;) {
        const from = followed.row + 1;
        const { rows, isLast } = await shippedRows((offset) => this.#ask(shard, 'search.log', { from, offset }));
        await this.#take(shard, followed, rows);
        await this.#settleDoubts();
        this.#stepped();
        if (isLast) break;
      }
    }
    for (const each of this.#behind) await this.#readWhole(each);
    return true;
  }

  /** Sessions were deleted. */
  forget(sessions: readonly string[]): void {
    for (const session of sessions) {
      if (this.#isReading || this.#known.has(session)) this.#doubtful.add(session);
      this.#drop(session);
    }
    this.#index.removeSessions(sessions);
  }

  save(): SavedFollower {
    return {
      shards: this.#shards.map(({ row, checksum, sessions }) => ({ row, checksum, sessions: [...sessions.values()] })),
    };
  }

  /** What was saved last of a log is there, at its place: no row ever changes or goes. */
  async #isSameLog(shard: number, { row, checksum }: FollowedShard): Promise<boolean> {
    if (row === 0) return true;
    const { rows } = await shippedRows((offset) => this.#ask(shard, 'search.log', { from: row, offset }));
    const [there] = rows;
    return there?.row === row && rowChecksum(there.bytes) === checksum;
  }

  async #forgetDeleted(shard: number, { sessions }: FollowedShard): Promise<void> {
    const names = await this.#namesOf(shard, [...sessions.keys()]);
    const deleted = [...sessions.values()].flatMap(({ key, session }) => (names.get(key) === session ? [] : session));
    for (const session of deleted) this.#drop(session);
    this.#index.removeSessions(deleted);
  }

  /** The names sessions have now; a deleted one has none. */
  async #namesOf(shard: number, keys: readonly number[]): Promise<ReadonlyMap<number, string>> {
    const names = new Map<number, string>();
    for (let at = 0; at < keys.length; at += SEARCH_PAGE_NAMES) {
      const page = keys.slice(at, at + SEARCH_PAGE_NAMES);
      const found = await this.#ask(shard, 'search.names', { keys: page });
      for (const [index, name] of found.entries()) if (name !== null) names.set(page[index] ?? 0, name);
    }
    return names;
  }

  /** Takes rows in (W1): after the names of its new sessions are known, all at once. */
  async #take(shard: number, followed: FollowedShard, rows: readonly ShippedRow[]): Promise<void> {
    const last = rows.at(-1);
    if (last === undefined) return;
    const read = rows.map((shipped) => ({ row: shipped.row, entries: entriesOf(shipped) }));
    const unknown = new Set<number>();
    for (const { entries } of read) for (const { key } of entries) if (!followed.sessions.has(key)) unknown.add(key);
    const names = await this.#namesOf(shard, [...unknown]);
    // First: what the device refuses must not leave half a page behind.
    this.#index.makeRoom();
    for (const { row, entries } of read) {
      for (const { key, data } of entries) {
        const known = followed.sessions.get(key) ?? this.#made(followed, key, names.get(key));
        // What was read as a whole has it already, and who is behind gets it with the rest.
        if (known?.fold !== undefined && row > known.row) this.#fold(known, known.fold, readTurn(data));
      }
    }
    followed.row = last.row;
    followed.checksum = rowChecksum(last.bytes);
  }

  /** A session that is met for the first time; none where it has no name any more. */
  #made(followed: FollowedShard, key: number, session: string | undefined): FollowedSession | undefined {
    if (session === undefined) return undefined;
    // Made anew under the same name: what was known is of another one.
    if (this.#known.has(session)) {
      this.#drop(session);
      this.#index.removeSessions([session]);
    }
    const made: FollowedSession = { key, session, fold: newTextFold(), row: 0 };
    followed.sessions.set(key, made);
    this.#known.set(session, made);
    return made;
  }

  #fold(known: FollowedSession, fold: TextFold, turn: RecordTurn | undefined): void {
    const found = turn === undefined ? undefined : foldTexts(fold, turn);
    if (found === undefined) this.#fallBehind(known, fold);
    else for (const message of found) this.#index.put(known.session, message);
  }

  /** Nothing of it can be found until it was read. */
  #fallBehind(known: FollowedSession, { name }: TextFold): void {
    known.fold = undefined;
    known.name = name;
    this.#behind.add(known);
    this.#index.removeSessions([known.session]);
  }

  /** Reads a session as it is now, and follows it from there (W2). */
  async #readWhole(known: FollowedSession): Promise<void> {
    const { key, session } = known;
    const shard = shardOf(session, this.#shards.length);
    let read: Awaited<ReturnType<typeof readSession>>;
    try {
      read = await readSession(this.#ask, { shard, session, key }, { keepsAll: true });
    } catch (error) {
      // Of a session that nobody can read nothing can be found; the others are not held up by it.
      if (asError(error) instanceof StoreCorruptError) return;
      throw error;
    }
    await this.#settleDoubts();
    // Deleted while it was read, or just now.
    if (this.#known.get(session) !== known || read === undefined) return;
    const { state, row } = read;
    const messages = bySeq(state.messages).flatMap((message) => searchableText(message) ?? []);
    // The device may have refused the second half of it.
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

  /** What was deleted may stand in a page that was read before, or be there anew already: what has the name now decides. */
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
      // Its first records may have been read and forgotten already.
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
  return { row: saved?.row ?? 0, checksum: saved?.checksum ?? 0, sessions };
}

/** A turn; `undefined` for a text that is none: its session is read as a whole, by those who know what to say of it. */
function readTurn(text: string): RecordTurn | undefined {
  try {
    return decodeTurn(text);
  } catch {
    return undefined;
  }
}
