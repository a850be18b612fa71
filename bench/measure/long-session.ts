/**
 * W9: one session of 10,000 messages with a window of 4,000 tokens, so that requests are of equal size. Measurements
 * near message 10,000 alternate with those near message 100 of a new session, so that other work on the machine affects
 * both.
 */
import { diskBytes, payloadBytes } from '../disk.ts';
import type { RunContext } from '../names.ts';
import { type Figures, latencies, numbers, type Row, sum } from '../report/figures.ts';
import { expectMessages, timedTurn } from '../shared-work.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN, MESSAGES_A_TURN } from '../systems/system.ts';
import { openTroupe, type TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';

const TOKEN_BUDGET = 4_000;
/** About 200 tokens a question: the budget is full before message 100. */
const FILLER = 'a conversation that goes on and on '.repeat(24);
const EARLY_TURNS = 25;
const WINDOW_TURNS = 25;
const WINDOWS = 9;
const LATE_MESSAGES: Readonly<Record<RunContext['scale'], number>> = { quick: 2_000, full: 10_000, long: 10_000 };

/** Rows: the half-steps, and the disk. */
export function measureLongSession(context: RunContext): Promise<readonly Row[]> {
  return withDirectory(async (directory) => {
    const options = { isolation: isolationOf(context), tokenBudget: TOKEN_BUDGET };
    const warm = await openTroupe(`${directory}/warm`, options);
    try {
      await warmUp(context, warm);
    } finally {
      await warm.close();
    }
    const system = await openTroupe(`${directory}/long`, options);
    let payload = 0;
    let repetitions: readonly Figures[];
    try {
      repetitions = await compareEnds(system, LATE_MESSAGES[context.scale]);
      for (const session of ['long', ...numbers(WINDOWS).map((index) => `short${index}`)]) {
        payload += sum((await system.runtime.session(session).messages()).map(payloadBytes));
      }
    } finally {
      await system.close();
    }
    const disk = await diskBytes(`${directory}/long`);
    return [
      { variant: 'half-step', repetitions },
      { variant: 'disk', repetitions: [{ diskBytes: disk, payloadBytes: payload, diskRatio: disk / payload }] },
    ];
  });
}

/** One repetition is a pair of windows: us of a half-step near message 100 (`early`) and near the end (`late`). */
async function compareEnds(system: TroupeSystem, lateMessages: number): Promise<readonly Figures[]> {
  await turns(system, 'long', { from: 0, count: lateMessages / MESSAGES_A_TURN });
  const repetitions: Figures[] = [];
  for (const window of numbers(WINDOWS)) {
    const short = `short${window}`;
    await turns(system, short, { from: 0, count: EARLY_TURNS });
    const lateFrom = lateMessages / MESSAGES_A_TURN + window * WINDOW_TURNS;
    const early = (): Promise<readonly number[]> => turns(system, short, { from: EARLY_TURNS, count: WINDOW_TURNS });
    const late = (): Promise<readonly number[]> => turns(system, 'long', { from: lateFrom, count: WINDOW_TURNS });
    // The second window of a pair runs on a warmer thread, so `early` and `late` take turns at being the second.
    const isEarlyFirst = window % 2 === 0;
    const first = await (isEarlyFirst ? early() : late());
    const second = await (isEarlyFirst ? late() : early());
    const [earlyUs, lateUs] = isEarlyFirst
      ? [halfStepUs(first), halfStepUs(second)]
      : [halfStepUs(second), halfStepUs(first)];
    repetitions.push({ earlyUs, lateUs, costRatio: lateUs / earlyUs, ...latencies([...first, ...second]) });
  }
  await expectMessages(system, 'long', lateMessages + WINDOWS * WINDOW_TURNS * MESSAGES_A_TURN);
  return repetitions;
}

async function turns(
  system: TroupeSystem,
  session: string,
  { from, count }: { readonly from: number; readonly count: number },
): Promise<readonly number[]> {
  const times: number[] = [];
  for (let turn = from; turn < from + count; turn += 1) {
    times.push(await timedTurn(system, session, { a: 1, b: turn, filler: FILLER }));
  }
  return times;
}

/** Microseconds of a half-step: the mean of the window, since evictions are part of the cost. */
function halfStepUs(times: readonly number[]): number {
  return (sum(times) * 1_000) / (times.length * HALF_STEPS_A_TURN);
}
