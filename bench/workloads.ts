/** The workloads, the same for every system, and the checks that make a figure one: every answer, every message. */
import { answerOf, type DrainSystem, HALF_STEPS_A_TURN, MESSAGES_A_TURN, type Question } from './system.ts';

/** Workloads by name; `family` and `W9` are of troupe alone. */
export type WorkloadName = 'W1' | 'W2' | 'W3' | 'W9' | 'family';

/** How much of a workload. */
export interface WorkSize {
  readonly turns: number;
  readonly sessions: number;
  readonly turnsEach: number;
  readonly children: number;
  readonly family: number;
}

/** The size of `goals`; `--quick` runs a tenth. */
export const FULL_SIZE: WorkSize = { turns: 200, sessions: 1_000, turnsEach: 3, children: 1_000, family: 10_000 };
export const QUICK_SIZE: WorkSize = { turns: 60, sessions: 100, turnsEach: 3, children: 100, family: 1_000 };
/** For profiles. */
export const LONG_SIZE: WorkSize = { ...FULL_SIZE, turns: 2_000, turnsEach: 20 };
/** Before anything is measured, so that what is measured is compiled code. */
export const WARM_UP_SIZE: WorkSize = { turns: 200, sessions: 1_000, turnsEach: 2, children: 500, family: 500 };

/** What a workload measured. Rates are per second, times in ms. */
export interface Measurement {
  /** Turns (W1), half-steps (W2), children (W3, family), half-steps (W9). */
  readonly rate: number;
  readonly wallMs: number;
  /** W1: turns/s of the first and the last 20. W9: half-steps/s near the start and the end. */
  readonly first?: number;
  readonly last?: number;
  /** Latency of one turn. */
  readonly p50?: number;
  readonly p99?: number;
}

const EDGE_TURNS = 20;

/** W1: one session, one turn after another. */
export async function oneSession(system: DrainSystem, size: WorkSize): Promise<Measurement> {
  const times: number[] = [];
  for (let turn = 0; turn < size.turns; turn += 1) times.push(await timedTurn(system, 'one', { a: 1, b: turn }));
  await expectMessages(system, 'one', size.turns * MESSAGES_A_TURN);
  const wallMs = sum(times);
  return {
    rate: (size.turns / wallMs) * 1_000,
    wallMs,
    first: (EDGE_TURNS / sum(times.slice(0, EDGE_TURNS))) * 1_000,
    last: (EDGE_TURNS / sum(times.slice(-EDGE_TURNS))) * 1_000,
    ...latencies(times),
  };
}

/** W2: many sessions at once, some turns each. */
export async function manySessions(system: DrainSystem, size: WorkSize): Promise<Measurement> {
  const times: number[] = [];
  const startedAt = performance.now();
  await Promise.all(
    numbers(size.sessions).map(async (index) => {
      for (let turn = 0; turn < size.turnsEach; turn += 1) {
        times.push(await timedTurn(system, `s${index}`, { a: index, b: turn }));
      }
    }),
  );
  const wallMs = performance.now() - startedAt;
  for (const index of numbers(size.sessions)) {
    await expectMessages(system, `s${index}`, size.turnsEach * MESSAGES_A_TURN);
  }
  const halfSteps = size.sessions * size.turnsEach * HALF_STEPS_A_TURN;
  return { rate: (halfSteps / wallMs) * 1_000, wallMs, ...latencies(times) };
}

/** W3 and `family`: one parent, many children, one turn each, every reply in the parent's log once. */
export async function oneFamily(system: DrainSystem, count: number): Promise<Measurement> {
  const questions = numbers(count).map((index): Question => ({ a: index, b: count }));
  const startedAt = performance.now();
  await system.family('parent', questions);
  const wallMs = performance.now() - startedAt;
  const told = await system.told('parent');
  const wanted = questions.map(answerOf).sort();
  const found = [...told].sort();
  if (found.length !== wanted.length || found.some((text, index) => text !== wanted[index])) {
    throw new Error(
      `the parent was told ${new Set(found).size} different replies, ${found.length} in all, of ${wanted.length}`,
    );
  }
  return { rate: (count / wallMs) * 1_000, wallMs };
}

/** Turns of W9 before the first window: five turns are 20 messages, which fill the small token budget. */
const LONG_WARM_TURNS = 5;
/** Half-steps in one window of W9, and windows at each end. */
const WINDOW_TURNS = 25;
const WINDOWS = 3;
/** Turns before the late windows: message 2,000. */
const LONG_TURNS = 500;
/** Of a message in W9: 20 of them fill a budget of 4,000 tokens. */
const FILLER = 'a conversation that goes on and on '.repeat(24);

/** W9 in small: what a half-step costs near message 20 and near message 2,000, with requests of equal size. */
export async function longSession(system: DrainSystem): Promise<Measurement> {
  const times: number[] = [];
  const turns = LONG_TURNS + WINDOWS * WINDOW_TURNS;
  for (let turn = 0; turn < turns; turn += 1) {
    times.push(await timedTurn(system, 'long', { a: 1, b: turn, filler: FILLER }));
  }
  await expectMessages(system, 'long', turns * MESSAGES_A_TURN);
  const rateFrom = (start: number): number => {
    const windows = numbers(WINDOWS).map((index) => {
      const from = start + index * WINDOW_TURNS;
      return sum(times.slice(from, from + WINDOW_TURNS));
    });
    return ((WINDOW_TURNS * HALF_STEPS_A_TURN) / median(windows)) * 1_000;
  };
  const wallMs = sum(times);
  return {
    rate: ((turns * HALF_STEPS_A_TURN) / wallMs) * 1_000,
    wallMs,
    first: rateFrom(LONG_WARM_TURNS),
    last: rateFrom(LONG_TURNS),
    ...latencies(times),
  };
}

async function timedTurn(system: DrainSystem, session: string, question: Question): Promise<number> {
  const startedAt = performance.now();
  const answer = await system.turn(session, question);
  const took = performance.now() - startedAt;
  if (answer !== answerOf(question))
    throw new Error(`${session} was answered ${JSON.stringify(answer)}, not ${answerOf(question)}`);
  return took;
}

async function expectMessages(system: DrainSystem, session: string, count: number): Promise<void> {
  const found = await system.messages(session);
  if (found !== count) throw new Error(`${session} has ${found} messages, not ${count}`);
}

function latencies(times: readonly number[]): { readonly p50: number; readonly p99: number } {
  const sorted = [...times].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** The middle of some numbers; the mean of the two middle ones. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(middle)] ?? 0)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}
