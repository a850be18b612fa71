/** Sessions that wait for a place, first come first served; each stands in it once. */

/** See the head of the file. */
export class WaitingLine {
  readonly #members = new Set<string>();
  /**
   * Kept from one `take` to the next: what is taken from the front of a set leaves a hole there, and a new walk would pass over all
   * of them. Whoever comes, or comes back, stands behind it.
   */
  #front = this.#members.values();

  /** How many wait. */
  get size(): number {
    return this.#members.size;
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Puts a name at the end, unless it waits already. */
  add(name: string): void {
    this.#members.add(name);
  }

  /** Takes a name out, wherever it stands. */
  delete(name: string): void {
    this.#members.delete(name);
  }

  /** Takes the first; undefined when nobody waits. */
  take(): string | undefined {
    let next = this.#front.next();
    if (next.done === true) {
      // A walk that came to its end stays there.
      this.#front = this.#members.values();
      next = this.#front.next();
    }
    if (next.done === true) return undefined;
    this.#members.delete(next.value);
    return next.value;
  }
}
