/** The first signal that asks a run to stop. */
import type { StopSignal, Surroundings } from '../surroundings.ts';

/** See `stopSignal`. */
export interface StopWatch {
  readonly fired: Promise<StopSignal>;
  forget(): void;
}

/** `fired` resolves with the first signal. After that, or after `forget`, a signal ends the process as usual. */
export function stopSignal(surroundings: Surroundings): StopWatch {
  let forget = (): void => undefined;
  const fired = new Promise<StopSignal>((resolve) => {
    forget = surroundings.onStop((signal) => {
      forget();
      resolve(signal);
    });
  });
  return { fired, forget: () => forget() };
}
