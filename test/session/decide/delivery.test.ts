import { describe, expect, it, test } from 'vitest';
import type { Deliver } from '../../../src/base/messages.ts';
import { executingSession, type Machine, startedSession, UNAUTHORIZED } from '../../support/session-kit.ts';

/**
 * The states in which a message may arrive. In each state the only other message of a user is `waiting`, in the mailbox
 * or the log.
 */
const STATES = {
  idle: () => startedSession(),
  awaiting: () => startedSession({ sent: 'first' }),
  executing: () => executingSession({ a: 'bash' }),
  paused: () => {
    const machine = startedSession();
    machine.input({ type: 'pause' });
    return machine;
  },
  blocked: () => {
    const machine = startedSession({ sent: 'first' });
    machine.fail(UNAUTHORIZED);
    return machine;
  },
} as const satisfies Readonly<Record<string, () => Machine>>;

type Met = keyof typeof STATES;

/** The position of a message directly after it was sent. */
type Fate = 'in the log' | 'waits' | 'refused';

const FATES: Readonly<Record<Deliver, Readonly<Record<Met, Fate>>>> = {
  ride: { idle: 'in the log', awaiting: 'waits', executing: 'waits', paused: 'waits', blocked: 'waits' },
  steer: { idle: 'in the log', awaiting: 'waits', executing: 'waits', paused: 'waits', blocked: 'waits' },
  turn: { idle: 'in the log', awaiting: 'waits', executing: 'waits', paused: 'waits', blocked: 'waits' },
  interrupt: { idle: 'in the log', awaiting: 'in the log', executing: 'in the log', paused: 'waits', blocked: 'waits' },
  merge: { idle: 'in the log', awaiting: 'waits', executing: 'waits', paused: 'waits', blocked: 'waits' },
  latest: { idle: 'in the log', awaiting: 'waits', executing: 'waits', paused: 'waits', blocked: 'waits' },
  reject: { idle: 'in the log', awaiting: 'refused', executing: 'refused', paused: 'waits', blocked: 'waits' },
};

const CASES = Object.entries(FATES).flatMap(([deliver, byState]) =>
  Object.entries(byState).map(([met, fate]) => [deliver as Deliver, met as Met, fate] as const),
);

function fateOf(machine: Machine, content: string): Fate {
  if (machine.waiting.includes(content)) return 'waits';
  return machine.log.includes(`user_message ${content}`) ? 'in the log' : 'refused';
}

test('a resumption of all blocked sessions lifts the block of a paused one, and leaves it paused', () => {
  const machine = STATES.blocked();
  machine.input({ type: 'pause' });
  machine.send('new');
  machine.input({ type: 'resume', keepsPause: true });
  expect(machine.state).toMatchObject({ paused: true, blocked: undefined });
  expect(fateOf(machine, 'new')).toBe('waits');
  machine.input({ type: 'resume', keepsPause: true });
  expect(machine.state.paused).toBe(true);
  machine.input({ type: 'resume' });
  expect(machine.state.paused).toBe(false);
  expect(fateOf(machine, 'new')).toBe('in the log');
});

