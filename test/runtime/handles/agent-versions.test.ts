/**
 * Goal: a turn keeps the version of its agent with which it began, and a session moves to the current version between
 * turns (V1, V2 of `src/session/rules/epoch.ts`; P1 to P3 of `upgrades.ts`). Method: stores are opened again with other
 * versions, after an orderly close and after a crash.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  type Agent,
  type AgentOptions,
  agent,
  ConfigError,
  type HistoryEdit,
  type ModelRequest,
  type Runtime,
  type SessionEvent,
  tool,
  type UpgradeFunction,
} from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { deferred, eventually, gatedModel, history, MATRIX, queue, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** Version `version` of the agent: its prompt and the result of its tool name the version. */
function writer(version: string | undefined, more: Partial<AgentOptions> = {}): Agent {
  const name = version ?? 'none';
  const say = tool({ name: 'say', description: `Says ${name}.`, input: z.object({}), run: () => `said by ${name}` });
  const options = { name: 'writer', system: `You are ${name}.`, tools: [say], ...more };
  return agent(version === undefined ? options : { ...options, version });
}

/** The version in the prompt of a request. */
function promptOf({ system }: ModelRequest): string {
  return /You are (\w+)\./u.exec(JSON.stringify(system))?.[1] ?? '';
}

function moves(events: readonly SessionEvent[]): readonly unknown[] {
  return events.flatMap((event) =>
    event.type === 'agent.upgraded' ? [[event.agent, event.from, event.version] as const] : [],
  );
}

function turnVersions(events: readonly SessionEvent[]): readonly unknown[] {
  return events.flatMap((event) => (event.type === 'turn.finished' ? [event.agent?.version] : []));
}

async function texts(runtime: Runtime, session = 's'): Promise<readonly string[]> {
  return (await runtime.session(session).history.messages()).map(({ role, content }) => `${role}: ${String(content)}`);
}

/** A store whose session `s` has a turn of version 1 that waits for the model, as a crash leaves it. */
async function crashedInTurn(old: Agent): Promise<{ readonly directory: string; readonly receipt: string }> {
  const directory = await kit.directory();
  const model = gatedModel();
  const runtime = await kit.open({ directory, agents: [old], provider: model.provider });
  const { id } = await runtime.session('s').send('Go');
  await model.next();
  // The claim runs ahead of its flush.
  await eventually(async () => (await runtime.session('s').state()).state === 'awaiting');
  return { directory: await kit.crashed(directory), receipt: id };
}

