/** W1, W2, W3 and `family`: the workloads that every system can do. */

import type { RunContext } from '../names.ts';
import type { Row } from '../report/figures.ts';
import { withSystem } from '../systems/open-system.ts';
import type { DrainSystem } from '../systems/system.ts';
import { warmUp } from '../warm-up.ts';
import {
  FULL_SIZE,
  LONG_SIZE,
  type Measurement,
  manySessions,
  oneFamily,
  oneSession,
  QUICK_SIZE,
  type Repetition,
  type WorkSize,
} from '../workloads.ts';
import { repeatCold, repeatUntilSteady } from './repeat.ts';

const SIZES: Readonly<Record<RunContext['scale'], WorkSize>> = { full: FULL_SIZE, quick: QUICK_SIZE, long: LONG_SIZE };
/** The fewest repetitions after the warm-up. */
const REPETITIONS: Readonly<Record<RunContext['scale'], number>> = { full: 5, quick: 3, long: 1 };
const WARM_SESSION_TURNS = 100;
const WARM_CHILDREN = 500;
const FAMILY = 10_000;

/** W1. */
export function measureSession(context: RunContext): Promise<readonly Row[]> {
  return measureDrain(
    context,
    (system, size, repetition) => oneSession(system, size, repetition),
    async (system, repetition) => {
      await oneSession(system, { ...FULL_SIZE, turns: WARM_SESSION_TURNS }, repetition);
      return WARM_SESSION_TURNS;
    },
  );
}

/** W2. */
export function measureSessions(context: RunContext): Promise<readonly Row[]> {
  return measureDrain(context, (system, size, repetition) => manySessions(system, size, repetition));
}

/** W3. */
export function measureChildren(context: RunContext): Promise<readonly Row[]> {
  return measureDrain(context, (system, size, repetition) => oneFamily(system, size.children, repetition), warmFamily);
}

/** `family`: W3 with 10,000 children. */
export function measureLargeFamily(context: RunContext): Promise<readonly Row[]> {
  return measureDrain(context, (system, _size, repetition) => oneFamily(system, FAMILY, repetition), warmFamily);
}

async function measureDrain(
  context: RunContext,
  measure: (system: DrainSystem, size: WorkSize, repetition: Repetition) => Promise<Measurement>,
  warm?: (system: DrainSystem, repetition: Repetition) => Promise<number>,
): Promise<readonly Row[]> {
  return withSystem(context, async (system) => {
    const size = SIZES[context.scale];
    const once = (repetition: Repetition): Promise<Measurement> => measure(system, size, repetition);
    const cold = await repeatCold(context, once);
    await warmUp(context, system, warm === undefined ? {} : { also: (repetition) => warm(system, repetition) });
    return [{ variant: '', cold, repetitions: await repeatUntilSteady(REPETITIONS[context.scale], once) }];
  });
}

async function warmFamily(system: DrainSystem, repetition: Repetition): Promise<number> {
  await oneFamily(system, WARM_CHILDREN, repetition);
  return WARM_CHILDREN;
}
