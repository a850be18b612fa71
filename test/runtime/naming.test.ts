/**
 * Goal: a sub-agent without a name gets one from Melete before its first half-step. If naming fails, the sub-agent
 * begins under the name `agent-N`.
 */
import { describe, expect, test } from 'vitest';
import { agent } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ReplyFunction } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/index.ts';
import { type GatedCall, gatedModel, history, log, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const MELETE = 'claude-haiku-4-5';
const enrichers = { melete: { model: MELETE } };
const agents = [agent({ name: 'main', subagents: { spawn: true } })];
const call = (name: string, input: Readonly<Record<string, unknown>> = {}): Reply => ({ toolUse: { name, input } });
const SPAWN = call('spawn_subagent', { task: 'read the proofs' });
const nickname = (given: string): Reply => call('assign_nickname', { nickname: given });
const isNaming = (request: ModelRequest): boolean =>
  request.tools?.some(({ name }) => name === 'assign_nickname') === true;

/**
 * The parent spawns in its first half-step and then needs no more than the child's message. A child says `done`; Melete
 * makes the replies of `names`.
 */
function model(names: readonly Reply[], seen: ModelRequest[] = []): ReplyFunction {
  const steps = new Map<string, number>();
  return (request, { session }) => {
    if (isNaming(request)) {
      seen.push(request);
      const step = request.messages.length === 1 ? 0 : (steps.get(session) ?? 0);
      steps.set(session, step + 1);
      return names[step] ?? 'so be it';
    }
    if (request.model === MELETE) return 'ready';
    if (session.includes(':')) return 'done';
    return request.messages.length === 1 ? SPAWN : 'fine';
  };
}

describe.each(MATRIX)('threads %o', (threads) => {
  test('F111: a child is named before its first half-step, and the parent’s model receives that name', async () => {
    const seen: ModelRequest[] = [];
    const provider = scripted(model([nickname('Proof-Reader '), call('everything_is_ready')], seen));
    const runtime = await kit.open({ threads, provider, enrichers, agents });
    const session = runtime.session('s');
    await session.ask('proofs, please');
    await runtime.drain();
    const lines = await log(session);
    expect(lines.find((line) => line.startsWith('tool_response:Sub-agent'))).toContain(
      'Sub-agent proof-reader spawned (session s:1)',
    );
    expect(lines).toContain('tool_call:[sub-agent proof-reader]: done');
    expect((await session.state()).children).toMatchObject([{ id: 's:1', name: 'proof-reader' }]);
    const child = await session.child('s:1');
    expect(child.name).toBe('proof-reader');
    expect((await child.request()).system).toContain('You are proof-reader, a sub-agent');
    const told = await history(session);
    expect(told.filter(({ type }) => type === 'children.updated').at(-1)).toMatchObject({
      children: [{ id: 's:1', name: 'proof-reader' }],
    });
    expect((await history(child)).filter(({ type }) => type === 'session.name')).toMatchObject([
      { name: 'proof-reader' },
    ]);
    const [first] = seen;
    expect(first?.tools?.map(({ name }) => name)).toEqual(['assign_nickname', 'activate_skill', 'everything_is_ready']);
    expect(JSON.stringify(first?.messages)).toContain('User: read the proofs');
    expect(first?.system).not.toContain('oal');
    expect((await child.state()).usage.input_tokens).toBeGreaterThan(0);
  });

  test('F111: if naming fails the child is agent-N, with its identity line, and starts', async () => {
    const provider = scripted((request: ModelRequest, context) =>
      isNaming(request) ? { error: { status: 400 } } : model([])(request, context),
    );
    const runtime = await kit.open({ threads, provider, enrichers, agents });
    const session = runtime.session('s');
    await session.ask('proofs, please');
    await runtime.drain();
    const lines = await log(session);
    expect(lines.find((line) => line.startsWith('tool_response:Sub-agent'))).toContain('Sub-agent agent-1 spawned');
    const child = await session.child('s:1');
    expect((await child.request()).system).toContain('You are agent-1, a sub-agent');
    expect(await log(child)).toEqual(['user_message:read the proofs', 'agent_message:done']);
  });

  test('an embedder has its child at once, and its name when the call ends', async () => {
    const provider = scripted(model([nickname('scout')]));
    const runtime = await kit.open({ threads, provider, enrichers, agents });
    const child = await runtime.session('s').spawn({ task: 'look' });
    expect(child.name).toBe('agent-1');
    expect(await child.reply()).toBe('done');
    expect(child.name).toBe('scout');
    const family = await runtime.session('t').spawnAll([{ task: 'a', name: 'given' }, { task: 'b' }]);
    expect((await family.settled()).map(({ name }) => name)).toEqual(['given', 'scout']);
  });
});

test('F110, F111: a name that is taken, reserved or invalid is refused, and another one is chosen', async () => {
  const seen: ModelRequest[] = [];
  const names = [nickname('given'), nickname('melete'), nickname('No name!'), nickname(' '), nickname('second')];
  const runtime = await kit.open({ provider: scripted(model(names, seen)), enrichers, agents });
  const session = runtime.session('s');
  await session.spawn({ task: 'a', name: 'given' });
  const child = await session.spawn({ task: 'b' });
  await child.reply();
  expect(child.name).toBe('second');
  expect(seen[0]?.system).toContain('- given');
  const results = JSON.stringify(seen.at(-1)?.messages);
  for (const part of ['already taken', 'is reserved', 'Invalid format', 'cannot be blank']) {
    expect(results).toContain(part);
  }
});

test('with a limit of one session the parent receives the name, and then its child starts', async () => {
  const provider = scripted(model([nickname('scout')]));
  const runtime = await kit.open({ provider, enrichers, agents, limits: { liveSessions: 1 } });
  const session = runtime.session('s');
  expect(await session.ask('proofs, please')).toBe('fine');
  await runtime.drain();
  expect(await log(session)).toContain('tool_call:[sub-agent scout]: done');
  expect((await session.state()).children).toMatchObject([{ id: 's:1', name: 'scout', exited: 'completed' }]);
  const family = await runtime.session('t').spawnAll([{ task: 'a' }, { task: 'b' }, { task: 'c' }]);
  expect((await family.all()).map(({ reply }) => reply)).toEqual(['done', 'done', 'done']);
});

describe('during naming', () => {
  const isChild = ({ session }: GatedCall): boolean => session.startsWith('s:1');

  async function naming(more: { readonly directory?: string } = {}) {
    const gate = gatedModel();
    const runtime = await kit.open({ provider: gate.provider, enrichers, agents, ...more });
    const session = runtime.session('s');
    const receipt = await session.send('go');
    (await gate.next()).answer('ready');
    (await gate.next()).answer(SPAWN);
    const enricher = await gate.next();
    expect(isNaming(enricher.request)).toBe(true);
    return { gate, runtime, session, receipt, enricher };
  }

  test('the call that spawned the child waits for its name, and the child has not started', async () => {
    const { gate, session, receipt, enricher } = await naming();
    expect(await session.state()).toMatchObject({ state: 'executing' });
    expect(await (await session.child('s:1')).state()).toMatchObject({ state: 'idle', phase: 'preparing' });
    enricher.answer('no idea');
    const [one, other] = [await gate.next(), await gate.next()];
    expect([one, other].filter(isChild)).toHaveLength(1);
    for (const each of [one, other]) each.answer(isChild(each) ? 'done' : 'fine');
    expect(await receipt.answer()).toBe('fine');
  });

  test('an interrupt of the parent ends both sessions', async () => {
    const { session, receipt, gate } = await naming();
    expect(await session.interrupt()).toBe(true);
    await expect(receipt.answer()).rejects.toMatchObject({ code: 'cancelled' });
    const child = await session.child('s:1');
    expect(await child.exit()).toEqual({ reason: 'cancelled' });
    expect(await child.state()).toMatchObject({ state: 'idle', mailbox: 0 });
    expect(gate.calls.length).toBe(3);
  });

  test('an interrupt of the child alone answers the parent’s call', async () => {
    const { session, gate } = await naming();
    expect(await (await session.child('s:1')).interrupt()).toBe(true);
    const parent = await gate.next();
    expect(parent.session).toBe('s');
    expect(JSON.stringify(parent.request.messages.at(-1))).toContain('agent-1');
  });

  test('deleting the child answers the parent’s call as well', async () => {
    const { session, gate } = await naming();
    await (await session.child('s:1')).delete();
    expect((await gate.next()).session).toBe('s');
  });

  test('A10: after a crash the child starts with the name it has by then, and the parent has one child', async () => {
    const directory = await kit.directory();
    const { gate, enricher } = await naming({ directory });
    enricher.answer(nickname('scout'));
    await gate.next();
    const provider = scripted(model([nickname('another')]));
    const again = await kit.open({ directory: await kit.crashed(directory), provider, enrichers, agents });
    await again.drain();
    const session = again.session('s');
    expect((await session.state()).children).toMatchObject([{ id: 's:1', name: 'scout' }]);
    const lines = await log(session);
    expect(lines.filter((line) => line.startsWith('tool_response:Sub-agent scout spawned'))).toHaveLength(1);
  });

  test('F13: on close the child keeps its name, the call is answered, and the next open has nothing to recover', async () => {
    const directory = await kit.directory();
    const { runtime } = await naming({ directory });
    await runtime.close();
    const again = await kit.open({ directory, provider: scripted(model([nickname('late')])), enrichers, agents });
    await again.drain();
    const session = again.session('s');
    expect((await session.state()).children).toMatchObject([{ id: 's:1', name: 'agent-1', exited: 'completed' }]);
    for (const each of [session, await session.child('s:1')])
      expect((await history(each)).filter(({ type }) => type === 'session.recovered')).toEqual([]);
    expect((await log(session)).filter((line) => line.startsWith('tool_response:Sub-agent agent-1'))).toHaveLength(1);
  });

  test('A10: opened again without Melete the child starts as agent-N, and the call is answered', async () => {
    const directory = await kit.directory();
    await naming({ directory });
    const again = await kit.open({ directory: await kit.crashed(directory), provider: scripted(model([])), agents });
    await again.drain();
    const session = again.session('s');
    expect((await session.state()).children).toMatchObject([{ id: 's:1', name: 'agent-1', exited: 'completed' }]);
    expect((await log(session)).join('\n')).toContain('Sub-agent agent-1 spawned');
  });
});
