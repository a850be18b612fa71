/**
 * Keeps the candidates with the highest scores, best first. Candidates with equal scores are in the order of arrival.
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

  /** Whether a candidate with this score would be kept. Callers ask this before they build the candidate. */
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
