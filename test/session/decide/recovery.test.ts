import { describe, expect, it } from 'vitest';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import { decodeTransition, encodeTransition, RECORD_FORMAT } from '../../../src/session/state/records.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { executingSession, Machine, startedSession, transientError, UNAUTHORIZED } from '../../support/session-kit.ts';

/** The same session after its process died: the text of its log is folded, then the session recovers. */
function reopened(machine: Machine): Machine {
  const turns = machine.turns.map((turn) => decodeTransition(encodeTransition(turn)));
  const again = Machine.replayed(machine.world, machine.state.id, turns);
  again.input({ type: 'recover' });
  return again;
}

describe('recovery uses the normal transitions', () => {
  it('F010 decision 3: a call in flight is made again with the same half-step and attempt, and nothing is promoted', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.send('waits');
    const again = reopened(machine);
    expect(again.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 1 }]);
    expect(again.state.state).toBe('awaiting');
    expect(again.waiting).toEqual(['waits']);
    expect(again.events('session.recovered')).toEqual([
      { type: 'session.recovered', redone: ['half-step 1'], synthesized: [] },
    ]);
  });

  it('F010: recovery.resumeAwaiting false fails the turn instead, and the mailbox continues', () => {
    const machine = startedSession({ sent: 'hello', settings: { recovery: { resumeAwaiting: false } } });
    machine.send('next');
    const again = reopened(machine);
    expect(again.events('turn.failed')[0]?.error.message).toContain('lost in a restart');
    expect(again.log.at(-1)).toBe('user_message next');
    expect(again.state).toMatchObject({ state: 'awaiting', turn: { id: 2 } });
  });

  it('a waiting retry waits for the remaining time', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError());
    machine.world.now += 400;
    expect(reopened(machine).last).toEqual([{ type: 'retryLater', halfStep: 1, attempt: 2, delayMs: 600 }]);
    machine.world.now += 600;
    expect(reopened(machine).last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 2 }]);
  });

  it('F59: a wall clock set back while the process was down makes no wait longer, however often the store is opened', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.fail(transientError());
    machine.world.now -= 3_600_000;
    const again = reopened(machine);
    expect(again.last).toEqual([{ type: 'retryLater', halfStep: 1, attempt: 2, delayMs: 1_000 }]);
    expect(reopened(again).last).toEqual([{ type: 'retryLater', halfStep: 1, attempt: 2, delayMs: 1_000 }]);
  });

  it('an interrupted evaluation of a system text is requested again', () => {
    const machine = startedSession({ sent: 'hello', hasSystemFunction: true });
    expect(reopened(machine).last).toEqual([{ type: 'evaluateSystem', epoch: 2 }]);
    machine.input({ type: 'systemEvaluated', epoch: 2, text: 'You are.' });
    expect(reopened(machine).last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 1 }]);
  });

  it('F011 decision 3: pure and keyed calls run again with their key, probe calls ask, once calls get "outcome unknown"', () => {
    const machine = executingSession({ p: 'read_file', k: 'charge', q: 'deploy', o: 'bash' });
    const keys = machine.lastOf('runTool').map((effect) => [effect.callId, effect.key]);
    const again = reopened(machine);
    expect(again.lastOf('runTool').map((effect) => [effect.callId, effect.key, effect.mode])).toEqual([
      ['p', 's#2@ltqzq4o0', 'run'],
      ['k', 's#3@ltqzq4o0', 'run'],
      ['q', 's#4@ltqzq4o0', 'probe'],
    ]);
    expect(keys.slice(0, 3)).toEqual(again.lastOf('runTool').map((effect) => [effect.callId, effect.key]));
    expect(again.state.mailbox).toMatchObject([{ toolUseId: 'o', content: OUTCOME_UNKNOWN, success: false }]);
    expect(again.events('session.recovered')).toEqual([
      { type: 'session.recovered', redone: ['p', 'k', 'q'], synthesized: ['o'] },
    ]);
  });

  it('F011: a round with only once calls closes and continues with the model', () => {
    const again = reopened(executingSession({ a: 'bash', b: 'bash' }));
    expect(again.state.state).toBe('awaiting');
    expect(again.lastOf('callModel')).toHaveLength(1);
    expect(again.log.slice(-2)).toEqual([`tool_response ${OUTCOME_UNKNOWN}`, `tool_response ${OUTCOME_UNKNOWN}`]);
  });

  it('I4: a call that has its response is neither run nor answered again', () => {
    const machine = executingSession({ a: 'bash', b: 'read_file' });
    machine.finish('a', 'result');
    const again = reopened(machine);
    expect(again.lastOf('runTool').map((effect) => effect.callId)).toEqual(['b']);
    expect(again.waiting).toEqual(['result']);
  });

  it('A10: a model call whose answer is stored is not made again', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.answer('hi');
    const again = reopened(machine);
    expect(again.effects).toEqual([]);
    expect(again.turns).toHaveLength(machine.turns.length);
  });

  it('waiting entries of an idle session are claimed', () => {
    const machine = startedSession();
    machine.send('memory', { type: 'from_mneme', source: { type: 'recall', name: '1' } });
    machine.world.admits = false;
    machine.send('hello');
    machine.world.admits = true;
    const again = reopened(machine);
    expect(again.state.state).toBe('awaiting');
    expect(again.log.at(-1)).toBe('user_message hello');
  });

  it('A10: a paused session stays paused, a blocked one stays blocked', () => {
    const paused = executingSession({ a: 'read_file' });
    paused.input({ type: 'pause' });
    paused.finish('a');
    expect(reopened(paused).effects).toEqual([]);
    const blocked = startedSession({ sent: 'hello' });
    blocked.send('next');
    blocked.fail(UNAUTHORIZED);
    expect(reopened(blocked)).toMatchObject({ effects: [], state: { state: 'idle', blocked: UNAUTHORIZED } });
  });

  it('recovering twice equals recovering once: the same effects, and no call is answered twice', () => {
    const machine = executingSession({ a: 'bash', b: 'read_file' });
    const once = reopened(machine);
    const twice = reopened(once);
    expect(twice.lastOf('runTool').map((effect) => effect.callId)).toEqual(['b']);
    expect(twice.state.mailbox).toHaveLength(1);
  });
});

describe('the text of a transition', () => {
  it.each([
    '{}',
    '[]',
    '{"v":1,"at":"x","r":[]}',
    '{"v":1,"at":1}',
    `{"v":${RECORD_FORMAT + 1},"at":1,"r":[]}`,
    'no json',
  ])('refuses %s', (text) => {
    expect(() => decodeTransition(text)).toThrow();
  });

  it('a record that our code cannot have written means a corrupt log and throws', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.answer('hi');
    const answer = machine.records.filter((record) => record.type === 'responded');
    expect(() => applyAll(emptyState('s'), answer, 0)).toThrow('S3');
    expect(() => applyAll(emptyState('s'), [{ type: 'recalled', id: 1 }], 0)).toThrow('S2');
    expect(() => applyAll(emptyState('s'), [{ type: 'childExited', child: 'x', reason: 'failed' }], 0)).toThrow(
      'unknown child',
    );
  });
});
