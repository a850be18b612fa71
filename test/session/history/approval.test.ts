/**
 * Calls that wait for an approval: which calls wait, what a decision does, and which calls still wait after a restart
 * or an interrupt.
 */
import { describe, expect, it } from 'vitest';
import { isRunnable, isRunning } from '../../../actors/session-actor.ts';
import { renderMessages } from '../../../src/context/render.ts';
import { explain } from '../../../src/session/explain.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { callsAtWork } from '../../../src/session/rules/healing.ts';
import { APPROVAL_SKIPPED, INTERRUPT_NOTICE } from '../../../src/session/rules/tool-texts.ts';
import type { EditRequest } from '../../../src/session/state/edit-request.ts';
import { refolded, reopened, throughSnapshot } from '../../support/reopen.ts';
import {
  call,
  environmentOf,
  type Machine,
  startedSession,
  text,
  type WorldOptions,
} from '../../support/session-kit.ts';

const NAMED: WorldOptions = { agent: { holdsCalls: true, approval: new Set(['bash']) } };
const ASKED: WorldOptions = { agent: { holdsCalls: true, approval: 'function' } };

function asking(calls: Readonly<Record<string, string>>, options: WorldOptions = NAMED): Machine {
  const machine = startedSession({ ...options, sent: 'go' });
  machine.answer(Object.entries(calls).map(([id, name]) => call(id, name, { command: id })));
  return machine;
}

function decide(
  machine: Machine,
  callId: string,
  allow: boolean,
  extra: { readonly reason?: string; readonly input?: unknown } = {},
): unknown {
  machine.input({ type: 'approve', callId, allow, ...extra });
  return machine.effect('result')?.value;
}

function results(machine: Machine): readonly unknown[] {
  return machine.state.mailbox.map(({ toolUseId, content, success }) => [toolUseId, content, success]);
}

