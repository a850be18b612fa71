/** A separate server: `serve` listens, answers, and closes in order. */
import { createServer, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import {
  SERVER_BODY_BYTES_MAX,
  SERVER_CLOSE_MS,
  SERVER_HEADER_BYTES_MAX,
  SERVER_HEADERS_MS_MAX,
  SERVER_HEALTH_CONNECTIONS_MAX,
  SERVER_KEEP_ALIVE_MS,
  SERVER_LATE_CHECK_MS,
  SERVER_REQUEST_MS_MAX,
} from '../base/bounds.ts';
import { asError } from '../base/errors.ts';
import { ConfigError, type Runtime } from '../index.ts';
import { announceServer } from '../runtime/handles/announced-servers.ts';
import { createApplication } from './application.ts';
import { ConnectionGate } from './connection-gate.ts';
import { inUrl, isWildcard } from './hosts.ts';
import { ANSWERS, BODIES } from './loop-budget.ts';
import { nodeListener } from './node-bridge.ts';
import { type CheckedServeOptions, checkServeOptions, type ServeOptions } from './options.ts';
import { type HttpCode, HttpProblem, problemOf } from './problem.ts';

/** A running server. */
export interface RunningServer {
  /** The address of the server, such as `http://127.0.0.1:4111`, without a slash at the end. */
  readonly url: string;
  /**
   * Takes no new work from now on: messages, sessions, children, `resume` and event streams are refused (503), and
   * `/readyz` reports `not_ready`. Running work continues, and reads are still answered. Safe to call again.
   */
  drain(): void;
  /**
   * Takes no more connections, ends the event streams, waits up to `deadlineMs` for the answers in flight, and closes
   * every connection. The runtime is left open. Safe to call again.
   */
  close(options?: { readonly deadlineMs?: number }): Promise<void>;
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Serves a runtime over HTTP. Resolves once the server listens. Rejects with `ConfigError` for a bad option, and for an
 * address on which the server cannot listen. An address that other machines can reach needs a token.
 */
export async function serve(runtime: Runtime, options: ServeOptions): Promise<RunningServer> {
  const checked = checkServeOptions(options);
  const application = createApplication(runtime, checked);
  const listener = nodeListener(application.fetch, checked.onError);
  const open = new OpenExchanges();
  const gate = new ConnectionGate(checked);
  const server = createServer(
    {
      connectionsCheckingInterval: SERVER_LATE_CHECK_MS,
      headersTimeout: SERVER_HEADERS_MS_MAX,
      requestTimeout: SERVER_REQUEST_MS_MAX,
      keepAliveTimeout: SERVER_KEEP_ALIVE_MS,
      maxHeaderSize: SERVER_HEADER_BYTES_MAX,
      // Events are small and must not wait for each other.
      noDelay: true,
    },
    (incoming, outgoing) => {
      if (gate.refuses(incoming, outgoing)) return;
      open.add(outgoing);
      // The promise of the listener never rejects.
      void listener(incoming, outgoing);
    },
  );
  // One connection more than the bounds, because the gate closes an old connection only when a newer one arrives.
  server.maxConnections = checked.connections + SERVER_HEALTH_CONNECTIONS_MAX + 1;
  server.on('connection', (socket: Socket) => {
    ANSWERS.yieldTick();
    BODIES.yieldTick();
    gate.take(socket);
  });
  server.on('clientError', refuse);
  server.on('checkContinue', (incoming, outgoing: ServerResponse) => {
    // A body whose declared length is too large is refused before the client sends it. The client may send the body all
    // the same, and its bytes would be read as the next request. So the connection is closed after the answer.
    if (Number(incoming.headers['content-length'] ?? 0) <= SERVER_BODY_BYTES_MAX) outgoing.writeContinue();
    else outgoing.shouldKeepAlive = false;
    server.emit('request', incoming, outgoing);
  });
  await listen(server, checked);
  server.on('error', checked.onError);
  const { port } = server.address() as AddressInfo;
  const url = `http://${inUrl(reachable(checked.host))}:${port}`;
  const withdraw = await announced(runtime, { url, needsToken: checked.tokens.length > 0 }, checked.onError);
  let closing: Promise<void> | undefined;
  const closeOnce = ({ deadlineMs = SERVER_CLOSE_MS }: { readonly deadlineMs?: number } = {}): Promise<void> => {
    closing ??= Promise.all([
      withdraw(),
      close(server, open, () => application.end(), { deadlineMs, clock: checked.clock }),
    ]).then(() => undefined);
    return closing;
  };
  return {
    url,
    drain: () => application.drain(),
    close: closeOnce,
    [Symbol.asyncDispose]: () => closeOnce(),
  };
}

/**
 * Writes the server's address into the lock of the store, so that commands find the server. The server also runs if the
 * lock cannot be written. Neither the promise nor the returned function rejects.
 */
async function announced(
  runtime: Runtime,
  server: { readonly url: string; readonly needsToken: boolean },
  onError: (error: unknown) => void,
): Promise<() => Promise<void>> {
  const unannounced = (): Promise<void> => Promise.resolve();
  const withdraw = await announceServer(runtime, server).catch((error: unknown) => {
    onError(error);
    return unannounced;
  });
  return () => withdraw().catch(onError);
}

/** The answers in flight. Each answer is kept until its connection has sent it or has closed. */
class OpenExchanges {
  readonly #answers = new Set<ServerResponse>();
  #whenNone: (() => void) | undefined;

  add(answer: ServerResponse): void {
    this.#answers.add(answer);
    answer.once('close', () => {
      this.#answers.delete(answer);
      if (this.#answers.size === 0) this.#whenNone?.();
    });
  }

  /**
   * Announces to the clients that their connections end with these answers, except where an answer's headers are sent
   * already. Calls `done` when all answers are sent or their connections have closed.
   */
  finish(done: () => void): void {
    for (const answer of this.#answers) if (!answer.headersSent) answer.setHeader('connection', 'close');
    if (this.#answers.size === 0) done();
    else this.#whenNone = done;
  }
}

async function close(
  server: Server,
  open: OpenExchanges,
  endStreams: () => void,
  { deadlineMs, clock }: { readonly deadlineMs: number; readonly clock: CheckedServeOptions['clock'] },
): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  endStreams();
  await new Promise<void>((resolve) => {
    const timer = clock.setTimer(resolve, deadlineMs);
    open.finish(() => {
      clock.clearTimer(timer);
      resolve();
    });
  });
  server.closeAllConnections();
  await closed;
}

function listen(server: Server, { host, port }: CheckedServeOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: unknown): void => {
      const { message } = asError(error);
      reject(
        new ConfigError(`cannot listen on ${inUrl(host)}:${port}: ${message}`, { cause: error, data: { host, port } }),
      );
    };
    server.once('error', onError);
    server.listen({ host, port }, () => {
      server.off('error', onError);
      resolve();
    });
  });
}

/**
 * Answers input that is not HTTP or that comes too late, if the socket can still be written, and closes the connection.
 */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const [code, detail] = REFUSALS[error.code ?? ''] ?? (['bad_request', 'this is not a request'] as const);
  const problem = problemOf(new HttpProblem(code, detail));
  const body = JSON.stringify(problem);
  const head = `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\nconnection: close\r\ncontent-type: application/problem+json`;
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

const REFUSALS: Readonly<Record<string, readonly [code: HttpCode, detail: string]>> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', `the headers may have ${SERVER_HEADER_BYTES_MAX} bytes`],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'the request did not come in time'],
};

/** An address that a client can use, in place of a wildcard address. */
function reachable(host: string): string {
  if (!isWildcard(host)) return host;
  return host === '0.0.0.0' ? '127.0.0.1' : '::1';
}
