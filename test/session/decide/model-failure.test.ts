import { describe, expect, it } from 'vitest';
import { RETRY_AFTER_MS_MAX } from '../../../src/base/bounds.ts';
import { KIND_OF } from '../../../src/session/rules/mailbox.ts';
import {
  executingSession,
  FATAL,
  type Machine,
  startedSession,
  transientError,
  UNAUTHORIZED,
} from '../../support/session-kit.ts';

/** The current attempt fails with a transient error; after the wait the call is made again. */
function failAndWait(machine: Machine, error = transientError()): void {
  machine.fail(error);
  const retry = machine.effect('retryLater');
  if (retry === undefined) return;
  machine.world.now += retry.delayMs;
  machine.input({ type: 'retryDue', halfStep: retry.halfStep, attempt: retry.attempt });
}

const REPLY = { type: 'subagent', source: { type: 'subagent', name: 'sleuth' } } as const;

describe('retries of a model call', () => {
  it('F036: after two failures and an answer there were three calls and one answer', () => {
    const machine = startedSession({ sent: 'hello' });
    failAndWait(machine);
    failAndWait(machine);
    machine.answer('at last');
    expect(machine.allOf('callModel').map((effect) => effect.attempt)).toEqual([1, 2, 3]);
    expect(machine.log).toEqual(['user_message hello', 'agent_message at last']);
    expect(machine.records.filter((record) => record.type === 'responded')).toHaveLength(1);
  });

  it('F037: after five failures there were five calls, one system message, and the session is idle', () => {
    const machine = startedSession({ sent: 'hello' });
    for (let attempt = 0; attempt < 5; attempt += 1) failAndWait(machine);
    expect(machine.allOf('callModel')).toHaveLength(5);
    expect(machine.effect('retryLater')).toBeUndefined();
    expect(machine.log.at(-1)).toMatch(/system_message .*multiple retries.*overloaded/);
    expect(machine.state.state).toBe('idle');
    expect(machine.state.receipts.get(1)).toMatchObject({ status: 'failed', turn: 1 });
  });

  it.each([
    [0, [1_000, 16_000, 81_000, 256_000]],
    [0.5, [1_075, 17_200, 87_075, 275_200]],
    [0.999, [1_150, 18_398, 93_138, 294_362]],
  ])('F038: with chance %d the waits are %o ms', (random, waits) => {
    const machine = startedSession({ sent: 'hello', random });
    for (let attempt = 0; attempt < 4; attempt += 1) failAndWait(machine);
    expect(machine.allOf('retryLater').map((effect) => effect.delayMs)).toEqual(waits);
    expect(machine.events('llm.retry')).toEqual(
      waits.map((waitMs, index) => ({
        type: 'llm.retry',
        attempt: index + 1,
        waitMs,
        code: 'model_overloaded',
        detail: expect.any(String),
        status: 529,
      })),
    );
  });

  it('Δ9: the wait is at least the one the server asked for, and never shorter than the backoff', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError({ status: 429, retryAfterMs: 5_000 }));
    expect(machine.effect('retryLater')?.delayMs).toBe(5_000);
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    machine.fail(transientError({ status: 429, retryAfterMs: 5_000 }));
    expect(machine.effect('retryLater')?.delayMs).toBe(16_000);
  });

  it('F20, Δ9: a server that asks for weeks gets weeks, and at most a year', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError({ status: 429, retryAfterMs: 3e9 }));
    expect(machine.effect('retryLater')?.delayMs).toBe(3e9);
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    machine.fail(transientError({ status: 429, retryAfterMs: 1e12 }));
    expect(machine.effect('retryLater')?.delayMs).toBe(RETRY_AFTER_MS_MAX);
  });

  it('Δ9: an interrupt ends the wait; the timer that fires later changes nothing', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError());
    machine.input({ type: 'interrupt' });
    expect(machine.last).toContainEqual({ type: 'cancelModel', halfStep: 1 });
    expect(machine.state.state).toBe('idle');
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    expect(machine.last).toEqual([{ type: 'stale', what: 'retry' }]);
  });

  it('A5: a failure of a finished attempt is dropped', () => {
    const machine = startedSession({ sent: 'hello' });
    failAndWait(machine);
    machine.input({ type: 'modelFailed', halfStep: 1, attempt: 1, error: FATAL });
    expect(machine.last).toEqual([{ type: 'stale', what: 'model failure' }]);
    expect(machine.state).toMatchObject({ state: 'awaiting', current: { attempt: 2 } });
  });

  it('an error that is not transient is not retried', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(FATAL);
    expect(machine.allOf('callModel')).toHaveLength(1);
    expect(machine.effect('retryLater')).toBeUndefined();
  });
});

