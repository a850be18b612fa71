/**
 * The work of `troupe bench`: turns whose question, call, result and answer are each durable before later work depends
 * on them. Every answer is checked; a wrong one ends the run.
 */
import { LIMIT_DEFAULTS } from '../../base/bounds.ts';
import { agent, type OpenOptions, open, type Runtime } from '../../index.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { median } from '../run/figures.ts';
import provider from './model.ts';
import { add } from './tools.ts';

/** How threads are used: the defaults, or everything on one thread. */
export type Isolation = 'isolated' | 'inline';

/** The measurements with one isolation. Rates are medians over repetitions. */
export interface WorkFigures {
  /** W1: turns per second of one session. */
  readonly oneSession: number;
  /** W2: half-steps per second of many concurrent sessions. */
  readonly manySessions: number;
  /** W3: children per second of one parent, with every reply delivered. */
  readonly oneFamily: number;
  /** Median time in ms from `send` to the durable receipt, without other work. */
  readonly receiptMs: number;
}

/** A function that is called between repetitions; true ends the work. */
export type IsStopped = () => boolean;

/** The work was stopped before it had a result. */
export class StoppedError extends Error {
  override readonly name: string = 'StoppedError';
}

/** The most sessions of W2, and the most children of W3. */
const SESSIONS_MAX = 1_000;
/**
 * Sessions for each second of a benchmark that is shorter than ten seconds. In such a benchmark one pass over
 * `SESSIONS_MAX` sessions would take too long.
 */
const SESSIONS_A_SECOND = 100;
const TURNS_EACH = 3;
const HALF_STEPS_A_TURN = 2;
/** Turns of W1 in one repetition: few, so that even a slow disk finishes within the time. */
const TURNS_IN_A_ROW = 20;
/** Shares of the time; the rest is the warm-up, in which code is compiled. */
const SHARES = { oneSession: 0.2, manySessions: 0.25, oneFamily: 0.2, receipts: 0.05 } as const;
const WARM_SHARE = 0.3;

/** The number of sessions of W2, and of children of W3, in a benchmark of `seconds`. */
export function sessionsFor(seconds: number): number {
  return Math.min(SESSIONS_MAX, SESSIONS_A_SECOND * seconds);
}

/**
 * The parameters of one measurement. `directory`: the directory of a new store. `seconds`: the approximate duration.
 * `sessions`: the number of sessions of W2, and of children of W3.
 */
export interface WorkPlan {
  readonly directory: string;
  readonly isolation: Isolation;
  readonly seconds: number;
  readonly sessions: number;
  readonly isStopped: IsStopped;
}

/** Measures the work. Rejects with `StoppedError` if the work was stopped, or with the error of the work. */
export async function measureWork(plan: WorkPlan): Promise<WorkFigures> {
  const { directory, isolation, seconds, sessions, isStopped } = plan;
  const runtime = await open(directory, optionsOf(isolation));
  try {
    const repeat = repeater(seconds, isStopped);
    await repeat('warm-', WARM_SHARE / 2, (label) => manySessions(runtime, label, sessions));
    await repeat('also-', WARM_SHARE / 2, (label) => oneFamily(runtime, label, sessions));
    return {
      oneSession: median(await repeat('one-', SHARES.oneSession, (label) => oneSession(runtime, label))),
      manySessions: median(
        await repeat('many-', SHARES.manySessions, (label) => manySessions(runtime, label, sessions)),
      ),
      oneFamily: median(await repeat('family-', SHARES.oneFamily, (label) => oneFamily(runtime, label, sessions))),
      receiptMs: median(await repeat('send-', SHARES.receipts, () => receipt(runtime))),
    };
  } finally {
    await runtime.close();
  }
}

function optionsOf(isolation: Isolation): OpenOptions {
  const isInline = isolation === 'inline';
  return {
    provider: isInline ? provider : workerUrl('./model', import.meta.url),
    agents: [
      agent({
        name: 'adder',
        tools: isInline ? [add] : [workerUrl('./tools', import.meta.url)],
        subagents: { maxActive: LIMIT_DEFAULTS.children },
      }),
    ],
    ...(isInline ? { threads: { sessions: 0, models: 0 } } : {}),
  };
}

type Repeat = (label: string, share: number, work: (label: string) => Promise<number>) => Promise<readonly number[]>;

/** Repeats work until its share of the time has passed, at least once, and returns the result of each repetition. */
function repeater(seconds: number, isStopped: IsStopped): Repeat {
  return async (label, share, work) => {
    const found: number[] = [];
    const endsAt = performance.now() + share * seconds * 1_000;
    while (found.length === 0 || performance.now() < endsAt) {
      if (isStopped()) throw new StoppedError('the benchmark was stopped');
      found.push(await work(`${label}${found.length}`));
    }
    return found;
  };
}

async function oneSession(runtime: Runtime, label: string): Promise<number> {
  const startedAt = performance.now();
  for (let turn = 0; turn < TURNS_IN_A_ROW; turn += 1) await checkedTurn(runtime, label, 1, turn);
  return rate(TURNS_IN_A_ROW, startedAt);
}

async function manySessions(runtime: Runtime, label: string, sessions: number): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    indexes(sessions).map(async (index) => {
      for (let turn = 0; turn < TURNS_EACH; turn += 1) await checkedTurn(runtime, `${label}-${index}`, index, turn);
    }),
  );
  return rate(sessions * TURNS_EACH * HALF_STEPS_A_TURN, startedAt);
}

async function oneFamily(runtime: Runtime, label: string, children: number): Promise<number> {
  const startedAt = performance.now();
  const tasks = indexes(children).map((index) => ({ task: `add ${index} ${children}` }));
  const family = await runtime.session(label).spawnAll(tasks);
  const results = await family.all();
  // The time also covers the parent's turns, in which the parent reads the replies of its children.
  await runtime.drain();
  const found = rate(children, startedAt);
  for (const [index, { reply }] of results.entries()) check(label, reply, index + children);
  return found;
}

/** Measures the milliseconds from `send` to the receipt. Resolves when the turn of the message has ended. */
async function receipt(runtime: Runtime): Promise<number> {
  const startedAt = performance.now();
  const sent = await runtime.session('receipts').send('add 2 3');
  const took = performance.now() - startedAt;
  check('receipts', await sent.answer(), 5);
  return took;
}

async function checkedTurn(runtime: Runtime, session: string, a: number, b: number): Promise<void> {
  check(session, await runtime.session(session).ask(`add ${a} ${b}`), a + b);
}

function check(session: string, answer: string, sum: number): void {
  if (answer !== `sum ${sum}`) throw new Error(`${session} was answered ${JSON.stringify(answer)}, not "sum ${sum}"`);
}

function rate(count: number, startedAt: number): number {
  return (count * 1_000) / (performance.now() - startedAt);
}

function indexes(length: number): readonly number[] {
  return Array.from({ length }, (_, index) => index);
}
