/** Runs a bounded number of jobs at once; the others wait in the order they arrived. */
export class Lane {
  readonly #most: number;
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Runs the work when a slot is free; resolves or rejects like the work. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#underWay += 1;
    try {
      return await work();
    } finally {
      // The slot is passed directly to the next job, so that a later caller cannot take it.
      const next = this.#waiting.shift();
      if (next === undefined) this.#underWay -= 1;
      else next();
    }
  }
}
