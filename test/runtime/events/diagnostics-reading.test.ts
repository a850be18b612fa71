/**
 * Goal: how diagnostics read all sessions (H1 to H3). Method: the reading alone, over a fan-out to which a test
 * publishes events. The test decides when a session becomes known.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, expect, test } from 'vitest';
import { DIAGNOSED_WAITING_MAX, SUBSCRIBER_EVENTS_MAX } from '../../../src/base/bounds.ts';
import { DIAGNOSTICS_CHANNELS, type TurnDiagnostics } from '../../../src/base/diagnostics.ts';
import { FanOut } from '../../../src/events/reading/fan-out.ts';
import type { EventBody, SessionEvent } from '../../../src/index.ts';
import { Diagnostics } from '../../../src/runtime/events/diagnostics.ts';
import type { SessionSummary } from '../../../src/runtime/protocol/protocol.ts';
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
  /** Published turns, as words: `s start`, `s end end_turn`. */
  readonly turns: string[];
  readonly fanOut: FanOut;
  readonly interest: (readonly [string | undefined, boolean])[];
  /** Whether introductions were requested, for each request. */
  readonly introductions: boolean[];
  /** Sessions looked up, in order. */
  readonly asked: string[];
  readonly failures: unknown[];
  readonly diagnostics: Diagnostics;
  /** Answers the look-up of a session. */
  know(session: string, agent?: string): void;
}

function read(): Read {
  const turns: string[] = [];
  const listener = (published: unknown): void => {
    const message = published as TurnDiagnostics;
    const how = message.phase === 'start' ? 'start' : `end ${message.reason}`;
    turns.push(`${message.session} ${message.agent ?? 'nobody'} ${how}`);
  };
  subscribe(DIAGNOSTICS_CHANNELS.turn, listener);
  stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS.turn, listener));
  const interest: (readonly [string | undefined, boolean])[] = [];
  const fanOut = new FanOut({ now: () => 0, onInterest: (session, isWanted) => interest.push([session, isWanted]) });
  const introductions: boolean[] = [];
  const asked: string[] = [];
  const failures: unknown[] = [];
  const answers = new Map<string, (summary: SessionSummary | undefined) => void>();
  const diagnostics = new Diagnostics({
    tap: (reader) => fanOut.tap(reader),
    introduce: (on) => void introductions.push(on),
    lookUp: (session) => {
      asked.push(session);
      return new Promise((resolve) => answers.set(session, resolve));
    },
    modelOf: () => 'model',
    provider: 'test',
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
    asked,
    failures,
    diagnostics,
    know: (session, agent = 'a') =>
      answers.get(session)?.({ id: session, agent, state: 'idle', mailbox: 0, updatedAt: 0 }),
  };
}

test('H2: events of a session wait until its agent is known, those of others do not', async () => {
  const { fanOut, turns, asked, know } = read();
  fanOut.publish([event('s', 1, awaiting), event('r', 1, awaiting), event('s', 2, finished)]);
  await settled();
  expect([turns, asked]).toEqual([[], ['s', 'r']]);
  know('r', 'b');
  await settled();
  expect(turns).toEqual(['r b start']);
  know('s');
  await settled();
  expect(turns).toEqual(['r b start', 's a start', 's a end end_turn']);
});

test('H3: if too many events wait for an answer, later ones wait in order and are taken after it', async () => {
  const { fanOut, turns, know } = read();
  const eviction: EventBody = { type: 'eviction', below: 1 };
  const many = Array.from({ length: DIAGNOSED_WAITING_MAX + 10 }, (_, index) => event('s', index + 2, eviction));
  fanOut.publish([event('s', 1, awaiting), ...many]);
  fanOut.publish([event('s', many.length + 2, finished)]);
  await settled();
  expect(turns).toEqual([]);
  know('s');
  await settled();
  expect(turns).toEqual(['s a start', 's a end end_turn']);
});

