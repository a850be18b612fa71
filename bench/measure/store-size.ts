/**
 * The cost of a half-step in a store of 10, 1,000, 10,000 and 100,000 sessions. Every store has ten turns in flight, of
 * sessions chosen at random, so that only the store differs.
 */

import type { RunContext } from '../names.ts';
import { randomNumbers } from '../random.ts';
import { latencies, type Row } from '../report/figures.ts';
import { type Measurement, type Repetition, timedTurn } from '../shared-work.ts';
import { buildStore, builtSession } from '../systems/build-store.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { type DrainSystem, HALF_STEPS_A_TURN } from '../systems/system.ts';
import { openTroupe } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { inLanes } from './concurrency.ts';
import { repeat } from './repeat.ts';

const SIZES: Readonly<Record<RunContext['scale'], readonly number[]>> = {
  quick: [10, 1_000],
  full: [10, 1_000, 10_000, 100_000],
  long: [100_000],
};
const TURNS_BUILT = 2;
const IN_FLIGHT = 10;
const TURNS = 500;
const REPETITIONS = 3;

/** One row for each size. */
export async function measureStoreSize(context: RunContext): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const sessions of SIZES[context.scale]) rows.push(await measureSize(context, sessions, rows.length === 0));
  return rows;
}

/** `isFirst`: compiled code stays compiled for the later runtimes on the same thread. */
function measureSize(context: RunContext, sessions: number, isFirst: boolean): Promise<Row> {
  return withDirectory(async (directory) => {
    await buildStore(directory, { sessions, turnsEach: TURNS_BUILT });
    const system = await openTroupe(directory, { isolation: isolationOf(context) });
    try {
      if (isFirst || context.system === 'isolated') await warmUp(context, system);
      const random = randomNumbers(context.seed);
      const repetitions = await repeat(REPETITIONS, (repetition) => spread(system, repetition, () => random(sessions)));
      return { variant: `${sessions.toLocaleString('en-US')} sessions`, repetitions };
    } finally {
      await system.close();
    }
  });
}

async function spread(system: DrainSystem, { timed }: Repetition, choose: () => number): Promise<Measurement> {
  const times: number[] = [];
  const busy = new Set<number>();
  const startedAt = performance.now();
  await timed(() =>
    inLanes(TURNS, IN_FLIGHT, async (turn) => {
      const index = freeOf(busy, choose);
      busy.add(index);
      times.push(await timedTurn(system, builtSession(index), { a: index, b: turn }));
      busy.delete(index);
    }),
  );
  const wallMs = performance.now() - startedAt;
  const halfSteps = TURNS * HALF_STEPS_A_TURN;
  return { rate: (halfSteps / wallMs) * 1_000, wallMs, halfSteps, ...latencies(times) };
}

/** A session without a turn in flight: a second question would join the turn of the first. */
function freeOf(busy: ReadonlySet<number>, choose: () => number): number {
  for (;;) {
    const index = choose();
    if (!busy.has(index)) return index;
  }
}
