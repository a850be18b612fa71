/** Goal: a shard reaches the embedder's functions over its own endpoint, in order, and each failure is an answer. */
import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { ENDPOINT_BATCH_MAX } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { ConfigError } from '../../../src/base/errors.ts';
import { Lane } from '../../../src/base/lane.ts';
import type { ModelProvider, ModelRequest, ModelResponse } from '../../../src/models/provider.ts';
import { hostCalls, hostOver, hostProviders } from '../../../src/runtime/door/host-calls.ts';
import { type HostServer, type HostValues, serveHost } from '../../../src/runtime/host/host-services.ts';
import { createEndpoint } from '../../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../../src/threads/endpoint.ts';

const REQUEST: ModelRequest = { model: 'm', max_tokens: 1, messages: [] };
const RESPONSE: ModelResponse = {
  model: 'm',
  content: [{ type: 'text', text: 'ok' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
};

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

function served(values: Partial<HostValues>): { readonly services: HostServer; readonly far: Endpoint } {
  const { port1, port2 } = new MessageChannel();
  const near = createEndpoint(port1);
  const far = createEndpoint(port2);
  closers.push(() => near.close());
  const whole = { providers: new Map(), tools: new Map(), systems: new Map(), ...values };
  return { services: serveHost(near, whole, { clock: systemClock }), far };
}

test('a provider given by value: every delta arrives before the answer, also across several batches', async () => {
  const count = ENDPOINT_BATCH_MAX + 10;
  const provider: ModelProvider = {
    name: 'talkative',
    async generate(_request, { onDelta }) {
      for (let index = 0; index < count; index += 1) onDelta({ type: 'text', text: String(index) });
      return RESPONSE;
    },
  };
  const { far } = served({ providers: new Map([['own', provider]]) });
  const heard: string[] = [];
  const answer = await hostProviders(far)('own', 'talkative').generate(REQUEST, {
    session: 's',
    signal: new AbortController().signal,
    onDelta: ({ text }) => heard.push(text),
  });
  expect(answer).toEqual(RESPONSE);
  expect(heard).toEqual(Array.from({ length: count }, (_none, index) => String(index)));
});

test('each provider given by value has its calls; an unknown key is an error that names it', async () => {
  const named = (name: string): ModelProvider => ({
    name,
    generate: async () => ({ ...RESPONSE, model: name }),
  });
  const { far } = served({
    providers: new Map([
      ['one', named('a')],
      ['two', named('b')],
    ]),
  });
  const host = hostProviders(far);
  const context = { session: 's', signal: new AbortController().signal, onDelta: () => undefined };
  const answers = await Promise.all([
    host('two', 'b').generate(REQUEST, context),
    host('one', 'a').generate(REQUEST, context),
  ]);
  expect(answers.map(({ model }) => model)).toEqual(['b', 'a']);
  await expect(host('three', 'c').generate(REQUEST, context)).rejects.toThrow(
    'no provider was given by value as "three"',
  );
});

test('a cancelled call, and all calls of a shard that has died, are aborted', async () => {
  const reasons: unknown[] = [];
  let started = (): void => undefined;
  const provider: ModelProvider = {
    name: 'slow',
    generate: (_request, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push((signal.reason as Error).message);
          reject(signal.reason as Error);
        });
        started();
      }),
  };
  const { services, far } = served({ providers: new Map([['own', provider]]) });
  const slow = hostProviders(far)('own', 'slow');
  const begin = async (signal: AbortSignal): Promise<Promise<unknown>[]> => {
    const begun = new Promise<void>((resolve) => {
      started = resolve;
    });
    const call = slow.generate(REQUEST, { session: 's', signal, onDelta: () => undefined }).catch((error) => error);
    await begun;
    return [call];
  };
  const controller = new AbortController();
  const [first] = await begin(controller.signal);
  controller.abort();
  expect(await first).toMatchObject({ code: 'cancelled' });
  const [second] = await begin(new AbortController().signal);
  services.abandon();
  expect(await second).toMatchObject({ code: 'cancelled' });
  expect(reasons).toEqual(['the model call was cancelled', 'the session thread is gone']);
});

test('a system function that throws and a question without handler reject with an error naming them', async () => {
  const systems = new Map([
    ['main', () => 'be brief'],
    [
      'broken',
      () => {
        throw new Error('no such file');
      },
    ],
  ]);
  const { services, far } = served({ systems });
  for (const caller of [hostOver(far), services]) {
    const { evaluateSystem, lookUp } = hostCalls(caller);
    expect(await evaluateSystem('main', 's')).toBe('be brief');
    await expect(evaluateSystem('broken', 's')).rejects.toThrow(/the system function of agent "broken" threw: no such/);
    await expect(evaluateSystem('other', 's')).rejects.toThrow(ConfigError);
    await expect(lookUp({ about: 'skill', name: 'x' } as never)).rejects.toThrow('this runtime has no enrichers');
  }
});

test('one shard compacts at a time, in the order in which they asked; the end of a thread ends its turn', async () => {
  const compactions = new Lane(1);
  const shards = [0, 1, 2, 3].map(() => {
    const { services, far } = served({ compactions });
    return { services, far, ...hostCalls(hostOver(far)) };
  });
  const [first, second, third, fourth] = shards;
  const began: number[] = [];
  const asked = shards.map(async (shard, index) => {
    await shard.beginCompaction();
    began.push(index);
  });
  // The call of a shard that dies fails.
  const failed = asked[1]?.catch(() => 'failed');
  await asked[0];
  // An answer to a later request shows that no turn began before.
  await first?.eraseIndex([]);
  expect(began).toEqual([0]);
  // The second shard dies while it waits, and the third in its turn.
  second?.services.abandon();
  await first?.endCompaction();
  await asked[2];
  expect(began).toEqual([0, 2]);
  third?.services.abandon();
  await asked[3];
  expect(began).toEqual([0, 2, 3]);
  await fourth?.endCompaction();
  await first?.beginCompaction();
  second?.far.close();
  expect(await failed).toBe('failed');
});
