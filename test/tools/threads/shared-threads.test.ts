// Goal: calls run side by side on real tool threads; a tool that holds the loop of a thread, or ends it, fails alone.
// Method: tools that wait for each other on one thread, and tools that spin, exit or leak beside them.
import { afterEach, describe, expect, test } from 'vitest';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import type { ToolRun } from '../../../src/tools/pool.ts';
import type { Effect } from '../../../src/tools/tool.ts';
import { fixture, PoolUnderTest } from '../support.ts';

const open: PoolUnderTest[] = [];
function poolOf(options: ConstructorParameters<typeof PoolUnderTest>[0] = {}): PoolUnderTest {
  const pool = new PoolUnderTest({ threads: 1, ...options });
  open.push(pool);
  return pool;
}
afterEach(async () => {
  for (const under of open.splice(0)) {
    await under.pool.close();
    // P1, for every run of every test.
    for (const outcomes of under.outcomes.values()) expect(outcomes).toHaveLength(1);
  }
});

/** Starts a call of the shared tools; `pure` unless the options say otherwise. */
function start(under: PoolUnderTest, exportName: string, options: Partial<ToolRun> = {}): number {
  const place = { kind: 'thread', url: fixture('shared-tools'), exportName } as const;
  return under.start(exportName, { effect: 'pure', place, ...options });
}

async function runs(under: PoolUnderTest, exportName: string, options: Partial<ToolRun> = {}): Promise<string> {
  return (await under.outcome(start(under, exportName, options))).content;
}

/** Calls of each effect that have begun on the first thread and end only on another one. `once` shares by its bound. */
async function innocents(under: PoolUnderTest): Promise<ReadonlyMap<Effect, number>> {
  const first = Number(await runs(under, 'where'));
  const ids = new Map<Effect, number>();
  for (const effect of ['pure', 'keyed', 'probe', 'once'] as const) {
    const shared = effect === 'once' ? { concurrency: 8 } : {};
    ids.set(effect, start(under, 'patient', { effect, input: { first }, ...shared }));
  }
  await under.until(() => under.progress.length === ids.size);
  return ids;
}

async function contents(under: PoolUnderTest, ids: ReadonlyMap<Effect, number>): Promise<Record<string, string>> {
  const told: Record<string, string> = {};
  for (const [effect, id] of ids) {
    const key = `key-${id}`;
    told[effect] = (await under.outcome(id)).content.replace(key, 'its key');
  }
  return told;
}

const REPEATED = {
  pure: 'again with its key',
  keyed: 'again with its key',
  probe: 'probed its key',
  once: OUTCOME_UNKNOWN,
};

describe('many calls on a thread', () => {
  test('calls that were sent together and calls that come later run side by side', async () => {
    const under = poolOf();
    const meeting = { input: { gate: 'all', count: 3 } };
    const ids = [start(under, 'meet', meeting), start(under, 'meet', meeting)];
    await under.until(() => under.progress.length === 2);
    ids.push(start(under, 'meet', meeting));
    const outcomes = await Promise.all(ids.map((id) => under.outcome(id)));
    expect(new Set(outcomes.map(({ content }) => content)).size).toBe(1);
    expect(under.pool.counts()).toEqual({ waiting: 0, running: 0, threads: 1 });
  });

  test('Q3: as many as a tool states, beyond the default too', async () => {
    const under = poolOf();
    const meeting = { input: { gate: 'many', count: 100 }, concurrency: 100 };
    const ids = Array.from({ length: 100 }, () => start(under, 'meet', meeting));
    for (const id of ids) expect((await under.outcome(id)).success).toBe(true);
  });

  test('R8: calls of a `once` tool run one after another on a thread, beside no other call', async () => {
    const under = poolOf();
    const waiting = start(under, 'ignore', { effect: 'once' });
    await under.until(() => under.progress.length > 0);
    const second = start(under, 'where', { effect: 'once' });
    const third = start(under, 'where');
    under.pool.cancel(waiting, 'enough');
    for (const id of [second, third]) expect((await under.outcome(id)).success).toBe(true);
    expect(under.outcomes.get(waiting)?.[0]?.content).toBe('enough');
  });

  test('synchronous calls spread over the threads', async () => {
    const under = poolOf({ threads: 2 });
    const spinning = start(under, 'spinAtOnce');
    for (let n = 0; n < 5; n += 1) expect((await under.outcome(start(under, 'where'))).success).toBe(true);
    expect(under.outcomes.has(spinning)).toBe(false);
    under.pool.cancel(spinning, 'enough');
    expect((await under.outcome(spinning)).content).toBe('enough');
  });
});

