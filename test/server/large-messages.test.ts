/**
 * Goal: a large message is checked, refused and recognised by its key like a small one, although the host thread does
 * not parse it. Bodies that are being read and bodies that wait share one bound. Method: the same bodies in small and
 * in large, and bodies that the test holds.
 */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import {
  ANSWER_SCHEMA_BYTES_MAX,
  LOOP_PIECE_BYTES_MIN,
  SERVER_BODIES_BYTES_MAX,
  SERVER_BODY_BYTES_MAX,
} from '../../src/base/bounds.ts';
import { BODIES } from '../../src/server/loop-budget.ts';
import { withBody } from '../../src/server/request-body.ts';
import { deferred, eventually, failure } from '../support/runtime-kit.ts';
import { serverKit } from './support.ts';

const kit = serverKit();
const threads = { sessions: 1 };
const filler = 'x'.repeat(LOOP_PIECE_BYTES_MIN);
const json = { headers: { 'content-type': 'application/json' } };

const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } } };
/** A schema above the bound of a schema, also without `rest`. */
const tooLarge = (rest: string): object => ({ ...SCHEMA, description: 'x'.repeat(ANSWER_SCHEMA_BYTES_MAX) + rest });

afterEach(() => {
  vi.restoreAllMocks();
});

describe('large messages', () => {
  test('are answered like small ones, valid or not', async () => {
    const { url, post, errors } = await kit.serve({ threads });
    const told = async (body: string): Promise<readonly unknown[]> => {
      const response = await fetch(`${url}/sessions/s/messages`, { method: 'POST', body, ...json });
      const { code } = (await response.json()) as { readonly code?: unknown };
      return [response.status, code];
    };
    const bodies: readonly (readonly [(rest: string) => string, readonly unknown[]])[] = [
      [(rest) => JSON.stringify({ content: `Hi${rest}` }), [202, undefined]],
      [(rest) => JSON.stringify({ content: [{ type: 'text', text: `Hi${rest}` }] }), [202, undefined]],
      [(rest) => JSON.stringify({ content: ' '.repeat(rest.length + 1) }), [400, 'content']],
      [(rest) => JSON.stringify({ content: [{ type: 'tool_use', id: `a${rest}` }] }), [400, 'content']],
      [(rest) => JSON.stringify({ content: 'Hi', extra: rest }), [400, 'bad_request']],
      [(rest) => JSON.stringify({ content: 'Hi', key: `k${rest}`.repeat(300) }), [400, 'bad_request']],
      [(rest) => JSON.stringify({ content: 5, from: rest }), [400, 'bad_request']],
      [(rest) => `{"content":"Hi${rest}`, [400, 'bad_request']],
      [(rest) => JSON.stringify({ content: `Hi${rest}`, output: [] }), [400, 'bad_request']],
      [(rest) => JSON.stringify({ content: `Hi${rest}`, output: { type: 'string' } }), [400, 'config']],
      [(rest) => JSON.stringify({ content: `Hi${rest}`, output: SCHEMA, deliver: 'ride' }), [400, 'config']],
      [(rest) => JSON.stringify({ content: `Hi${rest}`, output: tooLarge(rest) }), [400, 'config']],
      [(rest) => JSON.stringify({ content: `Hi${rest}`, output: SCHEMA }), [202, undefined]],
      [(rest) => JSON.stringify([`Hi${rest}`]), [400, 'bad_request']],
    ];
    for (const [bodyOf, wanted] of bodies) {
      expect(await told(bodyOf(''))).toEqual(wanted);
      expect(await told(bodyOf(filler))).toEqual(wanted);
    }
    expect((await post('/sessions/s/messages', { content: 'Bye' })).status).toBe(202);
    expect(errors).toEqual([]);
  });

  test('are recognised by their key, also when they are sent without HTTP', async () => {
    const { post, runtime } = await kit.serve({ threads });
    const content = `ünïcode 🦊 ${filler}`;
    const first = await post('/sessions/s/messages', { content, key: 'k', deliver: 'turn', from: 'me' });
    const again = await post('/sessions/s/messages', { content, key: 'k' });
    expect(first.body).toMatchObject({ duplicate: false });
    expect(again.body).toEqual({ ...(first.body as object), duplicate: true });
    expect(await runtime.session('s').send(content, { key: 'k' })).toMatchObject({ duplicate: true });
    expect((await post('/sessions/s/messages', { content: `other ${content}`, key: 'k' })).status).toBe(409);
    const [message] = await runtime.session('s').messages();
    expect(message).toMatchObject({ content, source: { name: 'me' } });
  });

  test('are parsed by the thread of their session, not on the host', async () => {
    const { post } = await kit.serve({ threads });
    const parse = vi.spyOn(JSON, 'parse');
    expect((await post('/sessions/s/messages', { content: 'Hi' })).status).toBe(202);
    expect((await post('/sessions/s/messages', { content: filler })).status).toBe(202);
    const texts = parse.mock.calls.map(([text]) => String(text));
    expect(texts.some((text) => text.includes('"Hi"'))).toBe(true);
    expect(texts.filter((text) => text.length >= LOOP_PIECE_BYTES_MIN)).toEqual([]);
  });
});

