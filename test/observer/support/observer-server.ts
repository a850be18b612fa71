/**
 * The HTTP interface the observer page speaks to, over a real runtime: as much of it as the page asks for. What a test wants to
 * see go wrong it can switch: a token that is asked for, streams that break, answers that fail.
 */
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { z } from 'zod';
import { checkRequest } from '../../../src/context/legality.ts';
import type { Deliver, Runtime, Session, SessionEvent } from '../../../src/index.ts';
import { TroupeError } from '../../../src/index.ts';

/** A server for the page. */
export interface ObserverServer {
  /** Where the page is. */
  readonly url: string;
  /** Ends all event streams, as a server that is restarted does; new ones are refused while `isDown`. */
  breakStreams(): void;
  /** True: every request is answered with 503. */
  isDown: boolean;
  /** Requests so far: `METHOD path`, and ` after N` where a stream goes on behind its event N. */
  readonly requests: readonly string[];
  /** Event streams that are open. */
  readonly streams: number;
  close(): Promise<void>;
}

const bodySchema = z.object({
  content: z.string().optional(),
  deliver: z.string().optional(),
  pendingId: z.number().optional(),
  callId: z.string().optional(),
  allow: z.boolean().optional(),
});
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const POLICY = [
  ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

/** Serves `pages` (a built page) and the interface on a free port of the loopback. */
export async function observerServer(
  runtime: Runtime,
  options: {
    readonly pages: string;
    readonly token?: string;
    /** Answers to `approve`; missing: 501, as of a runtime without it. */
    readonly approve?: (session: string, callId: string, allow: boolean) => void;
    /** Added to what the counters say. */
    readonly metrics?: () => Readonly<Record<string, unknown>>;
    /** Takes the place of the answer to a request of this path. */
    readonly override?: (path: string) => unknown;
  },
): Promise<ObserverServer> {
  const streams = new Set<ServerResponse>();
  const requests: string[] = [];
  const state = { isDown: false };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const method = request.method ?? 'GET';
    const lastId = request.headers['last-event-id'];
    requests.push(`${method} ${url.pathname}${lastId === undefined ? '' : ` after ${String(lastId)}`}`);
    if (url.pathname.startsWith('/observer/')) return await sendPage(options.pages, url.pathname, response);
    if (state.isDown) return problem(response, 503, 'internal', 'the server is being restarted');
    if (options.token !== undefined && request.headers.authorization !== `Bearer ${options.token}`) {
      return problem(response, 401, 'unauthorised', 'a token is required');
    }
    const override = options.override?.(url.pathname);
    if (override !== undefined) return json(response, 200, override);
    const [, head = '', rawId = '', action = ''] = url.pathname.split('/');
    const id = decodeURIComponent(rawId);
    if (head === 'info') return json(response, 200, runtime.info());
    if (head === 'metrics.json') {
      return json(response, 200, { ...runtime.metrics(), loopDelayMs: 0.4, ...options.metrics?.() });
    }
    if (head === 'events') return await stream(runtime.events(), request, response);
    if (head !== 'sessions') return problem(response, 404, 'not_found', 'no such route');
    if (id === '') return json(response, 200, await list(runtime, url.searchParams));
    const found = await runtime.sessions.get(id);
    if (found === undefined) return problem(response, 404, 'unknown_session', `there is no session ${id}`);
    const session = runtime.session(id);
    if (method === 'DELETE') return json(response, 200, { deleted: await session.delete() });
    if (method === 'POST') return await act(session, action, await bodyOf(request), response);
    if (action === '') return json(response, 200, { ...found, ...(await session.state()) });
    if (action === 'events') {
      const after = Number(request.headers['last-event-id'] ?? url.searchParams.get('after') ?? 0);
      return await stream(session.events({ after }), request, response);
    }
    return await read(session, action, url.searchParams, response);
  };

  const stream = async (
    events: AsyncIterableIterator<SessionEvent>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write(': here\n\n');
    streams.add(response);
    request.on('close', () => {
      events.return?.().catch(() => undefined);
    });
    try {
      for await (const event of events) {
        const id = event.seq === undefined ? '' : `id: ${event.seq}\n`;
        const isFree = response.write(`event: ${event.type}\n${id}data: ${JSON.stringify(event)}\n\n`);
        if (!isFree) await drained(response);
        if (response.destroyed) break;
      }
    } finally {
      streams.delete(response);
      response.end();
    }
  };

  const act = async (
    session: Session,
    action: string,
    body: z.infer<typeof bodySchema>,
    response: ServerResponse,
  ): Promise<void> => {
    if (action === 'messages') {
      const receipt = await session.send(body.content ?? '', { deliver: (body.deliver ?? 'ride') as Deliver });
      return json(response, 202, { id: receipt.id });
    }
    if (action === 'interrupt') return json(response, 200, { interrupted: await session.interrupt() });
    if (action === 'pause') return json(response, 200, (await session.pause()) ?? {});
    if (action === 'resume') return json(response, 200, (await session.resume()) ?? {});
    if (action === 'recall') return json(response, 200, { recalled: await session.recall(body.pendingId ?? 0) });
    if (action === 'approve' && options.approve !== undefined) {
      options.approve(session.id, body.callId ?? '', body.allow ?? false);
      return json(response, 200, {});
    }
    if (action === 'approve') return problem(response, 501, 'not_implemented', 'this runtime knows no approvals');
    problem(response, 404, 'not_found', 'no such route');
  };

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (response.headersSent) {
        response.destroy();
        return;
      }
      const code = error instanceof TroupeError ? error.code : 'internal';
      problem(
        response,
        code === 'session_busy' ? 409 : 400,
        code,
        error instanceof Error ? error.message : String(error),
      );
    });
  });
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
    get streams() {
      return streams.size;
    },
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

