/** A growing list of unsigned 32-bit integers. Each takes four bytes, and in an array of numbers eight. */

const LENGTH_AT_FIRST = 256;

/** See the head of the file. */
export class GrowingNumbers {
  #numbers = new Uint32Array(LENGTH_AT_FIRST);
  length = 0;

  /** Appends a number; returns its index. */
  push(value: number): number {
    if (this.length === this.#numbers.length) {
      const larger = new Uint32Array(Math.ceil(this.length * 1.5));
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.length] = value;
    this.length += 1;
    return this.length - 1;
  }

  /** The number at `index`; 0 when there is none. */
  at(index: number): number {
    return this.#numbers[index] ?? 0;
  }

  set(index: number, value: number): void {
    this.#numbers[index] = value;
  }
}
