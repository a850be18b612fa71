// Goal: a port over a stream keeps the contract of a message port, within its bounds, whatever the stream does.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LINE_FRAME_BYTES_MAX, LINE_PING_MS, LINE_SILENCE_MS, LINE_WAITING_BYTES_MAX } from '../../src/base/bounds.ts';
import { CancelledError, ConfigError, LimitError, TimeoutError } from '../../src/base/errors.ts';
import { decodeFrame, encodeFrame, FrameReader } from '../../src/cluster/line/line-frames.ts';
import { createLinePort, type LinePort } from '../../src/cluster/line/line-port.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { createEndpoint } from '../../src/threads/batched-endpoint.ts';
import { eventually } from '../support/eventually.ts';
import { type MemoryStream, memoryStreams } from './fixtures/memory-streams.ts';

const EMPTY_FRAME_BYTES = 4;

/** Everything that a port emits, in order. */
function emittedBy(port: LinePort): [string, unknown][] {
  const emitted: [string, unknown][] = [];
  for (const event of ['message', 'messageerror', 'close']) port.on(event, (value) => emitted.push([event, value]));
  return emitted;
}

/** A port whose other side is a bare stream. */
function portAndStream(): { port: LinePort; near: MemoryStream; far: MemoryStream; clock: ManualClock } {
  const [near, far] = memoryStreams();
  const clock = manualClock();
  return { port: createLinePort(near, clock), near, far, clock };
}

function ports(): { ports: [LinePort, LinePort]; streams: [MemoryStream, MemoryStream]; clock: ManualClock } {
  const streams = memoryStreams();
  const clock = manualClock();
  return { ports: [createLinePort(streams[0], clock), createLinePort(streams[1], clock)], streams, clock };
}

function lengthHeader(bytes: number): Buffer {
  const header = Buffer.alloc(EMPTY_FRAME_BYTES);
  header.writeUInt32BE(bytes);
  return header;
}

describe('frames', () => {
  test('LP2: any values come out of any split of their bytes, in order', () => {
    const values = fc.array(fc.oneof(fc.anything({ maxDepth: 2 }), fc.string({ unit: 'binary', maxLength: 300 })));
    // A value that V8 does not serialise, such as a function, is not drawn by `anything`.
    fc.assert(
      fc.property(values, fc.array(fc.nat(), { maxLength: 40 }), (sent, draws) => {
        const bytes = Buffer.concat(sent.flatMap((value) => [Buffer.alloc(EMPTY_FRAME_BYTES), encodeFrame(value)]));
        const cuts = [...draws.map((draw) => draw % (bytes.length + 1)), 0, bytes.length].sort((a, b) => a - b);
        const reader = new FrameReader();
        const received: unknown[] = [];
        let empty = 0;
        for (const [at, cut] of cuts.entries()) {
          for (const body of reader.bodies(bytes.subarray(cuts[at - 1] ?? 0, cut))) {
            if (body instanceof LimitError) throw body;
            if (body.length === 0) empty += 1;
            else received.push(decodeFrame(body));
          }
        }
        expect(received).toEqual(sent);
        expect(empty).toBe(sent.length);
      }),
    );
  });

  test('LP3: a large frame in very small chunks takes time in proportion to its length', () => {
    // 600,000 chunks: a copy of all bytes at each of them would take hours.
    const sent = new Uint8Array(4 * 1024 * 1024).map((_none, at) => at % 251);
    const frame = encodeFrame([sent]);
    const reader = new FrameReader();
    const received: unknown[] = [];
    for (let at = 0; at < frame.length; at += 7) {
      for (const body of reader.bodies(frame.subarray(at, at + 7))) received.push(decodeFrame(body as Buffer));
    }
    expect(received).toHaveLength(1);
    expect(Buffer.compare((received[0] as [Uint8Array])[0], sent)).toBe(0);
  });

  test('a view of memory arrives alone, without the bytes that lie beside it in the chunk', () => {
    const [, body] = [...new FrameReader().bodies(Buffer.concat([encodeFrame([1]), encodeFrame([new Uint8Array(3)])]))];
    const [view] = decodeFrame(body as Buffer) as [Uint8Array];
    expect(view.buffer.byteLength).toBe(3);
  });
});

