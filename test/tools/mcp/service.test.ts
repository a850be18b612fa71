/**
 * Goal: a call of an MCP server settles exactly once, whatever happens to the server, and no process is left. Method:
 * real processes that record their effects in a file, and kill or stop themselves in the middle of a call.
 */
import { describe, expect, test, vi } from 'vitest';
import { MCP_CALL_WAIT_MS, MCP_CALLS_CHARACTERS_MAX, MCP_CALLS_MAX } from '../../../src/base/bounds.ts';
import { eventually } from '../../support/eventually.ts';
import { isAlive } from '../../support/processes.ts';
import { effectsKit, servicesKit, textOf } from './support.ts';

const effects = effectsKit();
const serving = servicesKit();

describe.each([[], ['--era', 'legacy']])('over stdio %s %s', (...args) => {
  test('tools have the effect of their hints; results have their blocks', async () => {
    const { lists, call } = await serving({ s: (await effects()).process(...args) });
    expect(await textOf(call('pay', { id: '1' }))).toBe('pay 1 done');
    const tools = new Map(lists[0]?.tools.map(({ name, description }) => [name, description]));
    expect(['read', 'put', 'pay'].map((name) => tools.get(name)?.effect)).toEqual(['pure', 'keyed', 'once']);
    expect(tools.get('read')).toMatchObject({ name: 's__read', inputSchema: { required: ['id'] } });
    const picture = await call('picture');
    const blocks = 'blocks' in picture ? picture.blocks : [];
    expect(blocks.map(({ type }) => type)).toEqual(['text', 'image', 'text']);
    expect(blocks[0]).toEqual({ type: 'text', text: 'a pixel\nin blue' });
    expect(blocks[2]).toEqual({ type: 'text', text: '[resource: file:///a.txt, a.txt]\n[audio: audio/wav]' });
    expect(await textOf(call('numbers'))).toBe('{"sum":3}');
    expect(await call('refuse')).toMatchObject({ isError: true, blocks: [{ text: 'not today' }] });
    expect(await call('pay', { id: 7 })).toMatchObject({ isError: true });
  });

  test('a server that dies in a call: pure and keyed calls run again, a once call does not', async () => {
    for (const [tool, effect] of [
      ['read_and_die', 'pure'],
      ['put_and_die', 'keyed'],
    ] as const) {
      const recorded = await effects();
      const { call } = await serving({ s: recorded.process(...args) });
      expect(await textOf(call(tool, { id: '1' }, { effect }))).toContain('1 done');
      expect((await recorded.pids()).length).toBe(2);
    }
    const recorded = await effects();
    const { call } = await serving({ s: recorded.process(...args) });
    expect(await call('pay_and_die', { id: '1' })).toMatchObject({ isError: true });
    expect(await textOf(call('pay_and_die', { id: '2' }))).toBe('pay 2 done');
    expect((await recorded.lines()).filter((line) => line.startsWith('pay'))).toEqual(['pay 1', 'pay 2']);
  });
});

test('K4: after close no process is left, also of a server that was started by another program', async () => {
  const recorded = await effects();
  const { command, args = [], env = {} } = recorded.process();
  const wrapped = { command: 'sh', args: ['-c', '"$@"; true', 'sh', command, ...args], env };
  const { service, call } = await serving({ s: wrapped });
  await call('read', { id: '1' });
  const pids = await recorded.pids();
  expect(pids.map(isAlive)).toEqual([true]);
  await service.close();
  expect(pids.map(isAlive)).toEqual([false]);
});

test('K3: a frozen server is found by the call that is given up, ended, and started again', async () => {
  const recorded = await effects();
  const { call } = await serving({ s: recorded.process() });
  const controller = new AbortController();
  const frozen = call('freeze', { id: '1' }, { effect: 'pure' }, controller.signal);
  await eventually(async () => (await recorded.lines()).includes('freeze 1'));
  controller.abort(new Error('timed out'));
  await expect(frozen).rejects.toThrow('timed out');
  // This call meets the frozen process, and is answered by the next one.
  expect(await textOf(call('read', { id: '2' }, { effect: 'pure' }))).toBe('read 2 done');
  const [first = 0, ...others] = await recorded.pids();
  expect(others.length).toBe(1);
  expect(isAlive(first)).toBe(false);
}, 30_000);

