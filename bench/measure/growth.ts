/** The growth of a store on disk over a week of turns, with its checkpoints, beside the payload of its messages. */
import { setTimeout as delay } from 'node:timers/promises';
import { diskBytes, payloadBytes } from '../disk.ts';
import type { RunContext } from '../names.ts';
import { numbers, type Row, sum } from '../report/figures.ts';
import { timedTurn } from '../shared-work.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { openTroupe, type TroupeSystem } from '../systems/troupe-system.ts';

const SESSIONS = 200;
/** Turns after which the disk is measured. */
const STEPS: Readonly<Record<RunContext['scale'], readonly number[]>> = {
  quick: [1_000, 2_000],
  full: [2_000, 10_000, 20_000],
  long: [2_000, 10_000, 20_000],
};
/** Turns between two rests, each long enough for a checkpoint. */
const REST_EVERY = 2_000;
const REST_MS = 1_100;

/** One row for each measurement; the last measurement is repeated after the store is closed. */
export function measureGrowth(context: RunContext): Promise<readonly Row[]> {
  return withDirectory(async (directory) => {
    const system = await openTroupe(directory, { isolation: isolationOf(context) });
    const rows: Row[] = [];
    let turns = 0;
    let payload = 0;
    try {
      for (const step of STEPS[context.scale]) {
        for (; turns < step; turns += REST_EVERY) {
          await makeTurns(system, turns, Math.min(REST_EVERY, step - turns));
          await delay(REST_MS);
        }
        turns = step;
        payload = await payloadOf(system);
        rows.push(rowOf(`${step.toLocaleString('en-US')} turns`, await diskBytes(directory), payload));
      }
    } finally {
      await system.close();
    }
    return [...rows, rowOf('closed', await diskBytes(directory), payload)];
  });
}

async function makeTurns(system: TroupeSystem, from: number, count: number): Promise<void> {
  const each = count / SESSIONS;
  await Promise.all(
    numbers(SESSIONS).map(async (index) => {
      for (let turn = 0; turn < each; turn += 1) await timedTurn(system, `s${index}`, { a: index, b: from + turn });
    }),
  );
}

async function payloadOf({ runtime }: TroupeSystem): Promise<number> {
  let bytes = 0;
  for (const index of numbers(SESSIONS)) {
    bytes += sum((await runtime.session(`s${index}`).messages()).map(payloadBytes));
  }
  return bytes;
}

function rowOf(variant: string, disk: number, payload: number): Row {
  return { variant, repetitions: [{ diskBytes: disk, payloadBytes: payload, diskRatio: disk / payload }] };
}
