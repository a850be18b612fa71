/**
 * A full-text index of messages: it finds the messages that match a query best, and returns their session, seq and
 * text. New documents are in memory. Once they are enough, they are written to a `SegmentStore` as one segment: at
 * `SEARCH_SEGMENT_DOCUMENTS` documents (fewer in a small index) or at `SEARCH_SEGMENT_CHARACTERS` characters of text. A
 * stored segment keeps only its columns and a part of its terms in memory.
 *
 * Owns: the segments, and the number that stands for each session in them. Does not own: the source of the messages,
 * and the decision when the index is saved.
 *
 * Invariants:
 *  X1 a document is one message of one session; removing a session removes all its documents at once;
 *  X2 a removed document is never a candidate. Its postings (entries in the lists of terms) are deleted when its
 *     segment is merged or rewritten. The index counts its removed documents. Once these are more than half of all
 *     documents, and more than a segment of usual size has, each segment that lost more than half is rewritten;
 *  X3 if there are more than `documentsMax` documents after a segment was stored, the oldest segments are removed, one
 *     at a time;
 *  X4 a segment in the last saved state leaves the store only after the next state is saved.
 */
import { z } from 'zod';
import {
  SEARCH_CANDIDATES_MAX,
  SEARCH_DOCUMENTS_MAX,
  SEARCH_SEGMENT_CHARACTERS,
  SEARCH_SEGMENT_DOCUMENTS,
} from '../base/bounds.ts';
import { Best } from './best.ts';
import { GrowingSegment } from './growing-segment.ts';
import { PostingList } from './posting-list.ts';
import { type Alternative, type Query, termsNeeded } from './query.ts';
import type { SearchableText } from './searchable.ts';
import { MergedSegment, type Segment, type SegmentText } from './segment.ts';
import { encodeSegment, StoredSegment } from './segment-file.ts';
import { MemorySegmentStore, type SegmentStore } from './segment-store.ts';
import { type SavedNumbers, SessionNumbers, savedNumbersSchema } from './session-numbers.ts';
import { termsOf } from './terms.ts';

/**
 * The usual parameters of the ranking function BM25. `SATURATION`: how soon further repetitions of a term count little.
 * `LENGTH_SHARE`: how much a long text is penalised.
 */
const SATURATION = 1.2;
const LENGTH_SHARE = 0.75;
const YEAR_MS = 365.25 * 24 * 3_600_000;
const SECOND_MS = 1_000;
/**
 * A new segment is merged with the segment stored before it if that older segment has less than this factor × the new
 * segment's documents. The result is then compared with the next older segment. So small segments do not accumulate.
 */
const MERGE_RATIO = 2;
/**
 * A merged segment has at most this factor × `#segmentDocuments` documents. So two segments of full size are never
 * merged.
 */
const MERGED_SEGMENTS_MAX = 1.5;

/** A message that may match. */
export interface Candidate {
  readonly session: string;
  readonly seq: number;
  readonly score: number;
  /** Reads the message's text, as it was indexed. Throws `DamagedSegmentError`. */
  readonly read: () => SegmentText;
}

/** The options of a search. */
export interface LookOptions {
  /** Epoch ms. */
  readonly now: number;
  /** Weight of a year of age: a score is divided by 1 + weight × age in years. */
  readonly decay: number;
  /** True for messages that the search must skip. */
  readonly excludes?: (session: string, seq: number) => boolean;
}

/** A message to index. `at`: epoch ms. */
export interface IndexedMessage {
  readonly seq: number;
  readonly at: number;
  readonly text: string;
  /** The kind of the message; default `human`. */
  readonly kind?: SearchableText['kind'];
}

/**
 * The saved form of an index: the names of its segments, oldest first, and the session numbers. The segments are stored
 * apart.
 */
export interface SavedIndex {
  readonly segments: readonly string[];
  readonly numbers: SavedNumbers;
}

/** See `SavedIndex`. */
export const savedIndexSchema: z.ZodType<SavedIndex> = z.object({
  segments: z.array(z.string()).readonly(),
  numbers: savedNumbersSchema,
});

interface Shelved {
  readonly name: string;
  readonly segment: StoredSegment;
}

