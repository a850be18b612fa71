/**
 * The open event streams of a server.
 *
 *  Y1  At most `SERVER_STREAMS_MAX` streams are open. A further stream is refused with a `LimitError`.
 *  Y2  After `end` no stream is opened.
 */
import { SERVER_FULL_RETRY_MS, SERVER_STREAMS_MAX } from '../base/bounds.ts';
import { CancelledError, LimitError, type SessionEvent, type ViewMode } from '../index.ts';
import { EncodedEvents } from './encoded-events.ts';
import { type EventStream, eventStream } from './event-stream.ts';
import type { CheckedHandlerOptions } from './options.ts';

/** See the file header. */
export class StreamRegistry {
  readonly #options: CheckedHandlerOptions;
  readonly #streamsMax: number;
  readonly #streams = new Set<EventStream>();
  readonly #encoded = new EncodedEvents();
  #isEnded = false;

  constructor(options: CheckedHandlerOptions, streamsMax: number = SERVER_STREAMS_MAX) {
    this.#options = options;
    this.#streamsMax = streamsMax;
  }

  /** Number of open streams. */
  get size(): number {
    return this.#streams.size;
  }

  /**
   * Returns an answer that streams the events of `read`, in the form that `mode` shows. Throws `LimitError` (Y1),
   * `CancelledError` (Y2), and the errors of `read`.
   */
  answer(mode: ViewMode, read: () => AsyncIterableIterator<SessionEvent>): Response {
    if (this.#isEnded) throw new CancelledError('the server is closing');
    if (this.#streams.size >= this.#streamsMax) {
      throw new LimitError(`at most ${this.#streamsMax} event streams at once`, {
        retryable: true,
        data: { limit: 'eventStreams', retryAfterMs: SERVER_FULL_RETRY_MS },
      });
    }
    const { clock, onError } = this.#options;
    const onClose = (): void => void this.#streams.delete(stream);
    const stream: EventStream = eventStream({
      events: read(),
      encode: (event) => this.#encoded.inTick(event, mode),
      clock,
      onClose,
      onError,
    });
    this.#streams.add(stream);
    return new Response(stream.body, {
      headers: {
        'content-type': 'text/event-stream; charset=utf-8',
        // A proxy that buffers would delay events.
        'x-accel-buffering': 'no',
      },
    });
  }

  /** Ends all streams. Afterwards no stream can be opened (Y2). */
  end(): void {
    this.#isEnded = true;
    for (const stream of [...this.#streams]) stream.end();
  }
}
