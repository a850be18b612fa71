/**
 * The event streams a server has open.
 *
 *  Y1  Never more than `SERVER_STREAMS_MAX`; the next is refused by name.
 *  Y2  Once they were ended, no stream is opened any more.
 */
import { SERVER_FULL_RETRY_MS, SERVER_STREAMS_MAX } from '../base/bounds.ts';
import { CancelledError, LimitError, type SessionEvent, type ViewMode } from '../index.ts';
import { EncodedEvents } from './encoded-events.ts';
import { type EventStream, eventStream } from './event-stream.ts';
import type { CheckedHandlerOptions } from './options.ts';

/** See the head of the file. */
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

  /** Streams there are. */
  get size(): number {
    return this.#streams.size;
  }

  /** An answer that streams what `read` gives, as the mode shows it. Throws `LimitError` (Y1), `CancelledError` (Y2), and what `read` throws. */
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
      encode: (event) => this.#encoded.inTurn(event, mode),
      clock,
      onClose,
      onError,
    });
    this.#streams.add(stream);
    return new Response(stream.body, {
      headers: {
        'content-type': 'text/event-stream; charset=utf-8',
        // A proxy that gathers what it forwards would hold events back.
        'x-accel-buffering': 'no',
      },
    });
  }

  /** Ends all streams, for good. */
  end(): void {
    this.#isEnded = true;
    for (const stream of [...this.#streams]) stream.end();
  }
}
