/** Goal: how a tap hands over published events (T1, T2, T4). Method: a reader that records its calls and may throw. */
import { expect, test } from 'vitest';
import { LOST_SESSIONS_MAX } from '../../../src/base/bounds.ts';
import { LimitError } from '../../../src/base/errors.ts';
import { EventTap, type EventTapOptions, type TapReader } from '../../../src/events/reading/event-tap.ts';
import { delta, durable, durables, settled, short } from '../packing/event-samples.ts';

interface Tapped {
  readonly tap: EventTap;
  /** The calls in order; each event as a short text. */
  readonly calls: string[];
  /** The arguments of the calls of `over`. */
  readonly overs: unknown[];
}

function tapped(options: EventTapOptions = {}, other: Partial<TapReader> = {}): Tapped {
  const calls: string[] = [];
  const overs: unknown[] = [];
  const reader: TapReader = {
    take: (events) => void calls.push(...events.map(short)),
    cutOff: (session) => void calls.push(`lost ${session}`),
    over: (error) => void overs.push(error),
    ...other,
  };
  return { tap: new EventTap(reader, options), calls, overs };
}

test('T1: published events are read in order, after the code that published them has returned', async () => {
  const { tap, calls } = tapped();
  tap.pushAll([durable(1), delta('text')]);
  tap.end('r');
  tap.pushAll([durable(2)]);
  expect(calls).toEqual([]);
  await settled();
  expect(calls).toEqual(['1', 'text', 'lost r', '2']);
});

test('T1: an event published while others are read is read later', async () => {
  const taken: string[] = [];
  const { tap } = tapped(
    { eventsMax: 2 },
    {
      take: (events) => {
        if (taken.length === 0) tap.pushAll(durables(5, 6));
        taken.push(...events.map(short));
      },
    },
  );
  tap.pushAll([durable(1)]);
  tap.pushAll([durable(2)]);
  await settled();
  expect(taken).toEqual(['1', '2', '5', '6']);
});

test('T2: beyond the bound all waiting events are dropped, and later events of their sessions are withheld', async () => {
  const { tap, calls } = tapped({ eventsMax: 3 });
  tap.pushAll([durable(1), durable(1, 'r')]);
  tap.pushAll([delta('only text', 't', 'q')]);
  tap.pushAll([durable(9, 'p')]);
  await settled();
  expect(calls).toEqual(['lost s', 'lost r', '9']);
});

test('T2: a list beyond the bound is taken whole if nothing waits; a dropped deletion is still reported', async () => {
  const { tap, calls } = tapped({ eventsMax: 2 });
  tap.pushAll(durables(1, 4));
  await settled();
  tap.end('s');
  tap.pushAll([durable(1, 'r')]);
  tap.pushAll([durable(2, 's')]);
  await settled();
  expect(calls).toEqual(['1', '2', '3', '4', 'lost s', 'lost r', '2']);
});

test('T2: a reader that loses events of too many sessions ends with an error', async () => {
  const { tap, calls, overs } = tapped({ eventsMax: 1 });
  for (let index = 0; index < LOST_SESSIONS_MAX + 10; index += 1) tap.pushAll([durable(1, `s${index}`)]);
  await settled();
  expect(calls.slice(0, 2)).toEqual(['lost s0', 'lost s1']);
  expect(overs).toEqual([expect.any(LimitError)]);
});

test('T4: the tap ends once, after the waiting events; a reader that leaves ends it at once', async () => {
  let closed = 0;
  const onClose = (): void => {
    closed += 1;
  };
  const ended = tapped({ onClose });
  ended.tap.pushAll([durable(1)]);
  ended.tap.close();
  ended.tap.fail(new Error('too late'));
  ended.tap.pushAll([durable(2)]);
  await settled();
  ended.tap.leave();
  expect([ended.calls, ended.overs, closed]).toEqual([['1'], [undefined], 1]);

  const left = tapped({ onClose });
  left.tap.pushAll([durable(1)]);
  left.tap.leave();
  left.tap.pushAll([durable(2)]);
  await settled();
  expect([left.calls, left.overs, closed]).toEqual([[], [undefined], 2]);
});

test('T4: an error that the reader throws ends the tap', async () => {
  const { tap, overs } = tapped(
    {},
    {
      take: () => {
        throw new Error('mine');
      },
    },
  );
  tap.pushAll([durable(1)]);
  await settled();
  tap.pushAll([durable(2)]);
  await settled();
  expect(overs).toEqual([new Error('mine')]);
});
