/**
 * Where a commit runs. On lmdb's writer thread it leaves this one free, and costs two wake-ups of a thread; that is right for many
 * turns, or a slow device. For the few turns of a lone session on a device that answers faster than that, the wake-ups are most of
 * the wait: there the commit runs here.
 *
 * Owns: what commits took lately. Does not own: the commits.
 *  P1 a commit of more than `COMMIT_HERE_BYTES_MAX` never runs here;
 *  P2 none runs here before some on the writer thread took less than `COMMIT_HERE_MS_MAX`; once more than one here in
 *     `QUICK_FOR_SLOW` took longer, the next `COMMITS_AWAY` run there, so that a slow device holds this thread up now and then.
 */
import { COMMIT_HERE_BYTES_MAX, COMMIT_HERE_MS_MAX } from '../../base/bounds.ts';

/** Commits measured before the first one runs here. */
const COMMITS_MEASURED = 4;
/** Commits on the writer thread after too many here were slow. */
const COMMITS_AWAY = 256;
/** Quick commits that make up for a slow one: any device has its moments. */
const QUICK_FOR_SLOW = 16;
/** Slow commits in a row that are made up for beforehand. */
const SLOW_SPARED = 2;

/** See the head of the file. */
export class CommitPace {
  /** Commits that must run on the writer thread before the next may run here. */
  #away = COMMITS_MEASURED;
  /** Quick commits here that no slow one has used up. */
  #credit = QUICK_FOR_SLOW * SLOW_SPARED;

  /** True when a commit of so many bytes should run on this thread. */
  isHere(bytes: number): boolean {
    return this.#away === 0 && bytes <= COMMIT_HERE_BYTES_MAX;
  }

  /** Notes what a commit took here, ms. */
  tookHere(ms: number): void {
    if (ms <= COMMIT_HERE_MS_MAX) {
      this.#credit = Math.min(this.#credit + 1, QUICK_FOR_SLOW * SLOW_SPARED);
      return;
    }
    this.#credit -= QUICK_FOR_SLOW;
    if (this.#credit >= 0) return;
    this.#credit = 0;
    this.#away = COMMITS_AWAY;
  }

  /** Notes what a commit of so many bytes took on the writer thread, ms. */
  tookThere(bytes: number, ms: number): void {
    if (this.#away === 0 || bytes > COMMIT_HERE_BYTES_MAX) return;
    // The measure of a device is its quick answers: a slow one may be the scheduler's.
    if (ms <= COMMIT_HERE_MS_MAX || this.#away > COMMITS_MEASURED) this.#away -= 1;
  }
}
