/**
 * The interface of `troupe/server` behind injected faults that a test switches: streams that break, a server that is
 * down, answers that a healthy runtime never gives.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Runtime } from '../../../src/index.ts';
import { handler, nodeListener } from '../../../src/server/index.ts';

/** A server that fails on request. */
export interface FaultyServer {
  /** The address of the page. */
  readonly url: string;
  /** Ends all event streams, as a restarted server does. New ones are refused while `isDown`. */
  breakStreams(): void;
  /** While true, every request except those for the page is answered with 503. */
  isDown: boolean;
  /** Requests so far: `METHOD path`, and ` after N` if a stream resumes after event N. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

/** Serves `pages` (a built page) and the runtime on a free port of the loopback. */
export async function faultyServer(
  runtime: Runtime,
  options: {
    readonly pages: string;
    /** Replaces the answer to a request of this path. If undefined, the server answers as usual. */
    readonly override?: (path: string) => unknown;
  },
): Promise<FaultyServer> {
  const listener = nodeListener(handler(runtime, { observerDirectory: options.pages }));
  const streams = new Set<ServerResponse>();
  const requests: string[] = [];
  const state = { isDown: false };

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    const lastId = request.headers['last-event-id'];
    requests.push(`${request.method} ${path}${lastId === undefined ? '' : ` after ${String(lastId)}`}`);
    const isOfPage = path.startsWith('/observer/');
    if (state.isDown && !isOfPage) {
      const body = { title: 'internal', status: 503, code: 'internal', detail: 'the server is being restarted' };
      return reply(response, 503, 'application/problem+json', body);
    }
    const override = isOfPage ? undefined : options.override?.(path);
    if (override !== undefined) return reply(response, 200, 'application/json', override);
    if (path.endsWith('/events')) {
      streams.add(response);
      response.once('close', () => streams.delete(response));
    }
    // Never rejects.
    void listener(request, response);
  };

  const server = createServer(answer);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const breakStreams = (): void => {
    for (const response of streams) response.destroy();
  };
  return {
    url: `http://127.0.0.1:${port}/observer/`,
    requests,
    breakStreams,
    get isDown() {
      return state.isDown;
    },
    set isDown(value: boolean) {
      state.isDown = value;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        breakStreams();
        server.closeAllConnections();
      }),
  };
}

function reply(response: ServerResponse, status: number, type: string, body: unknown): void {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
}
