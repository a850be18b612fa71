/**
 * The order in which runs begin: first come, first served, with a bound on the runs of one tool at once.
 *
 * Owns: who waits. Does not own: threads, deadlines, outcomes.
 *
 * Q1 a run is taken at most once, and once more each time it is put back. Q2 runs of one tool are taken in the order they
 * came. Q3 at most `concurrency` runs of a tool are between `take` and `release`. Q4 a run put back is taken before those that
 * never were taken. Every operation is O(1).
 */

/** A run as the queue sees it. */
export interface QueuedRun {
  /** The tool, where its runs are bounded. */
  readonly lane: string;
  /** Runs of this tool at once. */
  readonly concurrency: number | undefined;
}

interface Lane<Run> {
  admitted: number;
  /** Insertion order is the lane's order; a set, so that a cancelled run leaves at once. */
  readonly waiting: Set<Run>;
}

/** A queue of runs. */
export class RunQueue<Run extends QueuedRun> {
  readonly #returned = new Line<Run>();
  readonly #ready = new Line<Run>();
  readonly #lanes = new Map<string, Lane<Run>>();

  /** Runs that may begin. */
  get ready(): number {
    return this.#returned.size + this.#ready.size;
  }

  /** Adds a run at the end. */
  add(run: Run): void {
    const { lane: name, concurrency } = run;
    if (concurrency === undefined) {
      this.#ready.add(run);
      return;
    }
    const lane = this.#lanes.get(name) ?? { admitted: 0, waiting: new Set<Run>() };
    this.#lanes.set(name, lane);
    if (lane.admitted < concurrency) {
      lane.admitted += 1;
      this.#ready.add(run);
    } else lane.waiting.add(run);
  }

  /** The next run that may begin, taken off the queue. */
  take(): Run | undefined {
    return this.#returned.take() ?? this.#ready.take();
  }

  /** Puts back a taken run that has not begun after all. */
  putBack(run: Run): void {
    this.#returned.add(run);
  }

  /** Takes a waiting run off the queue; false when it is not waiting. */
  remove(run: Run): boolean {
    if (this.#lanes.get(run.lane)?.waiting.delete(run) === true) return true;
    if (!this.#ready.delete(run) && !this.#returned.delete(run)) return false;
    this.release(run);
    return true;
  }

  /** A taken run is over: the next of its tool may begin. */
  release(run: Run): void {
    const lane = run.concurrency === undefined ? undefined : this.#lanes.get(run.lane);
    if (lane === undefined) return;
    const [next] = lane.waiting;
    if (next !== undefined) {
      lane.waiting.delete(next);
      this.#ready.add(next);
      return;
    }
    lane.admitted -= 1;
    if (lane.admitted === 0) this.#lanes.delete(run.lane);
  }
}

/** First in, first out; who leaves from the middle leaves at once. */
class Line<Member> {
  readonly #members = new Set<Member>();
  /** Stands before the first: a new one would have to pass all that were taken since the set last shrank. */
  #first: Iterator<Member> | undefined;

  get size(): number {
    return this.#members.size;
  }

  add(member: Member): void {
    this.#members.add(member);
  }

  delete(member: Member): boolean {
    return this.#members.delete(member);
  }

  take(): Member | undefined {
    if (this.#members.size === 0) {
      this.#first = undefined;
      return undefined;
    }
    this.#first ??= this.#members.values();
    const { done, value } = this.#first.next();
    if (done === true) return undefined;
    this.#members.delete(value);
    return value;
  }
}
