// Goal: a call whose result is lost while its thread lives is answered at its deadline. A call that still waits or runs
// is not answered. Method: a shard over a tool pool under the test's control, a manual clock, and the log.
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { CALL_CHECK_GRACE_MS } from '../../../src/base/bounds.ts';
import { agent, tool } from '../../../src/index.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import type { ToolPool, ToolPoolListener, ToolRun } from '../../../src/tools/pool.ts';
import { eventually } from '../../support/runtime-kit.ts';
import { openShard, type ShardOptions, type TestShard } from '../../support/shard-kit.ts';

const TIMEOUT_MS = 2_000;
/** The time of the first check of a round's calls. */
const CHECK_MS = TIMEOUT_MS + CALL_CHECK_GRACE_MS;
const LOST = 'The call of act timed out after 2 seconds without a result. It may have taken effect.';

/** A pool that holds its calls until the test releases them. */
class HandPool implements ToolPool {
  readonly runs: ToolRun[] = [];
  readonly held = new Set<number>();
  readonly cancelled: number[] = [];
  /** How often the shard asked for the calls that the pool holds. */
  asked = 0;
  readonly #listener: ToolPoolListener;

  constructor(listener: ToolPoolListener) {
    this.#listener = listener;
  }

  run(run: ToolRun): void {
    this.runs.push(run);
    this.held.add(run.id);
  }

  cancel(id: number): void {
    this.cancelled.push(id);
    this.held.delete(id);
  }

  holds(id: number): boolean {
    this.asked += 1;
    return this.held.has(id);
  }

  /** Answers a call. */
  finish(callId: string): void {
    const id = this.#idOf(callId);
    this.held.delete(id);
    this.#listener.finished(id, { content: `result of ${callId}`, success: true, ms: 1 });
  }

  /** Sends the call's answer, which never arrives. */
  lose(callId: string): void {
    this.held.delete(this.#idOf(callId));
  }

  #idOf(callId: string): number {
    return this.runs.find((run) => run.callId === callId)?.id ?? 0;
  }

