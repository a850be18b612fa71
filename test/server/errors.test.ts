/**
 * Goal: each kind of wrong request has a distinct answer, as a problem that a program can read, and none reveals
 * internals.
 */
import { request } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { SERVER_BODY_BYTES_MAX } from '../../src/base/bounds.ts';
import { type ErrorCode, LimitError, MailboxFullError, ModelError, TroupeError } from '../../src/index.ts';
import * as answers from '../../src/server/answers.ts';
import { type HttpCode, HttpProblem, type ProblemCode, problemOf, problemResponse } from '../../src/server/problem.ts';
import { ERROR_CODES } from '../support/error-codes.ts';
import { gatedModel } from '../support/runtime-kit.ts';
import { type Answer, posted, serverKit } from './support.ts';

const kit = serverKit();
const nobody = (): void => undefined;

/** Status and code. Checks that the answer is a problem. */
function told({ status, headers, body }: Answer): readonly unknown[] {
  expect(headers.get('content-type')).toBe('application/problem+json');
  const problem = answers.problem.parse(body) as {
    readonly status: number;
    readonly code: string;
    readonly type: string;
  };
  expect(problem.status).toBe(status);
  expect(problem.type).toBe(`urn:troupe:problem:${problem.code}`);
  return [status, problem.code];
}

