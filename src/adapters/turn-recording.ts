/**
 * Keeps the streams of running turns, so that a client that connects again gets its turn from the beginning. A
 * recording is needed because the log does not have the text of an answer that is still being written.
 *
 * Owns: the bytes of each recorded stream until its turn ends. Does not own: the turn. Without a recording the turn is
 * replayed from the log.
 *  G1 The bytes of one recording, and of all recordings of the process, are bounded. A recording that exceeds a bound
 *     is dropped, and the streams of its clients continue.
 *  G2 A recording that no client reads is dropped after `RECORDING_UNREAD_MS`, together with its reader of the
 *     session's events.
 *  G3 No client ends another client's stream. Each client has its own signal and its own first piece.
 */
import { RECORDING_BYTES_MAX, RECORDING_UNREAD_MS, RECORDINGS_BYTES_MAX } from '../base/bounds.ts';
import type { Receipt } from '../index.ts';
import { runtimeOf } from '../runtime/handles/receipt.ts';

/** The recordings of each runtime, by the id of the receipt whose turn they record. */
const recordings = new WeakMap<object, Map<string, TurnRecording>>();
let heldBytes = 0;

/**
 * Records `stream` and returns the stream to send. If the turn already has a recording, returns a stream of that
 * recording and cancels `stream`. `start`: the first piece of this client's stream. It has the id of the assistant's
 * message.
 */
export function recorded(
  receipt: Receipt,
  start: Uint8Array,
  stream: ReadableStream<Uint8Array>,
): ReadableStream<Uint8Array> {
  const own = recordings.get(runtimeOf(receipt)) ?? new Map<string, TurnRecording>();
  recordings.set(runtimeOf(receipt), own);
  const known = own.get(receipt.id);
  if (known !== undefined) {
    // The existing recording is used, because it has the text that is being written, which the log does not have.
    stream.cancel().catch(() => undefined);
    return known.read(start);
  }
  const recording = new TurnRecording(stream, () => own.delete(receipt.id));
  own.set(receipt.id, recording);
  return recording.read(start);
}

/** The recorded stream of a turn from its beginning, followed live; undefined if there is no recording. */
export function replayed(receipt: Receipt, start: Uint8Array): ReadableStream<Uint8Array> | undefined {
  return recordings.get(runtimeOf(receipt))?.get(receipt.id)?.read(start);
}

/**
 * Returns a stream with the pieces of `stream`. When the signal aborts, the returned stream ends and `stream` is
 * cancelled (G3).
 */
export function untilAborted(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  if (signal === undefined) return stream;
  const reader = stream.getReader();
  // After `stop` the pending read resolves as done. If the cancelling fails, the read fails, and the client gets that
  // error.
  const stop = (): void => void reader.cancel().catch(() => undefined);
  const leave = (): void => signal.removeEventListener('abort', stop);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    const { done, value } = await reader.read();
    if (!done) return controller.enqueue(value);
    leave();
    controller.close();
  };
  const cancel = (reason: unknown): Promise<void> => {
    leave();
    return reader.cancel(reason);
  };
  return new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
}

/** A client of a recording. `next`: the number of the piece that it reads next. */
interface Client {
  next: number;
}

/** See the head of the file. */
class TurnRecording {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #forget: () => void;
  readonly #clients = new Set<Client>();
  readonly #pieces: Uint8Array[] = [];
  /** The number of the first piece that is still held. */
  #first = 0;
  #bytes = 0;
  /**
   * True once a bound was exceeded. Then no further client gets this recording, and pieces that all clients have read
   * are released.
   */
  #isFull = false;
  #isOver = false;
  /** Callbacks for the next change: a piece has come, a client has read a piece, or a client has left. */
  #waiting: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(stream: ReadableStream<Uint8Array>, forget: () => void) {
    this.#reader = stream.getReader();
    this.#forget = forget;
    this.#record().catch(() => this.#end());
  }

  /** The stream from its beginning, with `start` as its first piece. */
  read(start: Uint8Array): ReadableStream<Uint8Array> {
    const client: Client = { next: 0 };
    this.#clients.add(client);
    clearTimeout(this.#timer);
    const leave = (): void => {
      this.#clients.delete(client);
      this.#wake();
      if (this.#clients.size > 0 || this.#isOver) return;
      this.#timer = setTimeout(() => this.#stop(), RECORDING_UNREAD_MS);
      this.#timer.unref();
    };
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      while (this.#pieces[client.next - this.#first] === undefined && !this.#isOver && this.#clients.has(client)) {
        await this.#change();
      }
      const held = this.#pieces[client.next - this.#first];
      const piece = held !== undefined && client.next === 0 ? start : held;
      client.next += 1;
      if (!this.#clients.has(client)) return;
      if (piece === undefined) {
        leave();
        controller.close();
        return;
      }
      controller.enqueue(piece);
      this.#wake();
    };
    return new ReadableStream<Uint8Array>({ pull, cancel: leave }, { highWaterMark: 0 });
  }

  /** Reads the stream to its end. A failure of the turn is a part of the stream. */
  async #record(): Promise<void> {
    for (;;) {
      while (this.#isFull && this.#trim() > RECORDING_BYTES_MAX) await this.#change();
      if (this.#isFull && this.#clients.size === 0) this.#stop();
      const { done, value } = await this.#reader.read();
      if (done) break;
      this.#pieces.push(value);
      this.#hold(value.byteLength);
      if (this.#bytes > RECORDING_BYTES_MAX || heldBytes > RECORDINGS_BYTES_MAX) {
        this.#isFull = true;
        this.#forget();
      }
      this.#wake();
    }
    this.#end();
  }

  /** Releases the pieces that all clients have read; returns the bytes that are left. */
  #trim(): number {
    const read = Math.min(this.#first + this.#pieces.length, ...[...this.#clients].map(({ next }) => next));
    for (; this.#first < read; this.#first += 1) this.#hold(-(this.#pieces.shift()?.byteLength ?? 0));
    return this.#bytes;
  }

  #hold(bytes: number): void {
    this.#bytes += bytes;
    heldBytes += bytes;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Ends the reading; the pending read resolves as done. */
  #stop(): void {
    this.#reader.cancel().catch(() => this.#end());
  }

  /** Ends the recording. After that, only clients that have not read everything keep the pieces in memory. */
  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    heldBytes -= this.#bytes;
    clearTimeout(this.#timer);
    this.#forget();
    this.#wake();
  }
}
