/**
 * The documents that contain a term, and how often each contains it. A document's number is stored as the difference
 * from the number before it. A stored number takes one byte for every seven bits. So a document takes about two bytes.
 */

const BYTES_AT_FIRST = 8;
/** The eighth bit of a byte says that more bytes follow; the other seven belong to the number. */
const MORE = 0x80;

/** A list of documents, ascending. See the head of the file. */
export class PostingList {
  #bytes: Uint8Array;
  #length: number;
  #last = 0;
  /** The number of documents in the list. */
  count: number;

  /**
   * An empty list, or a list made from the `bytes` and the `count` of another list. Documents may be added only to a
   * list that began empty.
   */
  constructor(bytes?: Uint8Array, count = 0) {
    this.#bytes = bytes ?? new Uint8Array(BYTES_AT_FIRST);
    this.#length = bytes?.length ?? 0;
    this.count = count;
  }

  /** The list as bytes: a view, valid until the next `add`. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Appends a document, whose number must be the highest so far. `times`: how often the document has the term. */
  add(document: number, times: number): void {
    this.#put(document - this.#last);
    this.#put(times);
    this.#last = document;
    this.count += 1;
  }

  /** Calls `visit` for each document, ascending. */
  each(visit: (document: number, times: number) => void): void {
    const bytes = this.#bytes;
    let at = 0;
    let document = 0;
    const next = (): number => {
      let value = 0;
      let factor = 1;
      for (;;) {
        const byte = bytes[at] ?? 0;
        at += 1;
        // The value is multiplied, not shifted: a document's number may take all of 32 bits.
        value += (byte & (MORE - 1)) * factor;
        if (byte < MORE) return value;
        factor *= MORE;
      }
    };
    while (at < this.#length) {
      document += next();
      visit(document, next());
    }
  }

  #put(value: number): void {
    let rest = value;
    for (;;) {
      if (this.#length === this.#bytes.length) this.#grow();
      if (rest < MORE) {
        this.#bytes[this.#length] = rest;
        this.#length += 1;
        return;
      }
      this.#bytes[this.#length] = (rest % MORE) + MORE;
      this.#length += 1;
      rest = Math.floor(rest / MORE);
    }
  }

  #grow(): void {
    const larger = new Uint8Array(Math.ceil(this.#bytes.length * 1.5));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}
