/**
 * A `fetch` over `node:http` for the vendor's SDK. An event stream's body is the socket's own stream of chunks: through
 * the platform's fetch and its web streams each chunk costs about 15 microseconds more.
 * Owns: the connections of one provider, kept open between calls. Does not own: deadlines, the reading of streams.
 *
 * - F1 An answer that is not an event stream is read whole, up to a bound (F76), and returned as an ordinary
 *   `Response`.
 * - F2 The chunks of an event stream are read from the socket (`incomingOf`). The reader of the stream counts the bytes
 *   and ends the connection.
 * - F3 Failures look like those of the platform's fetch: `TypeError` with the system's error as its cause.
 * - F4 Redirects are not followed: the key of a request would go to another address.
 * - F5 An idle connection is closed after `MODEL_SOCKET_IDLE_MS_MAX`, before most servers close it. A request fails if
 *   the server closes its connection at the same moment.
 * - F6 A connection that is not made within `MODEL_CONNECT_MS_MAX` is given up.
 *
 * Requests ask for no compression: events are small, and decompressing them would cost more than receiving them.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { Socket } from 'node:net';
import {
  ERROR_BODY_BYTES_MAX,
  MODEL_CONNECT_MS_MAX,
  MODEL_SOCKET_IDLE_MS_MAX,
  MODEL_SOCKETS_IDLE_MAX,
} from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import type { FetchFunction } from './bounded-fetch.ts';

/**
 * The socket's stream of each event stream, by its `Response`. A class that extends `Response` would load the
 * platform's fetch as soon as this file is imported. Loading that fetch takes longer than loading all other code of the
 * package.
 */
const INCOMING: WeakMap<Response, IncomingMessage> = new WeakMap();

/**
 * The chunks of an answer that is an event stream, in the order of the socket. The `body` of such an answer is null.
 * Nothing is read before a listener is attached. Undefined for other answers.
 */
export function incomingOf(response: Response): IncomingMessage | undefined {
  return INCOMING.get(response);
}

/** A `fetch` with its own connections. `clock` times the making of a connection. Runs on the thread of the provider. */
export function httpFetch(clock: Clock): FetchFunction {
  // Every stream needs a connection while it lasts. So there are as many connections as calls in flight.
  const options = {
    keepAlive: true,
    timeout: MODEL_SOCKET_IDLE_MS_MAX,
    maxFreeSockets: MODEL_SOCKETS_IDLE_MAX,
    ...proxies(),
  };
  const agents = { 'http:': new HttpAgent(options), 'https:': new HttpsAgent(options) };
  return (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const isPlain = url.protocol === 'http:';
    return new Promise<Response>((resolve, reject) => {
      const sent = (isPlain ? requestHttp : requestHttps)(
        url,
        {
          method: init.method ?? 'GET',
          agent: agents[isPlain ? 'http:' : 'https:'],
          headers: { ...Object.fromEntries(new Headers(init.headers)), 'accept-encoding': 'identity' },
          ...(init.signal == null ? {} : { signal: init.signal }),
        },
        (incoming) => responseOf(incoming).then(resolve, reject),
      );
      sent.on('socket', (socket) => limitConnecting(sent, socket, clock));
      sent.on('error', (error) => reject(networkFailure('fetch failed', error)));
      sent.end(typeof init.body === 'string' ? init.body : undefined);
    });
  };
}

/** An error of a connection as the platform's fetch reports it (F3). */
export function networkFailure(message: string, cause: Error): Error {
  return cause.name === 'AbortError' ? cause : new TypeError(message, { cause });
}

function limitConnecting(sent: ClientRequest, socket: Socket, clock: Clock): void {
  if (!socket.connecting) return;
  const timer = clock.setTimer(() => {
    const error = new Error(`the connection timed out after ${MODEL_CONNECT_MS_MAX} ms`);
    sent.destroy(Object.assign(error, { code: 'ETIMEDOUT' }));
  }, MODEL_CONNECT_MS_MAX);
  const clear = (): void => clock.clearTimer(timer);
  socket.once('connect', clear).once('close', clear);
}

async function responseOf(incoming: IncomingMessage): Promise<Response> {
  const status = incoming.statusCode ?? 0;
  const init = { status, statusText: incoming.statusMessage ?? '', headers: headersOf(incoming) };
  const isOk = status >= 200 && status < 300;
  if (isOk && incoming.headers['content-type']?.includes('text/event-stream') === true) {
    const response = new Response(null, init);
    INCOMING.set(response, incoming);
    return response;
  }
  const body = await readWhole(incoming);
  return new Response(STATUSES_WITHOUT_BODY.has(status) ? null : body, init);
}

/** Statuses for which the platform's `Response` takes no body. */
const STATUSES_WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

function readWhole(incoming: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let left = ERROR_BODY_BYTES_MAX;
    const end = (): void => resolve(new Uint8Array(Buffer.concat(chunks)));
    incoming.on('data', (chunk: Uint8Array) => {
      chunks.push(chunk.subarray(0, left));
      left -= chunk.byteLength;
      if (left > 0) return;
      // The rest is not received.
      end();
      incoming.destroy();
    });
    incoming.on('end', end);
    incoming.on('error', (error) => reject(networkFailure('terminated', error)));
  });
}

function headersOf(incoming: IncomingMessage): Headers {
  const headers = new Headers();
  const { rawHeaders } = incoming;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '');
  return headers;
}

/**
 * The proxies of the environment, if the user asked Node to use them. Source: Node's "Built-in proxy support", from
 * 24.5; an older Node ignores the option.
 */
function proxies(): { readonly proxyEnv?: NodeJS.ProcessEnv } {
  return process.env['NODE_USE_ENV_PROXY'] === '1' ? { proxyEnv: process.env } : {};
}
