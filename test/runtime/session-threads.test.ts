import { threadId } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { SHARD_RESTARTS } from '../../src/base/bounds.ts';
import { agent, type ModelProvider, type Receipt, tool } from '../../src/index.ts';
import { killSessionThread } from '../../src/runtime/handles/runtime.ts';
import { postMessage } from '../../src/runtime/handles/session.ts';
import { scripted } from '../../src/testing/scripted.ts';
import {
  collect,
  deferred,
  eventually,
  failure,
  gatedModel,
  history,
  log,
  queue,
  runtimeKit,
} from '../support/runtime-kit.ts';

const kit = runtimeKit();
/** The model calls run on the session thread. */
const threads = { sessions: 1, models: 0 };
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const toolsUrl = new URL('fixtures/tools.ts', import.meta.url);

describe('a session thread that dies', () => {
  test('L1: is replaced; its sessions continue, and earlier receipts still resolve', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: model.provider });
    const session = runtime.session('s');
    const receipt = await session.send('Hi');
    const lost = await model.next();
    await session.state();
    const answer = receipt.answer();
    await killSessionThread(runtime, 0);
    const again = await model.next();
    expect(JSON.stringify(again.request)).toBe(JSON.stringify(lost.request));
    lost.answer('from the dead');
    again.answer('Still here.');
    expect(await answer).toBe('Still here.');
    expect(await log(session)).toEqual(['user_message:Hi', 'agent_message:Still here.']);
    expect(runtime.metrics().restarts).toBe(1);
  });

  test('L1: sends with a key that are in flight are repeated, and accepted once each', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const session = runtime.session('s');
    await session.ask('warm');
    const sends = Array.from({ length: 20 }, (_, n) => session.send(`m${n}`, { key: `k${n}` }));
    await killSessionThread(runtime, 0);
    const receipts = await Promise.all(sends);
    await Promise.all(receipts.map((receipt) => receipt.answer()));
    const texts = (await log(session)).filter((line) => line.startsWith('user_message:m'));
    expect(texts.sort()).toEqual(Array.from({ length: 20 }, (_, n) => `user_message:m${n}`).sort());
  });

  test('L1, L2: messages posted as bytes are sent again if they have a key', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const session = runtime.session('s');
    await session.ask('warm');
    const post = (message: object): Promise<Receipt> =>
      postMessage(session, new TextEncoder().encode(JSON.stringify(message)));
    const keyed = Array.from({ length: 5 }, (_, n) => post({ content: `m${n}`, key: `k${n}` }));
    const unkeyed = failure(post({ content: 'lost' }));
    await killSessionThread(runtime, 0);
    const receipts = await Promise.all(keyed);
    expect(await unkeyed).toMatchObject({ code: 'internal', retryable: true });
    await Promise.all(receipts.map((receipt) => receipt.answer()));
    const texts = (await log(session)).filter((line) => line.startsWith('user_message:m'));
    expect(texts.sort()).toEqual(Array.from({ length: 5 }, (_, n) => `user_message:m${n}`));
  });

  test('L2: a request in flight without a key rejects, retryable', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const session = runtime.session('s');
    await session.ask('warm');
    const killed = killSessionThread(runtime, 0);
    const sent = await failure(session.send('lost'));
    await killed;
    expect(sent).toMatchObject({ code: 'internal', retryable: true });
    expect(sent.message).toContain('key');
    expect(await session.ask('now')).toBe('to now');
  });

  test('R1: waiting callers are answered by the thread that takes over', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: model.provider });
    const session = runtime.session('s');
    const answer = session.ask('Hi');
    await model.next();
    // This read shows durable data: the acceptance of the message is durable with it.
    expect((await session.state()).state).toBe('awaiting');
    await killSessionThread(runtime, 0);
    (await model.next()).answer('still here');
    expect(await answer).toBe('still here');
  });

  test('R1: a repeated request with a key gets the earlier answer', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const session = runtime.session('s');
    expect(await session.ask('Hi', { key: 'k' })).toBe('to Hi');
    expect(await session.ask('Hi', { key: 'k' })).toBe('to Hi');
    expect(await log(session)).toEqual(['user_message:Hi', 'agent_message:to Hi']);
  });

  test('L3: a thread that dies again and again is given up, and every call says so', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const reader = failure(collect(runtime.session('s').events()));
    for (let death = 0; death <= SHARD_RESTARTS.intensity; death += 1) {
      await runtime.session('s').state();
      await killSessionThread(runtime, 0);
    }
    expect(await failure(runtime.session('s').send('Hi'))).toMatchObject({ code: 'internal' });
    expect((await reader).message).toContain('died');
    expect(runtime.metrics().degraded).toContain('died');
    await runtime.close();
  });

  test('a thread that held a store in memory is not replaced, and every call rejects', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const receipt = await runtime.session('s').send('Hi');
    await receipt.answer();
    await killSessionThread(runtime, 0);
    const error = await failure(receipt.status());
    expect(error.message).toContain('memory');
    await runtime.close();
  });

  test('readers of events continue without gap or duplicate, also for events the dead thread never sent', async () => {
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const session = runtime.session('s');
    const last = 'turn-6';
    const until = (event: { readonly type: string; readonly turn?: string }): boolean =>
      event.type === 'turn.finished' && event.turn === last;
    const reading = collect(session.events({ until: (event) => until(event as never), deltas: false }));
    const other = collect(session.events({ until: 3, deltas: false }));
    for (let n = 0; n < 6; n += 1) {
      const receipt = await session.send(`m${n}`, { key: `k${n}`, deliver: 'turn' });
      if (n % 2 === 1) await killSessionThread(runtime, 0);
      await receipt.answer();
    }
    const told = (await reading).filter(({ seq }) => seq !== undefined);
    expect(told.map(({ seq }) => seq)).toEqual(told.map((_, index) => index + 1));
    expect(told).toEqual(await history(session));
    expect((await other).length).toBe(3);
  });

  test('calls of the dead thread on the host are aborted', async () => {
    const signals = queue<AbortSignal>();
    const hang = tool({
      name: 'hang',
      description: 'Hangs.',
      input: z.object({}),
      effect: 'pure',
      run: (_input, { signal }) => {
        signals.put(signal);
        return new Promise(() => undefined);
      },
    });
    const agents = [agent({ name: 'a', tools: [hang] })];
    const provider = scripted([{ toolUse: { name: 'hang' } }, 'no']);
    const runtime = await kit.open({ directory: await kit.directory(), threads, agents, provider });
    await runtime.session('s').send('Go');
    const first = await signals.take();
    await killSessionThread(runtime, 0);
    expect((await signals.take()).aborted).toBe(false);
    expect(first.aborted).toBe(true);
  });
});

