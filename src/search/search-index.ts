/**
 * A full-text index of messages: which stand where, and which fit a query best. It holds no text.
 *
 * Owns: the numbers of sessions and documents, the posting lists. Does not own: the messages; who searches reads the candidates'
 * texts and looks whether they (still) match, which is what makes phrases and edits exact.
 * Invariants:
 *  X1 a document is one message of one session; its number is never given to another;
 *  X2 a document that was removed is no candidate; its postings leave when every other document is one such;
 *  X3 beyond `SEARCH_DOCUMENTS_MAX` the oldest documents leave.
 */
import { SEARCH_CANDIDATES_MAX, SEARCH_DOCUMENTS_MAX } from '../base/bounds.ts';
import { GrowingNumbers } from './growing-numbers.ts';
import { PostingList } from './posting-list.ts';
import { type Alternative, type Query, termsNeeded } from './query.ts';
import { termsOf } from './terms.ts';

/** Saturation of repeated terms, and how much long texts are held back: the usual values of BM25. */
const SATURATION = 1.2;
const LENGTH_SHARE = 0.75;
const YEAR_MS = 365.25 * 24 * 3_600_000;
const SECOND_MS = 1_000;

/** A message that may match. */
export interface Candidate {
  readonly session: string;
  readonly seq: number;
  readonly score: number;
}

/** How to look. */
export interface LookOptions {
  /** Epoch ms. */
  readonly now: number;
  /** Weight of a year of age: a score is divided by 1 plus it times the age in years. */
  readonly decay: number;
  /** True for messages that are not to be found. */
  readonly excludes?: (session: string, seq: number) => boolean;
  readonly documentsMax?: number;
}

/** See the head of the file. */
export class SearchIndex {
  readonly #documentsMax: number;
  readonly #sessionNumbers = new Map<string, number>();
  /** By number; undefined: removed. */
  readonly #sessionNames: (string | undefined)[] = [''];
  #terms = new Map<string, PostingList>();
  /** By document: the session's number, 0 when removed. */
  #sessions = new GrowingNumbers();
  #seqs = new GrowingNumbers();
  /** Epoch seconds. */
  #times = new GrowingNumbers();
  #lengths = new GrowingNumbers();
  #alive = 0;
  #length = 0;

  constructor(documentsMax: number = SEARCH_DOCUMENTS_MAX) {
    this.#documentsMax = documentsMax;
  }

  /** Documents that can be found. */
  get size(): number {
    return this.#alive;
  }

