/** Repetitions of a workload in one process, each on new sessions, with what each cost. */
import { costOf } from '../cost.ts';
import type { Figures } from '../report/figures.ts';
import type { Measurement, Repetition } from '../workloads.ts';

const US_A_MS = 1_000;

/** Runs `measure` so many times. */
export async function repeat(
  count: number,
  measure: (repetition: Repetition) => Promise<Measurement>,
): Promise<readonly Figures[]> {
  const repetitions: Figures[] = [];
  for (let index = 0; index < count; index += 1) repetitions.push(await measureOnce(`r${index}-`, measure));
  return repetitions;
}

/**
 * One repetition: the measurement, what its timed part cost, and `cpuUs`: microseconds of processor time, of all threads, a
 * half-step.
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
