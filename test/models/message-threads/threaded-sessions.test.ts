/**
 * R62: with `settings.llm.threads` a session sends its new messages alone, and the model receives what it would receive
 * without. Every lost thread costs one whole request. Over the real client, against the strict fake.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, type OpenOptions, type Runtime, type Session, tool } from '../../../src/index.ts';
import type { ModelRequest, RequestMessage } from '../../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';
import {
  type StrictFake,
  type StrictFakeOptions,
  strictFake,
  type WireRequest,
} from '../../../src/testing/strict-fake.ts';
import { MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

/** A fake with the requests that its model received. */
interface Server {
  readonly fake: StrictFake;
  readonly seen: readonly ModelRequest[];
  readonly clock: ManualClock;
}

async function server(options: Partial<StrictFakeOptions> = {}): Promise<Server> {
  const seen: ModelRequest[] = [];
  const clock = manualClock();
  const script = (request: ModelRequest) => {
    seen.push(request);
    const last = JSON.stringify(request.messages.at(-1));
    if (last.includes('use it'))
      return { thinking: 'Hm.', text: 'I look.', toolUse: [{ id: `t${seen.length}`, name: 'look' }] };
    if (last.includes('pause')) return { content: [{ type: 'text', text: 'So' }], stop_reason: 'pause_turn' };
    return `answer to ${request.messages.length}`;
  };
  const fake = await strictFake({ script, clock, ...options });
  fakes.push(fake);
  return { fake, seen, clock };
}

const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
const AGENT = agent({ name: 'a', model: 'claude-opus-5-5', system: 'Be brief.', tools: [look] });

function openFor({ fake }: Server, options: OpenOptions & { readonly directory?: string } = {}): Promise<Runtime> {
  const provider = anthropic({ apiKey: 'test', baseURL: fake.url, listModels: false });
  return kit.open({ agents: [AGENT], settings: { llm: { threads: true } }, provider, ...options });
}

/** Asks, and returns how each request of the turn was sent. */
async function ask(session: Session, text: string): Promise<readonly string[]> {
  const { seq } = await session.state();
  const sent: string[] = [];
  const read = async (): Promise<void> => {
    for await (const event of session.events({ after: seq, until: ({ type }) => type === 'turn.finished' })) {
      if (event.type !== 'llm.thread') continue;
      expect(event.bytes).toBeGreaterThan(0);
      sent.push(event.code === undefined ? event.thread : `${event.thread} ${event.code}`);
    }
  };
  // The event is ephemeral, so the reader is there before the message.
  const reading = read();
  await session.ask(text);
  await reading;
  return sent;
}

/** A conversation with tools, thoughts, a pause, an edit and a sub-agent. */
async function talk(session: Session): Promise<void> {
  await session.ask('use it');
  await session.ask([{ type: 'text', text: 'more', cache_control: { type: 'ephemeral' } }]);
  await session.ask('pause');
  const [first] = await session.history.messages();
  await session.history.update({ id: first?.id ?? '' }, { content: 'use it well' });
  await session.ask('after the edit');
  const child = await session.spawn({ task: 'help' });
  await child.reply();
  await session.ask('after the child');
  await session.ask('the end');
}

/** The requests that a model received, in an order of their own. A text and the block that holds it are the same. */
function requestsOf({ seen }: Server): readonly string[] {
  const blocksOf = ({ role, content }: RequestMessage): RequestMessage => {
    return { role, content: typeof content === 'string' ? [{ type: 'text', text: content }] : content };
  };
  return seen.map(({ messages, ...rest }) => JSON.stringify({ ...rest, messages: messages.map(blocksOf) })).sort();
}

const marksOf = (body: WireRequest): number => JSON.stringify(body).split('"cache_control"').length - 1;

