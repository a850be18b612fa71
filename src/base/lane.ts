/** Work of which a bounded number is under way; the rest waits in the order it came. */
export class Lane {
  readonly #most: number;
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Does the work in its turn; what it resolves or rejects with. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#underWay += 1;
    try {
      return await work();
    } finally {
      // The place is handed on, so that nobody who comes meanwhile takes it.
      const next = this.#waiting.shift();
      if (next === undefined) this.#underWay -= 1;
      else next();
    }
  }
}
