/**
 * Runs one call of a model server under its deadlines.
 *
 * Owns: the timer of the call and the signal that ends it. Does not own: the request, its answer, retries.
 *
 * - D1 The call settles at its deadline or at the caller's abort, even if the request ignores its signal.
 * - D2 After an abort of the caller the call rejects with `CancelledError`, whatever the request rejects with. If the
 *   answer is late, the call rejects with `model_timeout` and `data.phase`: `ttfb`, `idle`, `total`.
 * - D3 If the answer is whole when a deadline expires, only the reading ends, and the call returns the answer.
 */
import type { Clock } from '../base/clock.ts';
import { CancelledError, type ModelError } from '../base/errors.ts';
import { CallDeadline, type DeadlineLimits, type DeadlinePhase } from './call-deadline.ts';
import { modelErrorOf } from './model-error.ts';

/** The parts of a call that its request function uses. */
export interface TimedCall {
  /** Aborted by the caller and by the deadline. */
  readonly signal: AbortSignal;
  readonly deadline: CallDeadline;
}

/** The parts of a call that differ between providers. */
export interface TimedCallOptions {
  readonly clock: Clock;
  readonly limits: DeadlineLimits;
  /** Aborted by the caller. */
  readonly outer: AbortSignal;
  /** True once the answer is whole. */
  readonly isWhole: () => boolean;
  /**
   * Makes the error of the call from its failure: the error of an expired deadline, or the error that the request
   * threw.
   */
  readonly failure: (thrown: unknown) => Error;
}

/** Runs `request` once. Rejects with `CancelledError`, or with the error that `failure` gives. Runs on this thread. */
export async function runTimed<T>(
  { clock, limits, outer, isWhole, failure }: TimedCallOptions,
  request: (call: TimedCall) => Promise<T>,
): Promise<T> {
  if (outer.aborted) throw cancelled();
  const controller = new AbortController();
  let late: ModelError | undefined;
  let stop: (error: Error) => void = () => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = reject;
  });
  const onAbort = (): void => {
    controller.abort();
    stop(cancelled());
  };
  const deadline = new CallDeadline(clock, limits, (phase, limitMs) => {
    if (!isWhole()) late = timeout(phase, limitMs);
    controller.abort();
    if (late !== undefined) stop(late);
  });
  outer.addEventListener('abort', onAbort, { once: true });
  // A request that throws at once ends the call like one that rejects.
  const answer = Promise.resolve().then(() => request({ signal: controller.signal, deadline }));
  try {
    return await Promise.race([answer, stopped]);
  } catch (error) {
    if (outer.aborted) throw cancelled();
    throw failure(late ?? error);
  } finally {
    outer.removeEventListener('abort', onAbort);
    deadline.end();
    // The promise that lost the race may still reject. The call has settled, so that error is ignored.
    answer.catch(() => {});
    stopped.catch(() => {});
  }
}

function cancelled(): CancelledError {
  return new CancelledError('the model call was cancelled');
}

const LATE: Readonly<Record<DeadlinePhase, string>> = {
  ttfb: 'did not begin to answer within',
  idle: 'was silent in the middle of its answer for',
  total: 'did not answer within',
};

function timeout(phase: DeadlinePhase, limitMs: number): ModelError {
  const message = `the model ${LATE[phase]} ${limitMs} ms`;
  return modelErrorOf({ code: 'model_timeout', message, data: { phase } });
}
