/**
 * Decides where a commit runs. A commit on lmdb's writer thread leaves this thread free and costs two thread wake-ups.
 * The writer thread is right for many transitions, or for a slow device. For the few transitions of a lone session on a
 * fast device, the wake-ups are most of the wait, so the commit runs here.
 *
 * Owns: the durations of recent commits. Does not own: the commits.
 *
 * Invariants:
 *  P1 a commit of more than `COMMIT_HERE_BYTES_MAX` never runs here;
 *  P2 no commit runs here before `COMMITS_MEASURED` commits on the writer thread took at most `COMMIT_HERE_MS_MAX`
 *     each. If more than one commit in `QUICK_FOR_SLOW` takes longer here, the next `COMMITS_AWAY` run on the writer
 *     thread. So a slow device seldom blocks this thread.
 */
import { COMMIT_HERE_BYTES_MAX, COMMIT_HERE_MS_MAX } from '../../base/bounds.ts';

/** Commits measured on the writer thread before the first commit runs here. */
const COMMITS_MEASURED = 4;
/** Commits that run on the writer thread after too many commits here were slow. */
const COMMITS_AWAY = 256;
/** Quick commits that make up for one slow commit, because every device is slow at times. */
const QUICK_FOR_SLOW = 16;
/** Slow commits in a row that the initial credit covers. */
const SLOW_SPARED = 2;

/** See the head of the file. */
export class CommitPace {
  /** Commits that must run on the writer thread before the next may run here. */
  #away = COMMITS_MEASURED;
  /** Credit from quick commits here. A slow commit uses up `QUICK_FOR_SLOW` of it. */
  #credit = QUICK_FOR_SLOW * SLOW_SPARED;

  /** True when a commit of so many bytes should run on this thread. */
  isHere(bytes: number): boolean {
    return this.#away === 0 && bytes <= COMMIT_HERE_BYTES_MAX;
  }

  /** Records the duration of a commit here, ms. */
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

  /** Records the duration of a commit of so many bytes on the writer thread, ms. */
  tookThere(bytes: number, ms: number): void {
    if (this.#away === 0 || bytes > COMMIT_HERE_BYTES_MAX) return;
    // The last `COMMITS_MEASURED` of these commits must be quick. A slow one among them is only left out of the count,
    // because the scheduler may be its cause.
    if (ms <= COMMIT_HERE_MS_MAX || this.#away > COMMITS_MEASURED) this.#away -= 1;
  }
}
