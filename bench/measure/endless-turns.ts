/** Sessions that ask without end, for measurements that count what happens within a span. */
import { numbers } from '../report/figures.ts';
import { timedTurn } from '../shared-work.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';

/** Turns that run until they are stopped. */
export interface EndlessTurns {
  /** The number of turns that have ended. */
  readonly ended: number;
  /** Begins no further turn. Throws the error of the first turn that failed until then. */
  stop(): void;
}

/** Starts this many sessions at once; each asks again as soon as it was answered. */
export function askWithoutEnd(system: TroupeSystem, sessions: number): EndlessTurns {
  let isOver = false;
  let ended = 0;
  let fault: unknown;
  const ask = async (index: number): Promise<void> => {
    for (let turn = 0; !isOver; turn += 1) {
      await timedTurn(system, `s${index}`, { a: index, b: turn });
      ended += 1;
    }
  };
  for (const index of numbers(sessions)) {
    void ask(index).catch((thrown: unknown) => {
      // Sessions that still wait after the span are closed with the runtime.
      if (!isOver) fault ??= thrown;
    });
  }
  return {
    get ended() {
      return ended;
    },
    stop() {
      isOver = true;
      if (fault !== undefined) throw fault;
    },
  };
}
