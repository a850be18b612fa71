// Goal: whatever a tool does in its thread, its call has exactly one outcome in time, and no other call is affected.
// Method: real threads and the unruly tools of the fixtures. Deadlines follow the machine's clock, or a clock driven by
// hand where a state in between must be held still.
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { TOOL_KILL_MS } from '../../../src/base/bounds.ts';
import { ConfigError } from '../../../src/base/errors.ts';
import { createHostRunner } from '../../../src/tools/host-tools.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import { fixture, HandClock, PoolUnderTest } from '../support.ts';

const open: PoolUnderTest[] = [];
function poolOf(options: ConstructorParameters<typeof PoolUnderTest>[0] = {}): PoolUnderTest {
  const pool = new PoolUnderTest(options);
  open.push(pool);
  return pool;
}
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const under of open.splice(0)) await end(under);
});

/** A pool for all calls that leave their thread as it was. */
const shared = new PoolUnderTest({ threads: 1 });
afterAll(() => end(shared));

async function end(under: PoolUnderTest): Promise<void> {
  await under.pool.close();
  // P1, for every run of every test.
  for (const outcomes of under.outcomes.values()) expect(outcomes).toHaveLength(1);
}

const ADD = { input: { a: 2, b: 3 } };
const WHERE = { place: { kind: 'thread', url: fixture('shared-tools'), exportName: 'where' } } as const;

describe('an orderly tool', () => {
  test('runs in a thread, which starts with the first run', async () => {
    const under = poolOf();
    expect(under.pool.counts().threads).toBe(0);
    expect(await under.runs('add', ADD)).toMatchObject({ content: '5', success: true });
    expect(under.pool.counts()).toEqual({ waiting: 0, running: 0, threads: 1 });
  });

  test('receives session, call id and key', async () => {
    const { content } = await shared.runs('context', { session: 'user-1', callId: 'toolu_1', key: 'k' });
    expect(JSON.parse(content)).toEqual({ session: 'user-1', callId: 'toolu_1', key: 'k' });
  });

  test('F70: its thread has no variable that looks like a secret, except the named ones', async () => {
    for (const name of ['TROUPE_TOKEN', 'X_API_KEY', 'X_PASSWORD_1', 'X_PLAIN']) vi.stubEnv(name, 'here');
    const asked = {
      place: { kind: 'thread', url: fixture('environment-tool'), exportName: 'environment' },
      input: { names: ['TROUPE_TOKEN', 'X_API_KEY', 'X_PASSWORD_1', 'X_PLAIN'] },
    } as const;
    const { content } = await poolOf().runs('environment', asked);
    expect(content).toBe('TROUPE_TOKEN= X_API_KEY= X_PASSWORD_1= X_PLAIN=here');
    const named = await poolOf({ secretEnv: ['X_API_KEY'] }).runs('environment', asked);
    expect(named.content).toBe('TROUPE_TOKEN= X_API_KEY=here X_PASSWORD_1= X_PLAIN=here');
  });

  test('P4: the listener is not called synchronously within run', () => {
    const under = poolOf({ queueMax: 0 });
    const id = under.start('add', ADD);
    expect(under.outcomes.has(id)).toBe(false);
  });

  test('F27: an input that breaks the schema is answered with the path; the tool does not run', async () => {
    const outcome = await shared.runs('add', { input: { a: 'two', b: 3 } });
    expect(outcome.success).toBe(false);
    expect(outcome.content).toContain('$.a');
  });

  test('probe: a defined answer replaces the run, undefined runs the tool', async () => {
    const known = await shared.runs('probed', { mode: 'probe', key: 'k1', input: { known: true } });
    expect(known.content).toBe('probed k1');
    expect((await shared.runs('probed', { mode: 'probe', input: { known: false } })).content).toBe('ran');
  });

  test('progress is coalesced to the last update, values that are not plain are left out', async () => {
    const under = poolOf();
    const id = under.start('linger');
    await under.until(() => under.progress.length > 0);
    expect(under.progress[0]).toEqual({ id, data: { step: 'first' } });
    await under.outcome(id);
    await under.runs('talk');
    expect(under.progress.length).toBeLessThan(10);
  });
});