describe('a call that needs an approval', () => {
  it('waits and is published, while calls without an approval run at once', () => {
    const machine = asking({ a: 'bash', r: 'read_file', b: 'bash' });
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['r']);
    expect(machine.events('approval.required')).toEqual([
      { type: 'approval.required', toolUseId: 'a', toolName: 'bash', input: { command: 'a' } },
      { type: 'approval.required', toolUseId: 'b', toolName: 'bash', input: { command: 'b' } },
    ]);
    expect(machine.events('tool.started').map(({ toolUseId }) => toolUseId)).toEqual(['r']);
    expect(machine.events('session.state').at(-1)).toEqual({
      type: 'session.state',
      state: 'executing',
      phase: 'approval',
    });
    expect(isRunning(machine.state)).toBe(true);
    machine.finish('r');
    expect(isRunning(machine.state)).toBe(false);
    expect(isRunnable(machine.state)).toBe(true);
    const outside = { now: 0, isQueued: false };
    expect(explain(machine.state, outside)).toEqual({
      reason: 'waiting_for_approval',
      detail: 'approve() decides: bash (a), bash (b)',
    });
  });

  it('an approval predicate is called with the calls that could run, before anything starts', () => {
    const machine = asking({ a: 'read_file', b: 'bash' }, ASKED);
    expect(machine.last).toEqual([
      { type: 'consult', on: 'boundary', at: 'answer', halfStep: 1, notifiesListeners: false, asksApproval: true },
    ]);
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 1, verdict: { approve: ['a'] } });
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['b']);
    expect(machine.state.approvals?.waiting).toEqual(['a']);
  });

  it('a call of an unknown tool is answered at once', () => {
    const machine = startedSession({ agent: { holdsCalls: true, approval: new Set(['nothing']) }, sent: 'go' });
    machine.answer([call('a', 'nothing')]);
    expect(machine.state.approvals).toBeUndefined();
    expect(machine.log.at(-1)).toContain('Unknown tool: nothing');
  });

  it('if allowed it runs, and the round closes', () => {
    const machine = asking({ a: 'bash' });
    expect(decide(machine, 'a', true)).toBe(true);
    expect(machine.effect('runTool')).toMatchObject({ callId: 'a', input: { command: 'a' }, key: 's#2@ltqzq4o0' });
    expect(machine.events('tool.started').map(({ toolUseId }) => toolUseId)).toEqual(['a']);
    expect(machine.events('session.state').at(-1)).toEqual({ type: 'session.state', state: 'executing' });
    machine.finish('a');
    expect(machine.state.state).toBe('awaiting');
  });

  it('if allowed with another input it runs with that input, also after a crash', () => {
    const machine = asking({ k: 'charge' }, { agent: { holdsCalls: true, approval: new Set(['charge']) } });
    decide(machine, 'k', true, { input: { amount: 1 } });
    expect(machine.effect('runTool')?.input).toEqual({ amount: 1 });
    expect(reopened(machine).effect('runTool')?.input).toEqual({ amount: 1 });
    // The model's call keeps its own input.
    expect(machine.state.messages.at(-1)?.input).toEqual({ command: 'k' });
  });

  it('H61: if denied it is answered with the reason, and the other waiting calls of the round are denied with it', () => {
    const machine = asking({ a: 'bash', r: 'read_file', b: 'bash', c: 'bash' });
    expect(decide(machine, 'b', false, { reason: 'not today' })).toBe(true);
    expect(results(machine)).toEqual([
      ['b', 'Denied: your human did not allow this call: not today', false],
      ['a', APPROVAL_SKIPPED, false],
      ['c', APPROVAL_SKIPPED, false],
    ]);
    expect(machine.allOf('runTool').map(({ callId }) => callId)).toEqual(['r']);
    machine.finish('r', 'read');
    expect(machine.effect('callModel')).toBeDefined();
  });

  it('H61: a denial needs no reason; a repeated decision is answered like the first, another decision is not', () => {
    const machine = asking({ a: 'bash', b: 'bash' });
    expect(decide(machine, 'a', true)).toBe(true);
    const { eventSeq } = machine.state;
    expect(decide(machine, 'a', true)).toBe(true);
    expect(decide(machine, 'a', false)).toBe(false);
    expect(machine.state.eventSeq).toBe(eventSeq);
    expect(decide(machine, 'b', false)).toBe(true);
    expect(results(machine)).toEqual([['b', 'Denied: your human did not allow this call.', false]]);
    expect(decide(machine, 'b', false)).toBe(true);
    expect(decide(machine, 'nobody', true)).toBe(false);
    expect(machine.allOf('runTool').length).toBe(1);
  });

  it('an interrupt ends it: every call is answered, and a later decision has no effect', () => {
    const machine = asking({ a: 'bash' });
    machine.input({ type: 'interrupt' });
    expect(machine.log.at(-1)).toBe(`tool_response ${INTERRUPT_NOTICE}`);
    expect(machine.state.approvals?.waiting).toEqual([]);
    expect(decide(machine, 'a', true)).toBe(false);
    expect(machine.allOf('runTool')).toEqual([]);
  });

  it('it has no deadline, because a call that was not started cannot be late', () => {
    const machine = asking({ a: 'bash' });
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toEqual([]);
    expect(machine.input({ type: 'heal', callIds: ['a'] })).toEqual({ records: [], effects: [] });
    decide(machine, 'a', true);
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toHaveLength(1);
  });

  it('after a restart it waits without a new event; if it is allowed and a crash follows, its outcome is unknown', () => {
    const machine = asking({ a: 'bash' });
    const again = reopened(machine);
    expect(again.last).toEqual([]);
    expect(again.events('approval.required')).toHaveLength(1);
    expect(again.state.approvals?.waiting).toEqual(['a']);
    decide(again, 'a', true);
    const third = reopened(again);
    expect(third.allOf('runTool')).toEqual([]);
    expect(third.log.at(-1)).toContain('Outcome unknown');
    for (const each of [again, third]) {
      expect(refolded(each).state).toEqual(each.state);
      expect(throughSnapshot(each)).toEqual(each.state);
    }
  });

  it('calls of a suspended run wait for an approval when it resumes', () => {
    const machine = startedSession({ agent: { ...NAMED.agent, maxSteps: 1 }, sent: 'go' });
    machine.answer([text('I look.'), call('a', 'bash'), call('r', 'read_file')]);
    expect(machine.events('approval.required')).toEqual([]);
    machine.input({ type: 'resume' });
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['r']);
    expect(machine.events('approval.required')).toMatchObject([{ toolUseId: 'a' }]);
  });

  it('a predicate is called for calls of a suspended run as well', () => {
    const machine = startedSession({ agent: { ...ASKED.agent, maxSteps: 1 }, sent: 'go' });
    machine.answer([call('a', 'bash')]);
    expect(machine.effect('consult')).toBeUndefined();
    machine.input({ type: 'resume' });
    expect(machine.effect('consult')).toMatchObject({ at: 'resume', notifiesListeners: false, asksApproval: true });
    expect(reopened(machine).effect('consult')).toMatchObject({ at: 'resume' });
    machine.input({ type: 'verdict', on: 'boundary', at: 'resume', halfStep: 1, verdict: { approve: [] } });
    expect(machine.effect('runTool')?.callId).toBe('a');
  });

  it('H61: results are sent in call order, whatever order they came in', () => {
    const machine = asking({ a: 'bash', r: 'read_file' });
    machine.finish('r', 'fast');
    decide(machine, 'a', true);
    machine.finish('a', 'slow');
    const results = machine.state.messages.filter(({ type }) => type === 'tool_response');
    expect(results.map(({ toolUseId }) => toolUseId)).toEqual(['r', 'a']);
    const [answer] = renderMessages(machine.state.messages, { timestamps: false, deliveriesAsText: false }).slice(-1);
    expect(answer?.content).toMatchObject([{ tool_use_id: 'a' }, { tool_use_id: 'r' }]);
  });
});

