/**
 * Goal: a reader over HTTP sees the same events as a reader in the process: each once, in order, whatever breaks in
 * between. Method: a separate reader that a test can stall or kill, at events drawn from a seed.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { SERVER_HEARTBEAT_MS } from '../../src/base/bounds.ts';
import { ReaderBudget } from '../../src/events/reading/reader-budget.ts';
import { agent, type SessionEvent, tool, type ViewedEvent } from '../../src/index.ts';
import { createApplication } from '../../src/server/application.ts';
import { EncodedEvents, eventText } from '../../src/server/encoded-events.ts';
import { eventStream } from '../../src/server/event-stream.ts';
import { serve } from '../../src/server/index.ts';
import { checkHandlerOptions } from '../../src/server/options.ts';
import { manualClock } from '../../src/testing/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import { deferred, eventually, history } from '../support/runtime-kit.ts';
import { echo, serverKit } from './support.ts';

const kit = serverKit();
const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), run: () => 'noted' });
const noting = scripted({
  rules: [{ when: { result: true }, reply: 'Done.' }],
  otherwise: { text: 'Noting.', toolUse: { name: 'note' } },
});

/** Reads until a durable event of this number. */
async function until(reader: EventReader, seq: number): Promise<readonly SessionEvent[]> {
  const events: SessionEvent[] = [];
  for (let event = await reader.nextEvent(); event !== undefined; event = await reader.nextEvent()) {
    events.push(event);
    if (event.seq !== undefined && event.seq >= seq) break;
  }
  return events;
}

const encoded = (event: SessionEvent): Uint8Array => new TextEncoder().encode(eventText(event));
const plain = ({ rendered: _rendered, ...event }: SessionEvent): unknown => event;
const durable = (events: readonly SessionEvent[]): readonly unknown[] =>
  events.filter(({ seq }) => seq !== undefined).map(plain);

