/**
 * The disk that a store needs while sessions are made and deleted again and again, and what their erasure costs. `node
 * --import ./test/loader/register.mjs bench/disk-curve.ts [--rounds 100] [--sessions 1000] [--turns 3]`. Prints one JSON
 * object.
 *
 * `curve`: bytes of the store's files after each round, when everything deleted is erased. `worst`: the largest of them
 * as a multiple of the first. `longestMs`: how long the session thread stood still at most while it only erased.
 * `erasureShare`: processor time of the erasure as a share of the whole. Sessions run on this thread, so both are its
 * figures.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { open, type Runtime } from '../src/index.ts';
import { scripted } from '../src/testing/scripted.ts';
import { diskBytes } from './disk.ts';
import { describeRun } from './machine.ts';
import { withDirectory } from './systems/open-system.ts';

const AT_ONCE = 64;
const NANOSECONDS = 1e6;
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '100' },
    sessions: { type: 'string', default: '1000' },
    turns: { type: 'string', default: '3' },
  },
});
const [rounds, sessions, turns] = [Number(values.rounds), Number(values.sessions), Number(values.turns)];

const run = await describeRun({ seed: 0, command: process.argv.slice(2).join(' '), notes: [] });
const report = await withDirectory(measure);
process.stdout.write(`${JSON.stringify({ ...run, ...report }, null, 2)}\n`);

async function measure(directory: string): Promise<object> {
  const runtime = await open(directory, {
    provider: scripted(({ messages }) => `An answer to message ${messages.length}. `.repeat(20)),
    threads: { sessions: 0, models: 0, tools: 1 },
  });
  const curve: number[] = [];
  let [workMs, erasureMs, longestMs] = [0, 0, 0];
  for (let round = 0; round < rounds; round += 1) {
    const ids = Array.from({ length: sessions }, (_, index) => `r${round}-${index}`);
    workMs += await cpuMs(() => inTurn(ids, (id) => talk(runtime, id)));
    const delay = monitorEventLoopDelay({ resolution: 1 });
    erasureMs += await cpuMs(async () => {
      await inTurn(ids, (id) => runtime.sessions.delete(id));
      delay.enable();
      while (runtime.metrics().sessionsErasing > 0) await new Promise((resolve) => setTimeout(resolve, 20));
      delay.disable();
    });
    longestMs = Math.max(longestMs, delay.max / NANOSECONDS);
    curve.push(await diskBytes(directory));
  }
  await runtime.close();
  const [first = 1] = curve;
  return {
    rounds,
    sessions,
    turns,
    curve,
    worst: Math.max(...curve) / first,
    longestMs,
    erasureShare: erasureMs / (workMs + erasureMs),
  };
}

async function talk(runtime: Runtime, id: string): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await runtime.session(id).ask(`Message ${turn} of ${id}. `.repeat(10));
}

/** Runs work for each id, `AT_ONCE` at a time. */
async function inTurn(ids: readonly string[], work: (id: string) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < ids.length; at += AT_ONCE) await Promise.all(ids.slice(at, at + AT_ONCE).map(work));
}

/** Processor time of this process during some work. */
async function cpuMs(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
