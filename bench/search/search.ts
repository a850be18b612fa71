/**
 * The search over all sessions of a large store: building the index, searching, opening the store again. `node --import
 * ./test/loader/register.mjs bench/search/search.ts --messages 1000000 [--each 100] [--queries 1000] [--threads 0]
 * [--directory <kept>]`. Prints one JSON object.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { agent, open, type Runtime } from '../../src/index.ts';
import { searchOf } from '../../src/runtime/handles/runtime.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { search_messages } from '../../src/tools/built-in/index.ts';
import { diskBytes } from '../disk.ts';
import { describeRun } from '../machine.ts';
import { randomNumbers } from '../random.ts';
import { withDirectory } from '../systems/open-system.ts';
import { buildSearchStore, VOCABULARY_WORDS, wordAt, zipfRanks } from './search-store.ts';

const SEED = 7;
const LIMIT = 5;
const WORDS_MAX = 4;
const CONTROL_MS = 5_000;
const MIB = 1_024 ** 2;

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '50000' },
    each: { type: 'string', default: '100' },
    queries: { type: 'string', default: '1000' },
    threads: { type: 'string', default: '0' },
    directory: { type: 'string' },
  },
});
const messages = Number(values.messages);
const queries = Number(values.queries);
const sessions = Number(values.threads);

const report =
  values.directory === undefined
    ? await withDirectory((directory) => measure(join(directory, 'store')))
    : await measure(values.directory);
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);

async function measure(directory: string): Promise<object> {
  const {
    transport: _transport,
    durability: _durability,
    ...run
  } = await describeRun({ seed: SEED, command: process.argv.slice(2).join(' '), notes: [] });
  const storeStart = performance.now();
  const isThere = existsSync(directory);
  if (!isThere) await buildSearchStore(directory, { messages, messagesEach: Number(values.each), seed: SEED });
  const storeMs = performance.now() - storeStart;
  const first = await opened(directory);
  const control = await blocks(() => sleep(CONTROL_MS));
  const before = memory();
  const build = await blocks(() => untilComplete(first));
  const built = { ...memory(), index: await searchOf(first)?.statistics() };
  const frequent = await blocks(() => ask(first, zipfRanks(SEED + 2)));
  const uniform = randomNumbers(SEED + 3);
  const rare = await blocks(() => ask(first, () => uniform(VOCABULARY_WORDS)));
  const after = memory();
  await first.close();
  const disk = {
    storeMib: mib(await diskBytes(directory)),
    searchMib: mib(await diskBytes(join(directory, 'search'))),
  };
  const second = await opened(directory);
  const reopen = await blocks(() => untilComplete(second));
  const reopened = memory();
  await second.close();
  return {
    ...run,
    messages,
    sessionThreads: sessions,
    storeMs: isThere ? undefined : Math.round(storeMs),
    control,
    before,
    build,
    built,
    frequent,
    rare,
    after,
    disk,
    reopen,
    reopened,
  };
}

function opened(directory: string): Promise<Runtime> {
  return open(directory, {
    provider: scripted(() => 'noted'),
    agents: [agent({ name: 'main', tools: [search_messages] })],
    threads: { sessions, models: 0, tools: 1 },
  });
}

/** Searches until the index covers all messages. */
async function untilComplete(runtime: Runtime): Promise<object> {
  const search = searchOf(runtime);
  for (;;) {
    const answer = await search?.search(wordAt(1_000), { limit: LIMIT });
    if (answer === undefined || answer.isComplete) return { messages: answer?.messages, found: answer?.found.length };
  }
}

/** Times of queries of one to four words, one after another; ms. */
async function ask(runtime: Runtime, rank: () => number): Promise<object> {
  const search = searchOf(runtime);
  const chance = randomNumbers(SEED + 4);
  const times: number[] = [];
  let hits = 0;
  for (let query = 0; query < queries; query += 1) {
    const text = Array.from({ length: 1 + chance(WORDS_MAX) }, () => wordAt(rank())).join(' ');
    const startedAt = performance.now();
    const answer = await search?.search(text, { limit: LIMIT });
    times.push(performance.now() - startedAt);
    if ((answer?.found.length ?? 0) > 0) hits += 1;
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => round(times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0);
  return { queries, withResults: hits, p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs: at(1) };
}

/** The result of `work`, its duration, and the time for which it blocked the event loop of this thread. */
async function blocks(work: () => Promise<object | undefined>): Promise<object> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const startedAt = performance.now();
  const result = await work();
  const tookMs = Math.round(performance.now() - startedAt);
  delay.disable();
  const loop = {
    p99Ms: round(delay.percentile(99) / 1e6),
    p999Ms: round(delay.percentile(99.9) / 1e6),
    maxMs: round(delay.max / 1e6),
  };
  return { ...result, tookMs, loop };
}

function memory(): object {
  globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return { rssMib: mib(rss), heapMib: mib(heapUsed), externalMib: mib(external) };
}

function mib(bytes: number): number {
  return round(bytes / MIB);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
