/**
 * Goal: a call over `node:http` behaves as one over the platform's fetch: connections are used again, closed on time and
 * on cancelling, and every fault has its typed error. Method: the provider, or the fetch alone, against real sockets.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ERROR_BODY_BYTES_MAX, MODEL_CONNECT_MS_MAX } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createAnthropicProvider } from '../../../src/models/anthropic/anthropic.ts';
import { httpFetch, incomingOf } from '../../../src/models/anthropic/http-fetch.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { ask, context, failure, textOf } from '../calls.ts';
import { RECORDED_STREAMS } from '../fixtures/recorded-streams.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server with this answer, its address, and the connections that were made to it. */
async function serve(answer: Answer): Promise<{ readonly url: string; readonly sockets: readonly Socket[] }> {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  });
  server.on('connection', (socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
}

const at = (baseURL: string): ModelProvider => createAnthropicProvider({ apiKey: 'sk-of-this-test', baseURL });

const TEXT = RECORDED_STREAMS[0]?.text ?? '';
const HALF = TEXT.slice(0, TEXT.indexOf('event: content_block_stop'));
const STREAM_HEADERS = { 'content-type': 'text/event-stream; charset=utf-8' };

const answerWhole: Answer = (_request, response) => response.writeHead(200, STREAM_HEADERS).end(TEXT);

describe('connections', () => {
  it('F1, F2: a connection is used again after an answer, a refusal included', async () => {
    let calls = 0;
    const { url, sockets } = await serve((request, response) => {
      calls += 1;
      if (calls === 2) response.writeHead(529, { 'content-type': 'application/json' }).end('{}');
      else answerWhole(request, response);
    });
    const provider = at(url);
    expect(textOf(await provider.generate(ask(), context()))).toBe('Hello, world.');
    expect(await failure(provider)).toMatchObject({ code: 'model_overloaded' });
    expect(textOf(await provider.generate(ask(), context()))).toBe('Hello, world.');
    expect(sockets).toHaveLength(1);
  });

  it('F2: cancelling a call in the middle of its stream closes its connection', async () => {
    const { url, sockets } = await serve((_request, response) => response.writeHead(200, STREAM_HEADERS).write(HALF));
    const controller = new AbortController();
    const begun = context('s', controller.signal);
    const call = at(url).generate(ask(), { ...begun, onDelta: () => controller.abort() });
    await expect(call).rejects.toMatchObject({ code: 'cancelled' });
    const [socket] = sockets;
    if (socket?.closed === false) await once(socket, 'close');
    expect(sockets).toHaveLength(1);
  });

  it('F3: a connection reset in the middle of a stream is a lost connection that reports the tokens used', async () => {
    const { url } = await serve((_request, response) => {
      response.writeHead(200, STREAM_HEADERS);
      response.write(HALF, () => response.destroy());
    });
    expect(await failure(at(url))).toMatchObject({
      ...{ code: 'model_connection', retryable: true },
      data: { network: 'ECONNRESET', lostUsage: { input_tokens: 25 } },
    });
  });

  it('F3: a connection that was lost before its stream is read is noticed when it is read', async () => {
    const { url } = await serve((_request, response) => {
      response.writeHead(200, STREAM_HEADERS);
      response.write(HALF, () => response.destroy());
    });
    const response = await httpFetch(systemClock)(`${url}/v1/messages`, { method: 'POST', body: '{}' });
    const incoming = incomingOf(response);
    if (incoming === undefined) throw new Error('the answer is no stream');
    // No listener for errors, as before the answer is read.
    await new Promise((resolve) => incoming.on('close', resolve));
    const given = (): Promise<Response> => Promise.resolve(response);
    const error = await failure(createAnthropicProvider({ apiKey: 'sk-of-this-test' }, given));
    expect(error).toMatchObject({ code: 'model_connection', retryable: true });
  });

  it('F6, F23: a connection that is not made in time is a timeout before the first byte', async () => {
    const port = await portThatDoesNotAccept();
    const clock = manualClock();
    const error = httpFetch(clock)(`http://127.0.0.1:${port}/`).catch((thrown: unknown) => thrown);
    await vi.waitUntil(() => clock.pending === 1);
    await clock.advance(MODEL_CONNECT_MS_MAX);
    expect(await error).toMatchObject({ name: 'TypeError', cause: { code: 'ETIMEDOUT' } });
    expect(clock.pending).toBe(0);
    // The vendor's SDK recognises a timeout by its text.
    expect(String(((await error) as Error).cause)).toMatch(/timed out/);
  });

  it('F6: a connection that is made leaves no timer', async () => {
    const { url } = await serve((_request, response) => response.end('{}'));
    const clock = manualClock();
    await httpFetch(clock)(url);
    expect(clock.pending).toBe(0);
  });
});

describe('answers that are not streams', () => {
  it('F1, F76: the body of a refusal is read up to its bound', async () => {
    const { url } = await serve((_request, response) =>
      response.writeHead(500).end('x'.repeat(4 * ERROR_BODY_BYTES_MAX)),
    );
    const response = await httpFetch(systemClock)(url);
    expect(response.status).toBe(500);
    expect(await response.text()).toHaveLength(ERROR_BODY_BYTES_MAX);
  });

  it('F4: a redirect is not followed, so the key stays with its address', async () => {
    const asked: (string | undefined)[] = [];
    const { url } = await serve((request, response) => {
      asked.push(request.url);
      response.writeHead(308, { location: '/elsewhere' }).end();
    });
    expect(await failure(at(url))).toMatchObject({ status: 308, retryable: false });
    expect(asked).toEqual(['/v1/messages']);
  });

  it('F1: a status without a body has none', async () => {
    const { url } = await serve((_request, response) => response.writeHead(204).end());
    expect(await (await httpFetch(systemClock)(url)).text()).toBe('');
  });

  it('asks for no compression, and sends the length of its body', async () => {
    let headers: IncomingMessage['headers'] = {};
    const { url } = await serve((request, response) => {
      headers = request.headers;
      answerWhole(request, response);
    });
    await at(url).generate(ask(), context());
    expect(headers).toMatchObject({ 'accept-encoding': 'identity', authorization: 'Bearer sk-of-this-test' });
    expect(Number(headers['content-length'])).toBeGreaterThan(50);
    expect(headers).not.toHaveProperty('transfer-encoding');
  });
});

/**
 * The port of a listener whose thread is blocked and whose queue of connections is full, so that the system answers no
 * further one.
 */
async function portThatDoesNotAccept(): Promise<number> {
  const worker = new Worker(
    `const { createServer } = require('node:net');
     const { parentPort } = require('node:worker_threads');
     const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true },
  );
  closers.push(() => worker.terminate());
  const [port] = (await once(worker, 'message')) as [number];
  const fillers = [1, 2].map(() => connect(port, '127.0.0.1').on('error', () => undefined));
  closers.push(() => {
    for (const filler of fillers) filler.destroy();
  });
  await Promise.all(fillers.map((filler) => once(filler, 'connect')));
  return port;
}
