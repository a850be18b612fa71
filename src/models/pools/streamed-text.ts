/**
 * The text that running calls have streamed so far, kept for readers that begin later.
 *
 * Owns: the pieces of each call, and the sum of their lengths. Does not own: the calls, and when pieces are published.
 *  S1 No piece is kept by reference (`text-buffer.ts`). A string is made only for a reader that begins, and for a
 *     draft.
 *  S2 The text of one call and the text of all calls are bounded. If a call's text exceeds a bound, all of its text is
 *     dropped, and later pieces of the call are not kept. No part is kept, because a reader would not notice a hole.
 */
import { STREAMED_CALL_CHARACTERS_MAX, STREAMED_CHARACTERS_MAX } from '../../base/bounds.ts';
import { TextBuffer } from '../../base/text-buffer.ts';
import type { ModelDelta } from '../provider.ts';

/** Neighbouring pieces of one type. */
interface Run {
  readonly type: ModelDelta['type'];
  readonly text: TextBuffer;
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
    if (last?.type === type) last.text.add(text);
    else this.#runs.push({ type, text: new TextBuffer(text) });
    this.#characters += text.length;
    this.#sum.characters += text.length;
    const isOver = this.#characters > STREAMED_CALL_CHARACTERS_MAX || this.#sum.characters > STREAMED_CHARACTERS_MAX;
    if (isOver) this.drop();
  }

  /** The text so far, neighbours of one type joined; empty if the text was dropped. */
  pieces(): readonly ModelDelta[] {
    return this.#runs.map(({ type, text }) => ({ type, text: text.toString() }));
  }

  /** UTF-16 units of the text so far; 0 if the text was dropped. */
  get characters(): number {
    return this.#characters;
  }

  /** True if the text was dropped. */
  get isDropped(): boolean {
    return this.#isDropped;
  }

  /** The text from UTF-16 unit `start` up to, but not including, unit `end`. Neighbours of one type are joined. */
  piecesBetween(start: number, end: number): readonly ModelDelta[] {
    const found: ModelDelta[] = [];
    let before = 0;
    for (const { type, text } of this.#runs) {
      const [from, to] = [Math.max(0, start - before), Math.min(text.length, end - before)];
      if (from < to) found.push({ type, text: text.slice(from, to) });
      before += text.length;
    }
    return found;
  }

  /** Drops the text: the call has ended, or a bound was exceeded (S2). */
  drop(): void {
    this.#sum.characters -= this.#characters;
    this.#characters = 0;
    this.#runs = [];
    this.#isDropped = true;
  }
}
