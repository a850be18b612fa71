// Goal: the endpoint's contract holds on one thread, over a message port, and over a real thread.
import { MessageChannel } from 'node:worker_threads';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { ENDPOINT_SLICE_MAX, ENDPOINT_SLICE_MS } from '../../src/base/bounds.ts';
import { CancelledError, ConfigError, TroupeError } from '../../src/base/errors.ts';
import { createEndpoint, createLocalEndpoints, type MessagePortLike } from '../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../src/threads/endpoint.ts';

function overPorts(): [Endpoint, Endpoint] {
  const { port1, port2 } = new MessageChannel();
  return [createEndpoint(port1), createEndpoint(port2)];
}
const open: Endpoint[] = [];
afterEach(() => {
  for (const endpoint of open.splice(0)) endpoint.close();
});

describe.each([
  ['in place', createLocalEndpoints],
  ['over ports', overPorts],
])('%s', (_name, make) => {
  function pair(): [Endpoint, Endpoint] {
    const [near, far] = make();
    open.push(near, far);
    far.handle('echo', (payload) => payload);
    far.handle('later', async (payload) => {
      await null;
      return payload;
    });
    far.handle('fail', () => {
      throw new ConfigError('refused', { data: { key: 'x' }, cause: new TypeError('below') });
    });
    far.handle('never', () => new Promise(() => undefined));
    return [near, far];
  }

  test('T1: a call resolves with its answer, sync or async, undefined too', async () => {
    const [near] = pair();
    expect(await near.call('echo', { a: [1] })).toEqual({ a: [1] });
    expect(await near.call('later', 2)).toBe(2);
    expect(await near.call('echo', undefined)).toBeUndefined();
  });

  test('T1: a call rejects with the remote error, class, code, data and cause kept', async () => {
    const error = await pair()[0]
      .call('fail', 0)
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ code: 'config', data: { key: 'x' } });
    expect((error as Error).cause).toBeInstanceOf(TypeError);
  });

  test('T1: a call without a handler is an error, a note without a handler is ignored', async () => {
    const [near] = pair();
    near.notify('nobody', 1);
    await expect(near.call('nobody', 1)).rejects.toThrow('no handler for "nobody"');
  });

  test('T1: both sides may call at once', async () => {
    const [near, far] = pair();
    near.handle('double', (payload) => Number(payload) * 2);
    const answers = await Promise.all([near.call('echo', 'n'), far.call('double', 4)]);
    expect(answers).toEqual(['n', 8]);
  });

  test('T2: notes and calls arrive in the order they were sent', async () => {
    const [near, far] = pair();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 50 }), async (kinds) => {
        const heard: number[] = [];
        far.handle('note', (payload) => void heard.push(payload as number));
        far.handle('ask', (payload) => void heard.push(payload as number));
        const sent = kinds.map((isNote, at) => (isNote ? near.notify('note', at) : near.call('ask', at)));
        await Promise.all(sent);
        await near.call('echo', 0);
        expect(heard).toEqual(kinds.map((_kind, at) => at));
      }),
      { numRuns: 50, verbose: 1 },
    );
  });

  test('T2: a note keeps its position while its batch waits to be sent, together with everything added meanwhile', async () => {
    const [near, far] = pair();
    const heard: unknown[] = [];
    far.handle('note', (payload) => void heard.push(payload));
    const outbox = ['told before'];
    near.notify('note', 'first');
    near.notifyLate('note', () => outbox);
    near.notify('note', 'last');
    outbox.push('told since');
    await near.call('echo', 0);
    expect(heard).toEqual(['first', ['told before', 'told since'], 'last']);
    near.notifyLate('note', () => 'of the next batch');
    await near.call('echo', 0);
    expect(heard.at(-1)).toBe('of the next batch');
  });

  test('T2: notes added before close still arrive, later ones are dropped', async () => {
    const [near, far] = pair();
    const heard: unknown[] = [];
    far.handle('note', (payload) => void heard.push(payload));
    const ended = new Promise<void>((resolve) => far.onClose(resolve));
    near.notifyLate('note', () => 'gathered');
    near.close();
    near.notifyLate('note', () => {
      throw new Error('asked for behind the end');
    });
    await ended;
    expect(heard).toEqual(['gathered']);
  });

  test('T2: more frames than one batch holds all arrive', async () => {
    const [near] = pair();
    const answers = await Promise.all(Array.from({ length: 10_000 }, (_unused, at) => near.call('echo', at)));
    expect(answers).toEqual(answers.map((_answer, at) => at));
  });

  test('T4: nothing is delivered synchronously', async () => {
    const [near, far] = pair();
    let heard = 0;
    far.handle('note', () => {
      heard += 1;
    });
    near.notify('note', 1);
    const call = near.call('echo', 1);
    expect(heard).toBe(0);
    await call;
    expect(heard).toBe(1);
  });

  test('T1: close rejects open and later calls with CancelledError; notes are ignored', async () => {
    const [near] = pair();
    const call = near.call('never', 1);
    near.close();
    near.close();
    near.notify('echo', 1);
    await expect(call).rejects.toBeInstanceOf(CancelledError);
    await expect(near.call('echo', 1)).rejects.toBeInstanceOf(CancelledError);
  });

  test('T1: messages sent before close still arrive, and the other side is notified of the close once', async () => {
    const [near, far] = pair();
    const heard: unknown[] = [];
    far.handle('note', (payload) => void heard.push(payload));
    const open = far.call('nobody answers any more', 1);
    let ends = 0;
    const ended = new Promise<void>((resolve) => {
      far.onClose(() => {
        ends += 1;
        resolve();
      });
    });
    near.notify('note', 'last words');
    near.close();
    const error = await open.catch((thrown: unknown) => thrown);
    await ended;
    expect(heard).toEqual(['last words']);
    expect(ends).toBe(1);
    expect(error).toBeInstanceOf(TroupeError);
    await expect(far.call('echo', 1)).rejects.toMatchObject({ code: 'internal', retryable: true });
    await new Promise<void>((resolve) => far.onClose(resolve));
  });
});