describe('a thread that dies', () => {
  test('F50: process.exit fails its own call only; the pool is refilled', async () => {
    const under = poolOf({ threads: 1 });
    const ids = [under.start('add', ADD), under.start('exit'), under.start('add', ADD), under.start('add', ADD)];
    const outcomes = await Promise.all(ids.map((id) => under.outcome(id)));
    expect(outcomes.map(({ success }) => success)).toEqual([true, false, true, true]);
    expect(outcomes[1]?.content).toBe('tool worker died: exit code 3');
  });

  test('F51: a tool that runs out of memory fails alone', async () => {
    const under = poolOf({ heapMb: 32 });
    const outcome = await under.runs('leak');
    expect(outcome).toMatchObject({ success: false, content: 'tool worker died: out of memory' });
    expect((await under.runs('add', ADD)).success).toBe(true);
  });

  test('T8: eight exits are answered, with successful calls between them', async () => {
    const under = poolOf();
    const ids = Array.from({ length: 16 }, (_unused, index) =>
      index % 2 === 0 ? under.start('exit') : under.start('add', ADD),
    );
    const outcomes = await Promise.all(ids.map((id) => under.outcome(id)));
    expect(outcomes.filter(({ success }) => success)).toHaveLength(8);
    expect(outcomes.filter(({ content }) => content.startsWith('tool worker died'))).toHaveLength(8);
  });
});

describe('a tool that does not end', () => {
  test('F52: an endless loop is killed after its timeout; its slot is free again, the call beside it is not affected', async () => {
    const under = poolOf({ threads: 2 });
    const spinning = under.start('spin', { timeoutMs: 50 });
    const good = under.start('add', ADD);
    expect((await under.outcome(good)).success).toBe(true);
    const outcome = await under.outcome(spinning);
    expect(outcome.success).toBe(false);
    expect(outcome.content).toBe('Tool "spin" timed out after 0.05 seconds');
    const after = [under.start('add', ADD), under.start('add', ADD)];
    for (const id of after) expect((await under.outcome(id)).success).toBe(true);
  });

  test('F53, F062: a promise that never settles: answered TOOL_KILL_MS after the abort at its timeout, the thread lives', async () => {
    const under = poolOf({ threads: 1 });
    const { content: thread } = await under.runs('where', { ...WHERE, effect: 'pure' });
    const outcome = await under.runs('hang', { timeoutMs: 50 });
    expect(outcome).toMatchObject({ content: 'Tool "hang" timed out after 0.05 seconds', success: false });
    expect(outcome.ms).toBeGreaterThanOrEqual(50 + TOOL_KILL_MS - 1);
    expect((await under.runs('where', { ...WHERE, effect: 'pure' })).content).toBe(thread);
    expect(under.pool.counts()).toEqual({ waiting: 0, running: 0, threads: 1 });
  });

  test('P2: a tool that obeys its signal keeps its thread', async () => {
    const under = poolOf({ threads: 1 });
    await under.runs('add', ADD);
    const outcome = await under.runs('obey', { timeoutMs: 20 });
    expect(outcome.content).toBe('Tool "obey" timed out after 0.02 seconds');
    expect(under.pool.counts().threads).toBe(1);
    expect((await under.runs('add', ADD)).success).toBe(true);
  });

  test('F52: calls sent with an endless loop: those before it are answered while it runs, those behind it run later', async () => {
    const under = poolOf({ threads: 1 });
    const before = [under.start('add', ADD), under.start('add', ADD)];
    const spinning = under.start('spin');
    const behind = [under.start('add', ADD), under.start('exit'), under.start('add', ADD)];
    for (const id of before) expect((await under.outcome(id)).content).toBe('5');
    expect(under.outcomes.has(spinning)).toBe(false);
    under.pool.cancel(spinning, 'enough');
    const after = await Promise.all(behind.map((id) => under.outcome(id)));
    expect(after.map(({ content }) => content)).toEqual(['5', 'tool worker died: exit code 3', '5']);
    expect((await under.outcome(spinning)).content).toBe('enough');
  });

  test('F52: a call sent to a thread behind an endless loop moves to a free thread', async () => {
    const under = poolOf({ threads: 2 });
    const ids = ['spin', 'add', 'add', 'add'].map((name) => under.start(name, name === 'add' ? ADD : {}));
    for (const id of ids.slice(1)) expect((await under.outcome(id)).content).toBe('5');
    const [spinning = 0] = ids;
    expect(under.outcomes.has(spinning)).toBe(false);
    under.pool.cancel(spinning, 'enough');
    await under.outcome(spinning);
  });

  test('P2: the wait for a thread does not count toward the timeout', async () => {
    const under = poolOf({ threads: 1 });
    const spinning = under.start('spin', { timeoutMs: 100 });
    const waiting = under.start('add', { ...ADD, timeoutMs: 10_000 });
    expect((await under.outcome(waiting)).success).toBe(true);
    expect(under.outcomes.has(spinning)).toBe(true);
  });
});

