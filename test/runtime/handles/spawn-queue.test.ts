/** Goal: children beyond `subagents.maxActive` wait in order, durably, and each runs once (G35). */
import { describe, expect, test } from 'vitest';
import { agent, type Runtime } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, type GatedCall, gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

describe.each(MATRIX)('with threads %o', (threads) => {
  test('D10, G35: 500 spawns at a cap of 20 all run, in order, never more than 20 at once', async () => {
    const started: string[] = [];
    let running = 0;
    let most = 0;
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', subagents: { maxActive: 20 } })],
      provider: scripted(async (_request, { session }) => {
        if (session === 'p') return 'ok';
        started.push(session);
        running += 1;
        most = Math.max(most, running);
        await Promise.resolve();
        running -= 1;
        return 'done';
      }),
    });
    const tasks = Array.from({ length: 500 }, (_none, index) => ({ task: `t${index}`, replies: 'handle' as const }));
    const family = await runtime.session('p').spawnAll(tasks);
    const results = await family.all();
    expect(results.every(({ reply }) => reply === 'done')).toBe(true);
    expect(most).toBeLessThanOrEqual(20);
    const numbers = started.map((id) => Number(id.slice(2)));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(numbers).toHaveLength(500);
  });

  test('Δ27, G35: a child beyond maxActive waits, says so, and starts when another has ended', async () => {
    const model = gatedModel();
    const agents = [agent({ name: 'boss', subagents: { spawn: true, maxActive: 1 } })];
    const runtime = await kit.open({ threads, agents, provider: model.provider });
    await runtime.session('p').send('Go');
    const both = ['c1', 'c2'].map((id) => ({ name: 'spawn_subagent', input: { task: id }, id }));
    (await model.next()).answer({ toolUse: both });
    const calls = bySession([await model.next(), await model.next()]);
    expect(JSON.stringify(calls['p']?.request.messages.at(-1)?.content)).toContain('It starts when one of the others');
    expect(await runtime.session('p:2').explain()).toMatchObject({
      reason: 'queued',
      detail: expect.stringContaining('maxActive'),
    });
    calls['p:1']?.answer('Found.');
    const next = await model.next();
    expect(next.session).toBe('p:2');
    next.answer('Found too.');
    calls['p']?.answer('Both are at it.');
    // The replies of both children reach the parent.
    for (let count = 0; count < 2; count += 1) {
      const call = await Promise.race([model.next(), runtime.drain()]);
      if (call !== undefined) call.answer('Thanks.');
    }
    await runtime.drain();
    expect(model.calls.filter(({ session }) => session === 'p:2')).toHaveLength(1);
  });

  test('G35: the line survives a restart; a deleted child leaves it; an interrupt of the parent empties it', async () => {
    const directory = await kit.directory();
    const agents = [agent({ name: 'a', subagents: { maxActive: 1 } })];
    const first = gatedModel();
    const before = await kit.open({ directory, threads, agents, provider: first.provider });
    for (const key of ['one', 'two', 'three', 'four']) await before.session('p').spawn(taskOf(key), { key });
    expect((await first.next()).session).toBe('p:1');
    await before.close({ deadlineMs: 0 });

    const second = gatedModel();
    const runtime = await kit.open({ directory, threads, agents, provider: second.provider });
    expect((await second.next()).session).toBe('p:1');
    expect(await reasons(runtime)).toEqual(['waiting_for_model', 'queued', 'queued', 'queued']);
    expect(await statuses(runtime)).toEqual(['running', 'queued', 'queued', 'queued']);
    expect((await runtime.sessions.list({ status: 'queued' })).map(({ id }) => id).sort()).toEqual([
      'p:2',
      'p:3',
      'p:4',
    ]);
    expect(await runtime.session('p:2').state()).toMatchObject({ state: 'idle', status: 'queued' });
    await runtime.sessions.delete('p:2');
    await runtime.sessions.delete('p:1');
    expect((await second.next()).session).toBe('p:3');
    await runtime.session('p').interrupt();
    const last = await runtime.session('p').spawn(taskOf('four'), { key: 'four' });
    expect([last.id, (await last.exit()).reason]).toEqual(['p:4', 'cancelled']);
    expect(second.calls.map(({ session }) => session)).toEqual(['p:1', 'p:3']);
    await runtime.close();
  });
});

test('A9, G35: beyond limits.spawnsWaiting a spawn is refused, and creates nothing', async () => {
  const model = gatedModel();
  const agents = [agent({ name: 'a', subagents: { maxActive: 1 } })];
  const runtime = await kit.open({ agents, limits: { spawnsWaiting: 1 }, provider: model.provider });
  const parent = runtime.session('p');
  for (const task of ['one', 'two']) await parent.spawn({ task });
  expect(await failure(parent.spawn({ task: 'three' }))).toMatchObject({
    code: 'limit',
    data: { limit: 'spawnsWaiting', value: 1 },
    message: expect.stringContaining('limits.spawnsWaiting'),
  });
  expect((await parent.state()).children).toHaveLength(2);
});

function taskOf(task: string) {
  return { task, replies: 'handle' } as const;
}

function bySession(calls: readonly GatedCall[]): Readonly<Record<string, GatedCall>> {
  return Object.fromEntries(calls.map((call) => [call.session, call]));
}

async function statuses(runtime: Runtime): Promise<readonly string[]> {
  return (await runtime.sessions.list({ parent: 'p', order: 'id' })).map(({ status }) => status);
}

async function reasons(runtime: Runtime): Promise<readonly string[]> {
  const ids = ['p:1', 'p:2', 'p:3', 'p:4'];
  return await Promise.all(ids.map(async (id) => (await runtime.session(id).explain()).reason));
}