describe.each(MATRIX)('message threads, sessions: $sessions, models: $models', (threads) => {
  test('R62, A8: the model receives the same requests with threads and without', async () => {
    const [withThreads, without] = [await server(), await server()];
    const runtime = await openFor(withThreads, { threads });
    await talk(runtime.session('s'));
    await runtime.drain();
    const plain = await openFor(without, { threads, settings: {} });
    await talk(plain.session('s'));
    await plain.drain();
    expect(requestsOf(withThreads)).toEqual(requestsOf(without));
    expect(withThreads.fake.violations.filter(({ fatal }) => fatal)).toEqual([]);
    expect(runtime.metrics().threadsContinued).toBeGreaterThanOrEqual(4);
    expect(runtime.metrics().threadsReplayed).toBe(0);
    expect(plain.metrics().threadsContinued).toBe(0);
    expect(runtime.metrics().requestBytes).toBeLessThan(plain.metrics().requestBytes);
    for (const body of withThreads.fake.requests) {
      expect(body).toHaveProperty('thread');
      expect(marksOf(body)).toBeGreaterThanOrEqual(1);
      expect(marksOf(body)).toBeLessThanOrEqual(3);
    }
  });

  test('R62: a request that continues holds its new messages alone', async () => {
    const { fake, ...rest } = await server();
    const runtime = await openFor({ fake, ...rest }, { threads });
    const session = runtime.session('s');
    expect(await ask(session, 'use it')).toEqual(['created', 'continued']);
    expect(await ask(session, 'more')).toEqual(['continued']);
    const [created, afterTool, more] = fake.requests;
    expect(created).toMatchObject({ thread: { type: 'create' } });
    expect(created?.system).toBeDefined();
    expect(Object.keys(more ?? {}).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream', 'thread']);
    expect(afterTool?.messages).toMatchObject([
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1' }] },
    ]);
    expect(more?.messages).toMatchObject([{ role: 'user', content: [{ type: 'text', text: 'more' }] }]);
    expect(JSON.stringify((await session.request()).transport)).toBe('{"threads":true}');
  });

  test('R62: a thread that the API lost costs one whole request, and its session continues', async () => {
    const parts = await server();
    const runtime = await openFor(parts, { threads });
    const session = runtime.session('s');
    await session.ask('one');
    await parts.clock.advance(300_001);
    expect(await ask(session, 'two')).toEqual(['replayed thread_not_found']);
    expect(await ask(session, 'three')).toEqual(['continued']);
    expect(parts.fake.requests).toHaveLength(4);
    expect(runtime.metrics()).toMatchObject({ threadsContinued: 1, threadsReplayed: 1 });
  });

  test('R62, F24: after a failed call the next attempt is whole', async () => {
    const parts = await server({ faults: { at: { 1: 'disconnect' } } });
    const settings = { llm: { threads: true, retry: { base: 0.001 } } };
    const session = (await openFor(parts, { threads, settings })).session('s');
    await session.ask('one');
    expect(await ask(session, 'two')).toEqual(['created']);
    expect(parts.fake.requests.map(({ thread }) => thread)).toMatchObject([
      { type: 'create' },
      { type: 'continue' },
      { type: 'create' },
    ]);
  });

  test('R62: where the API keeps no threads, a session asks for one once', async () => {
    const parts = await server({ unthreadedModels: ['claude-opus-5-5'] });
    const session = (await openFor(parts, { threads })).session('s');
    expect(await ask(session, 'one')).toEqual(['refused thread_unsupported_request']);
    expect(await ask(session, 'two')).toEqual([]);
    expect(parts.fake.requests.map((body) => 'thread' in body)).toEqual([true, false, false]);
  });
});

test('R62, T3: a restart loses the threads, not the conversation', async () => {
  const parts = await server();
  const directory = await kit.directory();
  const before = await openFor(parts, { directory });
  await before.session('s').ask('one');
  await before.close();
  const after = await openFor(parts, { directory });
  expect(await ask(after.session('s'), 'two')).toEqual(['created']);
  expect(await ask(after.session('s'), 'three')).toEqual(['continued']);
});