describe('a port', () => {
  test('LP2: messages of both sides arrive in order, at once, and not before the next tick', async () => {
    const { ports: both, streams } = ports();
    const [near, far] = both;
    // Each chunk arrives byte by byte.
    for (const stream of streams) {
      stream.deliver = (chunk) => {
        for (const byte of chunk) stream.peer?.push(Buffer.of(byte));
      };
    }
    for (let at = 0; at < 50; at += 1) {
      near.postMessage([at, 'from near']);
      far.postMessage([at, 'from far']);
    }
    // The bytes lie in the streams already; listeners set in this tick get all of them.
    const [atNear, atFar] = [emittedBy(near), emittedBy(far)];
    await eventually(() => atNear.length === 50 && atFar.length === 50);
    expect(atNear).toEqual(Array.from({ length: 50 }, (_none, at) => ['message', [at, 'from far']]));
    expect(atFar).toEqual(Array.from({ length: 50 }, (_none, at) => ['message', [at, 'from near']]));
    near.close();
    await eventually(() => atNear.length === 51 && atFar.length === 51);
  });

  test.each([
    ['a function', () => [() => 1]],
    ['shared memory', () => [new SharedArrayBuffer(8)]],
    ['a view of shared memory', () => [new Uint8Array(new SharedArrayBuffer(8))]],
    ['a message port', () => [new MessageChannel().port1]],
  ])('LP1: %s throws, and nothing is written', async (_name, made) => {
    const { ports: both, streams, clock } = ports();
    const [near, far] = both;
    const atFar = emittedBy(far);
    expect(() => near.postMessage(made())).toThrow('could not be cloned');
    expect(streams[0].written).toEqual([]);
    near.postMessage(['next']);
    await eventually(() => atFar.length === 1);
    expect(atFar).toEqual([['message', ['next']]]);
    near.close();
    await eventually(() => atFar.length === 2);
    expect(clock.pending).toBe(0);
  });

  test('LP1: the longest frame arrives; a longer one throws, and nothing is written', async () => {
    const { ports: both, streams } = ports();
    const [near, far] = both;
    const atFar = emittedBy(far);
    const shell = encodeFrame([new ArrayBuffer(LINE_FRAME_BYTES_MAX / 2)]).length - LINE_FRAME_BYTES_MAX / 2;
    const longest = LINE_FRAME_BYTES_MAX + EMPTY_FRAME_BYTES - shell;
    expect(() => near.postMessage([new ArrayBuffer(longest + 1)])).toThrow(
      expect.objectContaining({ code: 'limit', data: { limit: 'lineFrameBytes', bytes: LINE_FRAME_BYTES_MAX + 1 } }),
    );
    expect(streams[0].written).toEqual([]);
    near.postMessage([new ArrayBuffer(longest)]);
    await eventually(() => atFar.length === 1);
    const [received] = atFar.map(([, value]) => (value as [ArrayBuffer])[0].byteLength);
    expect(received).toBe(longest);
    near.close();
    await eventually(() => atFar.length === 2);
  });

  test('LP4: a frame that is announced too long ends the port at its header', async () => {
    const { port, far, clock } = portAndStream();
    const emitted = emittedBy(port);
    far.write(Buffer.concat([encodeFrame(['before']), lengthHeader(LINE_FRAME_BYTES_MAX + 1), encodeFrame(['after'])]));
    await eventually(() => emitted.length === 3);
    expect(emitted.map(([event]) => event)).toEqual(['message', 'messageerror', 'close']);
    expect(emitted[2]?.[1]).toBeInstanceOf(LimitError);
    expect(clock.pending).toBe(0);
  });

  test.each([
    ['garbage', Buffer.from('garbage')],
    ['a later format', Buffer.of(0xff, 0xfe, 0x30)],
    ['a value that is cut', encodeFrame([1, 2, 3]).subarray(EMPTY_FRAME_BYTES, -2)],
    ['a value that is no batch', encodeFrame({ length: 4 }).subarray(EMPTY_FRAME_BYTES)],
    ['null', encodeFrame(null).subarray(EMPTY_FRAME_BYTES)],
  ])('LP4: a frame with %s ends the port', async (_name, body) => {
    const { port, near, far, clock } = portAndStream();
    const emitted = emittedBy(port);
    far.write(Buffer.concat([encodeFrame(['before']), lengthHeader(body.length), body, encodeFrame(['after'])]));
    await eventually(() => emitted.length === 3);
    expect(emitted.map(([event]) => event)).toEqual(['message', 'messageerror', 'close']);
    expect(emitted[1]?.[1]).toMatchObject({ code: 'internal' });
    expect([near.destroyed, clock.pending]).toEqual([true, 0]);
  });

  test('LP2: listeners that are set after a wait in the same tick get all messages', async () => {
    const [near, far] = memoryStreams();
    far.write(encodeFrame(['early']));
    const emitted = await new Promise<[string, unknown][]>((resolve) => {
      setImmediate(async () => {
        const port = createLinePort(near, manualClock());
        await null;
        resolve(emittedBy(port));
      });
    });
    await eventually(() => emitted.length === 1);
    expect(emitted).toEqual([['message', ['early']]]);
    far.end();
    await eventually(() => emitted.length === 2);
  });

  test('LP2: a stream that ends within a frame emits the whole messages, and close once', async () => {
    const { port, near, far } = portAndStream();
    const emitted = emittedBy(port);
    far.write(Buffer.concat([encodeFrame(['whole']), encodeFrame(['cut']).subarray(0, 7)]));
    far.end();
    await eventually(() => near.closed);
    expect(emitted).toEqual([
      ['message', ['whole']],
      ['close', undefined],
    ]);
    port.postMessage(['too late']);
    port.close();
    expect(near.written).toEqual([]);
  });

  test('LP2: the error of a stream is the reason of its end', async () => {
    const { port, near } = portAndStream();
    const emitted = emittedBy(port);
    const error = new Error('reset');
    near.destroy(error);
    await eventually(() => emitted.length === 1);
    expect(emitted).toEqual([['close', error]]);
  });

  test('LP2: a port over a stream that has closed emits close', async () => {
    const [near] = memoryStreams();
    near.destroy();
    await eventually(() => near.closed);
    const clock = manualClock();
    const emitted = emittedBy(createLinePort(near, clock));
    await eventually(() => emitted.length === 1);
    expect([emitted, clock.pending]).toEqual([[['close', undefined]], 0]);
  });

  test('LP3: a peer that does not read ends the port before its bytes fill the memory', async () => {
    const { port, near, clock } = portAndStream();
    const emitted = emittedBy(port);
    near.isStuck = true;
    const part = new ArrayBuffer(LINE_WAITING_BYTES_MAX / 4);
    for (let posts = 0; posts < 3; posts += 1) port.postMessage([part]);
    expect(near.destroyed).toBe(false);
    port.postMessage([part]);
    expect(near.destroyed).toBe(true);
    await eventually(() => emitted.length === 1);
    expect(emitted[0]).toEqual(['close', expect.objectContaining({ code: 'limit', retryable: true })]);
    expect(clock.pending).toBe(0);
  });

  test('LP6: close sends what was posted, drops what arrives later, and ends both sides', async () => {
    const { ports: both, clock } = ports();
    const [near, far] = both;
    const [atNear, atFar] = [emittedBy(near), emittedBy(far)];
    near.postMessage(['last']);
    near.close();
    near.close();
    near.postMessage(['after the end']);
    far.postMessage(['dropped']);
    await eventually(() => atNear.length > 0 && atFar.length > 1);
    expect(atNear).toEqual([['close', undefined]]);
    expect(atFar).toEqual([
      ['message', ['last']],
      ['close', undefined],
    ]);
    expect(clock.pending).toBe(0);
  });

  test('LP6: a closing port does not wait for a peer that never takes the bytes, even if this peer lives', async () => {
    const { port, near, far, clock } = portAndStream();
    const emitted = emittedBy(port);
    near.isStuck = true;
    port.postMessage(['waits']);
    await clock.advance(LINE_PING_MS);
    port.close();
    for (let passed = 0; passed + LINE_PING_MS < LINE_SILENCE_MS; passed += LINE_PING_MS) {
      await clock.advance(LINE_PING_MS);
      far.write(Buffer.alloc(EMPTY_FRAME_BYTES));
    }
    expect(emitted).toEqual([]);
    await clock.advance(LINE_PING_MS);
    expect(emitted).toEqual([['close', expect.any(TimeoutError)]]);
    expect([near.destroyed, clock.pending]).toEqual([true, 0]);
  });
});

