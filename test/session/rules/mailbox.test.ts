import { describe, expect, it } from 'vitest';
import { ContentError } from '../../../src/base/errors.ts';
import type { PendingType, Source } from '../../../src/base/messages.ts';
import { apply } from '../../../src/session/apply/apply.ts';
import { checkEntry, KIND_OF, promotionOrder, selectEntries } from '../../../src/session/rules/mailbox.ts';
import { phantomCallOf } from '../../../src/session/rules/promotion.ts';
import type { Entry } from '../../../src/session/state/records.ts';
import { executingSession, type Machine, startedSession } from '../../support/session-kit.ts';

/** A paused idle session, so that sent messages stay in the mailbox for inspection. */
function pausedSession(): Machine {
  const machine = startedSession();
  machine.input({ type: 'pause' });
  return machine;
}

const REPLY = { type: 'subagent', source: { type: 'subagent', name: 'sleuth' } } as const;
const RECALL = { type: 'from_mneme', source: { type: 'recall', name: '42' } } as const;

describe('mailbox: kinds and validation', () => {
  it.each([
    ['user_message', 'active'],
    ['tool_response', 'active'],
    ['subagent', 'active'],
    ['from_mneme', 'background'],
    ['from_melete_skill', 'background'],
    ['from_melete_workflow', 'background'],
    ['from_melete_goal', 'background'],
  ] as const)('F013: %s is %s', (type, kind) => {
    expect(KIND_OF[type]).toBe(kind);
  });

  it('F013: an unknown type is refused, also one named like a member of Object.prototype', () => {
    for (const type of ['from_nowhere', 'constructor', '']) {
      expect(() => checkEntry({ type: type as PendingType, content: 'x' })).toThrow(ContentError);
    }
  });

  it('F013: the kind of an accepted entry is derived from its type', () => {
    const machine = pausedSession();
    machine.send('memory', RECALL);
    machine.send('hello');
    expect(machine.state.mailbox.map((entry) => entry.kind)).toEqual(['background', 'active']);
  });

  const refused: readonly (readonly [string, Entry])[] = [
    [
      'a tool_response without a tool use id',
      { type: 'tool_response', content: 'x', source: { type: 'tool', name: 'bash' } },
    ],
    [
      'a tool_response with an empty tool use id',
      { type: 'tool_response', content: 'x', toolUseId: '', source: { type: 'tool', name: 'bash' } },
    ],
    ['a source other than a user without a name', { type: 'subagent', content: 'x', source: { type: 'subagent' } }],
    ['a source with a blank name', { type: 'from_mneme', content: 'x', source: { type: 'recall', name: ' ' } }],
    ['blank text', { type: 'user_message', content: ' \n' }],
    ['no blocks', { type: 'user_message', content: [] }],
    ['only blank text blocks', { type: 'user_message', content: [{ type: 'text', text: ' ' }] }],
    [
      'a call in a user message',
      { type: 'user_message', content: [{ type: 'tool_use', id: 'a', name: 'bash', input: {} }] },
    ],
    [
      'a result in a user message',
      { type: 'user_message', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'x' }] },
    ],
  ];
  it.each(refused)('F014: %s is refused with ContentError and nothing is stored', (_what, entry) => {
    const machine = startedSession();
    machine.input({ type: 'send', entry, bytes: 1 });
    expect(machine.effect('refused')?.error).toMatchObject({ name: 'ContentError', code: 'content' });
    expect(machine.state.nextPendingId).toBe(1);
    expect(machine.turns).toHaveLength(1);
  });

  it('A9: a message over limits.messageBytes is refused, and the error names the limit', () => {
    const machine = startedSession({ limits: { messageBytes: 7 } });
    expect(machine.send('too long')).toMatchObject({ code: 'limit', data: { limit: 'messageBytes', value: 8 } });
  });

  it('A9: a full mailbox refuses as retryable, and accepts again once there is room', () => {
    const machine = startedSession({ sent: 'first', limits: { mailbox: 2 } });
    expect(machine.send('second')).toBe(2);
    expect(machine.send('third')).toBe(3);
    expect(machine.send('fourth')).toMatchObject({ code: 'mailbox_full', retryable: true });
    machine.answer('ok');
    expect(machine.send('fifth')).toBe(4);
  });

  it('a key repeated with the same content returns the same receipt, with the seq of its first event', () => {
    const machine = startedSession();
    machine.send('hello', { key: 'k', fingerprint: 'f' });
    const first = machine.effect('accepted');
    machine.send('hello', { key: 'k', fingerprint: 'f' });
    expect(machine.effect('accepted')).toEqual({ ...first, duplicate: true });
    expect(first).toMatchObject({ pendingId: 1, seq: 1 });
    expect(machine.state.nextPendingId).toBe(2);
  });

  it('a key repeated with other content is refused with KeyReusedError', () => {
    const machine = startedSession();
    machine.send('hello', { key: 'k', fingerprint: 'f' });
    expect(machine.send('other', { key: 'k', fingerprint: 'g' })).toMatchObject({ code: 'key_reused' });
  });

  it('a key without a fingerprint is recognised', () => {
    const machine = startedSession();
    machine.send('hello', { key: 'k' });
    expect(machine.send('hello', { key: 'k' })).toBe(1);
  });
});

