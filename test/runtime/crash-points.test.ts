/**
 * Goal: a crash at any write leaves a store from which the same work reaches the same end (A10). Method: run a scenario
 * once, copying the store before each write; then open each copy and let it finish.
 */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../src/index.ts';
import { MemoryStore } from '../../src/journal/memory-store.ts';
import type { ModelProvider, ModelRequest } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { OUTCOME_UNKNOWN } from '../../src/session/rules/tool-texts.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { copyStore, openShard, type TestShard } from '../support/shard-kit.ts';

/** The answer depends on the conversation, so that a repeated call gets the same answer. */
function reply(request: ModelRequest, session: string): Reply {
  const said = JSON.stringify(request.messages);
  if (session === 'p:1') {
    if (!said.includes('looked up')) return { toolUse: { name: 'look', id: 'look_1' } };
    return { toolUse: { name: 'mark_goal_completed', id: 'mark_1', input: { result: 'child result' } } };
  }
  if (said.includes('child result')) return 'the end';
  if (said.includes('spawned')) return 'waiting';
  const input = { task: 'look it up', name: 'scout' };
  return {
    text: 'I ask.',
    toolUse: [
      { name: 'spawn_subagent', id: 'spawn_1', input },
      { name: 'look', id: 'look_2' },
    ],
  };
}

function scenario(store: MemoryStore, onWrite?: () => void) {
  const keys: string[] = [];
  const look = tool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    effect: 'keyed',
    run: (_input, { key }) => {
      keys.push(key);
      return 'looked up';
    },
  });
  const provider = scripted((request, { session }) => reply(request, session)) as ModelProvider;
  const agents = [agent({ name: 'a', tools: [look], subagents: { spawn: true } })];
  const shard = openShard({
    store,
    provider,
    agents,
    refuse: () => {
      onWrite?.();
      return undefined;
    },
  });
  return { shard, keys };
}

const SEND = { session: 'p', agent: 'a', content: 'Go', key: 'k', fingerprint: 'f' };

async function end(shard: TestShard): Promise<unknown> {
  // Sent again with its key, like a client that received no answer: accepted once.
  await shard.call('session.send', SEND);
  await shard.call('runtime.drain', { id: 0 });
  const messages = async (session: string): Promise<readonly unknown[]> =>
    (await shard.call('session.messages', { session })).map(({ type, content }) => `${type}:${String(content)}`);
  const states = await shard.call('sessions.list', { order: 'id', limit: 10 });
  return {
    parent: await messages('p'),
    child: await messages('p:1'),
    states: states.map(({ id, state, mailbox }) => [id, state, mailbox]),
  };
}

test('A10, F029, F04: after a crash at any write the session ends the same; calls keep their keys, replies come once', async () => {
  const store = new MemoryStore();
  const crashes: MemoryStore[] = [];
  const whole = scenario(store, () => crashes.push(copyStore(store)));
  const expected = await end(whole.shard);
  await whole.shard.close();
  expect(JSON.stringify(expected)).not.toContain(OUTCOME_UNKNOWN);
  expect(crashes.length).toBeGreaterThan(6);
  for (const [number, crash] of crashes.entries()) {
    const again = scenario(crash);
    const ended = await end(again.shard);
    await again.shard.close();
    expect(sorted(ended), `crash before write ${number}`).toEqual(sorted(expected));
    for (const key of again.keys) expect(whole.keys).toContain(key);
    const seqs = again.shard.events.flatMap(({ session, seq }) => (session === 'p' && seq !== undefined ? [seq] : []));
    expect(seqs, `events after crash ${number}`).toEqual(seqs.map((_, index) => (seqs[0] ?? 1) + index));
  }
});

/** Parallel work may end in another order after a crash: the reply may join the round or come after it. */
function sorted(ended: unknown): unknown {
  const { parent, ...rest } = ended as { readonly parent: readonly string[] };
  return { ...rest, parent: parent.filter((line) => line !== 'agent_message:waiting').sort() };
}

const MNEME = 'claude-haiku-4-5';

/** Turns that exceed a small window; each is sent again after the crash, and counts once. */
async function talk(shard: TestShard): Promise<unknown> {
  for (let turn = 0; turn < 5; turn += 1) {
    const content = `${turn} ${'x'.repeat(400)}`;
    await shard.call('session.send', { session: 's', agent: 'a', content, key: `k${turn}`, fingerprint: 'f' });
    await shard.call('runtime.drain', { id: turn });
  }
  return {
    messages: (await shard.call('session.messages', { session: 's' })).map(
      ({ type, content }) => `${type}:${String(content)}`,
    ),
    request: await shard.call('session.request', { session: 's' }),
  };
}

test('A10, R14: after a crash at any write of a summarised conversation, end and request are the same', async () => {
  const open = (store: MemoryStore, onWrite?: () => void): TestShard =>
    openShard({
      store,
      settings: { llm: { tokenBudget: 400 }, mneme: { l2SnapshotThreshold: 2 } },
      enrichers: { mneme: { model: MNEME } },
      agents: [agent({ name: 'a' })],
      provider: scripted((request) => {
        if (request.model !== MNEME) return `so be it ${'y'.repeat(400)}`;
        if (request.messages.length > 1) return 'done';
        const text = JSON.stringify(request.messages);
        const about = /messages? \d+/u.exec(text)?.[0] ?? text.length;
        return { toolUse: { name: 'save_snapshot', input: { text: `From ${about} on.` } } };
      }) as ModelProvider,
      refuse: () => {
        onWrite?.();
        return undefined;
      },
    });
  const store = new MemoryStore();
  const crashes: MemoryStore[] = [];
  const whole = open(store, () => crashes.push(copyStore(store)));
  const expected = await talk(whole);
  await whole.close();
  expect(JSON.stringify(expected)).toContain('## Long-term Memory');
  expect(crashes.length).toBeGreaterThan(20);
  for (const [number, crash] of crashes.entries()) {
    const again = open(crash);
    expect(await talk(again), `crash before write ${number}`).toEqual(expected);
    await again.close();
  }
});
