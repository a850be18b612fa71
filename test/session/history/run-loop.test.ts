/**
 * The run loop at message boundaries: held answers, suspended runs, the step limit. Method: the pure core is driven
 * input by input. A crash is simulated by folding the log again up to each of its transitions.
 */
import { describe, expect, it } from 'vitest';
import { isRunnable, isRunning, isWaiting } from '../../../actors/session-actor.ts';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { explain } from '../../../src/session/explain.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { boundaryMessages } from '../../../src/session/rules/run-loop.ts';
import type { Effect } from '../../../src/session/state/inputs.ts';
import type { SessionRecord } from '../../../src/session/state/records.ts';
import { refolded, reopened, throughSnapshot } from '../../support/reopen.ts';
import {
  brief,
  call,
  type Machine,
  startedSession,
  text,
  USAGE,
  type WorldOptions,
} from '../../support/session-kit.ts';

const OUTSIDE = { now: 0, isQueued: false };

function gatedSession(options: WorldOptions = {}): Machine {
  return startedSession({ ...options, isGated: true, sent: 'go' });
}

/** Answers the last question of a machine. Without `interrupt` the verdict is to pass. */
function say(machine: Machine, interrupt?: { readonly reason: string | null }, approve: readonly string[] = []): void {
  const { held } = machine.state;
  if (held === undefined) throw new Error('nothing is held');
  const { at, halfStep } = held;
  machine.input({
    type: 'verdict',
    on: 'boundary',
    at,
    halfStep,
    verdict: interrupt === undefined ? { approve } : { interrupt, approve },
  });
}

function ran(machine: Machine): readonly string[] {
  return machine.allOf('runTool').map((effect) => effect.callId);
}

function calls(effects: readonly Effect[]): number {
  return effects.filter((effect) => effect.type === 'callModel').length;
}

