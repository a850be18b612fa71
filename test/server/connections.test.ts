/**
 * Goal: one client cannot take all connections. Health is answered, however many connections there are. A request that
 * arrives too slowly gets an error with its code. A draining server says that it drains. Method: sockets from many
 * loopback addresses; each address may have few connections.
 */
import { channel } from 'node:diagnostics_channel';
import { Agent, type IncomingMessage, request, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { SERVER_HEADERS_MS_MAX, SERVER_HEALTH_CONNECTIONS_MAX, SERVER_REQUEST_MS_MAX } from '../../src/base/bounds.ts';
import { ANSWERS, BODIES } from '../../src/server/loop-budget.ts';
import { readEvents } from '../support/event-reader.ts';
import { eventually, gatedModel } from '../support/runtime-kit.ts';
import { serverKit } from './support.ts';

const kit = serverKit();
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  vi.restoreAllMocks();
});

async function hold(url: string, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress });
  sockets.push(socket);
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

interface Asked {
  readonly status: number | undefined;
  readonly body: unknown;
  readonly headers: IncomingMessage['headers'];
}

/** Sends a request on a separate connection. */
function ask(url: string, localAddress = '127.0.0.1'): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { localAddress, agent: new Agent({ keepAlive: false }) }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode, body: JSON.parse(text), headers: response.headers }),
      );
    });
    asked.on('error', reject);
    asked.end();
  });
}

/** All output of the server until it closes. */
function saidBy(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (piece) => {
      text += piece.toString('utf8');
    });
    socket.once('close', () => resolve(text));
  });
}

/** The `node:http` server behind an address. */
async function serverAt(url: string): Promise<Server> {
  const started = channel('http.server.request.start');
  let found: Server | undefined;
  const listener = (message: unknown): void => {
    found = (message as { readonly server: Server }).server;
  };
  started.subscribe(listener);
  await ask(`${url}/healthz`);
  started.unsubscribe(listener);
  if (found === undefined) throw new Error('the request reached no server');
  return found;
}

describe('connections', () => {
  test('of one address are bounded: more are refused with the code `limit`, health is answered, other addresses are served', async () => {
    const { url } = await kit.serve({}, { connectionsPerAddress: 3 });
    for (let index = 0; index < 3; index += 1) await hold(url);
    const refused = await ask(`${url}/info`);
    expect(refused).toMatchObject({ status: 503, body: { code: 'limit', retryable: true } });
    expect(refused.headers).toMatchObject({ connection: 'close', 'retry-after': '5' });
    expect((await ask(`${url}/healthz`)).status).toBe(200);
    expect((await ask(`${url}/readyz`)).status).toBe(200);
    expect((await ask(`${url}/info`, '127.0.0.2')).status).toBe(200);
    sockets.pop()?.destroy();
    await eventually(async () => (await ask(`${url}/info`)).status === 200);
  });

  test('health is still answered when all connections, and the reserve, are in use', async () => {
    const { url } = await kit.serve({}, { connections: 4 });
    const held = SERVER_HEALTH_CONNECTIONS_MAX + 4 + 10;
    for (let index = 0; index < held; index += 1) await hold(url, `127.0.0.${2 + (index % 50)}`);
    expect((await ask(`${url}/healthz`)).status).toBe(200);
    expect(await ask(`${url}/info`)).toMatchObject({ status: 503, body: { code: 'limit' } });
  });

  test('an option that is not a number of connections is refused', async () => {
    const runtime = await kit.open();
    expect(runtime).toBeDefined();
    await expect(kit.serve({}, { connections: 0 })).rejects.toThrow('serve.connections');
    await expect(kit.serve({}, { connectionsPerAddress: 1.5 })).rejects.toThrow('serve.connectionsPerAddress');
  });

  test('data that is not a request, and headers that are too large, are each refused with a code', async () => {
    const { url } = await kit.serve();
    const none = await hold(url);
    none.write('hello\r\n\r\n');
    expect(await saidBy(none)).toMatch(/^HTTP\/1.1 400 .*"code":"bad_request"/s);
    const large = await hold(url);
    large.write(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(await saidBy(large)).toMatch(/^HTTP\/1.1 431 .*"code":"headers_too_large"/s);
  });

  test('incomplete headers are refused as `request_timeout` after a few seconds', async () => {
    const { url } = await kit.serve();
    const server = await serverAt(url);
    expect(server.headersTimeout).toBe(SERVER_HEADERS_MS_MAX);
    // The check for late requests reads it each second.
    server.headersTimeout = 1;
    const late = await hold(url);
    late.write('GET /info HTTP/1.1\r\n');
    expect(await saidBy(late)).toMatch(/^HTTP\/1.1 408 .*"code":"request_timeout"/s);
  });

  test('a body that does not arrive is refused as `request_timeout` after a few seconds', async () => {
    const { url } = await kit.serve();
    const server = await serverAt(url);
    expect(server.requestTimeout).toBe(SERVER_REQUEST_MS_MAX);
    expect(SERVER_REQUEST_MS_MAX).toBeLessThanOrEqual(30_000);
    // The check for late requests reads it each second.
    server.requestTimeout = 1;
    const late = await hold(url);
    late.write('POST /sessions/s/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n');
    late.write('content-length: 100\r\n\r\n{"content":');
    expect(await saidBy(late)).toMatch(/^HTTP\/1.1 408 .*"code":"request_timeout"/s);
  });

  test('B4 of the loop budget: each accepted connection takes a tick, and answers and bodies wait', async () => {
    const yields = [ANSWERS, BODIES].map((budget) => vi.spyOn(budget, 'yieldTick'));
    const { url } = await kit.serve();
    for (let index = 0; index < 3; index += 1) expect((await ask(`${url}/healthz`)).status).toBe(200);
    expect(yields.map(({ mock }) => mock.calls.length)).toEqual([3, 3]);
  });
});

describe('a draining server', () => {
  test('says so, accepts nothing new, answers reads, and lets running turns continue', async () => {
    const model = gatedModel();
    const { url, get, post, server, runtime } = await kit.serve({ provider: model.provider });
    expect(await get('/readyz')).toMatchObject({ status: 200, body: { status: 'ready' } });
    await post('/sessions/s/messages', { content: 'Hi' });
    const call = await model.next();
    const reader = await readEvents(`${url}/sessions/s/events?mode=debug`);
    const answer = get('/sessions/s/receipts/1?wait=answer');
    server.drain();
    expect(await get('/readyz')).toMatchObject({ status: 503, body: { status: 'not_ready' } });
    const refused = { status: 503, body: { code: 'cancelled', retryable: true } };
    expect(await post('/sessions/s/messages', { content: 'More' })).toMatchObject(refused);
    expect(await post('/sessions', { id: 't' })).toMatchObject(refused);
    expect(await post('/sessions/s/children', { task: 'x' })).toMatchObject(refused);
    expect(await get('/sessions/s/events')).toMatchObject(refused);
    expect((await get('/sessions/s/messages')).status).toBe(200);
    expect((await get('/healthz')).status).toBe(200);
    call.answer('Hello.');
    expect(await answer).toMatchObject({ body: { answer: 'Hello.' } });
    await runtime.close();
    const { body } = await get('/readyz');
    expect(body).toEqual({ status: 'not_ready' });
    for (let event = await reader.next(); event !== undefined; event = await reader.next());
    expect(Number(reader.lastEventId)).toBeGreaterThan(5);
  });
});
