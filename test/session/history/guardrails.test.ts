/** Guardrails in the pure core: when they are asked, and how each verdict changes the log. */
import { describe, expect, it } from 'vitest';
import type { AssistantMessage, HistoryMessage } from '../../../src/base/history-message.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import type { GuardVerdict, Question } from '../../../src/session/state/verdicts.ts';
import { refolded, reopened } from '../../support/reopen.ts';
import {
  call,
  type Machine,
  startedSession,
  text,
  transientError,
  USAGE,
  type WorldOptions,
} from '../../support/session-kit.ts';

const BEFORE: WorldOptions = { agent: { guards: { before: true, after: false } } };
const AFTER: WorldOptions = { agent: { guards: { before: false, after: true } } };

function saidBefore(machine: Machine, verdict: GuardVerdict<readonly HistoryMessage[]>): void {
  machine.input({ type: 'verdict', on: 'request', halfStep: machine.halfStep, verdict });
}

function saidAfter(machine: Machine, verdict: GuardVerdict<AssistantMessage>): void {
  const { halfStep, answer } = askedAfter(machine);
  machine.input({ type: 'verdict', on: 'answer', halfStep, answer, verdict });
}

function askedAfter(machine: Machine): Extract<Question, { on: 'answer' }> {
  const effect = machine.effect('consult');
  if (effect?.on !== 'answer') throw new Error('nobody was asked');
  return effect;
}

const BLOCKED = { code: 'turn_failed', data: { reason: 'guardrail', detail: 'no' } };

describe('guardrails before a call', () => {
  it('run once the message is stored; if they pass, the call follows and nothing is written', () => {
    const machine = startedSession({ ...BEFORE, sent: 'go' });
    expect(machine.last).toContainEqual({ type: 'consult', on: 'request', halfStep: 1 });
    expect(machine.effect('callModel')).toBeUndefined();
    const turns = machine.turns.length;
    saidBefore(machine, { type: 'pass' });
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 1 }]);
    expect(machine.turns.length).toBe(turns);
  });

  it('a block prevents the call; the message stays, and waiting entries get a separate turn', () => {
    const machine = startedSession({ ...BEFORE, sent: 'go' });
    saidBefore(machine, { type: 'block', reason: 'no' });
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'failed', error: BLOCKED });
    expect(machine.events('turn.failed')[0]?.error).toMatchObject(BLOCKED);
    expect(machine.log).toEqual(['user_message go']);
    expect(machine.allOf('callModel')).toEqual([]);
    expect(machine.state).toMatchObject({ state: 'idle', usage: { input_tokens: 0 }, suspended: undefined });
    machine.send('again');
    expect(machine.effect('consult')).toBeDefined();
  });

  it('a transformation is one edit of the changed parts, and the call follows it', () => {
    const machine = startedSession({ ...BEFORE, sent: 'my number is 4111' });
    const [message] = historyMessages(machine.state);
    if (message === undefined) throw new Error('no message');
    const changed = { ...message, content: 'my number is hidden' } as HistoryMessage;
    saidBefore(machine, { type: 'transform', value: [changed] });
    expect(machine.log).toEqual(['user_message my number is hidden']);
    expect(machine.events('message.updated')).toHaveLength(1);
    expect(machine.effect('callModel')).toMatchObject({ halfStep: 1, attempt: 1 });
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('a transformation may remove and add messages; one that changes nothing writes nothing', () => {
    const machine = startedSession({ ...BEFORE, sent: 'one' });
    saidBefore(machine, { type: 'pass' });
    machine.answer('uno');
    machine.send('two');
    const messages = historyMessages(machine.state);
    const turns = machine.turns.length;
    const put = { id: '', createdAt: 1, role: 'user', content: 'only this' } as const;
    const same = refolded(machine);
    saidBefore(same, { type: 'transform', value: messages });
    expect(same.turns.length).toBe(turns);
    saidBefore(machine, { type: 'transform', value: [...messages.slice(0, 2), put] });
    expect(machine.log).toEqual(['user_message one', 'agent_message uno', 'user_message only this']);
    expect(machine.events('history.changed')).toHaveLength(1);
  });

  it('an error fails the turn', () => {
    const machine = startedSession({ ...BEFORE, sent: 'go' });
    const error = { name: 'ConfigError', code: 'config', message: 'a guardrail threw: oh' } as const;
    machine.input({ type: 'verdict', on: 'request', halfStep: 1, verdict: { error } });
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'failed', error });
    expect(machine.allOf('callModel')).toEqual([]);
  });

  it('run once before each call of a turn; a retry is the same call', () => {
    const machine = startedSession({ ...BEFORE, sent: 'go' });
    saidBefore(machine, { type: 'pass' });
    machine.fail(transientError());
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 2 }]);
    machine.input({ type: 'verdict', on: 'request', halfStep: 1, verdict: { error: transientError() } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'verdict' }]);
    machine.answer([call('a', 'bash')]);
    machine.finish('a');
    expect(machine.last).toEqual([{ type: 'consult', on: 'request', halfStep: 2 }]);
    expect(machine.allOf('consult')).toHaveLength(2);
  });

  it('run again after a crash, because the call is made again; late verdicts are stale', () => {
    const machine = startedSession({ ...BEFORE, sent: 'go' });
    expect(reopened(machine).last).toEqual([{ type: 'consult', on: 'request', halfStep: 1 }]);
    saidBefore(machine, { type: 'pass' });
    machine.answer('done');
    machine.input({ type: 'verdict', on: 'request', halfStep: 1, verdict: { type: 'block', reason: 'late' } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'verdict' }]);
  });

  it('run before a system function is evaluated', () => {
    const machine = startedSession({ ...BEFORE, hasSystemFunction: true, sent: 'go' });
    expect(machine.effect('evaluateSystem')).toBeUndefined();
    saidBefore(machine, { type: 'pass' });
    expect(machine.last).toEqual([{ type: 'evaluateSystem', epoch: 2 }]);
  });
});

