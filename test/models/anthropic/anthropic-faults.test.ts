/**
 * Goal: each fault of the connection is reported as the right error. Method: the provider over the vendor's SDK, with
 * an injected fetch or a real socket.
 */
import { createServer as createNetServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { ModelError } from '../../../src/base/errors.ts';
import { type AnthropicOptions, anthropic, createAnthropicProvider } from '../../../src/models/anthropic/anthropic.ts';
import type { ModelProvider, ModelResponse } from '../../../src/models/provider.ts';
import { resolveProvider } from '../../../src/models/resolve.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { deferred } from '../../support/runtime-kit.ts';
import { ask, context, failure, withFake } from '../calls.ts';
import { event, RECORDED_STREAMS } from '../fixtures/recorded-streams.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A provider with a stream that the test writes. */
function streaming(options: AnthropicOptions = {}): {
  readonly clock: ReturnType<typeof manualClock>;
  readonly call: Promise<ModelResponse | ModelError>;
  /** The provider has read a part of the answer. */
  readonly begun: Promise<void>;
  write(text: string): Promise<void>;
  end(): void;
} {
  const clock = manualClock();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (made) => {
      controller = made;
    },
  });
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body));
  const provider = createAnthropicProvider({ apiKey: 'sk-of-this-test', ...options }, fetch, clock);
  const begun = deferred();
  const told = { ...context(), onDelta: () => begun.resolve() };
  const call = provider.generate(ask(), told).catch((error: ModelError) => error);
  return {
    clock,
    call,
    begun: begun.promise,
    async write(text) {
      controller?.enqueue(Buffer.from(text));
      await clock.advance(0);
    },
    end: () => controller?.close(),
  };
}

const TEXT = RECORDED_STREAMS[0]?.text ?? '';
const HALF = TEXT.slice(0, TEXT.indexOf('event: content_block_stop'));