describe('a message boundary with a listener', () => {
  it('an answer with calls is stored and published, and starts nothing until the listeners answered', () => {
    const machine = gatedSession();
    machine.answer([text('I look.'), call('a', 'bash'), call('b', 'read_file')]);
    expect(machine.last).toEqual([
      { type: 'consult', on: 'boundary', at: 'answer', halfStep: 1, notifiesListeners: true, asksApproval: false },
    ]);
    expect(machine.state.state).toBe('executing');
    expect(machine.events('tool.started')).toEqual([]);
    expect(boundaryMessages(machine.state)).toMatchObject([
      { role: 'assistant', content: 'I look.', toolCalls: [{ callId: 'a' }, { callId: 'b' }] },
    ]);
    expect(explain(machine.state, OUTSIDE).reason).toBe('waiting_for_listener');
    say(machine);
    expect(ran(machine)).toEqual(['a', 'b']);
    expect(machine.events('tool.started').map(({ toolUseId }) => toolUseId)).toEqual(['a', 'b']);
  });

  it('results become messages first; once the listeners answered, the model gets them and the waiting entries', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    say(machine);
    machine.send('also this');
    machine.finish('b', 'second');
    expect(machine.effect('consult')).toBeUndefined();
    machine.finish('a', 'first');
    expect(machine.last).toMatchObject([{ type: 'consult', on: 'boundary', at: 'results' }]);
    expect(boundaryMessages(machine.state)).toMatchObject([
      { role: 'tool', toolCallId: 'b', content: 'second' },
      { role: 'tool', toolCallId: 'a', content: 'first' },
    ]);
    expect(machine.waiting).toEqual(['also this']);
    expect(calls(machine.last)).toBe(0);
    say(machine);
    expect(calls(machine.last)).toBe(1);
    expect(machine.log.at(-1)).toBe('user_message also this');
  });

  it('a final text is a boundary too, and the turn ends once the listeners answered', () => {
    const machine = gatedSession();
    machine.answer('done');
    expect(machine.events('turn.finished')).toEqual([]);
    say(machine);
    expect(machine.events('turn.finished')).toEqual([
      { type: 'turn.finished', turn: 'turn-1', reason: 'end_turn', usage: USAGE },
    ]);
    expect(machine.state).toMatchObject({ state: 'idle', held: undefined });
  });

  it('a paused answer continues once the listeners answered', () => {
    const machine = gatedSession();
    machine.answer('half', { stop: 'pause_turn' });
    say(machine);
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 2, attempt: 1 }]);
    machine.answer(' and half');
    say(machine);
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'answered', text: 'half and half' });
  });

  it('a held boundary ignores a wake, and a verdict on another boundary is stale', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    machine.input({ type: 'wake' });
    expect(machine.last).toEqual([]);
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 7, verdict: { approve: [] } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'verdict' }]);
    machine.input({ type: 'verdict', on: 'boundary', at: 'results', halfStep: 1, verdict: { approve: [] } });
    expect(machine.last).toEqual([{ type: 'stale', what: 'verdict' }]);
    expect(ran(machine)).toEqual([]);
  });

  it('a listener that throws fails the turn: the message stays, its calls are answered and did not run', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    const error = { name: 'ConfigError', code: 'config', message: 'a listener threw: no' } as const;
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 1, verdict: { error } });
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'failed', error });
    expect(machine.log).toEqual([
      'user_message go',
      'tool_call Calling bash',
      'tool_response Not executed: the turn failed (a listener threw: no).',
    ]);
    expect(ran(machine)).toEqual([]);
    expect(machine.state).toMatchObject({ state: 'idle', held: undefined });
    expect(machine.state.openCalls.size).toBe(0);
  });

  it('an interrupt from outside ends a held boundary: each call is answered, and none ran', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    machine.input({ type: 'interrupt' });
    expect(machine.state).toMatchObject({ state: 'idle', held: undefined, suspended: undefined });
    expect(machine.state.openCalls.size).toBe(0);
    expect(machine.events('turn.finished')[0]).toMatchObject({ reason: 'cancelled', outcome: 'interrupted' });
  });

  it('after a crash a held answer without listeners starts its calls, because they never ran', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'read_file')]);
    machine.world.isGated = false;
    const again = reopened(machine);
    expect(again.lastOf('runTool').map(({ callId, mode }) => [callId, mode])).toEqual([
      ['a', 'run'],
      ['b', 'run'],
    ]);
    expect(again.events('session.recovered')).toEqual([]);
  });

  it('after a crash registered listeners are called again', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    expect(reopened(machine).last).toEqual(machine.last);
    say(machine);
    machine.finish('a');
    expect(reopened(machine).last).toMatchObject([{ type: 'consult', on: 'boundary', at: 'results' }]);
  });

  it('a session without listeners writes and publishes the same as before', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([call('a', 'bash')]);
    expect(machine.records.at(-1)).not.toHaveProperty('held');
    expect(machine.records.map(({ type }) => type)).not.toContain('proceeded');
  });
});

