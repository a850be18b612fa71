/**
 * Goal: the invariants L1 and L3 of admission hold for the bytes of conversations. Method: actors whose states the test
 * writes.
 */
import { expect, test } from 'vitest';
import { SessionActor } from '../../../actors/session-actor.ts';
import { BYTES_PER_TOKEN } from '../../../src/base/bounds.ts';
import { Admission } from '../../../src/runtime/shard/admission.ts';
import { emptyState } from '../../../src/session/state/state.ts';

/** Room for ten tokens. */
function admission() {
  const started: string[] = [];
  const live = new Admission({ liveSessions: 100, liveBytes: 10 * BYTES_PER_TOKEN }, (id) => void started.push(id));
  return { live, started };
}

/** A session at work on a conversation of this size. */
function working(id: string, tokens: number): SessionActor {
  return new SessionActor(id, 1, { ...emptyState(id), state: 'awaiting', tokens }, { turns: 1, position: 1 });
}

test('L3: a conversation counts with its current size, and only while it works', () => {
  const { live } = admission();
  const actor = working('a', 4);
  live.note(actor, true, false);
  expect(live.hasRoom).toBe(true);
  actor.state.tokens = 10;
  live.note(actor, true, false);
  expect(live.hasRoom).toBe(false);
  actor.state.tokens = 9;
  live.note(actor, true, false);
  expect(live.hasRoom).toBe(true);
  live.note(working('b', 1), true, false);
  expect(live.hasRoom).toBe(false);
  actor.state.state = 'idle';
  live.note(actor, true, false);
  expect(live.hasRoom).toBe(true);
  expect(live.size).toBe(1);
});

test('L1, L3: beyond the bytes a working session continues; another one waits and is started when there is room', () => {
  const { live, started } = admission();
  const large = working('large', 50);
  live.note(large, true, false);
  const waiting = new SessionActor('small', 2, emptyState('small'), { turns: 1, position: 2 });
  waiting.state.mailbox = [
    {
      id: 1,
      at: 0,
      type: 'user_message',
      kind: 'active',
      deliver: 'ride',
      source: { type: 'user' },
      content: 'Hi',
      bytes: 2,
    },
  ];
  expect(live.admits(large)).toBe(true);
  expect(live.admits(waiting)).toBe(false);
  live.note(waiting, true, false);
  live.admit();
  expect(started).toEqual([]);
  expect(live.isQueued('small')).toBe(true);
  live.delete(large);
  expect(live.admits(waiting)).toBe(true);
  live.admit();
  expect(started).toEqual(['small']);
});
