/**
 * Deletions: W2 alone, and W2 after all sessions of the repetition before were deleted: their rows are erased meanwhile,
 * and the file is compacted again and again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { NO_DELETIONS, type RunContext } from '../names.ts';
import { type Figures, median, numbers, type Row } from '../report/figures.ts';
import { FULL_SIZE, manySessions, QUICK_SIZE } from '../shared-work.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { measureOnce, repeat } from './repeat.ts';

const REPETITIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 4, full: 8, long: 40 };
/** A compaction begins a second after an erasure has ended, unless the last one was too recent. */
const ERASE_WITHIN_MS = 2_000;
const LOOK_MS = 10;
/** So many deletions are in flight at once. */
const AT_ONCE = 16;

/**
 * Figures: half-steps/s and processor time of a half-step with and without deletions; `cpuShare`, the share of the
 * processor time that erasure and compaction take; `sliceMs`, the longest time that a compaction held the
 * session thread; and the number of compactions.
 */
export function measureDeletions(context: RunContext): Promise<readonly Row[]> {
  const size = context.scale === 'quick' ? QUICK_SIZE : FULL_SIZE;
  const count = REPETITIONS[context.scale];
  return withTroupe({ isolation: isolationOf(context), eraseWithinMs: ERASE_WITHIN_MS }, async (system) => {
    await warmUp(context, system);
    const alone = await repeat(count, (repetition) => manySessions(system, size, repetition), 'alone');
    const measured: Figures[] = [];
    for (let index = 0; index < count; index += 1) {
      const former = index === 0 ? `alone${count - 1}-` : `beside${index - 1}-`;
      await deleteAll(
        system,
        numbers(size.sessions).map((each) => `${former}s${each}`),
      );
      // The deleted sessions are erased meanwhile.
      measured.push(await measureOnce(`beside${index}-`, (repetition) => manySessions(system, size, repetition)));
    }
    while (system.runtime.metrics().compactions === 0) await delay(LOOK_MS);
    const { compactions, compactionSliceMs: sliceMs } = system.runtime.metrics();
    const cpuAlone = median(alone.map(({ cpuUs = 0 }) => cpuUs));
    const repetitions = measured.map((figures) => ({
      ...figures,
      cpuShare: 1 - cpuAlone / (figures['cpuUs'] ?? 0),
      sliceMs,
      compactions,
    }));
    return [
      { variant: NO_DELETIONS, repetitions: alone },
      { variant: 'deletions', repetitions },
    ];
  });
}

async function deleteAll({ runtime }: TroupeSystem, names: readonly string[]): Promise<void> {
  const left = [...names];
  const work = async (): Promise<void> => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) await runtime.sessions.delete(name);
  };
  await Promise.all(numbers(AT_ONCE).map(work));
}
