/**
 * The HTTP layer of the fake server: reads bodies, writes errors, messages and streams. It has no state and does not
 * choose answers.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { REQUEST_BYTES_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { errorTypeOf } from '../models/model-error.ts';
import type { ModelResponse } from '../models/provider.ts';
import { type FaultKind, withUnknownEvents } from './fake-faults.ts';
import { streamTexts } from './fake-stream.ts';

/** Maximum bytes a slow stream writes at once. */
const SLOW_CHUNK_BYTES_MAX = 16;

/** The whole body as text; undefined when it is longer than the API accepts. */
export function readBody(request: IncomingMessage, done: (body: string | undefined) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.byteLength;
    if (bytes <= REQUEST_BYTES_MAX) chunks.push(chunk);
    else chunks.length = 0;
  });
  request.on('end', () => {
    done(bytes > REQUEST_BYTES_MAX ? undefined : Buffer.concat(chunks).toString());
  });
}

/** True when a request has a key or a bearer token. */
export function hasCredentials(request: IncomingMessage): boolean {
  const key = request.headers['x-api-key'];
  const bearer = /^Bearer \S/.test(request.headers.authorization ?? '');
  return bearer || (typeof key === 'string' && key !== '');
}

/** The key or the token of a request. */
export function accountOf(request: IncomingMessage): string {
  return String(request.headers['x-api-key'] ?? request.headers.authorization ?? '');
}

/**
 * The facts of an error besides its status and message. `type`: the error's type; if missing, the status decides it.
 */
export interface ErrorFacts {
  readonly type?: string;
  readonly retryAfterMs?: number;
  readonly errorCode?: string;
  /** The parts of a request that message threads do not support. */
  readonly unsupported?: readonly string[];
  readonly shouldRetry?: boolean;
}

/** Answers with an error in the shape of the API. If an answer has already begun, closes its connection. */
export function sendError(response: ServerResponse, status: number, message: string, facts: ErrorFacts = {}): void {
  const { type = errorTypeOf(status), retryAfterMs, errorCode, unsupported, shouldRetry } = facts;
  if (response.headersSent) {
    response.socket?.destroy();
    return;
  }
  if (retryAfterMs !== undefined) {
    response.setHeader('retry-after', String(Math.ceil(retryAfterMs / 1_000)));
    response.setHeader('retry-after-ms', String(retryAfterMs));
  }
  if (shouldRetry !== undefined) response.setHeader('x-should-retry', String(shouldRetry));
  const details = errorCode === undefined ? {} : { details: { error_code: errorCode, ...defined({ unsupported }) } };
  sendJson(response, status, JSON.stringify({ type: 'error', error: { type, message, ...details } }));
}

/** Answers with a JSON text. */
export function sendJson(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(text);
}

/** Begins a stream of events. */
export function startStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
}

/** How an answer is streamed. */
export interface StreamManner {
  /** One of the faults that deliver the whole answer. */
  readonly fault: FaultKind | undefined;
  /** Draws the places where `slow_bytes` cuts the stream. */
  readonly random: () => number;
  /** Resolves when the next event is due; missing: all events are written at once. */
  readonly pause?: (() => Promise<void>) | undefined;
}

/** Streams an answer. Resolves when the whole answer is written, or when the client has closed the connection. */
export async function sendStream(
  response: ServerResponse,
  answer: ModelResponse,
  { fault, random, pause }: StreamManner,
): Promise<void> {
  startStream(response);
  const texts = streamTexts(answer);
  if (fault === 'slow_bytes') {
    const bytes = Buffer.from(texts.join(''));
    for (let start = 0; start < bytes.length && !response.destroyed; ) {
      const end = start + 1 + Math.floor(random() * SLOW_CHUNK_BYTES_MAX);
      response.write(bytes.subarray(start, end));
      start = end;
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
    return;
  }
  const events = fault === 'unknown_event' ? withUnknownEvents(texts) : texts;
  if (pause === undefined) {
    response.end(events.join(''));
    return;
  }
  for (const text of events) {
    if (response.destroyed) return;
    response.write(text);
    await pause();
  }
  response.end();
}

/**
 * Resolves once the server listens on the loopback address. Rejects with the error of the system. Port 0: any free
 * port.
 */
export function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Ends the server and its connections, including the busy ones. */
export function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
