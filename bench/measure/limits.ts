/**
 * The limits of a provider's key: 5,000 sessions ask without end, and the server takes so many requests a minute and
 * reports them in its headers, as the API does. Counted once the bucket that the server begins with is used up: the
 * requests taken as a share of what the limit allows, and the refusals. A turn that fails ends the measurement.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { anthropic } from '../../src/index.ts';
import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { type Stage, startStage } from '../stage.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';
import { askWithoutEnd } from './endless-turns.ts';

const SESSIONS = 5_000;
const REQUESTS_PER_MINUTE = 12_000;
const MINUTE_MS = 60_000;
/** The server's bucket is full at the start: the counting begins when it must be used up. */
const BEFORE_MS = { full: 45_000, quick: 2_000 };
const COUNTED_MS = { full: MINUTE_MS, quick: 3_000 };

/** See the head of the file. */
export async function measureLimits(context: RunContext): Promise<readonly Row[]> {
  const server = startStage('./systems/fake-server', ['0', String(context.seed), String(REQUESTS_PER_MINUTE)]);
  try {
    const baseURL = `http://127.0.0.1:${Number(await server.line())}`;
    const provider = anthropic({ apiKey: 'key-of-the-benchmark', baseURL, listModels: false });
    const scale = context.scale === 'quick' ? 'quick' : 'full';
    const figures = await withTroupe({ isolation: isolationOf(context), provider }, (system) =>
      count(system, server, scale),
    );
    return [{ variant: '', repetitions: [figures] }];
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

async function count(system: TroupeSystem, server: Stage, scale: 'quick' | 'full'): Promise<Figures> {
  const turns = askWithoutEnd(system, SESSIONS);
  await delay(BEFORE_MS[scale]);
  const [before, startedAt] = [await countsOf(server), performance.now()];
  await delay(COUNTED_MS[scale]);
  const after = await countsOf(server);
  const wallMs = performance.now() - startedAt;
  turns.stop();
  const taken = after.taken - before.taken;
  return {
    share: taken / ((REQUESTS_PER_MINUTE * wallMs) / MINUTE_MS),
    taken,
    refused: after.refused - before.refused,
    refusedBefore: before.refused,
    wallMs,
  };
}

async function countsOf(server: Stage): Promise<{ readonly taken: number; readonly refused: number }> {
  server.process.stdin?.write('count\n');
  return JSON.parse(await server.line()) as { readonly taken: number; readonly refused: number };
}
