/**
 * How the index of all messages follows the logs of the shards, on the index's own thread.
 *
 * Owns: how far into each log it has come, and what it must know of a session to read on. Does not own: the index, the logs.
 * Invariants:
 *  W1 a page of a log is taken in as one: what is known, the index and the position change together, between two awaits;
 *  W2 a session whose records do not say its messages by themselves (edited, forked, compacted) is read as a whole, from its
 *     shard; until that has succeeded it stays behind, and nothing of it can be found but what was read since the edit;
 *  W3 one pass at a time; a pass that begins sees all that was durable before it.
 */
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { SEARCH_PAGE_MESSAGES, SEARCH_PAGE_NAMES } from '../base/bounds.ts';
import { asError, StoreCorruptError } from '../base/errors.ts';
import { shardOf } from '../base/ids.ts';
import type { IndexedMessage } from '../search/search-index.ts';
import { foldTexts, newTextFold, type TextFold, textFoldSchema } from '../search/text-fold.ts';
import { decodeTurn, type RecordTurn } from '../session/records.ts';
import type { ShardMethods } from './protocol.ts';
import type { LogPage } from './search-pages.ts';

/** What is asked of a shard. */
export type SearchMethod = 'search.log' | 'search.names' | 'search.texts';

/** Asks a shard, by its number. */
export type AskShard = <M extends SearchMethod>(
  shard: number,
  method: M,
  request: ShardMethods[M]['request'],
) => Promise<ShardMethods[M]['answer']>;

/** What a follower tells of what it reads. */
export interface FollowedIndex {
  put(session: string, message: IndexedMessage): void;
  removeSessions(sessions: Iterable<string>): void;
  /** May throw what the device throws; the others never do. */
  makeRoom(): void;
}

/** A place in a log and what stood there, to know it again. */
interface Mark {
  readonly position: number;
  readonly checksum: number;
}

/** What is known of a session. Without a fold it is read as a whole (W2). */
interface FollowedSession {
  readonly key: number;
  readonly session: string;
  fold?: TextFold | undefined;
  /** Seq of the last message that was read as a whole. */
  seq: number;
  /** Something was written since it was. */
  isBehind: boolean;
  name?: string | undefined;
}

interface FollowedShard {
  position: number;
  /** Newest last. */
  marks: Mark[];
  readonly sessions: Map<number, FollowedSession>;
}

/** How far the follower is, to be saved with the index. */
export interface SavedFollower {
  readonly shards: readonly {
    readonly position: number;
    readonly marks: readonly Mark[];
    readonly sessions: readonly FollowedSession[];
  }[];
}

/** See `SavedFollower`. */
export const savedFollowerSchema: z.ZodType<SavedFollower> = z.object({
  shards: z
    .array(
      z.object({
        position: z.number(),
        marks: z.array(z.object({ position: z.number(), checksum: z.number() })).readonly(),
        sessions: z
          .array(
            z.object({
              key: z.number().int(),
              session: z.string(),
              fold: textFoldSchema.optional(),
              seq: z.number().int(),
              isBehind: z.boolean(),
              name: z.string().optional(),
            }),
          )
          .readonly(),
      }),
    )
    .readonly(),
});