describe('a turn keeps its version', () => {
  test.each(MATRIX)('after a crash it ends with the prompt and the tools of its version (%o)', async (threads) => {
    const { directory, receipt } = await crashedInTurn(writer('1'));
    const model = gatedModel();
    const runtime = await kit.open({
      directory,
      threads,
      agents: [writer('1'), writer('2')],
      provider: model.provider,
    });
    const session = runtime.session('s');
    const first = await model.next();
    expect(promptOf(first.request)).toBe('1');
    first.answer({ toolUse: { name: 'say' } });
    const second = await model.next();
    expect(promptOf(second.request)).toBe('1');
    expect(JSON.stringify(second.request.messages)).toContain('said by 1');
    expect(await runtime.sessions.get('s')).toMatchObject({ agent: 'writer', version: '1' });
    second.answer('First.');
    expect(await (await session.receipt(receipt)).answer()).toBe('First.');

    const answer = session.ask('Again');
    const third = await model.next();
    expect(promptOf(third.request)).toBe('2');
    third.answer({ toolUse: { name: 'say' } });
    const fourth = await model.next();
    expect(JSON.stringify(fourth.request.messages.at(-1))).toContain('said by 2');
    fourth.answer('Second.');
    expect(await answer).toBe('Second.');
    const events = await history(session);
    expect(moves(events)).toEqual([['writer', '1', '2']]);
    expect(turnVersions(events)).toEqual(['1', '2']);
    expect(await runtime.sessions.get('s')).toMatchObject({ version: '2' });
    const hashes = events.flatMap((event) => (event.type === 'turn.finished' ? [event.agent?.hash] : []));
    expect(new Set(hashes).size).toBe(2);
  });

  test.each(MATRIX)('without its version the session is blocked, and continues with it (%o)', async (threads) => {
    const { directory, receipt } = await crashedInTurn(writer('1'));
    const model = gatedModel();
    const second = await kit.open({ directory, threads, agents: [writer('2')], provider: model.provider });
    const session = second.session('s');
    await second.drain();
    expect(await session.state()).toMatchObject({
      status: 'blocked',
      blocked: { name: 'AgentMissingError', code: 'agent_missing', data: { agent: 'writer', version: '1' } },
    });
    const why = 'its turn began with version "1" of its agent "writer", which is not defined';
    expect(await session.explain()).toEqual({ reason: 'agent_missing', detail: why });
    await expect(session.request()).rejects.toMatchObject({ code: 'agent_missing', message: why });
    expect(await second.sessions.get('s')).toMatchObject({ status: 'blocked', version: '1' });
    for (const order of ['id', 'newest'] as const) {
      expect(await second.sessions.list({ order, status: ['blocked'] })).toMatchObject([{ id: 's' }]);
    }
    await session.send('Still there?');
    await second.drain();
    expect(model.calls).toEqual([]);
    await second.close();

    const rules = [{ when: { text: 'Still there?' }, reply: 'Yes.' }];
    const provider = scripted({ rules, otherwise: 'First.' });
    const third = await kit.open({ directory, threads, agents: [writer('1'), writer('2')], provider });
    expect(await (await third.session('s').receipt(receipt)).answer()).toBe('First.');
    await third.drain();
    expect((await texts(third)).at(-1)).toBe('assistant: Yes.');
  });

  test('a message that waits behind the turn begins with the current version', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const first = await kit.open({ directory, agents: [writer('1')], provider: model.provider });
    await first.session('s').send('Go');
    await model.next();
    const { id } = await first.session('s').send('Then this', { deliver: 'turn' });
    const prompts: string[] = [];
    const provider = scripted((request) => {
      prompts.push(promptOf(request));
      return 'Done.';
    });
    for (const agents of [
      [writer('1'), writer('2')],
      [writer('1'), writer('2', { upgrade: () => [] })],
    ]) {
      const runtime = await kit.open({ directory: await kit.crashed(directory), agents, provider });
      expect(await (await runtime.session('s').receipt(id)).answer()).toBe('Done.');
      expect(prompts.splice(0)).toEqual(['1', '2']);
      expect(turnVersions(await history(runtime.session('s')))).toEqual(['1', '2']);
    }
  });

  test('a child spawned while the version is missing runs, with the current version', async () => {
    const { directory } = await crashedInTurn(writer('1'));
    const runtime = await kit.open({ directory, agents: [writer('2')], provider: scripted(['Help.']) });
    const child = await runtime.session('s').spawn({ task: 'Help', replies: 'handle' });
    expect(await child.reply()).toBe('Help.');
    expect(await runtime.sessions.get(child.id)).toMatchObject({ version: '2' });
  });

  test('a session of an agent that is not defined is blocked', async () => {
    const { directory } = await crashedInTurn(writer('1'));
    const runtime = await kit.open({ directory, agents: [agent({ name: 'other' })], provider: scripted(['no']) });
    expect(await runtime.session('s').state()).toMatchObject({
      status: 'blocked',
      blocked: { code: 'agent_missing', data: { agent: 'writer' } },
    });
    expect(await runtime.sessions.list({ status: ['blocked'] })).toMatchObject([{ id: 's' }]);
  });

  test('a call that waits for a person cannot be allowed without its version, and runs with it', async () => {
    const directory = await kit.directory();
    const script = [{ toolUse: { name: 'say' } }, 'First.'];
    const provider = scripted(() => script.shift() ?? 'over');
    const held = { approve: ['say'] };
    const first = await kit.open({ directory, agents: [writer('1', held)], provider });
    const { id } = await first.session('s').send('Go');
    await eventually(async () => (await first.waiting()).items.length === 1);
    const callId = (await first.waiting()).items[0]?.callId ?? '';
    await first.close();
    const second = await kit.open({ directory, agents: [writer('2', held)], provider });
    const refusal = { code: 'agent_missing', data: { agent: 'writer', version: '1' } };
    await expect(second.session('s').approve(callId, { allow: true })).rejects.toMatchObject(refusal);
    expect((await second.waiting()).items).toMatchObject([{ callId }]);
    await second.close();
    const third = await kit.open({ directory, agents: [writer('1', held), writer('2', held)], provider });
    expect(await third.session('s').approve(callId, { allow: true })).toBe(true);
    expect(await (await third.session('s').receipt(id)).answer()).toBe('First.');
    expect(JSON.stringify(await third.session('s').history.messages())).toContain('said by 1');
  });

  test('an interrupt ends the turn of a missing version, and the session moves', async () => {
    const { directory } = await crashedInTurn(writer('1'));
    const provider = scripted({ rules: [], otherwise: 'Moved.' });
    const runtime = await kit.open({ directory, agents: [writer('2')], provider });
    await runtime.session('s').interrupt();
    expect(await runtime.session('s').ask('Again')).toBe('Moved.');
    expect(turnVersions(await history(runtime.session('s')))).toEqual(['1', '2']);
  });

  test('a suspended run continues with the tools of its version', async () => {
    const directory = await kit.directory();
    const script = [{ toolUse: { name: 'say' } }, 'First.', 'Second.'];
    const requests: ModelRequest[] = [];
    const provider = scripted((request) => {
      requests.push(request);
      return script.shift() ?? 'over';
    });
    const first = await kit.open({ directory, agents: [writer('1', { maxSteps: 1 })], provider });
    await expect(first.session('s').ask('Go')).rejects.toMatchObject({ data: { reason: 'max_steps' } });
    await first.close();
    const agents = [writer('1', { maxSteps: 1 }), writer('2')];
    const second = await kit.open({ directory, agents, provider });
    expect(await second.session('s').ask('Continue')).toBe('First.');
    expect(requests.map(promptOf)).toEqual(['1', '1']);
    expect(JSON.stringify(requests.at(-1)?.messages)).toContain('said by 1');
    expect(await second.session('s').ask('More')).toBe('Second.');
    expect(requests.map(promptOf)).toEqual(['1', '1', '2']);
  });

  test('sub-agents in a turn keep theirs, and new ones begin with the current version', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const first = await kit.open({ directory, agents: [writer('1')], provider: model.provider });
    const child = await first.session('s').spawn({ task: 'Old task', replies: 'handle' });
    await model.next();
    await eventually(async () => (await first.session(child.id).state()).state === 'awaiting');
    const copy = await kit.crashed(directory);
    const again = gatedModel();
    const second = await kit.open({ directory: copy, agents: [writer('1'), writer('2')], provider: again.provider });
    const old = await again.next();
    expect([old.session, promptOf(old.request)]).toEqual([child.id, '1']);
    const born = await second.session('s').spawn({ task: 'New task', replies: 'handle' });
    const young = await again.next();
    expect([young.session, promptOf(young.request)]).toEqual([born.id, '2']);
    old.answer('Old.');
    young.answer('New.');
    expect(await (await second.session('s').child(child.id)).reply()).toBe('Old.');
    expect(await born.reply()).toBe('New.');
  });

  test('functions on the host thread are those of the version', async () => {
    const seen: string[] = [];
    const functions = (version: string): Partial<AgentOptions> => ({
      system: () => `You are ${version}.`,
      approve: () => {
        seen.push(`approve ${version}`);
        return false;
      },
      guardrails: {
        before: [
          () => {
            seen.push(`guard ${version}`);
            return 'pass';
          },
        ],
      },
    });
    const { directory, receipt } = await crashedInTurn(writer('1', functions('1')));
    seen.splice(0);
    const prompts: string[] = [];
    const script = [{ toolUse: { name: 'say' } }, 'First.', 'Second.'];
    const provider = scripted((request) => {
      prompts.push(promptOf(request));
      return script.shift() ?? 'over';
    });
    const agents = [writer('1', functions('1')), writer('2', functions('2'))];
    const runtime = await kit.open({ directory, agents, provider });
    await (await runtime.session('s').receipt(receipt)).answer();
    expect(new Set(seen)).toEqual(new Set(['guard 1', 'approve 1']));
    seen.splice(0);
    expect(await runtime.session('s').ask('Again')).toBe('Second.');
    expect(new Set(seen)).toEqual(new Set(['guard 2']));
    expect(prompts).toEqual(['1', '1', '2']);
  });
});

