/**
 * Runs the index of all messages on its thread: it follows the logs, answers searches, and is saved.
 *
 * Owns: the index, its follower, the time at which both are saved. Does not own: the location of the segment store, the
 * thread.
 * Invariants:
 *  V1 a search finds the messages that were durable before it began, but no message that was removed before it began.
 *     If the index has not read everything in time, the answer says so (`isComplete`). Each message is then checked
 *     against the present state of its session before it is returned;
 *  V2 the saved index and the saved positions are from one moment. After a crash only later rows are read again;
 *  V3 an index that is damaged, or belongs to other logs, is deleted and built again.
 */
import { z } from 'zod';
import { SEARCH_DOCUMENTS_MAX, SEARCH_SNIPPET_CHARACTERS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError } from '../../base/errors.ts';
import { rootOf, shardOf, tenantOf } from '../../base/ids.ts';
import { wellFormed } from '../../base/json.ts';
import { matches, parseQuery, type Query } from '../../search/query.ts';
import { type Candidate, type LookOptions, SearchIndex, savedIndexSchema } from '../../search/search-index.ts';
import type { SearchableText } from '../../search/searchable.ts';
import { DamagedSegmentError } from '../../search/segment-file.ts';
import type { SegmentStore } from '../../search/segment-store.ts';
import { termsOf } from '../../search/terms.ts';
import { SearchFollower, savedFollowerSchema } from './follower.ts';
import { type AskShard, readSession } from './reader.ts';
import { SessionSince, type StandingText } from './session-since.ts';

/** A message that was found. */
export interface FoundMessage {
  readonly session: string;
  /** The session's name, if it has one. */
  readonly name?: string;
  readonly seq: number;
  readonly kind: SearchableText['kind'];
  /** The first characters of the message. */
  readonly snippet: string;
}

/** A search query and its bounds. */
export interface SearchRequest {
  readonly text: string;
  readonly limit: number;
  /**
   * A session whose messages from the seq `floor` on are not returned. Without `floor`, the messages of the session's
   * window are not returned.
   */
  readonly excluding?: { readonly session: string; readonly floor?: number };
  /** Roots of the trees to search; missing: all. */
  readonly trees?: ReadonlySet<string>;
  /** Only sessions of this tenant; empty: only sessions without a tenant; missing: all. */
  readonly tenant?: string;
  /** Only sessions of these shards; missing: all. */
  readonly shards?: ReadonlySet<number>;
  /** Epoch ms. */
  readonly now: number;
  /** Weight of one year of a message's age (`LookOptions.decay`). */
  readonly decay: number;
  /** How many milliseconds the search may wait until everything written has been read. */
  readonly waitMs: number;
}

/** The answer to a search, best message first. */
export interface SearchAnswer {
  readonly found: readonly FoundMessage[];
  /** The score of each message that was found. */
  readonly scores: readonly number[];
  /** True if everything that was written before the search began has been read. */
  readonly isComplete: boolean;
  /** Messages in the index. */
  readonly messages: number;
}

/** The size of an index. */
export interface SearchStatistics {
  readonly messages: number;
  readonly sessions: number;
  readonly segments: number;
  /** Bytes in the segment store. */
  readonly storedBytes: number;
  /** Bytes of the segments' columns and terms in memory. */
  readonly heldBytes: number;
}

/** The parts that a service needs. */
export interface SearchServiceParts {
  readonly segments: SegmentStore;
  readonly shards: number;
  readonly ask: AskShard;
  /** The shards of this node; missing: all. */
  readonly here?: () => Promise<ReadonlySet<number>>;
  /** Resolves after `ms` milliseconds. */
  readonly wait: (ms: number) => Promise<void>;
  readonly documentsMax?: number;
}

/** Version 2: the position in a log is a row. An index of another version is built again. */
const STATE_FORMAT = 2;
const stateSchema = z.object({ v: z.literal(STATE_FORMAT), index: savedIndexSchema, follower: savedFollowerSchema });

/** See the head of the file. */
export class SearchService {
  readonly #parts: SearchServiceParts;
  #index: SearchIndex;
  #follower: SearchFollower;
  /** The running pass, and the pass that starts after it. */
  #pass: Promise<void> | undefined;
  #nextPass: Promise<void> | undefined;
  /** Names of the segments at the last save. */
  #savedSegments = '';
  #isSaved: boolean;
  #isClosed = false;

