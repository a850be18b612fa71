// Goal: a transition depends only on its input, and keeps no reference to its environment, which may change afterwards.
import { describe, expect, it } from 'vitest';
import type { Observer } from '../../src/session/apply/fold.ts';
import type { Environment, Input } from '../../src/session/state/inputs.ts';
import { snapshotState } from '../../src/session/state/snapshot.ts';
import { emptyState } from '../../src/session/state/state.ts';
import { runTurn } from '../../src/session/turn.ts';
import {
  call,
  environmentOf,
  executingSession,
  makeWorld,
  startedSession,
  text,
  USAGE,
  watcher,
} from '../support/session-kit.ts';

/** The environment of one transition; later transitions get the same object with other members. */
type Lent = { -readonly [Key in keyof Environment]: Environment[Key] };

const LIFE: readonly Input[] = [
  { type: 'create', agent: 'main' },
  { type: 'send', entry: { type: 'user_message', content: 'go' }, bytes: 2 },
  { type: 'answered', halfStep: 1, content: [call('a', 'bash'), call('b', 'none')], stop: 'tool_use', usage: USAGE },
  { type: 'send', entry: { type: 'user_message', content: 'stop', deliver: 'interrupt' }, bytes: 4 },
  { type: 'answered', halfStep: 2, content: [text('stopped')], stop: 'end_turn', usage: USAGE },
];

describe('a transition', () => {
  it('keeps nothing of its environment and observer, so one object of each may serve all transitions', () => {
    const world = makeWorld();
    const fresh = watcher();
    const reused = watcher();
    const lent: Lent = { ...environmentOf(world) };
    const ear: { -readonly [Key in keyof Observer]: Observer[Key] } = {};
    const [one, other] = [emptyState('s'), emptyState('s')];
    for (const input of LIFE) {
      world.now += 1_000;
      Object.assign(lent, environmentOf(world));
      Object.assign(ear, reused.observer);
      const outcome = runTurn(other, input, lent, ear);
      const refuse = (): never => {
        throw new Error('used after the turn');
      };
      Object.assign(lent, { now: -1, admits: false, agent: undefined, exists: refuse, toolNamesOf: refuse });
      Object.assign(ear, { event: refuse, settled: refuse, promoted: refuse });
      expect(outcome).toEqual(runTurn(one, input, environmentOf(world), fresh.observer));
    }
    expect(snapshotState(other)).toBe(snapshotState(one));
    expect(reused.seen).toEqual(fresh.seen);
  });

  it('S5: an observer whose event listener is off receives nothing, and the events are counted', () => {
    const world = makeWorld();
    const heard = watcher();
    const deaf = watcher();
    const [one, other] = [emptyState('s'), emptyState('s')];
    for (const input of LIFE) {
      runTurn(one, input, environmentOf(world), heard.observer);
      runTurn(other, input, environmentOf(world), { ...deaf.observer, event: undefined });
    }
    expect(other.eventSeq).toBe(one.eventSeq);
    expect(one.eventSeq).toBe(heard.seen.events.at(-1)?.seq);
    expect(deaf.seen).toEqual({ ...heard.seen, events: [] });
  });

  it('a message that interrupts has the number of its own event, not of the answers to the calls it ended', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.send('stop', { deliver: 'interrupt' });
    const accepted = machine.effect('accepted');
    const told = machine.seen.events.find(({ seq }) => seq === accepted?.seq);
    expect(told?.body).toMatchObject({
      type: 'pending.created',
      pending: { id: accepted?.pendingId, content: 'stop' },
    });
  });

  it('a transition without effect reports empty lists', () => {
    const machine = startedSession();
    expect(machine.input({ type: 'wake' })).toEqual({ records: [], effects: [] });
    expect(machine.input({ type: 'create', agent: 'main' })).toEqual({ records: [], effects: [] });
  });
});

describe('an answer with calls', () => {
  it('F060: a call whose id is a member of Object.prototype runs like any other', () => {
    const machine = executingSession({ constructor: 'bash', toString: 'bash' });
    expect(machine.lastOf('runTool').map(({ callId }) => callId)).toEqual(['constructor', 'toString']);
  });

  it('each call has its own timeout and refusal, also with other blocks between', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([text('x'), call('a', 'bash'), call('b', 'slow', { timeout: 7 }), text('y'), call('c', 'bash', 1)]);
    const calls = machine.state.messages.filter(({ type }) => type === 'tool_call');
    expect(calls.map(({ toolUseId, timeoutMs }) => [toolUseId, timeoutMs])).toEqual([
      ['a', undefined],
      ['b', 7_000],
      ['c', undefined],
    ]);
    expect(machine.state.openCalls.get('b')).toMatchObject({ timeoutMs: 7_000 });
    expect(machine.lastOf('runTool').map(({ callId, timeoutMs }) => [callId, timeoutMs])).toEqual([
      ['a', 180_000],
      ['b', 7_000],
    ]);
    expect(machine.waiting).toEqual([expect.stringContaining('not a JSON object')]);
  });
});
