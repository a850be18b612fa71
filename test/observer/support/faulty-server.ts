/**
 * The interface of `troupe/server` with faults before it: what a test wants to see go wrong it can switch. Streams that break, a
 * server that is down, answers that a healthy runtime never gives.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Runtime } from '../../../src/index.ts';
import { handler, nodeListener } from '../../../src/server/index.ts';

/** A server that can be made to fail. */
export interface FaultyServer {
  /** Where the page is. */
  readonly url: string;
  /** Ends all event streams, as a server that is restarted does; new ones are refused while `isDown`. */
  breakStreams(): void;
  /** True: every request but those for the page is answered with 503. */
  isDown: boolean;
  /** Requests so far: `METHOD path`, and ` after N` where a stream goes on behind its event N. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

/** Serves `pages` (a built page) and the runtime on a free port of the loopback. */
export async function faultyServer(
  runtime: Runtime,
  options: {
    readonly pages: string;
    /** Takes the place of the answer to a request of this path; undefined: it is answered as ever. */
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
