/**
 * Backup: W2 alone, and W2 while backups of the same store are written one after another, each a copy of every shard.
 * The store has 10,000 sessions of 40 messages before.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { NO_BACKUP, type RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { FULL_SIZE, type Measurement, manySessions, QUICK_SIZE, type Repetition } from '../shared-work.ts';
import { buildStore } from '../systems/build-store.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { openTroupe, type TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { repeat } from './repeat.ts';

const SESSIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 1_000, full: 10_000, long: 10_000 };
const TURNS_BUILT = 10;
const REPETITIONS = 5;
const BYTES_A_MB = 1_000_000;

/** Figures: half-steps/s with and without backups; `mbPerSecond` of the backups, and how many ended. */
export function measureBackup(context: RunContext): Promise<readonly Row[]> {
  const size = context.scale === 'quick' ? QUICK_SIZE : FULL_SIZE;
  return withDirectory(async (directory) => {
    const store = join(directory, 'store');
    await buildStore(store, { sessions: SESSIONS[context.scale], turnsEach: TURNS_BUILT });
    const system = await openTroupe(store, { isolation: isolationOf(context) });
    try {
      await warmUp(context, system);
      const once = (repetition: Repetition): Promise<Measurement> => manySessions(system, size, repetition);
      const alone = await repeat(REPETITIONS, once, 'alone');
      const { figures, value } = await besideBackups(system, join(directory, 'backup'), () =>
        repeat(REPETITIONS, once, 'beside'),
      );
      return [
        { variant: NO_BACKUP, repetitions: alone },
        { variant: 'backups without end', repetitions: value.map((repetition) => ({ ...repetition, ...figures })) },
      ];
    } finally {
      await system.close();
    }
  });
}

/** Writes backups, one after another, until the work has ended and at least one backup too. */
async function besideBackups<T>(
  { runtime }: TroupeSystem,
  directory: string,
  work: () => Promise<T>,
): Promise<{ readonly figures: Figures; readonly value: T }> {
  const worked = { isOver: false };
  let [backups, bytes, tookMs] = [0, 0, 0];
  const writing = (async () => {
    do {
      // The next backup would copy only what has changed.
      await rm(directory, { recursive: true, force: true });
      const startedAt = performance.now();
      bytes += (await runtime.backup(directory)).copiedBytes;
      tookMs += performance.now() - startedAt;
      backups += 1;
    } while (!worked.isOver);
  })();
  const [value] = await Promise.all([
    work().finally(() => {
      worked.isOver = true;
    }),
    writing,
  ]);
  return { figures: { backups, mbPerSecond: (bytes / BYTES_A_MB / tookMs) * 1_000 }, value };
}
