/**
 * Goal: each fault of the connection is reported as what it is. Method: the provider over the vendor's SDK, with an
 * injected fetch or a real socket.
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

describe('F23: a late model', () => {
  it('F23: no first byte is a timeout of that phase, told with no status, for no server said one', async () => {
    const clock = manualClock();
    const never = (): Promise<Response> => new Promise(() => undefined);
    const provider = createAnthropicProvider({ apiKey: 'sk-of-this-test', firstByteTimeoutMs: 700 }, never, clock);
    const error = failure(provider);
    await clock.advance(700);
    expect(await error).toMatchObject({ code: 'model_timeout', retryable: true, data: { phase: 'ttfb' } });
    expect(((await error) as ModelError).status).toBeUndefined();
    expect(clock.pending).toBe(0);
  });

  it('F23: silence in mid stream is one of its own, with what was used', async () => {
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

  it('F23: pings count as life', async () => {
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

  it('F23: a stream that pings for ever ends with the whole', async () => {
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

  it('F23: a whole answer whose stream does not end is given after a second, not lost', async () => {
    const { clock, call, begun, write } = streaming({ idleTimeoutMs: 60_000 });
    await write(TEXT);
    await begun;
    await clock.advance(1_000);
    expect(await call).toMatchObject({ content: [{ text: 'Hello, world.' }], stop_reason: 'end_turn' });
    expect(clock.pending).toBe(0);
  });

  it('F23: the limits are options, refused by name where they are none', () => {
    expect(() => anthropic({ idleTimeoutMs: 0 })).toThrow(/anthropic\.idleTimeoutMs/);
    expect(() => anthropic({ firstByteTimeoutMs: 0.5 })).toThrow(/anthropic\.firstByteTimeoutMs/);
  });
});

describe('F22: no connection', () => {
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
  ])('F22: %s is a lost connection, retryable, code and cause kept', async (code, message) => {
    const error = (await failure(failing(code, message))) as ModelError;
    expect(error).toMatchObject({ code: 'model_connection', retryable: true, data: { network: code } });
    expect(error.message).toContain(message);
    expect(error.cause).toBeInstanceOf(Error);
  });

  it('F22, F23: a connection that takes too long is a timeout before the first byte', async () => {
    const error = await failure(failing('UND_ERR_CONNECT_TIMEOUT', 'Connect Timeout Error'));
    expect(error).toMatchObject({ code: 'model_timeout', retryable: true, data: { phase: 'ttfb' } });
  });

  it('F22: a server that speaks no TLS', async () => {
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

  it('F22: a server that hangs up before it says a word', async () => {
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

  it('F35, N6: names the rule it breaks, where our own rules know it', async () => {
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

  it('F35, N6: names none for a legal request, nor for another status', async () => {
    for (const status of [400, 404, 413]) {
      const error = (await failure(refusing(status))) as ModelError;
      expect(error.status).toBe(status);
      expect(error.data).not.toHaveProperty('rule');
    }
  });
});

it('F20: a wait of more than a day is a day', async () => {
  for (const headers of [
    { 'retry-after': '1e9' },
    { 'retry-after-ms': '1e15' },
    { 'retry-after': 'Fri, 31 Dec 9999 00:00:00 GMT' },
  ]) {
    const busy = (): Promise<Response> => Promise.resolve(new Response('busy', { status: 429, headers }));
    const error = (await failure(createAnthropicProvider({ apiKey: 'sk-of-this-test' }, busy))) as ModelError;
    expect(error.retryAfterMs).toBe(24 * 3_600_000);
  }
});
