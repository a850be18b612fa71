/**
 * Goal: a program holds a session of a server as it would hold a local one. Method: a real server; between it and
 * the client a `fetch` that can lose requests and break streams.
 */
import { describe, expect, expectTypeOf, test, vi } from 'vitest';
import { z } from 'zod';
import { ClientError, createClient } from '../../src/client/index.ts';
import { agent, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { echo, serverKit } from '../server/support.ts';
import { eventually, failure, gatedModel } from '../support/runtime-kit.ts';

const kit = serverKit();

const city = z.object({ city: z.string(), people: z.number() });
const agents = [agent({ name: 'writer' }), agent({ name: 'clerk', output: city })];
type Agents = typeof agents;

test('the client knows the agents of the service, and the type of their answers', async () => {
  const script = {
    rules: [{ when: { text: 'Ulm' }, reply: '{"city":"Ulm","people":130000}' }],
    otherwise: 'to {{text}}',
  };
  const { url, runtime } = await kit.serve({ agents, provider: scripted(script) });
  const client = createClient<Agents>({ url });
  const writer = client.session('w', 'writer');
  const clerk = client.session('c', 'clerk');
  const answers = [await writer.ask('hello'), await clerk.ask('Where is Ulm?')] as const;
  expectTypeOf(answers[0]).toEqualTypeOf<string>();
  expectTypeOf(answers[1]).toEqualTypeOf<z.infer<typeof city>>();
  expect(answers).toEqual(['to hello', { city: 'Ulm', people: 130_000 }]);
  expect((await runtime.sessions.get('c'))?.agent).toBe('clerk');
  // @ts-expect-error the service has no such agent
  const unknown = client.session('x', 'nobody');
  expect(await failure(unknown.send('hi'))).toMatchObject({ name: 'ClientError', code: 'unknown_agent', status: 400 });
  expectTypeOf(createClient<{ readonly a: Agents[number] }>({ url }).session<'clerk'>)
    .parameter(1)
    .toEqualTypeOf<'clerk'>();
  expectTypeOf(await createClient({ url }).session('w').ask('hi')).toEqualTypeOf<string>();
});

test('every member does what the session does', async () => {
  const model = gatedModel();
  const mail = tool({
    name: 'mail',
    description: 'Sends.',
    input: z.object({ to: z.string() }),
    run: ({ to }) => `sent to ${to}`,
  });
  const { url } = await kit.serve({
    provider: model.provider,
    agents: [agent({ name: 'a', tools: [mail], approve: ['mail'] })],
  });
  const client = createClient({ url });
  const session = client.session('s');
  const receipt = await session.send('write', { key: 'k' });
  (await model.next()).answer({ toolUse: { name: 'mail', id: 'c1', input: { to: 'ada' } } });
  await eventually(async () => (await client.waiting()).waiting.length === 1);
  expect(await session.waiting()).toMatchObject([{ callId: 'c1', kind: 'approval', input: { to: 'ada' } }]);
  expect(await session.approve('c1', { allow: true, input: { to: 'bob' } })).toBe(true);
  (await model.next()).answer('Done.');
  expect(await receipt.answer()).toBe('Done.');
  expect(await receipt.status()).toEqual({ status: 'answered' });
  expect(await (await session.receipt(receipt.id)).answer()).toBe('Done.');
  expect((await session.send('write', { key: 'k' })).duplicate).toBe(true);
  expect((await session.messages()).map(({ type }) => type)).toEqual([
    'user_message',
    'tool_call',
    'tool_response',
    'agent_message',
  ]);
  expect((await session.messages({ after: 3 })).map(({ content }) => content)).toEqual(['Done.']);
  expect(await session.edit({ operation: 'popLast' })).toMatchObject({ content: 'Done.' });
  expect((await session.history()).at(-1)).toMatchObject({ role: 'tool', content: 'sent to bob' });
  await session.pause();
  const waiting = await session.send('later');
  expect(await session.state()).toMatchObject({ id: 's', phase: 'paused', mailbox: 1 });
  expect(await session.explain()).toMatchObject({ reason: 'paused' });
  expect(await session.pending()).toMatchObject([{ content: 'later' }]);
  expect(await session.recall(waiting.pendingId)).toBe(true);
  await session.resume();
  expect(await session.usage()).toEqual(await session.usage({ tree: true }));
  expect((await session.usage()).output_tokens).toBeGreaterThan(0);
  await session.setBudget(1_000_000);
  const { usage } = await session.state();
  const used = usage.input_tokens + usage.output_tokens;
  expect(await session.state()).toMatchObject({ budget: { tokens: 1_000_000, used } });
  await session.setBudget(null);
  expect(await session.state()).not.toHaveProperty('budget');
  expect(await session.interrupt('enough')).toBe(false);
  expect(await session.answer('none', 'x')).toBe(false);
  expect(await session.decline('none')).toBe(false);
  expect(await session.goals()).toEqual([]);
  const fork = await session.fork({ id: 'f' });
  expect((await fork.messages()).length).toBeGreaterThan(0);
  expect((await client.sessions({ parent: null })).sessions.map(({ id }) => id)).toEqual(['f', 's']);
  const filters = { status: ['idle', 'failed'], changedAfter: new Date(0), order: 'id' } as const;
  expect((await client.sessions({ ...filters, agent: 'none' })).sessions).toEqual([]);
  const first = await client.sessions({ ...filters, children: false, limit: 1 });
  expect(first.sessions).toMatchObject([{ id: 'f', status: 'idle' }]);
  expect((await client.sessions({ outcome: 'answered' })).sessions.map(({ id }) => id)).toEqual(['s']);
  expect((await client.sessions({ ...filters, after: first.next ?? '' })).sessions.map(({ id }) => id)).toEqual(['s']);
  expect((await client.sessions({ changedBefore: 1 })).sessions).toEqual([]);
  expect((await client.search('write', { session: 's' })).found.map(({ session: id }) => id)).toContain('s');
  await session.delete();
  expect(await failure(session.state())).toMatchObject({ code: 'unknown_session', status: 404, retryable: false });
});

describe('a connection that fails', () => {
  /** A `fetch` that fails while `isDown`, and whose streams `cut` ends. */
  function faulty(): {
    readonly fetch: typeof fetch;
    isDown: boolean;
    failures: number;
    asked: (string | null)[];
    cut(): void;
  } {
    const open = new Set<AbortController>();
    const state = {
      isDown: false,
      failures: 0,
      asked: [] as (string | null)[],
      fetch: async (url: string | URL | Request, init: RequestInit = {}) => {
        if (state.isDown) {
          state.failures += 1;
          throw new TypeError('fetch failed');
        }
        const headers = new Headers(init.headers);
        if (headers.get('accept') !== 'text/event-stream') return fetch(url, init);
        state.asked.push(headers.get('last-event-id'));
        const line = new AbortController();
        open.add(line);
        return fetch(url, { ...init, signal: AbortSignal.any([line.signal, ...(init.signal ? [init.signal] : [])]) });
      },
      cut: () => {
        for (const line of open) line.abort(new TypeError('terminated'));
        open.clear();
      },
    };
    return state;
  }

  test('a stream continues after the last event, without a gap or a duplicate', async () => {
    const { url, runtime } = await kit.serve({ provider: echo });
    const line = faulty();
    const session = createClient({ url, fetch: line.fetch }).session('s');
    await session.ask('one');
    const numbers: number[] = [];
    for await (const { seq, type } of session.events({ deltas: false })) {
      if (seq !== undefined) numbers.push(seq);
      if (type === 'turn.finished' && line.asked.length === 1) {
        line.cut();
        line.isDown = true;
        await runtime.session('s').ask('two');
        void eventually(() => Promise.resolve(line.failures > 0)).then(() => {
          line.isDown = false;
        });
      } else if (type === 'turn.finished') break;
    }
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(numbers).toHaveLength((await session.state()).seq);
    expect(line.asked).toEqual(['0', expect.stringMatching(/^[1-9]/)]);
  });

  test('a stream that is refused for now is asked for again when the server says', async () => {
    let asked = 0;
    const refusing: typeof fetch = () => {
      asked += 1;
      const problem = { status: 503, code: 'limit', detail: 'too many streams' };
      const headers = { 'content-type': 'application/problem+json', 'retry-after': '20' };
      return Promise.resolve(new Response(JSON.stringify(problem), { status: 503, headers }));
    };
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const ending = new AbortController();
    try {
      const events = createClient({ url: 'http://localhost:1', fetch: refusing }).session('s');
      const first = events.events({ after: 0, signal: ending.signal }).next();
      const ended = expect(first).rejects.toThrow('enough');
      await vi.advanceTimersByTimeAsync(19_000);
      expect(asked).toBe(1);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(asked).toBe(2);
      ending.abort(new Error('enough'));
      await ended;
    } finally {
      vi.useRealTimers();
    }
  });

  test('reads are repeated, a message is sent once', async () => {
    const { url } = await kit.serve({ provider: echo });
    const line = faulty();
    const session = createClient({ url, fetch: line.fetch }).session('s');
    const receipt = await session.send('one');
    line.isDown = true;
    const answer = receipt.answer();
    await eventually(() => Promise.resolve(line.failures > 0));
    const before = line.failures;
    expect(await failure(session.send('two'))).toMatchObject({ code: 'unreachable', status: 0, retryable: true });
    expect(line.failures).toBe(before + 1);
    line.isDown = false;
    expect(await answer).toBe('to one');
  });

  test('a signal ends a request, a wait between attempts and a stream, with its reason', async () => {
    const model = gatedModel();
    const { url } = await kit.serve({ provider: model.provider });
    const line = faulty();
    const session = createClient({ url, fetch: line.fetch }).session('s');
    const receipt = await session.send('one');
    const reason = new Error('enough');
    const ending = new AbortController();
    const { signal } = ending;
    const events = session.events({ after: (await session.state()).seq, deltas: false, signal });
    const ends = [
      receipt.answer({ signal }),
      events
        .next()
        .then(() => events.next())
        .then(() => events.next()),
    ];
    const outcomes = Promise.allSettled(ends);
    await model.next();
    ending.abort(reason);
    expect(await outcomes).toEqual(ends.map(() => ({ status: 'rejected', reason })));
    line.isDown = true;
    const other = new AbortController();
    const waiting = session.state({ signal: other.signal });
    await eventually(() => Promise.resolve(line.failures > 0));
    other.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(session.state({ signal })).rejects.toBe(reason);
  });
});

test('a refusal is an error with the code of its problem; something else is not a troupe server', async () => {
  const { url } = await kit.serve({ provider: echo }, { token: 'secret' });
  const refused = await failure(createClient({ url, token: 'wrong' }).sessions());
  expect(refused).toBeInstanceOf(ClientError);
  expect(refused).toMatchObject({ code: 'unauthorized', status: 401 });
  const stream = createClient({ url }).session('s').events();
  expect(await failure(stream.next())).toMatchObject({ code: 'unauthorized' });
  let asked = 0;
  const token = (): string => {
    asked += 1;
    return 'secret';
  };
  const client = createClient({ url: `${url}/`, token });
  expect(await client.session('s').ask('hi')).toBe('to hi');
  expect(asked).toBe(2);
  const page = createClient({ url, fetch: () => Promise.resolve(new Response('<html>')) });
  expect(await failure(page.sessions())).toMatchObject({ code: 'protocol', status: 200 });
  const error = createClient({ url, fetch: () => Promise.resolve(new Response('no', { status: 404 })) });
  expect(await failure(error.sessions())).toMatchObject({ code: 'protocol', status: 404 });
});

test('an answer that does not fit its schema has the issues', async () => {
  const { url } = await kit.serve({ agents, provider: scripted({ rules: [], otherwise: '{"city":1}' }) });
  const error = await failure(createClient<Agents>({ url }).session('c', 'clerk').ask('Where?'));
  expect(error).toMatchObject({ code: 'answer_invalid', issues: expect.arrayContaining([expect.anything()]) });
});

test('all sessions can be followed', async () => {
  const { url, runtime } = await kit.serve({ provider: echo });
  const client = createClient({ url });
  const ending = new AbortController();
  const events = client.events({ deltas: false, signal: ending.signal });
  let isSeen = false;
  const first = events.next().finally(() => {
    isSeen = true;
  });
  // The stream may begin after a message: it has only what happens from then on.
  await eventually(async () => {
    await runtime.session('s').ask('hi');
    return isSeen;
  });
  expect((await first).value).toMatchObject({ session: 's' });
  await events.return(undefined);
});