test('a cancelled call is cancelled at the server; its progress is forwarded', async () => {
  const recorded = await effects();
  const { service } = await serving({ s: recorded.process() });
  const controller = new AbortController();
  const progressed: unknown[] = [];
  const waiting = service.call(
    { server: 's', tool: 'wait', input: { id: '1' }, effect: 'pure', key: 'k' },
    { signal: controller.signal, progress: (data) => progressed.push(data) },
  );
  await eventually(() => progressed.length > 0);
  expect(progressed).toEqual([{ progress: 1, total: 2 }]);
  controller.abort(new Error('interrupted'));
  await expect(waiting).rejects.toThrow('interrupted');
  await eventually(async () => (await recorded.lines()).includes('cancelled 1'));
});

test('a server that cannot be started is reported once, with its error output, and its calls fail', async () => {
  const { warnings, call, service } = await serving({ s: { command: 'no-such-program' } });
  await eventually(() => warnings.length > 0);
  expect(warnings).toEqual([expect.stringMatching(/^s: .*exit code 127.*not found/s)]);
  const waiting = call('read', { id: '1' });
  await service.close();
  await expect(waiting).rejects.toMatchObject({ code: 'cancelled' });
});

test('K1: a call waits for a connection for a bounded time, and a bounded number of calls wait', async () => {
  const { call, warnings, service } = await serving({ s: { command: 'no-such-program' } });
  await eventually(() => warnings.length > 0);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const waiting = call('read', { id: '1' });
    vi.advanceTimersByTime(MCP_CALL_WAIT_MS);
    await expect(waiting).rejects.toThrow(/"s" is not available: .*127/s);
  } finally {
    vi.useRealTimers();
  }
  const large = call('read', { id: 'x'.repeat(MCP_CALLS_CHARACTERS_MAX) });
  await expect(large).rejects.toMatchObject({ code: 'limit', data: { limit: 'mcpCalls' } });
  const ends = Promise.allSettled(Array.from({ length: MCP_CALLS_MAX }, () => call('read', { id: '1' })));
  await expect(call('read', { id: '1' })).rejects.toMatchObject({ code: 'limit', data: { limit: 'mcpCalls' } });
  await service.close();
  expect((await ends).every(({ status }) => status === 'rejected')).toBe(true);
});

test('a process has no secrets of this one, and has those that it is given', async () => {
  process.env['MCP_TEST_TOKEN'] = 'hidden';
  process.env['MCP_TEST_PLACE'] = 'shown';
  try {
    const { command, args = [], env = {} } = (await effects()).process();
    const { call } = await serving({ s: { command, args, env: { ...env, GIVEN_TOKEN: 'given' } } });
    const named = (name: string): Promise<unknown> => textOf(call('environment', { name }));
    expect(await named('MCP_TEST_TOKEN')).toBe('not set');
    expect(await named('MCP_TEST_PLACE')).toBe('shown');
    expect(await named('GIVEN_TOKEN')).toBe('given');
  } finally {
    delete process.env['MCP_TEST_TOKEN'];
    delete process.env['MCP_TEST_PLACE'];
  }
});

test('T3: a server that sends too large a message is ended; the next call has the next process', async () => {
  const recorded = await effects();
  const { call } = await serving({ s: recorded.process() });
  expect(await call('large', { bytes: 11 * 1024 * 1024 })).toMatchObject({ isError: true });
  expect(await textOf(call('read', { id: '1' }))).toBe('read 1 done');
  expect((await recorded.pids()).length).toBe(2);
});

test('a changed list of tools is published; a server that is no longer defined is ended', async () => {
  const recorded = await effects();
  const { call, lists, service } = await serving({ s: recorded.process() });
  await call('learn');
  await eventually(() => lists.at(-1)?.tools.some(({ name }) => name === 'learned') === true);
  await service.configure({});
  await expect(call('read', { id: '1' })).rejects.toThrow('there is no MCP server "s"');
  await eventually(async () => (await recorded.pids()).every((pid) => !isAlive(pid)));
});
