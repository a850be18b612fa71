/**
 * Holds back a run of a `probe` tool while an earlier run of the same call is still at work (R9 of `runs.ts`). A
 * `probe` tool can say whether an earlier run took effect. But the earlier run may still take effect after the tool has
 * said that it did not.
 *
 * Owns: which runs of `probe` tools are at work, by the key of their call, and the runs that wait for one of them. Does
 * not own: when a run ends.
 */
import type { OpenRun } from '../open-run.ts';
import type { BatchPlace } from './batch.ts';

/** See the head of the file. */
export class EarlierRuns {
  readonly #atWork = new Map<string, { readonly open: OpenRun; readonly place: BatchPlace }>();
  readonly #waiting = new Map<string, OpenRun[]>();

  /** Notes that a run was handed to a thread. */
  began(open: OpenRun, place: BatchPlace): void {
    if (open.run.effect === 'probe') this.#atWork.set(open.run.key, { open, place });
  }

  /**
   * Holds a run back if it must wait for an earlier run. Returns the batch and index of the earlier run, or `undefined`
   * if the run may begin.
   */
  hold(open: OpenRun): BatchPlace | undefined {
    const { effect, key } = open.run;
    const earlier = effect === 'probe' ? this.#atWork.get(key) : undefined;
    if (earlier === undefined) return undefined;
    this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), open]);
    return earlier.place;
  }

  /** True if another run waits for this run to end. */
  isAwaited({ run }: OpenRun): boolean {
    return this.#waiting.has(run.key);
  }

  /** Removes a waiting run. Returns false if the run does not wait here. */
  remove(open: OpenRun): boolean {
    const waiting = this.#waiting.get(open.run.key) ?? [];
    if (!waiting.includes(open)) return false;
    const others = waiting.filter((other) => other !== open);
    if (others.length > 0) this.#waiting.set(open.run.key, others);
    else this.#waiting.delete(open.run.key);
    return true;
  }

  /** Notes that a run is no longer at work. Returns the runs that waited for it. */
  ended(open: OpenRun): readonly OpenRun[] {
    const { effect, key } = open.run;
    if (effect !== 'probe' || this.#atWork.get(key)?.open !== open) return [];
    this.#atWork.delete(key);
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    return waiting;
  }
}
