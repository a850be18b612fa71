import { describe, expect, it } from 'vitest';
import { apply } from '../../src/session/apply/apply.ts';
import { mayStart } from '../../src/session/rules/mailbox.ts';
import { call, executingSession, type Machine, startedSession } from '../support/session-kit.ts';

function states(machine: Machine): readonly string[] {
  return machine.events('session.state').map((event) => event.state);
}

describe('the state machine of a session', () => {
  it('F001: a new session is idle, with nothing evicted and nothing waiting', () => {
    const machine = startedSession();
    expect(machine.state).toMatchObject({ agent: 'main', state: 'idle', floor: 1, epoch: 1, depth: 0, mailbox: [] });
    expect(machine.state.messages).toEqual([]);
    expect(machine.seen.events).toEqual([]);
  });

  it('F001: creating a session again changes nothing', () => {
    const machine = startedSession({ sent: 'hello' });
    const outcome = machine.input({ type: 'create', agent: 'researcher' });
    expect(outcome).toEqual({ records: [], effects: [] });
    expect(machine.state.agent).toBe('main');
  });

  it('F002: a message to an idle session claims a half-step', () => {
    const machine = startedSession({ sent: 'hello' });
    expect(machine.state.state).toBe('awaiting');
    expect(machine.last).toContainEqual({ type: 'callModel', halfStep: 1, attempt: 1 });
    expect(machine.state.current).toMatchObject({ halfStep: 1, attempt: 1 });
  });

  it('F003: a second claim while awaiting is refused and changes nothing', () => {
    const machine = startedSession({ sent: 'hello' });
    expect(mayStart(machine.state)).toBe(false);
    expect(machine.input({ type: 'wake' })).toEqual({ records: [], effects: [] });
    expect(machine.state.state).toBe('awaiting');
    expect(() => apply(machine.state, { type: 'claimed', halfStep: 2, entries: [] }, 0)).toThrow('awaiting');
  });

  it('F004: an answer with calls goes from awaiting to executing', () => {
    const machine = executingSession({ a: 'bash' });
    expect(machine.state.state).toBe('executing');
    expect(machine.state.current).toBeUndefined();
  });

  it('F004: an answer to an idle session is dropped as stale', () => {
    const machine = startedSession();
    const outcome = machine.input({
      type: 'answered',
      halfStep: 1,
      content: [call('a', 'bash')],
      stop: 'tool_use',
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    expect(outcome).toEqual({ records: [], effects: [{ type: 'stale', what: 'answer' }] });
    expect(machine.state.state).toBe('idle');
  });

  it('F005: an answer without calls goes from awaiting to idle', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.answer('hi');
    expect(machine.state.state).toBe('idle');
  });

  it('F005: an answer to an executing session is dropped as stale', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({
      type: 'answered',
      halfStep: 1,
      content: [],
      stop: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    expect(machine.last).toEqual([{ type: 'stale', what: 'answer' }]);
    expect(machine.state.state).toBe('executing');
  });

  it('F006: a round with every call answered, in the mailbox or in the log, may start', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.input({ type: 'pause' });
    machine.finish('a');
    const answer = { id: 'r-b', createdAt: 0, role: 'tool', content: 'given', toolCallId: 'b', name: 'bash' } as const;
    apply(machine.state, { type: 'edited', operation: 'settle', added: [{ message: answer }] }, machine.world.now);
    expect(mayStart(machine.state)).toBe(false);
    machine.input({ type: 'resume' });
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.mailbox).toEqual([]);
  });

  it('F007: a round with one of two calls answered may not start', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a');
    expect(mayStart(machine.state)).toBe(false);
    expect(machine.state.state).toBe('executing');
    expect(machine.effect('callModel')).toBeUndefined();
  });

  it('F008: a state event carries the new state, never the old one', () => {
    const machine = executingSession({ a: 'bash' });
    machine.finish('a');
    machine.answer('done');
    expect(states(machine)).toEqual(['awaiting', 'executing', 'awaiting', 'idle']);
  });

  it('F009: on idle the state is published first, the interrupt flag is cleared, then the next entry is claimed', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('next');
    const before = machine.seen.events.length;
    machine.input({ type: 'interrupt' });
    const bodies = machine.seen.events.slice(before).map(({ body }) => body);
    const idle = bodies.findIndex((body) => body.type === 'session.state' && body.state === 'idle');
    const claimed = bodies.findIndex((body) => body.type === 'session.state' && body.state === 'awaiting');
    expect(bodies[0]).toEqual({ type: 'interrupt.acknowledged' });
    expect(idle).toBeGreaterThan(0);
    expect(claimed).toBeGreaterThan(idle);
    expect(machine.state).toMatchObject({ state: 'awaiting', interruptRequested: false });
    expect(machine.log.at(-1)).toBe('user_message next');
  });

  it('S3: a turn starts with the claim out of idle and ends with the next idle', () => {
    const machine = executingSession({ a: 'bash' });
    expect(machine.state.turn).toMatchObject({ id: 1, halfSteps: 1 });
    machine.finish('a');
    expect(machine.state.turn).toMatchObject({ id: 1, halfSteps: 2 });
    machine.answer('done');
    expect(machine.state.turn).toBeUndefined();
    machine.send('again');
    expect(machine.state.turn).toMatchObject({ id: 2, halfSteps: 1 });
  });

  it('the turn is bounded: after toolRounds model calls it closes, noted and failed; other messages wait', () => {
    const machine = executingSession({ a: 'bash' }, { toolRounds: 1 });
    machine.send('later');
    machine.finish('a', 'result');
    const failed = machine.events('turn.failed')[0];
    expect(failed?.error).toMatchObject({ code: 'limit', data: { limit: 'toolRounds' } });
    expect(machine.log).toContainEqual(expect.stringContaining('system_message The turn was stopped'));
    expect(machine.log).toContain('tool_response result');
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: 2 } });
    expect(machine.log.at(-1)).toBe('user_message later');
  });
});
