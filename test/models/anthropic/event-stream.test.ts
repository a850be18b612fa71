import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { STREAM_LINE_BYTES_MAX } from '../../../src/base/bounds.ts';
import { EventStreamParser } from '../../../src/models/anthropic/event-stream.ts';

interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

const ignored = (): void => undefined;

function parse(chunks: readonly Uint8Array[]): readonly StreamEvent[] {
  const events: StreamEvent[] = [];
  const parser = new EventStreamParser((name, data) => events.push({ name, data }));
  for (const chunk of chunks) parser.push(chunk);
  parser.end();
  return events;
}

const line = fc.oneof(
  fc.constantFrom('', '', 'event: a', 'data: 1', 'data:2', 'data', ': comment', 'id: 3', 'other'),
  fc.string({ unit: 'grapheme' }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
);
const stream = fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 20 });

describe('EventStreamParser', () => {
  it('F26, E1, T5: any split of the same bytes into chunks gives the same events', () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(300), { maxLength: 10 }), (lines, cuts) => {
        const bytes = Buffer.from(lines.flat().join(''));
        const places = [...new Set([0, ...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length])];
        places.sort((a, b) => a - b);
        const chunks = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
        expect(parse(chunks)).toEqual(parse([bytes]));
      }),
      { numRuns: 1_000 },
    );
  });

  it('F26, E1: reads names, joins data lines, strips one blank, ignores comments and unknown fields', () => {
    const text = ': hi\nevent: a\ndata: one\ndata:  two\nid: 1\nretry: 2\n\ndata:x\n\nevent: lost\n\ndata\n\n';
    expect(parse([Buffer.from(text)])).toEqual([
      { name: 'a', data: 'one\n two' },
      { name: 'message', data: 'x' },
      { name: 'message', data: '' },
    ]);
  });

  it('F26, E1: a byte order mark at the start is dropped, whole or split, and later ones are text', () => {
    const bytes = Buffer.from('\uFEFFdata: \uFEFFa\n\n\uFEFFdata: b\n\n');
    const wanted = [{ name: 'message', data: '\uFEFFa' }];
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(parse([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual(wanted);
    }
  });

  it('F24, E2: an event without its closing blank line is not an event', () => {
    expect(parse([Buffer.from('data: 1\n\ndata: 2\n')])).toEqual([{ name: 'message', data: '1' }]);
  });

  it('F26, E3: a line beyond its bound, whole or in pieces, is a protocol error', () => {
    const parser = new EventStreamParser(ignored);
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    const push = (): void => {
      for (let sent = 0; sent <= STREAM_LINE_BYTES_MAX; sent += chunk.length) parser.push(chunk);
    };
    expect(push).toThrow(expect.objectContaining({ code: 'model_protocol', retryable: true }));
    const many = new EventStreamParser(ignored);
    const data = Buffer.from(`data: ${'x'.repeat(1024 * 1024)}\n`);
    const pushLines = (): void => {
      for (let sent = 0; sent <= 2 * STREAM_LINE_BYTES_MAX; sent += data.length) many.push(data);
    };
    expect(pushLines).toThrow(expect.objectContaining({ code: 'model_protocol' }));
  });

  it('F26, E3: bytes that are not UTF-8, and a sequence that is cut off at the end, are protocol errors', () => {
    const push = (): unknown => new EventStreamParser(ignored).push(Uint8Array.of(0xff));
    expect(push).toThrow(expect.objectContaining({ code: 'model_protocol' }));
    expect(() => parse([Buffer.from('🎭').subarray(0, 2)])).toThrow(/UTF-8/);
  });
});
