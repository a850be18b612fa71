/**
 * The frames of a line: four bytes with a length (big-endian), then as many bytes of a serialised value. A frame of
 * length 0 has no value and only shows that the sender lives.
 */
import { Deserializer, Serializer } from 'node:v8';
import { LINE_BUFFER_BYTES_MIN, LINE_FRAME_BYTES_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';

const HEADER_BYTES = 4;

/** The frame that only shows that its sender lives. */
export const EMPTY_FRAME: Buffer = Buffer.alloc(HEADER_BYTES);

/**
 * The frame of a value. Throws what cannot be serialised, and a `LimitError` for a longer frame than allowed. It writes
 * the format of `v8.serialize`, but leaves views of memory to V8, as a `MessagePort` does. `v8.serialize` would copy a
 * view of shared memory, and its reader would keep the whole chunk of the socket for each view.
 */
export function encodeFrame(value: unknown): Buffer {
  const serializer = new Serializer();
  serializer.writeRawBytes(EMPTY_FRAME);
  serializer.writeHeader();
  serializer.writeValue(value);
  const frame = serializer.releaseBuffer();
  const bytes = frame.length - HEADER_BYTES;
  if (bytes > LINE_FRAME_BYTES_MAX) {
    throw new LimitError(`a frame of ${bytes} bytes is too long for a line: at most ${LINE_FRAME_BYTES_MAX}`, {
      data: { limit: 'lineFrameBytes', bytes },
    });
  }
  frame.writeUInt32BE(bytes);
  return frame;
}

/** The value of a frame. Throws for bytes that are no serialised value. The value has no part of `body`. */
export function decodeFrame(body: Buffer): unknown {
  const deserializer = new Deserializer(body);
  deserializer.readHeader();
  return deserializer.readValue();
}

/**
 * Cuts a stream of bytes into the bodies of its frames. Owns the bytes of the frame that has not arrived whole. A frame
 * in many chunks is copied into a buffer that doubles, so the time grows with its length only. Whatever length was
 * announced, the buffer has at most `LINE_BUFFER_BYTES_MIN` bytes, or twice the bytes that arrived.
 */
export class FrameReader {
  #buffer: Buffer | undefined;
  #held = 0;
  /** Bytes of the part that arrives: a header, or the body that the last header announced. */
  #wanted = HEADER_BYTES;
  #isHeader = true;

  /**
   * The frames that end in this chunk, in order. A body may share the memory of `chunk`. A header with a length beyond
   * the bound gives a `LimitError`, after which the rest of the stream has no meaning.
   */
  *bodies(chunk: Buffer): Generator<Buffer | LimitError, void> {
    for (let start = 0; ; ) {
      const end = start + this.#wanted - this.#held;
      if (end > chunk.length) {
        this.#hold(chunk.subarray(start));
        return;
      }
      const part = this.#whole(chunk.subarray(start, end));
      start = end;
      this.#isHeader = !this.#isHeader;
      if (this.#isHeader) {
        this.#wanted = HEADER_BYTES;
        yield part;
        continue;
      }
      this.#wanted = part.readUInt32BE();
      if (this.#wanted > LINE_FRAME_BYTES_MAX) {
        yield new LimitError(
          `the other node announced a frame of ${this.#wanted} bytes: at most ${LINE_FRAME_BYTES_MAX}`,
          {
            data: { limit: 'lineFrameBytes', bytes: this.#wanted },
          },
        );
        return;
      }
    }
  }

  /** The part that arrives, which `last` completes. */
  #whole(last: Buffer): Buffer {
    if (this.#held === 0) return last;
    this.#hold(last);
    const whole = this.#buffer?.subarray(0, this.#wanted) ?? last;
    this.#buffer = undefined;
    this.#held = 0;
    return whole;
  }

  #hold(piece: Buffer): void {
    if (piece.length === 0) return;
    const bytes = this.#held + piece.length;
    let buffer = this.#buffer;
    if (buffer === undefined || buffer.length < bytes) {
      const room = Math.min(this.#wanted, Math.max(bytes, 2 * (buffer?.length ?? 0), LINE_BUFFER_BYTES_MIN));
      const larger = Buffer.allocUnsafeSlow(room);
      buffer?.copy(larger, 0, 0, this.#held);
      buffer = larger;
    }
    piece.copy(buffer, this.#held);
    this.#buffer = buffer;
    this.#held = bytes;
  }
}
