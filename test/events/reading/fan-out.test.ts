/**
 * Goal: which events reach which subscribers on the host thread (N1 to N3). Method: several subscribers of one fan-out.
 */
import { expect, test, vi } from 'vitest';
import { LOST_SESSIONS_MAX } from '../../../src/base/bounds.ts';
import { LimitError } from '../../../src/base/errors.ts';
import type { SessionEvent } from '../../../src/events/event.ts';
import { FanOut } from '../../../src/events/reading/fan-out.ts';
import {
  delta,
  durable,
  durables,
  progress,
  replayOf,
  settled,
  short,
  take,
  takeAll,
} from '../packing/event-samples.ts';

const now = (): number => 0;
const replay = replayOf([]);

test('N1: an event reaches the subscribers of its session and of all sessions, and no others', async () => {
  const fanOut = new FanOut({ now });
  const [first, second, other] = ['s', 's', 'r'].map((session) => fanOut.subscribe(session, { replay }));
  const all = fanOut.subscribeAll({ view: (event) => (event.type === 'text.delta' ? undefined : event) });
  fanOut.publish([durable(1), durable(1, 'r'), delta('text'), durable(2), durable(1, 'q')]);
  fanOut.close();
  expect(await Promise.all([first, second, other, all].map((queue) => takeAll(queue ?? all)))).toEqual([
    ['1', 'text', '2'],
    ['1', 'text', '2'],
    ['1'],
    ['1', '1', '2', '1'],
  ]);
});

test('N2: a subscriber that throws, stalls or leaves does not affect the others', async () => {
  const fanOut = new FanOut({ now });
  const throwing = fanOut.subscribe('s', {
    replay,
    until: () => {
      throw new Error('mine');
    },
  });
  fanOut.subscribe('s', { replay, bounds: { eventsMax: 1, charactersMax: 1 } });
  const leaving = fanOut.subscribe('s', { replay });
  const steady = fanOut.subscribe('s', { replay });
  const failed = expect(throwing.next()).rejects.toThrow('mine');
  await settled();
  fanOut.publish(durables(1, 2));
  await leaving.return();
  await failed;
  fanOut.publish(durables(3, 4));
  expect(await take(steady, 4)).toEqual(['1', '2', '3', '4']);
  expect(fanOut.size).toBe(2);
});

test('N3: a session is watched from its first reader, before that can read the log, until its last reader ends', async () => {
  const onInterest = vi.fn();
  const fanOut = new FanOut({ now, onInterest });
  expect(fanOut.isRead('s')).toBe(false);
  const first = fanOut.subscribe('s', { replay });
  const second = fanOut.subscribe('s', { replay });
  expect(onInterest.mock.calls).toEqual([['s', true]]);
  expect([fanOut.isRead('s'), fanOut.isRead('r')]).toEqual([true, false]);
  await first.return();
  expect(onInterest).toHaveBeenCalledTimes(1);
  await second.return();
  expect(onInterest.mock.calls).toEqual([
    ['s', true],
    ['s', false],
  ]);
  const all = fanOut.subscribeAll();
  expect(fanOut.isRead('anything')).toBe(true);
  await all.return();
  expect(onInterest.mock.calls.slice(2)).toEqual([
    [undefined, true],
    [undefined, false],
  ]);
  const aborted = fanOut.subscribe('s', { replay, signal: AbortSignal.abort() });
  expect(await takeAll(aborted)).toEqual([]);
  expect(onInterest).toHaveBeenCalledTimes(4);
  expect(fanOut.size).toBe(0);
});

