/**
 * P11: measures W2 with the default options, with one session thread and with two. The two runtimes take turns in one
 * process.
 */

import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { numbers } from '../report/figures.ts';
import { FULL_SIZE, manySessions } from '../shared-work.ts';
import { withTroupe } from '../systems/open-system.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { measureOnce } from './repeat.ts';

const REPETITIONS = 5;

/** Rows `1 session thread` and `2 session threads`. */
export function measureSessionThreads(context: RunContext): Promise<readonly Row[]> {
  return withTroupe({ isolation: 'isolated', sessionThreads: 1 }, (one) =>
    withTroupe({ isolation: 'isolated', sessionThreads: 2 }, async (two) => {
      await warmUp(context, one);
      await warmUp(context, two);
      const [ones, twos]: [Figures[], Figures[]] = [[], []];
      for (const index of numbers(REPETITIONS)) {
        ones.push(await drain(one, index));
        twos.push(await drain(two, index));
      }
      return [
        { variant: '1 session thread', repetitions: ones },
        { variant: '2 session threads', repetitions: twos },
      ];
    }),
  );
}

function drain(system: TroupeSystem, index: number): Promise<Figures> {
  return measureOnce(`r${index}-`, (repetition) => manySessions(system, FULL_SIZE, repetition));
}