/** Marks kept of a log: of the last of them at least one is of a session that is still there, unless very many were deleted. */
const MARKS_MAX = 16;

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
        if (each.isBehind) this.#behind.add(each);
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
        const page = await this.#ask(shard, 'search.log', { after: followed.position });
        this.#take(followed, page);
        await this.#settleDoubts();
        this.#stepped();
        if (page.isComplete) break;
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
      shards: this.#shards.map(({ position, marks, sessions }) => ({
        position,
        marks,
        sessions: [...sessions.values()],
      })),
    };
  }

  /** What was saved last of a log is there, at its place. */
  async #isSameLog(shard: number, { position, marks }: FollowedShard): Promise<boolean> {
    if (position === 0) return true;
    for (const mark of marks.toReversed()) {
      const page = await this.#ask(shard, 'search.log', { after: mark.position - 1 });
      const there = page.turns.filter((_, index) => page.positions[index] === mark.position);
      if (there.some((turn) => crc32(turn) === mark.checksum)) return true;
      // Another text at this place: another log. None: its session was deleted, and an older mark must do.
      if (there.length > 0) return false;
    }
    return false;
  }

  async #forgetDeleted(shard: number, { sessions }: FollowedShard): Promise<void> {
    const gone = new Set(sessions.keys());
    let after: string | undefined;
    for (;;) {
      const names = await this.#ask(shard, 'search.names', {
        limit: SEARCH_PAGE_NAMES,
        ...(after === undefined ? {} : { after }),
      });
      for (const [, key] of names) gone.delete(key);
      after = names.at(-1)?.[0];
      if (names.length < SEARCH_PAGE_NAMES || after === undefined) break;
    }
    const deleted = [...gone].flatMap((key) => sessions.get(key)?.session ?? []);
    for (const session of deleted) this.#drop(session);
    this.#index.removeSessions(deleted);
  }

  /** Takes a page in (W1). */
  #take(followed: FollowedShard, page: LogPage): void {
    // First: what the device refuses must not leave half a page behind.
    this.#index.makeRoom();
    const turns = page.turns.map((text) => readTurn(text));
    const names = new Map(page.sessions);
    for (const [index, turn] of turns.entries()) {
      const key = page.keys[index] ?? 0;
      const session = names.get(key);
      if (session !== undefined) this.#fold(this.#sessionAt(followed, key, session), turn);
    }
    followed.position = page.position;
    const text = page.turns.at(-1);
    const position = page.positions.at(-1);
    if (text === undefined || position === undefined) return;
    followed.marks = [...followed.marks, { position, checksum: crc32(text) }].slice(-MARKS_MAX);
  }

  #sessionAt(followed: FollowedShard, key: number, session: string): FollowedSession {
    const known = followed.sessions.get(key);
    if (known !== undefined) return known;
    // Made anew under the same name: what was known is of another one.
    if (this.#known.has(session)) {
      this.#drop(session);
      this.#index.removeSessions([session]);
    }
    const made: FollowedSession = { key, session, fold: newTextFold(), seq: 0, isBehind: false };
    followed.sessions.set(key, made);
    this.#known.set(session, made);
    return made;
  }

  #fold(known: FollowedSession, turn: RecordTurn | undefined): void {
    const { fold, session } = known;
    if (fold === undefined) {
      this.#fallBehind(known);
      if (turn === undefined || turn.records.some(isEdit)) this.#forgetTexts(known);
      return;
    }
    const found = turn === undefined ? undefined : foldTexts(fold, turn);
    if (found === undefined) {
      known.fold = undefined;
      known.name = fold.name;
      this.#fallBehind(known);
      this.#forgetTexts(known);
      return;
    }
    for (const message of found) this.#index.put(session, message);
  }

  #fallBehind(known: FollowedSession): void {
    known.isBehind = true;
    this.#behind.add(known);
  }

  #forgetTexts(known: FollowedSession): void {
    this.#index.removeSessions([known.session]);
    known.seq = 0;
  }

  /** Reads what is new of a session from its shard, which has it as it is now (W2). */
  async #readWhole(known: FollowedSession): Promise<void> {
    const { session } = known;
    const shard = shardOf(session, this.#shards.length);
    for (;;) {
      const seq = known.seq;
      let page: ShardMethods['search.texts']['answer'];
      try {
        page = await this.#ask(shard, 'search.texts', { session, after: seq, limit: SEARCH_PAGE_MESSAGES });
      } catch (error) {
        // Of a session that nobody can read nothing can be found; the others are not held up by it.
        if (asError(error) instanceof StoreCorruptError) return;
        throw error;
      }
      await this.#settleDoubts();
      // Deleted while it was read.
      if (this.#known.get(session) !== known) return;
      this.#index.makeRoom();
      for (const message of page.messages) this.#index.put(session, message);
      known.seq = Math.max(seq, page.last);
      if (page.name !== undefined) known.name = page.name;
      if (page.isComplete) break;
    }
    known.isBehind = false;
    this.#behind.delete(known);
    this.#stepped();
  }

  /** What was deleted may stand in a page that was read before, or be there anew already: what has the name now decides. */
  async #settleDoubts(): Promise<void> {
    for (const session of [...this.#doubtful]) {
      this.#doubtful.delete(session);
      const shard = shardOf(session, this.#shards.length);
      const [found] = await this.#ask(shard, 'search.names', { prefix: session, limit: 1 });
      const key = found?.[0] === session ? found[1] : undefined;
      if (key !== undefined && this.#known.get(session)?.key === key) continue;
      this.#drop(session);
      this.#index.removeSessions([session]);
      const followed = this.#shards[shard];
      if (key === undefined || followed === undefined) continue;
      // Its first records may have been read and forgotten already.
      const made: FollowedSession = { key, session, seq: 0, isBehind: true };
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
  return { position: saved?.position ?? 0, marks: [...(saved?.marks ?? [])], sessions };
}

/** A turn; `undefined` for a text that is none: its session is read as a whole, by those who know what to say of it. */
function readTurn(text: string): RecordTurn | undefined {
  try {
    return decodeTurn(text);
  } catch {
    return undefined;
  }
}

/** Records after which a message may be gone or read otherwise. */
function isEdit(record: RecordTurn['records'][number]): boolean {
  switch (record.type) {
    case 'edited':
    case 'restarted':
      return true;
    case 'failed':
      return record.bounced !== undefined;
    default:
      return false;
  }
}