describe('deadlines', () => {
  test('R2: a call that ignores its signal is answered at its deadline; the calls beside it are not affected', async () => {
    const under = poolOf();
    const meeting = { input: { gate: 'around', count: 2 } };
    const first = start(under, 'meet', meeting);
    const ignoring = await under.outcome(start(under, 'ignore', { timeoutMs: 20 }));
    expect(ignoring.content).toBe('Tool "ignore" timed out after 0.02 seconds');
    const second = start(under, 'meet', meeting);
    const [a, b] = await Promise.all([under.outcome(first), under.outcome(second)]);
    expect(a.content).toBe(b.content);
  });
});

describe('a thread that ends', () => {
  test('F52, R6: a tool that spins at once fails alone; the calls beside it begin again as their effects allow', async () => {
    const under = poolOf();
    const ids = await innocents(under);
    const spinning = start(under, 'spinAtOnce', { timeoutMs: 50 });
    expect(await contents(under, ids)).toEqual(REPEATED);
    expect((await under.outcome(spinning)).content).toBe('Tool "spinAtOnce" timed out after 0.05 seconds');
  });

  test('F52, R6: a tool that spins later is found by its second run, which has a thread alone', async () => {
    const under = poolOf({ threads: 2 });
    // The first call goes to one thread, the innocent ones and the spinning one to both.
    const ids = await innocents(under);
    const spinning = start(under, 'spinLater', { timeoutMs: 100 });
    expect(await under.outcome(spinning)).toMatchObject({
      content: 'Tool "spinLater" timed out after 0.1 seconds',
      success: false,
    });
    for (const id of ids.values()) under.pool.cancel(id, 'enough');
  });

  test('F52, R6: a tool that spins later, beside others on its thread: only it fails', async () => {
    const under = poolOf();
    const ids = await innocents(under);
    const spinning = start(under, 'spinLater', { timeoutMs: 100 });
    expect(await contents(under, ids)).toEqual(REPEATED);
    expect((await under.outcome(spinning)).content).toBe('Tool "spinLater" timed out after 0.1 seconds');
  });

  test('F50, R6: a call that ends the thread is known, also from a timer', async () => {
    const under = poolOf();
    const ids = await innocents(under);
    const exiting = start(under, 'exitLater');
    expect(await contents(under, ids)).toEqual(REPEATED);
    expect((await under.outcome(exiting)).content).toBe('tool worker died: exit code 4');
  });

  test('F51, R6: a tool that runs out of memory from a timer fails alone', async () => {
    const under = poolOf({ heapMb: 64 });
    const ids = await innocents(under);
    const leaking = start(under, 'leakLater');
    expect(await contents(under, ids)).toEqual(REPEATED);
    expect((await under.outcome(leaking)).content).toBe('tool worker died: out of memory');
  });

  test('R6: a spinning `once` call takes only itself', async () => {
    const under = poolOf();
    const waiting = start(under, 'meet', { input: { gate: 'one', count: 1 } });
    const spinning = start(under, 'spinAtOnce', { effect: 'once', timeoutMs: 50 });
    const after = start(under, 'where');
    expect((await under.outcome(waiting)).success).toBe(true);
    expect((await under.outcome(spinning)).content).toBe('Tool "spinAtOnce" timed out after 0.05 seconds');
    expect((await under.outcome(after)).success).toBe(true);
  });
});

describe('uncaught errors', () => {
  test('F54: an error outside every call is that of the only call that runs', async () => {
    const under = poolOf();
    expect(await runs(under, 'throwNative')).toBe('{"error":"Error: from no call"}');
  });

  test('F54: with several calls on the thread it fails none of them, and is reported', async () => {
    const under = poolOf();
    const waiting = start(under, 'ignore');
    await under.until(() => under.progress.length > 0);
    const throwing = start(under, 'throwNative');
    await under.until(() => under.noise.length > 0);
    expect(under.noise).toEqual([{ toolName: '', message: 'Error: from no call' }]);
    expect(under.outcomes.size).toBe(0);
    for (const id of [waiting, throwing]) under.pool.cancel(id, 'enough');
    for (const id of [waiting, throwing]) expect((await under.outcome(id)).content).toBe('enough');
  });
});