describe('a run that a listener stops', () => {
  it('H27: at an answer: no tool ran, the outcome is interrupted with its reason and the text', () => {
    const machine = gatedSession();
    machine.answer([text('I look.'), call('a', 'bash')]);
    say(machine, { reason: 'wait for me' });
    expect(ran(machine)).toEqual([]);
    expect(machine.seen.settled).toEqual([
      {
        id: 1,
        receipt: { status: 'suspended', turn: 1, reason: 'interrupted', detail: 'wait for me', text: 'I look.' },
      },
    ]);
    expect(machine.events('turn.finished')).toEqual([
      { type: 'turn.finished', turn: 'turn-1', reason: 'interrupted', usage: USAGE, outcome: 'interrupted' },
    ]);
    expect(machine.state).toMatchObject({ state: 'idle', suspended: { reason: 'interrupted', detail: 'wait for me' } });
    expect([...machine.state.openCalls.keys()]).toEqual(['a']);
    expect(isRunning(machine.state)).toBe(false);
    expect(isRunnable(machine.state)).toBe(false);
    expect(explain(machine.state, OUTSIDE)).toMatchObject({ reason: 'suspended' });
  });

  it('a missing reason and a missing text are published as missing', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: null });
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ detail: null, text: '' });
  });

  it('at the results: all finished results stay, and their calls are not run again', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    say(machine);
    machine.finish('a', 'one');
    machine.finish('b', 'two');
    say(machine, { reason: 'enough' });
    expect(machine.log.slice(-2)).toEqual(['tool_response one', 'tool_response two']);
    expect(machine.state.openCalls.size).toBe(0);
    machine.input({ type: 'resume' });
    expect(ran(machine)).toEqual(['a', 'b']);
    expect(calls(machine.last)).toBe(1);
    machine.answer('done');
    say(machine);
    expect(machine.state.state).toBe('idle');
  });

  it('H28: a message continues the run: the missing call runs once, its result before the message', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    say(machine, { reason: 'stop' });
    machine.world.isGated = false;
    const before = machine.effects.length;
    machine.send('go on');
    expect(calls(machine.effects.slice(before))).toBe(0);
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['a', 'b']);
    machine.finish('b', 'two');
    machine.finish('a', 'one');
    expect(calls(machine.last)).toBe(1);
    expect(machine.log.slice(-3)).toEqual(['tool_response two', 'tool_response one', 'user_message go on']);
    machine.answer('done');
    expect(machine.seen.settled.at(-1)?.receipt).toMatchObject({ status: 'answered', turn: 2, text: 'done' });
    expect(ran(machine)).toEqual(['a', 'b']);
  });

  it('H28: resume continues without a message, and the listeners are not called again for its calls', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'stop' });
    machine.input({ type: 'resume' });
    expect(ran(machine)).toEqual(['a']);
    expect(machine.state).toMatchObject({ state: 'executing', suspended: undefined, turn: { id: 2, entries: [] } });
    machine.finish('a');
    expect(machine.last).toMatchObject([{ type: 'consult', on: 'boundary', at: 'results' }]);
  });

  it('a call that must not run is answered with the reason when the run resumes', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'bash')], { stop: 'max_tokens' });
    say(machine, { reason: 'stop' });
    machine.input({ type: 'resume' });
    expect(ran(machine)).toEqual(['a']);
    expect(machine.state.mailbox).toMatchObject([{ toolUseId: 'b', success: false }]);
  });

  it('a message that was already waiting continues the run', () => {
    const machine = gatedSession();
    machine.send('later');
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'stop' });
    expect(ran(machine)).toEqual(['a']);
    expect(machine.state.state).toBe('executing');
  });

  it('messages of a child wait, because only a message of the user resumes the run', () => {
    const machine = gatedSession();
    machine.spawn({ task: 'look', name: 'scout' });
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'stop' });
    machine.input({ type: 'subagentSaid', child: 's:1', content: 'seen' });
    expect(machine.state.suspended).toBeDefined();
    expect(isWaiting(machine.state)).toBe(false);
    machine.send('go on');
    expect(machine.state.suspended).toBeUndefined();
  });

  it('without pending calls a message starts a turn like any other', () => {
    const machine = gatedSession();
    machine.answer('a text');
    say(machine, { reason: 'stop' });
    expect(machine.seen.settled[0]?.receipt).toMatchObject({ status: 'suspended', text: 'a text' });
    machine.send('next');
    expect(machine.state).toMatchObject({ state: 'awaiting', suspended: undefined, turn: { id: 2 } });
    expect(machine.log.at(-1)).toBe('user_message next');
  });

  it('a paused session stays suspended until resume, which ends both states', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'stop' });
    machine.input({ type: 'pause' });
    machine.send('wait');
    expect(ran(machine)).toEqual([]);
    machine.input({ type: 'resume' });
    expect(ran(machine)).toEqual(['a']);
    expect(machine.state).toMatchObject({ paused: false, suspended: undefined });
  });

  it('resume is refused while the session may not start', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'stop' });
    machine.world.admits = false;
    machine.input({ type: 'resume' });
    expect(machine.effect('refused')?.error).toMatchObject({ code: 'limit', retryable: true });
    expect(machine.state.suspended).toBeDefined();
  });

  it('results added by an edit end the suspension, because nothing is pending any more', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    say(machine, { reason: 'stop' });
    const answer = (id: string) =>
      ({ id: `r-${id}`, createdAt: 0, role: 'tool', content: 'given', toolCallId: id, name: 'bash' }) as const;
    const edit = (id: string) => ({ type: 'edited', operation: 'settle', added: [{ message: answer(id) }] }) as const;
    const again = edited(machine, edit('a'));
    expect(again.suspended).toBeDefined();
    expect([...again.openCalls.keys()]).toEqual(['b']);
    const done = edited(machine, edit('a'), edit('b'));
    expect(done.suspended).toBeUndefined();
    expect(done.openCalls.size).toBe(0);
  });

  it('S4, A7, I5: a crash after any transition ends the same, and no call runs more than its effect allows', () => {
    const machine = gatedSession();
    machine.answer([call('a', 'bash'), call('p', 'read_file')]);
    say(machine, { reason: 'stop' });
    machine.world.isGated = false;
    machine.send('go on');
    machine.finish('a', 'one');
    machine.finish('p', 'two');
    machine.answer('done');
    const whole = machine.log;
    for (let turns = 3; turns <= machine.turns.length; turns += 1) {
      const before = refolded(machine, turns).records.some(({ type }) => type === 'continued');
      const again = reopened(machine, turns);
      drive(again);
      const started = again.allOf('runTool').map(({ callId }) => callId);
      // `once`: if the call may have begun before the crash it does not begin again.
      expect(started.filter((id) => id === 'a').length, `after ${turns}`).toBe(before ? 0 : 1);
      expect(again.state.state).toBe('idle');
      expect(again.state.openCalls.size).toBe(0);
      expect(again.log.filter((line) => line.startsWith('tool_response')).length, `after ${turns}`).toBe(2);
      if (again.log.includes('user_message go on')) expect(again.log.length).toBe(whole.length);
      expect(refolded(again).state).toEqual(again.state);
      expect(throughSnapshot(again)).toEqual(again.state);
    }
  });
});

