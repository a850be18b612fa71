import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { SUBSCRIBER_EVENTS_MAX } from '../../../src/base/bounds.ts';
import { agent, type Session, type SessionEvent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import {
  collect,
  deferred,
  failure,
  gatedModel,
  history,
  MATRIX,
  runtimeKit,
  types,
} from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const isEnd = (event: SessionEvent): boolean => event.type === 'turn.finished';
const numbers = (events: readonly SessionEvent[]): readonly number[] =>
  events.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));
const upTo = (last: number): readonly number[] => Array.from({ length: last }, (_, index) => index + 1);

describe.each(MATRIX)('events, sessions: $sessions, models: $models', (threads) => {
  test('F008, F021, F022: the order of live events in a turn', async () => {
    const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), run: () => 'noted' });
    const agents = [agent({ name: 'a', tools: [note] })];
    const script = [{ text: 'Noting.', toolUse: { name: 'note', id: 'c1' } }, 'Done.'];
    const runtime = await kit.open({ threads, agents, provider: scripted(script) });
    const session = runtime.session('s');
    const events = collect(session.events({ until: isEnd, deltas: false }));
    await session.ask('Hi');
    const told = await events;
    expect(types(told)).toEqual([
      'pending.created',
      'session.state',
      'pending.removed',
      'message.created',
      'message.created',
      'message.created',
      'session.state',
      'tool.started',
      'pending.created',
      'tool.finished',
      'session.state',
      'pending.removed',
      'message.created',
      'message.created',
      'session.state',
      'turn.finished',
    ]);
    expect(told.flatMap((event) => (event.type === 'session.state' ? [event.state] : []))).toEqual([
      'awaiting',
      'executing',
      'awaiting',
      'idle',
    ]);
    expect(told[0]).toMatchObject({ session: 's', seq: 1, pending: { id: 1, type: 'user_message', content: 'Hi' } });
    expect(told[2]).toMatchObject({ pendingId: 1, reason: 'promoted' });
    expect(told[9]).toMatchObject({ toolUseId: 'c1', toolName: 'note', success: true });
    expect(told.at(-1)).toMatchObject({
      turn: 'turn-1',
      reason: 'end_turn',
      usage: { output_tokens: expect.any(Number) },
    });
    expect(numbers(told)).toEqual(upTo(16));
    expect(await history(session)).toEqual(told);
  });

  test('a replay after a restart gives the same events as live reading', async () => {
    const directory = await kit.directory();
    const first = await kit.open({ threads, directory, provider: echo });
    const live = collect(first.session('s').events({ deltas: false }));
    await first.session('s').ask('a');
    const child = await first.session('s').spawn({ task: 'Help', replies: 'handle' });
    await child.exit();
    await first.session('s').ask('b');
    await first.close();
    const told = (await live).filter(({ seq }) => seq !== undefined);
    expect(numbers(told)).toEqual(upTo(told.length));
    const second = await kit.open({ threads, directory, provider: echo });
    expect(await history(second.session('s'))).toEqual(told);
  });

  test('deltas are published between claim and message, join to its text, and can be left out', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['one two three', 'four']) });
    const session = runtime.session('s');
    const withDeltas = collect(session.events({ until: isEnd }));
    const without = collect(session.events({ until: isEnd, deltas: false }));
    await session.ask('Count');
    const told = await withDeltas;
    const text = told.flatMap((event) => (event.type === 'text.delta' ? [event.text] : [])).join('');
    expect(text).toBe('one two three');
    const first = told.findIndex(({ type }) => type === 'text.delta');
    const claim = told.findIndex((event) => event.type === 'session.state' && event.state === 'awaiting');
    const answer = told.findIndex(
      (event) => event.type === 'message.created' && event.message.type === 'agent_message',
    );
    expect(claim).toBeLessThan(first);
    expect(first).toBeLessThan(answer);
    expect(types(await without)).not.toContain('text.delta');
  });

  test('a reader that starts in the middle of a call gets the deltas that follow', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    await session.send('Hi');
    const call = await model.next();
    let text = '';
    for await (const event of session.events({ until: isEnd })) {
      if (event.type === 'message.created' && event.message.type === 'user_message') await session.send('More');
      // The next event is published live, so the reader has caught up, and the position of a delta is known.
      if (event.type === 'pending.created' && event.pending.id === 2) call.answer('Hello there.');
      if (event.type === 'text.delta') text += event.text;
    }
    expect(text).toBe('Hello there.');
  });

  test('thinking deltas are separate from text deltas', async () => {
    const agents = [agent({ name: 'a', thinking: { type: 'adaptive' } })];
    const script = [{ thinking: 'Let me see.', text: 'Yes.' }];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    const events = collect(session.events({ until: isEnd }));
    await session.ask('Really?');
    const deltas = (await events).flatMap((event) => (event.type === 'thinking.delta' ? [event.text] : []));
    expect(deltas.join('')).toBe('Let me see.');
  });

  test('until a receipt: from its acceptance to the end of its turn', async () => {
    const session = (await kit.open({ threads, provider: echo })).session('s');
    await session.ask('before');
    const receipt = await session.send('this');
    const told = await collect(session.events({ until: receipt, deltas: false }));
    expect(told[0]).toMatchObject({ type: 'pending.created', seq: receipt.seq, pending: { content: 'this' } });
    expect(told.at(-1)).toMatchObject({ type: 'turn.finished', turn: 'turn-2' });
    expect(told.filter(isEnd).length).toBe(1);
  });

  test('until a receipt that is recalled: to the removal of its message', async () => {
    const model = gatedModel();
    const session = (await kit.open({ threads, provider: model.provider })).session('s');
    await session.send('runs');
    await model.next();
    const receipt = await session.send('waits');
    const events = collect(session.events({ until: receipt }));
    await session.recall(receipt.pendingId);
    expect((await events).at(-1)).toMatchObject({ type: 'pending.removed', reason: 'recalled' });
  });

  test('break unsubscribes: no more events arrive, and a second reader continues', async () => {
    const session = (await kit.open({ threads, provider: echo })).session('s');
    const other = collect(
      session.events({ until: (event) => event.type === 'turn.finished' && event.turn === 'turn-2' }),
    );
    await session.ask('a');
    let read = 0;
    for await (const event of session.events()) {
      read += 1;
      if (event.type === 'session.state') break;
    }
    await session.ask('b');
    expect(read).toBe(2);
    expect((await other).filter(isEnd).length).toBe(2);
  });

  test('a signal ends the iteration without an error', async () => {
    const session = (await kit.open({ threads, provider: echo })).session('s');
    await session.ask('a');
    const controller = new AbortController();
    const seen: SessionEvent[] = [];
    for await (const event of session.events({ signal: controller.signal })) {
      seen.push(event);
      controller.abort();
    }
    expect(seen.length).toBe(1);
    expect(await collect(session.events({ signal: AbortSignal.abort() }))).toEqual([]);
  });

  test('F143: events of one session never reach the reader of another; the runtime events cover all sessions', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const all: SessionEvent[] = [];
    const reading = (async () => {
      for await (const event of runtime.events({ filter: ({ seq }) => seq !== undefined })) {
        all.push(event);
        if (all.filter(isEnd).length === 2) break;
      }
    })();
    const mine = collect(runtime.session('one').events({ until: isEnd }));
    await runtime.session('one').state();
    await Promise.all([runtime.session('one').ask('a'), runtime.session('two').ask('b')]);
    await reading;
    expect(new Set((await mine).map(({ session }) => session))).toEqual(new Set(['one']));
    expect(new Set(all.map(({ session }) => session))).toEqual(new Set(['one', 'two']));
    for (const id of ['one', 'two']) {
      const own = numbers(all.filter(({ session }) => session === id));
      expect(own).toEqual(upTo(own.length));
    }
  });

  test('progress of a tool is published to readers', async () => {
    const isSeen = deferred();
    const steps = tool({
      name: 'steps',
      description: 'Tells its steps.',
      input: z.object({}),
      run: async (_input, { progress }) => {
        progress({ step: 1 });
        await isSeen.promise;
      },
    });
    const agents = [agent({ name: 'a', tools: [steps] })];
    const script = [{ toolUse: { name: 'steps', id: 'c1' } }, 'Done.'];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    const events = collect(session.events({ until: ({ type }) => type === 'tool.progress' }));
    const receipt = await session.send('Go');
    expect((await events).at(-1)).toMatchObject({ toolUseId: 'c1', data: { step: 1 } });
    isSeen.resolve();
    await receipt.answer();
  });

  test('the readers of a session end when it is deleted', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const session = runtime.session('s');
    await session.ask('a');
    const child = await session.spawn({ task: 'Help' });
    await child.exit();
    const readers = [collect(session.events({ deltas: false })), collect(child.events({ deltas: false }))];
    await session.delete();
    for (const reader of readers) expect(Array.isArray(await reader)).toBe(true);
  });

  test('closing ends the readers after the published events; reading a closed runtime fails', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const session = runtime.session('s');
    await session.ask('a');
    const reader = collect(session.events({ deltas: false }));
    await session.state();
    await runtime.close();
    expect(types(await reader)).toContain('turn.finished');
    expect((await failure(collect(session.events()))).name).toBe('CancelledError');
  });

  test('a parent publishes its children: spawned, their states, and exited', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const session = runtime.session('s');
    const until = (event: SessionEvent): boolean => event.type === 'child.state' && event.state === 'idle';
    const events = collect(session.events({ until, deltas: false }));
    await session.state();
    await (await session.spawn({ task: 'Help', name: 'helper', replies: 'handle' })).exit();
    const told = await events;
    expect(told.find(({ type }) => type === 'child.spawned')).toMatchObject({ child: 's:1', name: 'helper' });
    expect(told.find(({ type }) => type === 'children.updated')).toMatchObject({
      children: [{ id: 's:1', name: 'helper', state: 'awaiting' }],
    });
    expect(told.flatMap((event) => (event.type === 'child.state' ? [event.state] : []))).toEqual(['awaiting', 'idle']);
    expect(told.find(({ type }) => type === 'child.exited')).toMatchObject({
      child: 's:1',
      name: 'helper',
      reason: 'completed',
    });
  });
});

