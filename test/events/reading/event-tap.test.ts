/** Goal: how a tap hands over what is told (T1, T2, T4). Method: a reader that notes what it is called with, and may throw. */
import { expect, test } from 'vitest';
import { LOST_SESSIONS_MAX } from '../../../src/base/bounds.ts';
import { LimitError } from '../../../src/base/errors.ts';
import { EventTap, type EventTapOptions, type TapReader } from '../../../src/events/reading/event-tap.ts';
import { delta, durable, durables, settled, short } from '../packing/event-samples.ts';

interface Tapped {
  readonly tap: EventTap;
  /** Calls, in order; an event as a word. */
  readonly calls: string[];
  /** What `over` was called with. */
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

test('T1: what is told is taken in its order, behind the code that tells it', async () => {
  const { tap, calls } = tapped();
  tap.pushAll([durable(1), delta('text')]);
  tap.end('r');
  tap.pushAll([durable(2)]);
  expect(calls).toEqual([]);
  await settled();
  expect(calls).toEqual(['1', 'text', 'lost r', '2']);
});

test('T1: what is told while something is taken comes behind it', async () => {
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

test('T2: beyond the bound all that waits is lost, and its sessions are cut off before what comes later', async () => {
  const { tap, calls } = tapped({ eventsMax: 3 });
  tap.pushAll([durable(1), durable(1, 'r')]);
  tap.pushAll([delta('only text', 't', 'q')]);
  tap.pushAll([durable(9, 'p')]);
  await settled();
  expect(calls).toEqual(['lost s', 'lost r', '9']);
});

test('T2: a list longer than the bound is taken whole where nothing waits; a deletion that is lost is still told', async () => {
  const { tap, calls } = tapped({ eventsMax: 2 });
  tap.pushAll(durables(1, 4));
  await settled();
  tap.end('s');
  tap.pushAll([durable(1, 'r')]);
  tap.pushAll([durable(2, 's')]);
  await settled();
  expect(calls).toEqual(['1', '2', '3', '4', 'lost s', 'lost r', '2']);
});

test('T2: a reader that loses events of too many sessions is let go with an error', async () => {
  const { tap, calls, overs } = tapped({ eventsMax: 1 });
  for (let index = 0; index < LOST_SESSIONS_MAX + 10; index += 1) tap.pushAll([durable(1, `s${index}`)]);
  await settled();
  expect(calls.slice(0, 2)).toEqual(['lost s0', 'lost s1']);
  expect(overs).toEqual([expect.any(LimitError)]);
});

test('T4: it ends once, behind what waits; a reader that leaves ends it at once', async () => {
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

test('T4: what the reader throws ends it', async () => {
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