describe('delivery policies', () => {
  it.each(CASES)('deliver %s to a session that is %s: %s', (deliver, met, fate) => {
    const machine = STATES[met]();
    const sent = machine.send('new', { deliver });
    expect(fateOf(machine, 'new')).toBe(fate);
    if (fate === 'refused') expect(sent).toMatchObject({ code: 'session_busy', retryable: true });
    else expect(machine.effect('accepted')).toMatchObject({ duplicate: false });
    expect(machine.effect('callModel') !== undefined).toBe(fate === 'in the log');
  });

  it.each(CASES.filter(([, , fate]) => fate === 'waits'))(
    'deliver %s to a session that is %s waits and is in the log once the session continues',
    (deliver, met) => {
      const machine = STATES[met]();
      machine.send('new', { deliver });
      if (met === 'executing') machine.finish('a');
      if (met === 'awaiting' || met === 'executing') machine.answer('ok');
      machine.input({ type: 'resume' });
      expect(fateOf(machine, 'new')).toBe('in the log');
    },
  );

  it('ride: joins the closing half-step of the round, one message per half-step, oldest first', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('one');
    machine.send('two');
    machine.finish('a', 'result');
    expect(machine.log.slice(-2)).toEqual(['tool_response result', 'user_message one']);
    expect(machine.state.turn).toMatchObject({ id: 1 });
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message two');
    expect(machine.state.turn).toMatchObject({ id: 2 });
  });

  it('steer: all steers join the next half-step together, before an earlier rider', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('rider');
    machine.send('steer 1', { deliver: 'steer' });
    machine.send('steer 2', { deliver: 'steer' });
    machine.finish('a');
    expect(machine.log.slice(-3)).toEqual(['user_message steer 1', 'user_message steer 2', 'user_message rider']);
  });

  it('turn: half-steps of the running turn skip it, and it gets the next turn alone', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('own turn', { deliver: 'turn' });
    machine.send('rider');
    machine.finish('a');
    expect(machine.log.at(-1)).toBe('user_message rider');
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message own turn');
    expect(machine.state.turn?.entries).toEqual([2]);
  });

  it('turn: waiting steers go first, and it still gets a separate turn', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('own turn', { deliver: 'turn' });
    machine.send('steer', { deliver: 'steer' });
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message steer');
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message own turn');
  });

  it('interrupt: cancels the model call, ends its turn as cancelled and goes before all waiting entries', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('rider');
    machine.send('stop', { deliver: 'interrupt' });
    expect(machine.last).toContainEqual({ type: 'cancelModel', halfStep: 1 });
    expect(machine.events('turn.finished')[0]).toMatchObject({ turn: 'turn-1', reason: 'cancelled' });
    const reason = 'a message with deliver "interrupt" arrived';
    expect(machine.state.receipts.get(1)).toEqual({ status: 'cancelled', turn: 1, reason });
    expect(machine.log).toEqual(['user_message first', 'user_message stop']);
    expect(machine.state.turn?.entries).toEqual([3]);
    expect(machine.waiting).toEqual(['rider']);
  });

  it('interrupt: cancels running calls, answers each, and has a separate turn', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a', 'result');
    machine.send('stop', { deliver: 'interrupt' });
    expect(machine.lastOf('cancelTool').map((effect) => effect.callId)).toEqual(['b']);
    expect(machine.log.slice(-3)).toEqual([
      ...['tool_response result', expect.stringContaining('tool_response Interrupted'), 'user_message stop'],
    ]);
    expect(machine.state.turn).toMatchObject({ id: 2 });
  });

  it('merge: all waiting messages become one, separated by blank lines, and get one answer', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('one', { deliver: 'merge' });
    machine.send('rider');
    machine.send('two', { deliver: 'merge' });
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message one\n\ntwo');
    expect(machine.waiting).toEqual(['rider']);
    machine.answer('both');
    for (const id of [2, 4])
      expect(machine.state.receipts.get(id)).toEqual({ status: 'answered', turn: 2, text: 'both' });
  });

  it('merge: the joined message respects the bound of one message; the rest forms the next message, in order', () => {
    const machine = startedSession({ sent: 'first', limits: { messageBytes: 10 } });
    for (const text of ['one', 'two', 'three', 'four']) machine.send(text, { deliver: 'merge' });
    machine.answer('ok');
    expect(machine.log.at(-1)).toBe('user_message one\n\ntwo');
    machine.answer('both');
    expect(machine.log.at(-1)).toBe('user_message three');
    machine.answer('third');
    expect(machine.log.at(-1)).toBe('user_message four');
  });

  it('merge: blocks stay blocks', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('one', { deliver: 'merge' });
    machine.send([{ type: 'text', text: 'two' }], { deliver: 'merge' });
    machine.answer('ok');
    expect(machine.state.messages.at(-1)?.content).toEqual([
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ]);
  });

  it('latest: replaces the waiting latest at its position; other entries stay', () => {
    const machine = startedSession({ sent: 'first' });
    machine.send('old', { deliver: 'latest' });
    machine.send('rider');
    machine.send('new', { deliver: 'latest' });
    expect(machine.waiting).toEqual(['rider', 'new']);
    expect(machine.state.receipts.get(2)).toEqual({ status: 'dropped', reason: 'replaced' });
    expect(machine.seen.settled).toContainEqual({ id: 2, receipt: { status: 'dropped', reason: 'replaced' } });
  });

  it('reject: accepts a message to an idle session with only background entries waiting', () => {
    const machine = startedSession();
    machine.send('memory', { type: 'from_mneme', source: { type: 'recall', name: '1' } });
    expect(machine.send('now', { deliver: 'reject' })).toBe(2);
  });

  it('reject: a paused session with a waiting active entry is busy', () => {
    const machine = STATES.paused();
    machine.send('one');
    expect(machine.send('two', { deliver: 'reject' })).toMatchObject({ name: 'SessionBusyError' });
  });
});