describe('a payload that cannot be cloned', () => {
  test('T3: fails its own call, answer or note, and no other of the batch', async () => {
    const [near, far] = overPorts();
    open.push(near, far);
    const heard: unknown[] = [];
    far.handle('echo', (payload) => payload);
    far.handle('function', () => () => 1);
    far.handle('note', (payload) => void heard.push(payload));
    near.notify('note', 1);
    near.notify('note', () => 1);
    near.notify('note', 2);
    const results = await Promise.allSettled([
      near.call('echo', 'before'),
      near.call('echo', () => 1),
      near.call('function', 0),
      near.call('echo', 'after'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
    expect(heard).toEqual([1, 2]);
  });
});

test('T5, T2: frames that come in many batches are delivered a slice a tick, in order, after a handler threw too', () => {
  const ticks: (() => void)[] = [];
  const listeners = new Map<string, (value: unknown) => void>();
  const port: MessagePortLike = {
    postMessage: () => undefined,
    on: (event, listener) => listeners.set(event, listener),
    off: (event) => listeners.delete(event),
  };
  const endpoint = createEndpoint(port, { soon: (run) => void ticks.push(run), clock: { monotonic: () => 0 } });
  open.push(endpoint);
  const seen: unknown[] = [];
  endpoint.handle('note', (payload) => {
    seen.push(payload);
    if (seen.length === ENDPOINT_SLICE_MAX) throw new Error('thrown by a handler');
  });
  const count = 2 * ENDPOINT_SLICE_MAX + 5;
  const NOTE = 3;
  for (let index = 0; index < count; index += 1) listeners.get('message')?.([NOTE, 0, 'note', index]);
  expect(seen).toHaveLength(ENDPOINT_SLICE_MAX);
  const errors: unknown[] = [];
  while (ticks.length > 0) {
    const before = seen.length;
    try {
      ticks.shift()?.();
    } catch (error) {
      errors.push(error);
    }
    expect(seen.length - before).toBeLessThanOrEqual(ENDPOINT_SLICE_MAX);
  }
  expect(seen).toEqual(Array.from({ length: count }, (_, index) => index));
  expect(errors).toHaveLength(1);
});

test('T5: a slice ends once its handlers have taken their time, and the rest follow in later ticks', () => {
  const ticks: (() => void)[] = [];
  let elapsedMs = 0;
  const clock = { monotonic: () => elapsedMs };
  const [near, far] = createLocalEndpoints({ soon: (run) => void ticks.push(run), clock });
  open.push(near, far);
  const seen: unknown[] = [];
  far.handle('note', (payload) => {
    seen.push(payload);
    elapsedMs += ENDPOINT_SLICE_MS / 4;
  });
  for (let index = 0; index < 10; index += 1) near.notify('note', index);
  const slices: number[] = [];
  while (ticks.length > 0) {
    const before = seen.length;
    ticks.shift()?.();
    if (seen.length > before) slices.push(seen.length - before);
  }
  expect(slices).toEqual([4, 4, 2]);
  expect(seen).toEqual(Array.from({ length: 10 }, (_, index) => index));
});

test('T4: hastened frames leave once the running callback has ended, and in their order', async () => {
  const ticks: (() => void)[] = [];
  const [near, far] = createLocalEndpoints({ soon: (run) => void ticks.push(run), clock: { monotonic: () => 0 } });
  open.push(near, far);
  const seen: unknown[] = [];
  far.handle('note', (payload) => void seen.push(payload));
  near.notify('note', 1);
  near.notify('note', 2);
  near.hasten();
  expect(seen).toEqual([]);
  await Promise.resolve();
  expect(seen).toEqual([1, 2]);
  near.notify('note', 3);
  for (const run of ticks.splice(0)) run();
  expect(seen).toEqual([1, 2, 3]);
});