describe('tool threads', () => {
  const script = (name: string) => scripted([{ toolUse: { name, id: 'c1' } }, 'Over.']);

  test('a tool given by URL runs in a tool thread, a tool given by value on the host', async () => {
    const here = tool({ name: 'here', description: 'Here.', input: z.object({}), run: () => `thread ${threadId}` });
    const agents = [agent({ name: 'a', tools: [toolsUrl, here] })];
    const provider = scripted([{ toolUse: [{ name: 'where' }, { name: 'here' }] }, 'Over.']);
    const runtime = await kit.open({ threads, agents, provider });
    await runtime.session('s').ask('Go');
    const responses = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_response');
    const host = responses.find(({ toolName }) => toolName === 'here');
    const there = responses.find(({ toolName }) => toolName === 'where');
    expect(host?.content).toBe(`thread ${threadId}`);
    expect(there?.content).toMatch(/^thread \d+$/u);
    expect(there?.content).not.toBe(host?.content);
  });

  test('F062, F52: a tool that spins is killed at its deadline and answered, while other sessions continue', async () => {
    const agents = [agent({ name: 'spinner', tools: [toolsUrl] }), agent({ name: 'other' })];
    const runtime = await kit.open({
      threads: { sessions: 0, models: 0, tools: 1 },
      agents,
      provider: scripted({
        rules: [
          { when: { text: 'spin', result: false, call: 0 }, reply: { toolUse: { name: 'spin', id: 'c1' } } },
          { when: { result: 'timed out' }, reply: 'Too slow.' },
        ],
        otherwise: 'fine',
      }),
    });
    const spinning = await runtime.session('s', 'spinner').send('spin');
    expect(await runtime.session('t', 'other').ask('Hi')).toBe('fine');
    expect(await spinning.answer()).toBe('Too slow.');
    expect((await runtime.session('s').messages())[2]).toMatchObject({ type: 'tool_response', success: false });
    expect(await runtime.session('u', 'spinner').ask('Hi')).toBe('fine');
  });

  test('F50: a tool that ends its thread is answered, and the next call has a new one', async () => {
    const agents = [agent({ name: 'a', tools: [toolsUrl] })];
    const runtime = await kit.open({ agents, provider: script('leave') });
    expect(await runtime.session('s').ask('Go')).toBe('Over.');
    const response = (await runtime.session('s').messages()).find(({ type }) => type === 'tool_response');
    expect(response).toMatchObject({ success: false, content: expect.stringContaining('tool worker died') });
    await runtime.session('t').ask('Go');
  });
});

