/** Goal: no body and no address, whatever their bytes, makes the server answer with a 500. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { handler } from '../../src/server/index.ts';
import { echo, serverKit } from './support.ts';

const kit = serverKit();
const POSTS = [
  '/sessions',
  ...['messages', 'interrupt', 'pause', 'resume', 'recall', 'approve', 'answer', 'children'].map(
    (name) => `/sessions/s/${name}`,
  ),
];
const GETS = ['', '/messages', '/pending', '/request', '/viewport', '/explain', '/receipts/1', '/events'];

const names = [
  'id',
  'agent',
  'content',
  'key',
  'deliver',
  'reason',
  'task',
  'name',
  'tools',
  'pendingId',
  'callId',
  'allow',
  'value',
  'decline',
  'input',
  '__proto__',
  'constructor',
  'toJSON',
];
const member = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    's',
    '',
    ' ',
    '\ud800',
    '../x',
    'x'.repeat(300),
    0,
    -1,
    1e308,
    [{ type: 'text', text: 'x' }],
    [{ type: 'image' }],
    [{ type: 'text', text: '\u0000' }],
    'interrupt',
  ),
);
const object = fc.dictionary(fc.constantFrom(...names), member).map((value) => JSON.stringify(value));
const deep = fc.integer({ min: 1, max: 20_000 }).map((depth) => `{"content":${'['.repeat(depth)}${']'.repeat(depth)}}`);
const body = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => new Uint8Array(bytes)),
  fc.oneof(fc.json(), object, deep, fc.string()).map((text) => new TextEncoder().encode(text)),
);

test('T5: any bytes sent as a body are answered, and never with 500', async () => {
  const runtime = await kit.open({ provider: echo });
  const errors: unknown[] = [];
  const answer = handler(runtime, { hosts: ['localhost'], onError: (error) => errors.push(error) });
  await runtime.session('s').send('Hi');
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...POSTS), body, fc.boolean(), async (path, bytes, isJson) => {
      const headers = isJson ? { 'content-type': 'application/json' } : {};
      const response = await answer(new Request(`http://localhost${path}`, { method: 'POST', body: bytes, headers }));
      await response.body?.cancel();
      expect([response.status, errors]).toEqual([expect.toSatisfy((status) => status !== 500), []]);
    }),
    { numRuns: 600 },
  );
  expect((await answer(new Request('http://localhost/healthz'))).status).toBe(200);
});

test('T5: any address is answered, and never with 500', async () => {
  const runtime = await kit.open({ provider: echo });
  const errors: unknown[] = [];
  const answer = handler(runtime, { hosts: ['localhost'], onError: (error) => errors.push(error) });
  await runtime.session('s').ask('Hi');
  const part = fc.oneof(fc.constantFrom('s', '%', '%ff', '..', '%2f', 's%2F1', '%00', 'observer'), fc.string());
  await fc.assert(
    fc.asyncProperty(
      part,
      fc.constantFrom(...GETS),
      fc.string(),
      fc.dictionary(fc.constantFrom('after', 'limit', 'mode', 'wait', 'x'), fc.string()),
      async (id, rest, tail, query) => {
        let url: URL;
        try {
          url = new URL(`http://localhost/sessions/${id}${rest}${tail}?${new URLSearchParams(query)}`);
        } catch {
          return fc.pre(false);
        }
        // A request that waits for an answer takes as long as the turn.
        const response = await answer(new Request(url));
        await response.body?.cancel();
        expect([response.status, errors]).toEqual([expect.toSatisfy((status) => status !== 500), []]);
      },
    ),
    { numRuns: 400 },
  );
});
