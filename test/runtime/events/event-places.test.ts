/**
 * Goal: a reader of all sessions continues where it was. In the sessions that the reader names it misses nothing and
 * reads nothing twice.
 */
import { describe, expect, test } from 'vitest';
import { EVENT_PLACES_MAX, SUBSCRIBER_EVENTS_MAX } from '../../../src/base/bounds.ts';
import type { SessionEvent, ViewedEvent } from '../../../src/index.ts';
import { killSessionThread } from '../../../src/runtime/handles/runtime.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { collect, failure, gatedModel, history, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const durable = (event: SessionEvent): boolean => event.seq !== undefined || event.type === 'gap';

/** Reads up to and including the event for which `isLast` is true. */
async function until<Event extends ViewedEvent>(
  events: AsyncIterable<Event>,
  isLast: (event: Event) => boolean,
): Promise<Event[]> {
  const found: Event[] = [];
  for await (const event of events) {
    found.push(event);
    if (isLast(event)) break;
  }
  return found;
}

const of = (events: readonly SessionEvent[], id: string): readonly SessionEvent[] =>
  events.filter(({ session, seq }) => session === id && seq !== undefined);
const ends = (id: string, times: number): ((event: ViewedEvent) => boolean) => {
  let ended = 0;
  return (event) => {
    if (event.session === id && event.type === 'turn.finished') ended += 1;
    return ended === times;
  };
};

describe.each(MATRIX)('events of all sessions after cursors, sessions: $sessions, models: $models', (threads) => {
  test('events of the log come first, then live ones, without gap or duplicate; sessions without a cursor are live only', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const [one, two, three] = ['one', 'two', 'three'].map((id) => runtime.session(id)) as [
      ReturnType<typeof runtime.session>,
      ReturnType<typeof runtime.session>,
      ReturnType<typeof runtime.session>,
    ];
    for (const session of [one, two, three]) await session.ask('before');
    const { seq } = await two.state();
    const reading = until(runtime.events({ after: { one: 0, two: seq, new: 0 }, filter: durable }), ends('new', 1));
    for (const session of [two, one, three]) await session.ask('while it reads');
    await runtime.session('new').ask('begins');
    const events = await reading;
    expect(of(events, 'one')).toEqual(await history(one));
    expect(of(events, 'two')).toEqual((await history(two)).filter((event) => (event.seq ?? 0) > seq));
    expect(of(events, 'new')).toEqual(await history(runtime.session('new')));
    expect(of(events, 'three').every(({ seq: number = 0 }) => number > seq)).toBe(true);
    expect(events.some(({ type }) => type === 'gap')).toBe(false);
  });

  test('a reader that returns with its cursors, after a restart too, reads each event once', async () => {
    const directory = await kit.directory();
    const ids = ['a', 'b', 'c'];
    const places: Record<string, number> = Object.fromEntries(ids.map((id) => [id, 0]));
    const seen: SessionEvent[] = [];
    for (let round = 0; round < 3; round += 1) {
      const runtime = await kit.open({ directory, threads, provider: echo });
      const asked = Promise.all(ids.map((id) => runtime.session(id).ask(`round ${round}`)));
      // The reader stops in the middle of a turn, at a different event each time.
      let left = 10 + round * 7;
      for await (const event of runtime.events({ after: places, filter: durable })) {
        seen.push(event);
        if (event.seq !== undefined) places[event.session] = event.seq;
        left -= 1;
        if (left === 0) break;
      }
      await asked;
      await runtime.close();
    }
    const runtime = await kit.open({ directory, threads, provider: echo });
    const whole = new Map<string, readonly SessionEvent[]>();
    for (const id of ids) whole.set(id, await history(runtime.session(id)));
    const missing = ids.reduce((sum, id) => sum + (whole.get(id)?.length ?? 0) - (places[id] ?? 0), 0);
    let left = missing;
    for await (const event of runtime.events({ after: places, filter: durable })) {
      seen.push(event);
      left -= 1;
      if (left === 0) break;
    }
    for (const id of ids) expect(of(seen, id), id).toEqual(whole.get(id));
  });

  test('a deleted session that is created again is read from its first event', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    await runtime.session('s').ask('old');
    const old = await history(runtime.session('s'));
    const iterator = runtime.events({ after: { s: 0 }, filter: durable })[Symbol.asyncIterator]();
    for (const event of old) expect((await iterator.next()).value).toEqual(event);
    await runtime.sessions.delete('s');
    await runtime.session('s').ask('new');
    const anew = await history(runtime.session('s'));
    for (const event of anew) expect((await iterator.next()).value).toEqual(event);
    await iterator.return?.();
  });

  test('the iteration ends with the runtime, or with its signal, even one aborted before', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    await runtime.session('s').ask('hi');
    expect(await collect(runtime.events({ after: { s: 0 }, signal: AbortSignal.abort() }))).toEqual([]);
    const controller = new AbortController();
    const seen: SessionEvent[] = [];
    for await (const event of runtime.events({ after: { s: 0 }, signal: controller.signal })) {
      seen.push(event);
      controller.abort();
    }
    expect(seen.length).toBe(1);
    const { seq } = await runtime.session('s').state();
    const waiting = collect(runtime.events({ after: { s: seq } }));
    await runtime.close();
    expect(await waiting).toEqual([]);
  });

  test('a mode and a filter apply to each event; an error that the filter throws ends the reading', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    await runtime.session('s').ask('hi');
    const shown = await until(runtime.events({ after: { s: 0 }, mode: 'basic' }), ends('s', 1));
    expect(shown.flatMap((event) => ('rendered' in event ? [event.rendered] : [])).length).toBeGreaterThan(0);
    const filter = (): boolean => {
      throw new Error('boom');
    };
    expect((await failure(collect(runtime.events({ after: { s: 0 }, filter })))).message).toBe('boom');
  });
});