async function list(runtime: Runtime, query: URLSearchParams): Promise<unknown> {
  const limit = Math.min(1_000, Number(query.get('limit') ?? 1_000));
  const after = query.get('after');
  const sessions = await runtime.sessions.list({ limit, ...(after === null ? {} : { after }) });
  const next = sessions.length < limit ? undefined : sessions.at(-1)?.id;
  return next === undefined ? { sessions } : { sessions, next };
}

async function read(session: Session, action: string, query: URLSearchParams, response: ServerResponse): Promise<void> {
  switch (action) {
    case 'messages': {
      const limit = Math.min(1_000, Number(query.get('limit') ?? 1_000));
      const messages = await session.messages({ after: Number(query.get('after') ?? 0), limit });
      const next = messages.length < limit ? undefined : messages.at(-1)?.seq;
      return json(response, 200, next === undefined ? { messages } : { messages, next });
    }
    case 'pending':
      return json(response, 200, { pending: await session.pending() });
    case 'viewport':
      return json(response, 200, { messages: await session.viewport() });
    case 'explain':
      return json(response, 200, await session.explain());
    case 'request': {
      const request = await session.request();
      return json(response, 200, { ...request, violations: checkRequest(request) });
    }
    default:
      return problem(response, 404, 'not_found', 'no such route');
  }
}

async function sendPage(pages: string, path: string, response: ServerResponse): Promise<void> {
  const name = normalize(path.slice('/observer/'.length)) || 'index.html';
  const file = join(pages, name === '.' ? 'index.html' : name);
  try {
    const content = await readFile(file);
    response.writeHead(200, {
      'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
    });
    response.end(content);
  } catch {
    problem(response, 404, 'not_found', 'no such file');
  }
}

async function bodyOf(request: IncomingMessage): Promise<z.infer<typeof bodySchema>> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const text = Buffer.concat(pieces).toString('utf8');
  return bodySchema.parse(text === '' ? {} : JSON.parse(text));
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.once('drain', done);
    response.once('close', done);
  });
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
}

function problem(response: ServerResponse, status: number, code: string, detail: string): void {
  response.writeHead(status, { 'content-type': 'application/problem+json' });
  response.end(JSON.stringify({ type: 'about:blank', title: code, status, code, detail }));
}