describe('uncaught errors', () => {
  test('F54: a throw in a timer ends its own call', async () => {
    const under = poolOf({ threads: 1 });
    const outcome = await under.runs('throwOutside');
    expect(outcome.content).toBe('{"error":"RangeError: nobody catches this"}');
    expect((await under.runs('add', ADD)).success).toBe(true);
  });

  test('F54: an unhandled rejection ends its own call', async () => {
    const outcome = await poolOf().runs('rejectOutside');
    expect(outcome).toMatchObject({ content: '{"error":"TypeError: nobody awaits this"}', success: false });
  });

  test('F54: a throw after the result is reported once, and affects no later call', async () => {
    const under = poolOf({ threads: 1 });
    for (let round = 0; round < 3; round += 1) {
      expect((await under.runs('throwLate')).content).toBe('fine');
      expect((await under.runs('linger')).content).toBe('lingered');
    }
    await under.until(() => under.noise.length > 0);
    expect(under.noise).toEqual([{ toolName: 'throwLate', message: 'Error: after the result' }]);
    expect(under.pool.counts().threads).toBe(1);
  });

  test('F54: a rejection left over from a call does not fail the next call of its batch', async () => {
    const under = poolOf({ threads: 1 });
    const ids = ['rejectLate', 'linger', 'rejectLate', 'obey'].map((name) => under.start(name, { timeoutMs: 5_000 }));
    const [first = 0, second = 0, third = 0, last = 0] = ids;
    expect((await under.outcome(first)).content).toBe('fine');
    expect((await under.outcome(second)).content).toBe('lingered');
    expect((await under.outcome(third)).content).toBe('fine');
    await under.until(() => under.noise.length > 0);
    under.pool.cancel(last, 'enough');
    expect((await under.outcome(last)).content).toBe('enough');
    expect(under.noise).toEqual([{ toolName: 'rejectLate', message: 'TypeError: left behind' }]);
  });

  test('F54, F058: a thrown value is reported with class and message, a thrown text as text', async () => {
    expect((await shared.runs('throwClass')).content).toBe('{"error":"BrokenPipe: no reader"}');
    expect((await shared.runs('throwText')).content).toBe('{"error":"Error: just text"}');
  });
});

describe('results', () => {
  test('F55: 105 MB are cut in the thread, both ends kept, no code point split', async () => {
    const { content, success } = await poolOf({ resultBytesMax: 10_000 }).runs('huge');
    expect(success).toBe(true);
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(10_000);
    expect(content.startsWith('€€€')).toBe(true);
    expect(content.endsWith('€€€')).toBe(true);
    expect(content).not.toContain('\uFFFD');
  });

  test('F56: a result that is not JSON names its path', async () => {
    const outcome = await shared.runs('functions');
    expect(outcome.success).toBe(false);
    expect(outcome.content).toContain('result not serialisable at $.a.b');
  });

  test('F57: lone surrogates, NUL and terminal sequences do not leave the thread', async () => {
    expect((await shared.runs('text')).content).toBe('ared \uFFFD done\n\tend');
  });
});

describe('cancelling', () => {
  test('a running call is answered with the reason', async () => {
    const under = poolOf();
    const id = under.start('linger');
    await under.until(() => under.progress.length > 0);
    under.pool.cancel(id, 'the user wants attention');
    expect(await under.outcome(id)).toMatchObject({ content: 'the user wants attention', success: false });
  });

  test('a waiting call never runs; an unknown id is ignored', async () => {
    const under = poolOf({ threads: 1 });
    const running = under.start('linger');
    const waiting = under.start('exit');
    under.pool.cancel(waiting, 'not now');
    under.pool.cancel(999, 'nobody');
    expect((await under.outcome(waiting)).content).toBe('not now');
    expect((await under.outcome(running)).content).toBe('lingered');
    expect((await under.runs('add', ADD)).success).toBe(true);
  });

  test('a spinning call is killed, and so is a call that has not begun', async () => {
    const under = poolOf({ threads: 1 });
    const id = under.start('spin');
    under.pool.cancel(id, 'stop');
    under.pool.cancel(id, 'stop again');
    expect((await under.outcome(id)).content).toBe('stop');
    expect((await under.runs('add', ADD)).success).toBe(true);
  });

  test('close answers open calls and later ones', async () => {
    const under = poolOf({ threads: 1 });
    const ids = [under.start('spin'), under.start('add', ADD)];
    await under.pool.close();
    ids.push(under.start('add', ADD));
    for (const id of ids) expect((await under.outcome(id)).success).toBe(false);
    expect(under.pool.counts()).toEqual({ waiting: 0, running: 0, threads: 0 });
  });
});

