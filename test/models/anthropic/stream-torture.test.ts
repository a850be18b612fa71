/**
 * T7: recorded answers, cut into chunks at every byte and cut off at every byte. Goal: the response is the same however
 * the bytes arrive. It is never a shorter one, because an incomplete answer is a retryable, typed error. Method: all
 * offsets go through the parser and the assembly directly. One recording and a sample of the others go through the
 * provider and the vendor's SDK.
 */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX } from '../../../src/base/bounds.ts';
import { ModelError } from '../../../src/base/errors.ts';
import { createAnthropicProvider } from '../../../src/models/anthropic/anthropic.ts';
import { EventStreamParser } from '../../../src/models/anthropic/event-stream.ts';
import { ResponseAssembly } from '../../../src/models/anthropic/response-assembly.ts';
import type { ModelDelta, ModelResponse } from '../../../src/models/provider.ts';
import { ask, context } from '../calls.ts';
import { event, RECORDED_STREAMS, type RecordedStream } from '../fixtures/recorded-streams.ts';

/** The response that the provider makes of these chunks, and the deltas it published. */
function assemble(chunks: readonly Uint8Array[], deltas: ModelDelta[] = []): ModelResponse {
  const assembly = new ResponseAssembly((delta) => deltas.push(delta));
  const parser = new EventStreamParser((name, data) => assembly.accept(name, data));
  for (const chunk of chunks) parser.push(chunk);
  parser.end();
  return assembly.response();
}

function failureOf(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}

type LineEnd = readonly [name: string, lineEnd: string];
const LINE_ENDS: readonly LineEnd[] = [
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
];

function bytesOf({ text }: RecordedStream, lineEnd = '\n'): Buffer {
  return Buffer.from(text.replaceAll('\n', lineEnd));
}

/** The number of bytes needed: up to the line end that completes `message_stop`. Later bytes change nothing. */
function neededOf(bytes: Buffer): number {
  const stop = bytes.lastIndexOf('"message_stop"}');
  const rest = bytes.subarray(stop).toString('latin1');
  const blank = /(\r\n|\n|\r)(\r\n|\n|\r)/.exec(rest);
  // A lone carriage return is a line end once the stream ends, or once a character other than a line feed follows.
  const isHalf = blank?.[2] === '\r\n';
  return stop + (blank?.index ?? 0) + (blank?.[0].length ?? 0) - (isHalf ? 1 : 0);
}

const CASES = RECORDED_STREAMS.map((recording) => [recording.name, recording] as const);
/**
 * Every offset, with the line ends found in practice. No server sends a lone carriage return, so it appears only among
 * the random cuts.
 */
const ENDED = LINE_ENDS.slice(0, 2).flatMap(([name, lineEnd]) =>
  CASES.map(([title, each]) => [title, name, each, lineEnd] as const),
);

