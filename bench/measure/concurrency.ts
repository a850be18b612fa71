/** W2 with 1, 64 and 1,000 sessions in flight, and with sessions that arrive at a rate that every system can serve. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RunContext } from '../names.ts';
import { latencies, numbers, type Row } from '../report/figures.ts';
import { expectMessages, type Measurement, type Repetition, timedTurn } from '../shared-work.ts';
import { withSystem } from '../systems/open-system.ts';
import { type DrainSystem, HALF_STEPS_A_TURN, MESSAGES_A_TURN } from '../systems/system.ts';
import { warmUp } from '../warm-up.ts';
import { repeat } from './repeat.ts';

const TURNS_EACH = 3;
const REPETITIONS = 3;
/** Sessions in flight, and sessions in all: enough for about half a second. */
const STEPS: readonly (readonly [inFlight: number, sessions: number])[] = [
  [1, 60],
  [64, 640],
  [1_000, 1_000],
];
/** 200 new sessions a second: 1,200 half-steps/s, a third of the rate that the loop reaches. */
const ARRIVALS_PER_SECOND = 200;
const ARRIVALS = 300;

/** Rows `1`, `64`, `1,000` in flight and `staggered`. */
export function measureConcurrency(context: RunContext): Promise<readonly Row[]> {
  return withSystem(context, async (system) => {
    await warmUp(context, system);
    const rows: Row[] = [];
    for (const [inFlight, sessions] of STEPS) {
      const variant = `${inFlight.toLocaleString('en-US')} in flight`;
      const repetitions = await repeat(REPETITIONS, ({ label, timed }) =>
        flow(system, sessions, { label: `${label}k${inFlight}-`, timed }, (each) => inLanes(sessions, inFlight, each)),
      );
      rows.push({ variant, repetitions });
    }
    const repetitions = await repeat(REPETITIONS, ({ label, timed }) =>
      flow(system, ARRIVALS, { label: `${label}a-`, timed }, arriving),
    );
    return [...rows, { variant: 'staggered', repetitions }];
  });
}

/** Runs three turns of each session, which `schedule` starts. Checks every answer and count. */
async function flow(
  system: DrainSystem,
  sessions: number,
  { label, timed }: Repetition,
  schedule: (each: (index: number) => Promise<void>) => Promise<unknown>,
): Promise<Measurement> {
  const times: number[] = [];
  const startedAt = performance.now();
  await timed(() =>
    schedule(async (index) => {
      for (let turn = 0; turn < TURNS_EACH; turn += 1) {
        times.push(await timedTurn(system, `${label}${index}`, { a: index, b: turn }));
      }
    }),
  );
  const wallMs = performance.now() - startedAt;
  for (const index of numbers(sessions)) await expectMessages(system, `${label}${index}`, TURNS_EACH * MESSAGES_A_TURN);
  const halfSteps = sessions * TURNS_EACH * HALF_STEPS_A_TURN;
  return { rate: (halfSteps / wallMs) * 1_000, wallMs, halfSteps, ...latencies(times) };
}

/** Runs `lanes` sessions at once; when one ends the next begins. */
export async function inLanes(count: number, lanes: number, each: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    numbers(lanes).map(async () => {
      while (next < count) {
        next += 1;
        await each(next - 1);
      }
    }),
  );
}

/** Starts sessions at a steady rate, whether or not earlier ones have finished. */
async function arriving(each: (index: number) => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  const running: Promise<void>[] = [];
  while (running.length < ARRIVALS) {
    const due = Math.min(ARRIVALS, Math.ceil(((performance.now() - startedAt) * ARRIVALS_PER_SECOND) / 1_000));
    while (running.length < due) running.push(each(running.length));
    await delay(1);
  }
  await Promise.all(running);
}