describe('the step limit', () => {
  const limited = (maxSteps: number): WorldOptions => ({ agent: { maxSteps, holdsCalls: true } });

  it('H29: a limit of one with calls is max_steps, with the calls pending; a text at the limit completes', () => {
    const machine = startedSession({ ...limited(1), sent: 'go' });
    machine.answer([text('I look.'), call('a', 'bash')]);
    expect(ran(machine)).toEqual([]);
    expect(machine.seen.settled[0]?.receipt).toEqual({
      status: 'suspended',
      turn: 1,
      reason: 'max_steps',
      text: 'I look.',
    });
    expect(machine.events('turn.finished')[0]).toMatchObject({ reason: 'max_steps', outcome: 'max_steps' });
    expect([...machine.state.openCalls.keys()]).toEqual(['a']);

    const other = startedSession({ ...limited(1), sent: 'go' });
    other.answer('done');
    expect(other.seen.settled[0]?.receipt).toMatchObject({ status: 'answered', text: 'done' });
    expect(other.events('turn.finished')[0]).not.toHaveProperty('outcome');
  });

  it('below the limit calls start in the transition of their answer, which has one record more', () => {
    const machine = startedSession({ ...limited(2), sent: 'go' });
    const outcome = machine.answer([call('a', 'bash')]);
    expect(outcome.records.map(({ type }) => type)).toEqual(['responded', 'proceeded']);
    expect(ran(machine)).toEqual(['a']);
  });

  it('H30: the next message of a user has the whole limit again', () => {
    const machine = startedSession({ ...limited(2), sent: 'go' });
    machine.answer([call('a', 'bash')]);
    machine.finish('a');
    machine.answer([call('b', 'bash')]);
    expect(machine.state.suspended?.reason).toBe('max_steps');
    machine.send('more');
    machine.finish('b');
    machine.answer([call('c', 'bash')]);
    expect(machine.state.suspended).toBeUndefined();
    machine.finish('c');
    machine.answer([call('d', 'bash')]);
    expect(machine.state.suspended?.reason).toBe('max_steps');
    expect(ran(machine)).toEqual(['a', 'b', 'c']);
  });

  it('H30: a resume without a message keeps the old limit: pending calls, one answer, and the run stops again', () => {
    const machine = startedSession({ ...limited(1), sent: 'go' });
    machine.answer([call('a', 'bash')]);
    machine.input({ type: 'resume' });
    machine.finish('a');
    machine.answer([call('b', 'bash')]);
    expect(machine.state.suspended?.reason).toBe('max_steps');
    expect(ran(machine)).toEqual(['a']);
    machine.input({ type: 'resume' });
    machine.finish('b');
    machine.answer('done');
    expect(machine.state).toMatchObject({ state: 'idle', suspended: undefined });
  });

  it('the published reason is that of the listener that stops the run at the limit', () => {
    const machine = startedSession({ ...limited(1), isGated: true, sent: 'go' });
    machine.answer([call('a', 'bash')]);
    say(machine, { reason: 'mine' });
    expect(machine.state.suspended).toEqual({ reason: 'interrupted', detail: 'mine' });
  });

  it('the limit is checked after the listeners', () => {
    const machine = startedSession({ ...limited(1), isGated: true, sent: 'go' });
    machine.answer([call('a', 'bash')]);
    expect(machine.effect('consult')).toMatchObject({ notifiesListeners: true, asksApproval: false });
    say(machine);
    expect(machine.state.suspended).toEqual({ reason: 'max_steps' });
  });
});

