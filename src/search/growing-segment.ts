/** The newest documents of an index. They are in memory until there are enough of them for a stored segment. */
import { GrowingNumbers } from './growing-numbers.ts';
import { PostingList } from './posting-list.ts';
import type { Segment, SegmentText } from './segment.ts';

/**
 * A new document. `seconds`: epoch seconds. `length`: the number of its terms, with repetitions. `counts`: how often
 * the document has each term.
 */
export interface NewDocument extends SegmentText {
  readonly session: number;
  readonly seq: number;
  readonly seconds: number;
  readonly length: number;
  readonly counts: ReadonlyMap<string, number>;
}

/** See the head of the file. */
export class GrowingSegment implements Segment {
  readonly #terms = new Map<string, PostingList>();
  readonly #sessions = new GrowingNumbers();
  readonly #seqs = new GrowingNumbers();
  readonly #seconds = new GrowingNumbers();
  readonly #lengths = new GrowingNumbers();
  readonly #texts: SegmentText[] = [];
  /** Characters of all held texts. */
  characters = 0;

  get count(): number {
    return this.#texts.length;
  }

  /** Appends a document. */
  add({ session, seq, seconds, length, counts, kind, text }: NewDocument): void {
    const document = this.count;
    this.#sessions.push(session);
    this.#seqs.push(seq);
    this.#seconds.push(seconds);
    this.#lengths.push(length);
    this.#texts.push({ kind, text });
    this.characters += text.length;
    for (const [term, times] of counts) {
      let list = this.#terms.get(term);
      if (list === undefined) {
        list = new PostingList();
        this.#terms.set(term, list);
      }
      list.add(document, times);
    }
  }

  sessionOf(document: number): number {
    return this.#sessions.at(document);
  }

  seqOf(document: number): number {
    return this.#seqs.at(document);
  }

  secondsOf(document: number): number {
    return this.#seconds.at(document);
  }

  lengthOf(document: number): number {
    return this.#lengths.at(document);
  }

  textOf(document: number): SegmentText {
    const text = this.#texts[document];
    if (text === undefined) throw new RangeError(`a segment has no document ${document}`);
    return text;
  }

  list(term: string): PostingList | undefined {
    return this.#terms.get(term);
  }

  *terms(): Iterable<readonly [string, PostingList]> {
    for (const term of [...this.#terms.keys()].sort()) {
      const list = this.#terms.get(term);
      if (list !== undefined) yield [term, list];
    }
  }
}
