import { describe, expect, it } from 'vitest';
import { call, executingSession, startedSession, text, transientError } from '../../support/session-kit.ts';

describe('the half-step', () => {
  it('F035: a claim ends with the model call; the state changes only when the answer arrives', () => {
    const machine = startedSession({ sent: 'hello' });
    expect(machine.turns.at(-1)?.records.map((record) => record.type)).toEqual(['accepted', 'epoch', 'claimed']);
    expect(machine.state.state).toBe('awaiting');
    machine.answer('hi');
    expect(machine.turns.at(-1)?.records.map((record) => record.type)).toEqual(['responded']);
  });

  it('F047: twenty wakes make one model call', () => {
    const machine = startedSession({ sent: 'hello' });
    for (let kick = 0; kick < 20; kick += 1) machine.input({ type: 'wake' });
    expect(machine.allOf('callModel')).toHaveLength(1);
  });

  it('F047: twenty messages to an idle session make one model call', () => {
    const machine = startedSession();
    for (let number = 0; number < 20; number += 1) machine.send(`message ${number}`);
    expect(machine.allOf('callModel')).toHaveLength(1);
    expect(machine.state.mailbox).toHaveLength(19);
  });

  it('A5: an answer to a finished half-step is dropped', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.answer('hi');
    machine.send('more');
    machine.input({
      type: 'answered',
      halfStep: 1,
      content: [text('late')],
      stop: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    expect(machine.last).toEqual([{ type: 'stale', what: 'answer' }]);
    expect(machine.state).toMatchObject({ state: 'awaiting', current: { halfStep: 2 } });
  });

  it('decision 6: each half-step of a turn with many rounds takes one rider into the same turn', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('one');
    machine.send('two');
    machine.finish('a');
    machine.answer([call('b', 'bash')]);
    machine.finish('b');
    expect(machine.state.turn?.entries).toEqual([1, 2, 3]);
    machine.answer('done');
    for (const id of [1, 2, 3])
      expect(machine.state.receipts.get(id)).toEqual({ status: 'answered', turn: 1, text: 'done' });
  });

  it('Δ45: a turn at toolRounds fails with its results stored; waiting messages get another turn', () => {
    const machine = executingSession({ a: 'bash' }, { toolRounds: 1 });
    machine.send('and this');
    machine.finish('a');
    expect(machine.events('turn.failed')).toMatchObject([{ error: { code: 'limit', data: { limit: 'toolRounds' } } }]);
    expect(machine.turns.at(-1)?.records.map((record) => record.type)).toContain('closed');
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: 2, entries: [2] } });
    expect(machine.allOf('callModel')).toHaveLength(2);
  });

  it('the header of the request opens an epoch if it changes, and only then', () => {
    const machine = startedSession({ sent: 'one' });
    expect(machine.state.epoch).toBe(2);
    machine.answer('ok');
    machine.send('two');
    machine.answer('ok');
    expect(machine.state.epoch).toBe(2);
    machine.world.fingerprint = 'header-2';
    machine.send('three');
    expect(machine.state).toMatchObject({ epoch: 3, fingerprint: 'header-2', sealedSeq: 0 });
  });
});

describe('the system prompt as a function', () => {
  it('is evaluated once per epoch, before its first call', () => {
    const machine = startedSession({ sent: 'one', hasSystemFunction: true });
    expect(machine.effect('callModel')).toBeUndefined();
    expect(machine.effect('evaluateSystem')).toEqual({ type: 'evaluateSystem', epoch: 2 });
    machine.input({ type: 'systemEvaluated', epoch: 2, text: 'You are.' });
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 1 }]);
    expect(machine.state.system).toEqual({ epoch: 2, text: 'You are.' });
    machine.answer('ok');
    machine.send('two');
    expect(machine.effect('evaluateSystem')).toBeUndefined();
    expect(machine.effect('callModel')).toBeDefined();
  });

  it('an evaluation that throws fails the turn', () => {
    const machine = startedSession({ sent: 'one', hasSystemFunction: true });
    machine.input({ type: 'systemFailed', epoch: 2, error: { name: 'Error', code: 'internal', message: 'no system' } });
    expect(machine.state.state).toBe('idle');
    expect(machine.events('turn.failed')).toHaveLength(1);
  });

  it('A5: a second evaluation of the same epoch changes nothing and makes no second call', () => {
    const machine = startedSession({ sent: 'one', hasSystemFunction: true });
    machine.input({ type: 'interrupt' });
    machine.send('two');
    expect(machine.allOf('evaluateSystem')).toHaveLength(2);
    machine.input({ type: 'systemEvaluated', epoch: 2, text: 'first' });
    machine.input({ type: 'systemEvaluated', epoch: 2, text: 'second' });
    expect(machine.last).toEqual([{ type: 'stale', what: 'system' }]);
    machine.input({ type: 'systemFailed', epoch: 2, error: { name: 'Error', code: 'internal', message: 'late' } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'system' }]);
    expect(machine.allOf('callModel')).toHaveLength(1);
    expect(machine.state.system?.text).toBe('first');
  });

  it('A5: an evaluation for a turn that was interrupted is dropped', () => {
    const machine = startedSession({ sent: 'one', hasSystemFunction: true });
    machine.input({ type: 'interrupt' });
    machine.input({ type: 'systemEvaluated', epoch: 2, text: 'late' });
    expect(machine.last).toEqual([{ type: 'stale', what: 'system' }]);
    expect(machine.state).toMatchObject({ state: 'idle', system: undefined });
  });
});

describe('pause and resume', () => {
  it('no half-step starts while paused; running work continues and its results wait', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'pause' });
    machine.finish('a', 'result');
    expect(machine.state).toMatchObject({ state: 'executing', paused: true });
    expect(machine.waiting).toEqual(['result']);
    machine.input({ type: 'resume' });
    expect(machine.state.state).toBe('awaiting');
    expect(machine.log.at(-1)).toBe('tool_response result');
  });

  it('pause and resume are each published once', () => {
    const machine = startedSession();
    machine.input({ type: 'resume' });
    machine.input({ type: 'pause' });
    machine.input({ type: 'pause' });
    machine.input({ type: 'resume' });
    expect(machine.events('session.state')).toEqual([
      { type: 'session.state', state: 'idle', phase: 'paused' },
      { type: 'session.state', state: 'idle' },
    ]);
  });

  it('a retry that is due while paused is still made, because its half-step has already begun', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError());
    machine.input({ type: 'pause' });
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 2 }]);
  });
});