describe('mailbox: routing', () => {
  /** Melete has a model for this session. */
  const PREPARED = { agent: { enrichers: { melete: { model: 'muse' } } } };

  it('F015: a user message to an idle session is routed through preparation', () => {
    const machine = startedSession(PREPARED);
    machine.send('hello');
    expect(machine.effect('startEnricher')).toMatchObject({ enricher: 'melete' });
    expect(machine.effect('callModel')).toBeUndefined();
    expect(machine.state).toMatchObject({ state: 'idle', enrichment: { entry: 1 } });
  });

  it('F016: a reply of a sub-agent to an idle session is routed to the half-step', () => {
    const machine = startedSession(PREPARED);
    machine.send('found', REPLY);
    expect(machine.effect('startEnricher')).toBeUndefined();
    expect(machine.effect('callModel')).toMatchObject({ halfStep: 1 });
    expect(machine.log).toEqual(['tool_call [sub-agent sleuth]: found', 'tool_response found']);
  });

  it('F017: a background entry is not routed and wakes no session', () => {
    const machine = startedSession(PREPARED);
    machine.send('memory', RECALL);
    expect(machine.last.map((effect) => effect.type)).toEqual(['accepted']);
    expect(machine.state).toMatchObject({ state: 'idle', enrichment: undefined });
    expect(machine.waiting).toEqual(['memory']);
  });

  it('F018: a message to an awaiting session waits silently', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('second');
    expect(machine.last.map((effect) => effect.type)).toEqual(['accepted']);
    expect(machine.waiting).toEqual(['second']);
  });

  it('F018: a message to an executing session waits even when the round is complete (R26)', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'pause' });
    machine.finish('a', 'result');
    machine.send('second', { deliver: 'turn' });
    machine.input({ type: 'resume' });
    // The response claims the half-step; the message waits until the session is idle again.
    expect(machine.log.at(-1)).toBe('tool_response result');
    expect(machine.waiting).toEqual(['second']);
  });

  it('F019: the last response of a round claims the next half-step', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('b');
    expect(machine.last).toEqual([]);
    machine.finish('a');
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 2, attempt: 1 }]);
  });

  it('F020: a message sent while awaiting is claimed when the turn ends', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('second');
    machine.answer('one');
    expect(machine.state.state).toBe('awaiting');
    expect(machine.log).toEqual(['user_message first', 'agent_message one', 'user_message second']);
  });

  it('F022: an entry leaves with one event: promoted, recalled or dropped', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('second');
    machine.send('third', { deliver: 'latest' });
    machine.send('fourth', { deliver: 'latest' });
    machine.input({ type: 'recall', pendingId: 2 });
    expect(machine.events('pending.removed')).toEqual([
      { type: 'pending.removed', pendingId: 1, reason: 'promoted' },
      { type: 'pending.removed', pendingId: 3, reason: 'dropped' },
      { type: 'pending.removed', pendingId: 2, reason: 'recalled' },
    ]);
  });

  it('F021: pending.created has the public form of the entry, and is published before the entry is routed', () => {
    const machine = startedSession();
    machine.send('hello', { bounceBack: true });
    expect(machine.seen.events[0]?.body).toEqual({
      type: 'pending.created',
      pending: {
        id: 1,
        type: 'user_message',
        kind: 'active',
        content: 'hello',
        at: machine.world.now,
        source: { type: 'user' },
      },
    });
  });

  it('F023 Δ7: only a waiting user entry can be recalled; other ids are ignored', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a');
    const own = machine.send('recall me');
    const response = machine.state.mailbox.find((entry) => entry.type === 'tool_response')?.id;
    machine.send('reply', REPLY);
    const reply = machine.state.mailbox.at(-1)?.id;
    for (const pendingId of [0, -1, 99, 1, response, reply]) {
      expect(machine.input({ type: 'recall', pendingId: pendingId ?? 0 })).toEqual({
        records: [],
        effects: [{ type: 'result', value: false }],
      });
    }
    machine.input({ type: 'recall', pendingId: Number(own) });
    expect(machine.effect('result')?.value).toBe(true);
    expect(machine.state.receipts.get(Number(own))).toEqual({ status: 'dropped', reason: 'recalled' });
    machine.input({ type: 'recall', pendingId: Number(own) });
    expect(machine.effect('result')?.value).toBe(false);
  });
});

