/**
 * W4: 10,000 idle sessions of 10 messages. Measures the anonymous memory of one session: the difference to the same
 * runtime without sessions. Then opens the store in a new process, cold and warm, and times the open, the read of a
 * first message and a first turn.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { statusKib } from '../cost.ts';
import { evict } from '../disk.ts';
import type { RunContext } from '../names.ts';
import { type Figures, median, numbers, type Row } from '../report/figures.ts';
import { runStage } from '../stage.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';
import { answerOf, textOf } from '../systems/system.ts';
import { type Isolation, openTroupe, type TroupeSystem } from '../systems/troupe-system.ts';

const SESSIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 1_000, full: 10_000, long: 10_000 };
const IN_FLIGHT = 1_000;
/** Two turns with a call have four messages each, and one turn without a call has two. */
const CALL_TURNS = 2;
const CYCLES = 3;
const REOPENS = 3;
/** Long enough for a checkpoint, and for the release of the memory that the checkpoint used. */
const SETTLE_MS = 1_500;
const POLL_MS = 100;
/** An idle session leaves memory some seconds after its last use. */
const LEAVING_MS_MAX = 60_000;
const COLLECTIONS = 5;

/** Rows `memory` (inline: only there can all garbage be collected), `open cold`, `open warm`. */
export function measureIdle(context: RunContext): Promise<readonly Row[]> {
  const isolation = isolationOf(context);
  const count = SESSIONS[context.scale];
  return withDirectory(async (directory) => {
    const system = await openTroupe(directory, { isolation });
    let memory: readonly Row[] = [];
    try {
      if (isolation === 'inline') memory = await measureMemory(system, count);
      else await makeIdle(system, { from: 0, to: count });
    } finally {
      await system.close();
    }
    return [...memory, ...(await reopenRows(isolation, directory, 's0'))];
  });
}

/** Opens a store in a new process, cold and warm, a few times each. `session` is one of the store. */
export async function reopenRows(isolation: Isolation, directory: string, session: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const variant of ['open cold', 'open warm']) {
    const repetitions: Figures[] = [];
    for (let index = 0; index < REOPENS; index += 1) {
      const isCold = variant === 'open cold' ? await evict(directory) : false;
      repetitions.push({
        ...(await runStage('./stages/reopen', [isolation, directory, session])),
        cold: Number(isCold),
      });
    }
    rows.push({ variant, repetitions });
  }
  return rows;
}

/**
 * Memory with the sessions less memory without them. The runtime has made and deleted as many sessions before, so heap
 * and code have reached their size. `beyond`: as many sessions again, on top.
 */
async function measureMemory(system: TroupeSystem, count: number): Promise<readonly Row[]> {
  await makeIdle(system, { from: 0, to: count });
  const cycles: number[] = [];
  for (let cycle = 1; cycle < CYCLES; cycle += 1) {
    await removeAll(system, count);
    const without = await settledKib(system);
    await makeIdle(system, { from: 0, to: count });
    cycles.push((await settledKib(system)) - without);
  }
  const before = await settledKib(system);
  await makeIdle(system, { from: count, to: 2 * count });
  const beyond = (await settledKib(system)) - before;
  return [
    { variant: 'memory', repetitions: cycles.map((kib) => ({ sessionKib: kib / count })) },
    { variant: 'memory, twice as many', repetitions: [{ sessionKib: beyond / count }] },
  ];
}

async function makeIdle(
  { runtime }: TroupeSystem,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  let next = from;
  await Promise.all(
    numbers(IN_FLIGHT).map(async () => {
      while (next < to) {
        const index = next;
        next += 1;
        const session = runtime.session(`s${index}`);
        for (let turn = 0; turn < CALL_TURNS; turn += 1) {
          const question = { a: index, b: turn };
          const answer = await session.ask(textOf(question));
          if (answer !== answerOf(question)) throw new Error(`s${index} was answered ${JSON.stringify(answer)}`);
        }
        await session.ask('and that is all');
      }
    }),
  );
  await runtime.drain();
}

async function removeAll({ runtime }: TroupeSystem, count: number): Promise<void> {
  await Promise.all(numbers(count).map((index) => runtime.session(`s${index}`).delete()));
}

/** Anonymous memory of the process once every session has left it and its garbage is collected, KiB. */
async function settledKib({ runtime }: TroupeSystem): Promise<number> {
  const collect = globalThis.gc;
  if (collect === undefined) throw new Error('this measurement needs --expose-gc');
  const givenUpAt = performance.now() + LEAVING_MS_MAX;
  while (runtime.metrics().sessionsHot > 0) {
    if (performance.now() > givenUpAt) throw new Error(`${runtime.metrics().sessionsHot} idle sessions stay in memory`);
    await delay(POLL_MS);
  }
  // The checkpoint after the last of the sessions.
  await delay(SETTLE_MS);
  const seen: number[] = [];
  for (let index = 0; index < COLLECTIONS; index += 1) {
    collect();
    await delay(SETTLE_MS / COLLECTIONS);
    seen.push(statusKib('RssAnon') ?? Number.NaN);
  }
  return median(seen.slice(-2));
}