  describe(): Promise<readonly never[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const act = tool({
  name: 'act',
  description: 'Acts.',
  input: z.object({}),
  effect: 'keyed',
  timeoutMs: TIMEOUT_MS,
  run: () => 'done',
});

const rounds: Round[] = [];
afterEach(async () => {
  for (const each of rounds.splice(0)) await close(each);
});

/** Closing cancels the calls in flight as soon as time moves. */
async function close({ shard, clock }: Round): Promise<void> {
  const closing = shard.close();
  await clock.advance(1);
  await closing;
}

/** A model that makes these calls at once, and then says that it is over. */
function asking(ids: readonly string[]): ModelProvider {
  const asks = { toolUse: ids.map((id) => ({ name: 'act', input: {}, id })) };
  return scripted((_request, { call }) => (call === 0 ? asks : 'Over.')) as ModelProvider;
}

interface Round {
  readonly shard: TestShard;
  readonly pool: HandPool;
  readonly clock: ManualClock;
}

/** A session `s` whose model makes these calls at once and then says that it is over; the pool has all of them. */
async function round(
  ids: readonly string[],
  options: Partial<ShardOptions> & { approve?: boolean } = {},
): Promise<Round> {
  const clock = manualClock();
  const pools: HandPool[] = [];
  const { approve, ...rest } = options;
  const shard = openShard({
    provider: asking(ids),
    agents: [agent({ name: 'a', tools: [act], ...(approve === true ? { approve: ['act'] } : {}) })],
    clock,
    makeToolPool: (listener) => {
      const pool = new HandPool(listener);
      pools.push(pool);
      return pool;
    },
    ...rest,
  });
  const [pool] = pools;
  if (pool === undefined) throw new Error('the shard made no pool');
  rounds.push({ shard, pool, clock });
  await shard.call('session.send', { session: 's', agent: 'a', content: 'Go' });
  if (approve !== true) await eventually(() => pool.runs.length === ids.length);
  else await eventually(() => shard.events.some(({ type }) => type === 'approval.required'));
  return { shard, pool, clock };
}

async function results(shard: TestShard): Promise<readonly unknown[]> {
  const messages = await shard.call('session.messages', { session: 's' });
  return messages.filter(({ type }) => type === 'tool_response').map(({ content }) => content);
}

const isOver = (shard: TestShard): boolean => shard.events.some(({ type }) => type === 'turn.finished');

test('F065, W2: a call whose result was lost is answered at its deadline, not before, and the turn continues', async () => {
  const { shard, pool, clock } = await round(['a', 'b']);
  pool.lose('a');
  pool.finish('b');
  await clock.advance(CHECK_MS - 1);
  expect(await results(shard)).toEqual([]);
  expect(shard.counters().toolCallsRunning).toBe(1);
  await clock.advance(1);
  await eventually(() => isOver(shard));
  expect([...(await results(shard))].sort()).toEqual([LOST, 'result of b']);
  expect(shard.counters().toolCallsRunning).toBe(0);
  expect(shard.events.filter(({ type }) => type === 'tool.finished')).toHaveLength(2);
});

test('F063, A5: a result that comes after its call was answered is dropped, and the call has one answer', async () => {
  const { shard, pool, clock } = await round(['a']);
  pool.lose('a');
  await clock.advance(CHECK_MS);
  await eventually(() => isOver(shard));
  pool.finish('a');
  await clock.advance(1);
  expect(await results(shard)).toEqual([LOST]);
});

test('W2: a waiting or running call is never answered as lost; a lost call is found at its next deadline', async () => {
  const { shard, pool, clock } = await round(['a']);
  await clock.advance(10 * CHECK_MS);
  expect(pool.asked).toBe(10);
  expect(pool.cancelled).toEqual([]);
  expect(await results(shard)).toEqual([]);
  pool.lose('a');
  await clock.advance(CHECK_MS);
  await eventually(() => isOver(shard));
  expect(await results(shard)).toEqual([LOST]);
});

test('W2: a lost call frees its slot, and the call that waited for the slot runs', async () => {
  const ids = Array.from({ length: 33 }, (_unused, n) => `c${n}`);
  const { shard, pool, clock } = await round(ids.slice(0, 32), { provider: asking(ids) });
  expect(pool.runs).toHaveLength(32);
  pool.lose('c7');
  await clock.advance(CHECK_MS);
  await eventually(() => pool.runs.length === 33);
  for (const id of ids) if (id !== 'c7') pool.finish(id);
  await eventually(() => isOver(shard));
  expect(await results(shard)).toHaveLength(33);
});

test('W2: the time a call waits for an approval does not count', async () => {
  const { shard, pool, clock } = await round(['a'], { approve: true });
  await clock.advance(100 * CHECK_MS);
  expect(pool.asked).toBe(0);
  await shard.call('session.approve', { session: 's', callId: 'a', allow: true });
  await eventually(() => pool.runs.length === 1);
  await clock.advance(CHECK_MS - 1);
  expect(pool.asked).toBe(0);
  pool.lose('a');
  await clock.advance(1);
  await eventually(() => isOver(shard));
  expect(await results(shard)).toEqual([LOST]);
});

test('W2: a call that starts after a slow flush is not treated as lost too early', async () => {
  let isSlow = false;
  const writes: (() => void)[] = [];
  const { shard, pool, clock } = await round(['a'], {
    device: () => (isSlow ? new Promise<void>((resolve) => writes.push(resolve)) : Promise.resolve()),
    approve: true,
  });
  isSlow = true;
  const approved = shard.call('session.approve', { session: 's', callId: 'a', allow: true });
  await eventually(() => writes.length === 1);
  await clock.advance(3 * CHECK_MS);
  expect(shard.events.filter(({ type }) => type === 'tool.finished')).toEqual([]);
  isSlow = false;
  writes[0]?.();
  await approved;
  await eventually(() => pool.runs.length === 1);
  pool.finish('a');
  await eventually(() => isOver(shard));
  expect(await results(shard)).toEqual(['result of a']);
});

test.each(['session.interrupt', 'sessions.delete'] as const)(
  'W1: %s ends the wait, and the pool is not asked any more',
  async (method) => {
    const { shard, pool, clock } = await round(['a']);
    pool.lose('a');
    await shard.call(method, { session: 's' });
    await clock.advance(3 * CHECK_MS);
    expect(pool.asked).toBe(0);
  },
);

test('W1: the end of a shard ends the wait', async () => {
  const { pool, clock, ...rest } = await round(['a']);
  pool.lose('a');
  await close({ pool, clock, ...rest });
  await clock.advance(3 * CHECK_MS);
  expect(pool.asked).toBe(0);
  expect(clock.pending).toBe(0);
});
