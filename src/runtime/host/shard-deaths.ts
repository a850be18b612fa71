/**
 * Deaths of one session thread: whether it may be replaced again, and which sessions the next thread does not read.
 *
 * Owns: the deaths that count, the isolated sessions. Does not own: the thread, its replacement (`shard-link.ts`).
 *  D1 a session is isolated if the thread ran out of memory on it twice within the period of `SHARD_RESTARTS`. Then
 *     those two deaths no longer count.
 */
import { SHARD_RESTARTS } from '../../base/bounds.ts';
import { countRestart } from '../../base/restart-intensity.ts';
import type { SessionKey } from '../../journal/position.ts';

/** See the head of the file. */
export class ShardDeaths {
  /** The times of the deaths within the period, in monotonic ms, ascending. */
  #times: readonly number[] = [];
  /** The last time the thread ran out of memory on a session. */
  readonly #outOfMemory = new Map<SessionKey, number>();
  readonly #isolated = new Set<SessionKey>();

  /** The number of deaths that count. */
  get count(): number {
    return this.#times.length;
  }

  /** Sessions that the next thread does not read. */
  get isolated(): readonly SessionKey[] {
    return [...this.#isolated];
  }

  /**
   * Notes a death; true while the thread may be replaced. `culprit`: the session on which the thread ran out of memory;
   * 0: none.
   */
  note(now: number, culprit: SessionKey): boolean {
    const { restarts, allowed } = countRestart(this.#times, now, SHARD_RESTARTS);
    const earlier = this.#outOfMemory.get(culprit);
    this.#times = restarts;
    if (culprit === 0) return allowed;
    if (earlier === undefined || !restarts.includes(earlier)) {
      this.#outOfMemory.set(culprit, now);
      return allowed;
    }
    this.#isolated.add(culprit);
    this.#outOfMemory.delete(culprit);
    this.#times = restarts.filter((at) => at !== earlier && at !== now);
    return true;
  }
}
