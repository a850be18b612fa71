/**
 * Goal: how diagnostics read all sessions (H1 to H3). Method: the reading alone, over a fan-out to which the test
 * publishes events. The test introduces the sessions.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, expect, test } from 'vitest';
import { DIAGNOSED_SESSIONS_MAX, SUBSCRIBER_EVENTS_MAX } from '../../../src/base/bounds.ts';
import { DIAGNOSTICS_CHANNELS, type TurnDiagnostics } from '../../../src/base/diagnostics.ts';
import { FanOut } from '../../../src/events/reading/fan-out.ts';
import type { EventBody, SessionEvent } from '../../../src/index.ts';
import { Diagnostics } from '../../../src/runtime/events/diagnostics.ts';
import { settled } from '../../events/packing/event-samples.ts';

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const usage = { input_tokens: 1, output_tokens: 1 };
const awaiting: EventBody = { type: 'session.state', state: 'awaiting' };
const finished: EventBody = { type: 'turn.finished', turn: 'turn-1', reason: 'end_turn', usage };

function event(session: string, seq: number, body: EventBody): SessionEvent {
  return { session, at: seq, seq, ...body } as SessionEvent;
}

interface Read {
  /** Published turns as short texts: `s start`, `s end end_turn`. */
  readonly turns: string[];
  readonly fanOut: FanOut;
  readonly interest: (readonly [string | undefined, boolean])[];
  /** For each request, whether it asked for introductions. */
  readonly introductions: boolean[];
  readonly failures: unknown[];
  readonly diagnostics: Diagnostics;
}

function read(): Read {
  const turns: string[] = [];
  const listener = (published: unknown): void => {
    const message = published as TurnDiagnostics;
    const how = message.phase === 'start' ? 'start' : `end ${message.reason}`;
    turns.push(`${message.session} ${message.agent} ${how}`);
  };
  subscribe(DIAGNOSTICS_CHANNELS.turn, listener);
  stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS.turn, listener));
  const interest: (readonly [string | undefined, boolean])[] = [];
  const fanOut = new FanOut({ now: () => 0, onInterest: (session, isWanted) => interest.push([session, isWanted]) });
  const introductions: boolean[] = [];
  const failures: unknown[] = [];
  const diagnostics = new Diagnostics({
    isElsewhere: () => false,
    tap: (reader) => fanOut.tap(reader),
    introduce: (on) => void introductions.push(on),
    modelOf: () => ({ model: 'model', provider: 'test' }),
    commits: () => ({ flushes: 0, journalTurns: 0 }),
    now: () => 0,
    failed: (error) => failures.push(error),
  });
  diagnostics.begin({});
  return {
    turns,
    fanOut,
    interest,
    introductions,
    failures,
    diagnostics,
  };
}

test('H2: an event of a session that was not introduced is dropped; its next half-step is published', async () => {
  const { fanOut, turns, diagnostics } = read();
  diagnostics.introduced([{ session: 'r', agent: 'b' }]);
  fanOut.publish([event('s', 1, awaiting), event('r', 1, awaiting)]);
  await settled();
  expect(turns).toEqual(['r b start']);
  diagnostics.introduced([{ session: 's', agent: 'a' }]);
  fanOut.publish([event('s', 2, { type: 'session.state', state: 'executing' }), event('s', 3, awaiting)]);
  await settled();
  fanOut.publish([event('s', 4, finished)]);
  await settled();
  expect(turns).toEqual(['r b start', 's a start', 's a end end_turn']);
});

test('H2: a session keeps its facts when its turn ends, however many sessions were introduced meanwhile', async () => {
  const { fanOut, turns, diagnostics } = read();
  diagnostics.introduced([
    { session: 'used', agent: 'a' },
    { session: 'unused', agent: 'a' },
  ]);
  const others = Array.from({ length: DIAGNOSED_SESSIONS_MAX - 1 }, (_, index) => ({
    session: `o${index}`,
    agent: 'o',
  }));
  fanOut.publish([event('used', 1, awaiting)]);
  await settled();
  diagnostics.introduced(others);
  fanOut.publish([event('used', 2, finished)]);
  await settled();
  fanOut.publish([event('unused', 1, awaiting), event('used', 3, awaiting)]);
  await settled();
  expect(turns).toEqual(['used a start', 'used a end end_turn', 'used a start']);
});

test('H3: lost events end the open operations of their own sessions as unseen, and no others', async () => {
  const { fanOut, turns, diagnostics } = read();
  diagnostics.introduced([
    { session: 'r', agent: 'a' },
    { session: 'q', agent: 'a' },
  ]);
  fanOut.publish([event('r', 1, awaiting), event('q', 1, awaiting)]);
  await settled();
  const eviction: EventBody = { type: 'eviction', below: 1 };
  // The reading takes no event before this code ends, so an event beyond the bound drops all waiting events.
  fanOut.publish([event('r', 2, finished)]);
  fanOut.publish(Array.from({ length: SUBSCRIBER_EVENTS_MAX }, (_, index) => event('p', index + 1, eviction)));
  await settled();
  expect(turns).toEqual(['r a start', 'q a start', 'r a end unseen']);
  fanOut.publish([event('q', 2, finished)]);
  await settled();
  expect(turns.slice(3)).toEqual(['q a end end_turn']);
});

test('H2: the last introduction of a session counts; a deleted session ends as unseen', async () => {
  const { fanOut, turns, diagnostics, introductions } = read();
  expect(introductions).toEqual([true]);
  diagnostics.introduced([
    { session: 's', agent: 'a' },
    { session: 's:1', agent: 'b', parent: 's' },
  ]);
  fanOut.publish([event('s', 1, awaiting), event('s:1', 1, awaiting)]);
  diagnostics.introduced([{ session: 's', agent: 'c' }]);
  await settled();
  fanOut.end('s');
  fanOut.publish([event('s:1', 2, finished)]);
  diagnostics.introduced([{ session: 's', agent: 'd' }]);
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  expect(turns).toEqual(['s c start', 's:1 b start', 's c end unseen', 's:1 b end end_turn', 's d start']);
});

test('H1: without a subscriber nothing is watched and open operations end; the next subscriber starts again', async () => {
  const { fanOut, interest, introductions, diagnostics } = read();
  expect(interest).toEqual([[undefined, true]]);
  diagnostics.look();
  expect(fanOut.size).toBe(1);
  for (const stop of stops.splice(0)) stop();
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  expect(interest).toEqual([
    [undefined, true],
    [undefined, false],
  ]);
  expect(introductions).toEqual([true, false]);
  diagnostics.look();
  expect(fanOut.size).toBe(0);
  const listener = (): void => undefined;
  subscribe(DIAGNOSTICS_CHANNELS.tool, listener);
  stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS.tool, listener));
  diagnostics.look();
  expect(fanOut.size).toBe(1);
  expect(introductions).toEqual([true, false, true]);
});

test('a failed reading is logged, ends open operations and starts again, unless the runtime has ended', async () => {
  const { fanOut, turns, failures, diagnostics } = read();
  diagnostics.introduced([{ session: 's', agent: 'a' }]);
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  fanOut.close(new Error('the line broke'));
  await settled();
  expect(failures).toEqual([new Error('the line broke')]);
  expect(turns).toEqual(['s a start', 's a end unseen']);
  fanOut.publish([event('s', 2, awaiting)]);
  await settled();
  expect(turns.slice(2)).toEqual(['s a start']);
  fanOut.close();
  await settled();
  expect(turns.slice(3)).toEqual(['s a end unseen']);
  expect([fanOut.size, failures.length]).toEqual([0, 1]);
});