  /** Terms there are, and bytes of their lists. */
  statistics(): { readonly terms: number; readonly postingBytes: number } {
    let postingBytes = 0;
    for (const list of this.#terms.values()) postingBytes += list.capacity;
    return { terms: this.#terms.size, postingBytes };
  }

  /** Takes a message in; one without a term cannot be found and is left out. `at`: epoch ms. */
  add(session: string, message: { readonly seq: number; readonly at: number; readonly text: string }): void {
    const terms = termsOf(message.text);
    if (terms.length === 0) return;
    const times = new Map<string, number>();
    for (const term of terms) times.set(term, (times.get(term) ?? 0) + 1);
    const document = this.#place(this.#numberOf(session), message.seq, message.at / SECOND_MS, terms.length);
    for (const [term, count] of times) {
      let list = this.#terms.get(term);
      if (list === undefined) {
        list = new PostingList();
        this.#terms.set(term, list);
      }
      list.add(document, count);
    }
    if (this.#alive > this.#documentsMax) this.#dropOldest();
  }

  #place(session: number, seq: number, seconds: number, length: number): number {
    this.#sessions.push(session);
    this.#seqs.push(seq);
    this.#times.push(Math.max(0, Math.floor(seconds)));
    this.#alive += 1;
    this.#length += length;
    return this.#lengths.push(length);
  }

  /** Forgets all messages of these sessions. */
  removeSessions(sessions: Iterable<string>): void {
    const numbers = new Set<number>();
    for (const name of sessions) {
      const number = this.#sessionNumbers.get(name);
      if (number === undefined) continue;
      numbers.add(number);
      this.#sessionNumbers.delete(name);
      this.#sessionNames[number] = undefined;
    }
    if (numbers.size === 0) return;
    for (let document = 0; document < this.#sessions.length; document += 1) {
      if (numbers.has(this.#sessions.at(document))) this.#kill(document);
    }
    this.#packWhenWorthIt();
  }

  /** The messages that may match, best first. */
  look(query: Query, options: LookOptions): readonly Candidate[] {
    const scores = new Map<number, number>();
    for (const alternative of query) {
      for (const [document, score] of this.#scores(alternative)) {
        scores.set(document, score + (scores.get(document) ?? 0));
      }
    }
    const best = new Best(SEARCH_CANDIDATES_MAX);
    for (const [document, score] of scores) {
      const session = this.#sessionNames[this.#sessions.at(document)] ?? '';
      const seq = this.#seqs.at(document);
      if (options.excludes?.(session, seq) === true) continue;
      const years = Math.max(0, options.now - this.#times.at(document) * SECOND_MS) / YEAR_MS;
      best.add({ session, seq, score: score / (1 + options.decay * years) });
    }
    return best.list;
  }

  /** Documents with every term of an alternative, and how well they fit. */
  #scores(alternative: Alternative): ReadonlyMap<number, number> {
    const lists: PostingList[] = [];
    for (const term of termsNeeded(alternative)) {
      const list = this.#terms.get(term);
      if (list === undefined) return new Map();
      lists.push(list);
    }
    lists.sort((a, b) => a.count - b.count);
    let scores: Map<number, number> | undefined;
    for (const list of lists) {
      const before = scores;
      const found = new Map<number, number>();
      const weight = Math.log(1 + (this.#alive + 0.5) / (list.count + 0.5));
      list.each((document, times) => {
        if (this.#sessions.at(document) === 0) return;
        const score = before === undefined ? 0 : before.get(document);
        if (score !== undefined) found.set(document, score + weight * this.#share(document, times));
      });
      scores = found;
    }
    return scores ?? new Map();
  }

  #share(document: number, times: number): number {
    const relative = this.#lengths.at(document) / Math.max(1, this.#length / Math.max(1, this.#alive));
    const held = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative);
    return (times * (SATURATION + 1)) / (times + held);
  }

  #numberOf(session: string): number {
    const known = this.#sessionNumbers.get(session);
    if (known !== undefined) return known;
    const number = this.#sessionNames.push(session) - 1;
    this.#sessionNumbers.set(session, number);
    return number;
  }

  #kill(document: number): void {
    if (this.#sessions.at(document) === 0) return;
    this.#sessions.set(document, 0);
    this.#alive -= 1;
    this.#length -= this.#lengths.at(document);
  }

  /** A quarter at a time: packing costs as much as there is. */
  #dropOldest(): void {
    let left = Math.ceil(this.#documentsMax / 4);
    for (let document = 0; left > 0 && document < this.#sessions.length; document += 1) {
      if (this.#sessions.at(document) === 0) continue;
      this.#kill(document);
      left -= 1;
    }
    this.#pack();
  }

  #packWhenWorthIt(): void {
    if (this.#sessions.length > 2 * this.#alive) this.#pack();
  }

  /** Numbers the living anew, without the dead between them. */
  #pack(): void {
    const numbers = new GrowingNumbers();
    const old = { sessions: this.#sessions, seqs: this.#seqs, times: this.#times, lengths: this.#lengths };
    this.#sessions = new GrowingNumbers();
    this.#seqs = new GrowingNumbers();
    this.#times = new GrowingNumbers();
    this.#lengths = new GrowingNumbers();
    for (let document = 0; document < old.sessions.length; document += 1) {
      numbers.push(this.#lengths.length);
      if (old.sessions.at(document) === 0) continue;
      this.#sessions.push(old.sessions.at(document));
      this.#seqs.push(old.seqs.at(document));
      this.#times.push(old.times.at(document));
      this.#lengths.push(old.lengths.at(document));
    }
    const terms = new Map<string, PostingList>();
    for (const [term, list] of this.#terms) {
      const packed = new PostingList();
      list.each((document, times) => {
        if (old.sessions.at(document) !== 0) packed.add(numbers.at(document), times);
      });
      if (packed.count > 0) terms.set(term, packed);
    }
    this.#terms = terms;
  }
}

/** The best of many, best first. */
class Best {
  readonly list: Candidate[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  add(candidate: Candidate): void {
    const { list } = this;
    if (list.length === this.#max && candidate.score <= (list.at(-1)?.score ?? 0)) return;
    let low = 0;
    let high = list.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((list[middle]?.score ?? 0) >= candidate.score) low = middle + 1;
      else high = middle;
    }
    list.splice(low, 0, candidate);
    if (list.length > this.#max) list.pop();
  }
}
