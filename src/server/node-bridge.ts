/**
 * Connects `node:http` to a handler of the Fetch API.
 *
 * Owns: the exchange of one request and its answer with `node:http`. Does not own: the server, the content of answers.
 *
 *  J1  Writes wait for the socket: the next piece of an answer is read only when the socket has taken the previous
 *      piece. A large piece also waits for a tick that has room for it. If the body of the answer fails, the connection
 *      is closed at once, even while a piece waits.
 *  J2  When the client disconnects, the request's signal fires and the answer's body is cancelled.
 *  J3  The unread rest of a request's body is discarded. If the rest exceeds a bound, the connection is closed instead.
 *  J4  The body of every request is bounded, even if its length is not declared: reading beyond the bound fails.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { LOOP_PIECE_BYTES_MIN, SERVER_BODY_BYTES_MAX, SERVER_DISCARD_BYTES_MAX } from '../base/bounds.ts';
import { LimitError } from '../index.ts';
import type { FetchHandler } from './application.ts';
import { ANSWERS } from './loop-budget.ts';
import { setPeer } from './peer.ts';
import { bodyTooLarge, HttpProblem, problemResponse, unreadable } from './problem.ts';

/** Answers one request of `node:http`. Resolves when the exchange is over; never rejects. */
export type NodeListener = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>;

/**
 * Maximum bytes that are given to a socket at once. Half a megabyte for each of a thousand readers in one tick would
 * delay all other work.
 */
const PIECE_BYTES: number = 64 * 1024;

/** Methods that a `Request` may not have. */
const FORBIDDEN_METHODS: ReadonlySet<string> = new Set(['CONNECT', 'TRACE', 'TRACK']);

/**
 * Returns a listener that answers with `handler`. It is for `node:http`, and for frameworks that pass on the requests
 * and responses of `node:http`, such as Express (`app.use('/agents', nodeListener(handler(runtime)))`). `onError`
 * receives failures of the handler itself and broken answers. Reading a body of more than 8 MB rejects with an error;
 * `statusOf` returns 413 for this error. If the handler rejects with that error, the listener answers 413.
 * `bodyBytesMax`: another bound, for your own handler.
 */
export function nodeListener(
  handler: FetchHandler,
  onError: (error: unknown) => void = () => undefined,
  { bodyBytesMax = SERVER_BODY_BYTES_MAX }: { readonly bodyBytesMax?: number } = {},
): NodeListener {
  // The platform loads its fetch on first use, which takes 30 ms. This line loads it now rather than during the first
  // request.
  void globalThis.Request;
  // Requests are kept until their handler has answered, because a request's signal lives no longer than the request.
  const underWay = new Set<Request>();
  const answerTo = async (incoming: IncomingMessage, signal: AbortSignal): Promise<Response> => {
    let request: Request | undefined;
    try {
      request = toRequest(incoming, signal, bodyBytesMax);
      underWay.add(request);
      return await handler(request);
    } catch (error) {
      return problemResponse(error, onError);
    } finally {
      if (request !== undefined) underWay.delete(request);
    }
  };
  return async (incoming, outgoing) => {
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    try {
      await send(await answerTo(incoming, gone.signal), outgoing, gone.signal);
    } catch (error) {
      // A half-sent answer cannot be repaired: the client must see that it is incomplete. A reader that fell too far
      // behind is not a failure of the handler.
      if (!gone.signal.aborted && !(error instanceof LimitError)) onError(error);
      outgoing.destroy();
    }
    discardRest(incoming);
  };
}

/** Throws `HttpProblem` if no `Request` can be made. */
function toRequest(incoming: IncomingMessage, signal: AbortSignal, bodyBytesMax: number): Request {
  const { method = 'GET', url = '/' } = incoming;
  if (FORBIDDEN_METHODS.has(method))
    throw new HttpProblem('method_not_allowed', `${method} is for proxies`, { headers: { allow: 'GET' } });
  const address = addressOf(incoming, url);
  const body = bodyOf(incoming, bodyBytesMax);
  try {
    const request = new Request(address, {
      method,
      headers: headersOf(incoming),
      signal,
      ...(body === undefined ? {} : { body, duplex: 'half' }),
    });
    const { remoteAddress } = incoming.socket;
    if (remoteAddress !== undefined) setPeer(request, remoteAddress);
    return request;
  } catch (error) {
    throw unreadable('this is not a request', error);
  }
}

/** Appends the raw path to the host. If the path were parsed as a URL, `//name/` would be another host. */
function addressOf(incoming: IncomingMessage, url: string): string {
  if (!url.startsWith('/')) throw new HttpProblem('bad_request', 'the target of the request must be a path');
  const isSecure = 'encrypted' in incoming.socket && incoming.socket.encrypted === true;
  return `${isSecure ? 'https' : 'http'}://${incoming.headers.host ?? 'localhost'}${url}`;
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '');
  }
  return headers;
}

