/**
 * Goal: the events published in one tick cross as one note, whole and in order (V1 to V3). Method: both ways over real
 * endpoints, with notes counted.
 */
import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { EVENTS_OF_NOTE_MAX, SUBSCRIBER_EVENTS_MAX } from '../../../src/base/bounds.ts';
import type { PublishedEvent } from '../../../src/events/event.ts';
import { unpackEvents } from '../../../src/events/packing/unpacking.ts';
import { FanOut } from '../../../src/events/reading/fan-out.ts';
import type { EventsNote } from '../../../src/runtime/protocol/protocol.ts';
import { publishInPlace, publishPacked } from '../../../src/runtime/shard/event-notes.ts';
import { createEndpoint, createLocalEndpoints } from '../../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../../src/threads/endpoint.ts';
import { durable } from '../../events/packing/event-samples.ts';

const open: Endpoint[] = [];
afterEach(() => {
  for (const endpoint of open.splice(0)) endpoint.close();
});

function overPorts(): readonly [Endpoint, Endpoint] {
  const { port1, port2 } = new MessageChannel();
  return [createEndpoint(port1), createEndpoint(port2)];
}

const inOnePlace = {
  method: 'events',
  tell: publishInPlace,
  ends: () => createLocalEndpoints(),
  read: (events: unknown) => events as readonly PublishedEvent[],
};
const toAThread = {
  method: 'events.packed',
  tell: publishPacked,
  ends: overPorts,
  read: (events: unknown) => unpackEvents(events as readonly unknown[]),
};

test.each([
  ['in place', inOnePlace],
  ['to another thread', toAThread],
])(
  '%s: more events than a reader buffers, published at once, reach a reader of all sessions that keeps up (V2)',
  async (_name, way) => {
    const [near, far] = way.ends();
    open.push(near, far);
    const fanOut = new FanOut({ now: () => 0 });
    far.handle(way.method, (payload) => fanOut.publish(way.read((payload as EventsNote<unknown>).events)));
    const told = SUBSCRIBER_EVENTS_MAX + 2_000;
    const reader = fanOut.subscribeAll();
    way.tell(near).events(Array.from({ length: told }, (_unused, index) => durable(1 + index)));
    const types = new Set<string>();
    let read = 0;
    for await (const { type, seq } of reader) {
      types.add(type);
      read += 1;
      if (seq === told) break;
    }
    expect(types).not.toContain('gap');
    expect(read).toBe(told);
  },
);

test.each([
  ['in place', inOnePlace],
  ['to another thread', toAThread],
])(
  '%s: events are sent once per tick, before later messages (V1), bounded (V2), with new sessions (V3)',
  async (_name, way) => {
    const [near, far] = way.ends();
    open.push(near, far);
    const notes: (readonly PublishedEvent[])[] = [];
    const heard: string[] = [];
    far.handle(way.method, (payload) => {
      const { events, introduced } = payload as EventsNote<unknown>;
      notes.push(way.read(events));
      heard.push(introduced === undefined ? 'events' : `events, and ${introduced.map(({ session }) => session)}`);
    });
    far.handle('answer', () => void heard.push('answer'));
    far.handle('echo', (payload) => payload);
    const { events: tell, introduced } = way.tell(near);

    tell([durable(1), durable(2)]);
    near.notify('answer', 1);
    tell([durable(3)]);
    await near.call('echo', 0);
    expect(notes).toEqual([[durable(1), durable(2), durable(3)]]);
    expect(heard).toEqual(['events', 'answer']);

    const many = Array.from({ length: EVENTS_OF_NOTE_MAX + 1 }, (_unused, index) => durable(4 + index));
    tell(many);
    tell([]);
    await near.call('echo', 0);
    expect(notes.slice(1).map(({ length }) => length)).toEqual([EVENTS_OF_NOTE_MAX, 1]);
    expect(notes.slice(1).flat()).toEqual(many);

    tell([durable(1)]);
    introduced([{ session: 'a', agent: 'lead' }]);
    tell([durable(2)]);
    introduced([{ session: 'b', agent: 'helper', parent: 'a' }]);
    await near.call('echo', 0);
    expect(heard.at(-1)).toBe('events, and a,b');
    expect(notes.at(-1)).toEqual([durable(1), durable(2)]);
  },
);
