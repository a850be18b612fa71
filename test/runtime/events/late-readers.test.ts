/**
 * Goal: a reader that begins while a model call streams gets the deltas of the call from the first one on, once, in their
 * place; readers that began before get no delta twice. Method: a model that streams the pieces that the test gives it, on
 * the host thread, behind a session thread and on a model thread.
 */
import { expect, test } from 'vitest';
import type { ModelDelta, ModelProvider, ModelResponse, Session, SessionEvent } from '../../../src/index.ts';
import { agent } from '../../../src/index.ts';
import { deferred, queue, runtimeKit } from '../../support/runtime-kit.ts';
import quick from '../fixtures/quick-provider.ts';

const kit = runtimeKit();

const usage = { input_tokens: 1, output_tokens: 1 };
const answered = (text: string): ModelResponse => ({
  content: [{ type: 'text', text }],
  stop_reason: 'end_turn',
  usage,
});

/** A call that the test lets stream and answer. */
interface StreamedCall {
  readonly say: (text: string, type?: ModelDelta['type']) => void;
  readonly answer: (text: string) => void;
}

function streamedModel() {
  const calls = queue<StreamedCall>();
  const provider: ModelProvider = {
    name: 'streamed',
    generate: (_request, { onDelta }) => {
      const { promise, resolve } = deferred<ModelResponse>();
      calls.put({
        say: (text, type = 'text') => onDelta({ type, text }),
        answer: (text) => resolve(answered(text)),
      });
      return promise;
    },
  };
  return { provider, calls };
}

/** Reads to the end; `until` resolves once the reader has this text. */
function reader(session: Session, events: AsyncIterable<SessionEvent>) {
  const read: SessionEvent[] = [];
  const arrivals = queue<string>();
  const text = (): string => read.map((event) => (event.type === 'text.delta' ? event.text : '')).join('');
  const thoughts = (): string => read.map((event) => (event.type === 'thinking.delta' ? event.text : '')).join('');
  const ended = (async () => {
    for await (const event of events) {
      read.push(event);
      arrivals.put(text());
    }
  })();
  return {
    session,
    read,
    text,
    thoughts,
    ended,
    async until(wanted: string): Promise<void> {
      while (text() !== wanted) await arrivals.take();
    },
  };
}

const PLACES = [
  ['on the host thread', { sessions: 0, models: 0 }],
  ['behind a session thread', { sessions: 1, models: 0 }],
] as const;

test.each(PLACES)(
  '%s: a reader that begins after the first pieces gets them, and no reader gets one twice',
  async (_name, threads) => {
    const { provider, calls } = streamedModel();
    const runtime = await kit.open({ provider, threads, agents: [agent({ name: 'a' })] });
    const session = runtime.session('s', 'a');
    const early = reader(session, session.events({ until: (event) => event.type === 'turn.finished' }));
    const receipt = await session.send('Hi');
    const call = await calls.take();
    call.say('Hmm.', 'thinking');
    call.say('one ');
    await early.until('one ');
    const late = reader(session, session.events({ until: receipt }));
    await late.until('one ');
    call.say('two ');
    await Promise.all([early.until('one two '), late.until('one two ')]);
    const last = reader(session, session.events({ until: receipt }));
    call.say('three');
    await last.until('one two three');
    call.answer('one two three');
    await Promise.all([early.ended, late.ended, last.ended]);
    for (const each of [early, late, last]) {
      expect([each.thoughts(), each.text()]).toEqual(['Hmm.', 'one two three']);
      const types = each.read.map(({ type }) => type);
      expect(types.indexOf('thinking.delta')).toBeGreaterThan(
        types.lastIndexOf('session.state', types.indexOf('text.delta')),
      );
      expect(types.lastIndexOf('text.delta')).toBeLessThan(types.lastIndexOf('message.created'));
    }
  },
);

test.each(PLACES)(
  '%s: the first reader of a call that nobody read gets what it has streamed',
  async (_name, threads) => {
    const { provider, calls } = streamedModel();
    const runtime = await kit.open({ provider, threads, agents: [agent({ name: 'a' })] });
    const session = runtime.session('s', 'a');
    const receipt = await session.send('Hi');
    const call = await calls.take();
    call.say('one ');
    call.say('two ');
    const first = reader(session, session.events({ until: receipt }));
    await first.until('one two ');
    // A message of another sender lies between the claim and the next pieces.
    await session.send('Also this');
    call.say('three');
    await first.until('one two three');
    const second = reader(session, session.events({ until: receipt }));
    await second.until('one two three');
    const places = second.read.map(({ type }) => type);
    expect(places.lastIndexOf('pending.created')).toBeLessThan(places.indexOf('text.delta'));
    call.answer('one two three');
    (await calls.take()).answer('done');
    await Promise.all([first.ended, second.ended]);
    expect([first.text(), second.text()]).toEqual(['one two three', 'one two three']);
  },
);

test('a reader of all sessions stays live: it gets no piece twice when a reader of a session begins', async () => {
  const { provider, calls } = streamedModel();
  const runtime = await kit.open({ provider, agents: [agent({ name: 'a' })] });
  const session = runtime.session('s', 'a');
  const all = reader(session, runtime.events());
  const receipt = await session.send('Hi');
  const call = await calls.take();
  call.say('one ');
  await all.until('one ');
  const late = reader(session, session.events({ until: receipt }));
  await late.until('one ');
  call.say('two');
  await Promise.all([all.until('one two'), late.until('one two')]);
  call.answer('one two');
  await late.ended;
  expect([all.text(), late.text()]).toEqual(['one two', 'one two']);
});

test('a model that begins at once: send, then events({ until }) has the whole text, on every kind of thread', async () => {
  const module = new URL('../fixtures/quick-provider.ts', import.meta.url);
  for (const open of [
    { provider: quick, threads: { sessions: 0, models: 0 } },
    { provider: quick, threads: { sessions: 1, models: 0 } },
    { provider: module, threads: { sessions: 1, models: 1 } },
  ]) {
    const runtime = await kit.open({ ...open, agents: [agent({ name: 'a' })] });
    for (let n = 0; n < 20; n += 1) {
      const session = runtime.session(`s${n}`, 'a');
      const receipt = await session.send('Hi');
      const read = reader(session, session.events({ until: receipt }));
      await read.until('one two');
      const channel = new BroadcastChannel(session.id);
      channel.postMessage('end');
      await read.ended;
      channel.close();
      expect(read.text()).toBe('one two');
    }
  }
});
