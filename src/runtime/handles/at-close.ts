/** Promises that a caller need not await before the runtime closes. Host thread. */
import { TroupeError } from '../../base/errors.ts';

/** A connection that says whether its runtime is closing. */
export interface Closing {
  readonly isClosing: boolean;
}

/**
 * Settles as `work` does. If the close of the runtime rejects `work`, the rejection counts as handled. The reason: a
 * program may call `ask` without awaiting the promise, and then close the runtime. An unhandled rejection must not end
 * that program. A caller that awaits the promise still gets the error. Node reports any other unhandled rejection as
 * usual.
 */
export function forgivenAtClose<T>(link: Closing, work: Promise<T>): Promise<T> {
  const outer = new Promise<T>((resolve, reject) => {
    work.then(resolve, (error: unknown) => {
      // The handler is added before the rejection, so that Node never counts it as unhandled.
      if (link.isClosing && error instanceof TroupeError && error.code === 'cancelled') outer.catch(() => undefined);
      reject(error);
    });
  });
  return outer;
}