describe('without versions', () => {
  test('a turn continues with the agent as it is defined now', async () => {
    const { directory, receipt } = await crashedInTurn(writer(undefined));
    const model = gatedModel();
    const changed = agent({ name: 'writer', system: 'You are changed.' });
    const runtime = await kit.open({ directory, agents: [changed], provider: model.provider });
    const call = await model.next();
    expect(promptOf(call.request)).toBe('changed');
    call.answer('Done.');
    await (await runtime.session('s').receipt(receipt)).answer();
    const events = await history(runtime.session('s'));
    expect([moves(events), turnVersions(events)]).toEqual([[], [undefined]]);
  });

  test('a turn that began without a version uses the definition without one, else the current one', async () => {
    for (const [agents, prompt] of [
      [[writer('2')], '2'],
      [[writer(undefined), writer('2')], 'none'],
    ] as const) {
      const { directory, receipt } = await crashedInTurn(writer(undefined));
      const model = gatedModel();
      const runtime = await kit.open({ directory, agents, provider: model.provider });
      const call = await model.next();
      expect(promptOf(call.request)).toBe(prompt);
      call.answer('Done.');
      await (await runtime.session('s').receipt(receipt)).answer();
      const answer = runtime.session('s').ask('Again');
      const next = await model.next();
      expect(promptOf(next.request)).toBe('2');
      next.answer('Again.');
      await answer;
      expect(moves(await history(runtime.session('s')))).toEqual([['writer', undefined, '2']]);
    }
  });
});