describe('mailbox: promotion', () => {
  it('F024: a user entry becomes one user message, unchanged', () => {
    const machine = startedSession({ sent: '  spaces stay ' });
    expect(machine.state.messages).toMatchObject([
      { seq: 1, type: 'user_message', content: '  spaces stay ', source: { type: 'user' }, tokens: 4 },
    ]);
    expect(machine.state.mailbox).toEqual([]);
    expect(machine.seen.promoted).toEqual([1]);
  });

  it('F025: a response becomes one message with its id and its success', () => {
    const machine = executingSession({ a: 'bash' });
    machine.finish('a', 'broken', false);
    expect(machine.state.messages.at(-1)).toMatchObject({
      type: 'tool_response',
      content: 'broken',
      toolUseId: 'a',
      toolName: 'bash',
      success: false,
      source: { type: 'tool', name: 'bash' },
    });
  });

  it('F026: a delivery becomes a phantom pair: one id, one time, consecutive, 50 tokens for the call', () => {
    const machine = startedSession();
    machine.send('found it', REPLY);
    const [request, response] = machine.state.messages;
    expect(request).toMatchObject({ seq: 1, type: 'tool_call', toolUseId: 'from_sleuth_1', tokens: 50, phantom: true });
    expect(response).toMatchObject({
      ...{ seq: 2, type: 'tool_response', toolUseId: 'from_sleuth_1', success: true },
      ...{ content: 'found it', tokens: 2, phantom: true },
    });
    expect(request?.at).toBe(response?.at);
    expect(request?.source).toEqual({ type: 'subagent', name: 'sleuth' });
    expect(response?.source).toEqual(request?.source);
  });

  const named: readonly (readonly [Source, string, string, Readonly<Record<string, unknown>>, string])[] = [
    [{ type: 'subagent', name: 'sleuth' }, 'one\ntwo', 'from_sleuth', { from: 'sleuth' }, '[sub-agent sleuth]: one'],
    [{ type: 'skill', name: 'git' }, 'one\ntwo', 'from_melete_skill', { skill: 'git' }, '[recalled skill: git]'],
    [
      { type: 'workflow', name: 'ship' },
      'one\ntwo',
      'from_melete_workflow',
      { workflow: 'ship' },
      '[recalled workflow: ship]',
    ],
    [{ type: 'recall', name: '42' }, 'one\ntwo', 'from_mneme', { message_id: 42 }, 'one'],
    [{ type: 'goal', name: '7' }, 'one\ntwo', 'from_melete_goal', { goal_id: 7 }, '[goal 7]'],
  ];
  it.each(named)(
    'F027 F028: the delivery from %o has its name and input, and its call shows the first line',
    (source, content, name, input, display) => {
      expect(phantomCallOf({ id: 9, source, content })).toEqual({ id: `${name}_9`, name, input, display });
    },
  );

  it('F027: entries sent by a user or a tool are not deliveries', () => {
    expect(phantomCallOf({ id: 9, source: { type: 'user' }, content: 'x' })).toBeUndefined();
    expect(phantomCallOf({ id: 9, source: { type: 'tool', name: 'bash' }, content: 'x' })).toBeUndefined();
  });

  it('F028: the call shows the first line, the result has the raw content', () => {
    const machine = startedSession();
    machine.send('# Git\nuse it', { type: 'from_melete_skill', source: { type: 'skill', name: 'git' } });
    machine.send('hello');
    expect(machine.log).toEqual([
      'tool_call [recalled skill: git]',
      'tool_response # Git\nuse it',
      'user_message hello',
    ]);
  });

  it('F029 A3: claim and promotions are records of one transition', () => {
    const machine = startedSession();
    machine.send('memory', RECALL);
    const turns = machine.turns.length;
    machine.send('hello');
    expect(machine.turns).toHaveLength(turns + 1);
    expect(machine.turns.at(-1)?.records.map((record) => record.type)).toEqual(['accepted', 'epoch', 'claimed']);
  });

  it('F029: a claim of an entry that is not waiting means a broken log and throws', () => {
    const machine = startedSession();
    const claim = { type: 'claimed', halfStep: 1, entries: [1], turn: 1 } as const;
    expect(() => apply(machine.state, claim, machine.world.now)).toThrow('S2: entry 1 is not waiting');
  });
});