describe('liveness', () => {
  test('LP5: two idle ports keep their line, with one empty frame each in `LINE_PING_MS`', async () => {
    const { ports: both, streams, clock } = ports();
    const atFar = emittedBy(both[1]);
    await clock.advance(20 * LINE_PING_MS);
    expect(atFar).toEqual([]);
    for (const stream of streams) {
      expect(Buffer.concat(stream.written)).toEqual(Buffer.alloc(20 * EMPTY_FRAME_BYTES));
    }
    both[0].close();
    await eventually(() => atFar.length === 1);
  });

  test('LP5: a port that sends messages sends no empty frames', async () => {
    const { ports: both, streams, clock } = ports();
    const atFar = emittedBy(both[1]);
    for (let posts = 0; posts < 10; posts += 1) {
      await clock.advance(LINE_PING_MS - 1);
      both[0].postMessage([posts]);
    }
    expect(Buffer.concat(streams[0].written)).toEqual(
      Buffer.concat(Array.from({ length: 10 }, (_none, at) => encodeFrame([at]))),
    );
    both[0].close();
    await eventually(() => atFar.length === 11);
  });

  test('LP5: silence ends the port, and any byte, a part of a frame too, begins the time again', async () => {
    const { port, far, clock } = portAndStream();
    const emitted = emittedBy(port);
    await clock.advance(LINE_SILENCE_MS - 1);
    far.write(encodeFrame(['long']).subarray(0, 5));
    await clock.advance(LINE_SILENCE_MS - 1);
    expect(emitted).toEqual([]);
    await clock.advance(1);
    expect(emitted).toEqual([['close', expect.any(TimeoutError)]]);
    expect(clock.pending).toBe(0);
  });

  test('LP5: what arrived while this thread stood still counts before the silence is judged', async () => {
    const [near, far] = memoryStreams();
    const clock = manualClock();
    let isStanding = true;
    // After a thread stood still, the timer runs first. Only then are the bytes of the socket read.
    const setTimer = (run: () => void, delayMs: number): unknown =>
      clock.setTimer(() => {
        if (isStanding && clock.monotonic() >= LINE_SILENCE_MS) {
          isStanding = false;
          setImmediate(() => far.write(Buffer.alloc(EMPTY_FRAME_BYTES)));
        }
        run();
      }, delayMs);
    const port = createLinePort(near, {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimer,
      clearTimer: (timer) => clock.clearTimer(timer),
    });
    const emitted = emittedBy(port);
    await clock.advance(LINE_SILENCE_MS);
    expect(emitted).toEqual([]);
    await clock.advance(LINE_SILENCE_MS - 1);
    expect(emitted).toEqual([]);
    await clock.advance(1);
    expect(emitted).toEqual([['close', expect.any(TimeoutError)]]);
  });
});

