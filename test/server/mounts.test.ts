/**
 * Goal: one line mounts the interface below a path of a service that already listens, in each of the usual frameworks.
 */
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { afterEach, describe, expect, test } from 'vitest';
import { fastifyPlugin, handler, nodeListener } from '../../src/server/index.ts';
import { readEvents } from '../support/event-reader.ts';
import { echo, posted, serverKit } from './support.ts';

const kit = serverKit();
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function listening(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  closing.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Every mount must read, write, refuse and stream. */
async function works(url: string): Promise<void> {
  expect((await fetch(`${url}/own`)).status).toBe(200);
  const made = await fetch(`${url}/agents/sessions`, posted({ id: 's' }));
  expect(made.status).toBe(201);
  const sent = await fetch(`${url}/agents/sessions/s/messages`, posted({ content: 'Hi' }));
  expect([sent.status, await sent.json()]).toMatchObject([202, { id: 's/1.1' }]);
  const answered = await fetch(`${url}/agents/sessions/s/receipts/1?wait=answer`);
  expect(await answered.json()).toMatchObject({ status: 'answered', answer: 'to Hi' });
  const broken = await fetch(`${url}/agents/sessions`, { ...posted({}), body: '{' });
  expect([broken.status, await broken.json()]).toMatchObject([400, { code: 'bad_request' }]);
  expect((await fetch(`${url}/agents/nothing`)).status).toBe(404);
  const reader = await readEvents(`${url}/agents/sessions/s/events?mode=debug`);
  expect((await reader.next())?.id).toBe('1');
  reader.kill();
}

describe('mounted', () => {
  test('in Express', async () => {
    const runtime = await kit.open({ provider: echo });
    const app = express();
    app.get('/own', (_request, response) => void response.send('own'));
    app.use('/agents', nodeListener(handler(runtime)));
    await works(await listening(app));
  });

  test('in Express, behind a parser that has already read the body', async () => {
    const runtime = await kit.open({ provider: echo });
    const app = express();
    app.use(express.json());
    app.use('/agents', nodeListener(handler(runtime)));
    const url = await listening(app);
    const sent = await fetch(`${url}/agents/sessions/s/messages`, posted({ content: 'Hi' }));
    expect([sent.status, await sent.json()]).toMatchObject([202, { id: 's/1.1' }]);
  });

  test('in Fastify', async () => {
    const runtime = await kit.open({ provider: echo });
    const app = fastify();
    app.get('/own', async () => 'own');
    await app.register(fastifyPlugin(handler(runtime)), { prefix: '/agents' });
    app.post('/parsed', async ({ body }) => body);
    closing.push(() => app.close());
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    await works(url);
    // The service's own routes still read bodies.
    expect(await (await fetch(`${url}/parsed`, posted({ a: 1 }))).json()).toEqual({ a: 1 });
  });

  test('in Hono', async () => {
    const runtime = await kit.open({ provider: echo });
    const app = new Hono();
    app.get('/own', (context) => context.text('own'));
    // Hono creates a new request for a mounted handler, so the peer is unknown.
    app.mount('/agents', handler(runtime, { hosts: ['127.0.0.1'] }));
    await works(await listening(nodeListener(async (request) => app.fetch(request))));
  });
});
