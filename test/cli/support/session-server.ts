/**
 * The routes of the HTTP interface that `troupe top` and `troupe tail` request, over a runtime, on the loopback
 * address. It is closed with the test.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Runtime } from '../../../src/index.ts';

/** A running server. */
export interface SessionServer {
  readonly url: string;
  /** Paths requested so far. */
  readonly asked: readonly string[];
}

/** `token`: required in each request, if given. */
export async function sessionServer(runtime: Runtime, token?: string): Promise<SessionServer> {
  const asked: string[] = [];
  const answer = async (path: string): Promise<readonly [number, unknown]> => {
    const { pathname, searchParams } = new URL(path, 'http://localhost');
    if (pathname === '/metrics.json') return [200, runtime.metrics()];
    if (pathname === '/sessions') {
      const limit = Number(searchParams.get('limit') ?? 100);
      return [200, { sessions: await runtime.sessions.list({ limit }) }];
    }
    const id = decodeURIComponent(pathname.slice('/sessions/'.length));
    const found = await runtime.sessions.get(id);
    if (found === undefined) return [404, { title: 'Not found', detail: 'no such session' }];
    return [200, { ...found, ...(await runtime.session(id).state()) }];
  };
  const stream = async (id: string, after: number, response: ServerResponse): Promise<void> => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': here\n\n');
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    for await (const event of runtime.session(id).events({ after, signal: gone.signal })) {
      response.write(`id: ${event.seq ?? ''}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    response.end();
  };
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const [, id, after] = /^\/sessions\/([^/]+)\/events\?after=(\d+)/.exec(request.url ?? '') ?? [];
    if (id !== undefined && token === undefined) {
      void stream(decodeURIComponent(id), Number(after), response);
      return;
    }
    const isAllowed = token === undefined || request.headers.authorization === `Bearer ${token}`;
    const answering = isAllowed
      ? answer(request.url ?? '/')
      : Promise.resolve([401, { title: 'Unauthorized', detail: 'a token is needed' }] as const);
    void answering.then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}
