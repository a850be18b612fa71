/**
 * The text that running calls have streamed so far, kept for readers that begin later.
 *
 * Owns: the pieces of each call, and their sum. Does not own: the calls, and when pieces are published.
 *  S1 A piece is kept by reference; pieces are joined only for a reader that begins.
 *  S2 The text of one call and the text of all calls are bounded. If a call's text would exceed a bound, all of it is
 *     dropped, and later pieces of the call are not kept: a reader would not notice a hole.
 */
import { STREAMED_CALL_CHARACTERS_MAX, STREAMED_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { ModelDelta } from '../provider.ts';

/** Neighbouring pieces of one type. */
interface Run {
  readonly type: ModelDelta['type'];
  readonly texts: string[];
}

/** UTF-16 units that the calls of one pool have kept. */
export interface StreamedSum {
  characters: number;
}

/** The text of one call. */
export class StreamedText {
  readonly #sum: StreamedSum;
  #runs: Run[] = [];
  #characters = 0;
  #isDropped = false;

  constructor(sum: StreamedSum) {
    this.#sum = sum;
  }

  /** Keeps the next piece. */
  add(type: ModelDelta['type'], text: string): void {
    if (this.#isDropped) return;
    const last = this.#runs.at(-1);
    if (last?.type === type) last.texts.push(text);
    else this.#runs.push({ type, texts: [text] });
    this.#characters += text.length;
    this.#sum.characters += text.length;
    const isOver = this.#characters > STREAMED_CALL_CHARACTERS_MAX || this.#sum.characters > STREAMED_CHARACTERS_MAX;
    if (isOver) this.drop();
  }

  /** The text so far, neighbours of one type joined; empty if the text was dropped. */
  pieces(): readonly ModelDelta[] {
    return this.#runs.map(({ type, texts }) => ({ type, text: texts.join('') }));
  }

  /** Drops the text: the call has ended, or a bound was exceeded (S2). */
  drop(): void {
    this.#sum.characters -= this.#characters;
    this.#characters = 0;
    this.#runs = [];
    this.#isDropped = true;
  }
}