test('a reader that is too slow gets its lost events from the log', async () => {
  const messages = SUBSCRIBER_EVENTS_MAX + 100;
  const runtime = await kit.open({ provider: echo, limits: { mailbox: messages } });
  const session = runtime.session('s');
  const iterator = runtime.events({ after: { s: 0 }, filter: durable })[Symbol.asyncIterator]();
  // A paused session publishes an event for each message that it accepts, and needs no turn for it.
  await session.pause();
  await Promise.all(Array.from({ length: messages }, (_, n) => session.send(`m${n}`)));
  const whole = await history(session);
  expect(whole.length).toBeGreaterThan(SUBSCRIBER_EVENTS_MAX);
  const seen: SessionEvent[] = [];
  while (seen.length < whole.length) {
    const { value } = await iterator.next();
    if (value !== undefined) seen.push(value);
  }
  expect(seen).toEqual(whole);
  const rest = iterator.next();
  await iterator.return?.();
  expect(await rest).toEqual({ done: true, value: undefined });
});

test('deltas of a live text are never read after its message', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session = runtime.session('s');
  await session.send('hi');
  const call = await model.next();
  const iterator = runtime.events({ after: { s: 0 } })[Symbol.asyncIterator]();
  call.answer('a text in pieces');
  await runtime.drain();
  const seen: SessionEvent[] = [];
  const whole = await history(session);
  while (seen.filter(({ seq }) => seq !== undefined).length < whole.length) {
    const { value } = await iterator.next();
    if (value !== undefined) seen.push(value);
  }
  const made = seen.findIndex((event) => event.type === 'message.created' && event.message.type === 'agent_message');
  expect(seen.slice(made).some(({ type }) => type === 'text.delta')).toBe(false);
  const rest = iterator.next();
  await session.interrupt();
  await iterator.return?.();
  expect((await rest).value?.type).not.toBe('text.delta');
});

test('the death of a session thread loses no event', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, threads: { sessions: 1, models: 1 }, provider: echo });
  await runtime.session('s').ask('before');
  const reading = until(runtime.events({ after: { s: 0 }, filter: durable }), ends('s', 3));
  await Promise.all([runtime.session('s').ask('m1', { key: 'm1' }), killSessionThread(runtime, 0)]);
  await runtime.session('s').ask('m2', { key: 'm2', deliver: 'turn' });
  expect(of(await reading, 's')).toEqual(await history(runtime.session('s')));
});

test('invalid cursors are refused, each with an error code', async () => {
  const runtime = await kit.open({ provider: echo });
  const codeOf = (after: unknown): unknown => {
    try {
      runtime.events({ after: after as Record<string, number> });
    } catch (error) {
      return (error as { code?: unknown }).code;
    }
    return undefined;
  };
  expect([codeOf(3), codeOf({ s: -1 }), codeOf({ s: 1.5 }), codeOf({ s: '1' })]).toEqual(Array(4).fill('config'));
  expect(codeOf({ 'no name': 1 })).toBe('invalid_name');
  const many = Object.fromEntries(Array.from({ length: EVENT_PLACES_MAX + 1 }, (_, index) => [`s${index}`, 0]));
  expect(codeOf(many)).toBe('limit');
});