describe('guardrails after a call', () => {
  it('see the message the answer would become, before any of it is stored', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    const turns = machine.turns.length;
    machine.answer([text('I look.'), call('a', 'bash', { command: 'ls' })]);
    expect(askedAfter(machine).message).toMatchObject({
      role: 'assistant',
      content: 'I look.',
      toolCalls: [{ callId: 'a', name: 'bash', arguments: '{"command":"ls"}' }],
      tokenUsage: USAGE,
    });
    expect(machine.turns.length).toBe(turns);
    expect(machine.state.state).toBe('awaiting');
    saidAfter(machine, { type: 'pass' });
    expect(machine.effect('runTool')).toMatchObject({ callId: 'a', input: { command: 'ls' } });
  });

  it('H31: a blocked reply is absent, its usage counts, and nothing can be resumed', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    machine.answer([text('secret'), call('a', 'bash')]);
    saidAfter(machine, { type: 'block', reason: 'no' });
    expect(machine.log).toEqual(['user_message go']);
    expect(machine.state.usage).toEqual(USAGE);
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'failed', error: BLOCKED });
    expect(machine.state).toMatchObject({ state: 'idle', suspended: undefined });
    machine.input({ type: 'resume' });
    expect(machine.last).toEqual([]);
    expect(JSON.stringify(machine.turns)).not.toContain('secret');
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('a transformed reply is the one stored, calls included', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    machine.answer([text('call me at 555'), call('a', 'bash')]);
    const shown = askedAfter(machine).message;
    saidAfter(machine, { type: 'transform', value: { ...shown, content: 'call me', toolCalls: [] } });
    expect(machine.log).toEqual(['user_message go', 'agent_message call me']);
    expect(machine.state.state).toBe('idle');
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'answered', text: 'call me' });
    expect(machine.state.usage).toEqual(USAGE);
  });

  it('after a crash during the verdict the call is repeated: nothing was published, and no usage counts twice', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    machine.answer('done');
    const again = reopened(machine);
    expect(again.last).toEqual([{ type: 'callModel', halfStep: 1, attempt: 1 }]);
    expect(again.state.usage).toMatchObject({ input_tokens: 0 });
    again.answer('done');
    saidAfter(again, { type: 'pass' });
    expect(again.log).toEqual(['user_message go', 'agent_message done']);
  });

  it('an interrupt during the verdict wins: the verdict is stale', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    machine.answer('done');
    const { halfStep, answer } = askedAfter(machine);
    machine.input({ type: 'interrupt' });
    machine.input({ type: 'verdict', on: 'answer', halfStep, answer, verdict: { type: 'pass' } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'verdict' }]);
    expect(machine.log).toEqual(['user_message go']);
  });

  it('a truncated call stays marked when the reply passes', () => {
    const machine = startedSession({ ...AFTER, sent: 'go' });
    machine.answer([call('a', 'bash')], { stop: 'max_tokens' });
    saidAfter(machine, { type: 'pass' });
    expect(machine.allOf('runTool')).toEqual([]);
    expect(machine.log.at(-1)).toContain('The call was truncated');
  });
});
