/**
 * Goal: a handler of one's own behind `nodeListener` has the bounds and the statuses of the server's. Method: a
 * `node:http` server over such a handler.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ContentError, InvalidArgumentError, LimitError } from '../../src/index.ts';
import { nodeListener, statusOf } from '../../src/server/index.ts';

const closes: (() => void)[] = [];
afterEach(() => {
  for (const close of closes.splice(0)) close();
});

async function listen(listener: ReturnType<typeof nodeListener>): Promise<string> {
  const server = createServer((incoming, outgoing) => void listener(incoming, outgoing));
  closes.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const length = async (request: Request): Promise<Response> => new Response(String((await request.text()).length));

/** A body in pieces, which does not say its length. */
function pieces(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      const size = Math.min(left, 65_536);
      if (size === 0) return controller.close();
      controller.enqueue(new Uint8Array(size).fill(120));
      left -= size;
    },
  });
}

test('a body beyond the bound is refused with 413, whether or not it says its length; within it, it is read', async () => {
  const url = await listen(nodeListener(length));
  const post = async (body: string | ReadableStream<Uint8Array>): Promise<Response> =>
    fetch(url, { method: 'POST', body, ...(typeof body === 'string' ? {} : { duplex: 'half' }) } as RequestInit);
  const large = await post('x'.repeat(9_000_000));
  expect([large.status, ((await large.json()) as { code: string }).code]).toEqual([413, 'body_too_large']);
  expect((await post(pieces(9_000_000))).status).toBe(413);
  expect(await (await post('x'.repeat(8_000_000))).text()).toBe('8000000');
});

test('bodyBytesMax sets another bound', async () => {
  const url = await listen(nodeListener(length, undefined, { bodyBytesMax: 10 }));
  expect((await fetch(url, { method: 'POST', body: '12345678901' })).status).toBe(413);
  expect(await (await fetch(url, { method: 'POST', body: '1234567890' })).text()).toBe('10');
});

test('statusOf: the status with which the server answers an error; 500 for any other', () => {
  expect(statusOf(new ContentError('blank'))).toBe(400);
  expect(statusOf(new InvalidArgumentError('message_not_found', 'gone'))).toBe(404);
  expect(statusOf(new LimitError('long', { data: { limit: 'messageBytes' } }))).toBe(413);
  expect(statusOf(new Error('secret'))).toBe(500);
  expect(statusOf('thrown')).toBe(500);
});