describe('an edit of the history while a call waits for an approval', () => {
  const edit = (machine: Machine, request: EditRequest): unknown => {
    machine.input({ type: 'edit', request });
    return machine.effect('result')?.value;
  };
  const idOf = (machine: Machine): string => historyMessages(machine.state).at(-1)?.id ?? '';

  it('the edit removes the call: its approval is gone, and a round without calls closes', () => {
    const machine = asking({ a: 'bash' });
    edit(machine, { operation: 'remove', id: idOf(machine) });
    expect(machine.state).toMatchObject({ state: 'idle', approvals: { waiting: [] } });
    expect(decide(machine, 'a', true)).toBe(false);
    expect(machine.allOf('runTool')).toEqual([]);
    expect(machine.events('turn.finished').at(-1)).toMatchObject({ reason: 'cancelled' });
  });

  it('an id that was freed belongs to another call, which waits for no approval', () => {
    const machine = asking({ a: 'bash', r: 'read_file' });
    const kept = [{ callId: 'r', name: 'read_file', arguments: '{"command":"r"}' }];
    edit(machine, { operation: 'update', id: idOf(machine), attributes: { toolCalls: kept } });
    expect(machine.state.approvals?.waiting).toEqual([]);
    expect(machine.events('session.state').at(-1)).toEqual({ type: 'session.state', state: 'executing' });
    machine.finish('r');
    machine.answer([call('a', 'read_file')]);
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['a']);
  });

  it('a result added by hand answers it', () => {
    const machine = asking({ a: 'bash', b: 'bash' });
    for (const toolCallId of ['a', 'b']) {
      const message = { role: 'tool', toolCallId, name: 'bash', content: 'by hand' } as const;
      edit(machine, { operation: 'add', message, silent: true });
      expect(decide(machine, toolCallId, true)).toBe(false);
    }
    expect(machine.state.state).toBe('awaiting');
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('only the approved call runs; the changed call is gone', () => {
    const machine = asking({ a: 'bash', r: 'read_file' });
    const changed = ['a', 'r'].map((callId) => ({
      callId,
      name: callId === 'a' ? 'bash' : 'read_file',
      arguments: JSON.stringify({ command: callId === 'a' ? 'other' : 'r' }),
    }));
    edit(machine, { operation: 'update', id: idOf(machine), attributes: { toolCalls: changed } });
    expect(decide(machine, 'a', true)).toBe(false);
    expect([...machine.state.openCalls.keys()]).toEqual(['r']);
    expect(throughSnapshot(machine)).toEqual(machine.state);
  });

  it('a call that changes while a predicate is pending waits for an approval, and runs in its new form', () => {
    const machine = asking({ a: 'bash' }, ASKED);
    const changed = [{ callId: 'a', name: 'bash', arguments: '{"command":"other"}' }];
    edit(machine, { operation: 'update', id: idOf(machine), attributes: { toolCalls: changed } });
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 1, verdict: { approve: [] } });
    expect(machine.events('approval.required').at(-1)).toMatchObject({ input: { command: 'other' } });
    decide(machine, 'a', true);
    expect(machine.effect('runTool')?.input).toEqual({ command: 'other' });
  });

  it('after a result by hand while the call is held, the model is called after its boundary', () => {
    const machine = asking({ a: 'bash' }, ASKED);
    const message = { role: 'tool', toolCallId: 'a', name: 'bash', content: 'by hand' } as const;
    edit(machine, { operation: 'add', message, silent: true });
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 1, verdict: { approve: ['a'] } });
    expect(machine.state.state).toBe('awaiting');
  });
});

