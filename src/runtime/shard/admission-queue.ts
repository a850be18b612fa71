/** Sessions that wait for admission, by id, first come first served. Each is in the queue at most once. */

/** See the head of the file. */
export class AdmissionQueue {
  readonly #members = new Set<string>();
  /**
   * The iterator is kept from one `take` to the next. Deleting from the front of a set leaves holes there, and a new
   * iterator would pass over all of them. An id that is added later, even an id that was taken before, comes after the
   * iterator's position.
   */
  #front = this.#members.values();

  /** Number of waiting sessions. */
  get size(): number {
    return this.#members.size;
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Puts a session at the end, unless it waits already. */
  add(name: string): void {
    this.#members.add(name);
  }

  /** Removes a session from any position. */
  delete(name: string): void {
    this.#members.delete(name);
  }

  /** Takes the first session. Undefined if none waits. */
  take(): string | undefined {
    let next = this.#front.next();
    if (next.done === true) {
      // An iterator that has ended stays ended.
      this.#front = this.#members.values();
      next = this.#front.next();
    }
    if (next.done === true) return undefined;
    this.#members.delete(next.value);
    return next.value;
  }
}