test('H3: lost events end the open operations of their sessions as unseen, and of no other', async () => {
  const { fanOut, turns, know } = read();
  fanOut.publish([event('r', 1, awaiting), event('q', 1, awaiting)]);
  await settled();
  know('r');
  know('q');
  await settled();
  const eviction: EventBody = { type: 'eviction', below: 1 };
  const many = Array.from({ length: DIAGNOSED_WAITING_MAX + 1 }, (_, index) => event('s', index + 1, eviction));
  fanOut.publish(many);
  await settled();
  // The reading takes nothing now: an event beyond the bound drops all that wait.
  fanOut.publish([event('r', 2, finished)]);
  fanOut.publish(Array.from({ length: SUBSCRIBER_EVENTS_MAX }, (_, index) => event('p', index + 1, eviction)));
  await settled();
  expect(turns).toEqual(['r a start', 'q a start']);
  know('s');
  await settled();
  expect(turns).toEqual(['r a start', 'q a start', 'r a end unseen']);
  fanOut.publish([event('q', 2, finished)]);
  know('p');
  await settled();
  expect(turns.slice(3)).toEqual(['q a end end_turn']);
});

test('a deleted session ends as unseen, and another session of its name is looked up again', async () => {
  const { fanOut, turns, asked, know } = read();
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  know('s', 'before');
  await settled();
  fanOut.end('s');
  fanOut.publish([event('s', 1, awaiting), event('s', 2, finished)]);
  await settled();
  know('s', 'after');
  await settled();
  expect(turns).toEqual(['s before start', 's before end unseen', 's after start', 's after end end_turn']);
  expect(asked).toEqual(['s', 's']);
});

test('a session deleted during its look-up is published to its last event; its successor is looked up', async () => {
  const { fanOut, turns, asked, know } = read();
  fanOut.publish([event('s', 1, awaiting), event('s', 2, finished), event('s', 3, awaiting)]);
  fanOut.end('s');
  await settled();
  know('s', 'before');
  await settled();
  expect(turns).toEqual(['s before start', 's before end end_turn', 's before start', 's before end unseen']);
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  know('s', 'after');
  await settled();
  expect(turns.slice(4)).toEqual(['s after start']);
  expect(asked).toEqual(['s', 's']);
});

test('H2: an introduced session is not looked up, and its last introduction counts', async () => {
  const { fanOut, turns, asked, diagnostics, introductions } = read();
  expect(introductions).toEqual([true]);
  diagnostics.introduced([
    { session: 's', agent: 'a' },
    { session: 's:1', agent: 'b', parent: 's' },
  ]);
  fanOut.publish([event('s', 1, awaiting), event('s:1', 1, awaiting), event('s', 2, finished)]);
  diagnostics.introduced([{ session: 's', agent: 'c' }]);
  await settled();
  fanOut.end('s');
  fanOut.publish([event('s:1', 2, finished)]);
  await settled();
  diagnostics.introduced([{ session: 's', agent: 'd' }]);
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  expect(turns).toEqual(['s c start', 's:1 b start', 's c end end_turn', 's:1 b end end_turn', 's d start']);
  expect(asked).toEqual([]);
});

test('H2: an introduction during a look-up wins over its answer', async () => {
  const { fanOut, turns, diagnostics, know } = read();
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  diagnostics.introduced([{ session: 's', agent: 'newer' }]);
  know('s', 'older');
  await settled();
  fanOut.publish([event('s', 2, finished), event('s', 3, awaiting)]);
  await settled();
  expect(turns).toEqual(['s newer start', 's newer end end_turn', 's newer start']);
});

test('H1: without a subscriber nothing is watched and open operations end; another look begins again', async () => {
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

test('a failed reading is logged, ends open operations and begins again, unless the runtime ended', async () => {
  const { fanOut, turns, failures, know } = read();
  fanOut.publish([event('s', 1, awaiting)]);
  await settled();
  know('s');
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