describe('requests', () => {
  test('an unknown path gets 404, a wrong method 405 with Allow', async () => {
    const { url, get, post } = await kit.serve();
    expect(told(await get('/nothing'))).toEqual([404, 'not_found']);
    expect(told(await get('/sessions/a/b/c'))).toEqual([404, 'not_found']);
    const wrong = await post('/sessions/s', {});
    expect(told(wrong)).toEqual([405, 'method_not_allowed']);
    expect(wrong.headers.get('allow')).toBe('GET, HEAD, DELETE');
    expect((await post('/metrics')).headers.get('allow')).toBe('GET, HEAD');
    expect((await get('/sessions/s/interrupt')).headers.get('allow')).toBe('POST');
    const options = await fetch(`${url}/sessions`, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
  });

  test.each([
    'GET /sessions/nope',
    'GET /sessions/nope/messages',
    'GET /sessions/nope/pending',
    'GET /sessions/nope/viewport',
    'GET /sessions/nope/request',
    'GET /sessions/nope/explain',
    'GET /sessions/nope/events',
    'GET /sessions/nope/receipts/1',
    'POST /sessions/nope/interrupt',
    'POST /sessions/nope/pause',
    'POST /sessions/nope/resume',
    'DELETE /sessions/nope',
  ])('F139: %s: the session is not found, and none is created', async (line) => {
    const { get } = await kit.serve();
    const [method = '', path = ''] = line.split(' ');
    expect(told(await get(path, { method }))).toEqual([404, 'unknown_session']);
    expect((await get('/sessions')).body).toEqual({ sessions: [] });
  });

  test('a body must be JSON, declare its type, have the expected form, and be within the bound', async () => {
    const { post, get } = await kit.serve();
    const send = (body: string | Uint8Array<ArrayBuffer>, type?: string): Promise<Answer> =>
      get('/sessions/s/messages', {
        method: 'POST',
        body,
        headers: type === undefined ? {} : { 'content-type': type },
      });
    const json = 'application/json';
    expect(told(await send('{"content":', json))).toEqual([400, 'bad_request']);
    expect(told(await send(new Uint8Array([0x22, 0xff, 0x22]), json))).toEqual([400, 'bad_request']);
    expect(told(await send('content=Hi', 'application/x-www-form-urlencoded'))).toEqual([
      415,
      'unsupported_media_type',
    ]);
    expect(told(await send('{"content":"Hi"}', 'text/plain'))).toEqual([415, 'unsupported_media_type']);
    expect(told(await send(new TextEncoder().encode('{"content":"Hi"}')))).toEqual([415, 'unsupported_media_type']);
    expect(told(await post('/sessions/s/messages'))).toEqual([400, 'bad_request']);
    for (const body of [
      null,
      1,
      [],
      {},
      { content: 5 },
      { content: 'Hi', extra: 1 },
      { content: 'Hi', deliver: 'now' },
      { content: [1] },
    ]) {
      expect(told(await post('/sessions/s/messages', body))).toEqual([400, 'bad_request']);
    }
    for (const content of [
      ' ',
      [],
      [{ type: 'text', text: ' ' }],
      [{ type: 'tool_use', id: 'a' }],
      [{ type: 'text' }],
    ]) {
      expect(told(await post('/sessions/s/messages', { content }))).toEqual([400, 'content']);
    }
    expect(told(await send(JSON.stringify({ content: 'x'.repeat(SERVER_BODY_BYTES_MAX) }), json))).toEqual([
      413,
      'body_too_large',
    ]);
    // None of these requests reached a session.
    expect((await get('/sessions')).body).toEqual({ sessions: [] });
    expect(told(await post('/sessions/s/messages', { content: 'x'.repeat(5_000_000) }))).toEqual([413, 'limit']);
    expect((await send('{"content":"Hi"}', 'application/json; charset=utf-8')).status).toBe(202);
  });

  test('a body without a declared length is refused as soon as it is too large', async () => {
    const { url } = await kit.serve();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const asked = request(`${url}/sessions/s/messages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
      });
      asked.on('response', (response) => resolve(response.statusCode));
      asked.on('error', reject);
      for (let sent = 0; sent <= SERVER_BODY_BYTES_MAX; sent += 1_048_576) asked.write(Buffer.alloc(1_048_576, 0x20));
      asked.write(' ');
    });
    expect(status).toBe(413);
  });

  test('a body announced with Expect is accepted, or refused before it is sent', async () => {
    const { url } = await kit.serve();
    const announce = (length: number): Promise<readonly unknown[]> =>
      new Promise((resolve, reject) => {
        const headers = { 'content-type': 'application/json', 'content-length': length, expect: '100-continue' };
        const asked = request(`${url}/sessions`, { method: 'POST', headers });
        let isAskedFor = false;
        asked.on('continue', () => {
          isAskedFor = true;
          asked.end(`{"id":"s"}${' '.repeat(length - 10)}`);
        });
        asked.on('response', (response) => {
          response.resume();
          resolve([isAskedFor, response.statusCode, response.headers.connection]);
          if (!isAskedFor) asked.destroy();
        });
        asked.on('error', reject);
        asked.flushHeaders();
      });
    expect(await announce(20)).toEqual([true, 201, 'keep-alive']);
    expect(await announce(SERVER_BODY_BYTES_MAX + 1)).toEqual([false, 413, 'close']);
  });

  test('a body that ends early is not reported as a failure of the server', async () => {
    const { url, get, errors } = await kit.serve();
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      'POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"id"',
    );
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.destroy();
    expect((await get('/sessions')).body).toEqual({ sessions: [] });
    expect(errors).toEqual([]);
  });

  test('invalid values are refused: ids, agents, numbers, modes', async () => {
    const { get, post } = await kit.serve();
    expect(told(await post('/sessions', { id: '../etc' }))).toEqual([400, 'invalid_name']);
    expect(told(await post('/sessions', {}))).toEqual([400, 'bad_request']);
    expect(told(await post('/sessions', { id: 's', agent: 'nope' }))).toEqual([400, 'unknown_agent']);
    expect(told(await get('/sessions/%2e%2e%2fetc'))).toEqual([400, 'invalid_name']);
    expect(told(await get('/sessions/%zz'))).toEqual([400, 'invalid_name']);
    await post('/sessions', { id: 's' });
    expect(told(await get('/sessions/s/events?after=-1'))).toEqual([400, 'bad_request']);
    expect(told(await get('/sessions/s/events?color=red'))).toEqual([400, 'bad_request']);
    expect(told(await get('/sessions/s/messages?after=x'))).toEqual([400, 'bad_request']);
    expect(told(await post('/sessions/s/recall', { pendingId: 0 }))).toEqual([400, 'bad_request']);
    expect(told(await post('/sessions/s/children', { task: ' ' }))).toEqual([400, 'config']);
    expect(told(await post('/sessions/s/children', { task: 'Go', name: 'Not A Name' }))).toEqual([400, 'invalid_name']);
    expect(told(await post('/sessions/s/children', { task: 'Go', tools: ['nope'] }))).toEqual([400, 'config']);
  });

  test('F137: an unknown mode is refused, on each stream', async () => {
    const { get, post } = await kit.serve();
    await post('/sessions', { id: 's' });
    expect(told(await get('/sessions/s/events?mode=loud'))).toEqual([400, 'bad_request']);
    expect(told(await get('/events?mode=loud'))).toEqual([400, 'bad_request']);
  });

  test('refusals of the session have their codes: busy, key reused, mailbox full', async () => {
    const model = gatedModel();
    const { post } = await kit.serve({ provider: model.provider, limits: { mailbox: 1 } });
    await post('/sessions/s/messages', { content: 'Hi', key: 'k' });
    await model.next();
    expect(told(await post('/sessions/s/messages', { content: 'Other', key: 'k' }))).toEqual([409, 'key_reused']);
    expect(told(await post('/sessions/s/messages', { content: 'Now', deliver: 'reject' }))).toEqual([
      409,
      'session_busy',
    ]);
    await post('/sessions/s/messages', { content: 'Waits' });
    const full = await post('/sessions/s/messages', { content: 'Too many' });
    expect(told(full)).toEqual([429, 'mailbox_full']);
    expect(Number(full.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(full.body).toMatchObject({ retryable: true });
  });

  test('a closed runtime is unavailable', async () => {
    const { post, runtime } = await kit.serve();
    await runtime.close();
    expect(told(await post('/sessions/s/messages', { content: 'Hi' }))).toEqual([503, 'cancelled']);
  });

  test('data that is not HTTP, and targets that are not paths, are refused', async () => {
    const { url } = await kit.serve();
    const { port } = new URL(url);
    const raw = (text: string): Promise<string> =>
      new Promise((resolve, reject) => {
        let answer = '';
        const socket = connect(Number(port), '127.0.0.1', () => socket.write(text));
        socket.setEncoding('utf8');
        socket.on('data', (piece: string) => {
          answer += piece;
          if (answer.includes('\r\n\r\n')) socket.destroy();
        });
        socket.on('close', () => resolve(answer.split('\r\n', 1)[0] ?? ''));
        socket.on('error', reject);
      });
    expect(await raw('nonsense\r\n\r\n')).toBe('HTTP/1.1 400 Bad Request');
    expect(await raw(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 431 /,
    );
    expect(await raw('GET http://evil.example/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n')).toBe(
      'HTTP/1.1 400 Bad Request',
    );
    expect(await raw('GET //evil.example/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n')).toBe('HTTP/1.1 404 Not Found');
    expect(await raw('TRACE / HTTP/1.1\r\nhost: localhost\r\n\r\n')).toBe('HTTP/1.1 405 Method Not Allowed');
    expect(await raw('GET /sessions HTTP/1.1\r\n\r\n')).toBe('HTTP/1.1 400 Bad Request');
  });
});

describe('the table', () => {
  const ofHttp: readonly HttpCode[] = [
    'bad_request',
    'unauthorized',
    'forbidden',
    'not_found',
    'method_not_allowed',
    'body_too_large',
    'unsupported_media_type',
  ];

  /** Every error code: the type requires each, and allows no other. */
  const codes: Readonly<Record<ProblemCode, true>> = {
    ...ERROR_CODES,
    bad_request: true,
    unauthorized: true,
    forbidden: true,
    role_missing: true,
    not_found: true,
    method_not_allowed: true,
    body_too_large: true,
    unsupported_media_type: true,
    headers_too_large: true,
    request_timeout: true,
  };

  test('each code has a failure status and a title', () => {
    for (const code of Object.keys(codes) as readonly ProblemCode[]) {
      const isOfHttp = ofHttp.some((known) => known === code);
      const thrown = isOfHttp ? new HttpProblem(code as HttpCode, 'why') : new TroupeError(code as ErrorCode, 'why');
      const problem = problemOf(thrown);
      expect(problem.code).toBe(code);
      expect([code, problem.status >= 400 && problem.status < 600]).toEqual([code, true]);
      expect(problem.title).not.toBe('');
    }
    const newer = new TroupeError('from_tomorrow' as ErrorCode, 'why', { retryable: true });
    expect(problemOf(newer)).toMatchObject({ status: 500, code: 'internal', detail: 'why', retryable: true });
    expect(problemOf(new TroupeError('store_full', 'full', { retryable: true }))).toEqual({
      type: 'urn:troupe:problem:store_full',
      title: 'The store refuses writes',
      status: 507,
      detail: 'full',
      code: 'store_full',
      retryable: true,
    });
  });

  test('retry-after is given in whole seconds, where waiting helps', () => {
    const wait = (error: unknown): string | null => problemResponse(error, nobody).headers.get('retry-after');
    expect(wait(new MailboxFullError('full', { retryAfterMs: 1_500 }))).toBe('2');
    expect(wait(new ModelError('model_rate_limited', 'slow down', { retryAfterMs: 30_000 }))).toBe('30');
    expect(wait(new ModelError('model_rate_limited', 'slow down'))).toBe('1');
    expect(wait(new LimitError('many', { retryable: true, data: { limit: 'subscribers' } }))).toBe('5');
    expect(wait(new LimitError('deep', { data: { limit: 'depth' } }))).toBeNull();
    expect(wait(new TroupeError('unknown_session', 'none'))).toBeNull();
  });

  test('different limits have different statuses', () => {
    const status = (limit: string, retryable: boolean): number =>
      problemOf(new LimitError('x', { retryable, data: { limit } })).status;
    expect(status('messageBytes', false)).toBe(413);
    expect(status('children', false)).toBe(422);
    expect(status('subscribers', true)).toBe(503);
  });

  test('F70: a client learns nothing of an internal failure; the log of the service has all of it', async () => {
    const errors: unknown[] = [];
    const secret = new Error('password=hunter2 at /srv/secret.ts');
    for (const thrown of [secret, 'hunter2', new TroupeError('internal', 'hunter2'), undefined]) {
      const response = problemResponse(thrown, (error) => errors.push(error));
      expect(response.status).toBe(500);
      expect(await response.text()).not.toContain('hunter2');
    }
    expect(errors).toHaveLength(4);
    expect(errors[0]).toBe(secret);
  });
});

test('F73: members named like those of a prototype are refused like any other, and change nothing', async () => {
  const { get } = await kit.serve();
  const body = '{"id":"s","__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}';
  expect(told(await get('/sessions', { ...posted({}), body }))).toEqual([400, 'bad_request']);
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});
