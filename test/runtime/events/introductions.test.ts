/**
 * Goal: while diagnostics have a subscriber, each session is introduced before its first event. Method: record a
 * shard's introductions and events in order. Then run whole runtimes and read the turns on the diagnostics channel.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, describe, expect, test } from 'vitest';
import { DIAGNOSTICS_CHANNELS, type TurnDiagnostics } from '../../../src/base/diagnostics.ts';
import { agent, type ModelProvider } from '../../../src/index.ts';
import { killSessionThread } from '../../../src/runtime/handles/runtime.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';
import { openShard } from '../../support/shard-kit.ts';

const kit = runtimeKit();
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const script = {
  rules: [
    {
      when: { text: 'ask around', call: 0 },
      reply: { toolUse: { name: 'spawn_subagent', input: { task: 'look', name: 'scout' } } },
    },
  ],
  otherwise: 'ok',
};
const provider = scripted(script);
const ok = scripted(() => 'ok') as ModelProvider;
const lead = agent({ name: 'lead', subagents: { spawn: true } });

describe('a shard', () => {
  const clock = manualClock();

  /** The idle sessions that stay in memory. */
  const HOT_SESSIONS = 10;

  async function shardAndTurn(): Promise<ReturnType<typeof openShard> & { turn(session: string): Promise<void> }> {
    const shard = openShard({ provider: ok, agents: [lead], clock, bounds: { hotSessions: HOT_SESSIONS } });
    const turn = async (session: string, text = 'hi'): Promise<void> => {
      const { pendingId, incarnation } = await shard.call('session.send', { session, agent: 'lead', content: text });
      await shard.call('receipt.wait', { session, pendingId, incarnation, until: 'settled' });
    };
    return { ...shard, turn };
  }

  test('introduces no session unless it is asked to', async () => {
    const shard = await shardAndTurn();
    await shard.turn('s');
    expect(shard.events.length).toBeGreaterThan(0);
    expect(shard.introduced).toEqual([]);
    await shard.close();
  });

  test('introduces each session, new or old, once before its next event, and again if asked again', async () => {
    const shard = await shardAndTurn();
    await shard.turn('before');
    const behind = shard.events.length;
    await shard.call('sessions.introduce', { on: true });
    await shard.turn('before');
    await shard.turn('before');
    const then = shard.events.length;
    await shard.turn('new');
    expect(shard.introduced).toEqual([
      { session: 'before', agent: 'lead', behind },
      { session: 'new', agent: 'lead', behind: then },
    ]);
    await shard.call('sessions.introduce', { on: false });
    await shard.turn('other');
    expect(shard.introduced).toHaveLength(2);
    await shard.call('sessions.introduce', { on: true });
    await shard.turn('new');
    expect(shard.introduced.slice(2)).toEqual([{ session: 'new', agent: 'lead', behind: expect.any(Number) }]);
    await shard.close();
  });

  test('introduces a child and a fork before their first events, and names the parent of the child', async () => {
    const shard = await shardAndTurn();
    await shard.call('sessions.introduce', { on: true });
    const spawned = await shard.call('session.spawn', {
      session: 'root',
      agent: 'lead',
      items: [{ task: 'look', name: 'scout', replies: 'mailbox' }],
    });
    expect(spawned).toMatchObject([{ child: 'root:1' }]);
    await shard.call('child.wait', { session: 'root:1' });
    const { id } = await shard.call('session.fork', { session: 'root' });
    await shard.turn(id);
    expect(shard.introduced.map(({ behind: _, ...who }) => who)).toEqual([
      { session: 'root', agent: 'lead' },
      { session: 'root:1', agent: 'lead', parent: 'root' },
      { session: id, agent: 'lead' },
    ]);
    for (const { session, behind } of shard.introduced) {
      expect(shard.events.findIndex((event) => event.session === session)).toBeGreaterThanOrEqual(behind);
    }
    await shard.close();
  });

  test('introduces a session a second time after it left memory', async () => {
    const shard = await shardAndTurn();
    await shard.call('sessions.introduce', { on: true });
    await shard.turn('s');
    for (let index = 0; index < HOT_SESSIONS + 1; index += 1) await shard.turn(`other${index}`);
    await clock.advance(60_000);
    await shard.turn('s');
    expect(shard.introduced.filter(({ session }) => session === 's')).toHaveLength(2);
    await shard.close();
  });
});

/** Ended turns as short texts: `s lead`. */
function listen(): readonly string[] {
  const turns: string[] = [];
  const listener = (published: unknown): void => {
    const { phase, session, agent: name, parent } = published as TurnDiagnostics;
    if (phase === 'end') turns.push([session, name, ...(parent === undefined ? [] : [`of ${parent}`])].join(' '));
  };
  subscribe(DIAGNOSTICS_CHANNELS.turn, listener);
  stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS.turn, listener));
  return turns;
}

describe.each(MATRIX)('diagnostics, sessions: $sessions, models: $models', (threads) => {
  test('name the agent of new sessions, children and forks', async () => {
    const turns = listen();
    const runtime = await kit.open({ threads, provider, agents: [lead, agent({ name: 'other' })] });
    await runtime.session('root', 'lead').ask('ask around');
    await runtime.drain();
    await runtime.session('plain', 'other').ask('hi');
    const fork = await runtime.session('plain').fork();
    await fork.ask('and you?');
    await eventually(() => turns.includes(`${fork.id} other`) && turns.includes('root:1 lead of root'));
    expect(turns).toContain('root lead');
    expect(turns).toContain('plain other');
  });

  test('name the current agent of a session, even if a deleted session had its name', async () => {
    const turns = listen();
    const runtime = await kit.open({ threads, provider, agents: [lead, agent({ name: 'other' })] });
    await runtime.session('s', 'lead').ask('hi');
    await runtime.sessions.delete('s');
    await runtime.session('s', 'other').ask('hi');
    await eventually(() => turns.length === 2);
    expect(turns).toEqual(['s lead', 's other']);
  });
});

test('a replacement session thread introduces sessions as its predecessor did', async () => {
  const turns = listen();
  const runtime = await kit.open({
    directory: await kit.directory(),
    threads: { sessions: 1, models: 1 },
    provider,
    agents: [lead],
  });
  await runtime.session('before').ask('hi');
  await killSessionThread(runtime, 0);
  await runtime.session('before').ask('hi');
  await runtime.session('after').ask('hi');
  await eventually(() => turns.length === 3);
  expect(turns).toEqual(['before lead', 'before lead', 'after lead']);
});