test('N3: a session that ends releases its readers, read to the end or not, and can be read again', async () => {
  const onInterest = vi.fn();
  const fanOut = new FanOut({ now, onInterest });
  const reader = fanOut.subscribe('s', { replay });
  fanOut.subscribe('s', { replay });
  const all = fanOut.subscribeAll();
  fanOut.publish([durable(1)]);
  fanOut.end('s', new Error('deleted'));
  fanOut.end('r');
  expect(fanOut.size).toBe(1);
  expect(await take(reader, 1)).toEqual(['1']);
  await expect(reader.next()).rejects.toThrow('deleted');
  const again = fanOut.subscribe('s', { replay });
  fanOut.publish([durable(2)]);
  expect(await take(again, 1)).toEqual(['2']);
  expect(await take(all, 2)).toEqual(['1', '2']);
  expect(onInterest.mock.calls.filter(([session]) => session === 's')).toEqual([
    ['s', true],
    ['s', false],
    ['s', true],
  ]);
});

test('subscribers are bounded, and a subscriber that leaves makes room', async () => {
  const fanOut = new FanOut({ now, subscribersMax: 2 });
  const first = fanOut.subscribe('s', { replay });
  fanOut.subscribeAll();
  expect(() => fanOut.subscribe('s', { replay })).toThrow(LimitError);
  expect(() => fanOut.subscribeAll()).toThrow(LimitError);
  await first.return();
  expect(fanOut.subscribe('r', { replay }).isOver).toBe(false);
});

test('E2: a reader of all sessions receives one unfilled gap per session, and ends when too far behind', async () => {
  const fanOut = new FanOut({ now });
  const bounds = { eventsMax: 3, charactersMax: 100_000 };
  const slow = fanOut.subscribeAll({ bounds });
  fanOut.publish([durable(4), durable(9, 'r'), durable(5), progress('live'), durable(6)]);
  expect(await take(slow, 4)).toEqual(['gap 4-5', 'gap 9-9', 'live', '6']);

  const stalled = fanOut.subscribeAll({ bounds });
  for (let index = 0; index < LOST_SESSIONS_MAX + 10; index += 1) fanOut.publish([durable(1, `s${index}`)]);
  const failure = takeAll(stalled);
  await expect(failure).rejects.toThrow(LimitError);
  await expect(failure).rejects.toMatchObject({ data: { limit: 'lostSessions' } });
  await slow.return();
  expect(fanOut.size).toBe(0);
});

test('N1 to N3: a tap reads all sessions, counts as a reader of them, and alone is notified of deletions', async () => {
  const onInterest = vi.fn();
  const fanOut = new FanOut({ now, onInterest, subscribersMax: 2 });
  const calls: string[] = [];
  const over = vi.fn();
  const tap = fanOut.tap({
    take: (events) => void calls.push(...events.map(short)),
    cutOff: (session) => void calls.push(`cut off ${session}`),
    over,
  });
  const all = fanOut.subscribeAll();
  expect(() => fanOut.tap({ take: () => undefined, cutOff: () => undefined, over })).toThrow(LimitError);
  expect(fanOut.isRead('anything')).toBe(true);
  fanOut.publish([durable(1), durable(1, 'r')]);
  fanOut.end('s');
  fanOut.end('r', new Error('its shard is lost'));
  expect(calls).toEqual([]);
  await settled();
  expect(calls).toEqual(['1', '1', 'cut off s']);
  await all.return();
  expect(onInterest.mock.calls).toEqual([[undefined, true]]);
  tap.leave();
  expect(onInterest.mock.calls.slice(1)).toEqual([[undefined, false]]);
  expect([fanOut.size, over.mock.calls.length]).toEqual([0, 1]);
});

test('N3: when all reading ends, taps end too, with the error if there is one', async () => {
  const onInterest = vi.fn();
  const fanOut = new FanOut({ now, onInterest });
  const over = vi.fn();
  const taken: string[] = [];
  const take = (events: readonly SessionEvent[]): void => void taken.push(...events.map(short));
  fanOut.tap({ take, cutOff: () => undefined, over });
  fanOut.publish([durable(1)]);
  fanOut.close(new Error('lost'));
  expect(fanOut.size).toBe(0);
  await settled();
  expect(taken).toEqual(['1']);
  expect(over.mock.calls).toEqual([[new Error('lost')]]);
  expect(onInterest.mock.calls.at(-1)).toEqual([undefined, false]);
});