test('F63: bodies count until they are used; one above the bound is read, refused, and accepted once there is room', async () => {
  const held = deferred<Response>();
  const count = SERVER_BODIES_BYTES_MAX / SERVER_BODY_BYTES_MAX;
  let uses = 0;
  const useLarge = (): Promise<Response> => {
    uses += 1;
    return uses > count ? Promise.resolve(new Response()) : held.promise;
  };
  const large = (bytes: number): Promise<Response> => {
    const request = new Request('http://localhost/', { method: 'POST', body: new Uint8Array(bytes), ...json });
    return withBody(request, { schema: z.unknown(), use: () => new Response(), useLarge });
  };
  const used = Array.from({ length: count }, () => large(SERVER_BODY_BYTES_MAX));
  // No body is being read any more, and all bodies are held.
  await eventually(() => uses === count);
  const refused = await failure(large(SERVER_BODY_BYTES_MAX));
  expect(refused).toMatchObject({ code: 'limit', retryable: true, data: { limit: 'bodies' } });
  held.resolve(new Response());
  await Promise.all(used);
  expect((await large(SERVER_BODY_BYTES_MAX)).status).toBe(200);
});

test('a large piece of a body and the use of a large body wait for a tick that has room', async () => {
  const [piece, whole] = [deferred(), deferred()];
  const take = vi.spyOn(BODIES, 'take').mockReturnValueOnce(piece.promise).mockReturnValueOnce(whole.promise);
  let pulls = 0;
  let uses = 0;
  const pieces = [new Uint8Array(LOOP_PIECE_BYTES_MIN), new Uint8Array(100)];
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const next = pieces[pulls];
        pulls += 1;
        if (next === undefined) controller.close();
        else controller.enqueue(next);
      },
    },
    { highWaterMark: 0 },
  );
  const request = new Request('http://localhost/', { method: 'POST', body, duplex: 'half', ...json });
  const answer = withBody(request, {
    schema: z.unknown(),
    use: () => new Response(),
    useLarge: async () => {
      uses += 1;
      return new Response();
    },
  });
  await eventually(() => pulls > 0);
  expect([pulls, uses, take.mock.calls]).toEqual([1, 0, [[LOOP_PIECE_BYTES_MIN]]]);
  piece.resolve();
  await eventually(() => pulls > 1);
  expect([pulls, uses, take.mock.calls.slice(1)]).toEqual([3, 0, [[LOOP_PIECE_BYTES_MIN + 100]]]);
  whole.resolve();
  expect((await answer).status).toBe(200);
  expect([uses, take.mock.calls.length]).toEqual([1, 2]);
});
