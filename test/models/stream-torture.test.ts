/**
 * T7. Recorded answers of the fake, sent through the SDK and the provider by an injected fetch: cut anywhere into chunks they
 * give the same response, cut off anywhere they give a typed error, never a shorter response.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { ModelError } from '../../src/base/errors.ts';
import { createAnthropicProvider } from '../../src/models/anthropic.ts';
import type { ModelResponse } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script.ts';
import { ask, context, withFake } from './calls.ts';

const REPLIES: Readonly<Record<string, Reply>> = {
  text: 'Grüße 🎭, “quoted” and 漢字.',
  thinking: { thinking: 'Hmm… 🤔', text: 'Yes.' },
  tool: { toolUse: { name: 'add', input: { a: 1, text: 'ü\n"🎭"' } } },
  parallel: { text: 'Two.', toolUse: [{ name: 'add', input: { a: [1, { b: null }] } }, { name: 'add' }] },
  redacted: {
    content: [
      { type: 'redacted_thinking', data: 'eA==' },
      { type: 'text', text: 'é' },
    ],
  },
  server: {
    content: [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'ß' } },
      { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
    ],
    stop_reason: 'pause_turn',
  },
};

const recorded: { name: string; bytes: Uint8Array; response: ModelResponse }[] = [];

type Sending = (controller: ReadableStreamDefaultController<Uint8Array>) => void;

/** One call whose answer is what `send` puts into the body. */
function play(send: Sending): Promise<ModelResponse> {
  const body = new ReadableStream<Uint8Array>({ start: send });
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body));
  return createAnthropicProvider({ apiKey: 'k', baseURL: 'http://127.0.0.1:9' }, fetch).generate(ask(), context());
}

function chunked(...chunks: readonly Uint8Array[]): Sending {
  return (controller) => {
    for (const chunk of chunks) controller.enqueue(chunk);
    controller.close();
  };
}

beforeAll(async () => {
  await withFake({ script: Object.values(REPLIES) }, async (fake) => {
    for (const name of Object.keys(REPLIES)) {
      const request = { ...ask(), stream: true };
      const answer = await fetch(`${fake.url}/v1/messages`, {
        method: 'POST',
        headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
        body: JSON.stringify(request),
      });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const crlf = Buffer.from(Buffer.from(bytes).toString().replaceAll('\n', '\r\n'));
      recorded.push({ name, bytes, response: await play(chunked(bytes)) });
      if (name === 'text') recorded.push({ name: 'text, CRLF', bytes: crlf, response: await play(chunked(crlf)) });
    }
  });
});

describe('T7: stream torture', () => {
  it('there are seven recordings with the content that was scripted', () => {
    expect(recorded.map(({ name }) => name)).toEqual(['text', 'text, CRLF', ...Object.keys(REPLIES).slice(1)]);
    expect(recorded[0]?.response.content).toEqual([{ type: 'text', text: REPLIES['text'] }]);
    expect(recorded[1]?.response).toEqual(recorded[0]?.response);
    expect(recorded.every(({ bytes }) => bytes.length > 400)).toBe(true);
  });

  it('F26: cut in two at every byte, the response is equal', { timeout: 120_000 }, async () => {
    for (const { name, bytes, response } of recorded) {
      for (let at = 1; at < bytes.length; at += 1) {
        const found = await play(chunked(bytes.subarray(0, at), bytes.subarray(at)));
        expect(found, `${name} at ${at}`).toEqual(response);
      }
    }
  });

  it('F26: a byte at a time, the response is equal', async () => {
    for (const { name, bytes, response } of recorded) {
      const found = await play(chunked(...Array.from(bytes, (byte) => Uint8Array.of(byte))));
      expect(found, name).toEqual(response);
    }
  });

  it('F24, N4: ended at any byte, the call fails as a broken protocol', { timeout: 120_000 }, async () => {
    for (const { name, bytes } of recorded) {
      const end = lengthWithoutLastLine(bytes);
      for (let at = 0; at < end; at += 1) {
        const error = await play(chunked(bytes.subarray(0, at))).catch((thrown: unknown) => thrown);
        expect(error, `${name} at ${at}`).toBeInstanceOf(ModelError);
        expect(error, `${name} at ${at}`).toMatchObject({ code: 'model_protocol', retryable: true });
      }
    }
  });

  it('F24: reset at any byte, the call fails as a lost connection, unless it was whole', {
    timeout: 120_000,
  }, async () => {
    for (const { name, bytes, response } of recorded) {
      const end = lengthWithoutLastLine(bytes);
      for (let at = 0; at <= bytes.length; at += 7) {
        const ended = await reset(bytes.subarray(0, at)).catch((thrown: unknown) => thrown);
        if (at < end) expect(ended, `${name} at ${at}`).toMatchObject({ code: 'model_connection', retryable: true });
      }
      expect(await reset(bytes), name).toEqual(response);
    }
  });
});

/** Bytes up to the line end that completes the last event: without it there is no event. */
function lengthWithoutLastLine(bytes: Uint8Array): number {
  return bytes.at(-2) === 0x0d ? bytes.length - 1 : bytes.length;
}

/** The bytes, and when they were read, the error of a socket that was reset. */
function reset(bytes: Uint8Array): Promise<ModelResponse> {
  let isSent = bytes.length === 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (isSent) controller.error(new TypeError('terminated'));
        else controller.enqueue(bytes);
        isSent = true;
      },
    },
    { highWaterMark: 0 },
  );
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body));
  return createAnthropicProvider({ apiKey: 'k' }, fetch).generate(ask(), context());
}
