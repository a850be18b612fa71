/**
 * A port over a stream, for an endpoint (`src/threads/batched-endpoint.ts`). Each posted message is one frame
 * (`line-frames.ts`).
 *
 * Owns: the stream, from the call of `createLinePort` to its end; the bytes of the frame that arrives. Does not own: the
 * handshake before, and the endpoint.
 *
 * Invariants:
 *  LP1 a posted message is written whole, or throws and nothing of it is written: a value that cannot be serialised, and
 *     a frame beyond `LINE_FRAME_BYTES_MAX`;
 *  LP2 messages arrive in the order they were posted. `close` is emitted once, when the stream has ended for any reason,
 *     after each message that arrived whole. Its argument is the error that ended the stream, if there was one;
 *  LP3 at most `LINE_WAITING_BYTES_MAX` bytes wait for the socket. A write beyond this ends the stream;
 *  LP4 a frame that was announced too long, that cannot be read, or that is no batch of an endpoint ends the stream.
 *     `messageerror` is emitted before. No message after this frame is emitted;
 *  LP5 an open port sends an empty frame when it sent nothing for `LINE_PING_MS`. It ends the stream when it received
 *     nothing for `LINE_SILENCE_MS`;
 *  LP6 `close()` sends what was posted and ends the stream. What arrives after the call is dropped. If the stream has
 *     not ended `LINE_SILENCE_MS` later, it is destroyed.
 */
import { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import { LINE_PING_MS, LINE_SILENCE_MS, LINE_WAITING_BYTES_MAX } from '../../base/bounds.ts';
import { type Clock, setIdleTimer, soon } from '../../base/clock.ts';
import { asError, LimitError, TimeoutError, TroupeError } from '../../base/errors.ts';
import type { MessagePortLike } from '../../threads/batched-endpoint.ts';
import { decodeFrame, EMPTY_FRAME, encodeFrame, FrameReader } from './line-frames.ts';

/** One side of a line. See the head of this file. */
export interface LinePort extends MessagePortLike {
  close(): void;
}

/** Makes a port over a stream that is connected. Nothing is emitted before the next tick, so listeners may be set. */
export function createLinePort(stream: Duplex, clock: Clock): LinePort {
  return new StreamPort(stream, clock);
}

class StreamPort extends EventEmitter implements LinePort {
  readonly #stream: Duplex;
  readonly #clock: Clock;
  readonly #reader = new FrameReader();
  #state: 'open' | 'closing' | 'ended' = 'open';
  #reason: Error | undefined;
  #sentMs: number;
  /** The moment of the last bytes that arrived; of the call of `close()` on a closing port. */
  #receivedMs: number;
  #timer: unknown;

  constructor(stream: Duplex, clock: Clock) {
    super();
    this.#stream = stream;
    this.#clock = clock;
    this.#sentMs = clock.monotonic();
    this.#receivedMs = this.#sentMs;
    stream.on('error', (error: Error) => {
      this.#reason ??= error;
    });
    stream.on('close', this.#finish);
    soon(this.#begin);
  }

  postMessage(message: unknown): void {
    const frame = encodeFrame(message);
    if (this.#state === 'open' && this.#stream.writable) this.#write(frame);
  }

  close(): void {
    if (this.#state !== 'open') return;
    this.#state = 'closing';
    this.#receivedMs = this.#clock.monotonic();
    this.#stream.end();
  }

  #begin = (): void => {
    if (this.#state === 'ended') return;
    // The stream may have closed before this port was made.
    if (this.#stream.closed) {
      this.#finish();
      return;
    }
    this.#stream.on('data', this.#receive);
    this.#stream.on('end', this.#finish);
    this.#wait();
  };

  #receive = (chunk: Buffer): void => {
    if (this.#state !== 'open') return;
    this.#receivedMs = this.#clock.monotonic();
    for (const body of this.#reader.bodies(chunk)) {
      if (body instanceof LimitError) {
        this.#refuse(body);
        return;
      }
      if (body.length === 0) continue;
      const batch = batchOf(body);
      if (batch instanceof Error) {
        this.#refuse(batch);
        return;
      }
      this.emit('message', batch);
      // The listener may have closed the port.
      if (this.#state !== 'open') return;
    }
  };

  /** Enforces LP4. */
  #refuse(error: Error): void {
    this.#end(error);
    this.emit('messageerror', error);
  }

  #write(frame: Buffer): void {
    const waiting = this.#stream.writableLength + frame.length;
    if (waiting > LINE_WAITING_BYTES_MAX) {
      this.#end(
        new LimitError(`the other node does not read: ${waiting} bytes wait, at most ${LINE_WAITING_BYTES_MAX}`, {
          data: { limit: 'lineWaitingBytes', bytes: waiting },
          retryable: true,
        }),
      );
      return;
    }
    this.#sentMs = this.#clock.monotonic();
    this.#stream.write(frame);
  }

  /** Sets the timer for the next empty frame, or for the end after a silence. */
  #wait(): void {
    const dueMs = this.#receivedMs + LINE_SILENCE_MS;
    const nextMs = this.#state === 'open' ? Math.min(dueMs, this.#sentMs + LINE_PING_MS) : dueMs;
    this.#timer = setIdleTimer(this.#clock, this.#look, Math.max(0, nextMs - this.#clock.monotonic()));
  }

  #look = (): void => {
    // This thread may have stood still. What arrived meanwhile is read before the silence is judged.
    if (this.#isSilent()) {
      soon(this.#judge);
      return;
    }
    if (this.#state === 'open' && this.#clock.monotonic() - this.#sentMs >= LINE_PING_MS) this.#write(EMPTY_FRAME);
    this.#wait();
  };

  #judge = (): void => {
    if (this.#state === 'ended') return;
    if (this.#isSilent()) this.#end(new TimeoutError(`the other node sent nothing for ${LINE_SILENCE_MS} ms`));
    else this.#wait();
  };

  #isSilent(): boolean {
    return this.#clock.monotonic() - this.#receivedMs >= LINE_SILENCE_MS;
  }

  /** Ends the stream at once. `close` follows when the stream has closed. */
  #end(reason: Error): void {
    if (this.#state === 'open') this.#state = 'closing';
    this.#reason ??= reason;
    this.#stream.destroy();
  }

  #finish = (): void => {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#clock.clearTimer(this.#timer);
    this.#stream.destroy();
    this.emit('close', this.#reason);
  };
}

/** The batch of a frame, or the reason why it is none. The endpoint relies on an array. */
function batchOf(body: Buffer): readonly unknown[] | Error {
  try {
    const value = decodeFrame(body);
    if (Array.isArray(value)) return value;
  } catch (error) {
    const cause = asError(error);
    return new TroupeError('internal', `a frame of the other node cannot be read: ${cause.message}`, { cause });
  }
  return new TroupeError('internal', 'a frame of the other node is no batch of an endpoint');
}
