/**
 * Decides how many calls may be in flight on a provider key that refuses some of them.
 *
 * Owns: the size of the window. Does not own: which calls are in flight, which errors count as a refusal, pauses.
 *
 * - Y1 A window of n calls halves after n refusals. After n answers it widens by a sixth, but at least by one call.
 *   Each answer or refusal makes its share of the change, so the calls of one round trip cannot halve the window more
 *   than once. The window grows while fewer than one in four calls is refused. Our load does not cause all refusals,
 *   and a smaller window would not reduce the others. So a few refusals must not shrink the window.
 * - Y2 The window never falls below one call. At one call it probes: each answer adds one call, so each wave of calls
 *   is twice the size of the previous one. Once `patienceMs` have passed after the first call, each second without a
 *   refusal doubles the window. Silence is a good sign: a refusal comes at once, but an answer may take minutes. A
 *   refusal ends the probing, unless it leaves a window of one call.
 * - Y3 Answers are counted from the last time the window held a call back. The window ends when their number is twice
 *   the size that the window had at that time.
 */
import {
  GOVERNED_CALLS_MAX,
  GOVERNOR_WINDOW_CUT,
  GOVERNOR_WINDOW_GROWTH,
  GOVERNOR_WINDOW_STEP_MS,
} from '../../base/bounds.ts';

/** See the head of the file. Times are monotonic ms. */
export class CallWindow {
  #size: number;
  /** The size at which `refused` reports that the window has halved; `undefined` once that was reported. */
  #reportedBelow: number | undefined;
  #isProbing = false;
  #patienceMs = GOVERNOR_WINDOW_STEP_MS;
  /** The time at which a probing window doubles if no answer comes. The first call of the window sets it. */
  #stepAt: number | undefined;
  /** The size when the window last held a call back (Y3). */
  #sizeAtHold: number;
  #answersSinceHold = 0;

  /** `size`: the number of calls in flight at the first refusal; at least 1. */
  constructor(size: number) {
    this.#size = Math.max(1, size);
    this.#sizeAtHold = this.#size;
    this.#reportedBelow = this.#size > 1 ? this.#size / 2 : undefined;
  }

  /** A window of one call that probes. `patienceMs`: how long that call stays alone while it has no outcome. */
  static probing(patienceMs: number): CallWindow {
    const window = new CallWindow(1);
    window.#probe(patienceMs);
    return window;
  }

  /** The number of calls that may be in flight. */
  get size(): number {
    return Math.floor(this.#size);
  }

  get isOver(): boolean {
    return this.#answersSinceHold >= 2 * this.#sizeAtHold;
  }

  /** The time at which the next call may leave: `now`, later, or `Infinity` if a call must end first. */
  opensAt(now: number, inFlight: number): number {
    while (this.#stepAt !== undefined && now >= this.#stepAt) {
      this.#stepAt += GOVERNOR_WINDOW_STEP_MS;
      this.#size *= 2;
      // The window exceeds the number of calls that may wait, so probing further would show nothing.
      if (this.#size > GOVERNED_CALLS_MAX) this.#endProbing();
    }
    if (inFlight < this.size) return now;
    this.#sizeAtHold = this.#size;
    this.#answersSinceHold = 0;
    return this.#stepAt ?? Number.POSITIVE_INFINITY;
  }

  /** Notes that a call leaves. */
  started(now: number): void {
    if (this.#isProbing) this.#stepAt ??= now + this.#patienceMs;
  }

  /** Notes that a call of this window was answered. */
  answered(now: number): void {
    this.#answersSinceHold += 1;
    if (!this.#isProbing) {
      this.#size += Math.max(GOVERNOR_WINDOW_GROWTH, 1 / this.#size);
      return;
    }
    this.#size += 1;
    // An answer ends the silence, so the next doubling comes after at most one step.
    if (this.#stepAt !== undefined) this.#stepAt = Math.min(this.#stepAt, now + GOVERNOR_WINDOW_STEP_MS);
  }

  /** Notes that a call of this window was refused. Returns true once, when half of the first size is left. */
  refused(): boolean {
    this.#endProbing();
    this.#size = Math.max(1, this.#size - GOVERNOR_WINDOW_CUT);
    if (this.#size === 1) this.#probe(GOVERNOR_WINDOW_STEP_MS);
    if (this.#reportedBelow === undefined || this.#size > this.#reportedBelow) return false;
    this.#reportedBelow = undefined;
    return true;
  }

  #probe(patienceMs: number): void {
    this.#isProbing = true;
    this.#patienceMs = patienceMs;
    this.#stepAt = undefined;
  }

  #endProbing(): void {
    this.#isProbing = false;
    this.#stepAt = undefined;
  }
}
