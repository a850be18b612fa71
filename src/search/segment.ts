/**
 * A segment: some documents of an index, numbered from 0, and their terms. Also merges several segments into one. Pure.
 */
import type { PostingList } from './posting-list.ts';
import type { SearchableText } from './searchable.ts';

/** The text of a document, and the label that a reader sees. */
export interface SegmentText {
  readonly kind: SearchableText['kind'];
  readonly text: string;
}

/** See the head of the file. */
export interface Segment {
  /** The number of documents, including documents that were removed later. */
  readonly count: number;
  /** The number of the document's session (`session-numbers.ts`). */
  sessionOf(document: number): number;
  seqOf(document: number): number;
  /** Epoch seconds. */
  secondsOf(document: number): number;
  /** The number of terms in the document, with repetitions. */
  lengthOf(document: number): number;
  textOf(document: number): SegmentText;
  /** The documents with a term; `undefined` if there are none. */
  list(term: string): PostingList | undefined;
  /** All terms with their documents, ascending by UTF-16 code units. */
  terms(): Iterable<readonly [term: string, list: PostingList]>;
}

/**
 * Several segments as one, without documents of removed sessions, and without terms that only those documents had.
 */
export class MergedSegment implements Segment {
  readonly count: number;
  readonly #parts: readonly Segment[];
  /** For each document of the merged segment: the index of the former segment, and the document's number there. */
  readonly #partOf: Uint32Array;
  readonly #numberOf: Uint32Array;
  /** For each former segment and each document in it: the document's number in the merged segment, or `GONE`. */
  readonly #documents: readonly Uint32Array[];
  readonly #newList: () => PostingList;

  /** `newList` creates an empty list. */
  constructor(parts: readonly Segment[], isAlive: (session: number) => boolean, newList: () => PostingList) {
    this.#parts = parts;
    this.#newList = newList;
    const total = parts.reduce((sum, part) => sum + part.count, 0);
    this.#partOf = new Uint32Array(total);
    this.#numberOf = new Uint32Array(total);
    this.#documents = parts.map((part) => new Uint32Array(part.count).fill(GONE));
    let count = 0;
    for (const [index, part] of parts.entries()) {
      const documents = this.#documents[index] ?? new Uint32Array();
      for (let number = 0; number < part.count; number += 1) {
        if (!isAlive(part.sessionOf(number))) continue;
        this.#partOf[count] = index;
        this.#numberOf[count] = number;
        documents[number] = count;
        count += 1;
      }
    }
    this.count = count;
  }

  sessionOf(document: number): number {
    return this.#partAt(document).sessionOf(this.#numberAt(document));
  }

  seqOf(document: number): number {
    return this.#partAt(document).seqOf(this.#numberAt(document));
  }

  secondsOf(document: number): number {
    return this.#partAt(document).secondsOf(this.#numberAt(document));
  }

  lengthOf(document: number): number {
    return this.#partAt(document).lengthOf(this.#numberAt(document));
  }

  textOf(document: number): SegmentText {
    return this.#partAt(document).textOf(this.#numberAt(document));
  }

  list(term: string): PostingList | undefined {
    const merged = this.#newList();
    for (const [index, part] of this.#parts.entries()) this.#take(merged, index, part.list(term));
    return merged.count === 0 ? undefined : merged;
  }

  *terms(): Iterable<readonly [string, PostingList]> {
    const cursors = this.#parts.map((part) => part.terms()[Symbol.iterator]());
    const heads = cursors.map((cursor) => cursor.next());
    for (;;) {
      let least: string | undefined;
      for (const head of heads) {
        if (head.done !== true && (least === undefined || head.value[0] < least)) least = head.value[0];
      }
      if (least === undefined) return;
      const merged = this.#newList();
      for (const [index, head] of heads.entries()) {
        if (head.done === true || head.value[0] !== least) continue;
        this.#take(merged, index, head.value[1]);
        const next = cursors[index]?.next();
        if (next !== undefined) heads[index] = next;
      }
      if (merged.count > 0) yield [least, merged];
    }
  }

  #take(into: PostingList, part: number, list: PostingList | undefined): void {
    const documents = this.#documents[part];
    list?.each((number, times) => {
      const document = documents?.[number] ?? GONE;
      if (document !== GONE) into.add(document, times);
    });
  }

  #partAt(document: number): Segment {
    const part = this.#parts[this.#partOf[document] ?? 0];
    if (part === undefined) throw new RangeError(`a segment has no document ${document}`);
    return part;
  }

  #numberAt(document: number): number {
    return this.#numberOf[document] ?? 0;
  }
}

const GONE = 0xffff_ffff;