/**
 * The body of a request: as a stream, or as a text if a framework has already read it. Undefined if there is no body.
 */
function bodyOf(incoming: IncomingMessage, bytesMax: number): ReadableStream<Uint8Array> | string | undefined {
  const { method, headers } = incoming;
  if (method === 'GET' || method === 'HEAD') return undefined;
  if (headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0') return undefined;
  if (!incoming.readableEnded) return incomingStream(incoming, bytesMax);
  const parsed: unknown = Reflect.get(incoming, 'body');
  return typeof parsed === 'string' ? parsed : parsed === undefined ? undefined : JSON.stringify(parsed);
}

/** The body of a request as a stream. Bytes are read from the socket only as fast as the stream is read. */
function incomingStream(incoming: IncomingMessage, bytesMax: number): ReadableStream<Uint8Array> {
  let isOver = false;
  let bytes = 0;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = (error?: Error): void => {
          if (isOver) return;
          isOver = true;
          if (error === undefined) controller.close();
          else controller.error(error);
        };
        incoming.on('data', (piece: Buffer) => {
          if (isOver) return;
          bytes += piece.length;
          if (bytes > bytesMax) return end(bodyTooLarge(bytesMax));
          controller.enqueue(piece);
          incoming.pause();
        });
        incoming.once('end', () => end());
        incoming.once('error', end);
        incoming.once('close', () => end(new Error('the connection closed in the middle of the body')));
        incoming.pause();
        if (Number(incoming.headers['content-length'] ?? 0) > bytesMax) end(bodyTooLarge(bytesMax));
      },
      pull: () => void incoming.resume(),
      cancel: () => {
        isOver = true;
      },
    },
    // Nothing is read ahead: the reader of the body decides when its next piece is read.
    { highWaterMark: 0 },
  );
}

async function send(response: Response, outgoing: ServerResponse, gone: AbortSignal): Promise<void> {
  const reader = response.body?.getReader();
  if (gone.aborted) return reader?.cancel();
  const cancel = (): void => void reader?.cancel().catch(() => undefined);
  gone.addEventListener('abort', cancel, { once: true });
  try {
    outgoing.statusCode = response.status;
    for (const [name, value] of response.headers) outgoing.setHeader(name, value);
    if (reader === undefined) return void outgoing.end();
    // The headers of a stream are sent now, so that the client sees at once that its stream is open. An answer of known
    // length is sent together with its headers.
    if (!response.headers.has('content-length')) outgoing.flushHeaders();
    // There is one listener for the whole answer, and not one for each wait, because a stream waits for its socket
    // thousands of times.
    const failed = new AbortController();
    reader.closed.catch(() => failed.abort());
    for (;;) {
      const { done, value } = await reader.read();
      if (done || gone.aborted) break;
      for (let from = 0; from < value.length && !gone.aborted && !failed.signal.aborted; from += PIECE_BYTES) {
        const piece = value.subarray(from, from + PIECE_BYTES);
        const turn = piece.length < LOOP_PIECE_BYTES_MIN ? undefined : ANSWERS.take(piece.length);
        if (turn !== undefined) await turn;
        if (gone.aborted || failed.signal.aborted) break;
        if (!outgoing.write(piece)) await drained(outgoing, gone, failed.signal);
      }
    }
    outgoing.end();
  } finally {
    gone.removeEventListener('abort', cancel);
  }
}

/**
 * Resolves when the socket has drained, the client has disconnected, or the body failed. The next read then reports the
 * failure.
 */
function drained(outgoing: ServerResponse, ...ends: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off('drain', done);
      for (const end of ends) end.removeEventListener('abort', done);
      resolve();
    };
    if (ends.some(({ aborted }) => aborted)) return resolve();
    outgoing.on('drain', done);
    for (const end of ends) end.addEventListener('abort', done);
  });
}

/**
 * Discards the rest of a request's body (J3). A client that is still writing would not read its answer. The rest of the
 * body could also be mistaken for the next request.
 */
function discardRest(incoming: IncomingMessage): void {
  if (incoming.complete || incoming.destroyed) return;
  let left = SERVER_DISCARD_BYTES_MAX;
  // The earlier listeners are removed, because they collect data for a reader that has stopped.
  incoming.removeAllListeners('data');
  incoming.on('data', (piece: Buffer) => {
    left -= piece.length;
    if (left < 0) incoming.destroy();
  });
  incoming.resume();
}
