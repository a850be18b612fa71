import { describe, expect, it } from 'vitest';
import { INTERRUPT_NOTICE, outcomeUnknown } from '../../../src/session/rules/tool-texts.ts';
import { executingSession, startedSession, text } from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

describe('interrupt', () => {
  it('F068: an interrupt of an idle session sets no flag and acknowledges nothing', () => {
    const machine = startedSession();
    expect(machine.input({ type: 'interrupt' })).toEqual({ records: [], effects: [{ type: 'result', value: false }] });
    expect(machine.state.interruptRequested).toBe(false);
    expect(machine.events('interrupt.acknowledged')).toEqual([]);
  });

  it('F069 Δ22: a model call is cancelled and acknowledged, and its turn ends as cancelled; the message stays', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.input({ type: 'interrupt', reason: 'enough' });
    expect(machine.last).toEqual([
      { type: 'cancelModel', halfStep: 1 },
      { type: 'result', value: true },
    ]);
    expect(machine.events('interrupt.acknowledged')).toEqual([{ type: 'interrupt.acknowledged', reason: 'enough' }]);
    expect(machine.events('turn.finished')[0]).toMatchObject({ reason: 'cancelled' });
    expect(machine.log).toEqual(['user_message hello']);
    expect(machine.state.receipts.get(1)).toEqual({ status: 'cancelled', turn: 1, reason: 'enough' });
    expect(machine.state.interruptReason).toBeUndefined();
  });

  it('F069: the answer that was in flight is dropped', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.input({ type: 'interrupt' });
    machine.input({
      type: 'answered',
      halfStep: 1,
      content: [text('late')],
      stop: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    expect(machine.last).toEqual([{ type: 'stale', what: 'answer' }]);
    expect(machine.log).toEqual(['user_message hello']);
  });

  it('Δ22 I5: running calls are cancelled and answered as failed with the notice; finished ones keep their result', () => {
    const machine = executingSession({ a: 'bash', b: 'bash', c: 'bash' });
    machine.finish('b', 'result of b');
    machine.input({ type: 'interrupt' });
    expect(machine.lastOf('cancelTool')).toEqual([
      { type: 'cancelTool', callId: 'a', reason: INTERRUPT_NOTICE },
      { type: 'cancelTool', callId: 'c', reason: INTERRUPT_NOTICE },
    ]);
    const responses = machine.state.messages.filter((message) => message.type === 'tool_response');
    expect(responses.map(({ toolUseId, content, success }) => [toolUseId, content, success])).toEqual([
      ['b', 'result of b', true],
      ['a', outcomeUnknown(INTERRUPT_NOTICE), false],
      ['c', outcomeUnknown(INTERRUPT_NOTICE), false],
    ]);
    expect(machine.state).toMatchObject({ state: 'idle', mailbox: [] });
    machine.finish('a', 'late');
    expect(machine.last).toEqual([{ type: 'stale', what: 'tool result' }]);
  });

  it.each([
    ['once', 'bash', outcomeUnknown(INTERRUPT_NOTICE)],
    ['keyed', 'charge', outcomeUnknown(INTERRUPT_NOTICE)],
    ['probe', 'deploy', outcomeUnknown(INTERRUPT_NOTICE)],
    ['pure', 'read_file', INTERRUPT_NOTICE],
  ])('a started call of effect %s may have taken effect, or not, as its result says', (_effect, name, expected) => {
    const machine = executingSession({ a: name });
    machine.input({ type: 'interrupt' });
    expect(machine.log.at(-1)).toBe(`tool_response ${expected}`);
    expect(expected.startsWith(INTERRUPT_NOTICE)).toBe(true);
  });

  it('an interrupt cancels a child that waits to be admitted: it starts nothing', () => {
    const tree = new Tree();
    tree.root.world.admits = false;
    const child = tree.spawn('dig');
    tree.input(tree.root, { type: 'interrupt' });
    tree.root.world.admits = true;
    tree.input(child, { type: 'wake' });
    expect(child.state).toMatchObject({ state: 'idle', mailbox: [], exit: { reason: 'cancelled' } });
    expect(child.allOf('callModel')).toEqual([]);
  });

  it('F070 Δ22: the children are interrupted too, whether the parent is idle or not', () => {
    const tree = new Tree();
    tree.spawn('dig');
    tree.root.input({ type: 'interrupt', reason: 'stop' });
    expect(tree.root.last).toEqual([
      { type: 'interruptChildren', reason: 'stop' },
      { type: 'result', value: true },
    ]);
    tree.root.send('hello');
    tree.root.input({ type: 'interrupt' });
    expect(tree.root.lastOf('interruptChildren')).toHaveLength(1);
  });

  it('F070: a working child ends as cancelled and its parent is notified; an idle child is not affected', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    tree.input(child, { type: 'interrupt' });
    expect(child.state.exit).toMatchObject({ reason: 'cancelled' });
    expect(tree.root.state.children.get(child.state.id)?.exited).toBe('cancelled');
    tree.input(child, { type: 'interrupt' });
    expect(tree.root.events('child.exited')).toHaveLength(1);
  });

  it('F073: the flag is cleared once the round is closed, and the next turn is not affected', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('next');
    machine.input({ type: 'interrupt' });
    expect(machine.state).toMatchObject({ state: 'awaiting', interruptRequested: false });
    machine.answer('fine');
    expect(machine.log.at(-1)).toBe('agent_message fine');
    expect(machine.events('turn.finished').map((event) => event.reason)).toEqual(['cancelled', 'end_turn']);
  });

  it('a paused session can be interrupted: the round closes and nothing new starts', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'pause' });
    machine.finish('a');
    machine.send('next');
    machine.input({ type: 'interrupt' });
    expect(machine.state).toMatchObject({ state: 'idle', paused: true });
    expect(machine.waiting).toEqual(['next']);
    machine.input({ type: 'resume' });
    expect(machine.log.at(-1)).toBe('user_message next');
  });
});