describe('F23: a model that answers late', () => {
  it('F23: no first byte in time is a timeout of that phase, without a status because no server sent one', async () => {
    const clock = manualClock();
    const never = (): Promise<Response> => new Promise(() => undefined);
    const provider = createAnthropicProvider({ apiKey: 'sk-of-this-test', firstByteTimeoutMs: 700 }, never, clock);
    const error = failure(provider);
    await clock.advance(700);
    expect(await error).toMatchObject({ code: 'model_timeout', retryable: true, data: { phase: 'ttfb' } });
    expect(((await error) as ModelError).status).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('F23: silence in the middle of a stream is its own kind of timeout, and reports the tokens used', async () => {
    const { clock, call, begun, write } = streaming({ idleTimeoutMs: 500 });
    await write(HALF);
    await begun;
    await clock.advance(500);
    expect(await call).toMatchObject({
      code: 'model_timeout',
      retryable: true,
      data: { phase: 'idle', lostUsage: { input_tokens: 25 } },
    });
  });

  it('F23: a ping resets the silence timeout', async () => {
    const { clock, call, begun, write, end } = streaming({ idleTimeoutMs: 500 });
    await write(HALF);
    await begun;
    for (let ping = 0; ping < 10; ping += 1) {
      await clock.advance(499);
      await write(event('ping'));
    }
    await write(TEXT.slice(HALF.length));
    end();
    expect(await call).toMatchObject({ stop_reason: 'end_turn' });
    expect(clock.pending).toBe(0);
  });

  it('F23: a stream that only sends pings ends at the timeout of the whole call', async () => {
    const { clock, call, begun, write } = streaming({ idleTimeoutMs: 500, timeoutMs: 2_000 });
    await write(HALF);
    await begun;
    for (let ping = 0; ping < 4; ping += 1) {
      await clock.advance(400);
      await write(event('ping'));
    }
    await clock.advance(400);
    expect(await call).toMatchObject({ code: 'model_timeout', retryable: true, data: { phase: 'total' } });
  });

  it('F23: an answer that is complete on a stream that stays open is returned after a second, not lost', async () => {
    const { clock, call, begun, write } = streaming({ idleTimeoutMs: 60_000 });
    await write(TEXT);
    await begun;
    await clock.advance(1_000);
    expect(await call).toMatchObject({ content: [{ text: 'Hello, world.' }], stop_reason: 'end_turn' });
    expect(clock.pending).toBe(0);
  });

  it('F23: the time limits are options, and the error for an invalid one names it', () => {
    expect(() => anthropic({ idleTimeoutMs: 0 })).toThrow(/anthropic\.idleTimeoutMs/);
    expect(() => anthropic({ firstByteTimeoutMs: 0.5 })).toThrow(/anthropic\.firstByteTimeoutMs/);
  });
});

describe('F22: a connection that fails', () => {
  /** Fails as the platform's fetch does. */
  function failing(code: string, message: string): ModelProvider {
    const cause = Object.assign(new Error(message), { code });
    const fetch = (): Promise<Response> => Promise.reject(new TypeError('fetch failed', { cause }));
    return createAnthropicProvider({ apiKey: 'sk-of-this-test' }, fetch);
  }

  it.each([
    ['ENOTFOUND', 'getaddrinfo ENOTFOUND api.example'],
    ['EAI_AGAIN', 'getaddrinfo EAI_AGAIN api.example'],
    ['CERT_HAS_EXPIRED', 'certificate has expired'],
    ['ECONNRESET', 'read ECONNRESET'],
    ['EHOSTUNREACH', 'connect EHOSTUNREACH 10.0.0.1:443'],
  ])('F22: %s is a lost connection: retryable, with code and cause', async (code, message) => {
    const error = (await failure(failing(code, message))) as ModelError;
    expect(error).toMatchObject({ code: 'model_connection', retryable: true, data: { network: code } });
    expect(error.message).toContain(message);
    expect(error.message).not.toMatch(/\.:/);
    expect(error.cause).toBeInstanceOf(Error);
  });

  it('F22, F23: a connection that takes too long is a timeout before the first byte', async () => {
    const error = await failure(failing('UND_ERR_CONNECT_TIMEOUT', 'Connect Timeout Error'));
    expect(error).toMatchObject({ code: 'model_timeout', retryable: true, data: { phase: 'ttfb' } });
  });

  it('F22: a server without TLS is a lost connection', async () => {
    await withFake({ script: [] }, async (fake) => {
      const provider = await resolveProvider(
        anthropic({ apiKey: 'sk-of-this-test', baseURL: fake.url.replace('http:', 'https:') }),
      );
      const error = (await failure(provider)) as ModelError;
      expect(error).toMatchObject({ code: 'model_connection', retryable: true });
      expect(error.data['network']).toMatch(/SSL|EPROTO/);
      expect(error.cause).toBeInstanceOf(Error);
    });
  });

  it('F22: a server that closes the connection before it sends anything is a lost connection', async () => {
    const server = createNetServer((socket) => socket.on('data', () => socket.destroy()));
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    closers.push(() => new Promise((resolve) => server.close(() => resolve())));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const provider = await resolveProvider(
      anthropic({ apiKey: 'sk-of-this-test', baseURL: `http://127.0.0.1:${port}` }),
    );
    const error = (await failure(provider)) as ModelError;
    expect(error).toMatchObject({ code: 'model_connection', retryable: true });
    expect(error.data['network']).toMatch(/ECONNRESET|UND_ERR_SOCKET/);
  });
});

describe('F35: a request the API refuses', () => {
  function refusing(status: number): ModelProvider {
    const body = JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: 'no' } });
    return createAnthropicProvider({ apiKey: 'sk-of-this-test' }, () =>
      Promise.resolve(new Response(body, { status })),
    );
  }

  it('F35, N6: the error names the broken rule if our own rules know it', async () => {
    const orphan = ask('x', {
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'add', input: {} }] },
        { role: 'user', content: 'b' },
      ],
    });
    const error = await failure(refusing(400), orphan);
    expect(error).toMatchObject({
      ...{ name: 'ModelInvalidRequestError', code: 'model_invalid_request', status: 400, retryable: false },
      ...{ message: 'no', data: { rule: 'R01', path: 'messages.1', status: 400, type: 'invalid_request_error' } },
    });
  });

  it('F35, N6: the error names no rule for a legal request or for another status', async () => {
    for (const status of [400, 404, 413]) {
      const error = (await failure(refusing(status))) as ModelError;
      expect(error.status).toBe(status);
      expect(error.data).not.toHaveProperty('rule');
    }
  });

  it.each([
    ['claude-opus-5.5', 'claude-opus-5-5'],
    ['claude-sonet-5', 'claude-sonnet-5'],
    ['Claude-Haiku-4-5-20990101', 'claude-haiku-4-5'],
    ['claude-opus', 'claude-opus-5-5'],
  ])('N7: the error about the unknown model %s names %s', async (model, meant) => {
    const remedy = `did you mean "${meant}"?`;
    expect(await failure(refusing(404), ask('x', { model }))).toMatchObject({
      ...{ code: 'model_invalid_request', status: 404, message: `no; ${remedy}` },
      data: { model, remedy, status: 404 },
    });
  });

  it('N7: no model is proposed for a known one, for one that resembles none, and for another refusal', async () => {
    for (const [status, model] of [
      [404, 'claude-opus-5-5'],
      [404, 'llama-4'],
      [400, 'claude-opus-5.5'],
    ] as const) {
      const error = (await failure(refusing(status), ask('x', { model }))) as ModelError;
      expect(error).toMatchObject({ status, message: 'no' });
      expect(error.data).not.toHaveProperty('remedy');
    }
  });
});