/** See the head of the file. */
export class SearchIndex {
  readonly #documentsMax: number;
  readonly #segmentDocuments: number;
  readonly #segments: SegmentStore;
  readonly #numbers: SessionNumbers;
  /** The stored segments, oldest first. */
  #stored: readonly Shelved[];
  #growing = new GrowingSegment();
  /** Names of segments that have left the index, but may still be named in the last saved state (X4). */
  readonly #outdated: string[] = [];
  readonly #scores = new PartScores();

  /** `saved`: the last saved state; missing: the index is empty. Throws if a segment is damaged or missing. */
  constructor(
    documentsMax: number = SEARCH_DOCUMENTS_MAX,
    segments: SegmentStore = new MemorySegmentStore(),
    saved?: SavedIndex,
  ) {
    this.#documentsMax = documentsMax;
    this.#segmentDocuments = Math.min(SEARCH_SEGMENT_DOCUMENTS, Math.ceil(documentsMax / 4));
    this.#segments = segments;
    this.#numbers = new SessionNumbers(saved?.numbers);
    this.#stored = (saved?.segments ?? []).map((name) => ({ name, segment: new StoredSegment(segments.open(name)) }));
    segments.keepOnly(new Set(saved?.segments ?? []));
  }

  /** Documents that can be found. */
  get size(): number {
    return this.#numbers.documents;
  }

  /** Documents that are in memory only. */
  get unsaved(): number {
    return this.#growing.count;
  }

  /** The names of the stored segments in one text. The text changes exactly when the stored segments change. */
  segmentNames(): string {
    return this.#stored.map(({ name }) => name).join(' ');
  }

