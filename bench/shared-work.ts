/** The workloads that every system can run, with checks of every answer and every message count. */
import { latencies, numbers, sum } from './report/figures.ts';
import { answerOf, type DrainSystem, HALF_STEPS_A_TURN, MESSAGES_A_TURN, type Question } from './systems/system.ts';

export { median } from './report/figures.ts';

/** The size of a workload. */
export interface WorkSize {
  readonly turns: number;
  readonly sessions: number;
  readonly turnsEach: number;
  readonly children: number;
}

/** The size of the targets; `--quick` runs less work. */
export const FULL_SIZE: WorkSize = { turns: 200, sessions: 1_000, turnsEach: 3, children: 1_000 };
export const QUICK_SIZE: WorkSize = { turns: 60, sessions: 300, turnsEach: 3, children: 300 };
/** For profiles: so much work that the start does not show. */
export const LONG_SIZE: WorkSize = { ...FULL_SIZE, turns: 2_000, turnsEach: 20, children: 5_000 };

/** The result of a workload. Rates are per second, times in ms. */
export interface Measurement {
  /** Turns (W1), half-steps (W2), children (W3, family). */
  readonly rate: number;
  readonly wallMs: number;
  /** Model calls made. */
  readonly halfSteps: number;
  /** W1: turns/s of the first and the last 20. */
  readonly first?: number;
  readonly last?: number;
  /** Latency of one turn. */
  readonly p50?: number;
  readonly p99?: number;
}

/** One repetition of a workload. */
export interface Repetition {
  /** Prefix of the session names, so that each repetition has new sessions. */
  readonly label: string;
  /** Called around the measured work, without the checks. */
  readonly timed: <T>(work: () => Promise<T>) => Promise<T>;
}

const ONCE: Repetition = { label: '', timed: (work) => work() };
const EDGE_TURNS = 20;

/** W1: one session, one turn after another. */
export async function oneSession(
  system: DrainSystem,
  size: WorkSize,
  { label, timed }: Repetition = ONCE,
): Promise<Measurement> {
  const times: number[] = [];
  const session = `${label}one`;
  await timed(async () => {
    for (let turn = 0; turn < size.turns; turn += 1) times.push(await timedTurn(system, session, { a: 1, b: turn }));
  });
  await expectMessages(system, session, size.turns * MESSAGES_A_TURN);
  const wallMs = sum(times);
  return {
    rate: (size.turns / wallMs) * 1_000,
    wallMs,
    halfSteps: size.turns * HALF_STEPS_A_TURN,
    first: (EDGE_TURNS / sum(times.slice(0, EDGE_TURNS))) * 1_000,
    last: (EDGE_TURNS / sum(times.slice(-EDGE_TURNS))) * 1_000,
    ...latencies(times),
  };
}

/** W2: many sessions at once, some turns each. */
export async function manySessions(
  system: DrainSystem,
  size: Pick<WorkSize, 'sessions' | 'turnsEach'>,
  { label, timed }: Repetition = ONCE,
): Promise<Measurement> {
  const times: number[] = [];
  const startedAt = performance.now();
  await timed(() =>
    Promise.all(
      numbers(size.sessions).map(async (index) => {
        for (let turn = 0; turn < size.turnsEach; turn += 1) {
          times.push(await timedTurn(system, `${label}s${index}`, { a: index, b: turn }));
        }
      }),
    ),
  );
  const wallMs = performance.now() - startedAt;
  for (const index of numbers(size.sessions)) {
    await expectMessages(system, `${label}s${index}`, size.turnsEach * MESSAGES_A_TURN);
  }
  const halfSteps = size.sessions * size.turnsEach * HALF_STEPS_A_TURN;
  return { rate: (halfSteps / wallMs) * 1_000, wallMs, halfSteps, ...latencies(times) };
}

/** W3 and `family`: one parent, many children, one turn each, every reply in the parent's log once. */
export async function oneFamily(
  system: DrainSystem,
  count: number,
  repetition: Repetition = ONCE,
): Promise<Measurement> {
  return measureFamily(
    system,
    numbers(count).map((index) => ({ a: index, b: count })),
    repetition,
  );
}

/** Runs a family with these questions. */
export async function measureFamily(
  system: DrainSystem,
  questions: readonly Question[],
  { label, timed }: Repetition = ONCE,
): Promise<Measurement> {
  const parent = `${label}parent`;
  const startedAt = performance.now();
  await timed(() => system.family(parent, questions));
  const wallMs = performance.now() - startedAt;
  const replies = await system.replies(parent);
  const wanted = questions.map(answerOf).sort();
  const found = [...replies].sort();
  if (found.length !== wanted.length || found.some((text, index) => text !== wanted[index])) {
    throw new Error(
      `the parent received ${new Set(found).size} different replies, ${found.length} in all, and ${wanted.length} were expected`,
    );
  }
  const halfSteps = sum(questions.map(({ times = 1 }) => times + 1));
  return { rate: (questions.length / wallMs) * 1_000, wallMs, halfSteps };
}

/** Makes one turn and checks its answer; returns the milliseconds. */
export async function timedTurn(system: DrainSystem, session: string, question: Question): Promise<number> {
  const startedAt = performance.now();
  const answer = await system.turn(session, question);
  const took = performance.now() - startedAt;
  if (answer !== answerOf(question))
    throw new Error(`${session} was answered ${JSON.stringify(answer)}, not ${answerOf(question)}`);
  return took;
}

/** Throws unless a session's log has that many messages. */
export async function expectMessages(system: DrainSystem, session: string, count: number): Promise<void> {
  const found = await system.messages(session);
  if (found !== count) throw new Error(`${session} has ${found} messages, not ${count}`);
}