describe('bounds', () => {
  test('A9: a run beyond the bound fails at once and names the limit', async () => {
    const under = poolOf({ threads: 1, queueMax: 2 });
    const ids = [under.start('add', ADD), under.start('add', ADD), under.start('add', ADD)];
    const outcomes = await Promise.all(ids.map((id) => under.outcome(id)));
    expect(outcomes.map(({ success }) => success)).toEqual([true, true, false]);
    expect(outcomes[2]?.content).toContain('limit');
  });

  test('Q3: the concurrency bound of one tool holds back its later calls, not those of others', async () => {
    const under = poolOf({ threads: 2 });
    const first = under.start('obey', { concurrency: 1 });
    const second = under.start('obey', { concurrency: 1 });
    // The second call is held back and leaves the other thread free; otherwise this call would wait behind it for ever.
    expect((await under.outcome(under.start('add', ADD))).success).toBe(true);
    expect(under.pool.counts()).toMatchObject({ running: 1, waiting: 1 });
    under.pool.cancel(first, 'enough');
    await under.outcome(first);
    await expect.poll(() => under.pool.counts()).toMatchObject({ running: 1, waiting: 0 });
    under.pool.cancel(second, 'enough');
    expect((await under.outcome(second)).content).toBe('enough');
  });
});

describe('describe', () => {
  test('describe finds every exported tool, and nothing else', async () => {
    const found = await shared.pool.describe(fixture('unruly-tools'));
    const names = found.map(({ exportName }) => exportName);
    expect(names).toContain('add');
    expect(names).not.toContain('version');
    const add = found.find(({ exportName }) => exportName === 'add');
    expect(add?.description).toMatchObject({ name: 'add', effect: 'pure', truncate: true, adjustableTimeout: false });
    expect(add?.description.inputSchema).toMatchObject({ type: 'object', required: ['a', 'b'] });
    expect(found.find(({ exportName }) => exportName === 'once')?.description.concurrency).toBe(1);
  });

  test.each([
    ['no-tools', 'exports no tool'],
    ['bad-tool', 'a name is 1 to 128 letters'],
    ['exiting-module', 'exit code 7'],
    ['throwing-module', 'top level'],
    ['missing-module', 'missing-module'],
  ])('%s is refused with ConfigError', async (name, why) => {
    const failure = await shared.pool.describe(fixture(name)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect(String(failure)).toContain(why);
    expect(String(failure)).toContain(name);
  });
});

describe('host tools', () => {
  const host = (run: AnyTool['run']): AnyTool => ({ name: 'here', description: 'd', input: { type: 'object' }, run });
  const place = { place: { kind: 'host', agent: 'writer' }, toolName: 'here' } as const;

  test('run in the process of the runner, without a thread', async () => {
    const tool = host(() => ({ ok: true }));
    const under = poolOf({
      hostRunner: createHostRunner({ find: (agent) => (agent === 'writer' ? tool : undefined), progress: () => {} }),
    });
    expect((await under.runs('here', place)).content).toBe('{"ok":true}');
    expect(under.pool.counts().threads).toBe(0);
  });

  test('P2: a runner that does not answer cannot keep the call beyond its deadline', async () => {
    const clock = new HandClock();
    const aborted: string[] = [];
    const under = poolOf({
      clock,
      hostRunner: {
        run: () => new Promise(() => undefined),
        abort: (_id, reason) => {
          aborted.push(reason);
          return Promise.reject(new Error('the host is gone'));
        },
      },
    });
    const id = under.start('here', { ...place, timeoutMs: 2_000 });
    clock.advance(2_000);
    expect(aborted).toEqual(['Tool "here" timed out after 2 seconds']);
    clock.advance(500);
    expect((await under.outcome(id)).content).toContain('timed out after 2 seconds');
  });

  test('a rejecting runner and an unknown tool give outcomes', async () => {
    const rejecting = poolOf({
      hostRunner: { run: () => Promise.reject(new Error('bridge closed')), abort: () => {} },
    });
    expect((await rejecting.runs('here', place)).content).toBe('Error: bridge closed');
    const unknown = poolOf({ hostRunner: createHostRunner({ find: () => undefined, progress: () => {} }) });
    expect((await unknown.runs('here', place)).content).toBe('Unknown tool: here');
  });
});