describe('the failure path', () => {
  it('F039: a message with bounceBack bounces: removed, returned with the error, session idle', () => {
    const machine = startedSession();
    machine.send('hello', { bounceBack: true });
    machine.fail(FATAL);
    expect(machine.log).toEqual([]);
    expect(machine.events('bounce_back')).toEqual([
      { type: 'bounce_back', content: 'hello', error: FATAL, messageSeq: 1 },
    ]);
    expect(machine.state).toMatchObject({ state: 'idle', turn: undefined });
    expect(machine.state.receipts.get(1)).toEqual({ status: 'failed', turn: 1, error: FATAL });
  });

  it('F040: the bounce removes the message of its entry and no other with the same text', () => {
    const machine = startedSession({ sent: 'same' });
    machine.answer('one');
    machine.send('same', { bounceBack: true });
    machine.fail(FATAL);
    expect(machine.log).toEqual(['user_message same', 'agent_message one']);
    expect(machine.events('message.removed')).toEqual([{ type: 'message.removed', messageSeq: 3, reason: 'bounced' }]);
  });

  it('F041: responses and deliveries promoted in the same half-step stay', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('memory', { type: 'from_mneme', source: { type: 'recall', name: '7' } });
    machine.send('rider', { bounceBack: true });
    machine.finish('a', 'result');
    machine.fail(FATAL);
    expect(machine.log.slice(-3)).toEqual(['tool_response result', 'tool_call memory', 'tool_response memory']);
    expect(machine.events('bounce_back')).toHaveLength(1);
  });

  it('F039: of several steers each one with bounceBack bounces, and one without it stays with the note', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('one', { deliver: 'steer', bounceBack: true });
    machine.send('stays', { deliver: 'steer' });
    machine.send('two', { deliver: 'steer', bounceBack: true });
    machine.send('rider', { bounceBack: true });
    machine.answer('ok');
    machine.fail(FATAL);
    expect(machine.events('bounce_back').map(({ content }) => content)).toEqual(['one', 'two', 'rider']);
    expect(machine.log).toEqual([
      ...['user_message first', 'agent_message ok', 'user_message stays'],
      'system_message The turn failed: bad request',
    ]);
    for (const id of [2, 3, 4, 5]) expect(machine.state.receipts.get(id)).toMatchObject({ status: 'failed' });
  });

  it('F039: steers and the rider all bounce: nothing stays, and nothing is noted', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('one', { deliver: 'steer', bounceBack: true });
    machine.send('two', { deliver: 'steer', bounceBack: true });
    machine.answer('ok');
    machine.fail(FATAL);
    expect(machine.log).toEqual(['user_message first', 'agent_message ok']);
    expect(machine.events('message.removed').map(({ messageSeq }) => messageSeq)).toEqual([3, 4]);
    expect(machine.state).toMatchObject({ state: 'idle', failure: undefined });
  });

  it('F042 Δ11: without bounceBack the promoted pair stays and the error is noted in the log', () => {
    const machine = startedSession();
    machine.send('found', REPLY);
    machine.fail(FATAL);
    expect(machine.log).toEqual([
      ...['tool_call [sub-agent sleuth]: found', 'tool_response found'],
      ...['system_message The turn failed: bad request'],
    ]);
    expect(machine.events('turn.failed')).toEqual([{ type: 'turn.failed', turn: 'turn-1', error: FATAL }]);
    expect(machine.events('bounce_back')).toEqual([]);
    expect(machine.state.state).toBe('idle');
  });

  it('F042: a failing tool round has no rider, so nothing bounces although an earlier message had bounceBack', () => {
    const machine = startedSession();
    machine.send('hello', { bounceBack: true });
    machine.answer([{ type: 'tool_use', id: 'a', name: 'bash', input: {} }]);
    machine.finish('a');
    machine.fail(FATAL);
    expect(machine.events('bounce_back')).toEqual([]);
    expect(machine.log[0]).toBe('user_message hello');
  });

  it('F043: a refused key bounces, asks for authentication, and is noted in the log', () => {
    const machine = startedSession();
    machine.send('hello', { bounceBack: true });
    machine.fail(UNAUTHORIZED);
    expect(machine.log).toEqual(['system_message Authentication failed: bad key']);
    expect(machine.events('bounce_back')).toHaveLength(1);
    expect(machine.events('authentication_required')).toEqual([
      { type: 'authentication_required', error: UNAUTHORIZED },
    ]);
  });

  it('F043: a refused key without bounceBack keeps the message', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(UNAUTHORIZED);
    expect(machine.log).toEqual(['user_message hello', 'system_message Authentication failed: bad key']);
    expect(machine.events('authentication_required')).toHaveLength(1);
  });

  it('F044 Δ12: the session is blocked until resume, and messages sent meanwhile wait', () => {
    const machine = startedSession({ sent: 'one' });
    machine.send('two');
    machine.fail(UNAUTHORIZED);
    machine.send('three');
    machine.input({ type: 'wake' });
    expect(machine.state).toMatchObject({ state: 'idle', blocked: UNAUTHORIZED });
    expect(machine.waiting).toEqual(['two', 'three']);
    expect(machine.allOf('callModel')).toHaveLength(1);
    machine.input({ type: 'resume' });
    expect(machine.state).toMatchObject({ state: 'awaiting', blocked: undefined });
    expect(machine.log.at(-1)).toBe('user_message two');
  });

  it('F045 Δ10: the message is removed, the session idle, the bounce published, and only then the next entry claimed', () => {
    const machine = startedSession();
    machine.send('bounces', { bounceBack: true });
    machine.send('next');
    const before = machine.seen.events.length;
    machine.fail(FATAL);
    const told = machine.seen.events
      .slice(before)
      .map(({ body }) => (body.type === 'session.state' ? body.state : body.type));
    expect(told).toEqual([
      ...['message.removed', 'idle', 'bounce_back', 'turn.failed'],
      ...['awaiting', 'pending.removed', 'message.created'],
    ]);
    expect(machine.log).toEqual(['user_message next']);
  });

  it('F046 Δ13: an entry that cannot be promoted is set aside, and later entries continue', () => {
    const machine = startedSession();
    machine.send('bad memory', { type: 'from_mneme', source: { type: 'recall', name: 'not a number' } });
    machine.send('bad reply', { type: 'subagent', source: { type: 'user' } });
    machine.send('good');
    expect(machine.state.deadLetters.map(({ entry }) => entry.content)).toEqual(['bad memory', 'bad reply']);
    expect(machine.state.deadLetters[0]?.error.message).toContain('not a number');
    expect(machine.log).toEqual(['user_message good']);
    expect(machine.events('pending.removed').map((event) => event.reason)).toEqual(['dropped', 'dropped', 'promoted']);
  });

  it('F046: nothing is claimed for a mailbox that held only such an entry', () => {
    const machine = startedSession();
    machine.send('bad reply', { type: 'subagent', source: { type: 'user' } });
    expect(KIND_OF.subagent).toBe('active');
    expect(machine.state).toMatchObject({ state: 'idle', mailbox: [] });
    expect(machine.allOf('callModel')).toEqual([]);
  });

  it('a bounced merge is returned whole, and all its senders are notified', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('one', { deliver: 'merge', bounceBack: true });
    machine.send('two', { deliver: 'merge', bounceBack: true });
    machine.answer('ok');
    machine.fail(FATAL);
    expect(machine.events('bounce_back')[0]?.content).toBe('one\n\ntwo');
    expect(machine.log).toEqual(['user_message first', 'agent_message ok']);
    for (const id of [2, 3]) expect(machine.state.receipts.get(id)).toMatchObject({ status: 'failed' });
  });
});