describe('the outcome of a turn', () => {
  it.each([
    ['end_turn', undefined],
    ['stop_sequence', undefined],
    ['max_tokens', 'length'],
    ['refusal', 'content_filter'],
    ['model_context_window_exceeded', 'context_window'],
    ['something_new', 'other'],
  ])('stop %s is %s', (stop, outcome) => {
    const machine = startedSession({ sent: 'go' });
    machine.answer('text', { stop });
    const [finished] = machine.events('turn.finished');
    expect(finished?.reason).toBe(stop);
    expect(finished?.outcome).toBe(outcome);
  });
});

/** The state of a session after some more records. */
function edited(machine: Machine, ...records: readonly SessionRecord[]): Machine['state'] {
  return applyAll(refolded(machine).state, records, machine.world.now);
}

/** Lets every call in flight return until none is left. */
function drive(machine: Machine): void {
  let seen = 0;
  for (let step = 0; step < 50; step += 1) {
    const effect = machine.effects[seen];
    if (effect === undefined) {
      if (machine.state.suspended === undefined) return;
      machine.input({ type: 'resume' });
      continue;
    }
    seen += 1;
    if (effect.type === 'runTool') machine.finish(effect.callId, `again ${effect.callId}`);
    else if (effect.type === 'callModel' && machine.halfStep === effect.halfStep) machine.answer('done');
    else if (effect.type === 'consult') say(machine);
  }
  throw new Error(`it goes on and on: ${machine.state.messages.map(brief).join('; ')}`);
}

