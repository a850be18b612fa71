/** Repetitions of a workload in one process, each on new sessions, and the cost of each. */
import { costOf } from '../cost.ts';
import type { RunContext } from '../names.ts';
import type { Figures } from '../report/figures.ts';
import type { Measurement, Repetition } from '../workloads.ts';

const US_A_MS = 1_000;

/** The repetitions before the warm-up; profiles have none, since they should not show the start. */
const COLD_REPETITIONS: Readonly<Record<RunContext['scale'], number>> = { full: 2, quick: 2, long: 0 };

/**
 * Repetitions of short work: a system that is done in some milliseconds is repeated until it has run this long, since
 * a median of a few such repetitions differs by a third from run to run.
 */
const STEADY_MS = 500;
/** At most so many, so that a system that takes no measurable time also ends. */
const STEADY_REPETITIONS_MAX = 50;

/** Runs `measure` at least so many times, and until the repetitions took `STEADY_MS` together. */
export async function repeatUntilSteady(
  least: number,
  measure: (repetition: Repetition) => Promise<Measurement>,
): Promise<readonly Figures[]> {
  const repetitions: Figures[] = [];
  let wallMs = 0;
  while (repetitions.length < least || (wallMs < STEADY_MS && repetitions.length < STEADY_REPETITIONS_MAX)) {
    const figures = await measureOnce(`r${repetitions.length}-`, measure);
    wallMs += figures['wallMs'] ?? 0;
    repetitions.push(figures);
  }
  return repetitions;
}

/** Runs `measure` so many times. `name` makes the labels of these repetitions differ from those of others. */
export async function repeat(
  count: number,
  measure: (repetition: Repetition) => Promise<Measurement>,
  name = 'r',
): Promise<readonly Figures[]> {
  const repetitions: Figures[] = [];
  for (let index = 0; index < count; index += 1) repetitions.push(await measureOnce(`${name}${index}-`, measure));
  return repetitions;
}

/** Runs `measure` before any warm-up. It must be the first work of the process, or its figures are not cold. */
export function repeatCold(
  { scale }: Pick<RunContext, 'scale'>,
  measure: (repetition: Repetition) => Promise<Measurement>,
): Promise<readonly Figures[]> {
  return repeat(COLD_REPETITIONS[scale], measure, 'cold');
}

/**
 * One repetition: the measurement, the cost of its timed part, and `cpuUs`, the processor time of all threads for each
 * half-step in microseconds.
 */
export async function measureOnce(
  label: string,
  measure: (repetition: Repetition) => Promise<Measurement>,
): Promise<Figures> {
  let [costs, cpuMs]: [Figures, number] = [{}, 0];
  const { halfSteps, ...measured } = await measure({
    label,
    timed: async (work) => {
      const { value, ...cost } = await costOf(work);
      [costs, cpuMs] = [cost.figures, cost.cpuMs];
      return value;
    },
  });
  return { ...costs, ...measured, cpuUs: (cpuMs * US_A_MS) / halfSteps };
}
