/** Randomness derived from a seed: the same on every machine and every version of Node. */

/** Draws that follow from a seed. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    // Neighbouring seeds give similar first numbers, so a few steps are skipped.
    for (let step = 0; step < 4; step += 1) this.number();
  }

  /** A number in [0, 1). Source: mulberry32. */
  number(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.number() < probability;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.number() * (high - low + 1));
  }

  /** A random item of a list that is not empty. */
  pick<Item>(items: readonly Item[]): Item {
    if (items.length === 0) throw new Error('nothing to pick from');
    return items[Math.floor(this.number() * items.length)] as Item;
  }

  /** Random items of a list, at most `count`, in the order of the list. */
  some<Item>(items: readonly Item[], count: number): readonly Item[] {
    const chosen = new Set<number>();
    while (chosen.size < Math.min(count, items.length)) chosen.add(this.between(0, items.length - 1));
    return items.filter((_item, index) => chosen.has(index));
  }

  /** A separate stream that follows from this one. Draws from it do not affect draws here. */
  fork(): SeededRandom {
    return new SeededRandom(Math.floor(this.number() * 4_294_967_296));
  }
}