describe('a call without a decision', () => {
  const EXPIRING: WorldOptions = { ...NAMED, settings: { approvals: { expiresMs: 60_000 } } };
  const EXPIRED = 'Denied: your human did not allow this call: nobody decided within 60 seconds.';

  it('is denied at its deadline, counted from the start of its wait, and not before', () => {
    const machine = asking({ a: 'bash', b: 'bash' }, EXPIRING);
    machine.world.now += 59_999;
    machine.input({ type: 'approvalsExpired' });
    expect(machine.last).toEqual([]);
    expect(machine.state.approvals?.waiting).toEqual(['a', 'b']);
    machine.world.now += 1;
    machine.input({ type: 'approvalsExpired' });
    expect(machine.log.slice(-2)).toEqual([`tool_response ${EXPIRED}`, `tool_response ${EXPIRED}`]);
    expect(machine.state).toMatchObject({ state: 'awaiting', approvals: { waiting: [] } });
    expect(refolded(machine).state).toEqual(machine.state);
    machine.input({ type: 'approvalsExpired' });
    expect(machine.last).toEqual([]);
  });

  it('waits without limit by default, and names the entries waiting behind it', () => {
    const machine = asking({ a: 'bash' });
    machine.world.now += 1e12;
    machine.input({ type: 'approvalsExpired' });
    machine.send('hello');
    const outside = { now: 0, isQueued: false };
    expect(explain(machine.state, outside).detail).toBe(
      "approve() decides: bash (a); 1 of the user's messages wait for that",
    );
    expect(explain(machine.state, { ...outside, approvalsMs: 1 }).detail).toContain('; denied at ');
  });

  it.each(['ride', 'steer', 'latest', 'merge', 'turn'] as const)(
    'is denied by a %s message if onInput is deny',
    (deliver) => {
      const machine = asking({ a: 'bash', b: 'bash' }, { ...NAMED, settings: { approvals: { onInput: 'deny' } } });
      machine.send('stop that', { deliver });
      expect(machine.log.filter((line) => line.includes('sent a message instead of deciding'))).toHaveLength(2);
      if (deliver !== 'turn') expect(machine.log.at(-1)).toBe('user_message stop that');
      expect(machine.state.state).toBe('awaiting');
      expect(refolded(machine).state).toEqual(machine.state);
    },
  );

  it('is affected only by messages of a user', () => {
    const machine = asking({ a: 'bash' }, { ...NAMED, settings: { approvals: { onInput: 'deny' } } });
    machine.send('memory', { type: 'from_mneme', source: { type: 'recall', name: '7' } });
    expect(machine.state.approvals?.waiting).toEqual(['a']);
  });
});