/** A store whose session `s` had one turn with version 1. */
async function stored(): Promise<string> {
  const directory = await kit.directory();
  const first = await kit.open({ directory, agents: [writer('1')], provider: scripted(['First.']) });
  await first.session('s').ask('Go');
  await first.close();
  return directory;
}

describe('upgrade', () => {
  test.each(MATRIX)('its edits and the move are one event before the next turn (%o)', async (threads) => {
    const directory = await stored();
    const asked: unknown[] = [];
    const upgrade: UpgradeFunction = ({ session, messages }, from) => {
      asked.push([session, from, messages.map(({ role, content }) => `${role}: ${String(content)}`)]);
      const [user, answer] = messages;
      return [
        { operation: 'update', id: answer?.id ?? '', attributes: { content: 'First, in words of 2.' } },
        { operation: 'remove', id: user?.id ?? '' },
        { operation: 'add', message: { role: 'user', content: 'A note.' } },
      ];
    };
    const requests: ModelRequest[] = [];
    const provider = scripted((request) => {
      requests.push(request);
      return 'Second.';
    });
    const runtime = await kit.open({ directory, threads, agents: [writer('2', { upgrade })], provider });
    const session = runtime.session('s');
    expect(await runtime.sessions.get('s')).toMatchObject({ version: '1', status: 'idle' });
    expect(await session.ask('Again')).toBe('Second.');
    expect(asked).toEqual([['s', '1', ['user: Go', 'assistant: First.']]]);
    const after = ['assistant: First, in words of 2.', 'user: A note.', 'user: Again', 'assistant: Second.'];
    expect(await texts(runtime)).toEqual(after);
    expect(promptOf(requests[0] as ModelRequest)).toBe('2');
    const events = await history(session);
    const types = events.map(({ type }) => type);
    const place = types.indexOf('agent.upgraded');
    expect(types[place - 1]).toBe('history.changed');
    expect(types.indexOf('message.created', place)).toBeGreaterThan(place);
    expect(moves(events)).toEqual([['writer', '1', '2']]);
    expect((await runtime.audit()).items.map(({ action, details }) => [action, details])).toEqual([
      ['history.edited', { operation: 'upgrade', added: 1, updated: 1, removed: 1, cause: 'upgrade' }],
    ]);

    await runtime.close();
    const again = await kit.open({ directory, threads, agents: [writer('2', { upgrade })], provider });
    expect(await again.session('s').ask('And again')).toBe('Second.');
    expect(asked).toHaveLength(1);
  });

  test.each(MATRIX)('that throws blocks the session; resume() and the next open try again (%o)', async (threads) => {
    const directory = await stored();
    let attempts = 0;
    const upgrade = (): undefined => {
      attempts += 1;
      if (attempts < 4) throw new Error('no way');
      return undefined;
    };
    const agents = [writer('2', { upgrade })];
    const second = await kit.open({ directory, threads, agents, provider: scripted(['no']) });
    const session = second.session('s');
    const { id } = await session.send('Again');
    await second.drain();
    const failed = {
      status: 'blocked',
      blocked: { name: 'UpgradeError', code: 'upgrade_failed', data: { agent: 'writer', from: '1', version: '2' } },
      mailbox: 1,
    };
    expect(await session.state()).toMatchObject(failed);
    expect(await session.explain()).toMatchObject({ reason: 'blocked', detail: expect.stringContaining('no way') });
    expect(await second.sessions.list({ status: ['blocked'] })).toMatchObject([{ id: 's', version: '1' }]);
    expect(attempts).toBe(1);
    await session.send('And more');
    await second.drain();
    expect(attempts).toBe(1);
    await session.resume();
    await second.drain();
    expect([attempts, (await session.state()).blocked?.code]).toEqual([2, 'upgrade_failed']);
    await second.resume();
    await second.drain();
    expect([attempts, (await session.state()).mailbox]).toEqual([3, 2]);
    expect(await texts(second)).toEqual(['user: Go', 'assistant: First.']);
    await second.close();

    const third = await kit.open({ directory, threads, agents, provider: scripted(['Second.', 'Third.']) });
    expect(await (await third.session('s').receipt(id)).answer()).toBe('Second.');
    await third.drain();
    expect([attempts, moves(await history(third.session('s')))]).toEqual([4, [['writer', '1', '2']]]);
    expect((await third.session('s').state()).blocked).toBeUndefined();
  });

  test.each<readonly [string, unknown]>([
    ['no message has the id', [{ operation: 'update', id: 'm99', attributes: { content: 'x' } }]],
    ['unknown operation', [{ operation: 'burn' }]],
    ['no list', 'edits'],
    ['a message of the wrong form', [{ operation: 'add', message: { role: 'nobody', content: 'x' } }]],
    ['set beside another edit', [{ operation: 'set', messages: [] }]],
    [
      'two prompts',
      [
        { operation: 'replaceSystemPrompt', text: 'a' },
        { operation: 'replaceSystemPrompt', text: 'b' },
      ],
    ],
    [
      'removed and changed',
      [
        { operation: 'remove', id: 'm1' },
        { operation: 'update', id: 'm1', attributes: { content: 'x' } },
      ],
    ],
    ['a value that cannot be stored', [{ operation: 'update', id: 'm1', attributes: { content: 1n } }]],
  ])('refuses edits as a whole: %s', async (_what, edits) => {
    const directory = await stored();
    const good = { operation: 'add', message: { role: 'user', content: 'kept out' } };
    const returned = Array.isArray(edits) ? [...edits, good] : edits;
    const upgrade = (): readonly HistoryEdit[] => returned as readonly HistoryEdit[];
    const runtime = await kit.open({ directory, agents: [writer('2', { upgrade })], provider: scripted(['no']) });
    await runtime.session('s').send('Again');
    await runtime.drain();
    expect((await runtime.session('s').state()).blocked?.code).toBe('upgrade_failed');
    expect(await texts(runtime)).toEqual(['user: Go', 'assistant: First.']);
    expect(runtime.metrics().modelCalls).toBe(0);
  });

  test('set replaces the history', async () => {
    const upgrade = (): readonly HistoryEdit[] => [
      {
        operation: 'set',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'In short.' },
        ],
      },
    ];
    const agents = [writer('2', { upgrade })];
    const runtime = await kit.open({ directory: await stored(), agents, provider: scripted(['Second.']) });
    await runtime.session('s').ask('Again');
    const after = ['system: Be brief.', 'user: In short.', 'user: Again', 'assistant: Second.'];
    expect(await texts(runtime)).toEqual(after);
  });

  test('a crash while the function runs changes nothing, and it runs again', async () => {
    const directory = await stored();
    const calls = queue<(edits: undefined) => void>();
    const upgrade = (): Promise<undefined> => new Promise((resolve) => calls.put(resolve));
    const agents = [writer('2', { upgrade })];
    const runtime = await kit.open({ directory, agents, provider: scripted(['no']) });
    const { id } = await runtime.session('s').send('Again');
    await calls.take();
    expect(await runtime.session('s').explain()).toMatchObject({ reason: 'preparing' });
    const copy = await kit.crashed(directory);
    const again = await kit.open({ directory: copy, agents, provider: scripted(['Second.']) });
    const answer = (await again.session('s').receipt(id)).answer();
    (await calls.take())(undefined);
    expect(await answer).toBe('Second.');
    expect(moves(await history(again.session('s')))).toEqual([['writer', '1', '2']]);
  });

  test('is asked again if the history changed meanwhile', async () => {
    const directory = await stored();
    const calls = queue<{ readonly said: readonly unknown[]; readonly end: (edits: undefined) => void }>();
    const upgrade: UpgradeFunction = ({ messages }) =>
      new Promise<undefined>((end) => calls.put({ said: messages.map(({ content }) => content), end }));
    const runtime = await kit.open({ directory, agents: [writer('2', { upgrade })], provider: scripted(['Second.']) });
    const session = runtime.session('s');
    const answer = session.ask('Again');
    const first = await calls.take();
    expect(first.said).toEqual(['Go', 'First.']);
    await session.history.add({ role: 'user', content: 'By the way.' });
    first.end(undefined);
    const second = await calls.take();
    expect(second.said).toEqual(['Go', 'First.', 'By the way.']);
    second.end(undefined);
    expect(await answer).toBe('Second.');
    expect(moves(await history(session))).toEqual([['writer', '1', '2']]);
  });

  test('many sessions move at once, some functions at a time', async () => {
    const directory = await kit.directory();
    const first = await kit.open({
      directory,
      agents: [writer('1')],
      provider: scripted({ rules: [], otherwise: 'a' }),
    });
    const ids = Array.from({ length: 60 }, (_, n) => `s${n}`);
    await Promise.all(ids.map((id) => first.session(id).ask('Go')));
    await first.close();
    let [running, most] = [0, 0];
    const gate = deferred();
    const upgrade = async (): Promise<undefined> => {
      running += 1;
      most = Math.max(most, running);
      if (running === 16) gate.resolve();
      await gate.promise;
      running -= 1;
      return undefined;
    };
    const provider = scripted({ rules: [], otherwise: 'b' });
    const second = await kit.open({ directory, agents: [writer('2', { upgrade })], provider });
    const answers = await Promise.all(ids.map((id) => second.session(id).ask('Again')));
    expect([new Set(answers), most]).toEqual([new Set(['b']), 16]);
    await second.drain();
  });

  test('a session goes back to an earlier version, and to none', async () => {
    const directory = await stored();
    for (const [version, answer] of [
      ['2', 'b'],
      ['1', 'c'],
      [undefined, 'd'],
    ] as const) {
      const runtime = await kit.open({ directory, agents: [writer(version)], provider: scripted([answer]) });
      expect(await runtime.session('s').ask('Again')).toBe(answer);
      expect((await runtime.sessions.get('s'))?.version).toBe(version);
      await runtime.close();
    }
  });
});

describe('options', () => {
  test.each<readonly [string, () => unknown, string]>([
    ['upgrade without version', () => agent({ name: 'a', upgrade: () => undefined }), 'agent a.upgrade'],
    ['a version that is not one', () => agent({ name: 'a', version: 'v 1' }), 'version'],
    ['an empty version', () => agent({ name: 'a', version: '' }), 'version'],
  ])('refuses %s', (_what, make, key) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(key);
  });

  test('two definitions of a name need two versions; without a name the sessions have the only agent', async () => {
    const twice = kit.open({ agents: [writer('1'), writer('1')], provider: scripted(['a']) });
    await expect(twice).rejects.toThrow('two agents are named "writer" and have version "1"');
    const runtime = await kit.open({ agents: [writer('1'), writer('2')], provider: scripted(['a']) });
    expect(await runtime.session('s').ask('Go')).toBe('a');
    expect(await runtime.sessions.get('s')).toMatchObject({ agent: 'writer', version: '2' });
  });
});