describe('mailbox: orders', () => {
  it('Δ6: the order follows the ids, whatever the clock says', () => {
    const machine = pausedSession();
    machine.send('one');
    machine.world.now -= 60_000;
    machine.send('two');
    expect(machine.waiting).toEqual(['one', 'two']);
    machine.input({ type: 'resume' });
    expect(machine.log).toEqual(['user_message one']);
  });

  it('F020: tool responses wake first, then the oldest entry; background entries never wake', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'pause' });
    machine.send('memory', RECALL);
    machine.input({ type: 'wake' });
    expect(machine.effect('callModel')).toBeUndefined();
    machine.send('user');
    machine.finish('a', 'result');
    machine.input({ type: 'resume' });
    expect(machine.log.slice(-4)).toEqual([
      ...['tool_response result', 'tool_call memory', 'tool_response memory'],
      'user_message user',
    ]);
  });

  it('F032: a half-step promotes responses, then deliveries, then steers, then the rider', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.send('rider');
    machine.send('steer', { deliver: 'steer' });
    machine.send('memory', RECALL);
    machine.finish('b', 'of b');
    machine.finish('a', 'of a');
    expect(machine.log.slice(-6)).toEqual([
      ...['tool_response of b', 'tool_response of a', 'tool_call memory', 'tool_response memory'],
      ...['user_message steer', 'user_message rider'],
    ]);
  });

  it('F033: of three waiting messages one rides per half-step', () => {
    const machine = executingSession({ a: 'bash' });
    for (const content of ['one', 'two', 'three']) machine.send(content);
    machine.finish('a');
    expect(machine.log.at(-1)).toBe('user_message one');
    expect(machine.waiting).toEqual(['two', 'three']);
  });

  it('Δ33: all waiting replies of sub-agents ride together, even with an earlier user message waiting', () => {
    const machine = startedSession({ sent: 'go' });
    machine.send('user first');
    machine.send('reply 1', REPLY);
    machine.send('user second');
    machine.send('reply 2', REPLY);
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message user first');
    machine.answer('ok');
    expect(machine.log.slice(-4)).toEqual([
      ...['tool_call [sub-agent sleuth]: reply 1', 'tool_response reply 1'],
      ...['tool_call [sub-agent sleuth]: reply 2', 'tool_response reply 2'],
    ]);
    expect(machine.waiting).toEqual(['user second']);
  });

  it('F034: background entries alone start no half-step', () => {
    const machine = startedSession();
    machine.send('memory', RECALL);
    machine.input({ type: 'wake' });
    expect(selectEntries(machine.state)).toBeUndefined();
    expect(machine.allOf('callModel')).toEqual([]);
    expect(machine.waiting).toEqual(['memory']);
  });

  it('F031: a wake without active entries leaves the session idle and background entries waiting', () => {
    const machine = startedSession({ sent: 'one' });
    machine.send('memory', RECALL);
    machine.answer('done');
    expect(machine.state.state).toBe('idle');
    expect(machine.waiting).toEqual(['memory']);
  });

  it('A7: a selection names each entry once', () => {
    const machine = pausedSession();
    for (const deliver of ['ride', 'steer', 'turn', 'merge', 'merge'] as const) machine.send(deliver, { deliver });
    machine.send('memory', RECALL);
    const selection = selectEntries(machine.state);
    const order = selection === undefined ? [] : promotionOrder(selection);
    expect(new Set(order).size).toBe(order.length);
    expect(order).toEqual([6, 2, 1]);
  });
});
