/**
 * The order in which runs begin: first come, first served, with a bound on simultaneous runs of one tool.
 *
 * Owns: the waiting runs. Does not own: threads, deadlines, outcomes.
 *
 * Q1 A run is taken at most once, and once more each time it is put back.
 * Q2 Runs of one tool are taken in the order they came.
 * Q3 At most `concurrency` runs of a tool are between `take` and `release`.
 * Q4 A run that was put back is taken before runs that were never taken.
 *
 * Every operation is O(1).
 */

/** A run as the queue sees it. */
export interface QueuedRun {
  /** The tool, whose runs are bounded together. */
  readonly lane: string;
  /** The bound on simultaneous runs of this tool. */
  readonly concurrency: number | undefined;
}

interface Lane<Run> {
  admitted: number;
  /** The waiting runs, in the lane's order. They are in a set, so that a cancelled run can be removed at once. */
  readonly waiting: Set<Run>;
}

/** A queue of runs. */
export class RunQueue<Run extends QueuedRun> {
  readonly #returned = new Line<Run>();
  readonly #ready = new Line<Run>();
  readonly #lanes = new Map<string, Lane<Run>>();

  /** The number of runs that may begin. */
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

  /** Removes the next run that may begin from the queue, and returns it. */
  take(): Run | undefined {
    return this.#returned.take() ?? this.#ready.take();
  }

  /** Puts back a taken run that did not begin. */
  putBack(run: Run): void {
    this.#returned.add(run);
  }

  /** Removes a waiting run from the queue; false when the run is not waiting. */
  remove(run: Run): boolean {
    if (this.#lanes.get(run.lane)?.waiting.delete(run) === true) return true;
    if (!this.#ready.delete(run) && !this.#returned.delete(run)) return false;
    this.release(run);
    return true;
  }

  /** Notes that a taken run ended: the next run of its tool may begin. */
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

/** A queue, first in, first out, whose members can also be removed from the middle at once. */
class Line<Member> {
  readonly #members = new Set<Member>();
  /**
   * One iterator is kept, because a new one would have to skip all entries that were removed since the set last shrank.
   */
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
