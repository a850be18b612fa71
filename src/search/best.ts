/**
 * Keeps a bounded number of candidates, those with the highest scores, best first. Candidates with equal scores stay in
 * the order in which they were added.
 */

interface Scored {
  readonly score: number;
}

/** See the head of the file. */
export class Best<T extends Scored> {
  readonly list: T[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** True if a candidate with this score would be kept. Callers check this before they build the candidate. */
  takes(score: number): boolean {
    return this.list.length < this.#max || score > (this.list.at(-1)?.score ?? 0);
  }

  add(candidate: T): void {
    if (!this.takes(candidate.score)) return;
    const { list } = this;
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