  constructor(parts: SearchServiceParts) {
    this.#parts = parts;
    const { index, follower, isSaved } = this.#load();
    this.#index = index;
    this.#follower = follower;
    this.#isSaved = isSaved;
  }

  statistics(): SearchStatistics {
    return { messages: this.#index.size, sessions: this.#follower.sessions, ...this.#index.statistics() };
  }

  /** The best messages. Rejects with the error of a shard. A query without terms finds nothing. */
  async search(request: SearchRequest): Promise<SearchAnswer> {
    const query = parseQuery(request.text);
    if (query === undefined) return { found: [], scores: [], isComplete: true, messages: this.#index.size };
    const { excluding, trees, tenant, shards } = request;
    const floor = excluding === undefined ? 0 : (excluding.floor ?? (await this.#floorOf(excluding.session)));
    const excludes = (session: string, seq: number): boolean =>
      (session === excluding?.session && seq >= floor) ||
      trees?.has(rootOf(session)) === false ||
      (tenant !== undefined && (tenantOf(session) ?? '') !== tenant) ||
      shards?.has(shardOf(session, this.#parts.shards)) === false;
    for (;;) {
      const isComplete = await this.#caughtUp(request.waitMs);
      try {
        const found = await this.#find(query, { ...request, excludes }, isComplete);
        return { ...found, isComplete, messages: this.#index.size };
      } catch (error) {
        if (!(error instanceof DamagedSegmentError)) throw error;
        this.#beginAnew();
      }
    }
  }

  /** Forgets deleted sessions. */
  forget(sessions: readonly string[]): void {
    this.#follower.forget(sessions);
    this.#isSaved = false;
  }

  /**
   * Removes messages of these deleted sessions from all files. Rejects with the error of a shard or of the device; the
   * next call tries again.
   */
  async erase(sessions: readonly string[]): Promise<void> {
    this.forget(sessions);
    await this.#catchUp();
    if (this.#isClosed) return;
    try {
      this.#index.erase();
    } catch (error) {
      if (!(error instanceof DamagedSegmentError)) throw error;
      this.#beginAnew();
    }
    this.#save();
  }

  /** Saves the index and closes the segment store. */
  close(): void {
    if (this.#isClosed) return;
    if (!this.#isSaved) this.#save();
    this.#isClosed = true;
    this.#parts.segments.close();
  }

  /** Waits until everything written so far is read. False if the wait ended before that. */
  async #caughtUp(waitMs: number): Promise<boolean> {
    let isRead = false;
    const read = this.#catchUp().then(() => {
      isRead = true;
    });
    const late = this.#parts.wait(waitMs);
    // If the pass fails after the wait, the next search fails too and reports the error.
    read.catch(() => undefined);
    await Promise.race([read, late]);
    return isRead;
  }

  /** Returns a pass that begins after this call. */
  #catchUp(): Promise<void> {
    if (this.#pass === undefined) {
      // The pass starts in a later microtask, so that a caller during the start already sees this pass.
      this.#pass = Promise.resolve()
        .then(() => this.#readOn())
        .finally(() => {
          this.#pass = undefined;
        });
      return this.#pass;
    }
    this.#nextPass ??= this.#pass
      .catch(() => undefined)
      .then(() => {
        this.#nextPass = undefined;
        return this.#catchUp();
      });
    return this.#nextPass;
  }

  async #readOn(): Promise<void> {
    for (;;) {
      const follower = this.#follower;
      try {
        const isSame = await follower.pass(await this.#parts.here?.());
        // The index was replaced during the pass, so the new follower must read.
        if (follower !== this.#follower) continue;
        if (isSame) {
          if (this.#savedSegments === '' && this.#index.unsaved > 0) this.#save();
          return;
        }
        this.#beginAnew();
      } catch (error) {
        if (!(asError(error) instanceof DamagedSegmentError)) throw error;
        this.#beginAnew();
      }
    }
  }

  async #find(
    query: Query,
    request: Pick<SearchRequest, 'now' | 'decay' | 'limit'> & LookOptions,
    isComplete: boolean,
  ): Promise<Pick<SearchAnswer, 'found' | 'scores'>> {
    const candidates = this.#index.look(query, request);
    // The indexed text of each candidate, and the row up to which its session was indexed, are noted before any await:
    // the index may change during the checks.
    const standing = isComplete ? undefined : this.#standing(candidates);
    const found: FoundMessage[] = [];
    const scores: number[] = [];
    for (const [index, candidate] of candidates.entries()) {
      if (found.length >= request.limit) break;
      const message = standing === undefined ? candidate.read() : await standing(index);
      if (message === undefined || !matches(query, termsOf(message.text))) continue;
      const { session, seq } = candidate;
      const name = this.#follower.nameOf(session);
      const snippet = wellFormed(message.text.slice(0, SEARCH_SNIPPET_CHARACTERS));
      found.push({ session, seq, kind: message.kind, snippet, ...defined({ name }) });
      scores.push(candidate.score);
    }
    return { found, scores };
  }

  /** Checks a candidate, by its position in the list, against the present state of its session (V1). */
  #standing(candidates: readonly Candidate[]): (index: number) => Promise<StandingText | undefined> {
    const { ask } = this.#parts;
    const texts = candidates.map((candidate) => candidate.read());
    const readings = new Map<string, SessionSince>();
    for (const { session } of candidates) {
      const place = this.#follower.placeOf(session);
      if (place !== undefined && !readings.has(session)) readings.set(session, new SessionSince(ask, place));
    }
    return async (index) => {
      const candidate = candidates[index];
      const text = texts[index];
      if (candidate === undefined || text === undefined) return undefined;
      return readings.get(candidate.session)?.asItStands(candidate.seq, text);
    };
  }

  /** The first seq of the window of a session that is not resident; 1 if no message has left the window. */
  async #floorOf(session: string): Promise<number> {
    const { ask, shards } = this.#parts;
    const shard = shardOf(session, shards);
    const there = await ask(shard, 'search.session', { session });
    if (there === undefined) return 1;
    const read = await readSession(ask, { shard, session, key: there.key }, { keepsAll: false });
    return read?.state.floor ?? 1;
  }

  #stepped(): void {
    if (this.#isClosed) return;
    this.#isSaved = false;
    // The index is saved after each new segment, so that a crash repeats at most about one segment of reading.
    if (this.#index.segmentNames() !== this.#savedSegments) this.#save();
  }

  #save(): void {
    const index = this.#index.save();
    const state: z.infer<typeof stateSchema> = { v: STATE_FORMAT, index, follower: this.#follower.save() };
    this.#parts.segments.saveState(JSON.stringify(state));
    this.#index.saved();
    this.#savedSegments = this.#index.segmentNames();
    this.#isSaved = true;
  }

  /** The saved index, or an empty index if the saved index cannot be used. */
  #load(): { readonly index: SearchIndex; readonly follower: SearchFollower; readonly isSaved: boolean } {
    const { segments, shards, documentsMax = SEARCH_DOCUMENTS_MAX } = this.#parts;
    const saved = readState(segments.loadState());
    if (saved !== undefined && saved.follower.shards.length === shards) {
      try {
        const index = new SearchIndex(documentsMax, segments, saved.index);
        this.#savedSegments = index.segmentNames();
        return { index, follower: this.#follow(index, saved.follower), isSaved: true };
      } catch {
        // The saved index is damaged or missing. A new index is made below. Making it removes the rest of the saved
        // index.
      }
    }
    const index = new SearchIndex(documentsMax, segments);
    this.#savedSegments = '';
    return { index, follower: this.#follow(index), isSaved: false };
  }

  #follow(index: SearchIndex, saved?: z.infer<typeof savedFollowerSchema>): SearchFollower {
    const { ask, shards } = this.#parts;
    return new SearchFollower({ index, ask, shards, saved, stepped: () => index === this.#index && this.#stepped() });
  }

  #beginAnew(): void {
    const { segments, documentsMax = SEARCH_DOCUMENTS_MAX } = this.#parts;
    segments.saveState('');
    this.#index = new SearchIndex(documentsMax, segments);
    this.#follower = this.#follow(this.#index);
    this.#savedSegments = '';
    this.#isSaved = false;
  }
}

function readState(text: string | undefined): z.infer<typeof stateSchema> | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    return stateSchema.parse(JSON.parse(text));
  } catch {
    // The text is of another version, or damaged: it is treated as missing.
    return undefined;
  }
}
