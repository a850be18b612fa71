/**
 * The cost of the index of all messages for a session thread, call by call. The 50,000 messages include long sessions
 * that were edited, rewritten as a whole, forked and compressed, and a fork whose parent is deleted. All are cold. The
 * index has its own thread, as in service; this thread is the session thread and has no other work. `node --import
 * ./test/loader/register.mjs bench/search/search-pieces.ts [--messages 50000] [--long 10000]`. Prints one JSON object.
 */
import { openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { serialize } from 'node:v8';
import { COMPACTION_INSTRUCTION } from '../../src/context/compaction-request.ts';
import { agent, open } from '../../src/index.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { searchAnswers } from '../../src/runtime/door/search-requests.ts';
import type { ShardLink } from '../../src/runtime/host/shard-link.ts';
import { MessageSearch } from '../../src/runtime/search/client.ts';
import type { SearchMethod } from '../../src/runtime/search/reader.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { describeRun } from '../machine.ts';
import { randomNumbers } from '../random.ts';
import { withDirectory } from '../systems/open-system.ts';
import { buildSearchStore, wordAt, zipfRanks } from './search-store.ts';

const SEED = 11;
/** The scheduler's own figures of this thread. */
const schedstat = openSync('/proc/thread-self/schedstat', 'r');
const line = Buffer.alloc(128);
const nothing = new Int32Array(new SharedArrayBuffer(4));
const SWITCH_MS = 0.01;
const { values } = parseArgs({
  options: { messages: { type: 'string', default: '50000' }, long: { type: 'string', default: '10000' } },
});
const messages = Number(values.messages);
const long = Number(values.long);
/** Sessions of that many messages beside the many short ones; see `change`. */
const LONG_SESSIONS = 3;

const run = await describeRun({ seed: SEED, command: process.argv.slice(2).join(' '), notes: [] });
const report = await withDirectory(async (directory) => {
  const store = join(directory, 'store');
  await buildSearchStore(store, {
    messages: Math.max(0, messages - LONG_SESSIONS * long),
    messagesEach: 100,
    seed: SEED,
    long: Array.from({ length: LONG_SESSIONS }, (_, index) => ({ name: `long${index}`, messages: long })),
  });
  await change(store);
  return measure(store, join(directory, 'index'));
});
process.stdout.write(`${JSON.stringify({ ...run, ...report }, null, 2)}\n`);

/** Edits, forks, compresses and deletes, through the public API. */
async function change(store: string): Promise<void> {
  const provider = scripted(({ messages: asked }) =>
    JSON.stringify(asked.at(-1)).includes(JSON.stringify(COMPACTION_INSTRUCTION).slice(1, -1))
      ? 'all of it, in short'
      : 'noted',
  );
  const compression = { messages: 1_000_000, tokens: 1_000_000_000, keepRecent: 4, idleMinMessages: 3 } as const;
  const runtime = await open(store, {
    provider,
    agents: [agent({ name: 'main', compression })],
    threads: { sessions: 0, models: 0, tools: 1 },
  });
  // Edited in its middle, and forked behind that.
  const edited = runtime.session('long0');
  const all = await edited.history.messages();
  await edited.history.update({ id: all[Math.floor(all.length / 2)]?.id ?? '' }, { content: 'something else' });
  const fork = await edited.fork();
  await fork.ask('go on');
  // Compressed.
  await runtime.session('long1').history.compress({ force: true });
  // Rewritten as a whole, in one record; its fork rests on the data that was stored when it was deleted.
  const parent = runtime.session('long2');
  await parent.history.set(all.map(({ role, content }) => ({ role, content }) as never));
  await parent.fork({ id: 'long2:kept' });
  await runtime.sessions.delete('long2');
  // Deletes some of the short sessions.
  for (let index = 0; index < 100; index += 1) {
    const session = runtime.session(`talk${index}`);
    if (index % 2 === 0) await session.history.popLast();
    else await session.fork();
  }
  await runtime.close();
}

async function measure(store: string, index: string): Promise<object> {
  const journal = await openLmdbJournal({ directory: shardDirectory(store, 0), durability: 'os' });
  const answers = searchAnswers(journal);
  const calls: Call[] = [];
  const pauses = gcPauses();
  const link = {
    // The work of a session thread: it answers, and serialises the answer for another thread.
    call(method: SearchMethod | 'search.floor', request: never): Promise<unknown> {
      if (method === 'search.floor') return Promise.resolve(1);
      const cpu = threadCpuMs();
      const at = performance.now();
      const answer = answers[method](request);
      const bytes = serialize(answer).length;
      const wallMs = performance.now() - at;
      calls.push({ method, at, wallMs, cpuMs: threadCpuMs() - cpu, bytes });
      return Promise.resolve(answer);
    },
  } as unknown as ShardLink;
  const search = new MessageSearch({
    links: () => [link],
    linkOf: () => link,
    directory: index,
    now: () => Date.now(),
    decay: 0,
    // Searches meanwhile read the current messages.
    waitMs: 200,
  });
  const rank = zipfRanks(SEED + 2);
  const chance = randomNumbers(SEED + 3);
  const startedAt = performance.now();
  let searches = 0;
  let answer = await search.search(wordAt(1_000), { limit: 5 });
  for (; !answer.isComplete; searches += 1) {
    answer = await search.search(`${wordAt(rank())} ${wordAt(chance(500))}`, { limit: 5, excluding: 'talk7' });
  }
  const tookMs = Math.round(performance.now() - startedAt);
  const { found } = await search.search('"something else"', { limit: 5 });
  const statistics = await search.statistics();
  await search.close();
  await journal.close();
  const methods = [...new Set(calls.map(({ method }) => method))].sort();
  return {
    messages: answer.messages,
    foundEdited: found.map(({ session, seq }) => `${session}#${seq}`),
    indexedSessions: statistics?.sessions,
    tookMs,
    searchesMeanwhile: searches,
    calls: Object.fromEntries(methods.map((method) => [method, summary(method, calls, pauses())])),
  };
}

interface Call {
  readonly method: string;
  readonly at: number;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly bytes: number;
}

function summary(method: string, all: readonly Call[], pauses: readonly { at: number; ms: number }[]): object {
  const calls = all.filter((call) => call.method === method);
  const isPaused = ({ at, wallMs }: Call): boolean => pauses.some((gc) => gc.at < at + wallMs && gc.at + gc.ms > at);
  const unpaused = calls.filter((call) => !isPaused(call));
  return {
    calls: calls.length,
    bytesMax: Math.max(...calls.map(({ bytes }) => bytes)),
    wallMs: spread(calls.map(({ wallMs }) => wallMs)),
    cpuMs: spread(calls.map(({ cpuMs }) => cpuMs)),
    withCollection: calls.length - unpaused.length,
    cpuMaxWithoutCollection: round(Math.max(0, ...unpaused.map(({ cpuMs }) => cpuMs))),
  };
}

function spread(times: readonly number[]): object {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Collections of this thread so far. */
function gcPauses(): () => readonly { readonly at: number; readonly ms: number }[] {
  const pauses: { readonly at: number; readonly ms: number }[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) pauses.push({ at: startTime, ms: duration });
  });
  observer.observe({ entryTypes: ['gc'] });
  return () => {
    for (const { startTime, duration } of observer.takeRecords()) pauses.push({ at: startTime, ms: duration });
    return pauses;
  };
}

/**
 * Processor time of this thread so far in ms, as the scheduler counts it. The scheduler counts a thread's time only
 * when the thread yields.
 */
function threadCpuMs(): number {
  Atomics.wait(nothing, 0, 0, SWITCH_MS);
  const length = readSync(schedstat, line, 0, line.length, 0);
  return Number(line.toString('latin1', 0, length).split(' ')[0]) / 1e6;
}