test('any reader, starting at any time and number, reads each durable event once, in order', async () => {
  const runtime = await kit.open({ provider: echo });
  let run = 0;
  const reader = fc.record({ begins: fc.integer({ min: 0, max: 5 }), after: fc.integer({ min: 0, max: 6 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(reader, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 5 }),
      async (readers, turns) => {
        run += 1;
        const session = runtime.session(`s${run}`);
        const last = `turn-${turns}`;
        const until = (event: SessionEvent): boolean => event.type === 'turn.finished' && event.turn === last;
        const reading: Promise<readonly SessionEvent[]>[] = [];
        for (let turn = 0; turn < turns; turn += 1) {
          const receipt = await session.send(`m${turn}`, { deliver: 'turn' });
          for (const { begins, after } of readers) {
            if (begins === turn) reading.push(collect(session.events({ after, until, deltas: false })));
          }
          if (turn % 2 === 0) await receipt.answer();
        }
        await runtime.drain();
        const { seq } = await session.state();
        for (const told of await Promise.all(reading)) {
          const [first = seq + 1] = numbers(told);
          expect(numbers(told)).toEqual(upTo(seq).slice(first - 1));
          expect(types(told)).not.toContain('gap');
        }
      },
    ),
    { numRuns: 30, verbose: 1 },
  );
});

test('until a number: the iteration ends after its event', async () => {
  const session = (await kit.open({ provider: echo })).session('s');
  await session.ask('a');
  expect(numbers(await collect(session.events({ until: 3, deltas: false })))).toEqual([1, 2, 3]);
  expect(numbers(await collect(session.events({ after: 2, until: 4, deltas: false })))).toEqual([3, 4]);
});

test('a long log is replayed page by page', async () => {
  const session = (await kit.open({ provider: echo })).session('s');
  for (let n = 0; n < 60; n += 1) await session.ask(`m${n}`);
  const { seq } = await session.state();
  expect(seq).toBeGreaterThan(256);
  expect(numbers(await history(session))).toEqual(upTo(seq));
});

test('F64: a reader that is too slow receives a gap, and reads the missed events from the log', async () => {
  const messages = SUBSCRIBER_EVENTS_MAX + 100;
  const runtime = await kit.open({ provider: echo, limits: { mailbox: messages } });
  const session = runtime.session('s');
  const events = session.events({ deltas: false });
  await session.ask('first');
  const first = await events.next();
  expect(first.value).toMatchObject({ seq: 1 });
  await flood(session, messages);
  const { seq } = await session.state();
  expect(seq).toBeGreaterThan(SUBSCRIBER_EVENTS_MAX);
  const read: SessionEvent[] = [];
  for await (const event of events) {
    read.push(event);
    if (event.seq === seq) break;
  }
  expect(types(read)).toContain('gap');
  expect(numbers(read)).toEqual(upTo(seq).slice(1));
});

/** A paused session publishes an event for each message that it accepts, and needs no turn for it. */
async function flood(session: Session, count: number): Promise<void> {
  await session.pause();
  await Promise.all(Array.from({ length: count }, (_, n) => session.send(`m${n}`)));
}