describe('providers', () => {
  const threads = { sessions: 1, models: 1 };

  test('a provider given by URL runs in the model threads; its errors keep class, code and data', async () => {
    const provider = new URL('fixtures/provider.ts', import.meta.url);
    const runtime = await kit.open({ threads, provider });
    expect(await runtime.session('s').ask('Hi')).toMatch(/^thread \d+$/u);
    expect(await runtime.session('s').ask('Hi')).not.toBe(`thread ${threadId}`);
    const error = await failure(runtime.session('s').ask('fail'));
    expect(error.name).toBe('TurnFailedError');
    expect(error.cause).toMatchObject({
      name: 'ModelInvalidRequestError',
      code: 'model_invalid_request',
      status: 422,
      data: { hint: 'ask for something else' },
    });
  });

  test('a URL without a provider rejects at open with ConfigError naming it', async () => {
    const error = await failure(kit.open({ threads, provider: toolsUrl }));
    expect(error).toMatchObject({ name: 'ConfigError', code: 'config' });
    expect(error.message).toContain('tools.ts');
  });

  test('a provider given by value always runs on the host; its deltas arrive, its signal is aborted', async () => {
    const isWaiting = deferred<AbortSignal>();
    const provider: ModelProvider = {
      name: 'mine',
      generate: async (request, { onDelta, signal, session }) => {
        if (request.messages.length > 1) {
          isWaiting.resolve(signal);
          return new Promise(() => undefined);
        }
        onDelta({ type: 'text', text: 'piece' });
        return {
          content: [{ type: 'text', text: `thread ${threadId} for ${session}` }],
          stop_reason: 'end_turn',
          usage: { input_tokens: 1, output_tokens: 1 },
        };
      },
    };
    const runtime = await kit.open({ threads, provider });
    const session = runtime.session('s');
    expect(await session.ask('Hi')).toBe(`thread ${threadId} for s`);
    await session.send('wait');
    const signal = await isWaiting.promise;
    await session.interrupt();
    await eventually(() => signal.aborted);
    expect((await session.state()).state).toBe('idle');
  });

  test('an invalid answer of a provider given by value fails its turn at once, and the next turn is not affected', async () => {
    const good = {
      content: [{ type: 'text', text: 'Sense.' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    const answers: unknown[] = [null, { content: 'no blocks' }, good];
    const provider = { name: 'odd', generate: async () => answers.shift() } as unknown as ModelProvider;
    const session = (await kit.open({ provider })).session('s');
    const broken = { cause: { code: 'model_protocol', retryable: false } };
    await expect(session.ask('Hi')).rejects.toMatchObject(broken);
    await expect(session.ask('Hi')).rejects.toMatchObject(broken);
    expect(await session.ask('Hi')).toBe('Sense.');
  });
});
