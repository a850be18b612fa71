/**
 * Goal: the bounds of the events that wait for one reader (B1 to B3). Method: a small buffer, filled by hand and at
 * random.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SessionEvent } from '../../../src/events/event.ts';
import { charactersOf, EventBuffer } from '../../../src/events/reading/event-buffer.ts';
import { delta, durable, durables, progress, short } from '../packing/event-samples.ts';

const wide = { eventsMax: 1_000, charactersMax: 1_000_000 };

function drain(buffer: EventBuffer): string[] {
  const words: string[] = [];
  for (let event = buffer.take(); event !== undefined; event = buffer.take()) words.push(short(event));
  return words;
}

test('B1: events leave in the order they were added, and the sizes add up', () => {
  const buffer = new EventBuffer(wide);
  for (const event of durables(1, 100)) expect(buffer.put(event, 0)).toEqual([]);
  expect(buffer.size).toBe(100);
  expect(buffer.characters).toBe(durables(1, 100).reduce((sum, event) => sum + charactersOf(event), 0));
  expect(buffer.peek()?.seq).toBe(1);
  expect(drain(buffer)).toEqual(Array.from({ length: 100 }, (_, index) => String(index + 1)));
  expect([buffer.size, buffer.characters, buffer.take(), buffer.peek()]).toEqual([0, 0, undefined, undefined]);
});

test('B2: an event beyond the bounds empties the buffer, and is itself kept', () => {
  const few = new EventBuffer({ ...wide, eventsMax: 3 });
  for (const event of durables(1, 3)) few.put(event, 0);
  expect(few.put(durable(4), 0).map((event) => event.seq)).toEqual([1, 2, 3]);
  expect(drain(few)).toEqual(['4']);

  const small = new EventBuffer({ ...wide, charactersMax: 500 });
  small.put(durable(1), 0);
  expect(small.put(progress('x'.repeat(1_000)), 1).map((event) => event.seq)).toEqual([1]);
  expect(small.size).toBe(1);
  expect(small.put(durable(2), 0)).toHaveLength(1);
});

test('B3: waiting deltas of one text are joined, deltas of different texts are not', () => {
  const buffer = new EventBuffer(wide);
  buffer.put(delta('a'), 0);
  buffer.put(delta('b'), 0);
  buffer.put({ ...delta('thought'), type: 'thinking.delta' } as SessionEvent, 0);
  buffer.put(delta('c'), 0);
  buffer.put(delta('other turn', 'u'), 0);
  buffer.put(delta('other session', 'u', 'r'), 0);
  buffer.put(durable(1), 1);
  buffer.put(delta('d'), 1);
  buffer.put(delta('e'), 1);
  expect(drain(buffer)).toEqual(['ab', 'thought', 'c', 'other turn', 'other session', '1', 'de']);
  buffer.put(delta('f'), 1);
  // A durable event came between these two, though it is not in this buffer.
  buffer.put(delta('g'), 2);
  expect(drain(buffer)).toEqual(['f', 'g']);
});

test('B1, B3: joined text is bounded as well', () => {
  const buffer = new EventBuffer({ ...wide, charactersMax: 1_000 });
  for (let count = 0; count < 10_000; count += 1) {
    buffer.put(delta('0123456789'), 0);
    expect(buffer.characters).toBeLessThanOrEqual(1_000);
  }
  expect(buffer.size).toBe(1);
});

test('B1: the bounds hold after any series of puts and takes, and the kept events leave in order', () => {
  const events = fc.array(fc.record({ isTaken: fc.boolean(), length: fc.nat(200) }), { maxLength: 300 });
  fc.assert(
    fc.property(
      events,
      fc.integer({ min: 1, max: 100 }),
      fc.constantFrom(600, 50_000),
      (steps, eventsMax, charactersMax) => {
        const buffer = new EventBuffer({ eventsMax, charactersMax });
        const expected: string[] = [];
        steps.forEach(({ isTaken, length }, index) => {
          const word = `${index}:${'x'.repeat(length)}`;
          const lost = buffer.put(progress(word), 0).map(short);
          expect(lost).toEqual(expected.splice(0, lost.length));
          expected.push(word);
          expect(buffer.size).toBe(expected.length);
          expect(buffer.size).toBeLessThanOrEqual(eventsMax);
          if (buffer.size > 1) expect(buffer.characters).toBeLessThanOrEqual(charactersMax);
          if (!isTaken) return;
          const event = buffer.take();
          expect(event === undefined ? undefined : short(event)).toBe(expected.shift());
        });
        expect(drain(buffer)).toEqual(expected);
        expect(buffer.characters).toBe(0);
      },
    ),
  );
});

test('B1: order and size stay correct when the ring grows with its oldest event at any index, and after a large burst', () => {
  const buffer = new EventBuffer({ ...wide, eventsMax: 10_000 });
  let next = 1;
  let wanted = 1;
  for (const burst of [10, 20, 100, 3_000, 5, 4_000]) {
    for (let count = 0; count < burst; count += 1) buffer.put(durable(next++), 0);
    // A few events stay, so that the next burst begins in the middle of the buffer.
    for (const left = burst === 3_000 ? 0 : 3; buffer.size > left; wanted += 1) expect(buffer.take()?.seq).toBe(wanted);
  }
  expect(buffer.clear().map((event) => event.seq)).toEqual([next - 3, next - 2, next - 1]);
  expect([buffer.size, buffer.characters, buffer.peek(), buffer.peekAfter()]).toEqual([0, 0, undefined, undefined]);
});

test('B1: all messages, blocks and answers of an event count', () => {
  const text = 'x'.repeat(100_000);
  const message = { seq: 1, type: 'agent_message', content: '', at: 0, tokens: 0 } as const;
  const blocks = [{ type: 'text', text }] as const;
  const created = Array.from({ length: 2_000 }, (_, index) => ({
    ...message,
    seq: index + 1,
    content: 'y'.repeat(100),
  }));
  const events: readonly SessionEvent[] = [
    { session: 's', at: 0, seq: 1, type: 'message.created', message: { ...message, blocks } },
    { session: 's', at: 0, seq: 1, type: 'history.changed', operation: 'import', removed: [], created, updated: [] },
  ];
  for (const event of events) expect(charactersOf(event)).toBeGreaterThan(100_000);
});

test('B1: measuring an event always ends, however wide, deep or circular its data is', () => {
  const circular: Record<string, unknown> = { text: 'x'.repeat(100) };
  circular['self'] = circular;
  let deep: unknown = 'bottom';
  for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
  for (const data of [circular, deep, new Array(1_000_000).fill('y'), null, undefined, 5n]) {
    const characters = charactersOf(progress(data));
    expect(characters).toBeGreaterThan(0);
    expect(characters).toBeLessThan(1_000_000);
  }
});
