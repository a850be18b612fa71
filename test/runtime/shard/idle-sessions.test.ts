// Goal: idle sessions leave memory, least recently used first, once their number, size or idle time is too large. The
// clock is manual.
import { expect, test } from 'vitest';
import { SessionActor } from '../../../actors/session-actor.ts';
import { ENDED_SESSIONS_MAX, HOT_TOKENS_MAX, SESSION_IDLE_MS } from '../../../src/base/bounds.ts';
import { IdleSessions } from '../../../src/runtime/shard/idle-sessions.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';

function stage(sessionsMax: number) {
  const clock = manualClock();
  const left: string[] = [];
  const quiet = new IdleSessions(clock, sessionsMax, (actor) => void left.push(actor.id));
  const actorOf = (id: string, state: Partial<ReturnType<typeof emptyState>> = {}): SessionActor =>
    new SessionActor(id, 1, { ...emptyState(id), ...state }, { turns: 0, position: 0 });
  return { clock, left, quiet, actorOf };
}

test('Q1: above the bound the least recently used sessions are passivated', () => {
  const { left, quiet, actorOf } = stage(3);
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((id) => actorOf(id));
  for (const actor of [a, b, c]) if (actor !== undefined) quiet.add(actor);
  quiet.leaveSome();
  expect(left).toEqual([]);
  if (a !== undefined) quiet.add(a);
  if (d !== undefined) quiet.add(d);
  quiet.leaveSome();
  expect(left).toEqual(['b']);
});

test('Q1: a few large conversations are passivated before the number of small ones is reached', () => {
  const { left, quiet, actorOf } = stage(1_000);
  const third = HOT_TOKENS_MAX / 3 + 1;
  for (const id of ['a', 'b', 'c']) quiet.add(actorOf(id, { tokens: third }));
  quiet.leaveSome();
  expect(left).toEqual(['a']);
});

test('Q2: few ended children stay in memory, and they displace no other session', () => {
  const { left, quiet, actorOf } = stage(1_000);
  quiet.add(actorOf('parent'));
  const exit = { reason: 'completed', reply: 'done' } as const;
  for (let child = 0; child <= ENDED_SESSIONS_MAX; child += 1) quiet.add(actorOf(`c${child}`, { exit }));
  quiet.leaveSome();
  expect(left[0]).toBe('c0');
  expect(left).not.toContain('parent');
  expect(left).not.toContain(`c${ENDED_SESSIONS_MAX}`);
});

test('Q3, Q4: no session stays long after its last use, and no timer is left', async () => {
  const { clock, left, quiet, actorOf } = stage(1_000);
  const [a, b] = [actorOf('a'), actorOf('b')];
  quiet.add(a);
  await clock.advance(SESSION_IDLE_MS - 1);
  quiet.add(b);
  expect(left).toEqual([]);
  await clock.advance(1);
  expect(left).toEqual(['a']);
  await clock.advance(SESSION_IDLE_MS * 1.5);
  expect(left).toEqual(['a', 'b']);
  await clock.advance(SESSION_IDLE_MS);
  expect(clock.pending).toBe(0);
  expect(quiet.delete(b)).toBe(false);
});
