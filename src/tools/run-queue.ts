/**
 * The order in which runs begin: first come, first served, with a bound on simultaneous runs of one tool. There are two
 * lines: one for runs that may share a thread, and one for runs that need a thread alone.
 *
 * Owns: the waiting runs. Does not own: threads, deadlines, outcomes.
 *
 * Q1 A run is taken at most once, and once more each time it is put back.
 * Q2 Runs of one tool and one line are taken in the order they came.
 * Q3 At most `concurrency` runs of a tool are between `take` and `release`.
 * Q4 A run that was put back is taken before runs of its line that were never taken.
 *
 * Every operation is O(1), except that `take` with a condition skips the runs that do not meet the condition.
 */

/** A run as the queue sees it. */
export interface QueuedRun {
  /** The position of the run among all runs: an earlier one has a smaller number. */
  readonly order: number;
  /** The lane: a tool, or an MCP server. The runs of a lane have one bound. */
  readonly lane: string;
  /** The bound on simultaneous runs of this tool. */
  readonly concurrency: number | undefined;
  /** True if the run needs a thread alone. Changes only between `take` and `putBack`. */
  readonly isAlone: boolean;
}

interface Lane<Run> {
  admitted: number;
  /** The waiting runs, in the lane's order. The runs are in a set, so that a cancelled run can be removed in O(1). */
  readonly waiting: Set<Run>;
}

/** A queue of runs. */
export class RunQueue<Run extends QueuedRun> {
  readonly #shared: Ready<Run> = new Ready();
  readonly #alone: Ready<Run> = new Ready();
  readonly #lanes = new Map<string, Lane<Run>>();

  /** Adds a run at the end. */
  add(run: Run): void {
    const { lane: name, concurrency } = run;
    if (concurrency === undefined) {
      this.#readyOf(run).fresh.add(run);
      return;
    }
    const lane = this.#lanes.get(name) ?? { admitted: 0, waiting: new Set<Run>() };
    this.#lanes.set(name, lane);
    if (lane.admitted < concurrency) {
      lane.admitted += 1;
      this.#readyOf(run).fresh.add(run);
    } else lane.waiting.add(run);
  }

  /** The number of runs that may begin: those that need a thread alone, or the others. */
  ready(isAlone: boolean): number {
    return this.#line(isAlone).size;
  }

  /** True if the next run that needs a thread alone came before the next run that may share one. */
  get isAloneFirst(): boolean {
    const alone = this.#alone.first;
    const shared = this.#shared.first;
    return alone !== undefined && (shared === undefined || alone.order < shared.order);
  }

  /** Takes the next run that may begin and that meets the condition; undefined if there is none. */
  take(isAlone: boolean, fits: (run: Run) => boolean = () => true): Run | undefined {
    return this.#line(isAlone).take(fits);
  }

  /** Puts back a taken run that did not begin, or that begins again. */
  putBack(run: Run): void {
    this.#readyOf(run).returned.add(run);
  }

  /** Removes a waiting run from the queue; false when the run is not waiting. */
  remove(run: Run): boolean {
    if (this.#lanes.get(run.lane)?.waiting.delete(run) === true) return true;
    const { returned, fresh } = this.#readyOf(run);
    if (!fresh.delete(run) && !returned.delete(run)) return false;
    this.release(run);
    return true;
  }

  /** Notes that a taken run ended, so that the next run of its lane may begin. */
  release(run: Run): void {
    const lane = run.concurrency === undefined ? undefined : this.#lanes.get(run.lane);
    if (lane === undefined) return;
    const [next] = lane.waiting;
    if (next !== undefined) {
      lane.waiting.delete(next);
      this.#readyOf(next).fresh.add(next);
      return;
    }
    lane.admitted -= 1;
    if (lane.admitted === 0) this.#lanes.delete(run.lane);
  }

  #line(isAlone: boolean): Ready<Run> {
    return isAlone ? this.#alone : this.#shared;
  }

  #readyOf(run: Run): Ready<Run> {
    return this.#line(run.isAlone);
  }
}

/** The runs that may begin in one of the two lines. Runs that were put back come first. */
class Ready<Run> {
  readonly returned: Fifo<Run> = new Fifo<Run>();
  readonly fresh: Fifo<Run> = new Fifo<Run>();

  get size(): number {
    return this.returned.size + this.fresh.size;
  }

  get first(): Run | undefined {
    return this.returned.first ?? this.fresh.first;
  }

  take(fits: (run: Run) => boolean): Run | undefined {
    return this.returned.take(fits) ?? this.fresh.take(fits);
  }
}

/** A queue, first in, first out, whose members can also be removed from the middle in O(1). */
class Fifo<Member> {
  readonly #members = new Set<Member>();
  /**
   * One iterator is kept. V8 leaves a hole in the table of a set for each removed member, and a new iterator would have
   * to skip all these holes.
   */
  #iterator: Iterator<Member> | undefined;
  /** The first member, if the iterator has passed it. */
  #first: Member | undefined;

  get size(): number {
    return this.#members.size;
  }

  get first(): Member | undefined {
    if (this.#members.size === 0) this.#iterator = undefined;
    else if (this.#first === undefined) {
      this.#iterator ??= this.#members.values();
      const { done, value } = this.#iterator.next();
      this.#first = done === true ? undefined : value;
    }
    return this.#first;
  }

  add(member: Member): void {
    this.#members.add(member);
  }

  delete(member: Member): boolean {
    if (member === this.#first) this.#first = undefined;
    return this.#members.delete(member);
  }

  take(fits: (member: Member) => boolean): Member | undefined {
    const { first } = this;
    if (first === undefined) return undefined;
    const found = fits(first) ? first : this.#find(fits);
    if (found !== undefined) this.delete(found);
    return found;
  }

  #find(fits: (member: Member) => boolean): Member | undefined {
    for (const member of this.#members) if (fits(member)) return member;
    return undefined;
  }
}