describe('a session\u2019s stream', () => {
  test('F135: sends stored events, then new ones; id is the number, event the type, data the event', async () => {
    const { url, post, runtime } = await kit.serve({ agents: [agent({ name: 'a', tools: [note] })], provider: noting });
    const session = runtime.session('s');
    await session.ask('Hi');
    const reader = await readEvents(`${url}/sessions/s/events?mode=debug`);
    expect([reader.status, reader.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
    const first = await reader.next();
    expect(first).toMatchObject({ id: '1', type: 'pending.created' });
    expect(JSON.parse(first?.data ?? '')).toMatchObject({
      session: 's',
      seq: 1,
      rendered: { role: 'user', content: 'Hi' },
    });
    const { seq } = await session.state();
    const rest = await until(reader, seq);
    await post('/sessions/s/messages', { content: 'More' });
    await runtime.drain();
    const later = await until(reader, (await session.state()).seq);
    expect([1, ...durable([...rest, ...later]).map((event) => (event as SessionEvent).seq)]).toEqual(
      Array.from({ length: (await session.state()).seq }, (_, index) => index + 1),
    );
    expect(durable([...rest, ...later])).toEqual((await history(session)).slice(1));
    expect(later.map(({ type }) => type)).toContain('text.delta');
    reader.kill();
  });

  test('after and Last-Event-ID set where to resume; the header takes precedence; an unreadable one is ignored', async () => {
    const { url, runtime } = await kit.serve();
    await runtime.session('s').ask('Hi');
    const firstOf = async (path: string, headers: Readonly<Record<string, string>> = {}): Promise<unknown> => {
      const reader = await readEvents(`${url}${path}`, headers);
      const event = await reader.nextEvent();
      reader.kill();
      return event?.seq;
    };
    expect(await firstOf('/sessions/s/events?mode=debug&after=3')).toBe(4);
    expect(await firstOf('/sessions/s/events?mode=debug&after=3', { 'last-event-id': '5' })).toBe(6);
    expect(await firstOf('/sessions/s/events?mode=debug&after=3', { 'last-event-id': '' })).toBe(4);
    expect(await firstOf('/sessions/s/events?mode=debug', { 'last-event-id': '1; drop' })).toBe(1);
  });

  test('F137: the mode decides what is sent; without a mode the setting does', async () => {
    const agents = [agent({ name: 'a', tools: [note] })];
    const settings = { session: { defaultViewMode: 'verbose' } } as const;
    const { url, runtime } = await kit.serve({ agents, provider: noting, settings });
    const session = runtime.session('s');
    await session.ask('Hi');
    const { seq } = await session.state();
    const rendered = async (query: string): Promise<readonly (string | undefined)[]> => {
      const reader = await readEvents(`${url}/sessions/s/events?deltas=false${query}`);
      const events = await until(reader, seq);
      reader.kill();
      return events.flatMap(({ rendered: shown }) => (shown === undefined ? [] : [shown.role]));
    };
    expect(await rendered('&mode=basic')).toEqual(['user', 'user', 'assistant', 'assistant']);
    const verbose = ['user', 'user', 'assistant', 'tool_call', 'tool_response', 'tool_response', 'assistant'];
    expect(await rendered('&mode=verbose')).toEqual(verbose);
    expect(await rendered('')).toEqual(verbose);
    const inProcess: ViewedEvent[] = [];
    for await (const event of session.events({ mode: 'basic', until: seq, deltas: false })) inProcess.push(event);
    expect(inProcess.flatMap(({ rendered: shown }) => (shown === undefined ? [] : [shown.role]))).toEqual(
      await rendered('&mode=basic'),
    );
    expect(() => session.events({ mode: 'loud' as 'basic' })).toThrow('"mode"');
  });

  test('deltas can be left out', async () => {
    const { url, post, runtime } = await kit.serve();
    await post('/sessions', { id: 's' });
    const reader = await readEvents(`${url}/sessions/s/events?mode=debug&deltas=false`);
    await eventually(() => reader.status === 200);
    await runtime.session('s').ask('Hi');
    const events = await until(reader, (await runtime.session('s').state()).seq);
    expect(events.map(({ type }) => type)).not.toContain('text.delta');
    reader.kill();
  });

  test('ends when the session is deleted, when the runtime closes, and when the server closes', async () => {
    const { url, post, runtime, server } = await kit.serve();
    for (const id of ['a', 'b']) await post('/sessions', { id });
    const end = async (reader: EventReader): Promise<void> => {
      for (let event = await reader.next(); event !== undefined; event = await reader.next());
    };
    const deleted = await readEvents(`${url}/sessions/a/events`);
    await runtime.sessions.delete('a');
    await end(deleted);
    const closed = await readEvents(`${url}/sessions/b/events`);
    await server.close();
    await end(closed);
    const again = await serve(runtime, { port: 0 });
    const open = await readEvents(`${again.url}/events`);
    await runtime.close();
    await end(open);
    await again.close();
  });
});

describe('faults', () => {
  test.each([1, 2, 3, 4])(
    'connections killed at any point, servers restarted: no event is lost, none is published twice (seed %i)',
    async (seed) => {
      const random = new SeededRandom(seed);
      const directory = await kit.directory();
      const options = { directory, agents: [agent({ name: 'a', tools: [note] })], provider: noting };
      let served = await kit.serve(options);
      const seen: SessionEvent[] = [];
      let last = 0;
      for (let round = 0; round < 12; round += 1) {
        const sending = served.post('/sessions/s/messages', { content: `Message ${round}`, deliver: 'turn' });
        if (round === 0) await sending;
        const reader = await readEvents(`${served.url}/sessions/s/events?mode=debug`, {
          'last-event-id': String(last),
        });
        // The connection is killed after this many events of the turn (a turn has more), or after the turn.
        const isLive = random.chance(0.5);
        if (!isLive) {
          await sending;
          await served.runtime.drain();
        }
        const { seq } = await served.runtime.session('s').state();
        const wanted = isLive ? last + random.between(1, 10) : Math.min(last + random.between(1, 25), seq);
        for (const event of await until(reader, wanted)) {
          if (event.seq === undefined) continue;
          seen.push(event);
          last = event.seq;
        }
        reader.kill();
        await sending;
        if (random.chance(0.3)) {
          await served.server.close({ deadlineMs: 0 });
          await served.runtime.close();
          served = await kit.serve(options);
        }
      }
      const session = served.runtime.session('s');
      await served.runtime.drain();
      const { seq } = await session.state();
      if (last < seq) {
        const reader = await readEvents(`${served.url}/sessions/s/events?mode=debug`, {
          'last-event-id': String(last),
        });
        seen.push(...(await until(reader, seq)).filter((event) => event.seq !== undefined));
        reader.kill();
      }
      expect(seen.map((event) => event.seq)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
      expect(seen.map(plain)).toEqual(await history(session));
    },
  );

  test('F64: a stalled reader receives a gap and reads the missed events from the log; no other reader waits', async () => {
    const { url, post, runtime, get } = await kit.serve({ limits: { mailboxBytes: 64 * 1024 * 1024 } });
    await post('/sessions', { id: 's' });
    await post('/sessions/s/pause');
    const { seq: before } = await runtime.session('s').state();
    const reader = await readEvents(`${url}/sessions/s/events?mode=debug&after=${before}`);
    // Twice the bound of one waiting reader, far more than sockets hold.
    const content = 'x'.repeat(2 * 1024 * 1024);
    const count = 20;
    for (let index = 0; index < count; index += 1) await runtime.session('s').send(`${index} ${content}`);
    expect((await get('/metrics.json')).body).toMatchObject({ eventStreams: 1 });
    const events = await until(reader, before + count);
    expect(events.filter(({ type }) => type === 'gap')).toHaveLength(1);
    expect(events.filter(({ type }) => type !== 'gap').map(({ seq }) => seq)).toEqual(
      Array.from({ length: count }, (_, index) => before + 1 + index),
    );
    reader.kill();
  });

  test('a reader that leaves releases its stream and its watch', async () => {
    const { url, post, get } = await kit.serve();
    await post('/sessions', { id: 's' });
    const readers = await Promise.all([readEvents(`${url}/sessions/s/events`), readEvents(`${url}/events`)]);
    const open = async (): Promise<unknown> =>
      ((await get('/metrics.json')).body as { eventStreams: number }).eventStreams;
    expect(await open()).toBe(2);
    for (const reader of readers) reader.kill();
    await eventually(async () => (await open()) === 0);
  });

  test('one stream above the bound is refused with the code `limit`, until another stream ends', async () => {
    const runtime = await kit.open({ provider: echo });
    const { fetch } = createApplication(runtime, checkHandlerOptions({ hosts: ['localhost'] }), 1);
    const open = (): Promise<Response> => fetch(new Request('http://localhost/events'));
    const first = await open();
    expect(first.status).toBe(200);
    const refused = await open();
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await refused.json()).toMatchObject({ code: 'limit', retryable: true });
    await first.body?.cancel();
    const next = await open();
    expect(next.status).toBe(200);
    await next.body?.cancel();
  });

  test('the server can end a stream even if its source does not end; the timer ends with it', async () => {
    const runtime = await kit.open({ provider: echo });
    const silent = Object.create(runtime, {
      events: {
        value: async function* () {
          await new Promise(() => undefined);
        },
      },
      info: { value: () => runtime.info() },
    }) as typeof runtime;
    const clock = manualClock();
    const application = createApplication(silent, checkHandlerOptions({ clock, hosts: ['localhost'] }));
    const response = await application.fetch(new Request('http://localhost/events'));
    const text = response.text();
    await eventually(() => clock.pending === 1);
    application.end();
    expect(await text).toBe(': open\nretry: 1000\n\n');
    expect(clock.pending).toBe(0);
    const refused = await application.fetch(new Request('http://localhost/events'));
    expect([refused.status, await refused.json()]).toMatchObject([503, { code: 'cancelled' }]);
  });

  test('a stream that fails reports the reason, and ends', async () => {
    const runtime = await kit.open({ provider: echo });
    const failing = Object.create(runtime, {
      events: {
        value: async function* () {
          yield { session: 's', at: 0, type: 'interrupt.acknowledged' };
          throw new Error('hunter2');
        },
      },
      info: { value: () => runtime.info() },
    }) as typeof runtime;
    const errors: unknown[] = [];
    const options = checkHandlerOptions({ hosts: ['localhost'], onError: (error: unknown) => errors.push(error) });
    const response = await createApplication(failing, options).fetch(new Request('http://localhost/events'));
    const text = await response.text();
    expect(text).toContain('event: interrupt.acknowledged\n');
    expect(text).toContain('event: problem\ndata: {"type":"urn:troupe:problem:internal"');
    expect(text).not.toContain('hunter2');
    expect(errors).toMatchObject([{ message: 'hunter2' }]);
  });
});

test('a quiet stream sends heartbeats, sets at most one timer, and loses nothing by it', async () => {
  const clock = manualClock();
  const { url, post, runtime } = await kit.serve({}, { clock });
  await post('/sessions', { id: 's' });
  const { seq: before } = await runtime.session('s').state();
  const reader = await readEvents(`${url}/sessions/s/events?mode=debug`);
  expect(await reader.nextComment()).toBe('open');
  for (let beat = 0; beat < 3; beat += 1) {
    await eventually(() => clock.pending === 1);
    await clock.advance(SERVER_HEARTBEAT_MS - 1);
    expect(reader.comments).toHaveLength(beat + 1);
    await clock.advance(1);
    expect(await reader.nextComment()).toBe('alive');
  }
  await eventually(() => clock.pending === 1);
  await runtime.session('s').ask('Hi');
  const { seq } = await runtime.session('s').state();
  const told = (await until(reader, seq)).flatMap((event) => event.seq ?? []);
  expect(told).toEqual(Array.from({ length: seq - before }, (_, index) => before + 1 + index));
  reader.kill();
  await eventually(() => clock.pending === 0);
});

test('an event is requested once, however many heartbeats pass before it arrives', async () => {
  const clock = manualClock();
  let asked = 0;
  const coming = deferred<IteratorResult<SessionEvent, undefined>>();
  const events: AsyncIterableIterator<SessionEvent> = {
    next: () => {
      asked += 1;
      return asked === 1 ? coming.promise : Promise.resolve({ done: true, value: undefined });
    },
    return: async () => ({ done: true, value: undefined }),
    [Symbol.asyncIterator]: () => events,
  };
  const nobody = (): void => undefined;
  const reader = eventStream({ events, encode: encoded, clock, onClose: nobody, onError: nobody }).body.getReader();
  const read = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
  expect(await read()).toContain(': open');
  for (let beat = 0; beat < 3; beat += 1) {
    const beating = read();
    await eventually(() => clock.pending === 1);
    await clock.advance(SERVER_HEARTBEAT_MS);
    expect(await beating).toBe(': alive\n\n');
  }
  expect(asked).toBe(1);
  coming.resolve({ done: false, value: { session: 's', at: 0, seq: 1, type: 'interrupt.acknowledged' } });
  expect(await read()).toBe(
    'id: 1\nevent: interrupt.acknowledged\ndata: {"session":"s","at":0,"seq":1,"type":"interrupt.acknowledged"}\n\n',
  );
  expect((await reader.read()).done).toBe(true);
  expect(clock.pending).toBe(0);
});

describe('the stream of all sessions', () => {
  test('F143: is live, and can be narrowed to a family; the stream of a session has no event of another', async () => {
    const { url, post, runtime } = await kit.serve();
    await post('/sessions', { id: 'a' });
    const [all, family, own] = await Promise.all([
      readEvents(`${url}/events?mode=debug`),
      readEvents(`${url}/events?mode=debug&session=b`),
      readEvents(`${url}/sessions/a/events?mode=debug&after=0`),
    ]);
    const quiet = await readEvents(`${url}/events?mode=debug&deltas=false`);
    for (const id of ['a', 'b', 'b:x', 'c']) await runtime.session(id).ask('Hi');
    const types = new Set<string>();
    for (let event = await quiet.nextEvent(); event !== undefined; event = await quiet.nextEvent()) {
      types.add(event.type);
      if (event.session === 'c' && event.type === 'turn.finished') break;
    }
    quiet.kill();
    expect([types.has('message.created'), types.has('text.delta')]).toEqual([true, false]);
    const sessions = async (reader: EventReader, last: string): Promise<readonly string[]> => {
      const seen = new Set<string>();
      for (let event = await reader.nextEvent(); event !== undefined; event = await reader.nextEvent()) {
        seen.add(event.session);
        if (event.session === last && event.type === 'turn.finished') break;
      }
      reader.kill();
      return [...seen];
    };
    expect(await sessions(all, 'c')).toEqual(['a', 'b', 'b:x', 'c']);
    expect(await sessions(family, 'b:x')).toEqual(['b', 'b:x']);
    expect(await sessions(own, 'a')).toEqual(['a']);
  });

  test('F139: a stream is not disturbed by a request for a session that does not exist', async () => {
    const { url, post, get, runtime } = await kit.serve();
    await post('/sessions', { id: 's' });
    const reader = await readEvents(`${url}/sessions/s/events?mode=debug`);
    expect((await get('/sessions/nope/events')).status).toBe(404);
    await runtime.session('s').ask('Hi');
    expect((await reader.next())?.type).toBe('pending.created');
    reader.kill();
  });
});

test('a family is a session and its descendants, not sessions whose ids begin alike', async () => {
  const { url, get, runtime } = await kit.serve();
  const family = await readEvents(`${url}/events?mode=debug&session=user-4`);
  for (const id of ['user-42', 'user-4.b', 'user-4:1']) await runtime.session(id).ask('Hi');
  expect((await family.nextEvent())?.session).toBe('user-4:1');
  family.kill();
  for (const no of ['', '%2F', 'x'.repeat(129)]) {
    expect(await get(`/events?session=${no}`)).toMatchObject({ status: 400, body: { code: 'invalid_name' } });
  }
});

describe('readers with a large backlog', () => {
  const large = (seq: number): SessionEvent => ({
    session: 's',
    at: 0,
    seq,
    type: 'session.name',
    name: 'x'.repeat(9_000),
  });
  const clock = manualClock();

  /** Readers that begin at successive events; all these events are in memory. */
  async function* reading(from: number): AsyncGenerator<SessionEvent, undefined> {
    for (let seq = from; seq < from + 5; seq += 1) yield large(seq);
    return undefined;
  }

  test('X3: the reader that has not read for longest is cut off, and resumes after the last event it read whole', async () => {
    const budget = new ReaderBudget(20_000);
    const open = (from: number): { readonly read: () => Promise<string>; readonly isClosed: () => boolean } => {
      let isClosed = false;
      const parts = { encode: encoded, clock, budget, onError: () => undefined };
      const onClose = (): void => {
        isClosed = true;
      };
      const reader = eventStream({ events: reading(from), onClose, ...parts }).body.getReader();
      const read = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
      return { read, isClosed: () => isClosed };
    };
    const stalled = open(1);
    expect(await stalled.read()).toContain(': open');
    expect(await stalled.read()).toMatch(/^id: 1\n/);
    const others = [open(1), open(1)];
    for (const other of others) {
      await other.read();
      expect(await other.read()).toMatch(/^id: 1\n/);
    }
    expect([stalled.isClosed(), ...others.map((other) => other.isClosed())]).toEqual([true, true, false]);
    await expect(stalled.read()).rejects.toMatchObject({ code: 'limit' });
    expect(budget.held).toBeLessThan(20_000);
    const again = open(2);
    await again.read();
    expect(await again.read()).toMatch(/^id: 2\n/);
  });

  test('an event is encoded once for all readers of a mode, and held once', async () => {
    const encodings = new EncodedEvents();
    const event = large(1);
    const bytes = encodings.bytesOf(event, 'debug');
    expect(encodings.bytesOf(event, 'debug')).toBe(bytes);
    expect(encodings.bytesOf(event, 'basic')).not.toBe(bytes);
    const budget = new ReaderBudget(20_000);
    const readers = Array.from({ length: 10 }, () =>
      eventStream({
        events: reading(1),
        encode: () => bytes,
        clock,
        budget,
        onClose: () => undefined,
        onError: (error) => {
          throw error;
        },
      }).body.getReader(),
    );
    for (const reader of readers) {
      await reader.read();
      await reader.read();
    }
    expect(budget.held).toBe(bytes?.byteLength);
    for (const reader of readers) await reader.cancel();
    expect(budget.held).toBe(0);
  });

  test('the encoded bytes are bounded, and released on demand', () => {
    const encodings = new EncodedEvents(20_000);
    for (let seq = 1; seq <= 5; seq += 1) encodings.bytesOf(large(seq), 'debug');
    expect(encodings.held).toBeGreaterThan(9_000);
    expect(encodings.held).toBeLessThan(20_000);
    encodings.giveUp();
    expect(encodings.held).toBe(0);
  });
});
