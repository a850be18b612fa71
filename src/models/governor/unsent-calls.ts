/**
 * The completions of calls that never left their pool, such as cancelled calls.
 *
 * Owns: the completions that were not reported yet. Does not own: which calls end, or why.
 *
 * - X1 Completions are reported together, one tick after the first of them: a listener is never called from within a
 *   method of the pool.
 */
import { soon as nextTick, type Soon } from '../../base/clock.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { ModelCompletion, ModelPoolListener } from '../pool.ts';

/** See the head of the file. Lives on the thread of its pool. */
export class UnsentCalls {
  readonly #listener: Pick<ModelPoolListener, 'completed'>;
  readonly #soon: Soon;
  #completions: ModelCompletion[] = [];
  #isReporting = false;
  readonly #onReported: (() => void)[] = [];

  /** `soon` schedules the tick of the report; default: the next tick of the event loop. */
  constructor(listener: Pick<ModelPoolListener, 'completed'>, soon: Soon = nextTick) {
    this.#listener = listener;
    this.#soon = soon;
  }

  /** Ends a call with this error. */
  end(id: number, error: ErrorShape): void {
    this.#completions.push({ id, error, ms: 0 });
    if (this.#isReporting) return;
    this.#isReporting = true;
    this.#soon(() => this.#report());
  }

  /** Resolves when every completion so far was reported. */
  async reported(): Promise<void> {
    if (this.#isReporting) await new Promise<void>((resolve) => this.#onReported.push(resolve));
  }

  #report(): void {
    this.#isReporting = false;
    const completions = this.#completions;
    this.#completions = [];
    this.#listener.completed(completions);
    if (this.#isReporting) return;
    for (const resolve of this.#onReported.splice(0)) resolve();
  }
}
