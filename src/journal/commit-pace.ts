/**
 * Where a commit runs. On lmdb's writer thread it leaves this one free, and costs two wake-ups of a thread; that is right for many
 * turns, or a slow device. For the few turns of a lone session on a device that answers faster than that, the wake-ups are most of
 * the wait: there the commit runs here.
 *
 * Owns: what commits took lately. Does not own: the commits.
 *  P1 a commit of more than `COMMIT_HERE_BYTES_MAX` never runs here;
 *  P2 none runs here before some on the writer thread took less than `COMMIT_HERE_MS_MAX`, and after one here that took longer
 *     the next `COMMITS_AWAY` run there, so that a device that is slow now and then holds this thread up now and then.
 */
import { COMMIT_HERE_BYTES_MAX, COMMIT_HERE_MS_MAX } from '../base/bounds.ts';

/** Commits measured before the first one runs here. */
const COMMITS_MEASURED = 4;
/** Commits on the writer thread after one here was slow. */
const COMMITS_AWAY = 256;

/** See the head of the file. */
export class CommitPace {
  /** Commits that must run on the writer thread before the next may run here. */
  #away = COMMITS_MEASURED;

  /** True when a commit of so many bytes should run on this thread. */
  isHere(bytes: number): boolean {
    return this.#away === 0 && bytes <= COMMIT_HERE_BYTES_MAX;
  }

  /** Notes what a commit took here, ms. */
  tookHere(ms: number): void {
    if (ms > COMMIT_HERE_MS_MAX) this.#away = COMMITS_AWAY;
  }

  /** Notes what a commit of so many bytes took on the writer thread, ms. */
  tookThere(bytes: number, ms: number): void {
    if (this.#away === 0 || bytes > COMMIT_HERE_BYTES_MAX) return;
    // The measure of a device is its quick answers: a slow one may be the scheduler's.
    if (ms <= COMMIT_HERE_MS_MAX || this.#away > COMMITS_MEASURED) this.#away -= 1;
  }
}