describe('a stopped run with placeholders for interrupted calls', () => {
  const FILL = { repair: { onInterrupt: 'fill' } } as const;

  it('its calls are answered with placeholders, published with the outcome, and nothing is pending', () => {
    const machine = startedSession({ isGated: true, settings: FILL, sent: 'go' });
    const { epoch } = machine.state;
    machine.answer([text('I look.'), call('a', 'bash'), call('b', 'read_file')]);
    say(machine, { reason: 'enough' });
    expect(machine.log.slice(-2)).toEqual([
      'tool_response Tool call interrupted before completion.',
      'tool_response Tool call interrupted before completion.',
    ]);
    expect(machine.events('turn.finished').at(-1)).toMatchObject({
      outcome: 'interrupted',
      healedToolCallIds: ['a', 'b'],
    });
    expect(machine.state.openCalls.size).toBe(0);
    expect(machine.state.epoch, 'nothing that was sent has changed').toBe(epoch);
    const again = refolded(machine);
    expect(again.state).toEqual(machine.state);
    machine.input({ type: 'resume' });
    expect(calls(machine.last)).toBe(1);
    expect(ran(machine)).toEqual([]);
    again.send('something else');
    expect(again.log.slice(-3)).toEqual([
      'tool_response Tool call interrupted before completion.',
      'tool_response Tool call interrupted before completion.',
      'user_message something else',
    ]);
    expect(ran(again)).toEqual([]);
  });

  it('placeholders are also added at the step limit, and after its answer if something was added since', () => {
    const agent = { holdsCalls: true, maxSteps: 1, approval: 'function' } as const;
    const limited = startedSession({ settings: FILL, agent, sent: 'go' });
    limited.answer([call('a', 'bash')]);
    expect(limited.events('turn.finished').at(-1)).toMatchObject({ outcome: 'max_steps', healedToolCallIds: ['a'] });
    const machine = startedSession({ isGated: true, settings: FILL, sent: 'go' });
    machine.answer([call('a', 'bash')]);
    const message = { role: 'user', content: 'by hand' } as const;
    machine.input({ type: 'edit', request: { operation: 'add', message, silent: true } });
    say(machine, { reason: null });
    expect(machine.log.slice(-2)).toEqual([
      'tool_response Tool call interrupted before completion.',
      'user_message by hand',
    ]);
  });

  it('no placeholder is published if nothing was open, or if calls are kept', () => {
    const ended = startedSession({ isGated: true, settings: FILL, sent: 'go' });
    ended.answer('words');
    say(ended, { reason: null });
    expect(ended.events('turn.finished').at(-1)).not.toHaveProperty('healedToolCallIds');
    const kept = startedSession({ isGated: true, sent: 'go' });
    kept.answer([call('a', 'bash')]);
    say(kept, { reason: null });
    expect(kept.events('turn.finished').at(-1)).not.toHaveProperty('healedToolCallIds');
    expect([...kept.state.openCalls.keys()]).toEqual(['a']);
  });
});

describe('an edit of a suspended run', () => {
  const suspended = (): Machine => {
    const machine = startedSession({ isGated: true, sent: 'go' });
    machine.answer([call('a', 'bash', { command: 'a' })]);
    say(machine, { reason: null });
    return machine;
  };
  const answerId = (machine: Machine): string => historyMessages(machine.state).at(-1)?.id ?? '';

  it('that removes the calls ends the suspension, and is published', () => {
    const machine = suspended();
    machine.input({ type: 'edit', request: { operation: 'remove', id: answerId(machine) } });
    expect(machine.state).toMatchObject({ state: 'idle', suspended: undefined });
    expect(machine.events('session.state').at(-1)).toEqual({ type: 'session.state', state: 'idle' });
    machine.input({ type: 'resume' });
    expect(calls(machine.last)).toBe(0);
  });

  it('that changes a call runs the call in its new form', () => {
    const machine = suspended();
    const toolCalls = [{ callId: 'a', name: 'bash', arguments: '{"command":"other"}' }];
    machine.input({ type: 'edit', request: { operation: 'update', id: answerId(machine), attributes: { toolCalls } } });
    const again = reopened(machine);
    again.input({ type: 'resume' });
    expect(again.effect('runTool')?.input).toEqual({ command: 'other' });
  });

  it('that empties the history ends the suspension; a switch to another branch leaves the calls behind', () => {
    const emptied = startedSession({ isGated: true, sent: 'go' });
    emptied.answer('words');
    say(emptied, { reason: null });
    emptied.input({ type: 'edit', request: { operation: 'unset' } });
    expect(emptied.state.suspended).toBeUndefined();
    const undone = suspended();
    undone.input({ type: 'undo' });
    expect(undone.state.openCalls.size).toBe(0);
    expect(undone.state.suspended).toBeUndefined();
    expect(refolded(undone).state).toEqual(undone.state);
  });
});
