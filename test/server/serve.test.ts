/** Goal: a server closes in order: no more connections, streams ended, running requests answered up to the deadline. */

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { LimitError } from '../../src/index.ts';
import { nodeListener } from '../../src/server/index.ts';
import { manualClock } from '../../src/testing/index.ts';
import { readEvents } from '../support/event-reader.ts';
import { deferred, eventually, gatedModel } from '../support/runtime-kit.ts';
import { serverKit } from './support.ts';

const kit = serverKit();

test('running requests are answered before the server stops; new connections are not accepted', async () => {
  const model = gatedModel();
  const clock = manualClock();
  const { url, post, server } = await kit.serve({ provider: model.provider }, { clock });
  await post('/sessions/s/messages', { content: 'Hi' });
  const call = await model.next();
  const answer = fetch(`${url}/sessions/s/receipts/1?wait=answer`);
  const reader = await readEvents(`${url}/sessions/s/events?after=1000`);
  // The timer is the stream's heartbeat. Once both requests were accepted, the other one runs as well.
  await eventually(() => clock.pending === 1);
  const closing = server.close();
  expect(await reader.next()).toBeUndefined();
  call.answer('Hello.');
  expect(await (await answer).json()).toMatchObject({ answer: 'Hello.' });
  await closing;
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  await expect(server.close()).resolves.toBeUndefined();
  await expect(server[Symbol.asyncDispose]()).resolves.toBeUndefined();
});

test('a request without an answer by the deadline is cut off', async () => {
  const model = gatedModel();
  const clock = manualClock();
  const { url, post, server, runtime } = await kit.serve({ provider: model.provider }, { clock });
  await post('/sessions/s/messages', { content: 'Hi' });
  await model.next();
  const refused = fetch(`${url}/sessions/s/receipts/1?wait=answer`).then(
    () => 'answered',
    () => 'cut off',
  );
  const reader = await readEvents(`${url}/events`);
  await eventually(() => clock.pending === 1);
  const closing = server.close({ deadlineMs: 1_000 });
  expect(await reader.next()).toBeUndefined();
  await clock.advance(999);
  await clock.advance(1);
  await closing;
  expect(await refused).toBe('cut off');
  expect(await runtime.session('s').state()).toMatchObject({ state: 'awaiting' });
});

test('an answer waits for its client, and is cancelled when the client leaves', async () => {
  let pulls = 0;
  const cancelled = deferred();
  const piece = new Uint8Array(65_536);
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        pulls += 1;
        controller.enqueue(piece);
      },
      cancel: () => cancelled.resolve(),
    },
    { highWaterMark: 1 },
  );
  const aborted = deferred();
  const server = createServer(
    nodeListener(async (request) => {
      request.signal.addEventListener('abort', () => aborted.resolve());
      return new Response(body);
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const reader = await readEvents(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    // Sockets hold a few megabytes. Beyond that no further piece is requested, however long the test waits.
    let before = -1;
    let still = 0;
    await eventually(() => {
      still = pulls === before ? still + 1 : 0;
      before = pulls;
      return still > 200;
    });
    expect(pulls * piece.length).toBeLessThan(64 * 1024 * 1024);
    reader.kill();
    await cancelled.promise;
    await aborted.promise;
  } finally {
    server.close();
  }
});

test('an answer whose handler fails in the middle is cut off, so that no client takes it for complete', async () => {
  const errors: unknown[] = [];
  const broken = (): Response =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode('half')),
        pull: (controller) => controller.error(new Error('broken')),
      }),
    );
  const server = createServer(
    nodeListener(
      async () => broken(),
      (error) => errors.push(error),
    ),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await expect(response.text()).rejects.toThrow();
    expect(errors).toMatchObject([{ message: 'broken' }]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('an answer whose body fails while its socket is full is cut off at once, and is no failure of the handler', async () => {
  let fail: () => void = () => undefined;
  const errors: unknown[] = [];
  const body = (): ReadableStream<Uint8Array> =>
    new ReadableStream({
      start(controller) {
        fail = () => controller.error(new LimitError('too far behind'));
        controller.enqueue(new Uint8Array(64 * 1024 * 1024));
      },
    });
  const listener = nodeListener(
    async () => new Response(body()),
    (error) => errors.push(error),
  );
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const reader = await readEvents(`http://127.0.0.1:${port}/`);
  fail();
  await expect(reader.next()).rejects.toThrow();
  expect(errors).toEqual([]);
  await new Promise((resolve) => server.close(resolve));
});
