/**
 * The gradual return of calls after a common pause.
 * Owns: how many may leave by now. Does not own: the pause itself, and what an answer says.
 *
 * - Y1 One call leaves first. Each answer lets two more leave, so that each wave is twice the one before.
 * - Y2 From its patience after the first call on, each quiet second doubles what may leave: answers may take minutes.
 * - Y3 It is over when `GOVERNOR_RAMP_CALLS` may have left.
 */
import { GOVERNOR_RAMP_CALLS, GOVERNOR_RAMP_STEP_MS } from '../base/bounds.ts';

/** See the head of the file. Times are monotonic ms. */
export class Ramp {
  /** It follows an open circuit: one failure opens that again. */
  readonly isCircuit: boolean;
  readonly #patienceMs: number;
  /** Calls that may leave in all, and those that have. */
  #allowed = 1;
  #started = 0;
  /** When `#allowed` doubles by itself; set by the first call. */
  #stepAt: number | undefined;

  /** `patienceMs`: how long the first call stays alone while nothing is heard of it. */
  constructor(options: { readonly isCircuit: boolean; readonly patienceMs: number }) {
    this.isCircuit = options.isCircuit;
    this.#patienceMs = options.patienceMs;
  }

  get isOver(): boolean {
    return this.#allowed >= GOVERNOR_RAMP_CALLS;
  }

  /** When the next call may leave: `now`, or a later time. */
  opensAt(now: number): number {
    while (!this.isOver && this.#stepAt !== undefined && now >= this.#stepAt) {
      this.#stepAt += GOVERNOR_RAMP_STEP_MS;
      this.#allowed *= 2;
    }
    if (this.isOver || this.#started < this.#allowed) return now;
    return this.#stepAt ?? now;
  }

  /** A call leaves. */
  started(now: number): void {
    this.#started += 1;
    this.#stepAt ??= now + this.#patienceMs;
  }

  /** A call was answered: what was silent is not any more. */
  answered(now: number): void {
    if (this.#stepAt !== undefined) this.#stepAt = Math.min(this.#stepAt, now + GOVERNOR_RAMP_STEP_MS);
    this.#allowed += 2;
  }

  /** A call ended that said nothing: another may leave in its place. */
  gaveBack(): void {
    this.#started -= 1;
  }
}