it('F20: a wait of days is kept, one of more than a year is a year', async () => {
  const dayMs = 24 * 3_600_000;
  for (const [headers, waitMs] of [
    [{ 'retry-after': '2592000' }, 30 * dayMs],
    [{ 'retry-after-ms': String(3 * dayMs), 'retry-after': '1' }, 3 * dayMs],
    [{ 'retry-after': '1e9' }, 366 * dayMs],
    [{ 'retry-after-ms': '1e15' }, 366 * dayMs],
    [{ 'retry-after': 'Fri, 31 Dec 9999 00:00:00 GMT' }, 366 * dayMs],
  ] as const) {
    const busy = (): Promise<Response> => Promise.resolve(new Response('busy', { status: 429, headers }));
    const error = (await failure(createAnthropicProvider({ apiKey: 'sk-of-this-test' }, busy))) as ModelError;
    expect(error.retryAfterMs).toBe(waitMs);
  }
});

describe('the remedy of a refusal', () => {
  const at = (url: string): ModelProvider => createAnthropicProvider({ apiKey: 'sk-of-this-test', baseURL: url });

  it.each([
    ['ramp_limit_exceeded', 429, 'model_rate_limited', true],
    ['enforced_spend_limit_reached', 429, 'model_authentication', false],
    ['contract_spend_limit_reached', 429, 'model_authentication', false],
    ['linked_organization_billing_unavailable', 402, 'model_authentication', false],
    ['linked_organization_spend_limit_reached', 402, 'model_authentication', false],
    ['cmek_key_unreachable', 503, 'model_overloaded', true],
    ['cmek_context_unavailable', 503, 'model_overloaded', true],
    ['cmek_key_disabled', 400, 'model_authentication', false],
    ['cmek_key_network_blocked', 403, 'model_authentication', false],
    ['organization_on_hold', 400, 'model_authentication', false],
    ['organization_not_enrolled_in_beta', 400, 'model_authentication', false],
    ['claude_code_anything', 400, 'model_authentication', false],
    ['request_body_encoding_invalid', 400, 'model_invalid_request', false],
    ['request_body_timeout', 408, 'model_timeout', true],
    ['request_body_timeout', 400, 'model_overloaded', true],
    ['compaction_unavailable', 529, 'model_overloaded', true],
    ['compaction_signature_invalid', 400, 'model_invalid_request', false],
    ['thread_not_found', 404, 'model_invalid_request', false],
    ['image_dimensions_too_large', 400, 'model_invalid_request', false],
    ['a_code_of_next_year', 429, 'model_rate_limited', true],
  ] as const)('F36: error code %s with status %i is %s', async (errorCode, status, code, retryable) => {
    await withFake({ script: [{ error: { status, errorCode, message: 'no' } }] }, async (fake) => {
      const error = await failure(at(fake.url));
      expect(error).toMatchObject({ code, status, retryable, data: { errorCode } });
    });
  });

  it('F36: a spend limit that says when it ends is waited out; the own limit, which has no code, stops', async () => {
    const limit = { status: 429, errorCode: 'enforced_spend_limit_reached', retryAfterMs: 200_000_000 };
    const own = { status: 400, message: 'You have reached your specified API usage limits. Access on 2026-12-01.' };
    await withFake({ script: [{ error: limit }, { error: own }] }, async (fake) => {
      const waits = { code: 'model_rate_limited', retryable: true, retryAfterMs: 200_000_000 };
      expect(await failure(at(fake.url))).toMatchObject(waits);
      expect(await failure(at(fake.url))).toMatchObject({ code: 'model_authentication', retryable: false });
    });
  });

  it.each([
    [429, true, undefined, 'model_rate_limited', true],
    [429, false, undefined, 'model_rate_limited', false],
    [529, false, undefined, 'model_overloaded', false],
    [400, true, undefined, 'model_overloaded', true],
    [403, true, 'organization_on_hold', 'model_overloaded', true],
    [503, false, 'cmek_key_unreachable', 'model_overloaded', false],
  ] as const)(
    'F20: status %i with x-should-retry: %s and code %s is %s',
    async (status, shouldRetry, errorCode, code, retryable) => {
      const error = { status, shouldRetry, ...(errorCode === undefined ? {} : { errorCode }) };
      await withFake({ script: [{ error }] }, async (fake) => {
        expect(await failure(at(fake.url))).toMatchObject({ code, retryable });
      });
    },
  );
});