describe('an endpoint over it', () => {
  test('T3: what cannot be sent fails its own call alone, also a value beyond the longest frame', async () => {
    const { ports: both } = ports();
    const [near, far] = both.map((port) => createEndpoint(port));
    if (near === undefined || far === undefined) throw new Error('two ports make two endpoints');
    far.handle('echo', (payload) => payload);
    far.handle('huge', () => new ArrayBuffer(LINE_FRAME_BYTES_MAX));
    const answers = await Promise.allSettled([
      near.call('echo', 1),
      near.call('echo', () => 1),
      near.call('echo', new ArrayBuffer(LINE_FRAME_BYTES_MAX)),
      near.call('huge', 0),
      near.call('echo', 2),
    ]);
    expect(answers).toMatchObject([
      { value: 1 },
      { reason: { message: expect.stringContaining('could not be cloned') } },
      { reason: { name: 'LimitError', code: 'limit' } },
      { reason: { name: 'LimitError', code: 'limit' } },
      { value: 2 },
    ]);
    const ended = new Promise<void>((resolve) => far.onClose(resolve));
    near.close();
    await ended;
  });

  test('T1: calls that wait reject when the stream breaks, on both sides', async () => {
    const { ports: both, streams, clock } = ports();
    const [near, far] = both.map((port) => createEndpoint(port));
    if (near === undefined || far === undefined) throw new Error('two ports make two endpoints');
    for (const endpoint of [near, far]) {
      endpoint.handle('never', () => new Promise(() => undefined));
      endpoint.handle('refuse', () => {
        throw new ConfigError('refused', { data: { key: 'x' } });
      });
    }
    await expect(near.call('refuse', 0)).rejects.toBeInstanceOf(ConfigError);
    const waiting = [near.call('never', 0), far.call('never', 0)];
    const settled = Promise.allSettled(waiting);
    // Both calls are on their way before the fault.
    await near.call('refuse', 0).catch(() => undefined);
    streams[0].destroy(new Error('cut'));
    const gone = { status: 'rejected', reason: { code: 'internal', retryable: true } };
    expect(await settled).toMatchObject([gone, gone]);
    await expect(near.call('refuse', 0)).rejects.toMatchObject({ retryable: true });
    expect(clock.pending).toBe(0);
    near.close();
    await expect(near.call('refuse', 0)).rejects.not.toBeInstanceOf(CancelledError);
  });
});