  /** The number of stored segments, their bytes in storage (`storedBytes`) and in memory (`heldBytes`). */
  statistics(): { readonly segments: number; readonly storedBytes: number; readonly heldBytes: number } {
    let storedBytes = 0;
    let heldBytes = 0;
    for (const { segment } of this.#stored) {
      storedBytes += segment.storedBytes;
      heldBytes += segment.heldBytes;
    }
    return { segments: this.#stored.length, storedBytes, heldBytes };
  }

  /** Runs `put`, then `makeRoom`. */
  add(session: string, message: IndexedMessage): void {
    this.put(session, message);
    this.makeRoom();
  }

  /**
   * Adds a message in memory. A message without a term cannot be found and is skipped. Never changes the stored
   * segments and never throws.
   */
  put(session: string, message: IndexedMessage): void {
    const terms = termsOf(message.text);
    if (terms.length === 0) return;
    const counts = new Map<string, number>();
    for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
    const number = this.#numbers.numberOf(session);
    const { seq, at, text, kind = 'human' } = message;
    const seconds = Math.max(0, Math.floor(at / SECOND_MS));
    this.#growing.add({ session: number, seq, seconds, length: terms.length, counts, kind, text });
    this.#numbers.count(number, 1, terms.length);
  }

  /** Removes all messages of these sessions. Never changes the stored segments and never throws. */
  removeSessions(sessions: Iterable<string>): void {
    for (const name of sessions) this.#numbers.remove(name);
  }

  /**
   * Writes the documents in memory to the store as a segment, once they are enough for one. Also rewrites stored
   * segments if many of their documents were removed (X2). Throws the storage's error. Then no document is lost, and
   * the next call tries again.
   */
  makeRoom(): void {
    const { count, characters } = this.#growing;
    if (count >= this.#segmentDocuments || characters >= SEARCH_SEGMENT_CHARACTERS) this.#seal();
    this.#packWhenWorthIt();
  }

  /**
   * Writes the documents in memory to the store as a segment, and returns the state to save. Throws the storage's
   * error.
   */
  save(): SavedIndex {
    if (this.#growing.count > 0) this.#seal();
    return { segments: this.#stored.map(({ name }) => name), numbers: this.#numbers.save() };
  }

  /**
   * Call it right after the state from `save` is saved, before any other change of the index. Removes from the store
   * every segment that has left the index (X4).
   */
  saved(): void {
    for (const name of this.#outdated.splice(0)) this.#segments.remove(name);
  }

  /**
   * Finds the messages that have all terms of an alternative of the query, best first. Returns at most the best
   * `SEARCH_CANDIDATES_MAX`. The caller checks phrases and exclusions. Throws `DamagedSegmentError`.
   */
  look(query: Query, options: LookOptions): readonly Candidate[] {
    const parts: readonly Segment[] = [...this.#stored.map(({ segment }) => segment), this.#growing];
    const looks = query.flatMap((alternative) => this.#prepare(parts, alternative) ?? []);
    const best = new Best<Candidate>(SEARCH_CANDIDATES_MAX);
    for (const [index, part] of parts.entries()) {
      const scores = this.#scores;
      scores.reserve(part.count);
      for (const { lists, weights } of looks) {
        const own = lists[index];
        if (own !== undefined) this.#score(part, own, weights, scores);
      }
      scores.take((document, score) => this.#offer(best, part, document, score, options));
    }
    return best.list;
  }

  #offer(best: Best<Candidate>, part: Segment, document: number, score: number, options: LookOptions): void {
    const years = Math.max(0, options.now - part.secondsOf(document) * SECOND_MS) / YEAR_MS;
    const damped = score / (1 + options.decay * years);
    if (!best.takes(damped)) return;
    const session = this.#numbers.nameOf(part.sessionOf(document));
    const seq = part.seqOf(document);
    if (session === undefined || options.excludes?.(session, seq) === true) return;
    best.add({ session, seq, score: damped, read: () => part.textOf(document) });
  }

  /**
   * For each part of the index, the lists of an alternative's terms, rarest first; undefined for a part that lacks a
   * term. Returns undefined if a term is in no part.
   */
  #prepare(
    parts: readonly Segment[],
    alternative: Alternative,
  ):
    | { readonly lists: readonly (readonly PostingList[] | undefined)[]; readonly weights: readonly number[] }
    | undefined {
    const found = termsNeeded(alternative).map((term) => {
      const lists = parts.map((part) => part.list(term));
      return { lists, count: lists.reduce((sum, list) => sum + (list?.count ?? 0), 0) };
    });
    if (found.some(({ count }) => count === 0)) return undefined;
    found.sort((a, b) => a.count - b.count);
    const alive = this.#numbers.documents;
    return {
      weights: found.map(({ count }) => Math.log(1 + (alive + 0.5) / (count + 0.5))),
      lists: parts.map((_part, index) => {
        const own = found.map(({ lists }) => lists[index]);
        return own.every((list) => list !== undefined) ? own : undefined;
      }),
    };
  }

  /** Adds the scores of the documents that have every term of an alternative. */
  #score(part: Segment, lists: readonly PostingList[], weights: readonly number[], scores: PartScores): void {
    const average = Math.max(1, this.#numbers.length / Math.max(1, this.#numbers.documents));
    const fixed = SATURATION * (1 - LENGTH_SHARE);
    const byLength = (SATURATION * LENGTH_SHARE) / average;
    for (const [index, list] of lists.entries()) {
      const weight = (weights[index] ?? 0) * (SATURATION + 1);
      list.each((document, times) => {
        if (index > 0 ? !scores.has(document, index) : !this.#numbers.isAlive(part.sessionOf(document))) return;
        scores.add(document, (weight * times) / (times + fixed + byLength * part.lengthOf(document)));
      });
    }
    scores.end(lists.length);
  }

  /** Writes the documents in memory to the store as a segment, merged with small older segments. */
  #seal(): void {
    const parts: Segment[] = [this.#growing];
    let { count } = this.#growing;
    const countMax = MERGED_SEGMENTS_MAX * this.#segmentDocuments;
    let kept = this.#stored.length;
    for (; kept > 0; kept -= 1) {
      const older = this.#stored[kept - 1]?.segment;
      if (older === undefined || older.count >= MERGE_RATIO * count || older.count + count > countMax) break;
      parts.unshift(older);
      count += older.count;
    }
    this.#replace(this.#stored.slice(kept), parts, kept);
    this.#growing = new GrowingSegment();
    while (this.#numbers.documents > this.#documentsMax && this.#stored.length > 0) this.#dropOldest();
  }

  /** Replaces stored segments, starting at `index`, by one segment with the remaining documents of `parts`. */
  #replace(replaced: readonly Shelved[], parts: readonly Segment[], index: number): void {
    const merged = new MergedSegment(
      parts,
      (session) => this.#numbers.isAlive(session),
      () => new PostingList(),
    );
    const made = merged.count === 0 ? [] : [this.#put(merged)];
    this.#stored = this.#stored.toSpliced(index, replaced.length, ...made);
    for (const { name } of replaced) this.#outdated.push(name);
  }

  #put(segment: Segment): Shelved {
    const { name, bytes } = this.#segments.put(encodeSegment(segment));
    return { name, segment: new StoredSegment(bytes) };
  }

  #dropOldest(): void {
    const [oldest] = this.#stored;
    if (oldest === undefined) return;
    const { name, segment } = oldest;
    for (let document = 0; document < segment.count; document += 1) {
      const session = segment.sessionOf(document);
      if (this.#numbers.isAlive(session)) this.#numbers.count(session, -1, segment.lengthOf(document));
    }
    this.#stored = this.#stored.slice(1);
    this.#outdated.push(name);
  }

  /**
   * Deletes the texts and postings of removed documents. Rewrites every stored segment that has a removed document.
   * Writes the documents in memory to the store, except the removed ones. The replaced segments stay in the store until
   * `saved` is called (X4). Throws the storage's error; the next call tries again.
   */
  erase(): void {
    this.#rewriteWhere((alive, count) => alive < count);
    if (this.#growing.count > 0) this.#seal();
  }

  /**
   * Rewrites each segment that has lost more than half of its documents, if the whole index has lost enough of them
   * (X2). Then also writes the documents in memory to the store.
   */
  #packWhenWorthIt(): void {
    const total = this.#stored.reduce((sum, { segment }) => sum + segment.count, this.#growing.count);
    if (total - this.#numbers.documents <= Math.max(this.#segmentDocuments, this.#numbers.documents)) return;
    this.#rewriteWhere((alive, count) => count > 2 * alive);
    if (this.#growing.count > 0) this.#seal();
  }

  /**
   * Rewrites each stored segment for which `isDue` returns true. `alive`: the segment's documents that are not removed.
   * `count`: all documents of the segment.
   */
  #rewriteWhere(isDue: (alive: number, count: number) => boolean): void {
    for (const shelved of [...this.#stored]) {
      const { segment } = shelved;
      let alive = 0;
      for (let document = 0; document < segment.count; document += 1) {
        if (this.#numbers.isAlive(segment.sessionOf(document))) alive += 1;
      }
      if (isDue(alive, segment.count)) this.#replace([shelved], [segment], this.#stored.indexOf(shelved));
    }
  }
}

/**
 * The scores of one segment's documents. All segments use one object in turn, so it has the size of the largest one.
 */
class PartScores {
  #totals = new Float64Array();
  #own = new Float64Array();
  #hits = new Uint16Array();
  /** The documents with a hit for the current alternative, each once. */
  #touched = new Uint32Array();
  #touchedCount = 0;
  /** The documents with a total, each once. */
  #scored = new Uint32Array();
  #scoredCount = 0;

  /** Makes room for this many documents. */
  reserve(documents: number): void {
    if (this.#hits.length >= documents) return;
    this.#totals = new Float64Array(documents);
    this.#own = new Float64Array(documents);
    this.#hits = new Uint16Array(documents);
    this.#touched = new Uint32Array(documents);
    this.#scored = new Uint32Array(documents);
  }

  /** True if a document was in each of the first `lists` lists. */
  has(document: number, lists: number): boolean {
    return this.#hits[document] === lists;
  }

  add(document: number, score: number): void {
    const hits = this.#hits[document] ?? 0;
    if (hits === 0) {
      this.#touched[this.#touchedCount] = document;
      this.#touchedCount += 1;
    }
    this.#hits[document] = hits + 1;
    this.#own[document] = (this.#own[document] ?? 0) + score;
  }

  /** Ends an alternative: adds the scores of the documents that were in all its lists to their totals. */
  end(lists: number): void {
    for (let index = 0; index < this.#touchedCount; index += 1) {
      const document = this.#touched[index] ?? 0;
      if (this.#hits[document] === lists) {
        if (this.#totals[document] === 0) {
          this.#scored[this.#scoredCount] = document;
          this.#scoredCount += 1;
        }
        this.#totals[document] = (this.#totals[document] ?? 0) + (this.#own[document] ?? 0);
      }
      this.#hits[document] = 0;
      this.#own[document] = 0;
    }
    this.#touchedCount = 0;
  }

  /** Passes the total of each document to `visit`, and clears it. */
  take(visit: (document: number, score: number) => void): void {
    for (let index = 0; index < this.#scoredCount; index += 1) {
      const document = this.#scored[index] ?? 0;
      visit(document, this.#totals[document] ?? 0);
      this.#totals[document] = 0;
    }
    this.#scoredCount = 0;
  }
}