describe('a stream cut anywhere', () => {
  it.each(ENDED)(
    'F26, T7: %s, %s: cut in two at every byte, the response is the same',
    (_name, _end, recording, lineEnd) => {
      const bytes = bytesOf(recording, lineEnd);
      const whole: ModelDelta[] = [];
      expect(assemble([bytes], whole)).toEqual(recording.response);
      const wrong: number[] = [];
      for (let at = 0; at <= bytes.length; at += 1) {
        const deltas: ModelDelta[] = [];
        const found = assemble([bytes.subarray(0, at), bytes.subarray(at)], deltas);
        if (!isDeepStrictEqual([found, deltas], [recording.response, whole])) wrong.push(at);
      }
      expect(wrong).toEqual([]);
    },
  );

  it.each(ENDED)('F26, T7: %s, %s: sent byte by byte, the response is the same', (_name, _end, recording, lineEnd) => {
    const bytes = bytesOf(recording, lineEnd);
    expect(assemble(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(recording.response);
  });

  it('F26, T7: chunks of any length give the same response', () => {
    const recordings = fc.constantFrom(...RECORDED_STREAMS);
    const lengths = fc.infiniteStream(fc.integer({ min: 1, max: 40 }));
    fc.assert(
      fc.property(recordings, fc.constantFrom(...LINE_ENDS), lengths, (recording, [, lineEnd], sizes) => {
        const bytes = bytesOf(recording, lineEnd);
        const chunks: Uint8Array[] = [];
        for (let start = 0; start < bytes.length; ) {
          const size = sizes.next().value ?? 1;
          chunks.push(bytes.subarray(start, start + size));
          start += size;
        }
        expect(assemble(chunks)).toEqual(recording.response);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a stream that ends at any byte', () => {
  it.each(ENDED)(
    'F24, T7: %s, %s: the end is a retryable protocol error, unless everything needed has arrived',
    (...row) => {
      const [, , recording, lineEnd] = row;
      const bytes = bytesOf(recording, lineEnd);
      const needed = neededOf(bytes);
      const wrong: unknown[] = [];
      for (let at = 0; at <= bytes.length; at += 1) {
        let found: unknown;
        const error = failureOf(() => {
          found = assemble([bytes.subarray(0, at)]);
        });
        const isRight =
          at >= needed
            ? isDeepStrictEqual(found, recording.response)
            : error instanceof ModelError && error.code === 'model_protocol' && error.retryable;
        if (!isRight) wrong.push([at, error ?? found]);
      }
      expect(wrong).toEqual([]);
    },
  );

  it.each(CASES)(
    'F25, T7: %s: an error event after any event is that error, unless the answer is complete',
    (_name, each) => {
      const error = event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } });
      const events = each.text.split(/(?<=\n\n)/);
      const stop = events.findIndex((text) => text.includes('"message_stop"'));
      for (let place = 0; place <= events.length; place += 1) {
        const bytes = Buffer.from(events.toSpliced(place, 0, error).join(''));
        if (place > stop) expect(assemble([bytes])).toEqual(each.response);
        else
          expect(failureOf(() => assemble([bytes]))).toMatchObject({
            code: 'model_overloaded',
            status: 529,
            retryable: true,
          });
      }
    },
  );
});

describe('misplaced events', () => {
  it('F26: a missing, repeated or swapped event is an error or changes nothing that matters', () => {
    let refused = 0;
    for (const { name, text, response } of RECORDED_STREAMS) {
      const events = text.split(/(?<=\n\n)/);
      events.forEach((each, place) => {
        const structural = /"type":"(message_start|content_block_start|content_block_stop|message_stop)"/.test(each);
        if (!structural) return;
        const isStop = each.includes('"message_stop"');
        const without = failureOf(() => assemble([Buffer.from(events.toSpliced(place, 1).join(''))]));
        expect(without, `${name} without event ${place}`).toMatchObject({ code: 'model_protocol', retryable: true });
        const twice = Buffer.from(events.toSpliced(place, 0, each).join(''));
        if (isStop) expect(assemble([twice])).toEqual(response);
        else
          expect(
            failureOf(() => assemble([twice])),
            `${name}, event ${place} twice`,
          ).toMatchObject({ code: 'model_protocol' });
        refused += 1;
      });
    }
    expect(refused).toBeGreaterThan(60);
  });

  it('F26: a delta before its start, with another index, or after its stop is a protocol error', () => {
    const { text } = RECORDED_STREAMS[0] as RecordedStream;
    const events = text.split(/(?<=\n\n)/);
    const startAt = events.findIndex((each) => each.includes('content_block_start'));
    const delta = events.findIndex((each) => each.includes('content_block_delta'));
    const stopAt = events.findIndex((each) => each.includes('content_block_stop'));
    const moved = (place: number): readonly string[] => {
      const rest = events.toSpliced(delta, 1);
      return rest.toSpliced(place, 0, events[delta] ?? '');
    };
    const wrong = events.with(delta, (events[delta] ?? '').replace('"index":0', '"index":1'));
    for (const broken of [moved(startAt), moved(0), moved(stopAt), wrong]) {
      const error = failureOf(() => assemble([Buffer.from(broken.join(''))]));
      expect(error).toMatchObject({ code: 'model_protocol', retryable: true });
    }
  });
});

describe('sizes', () => {
  const [head, tail] = (RECORDED_STREAMS[0] as RecordedStream).text.split('Hello') as [string, string];

  it('F26: a line below the bound of 10 MB is accepted; a longer one is a typed error, in chunks of socket size', () => {
    const stream = (length: number): readonly Uint8Array[] => {
      const bytes = Buffer.from(`${head}${'x'.repeat(length)}${tail}`);
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += 65_536) chunks.push(bytes.subarray(at, at + 65_536));
      return chunks;
    };
    const [block] = assemble(stream(STREAM_LINE_BYTES_MAX - 1_000)).content;
    expect(block?.type === 'text' ? block.text.length : 0).toBe(STREAM_LINE_BYTES_MAX - 1_000 + ', world.'.length);
    const error = failureOf(() => assemble(stream(STREAM_LINE_BYTES_MAX)));
    expect(error).toMatchObject({ code: 'model_protocol', retryable: true, message: expect.stringContaining('line') });
  });

  it('F26: a stream beyond 64 MB is a typed error, however short its lines, because memory per answer is bounded', () => {
    const parser = new EventStreamParser(() => undefined);
    const chunk = Buffer.from(event('ping').repeat(20_000));
    const push = (): void => {
      for (let sent = 0; sent <= STREAM_BYTES_MAX; sent += chunk.length) parser.push(chunk);
    };
    expect(push).toThrow(expect.objectContaining({ code: 'model_protocol', retryable: true }));
  });
});

describe('invalid bytes and events', () => {
  const isTyped = (error: unknown): boolean => error instanceof ModelError && error.retryable;

  it('F26, T5: any bytes give a typed error, never another error and never an answer', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 5 }), (chunks) => {
        expect(isTyped(failureOf(() => assemble(chunks)))).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  it('F26, T5: a recording with bytes overwritten gives a typed error or an answer, nothing else', () => {
    const strokes = fc.array(fc.tuple(fc.nat(), fc.uint8Array({ minLength: 1, maxLength: 4 })), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(fc.constantFrom(...RECORDED_STREAMS), strokes, (recording, all) => {
        const bytes = bytesOf(recording);
        for (const [place, stroke] of all) bytes.set(stroke, place % (bytes.length - stroke.length));
        const error = failureOf(() => assemble([bytes]));
        // The overwritten type of an error event may be any error of the API, retryable or not. No recording has one.
        if (error !== undefined) expect(isTyped(error), String(error)).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  it('F26, T5: events of any JSON in any order give a typed error or an answer, nothing else', () => {
    const type = fc.constantFrom(
      ...['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop'],
      ...['message_delta', 'message_stop', 'ping', 'something'],
    );
    const block = fc.record(
      { type: fc.constantFrom('text', 'tool_use', 'thinking', 'redacted_thinking', 'odd'), text: fc.jsonValue() },
      { requiredKeys: [] },
    );
    const fields = fc.record(
      {
        index: fc.oneof(fc.constantFrom(0, 0, 1), fc.jsonValue()),
        message: fc.oneof(fc.constant({}), fc.jsonValue()),
        content_block: fc.oneof(block, fc.jsonValue()),
        delta: fc.oneof(fc.constant({ stop_reason: 'end_turn' }), fc.jsonValue()),
        usage: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(type, fields), { maxLength: 12 }), (events) => {
        const text = events.map(([name, more]) => event(name, more)).join('');
        const error = failureOf(() => assemble([Buffer.from(text)]));
        if (error !== undefined) expect(isTyped(error), String(error)).toBe(true);
      }),
      { numRuns: 400 },
    );
  });
});

type Sending = (controller: ReadableStreamDefaultController<Uint8Array>) => void;

/** One call through the vendor's SDK; `send` writes the body of its answer. */
function play(send: Sending): Promise<ModelResponse> {
  const body = new ReadableStream<Uint8Array>({ start: send });
  return answerTo(body);
}

/** The answer in this body, without the facts of its request. */
async function answerTo(body: ReadableStream<Uint8Array>): Promise<ModelResponse> {
  const fetch = (): Promise<Response> => Promise.resolve(new Response(body));
  const provider = createAnthropicProvider({ apiKey: 'k', baseURL: 'http://127.0.0.1:9' }, fetch);
  const { sent: _sent, ...answer } = await provider.generate(ask(), context());
  return answer;
}

function chunked(...chunks: readonly Uint8Array[]): Sending {
  return (controller) => {
    for (const chunk of chunks) controller.enqueue(chunk);
    controller.close();
  };
}

/** Sends the bytes and, once they are read, the error of a reset socket. */
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
  return answerTo(body);
}

describe('through the SDK', () => {
  /** The step is a prime, so that the cuts reach every kind of position over all recordings. */
  const STRIDE = 127;

  it.each(CASES)('F26, T7: %s: cut in two, the response is the same', async (_name, recording) => {
    const bytes = bytesOf(recording);
    for (let at = 1; at < bytes.length; at += STRIDE) {
      const found = await play(chunked(bytes.subarray(0, at), bytes.subarray(at)));
      expect(found, `at ${at}`).toEqual(recording.response);
    }
  });

  it.each(CASES)(
    'F24, T7: %s: a stream that ends or resets before it is complete is never an answer',
    async (_name, recording) => {
      const bytes = bytesOf(recording);
      const needed = neededOf(bytes);
      for (let at = 0; at < needed; at += STRIDE) {
        const cut = bytes.subarray(0, at);
        const ended = await play(chunked(cut)).catch((error: unknown) => error);
        expect(ended, `ended at ${at}`).toMatchObject({ code: 'model_protocol', retryable: true });
        const lost = await reset(cut).catch((error: unknown) => error);
        expect(lost, `reset at ${at}`).toMatchObject({ code: 'model_connection', retryable: true });
      }
      expect(await reset(bytes)).toEqual(recording.response);
    },
  );

  it('F24, N4: a lost answer reports the tokens it used; an answer that never began reports none', async () => {
    const bytes = bytesOf(RECORDED_STREAMS[0] as RecordedStream);
    const lost = await play(chunked(bytes.subarray(0, bytes.length - 3))).catch((error: unknown) => error);
    expect(lost).toMatchObject({ data: { lostUsage: { input_tokens: 25, output_tokens: 15 } } });
    const early = (await reset(bytes.subarray(0, 20)).catch((error: unknown) => error)) as ModelError;
    expect(early.data).not.toHaveProperty('lostUsage');
  });
});
