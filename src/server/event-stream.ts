/**
 * Sends events as server-sent events (HTML standard, section "Server-sent events"). `id` is the seq of the event,
 * `event` its type, `data` the event as JSON.
 *
 * Owns: one reader's iteration and the heartbeat timer. Does not own: the events, which wait in the reader's bounded
 * queue.
 *
 *  X1  An event is taken from the reader's queue only when the client has room for it. Unread events stay in the queue.
 *      Beyond the bounds of the queue they become a `gap`. An event that was handed to the client counts in the budget
 *      of all readers (`reader-budget.ts`) until the client has room for the next event.
 *  X2  Once the stream has ended, for whatever reason, the iteration is over and no timer is set.
 *  X3  When the budget of all readers is exceeded, it may end the stream of a client that does not read. Each durable
 *      event carries its seq, so the client resumes after the last event that it read whole (`Last-Event-ID`), without
 *      loss.
 */
import { SERVER_HEARTBEAT_MS, SERVER_RECONNECT_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { LimitError } from '../base/errors.ts';
import { type BudgetedReader, READERS, type ReaderBudget } from '../events/reading/reader-budget.ts';
import type { SessionEvent } from '../index.ts';
import { problemOf } from './problem.ts';

/** The parts of a stream. */
export interface EventStreamParts {
  readonly events: AsyncIterableIterator<SessionEvent>;
  /**
   * Returns the wire form of an event; undefined if the reader's mode hides the event. A returned promise resolves in a
   * tick that has room for the event.
   */
  readonly encode: (event: SessionEvent) => Uint8Array | undefined | Promise<Uint8Array | undefined>;
  readonly clock: Clock;
  /** The budget that counts this stream. Default: the budget of the process. */
  readonly budget?: ReaderBudget;
  /** Called once, when the stream is over. */
  readonly onClose: () => void;
  /** Receives each failure whose reason the client does not see. */
  readonly onError: (error: unknown) => void;
}

/** A stream of one reader's events, and a way for the server to end it. */
export interface EventStream {
  readonly body: ReadableStream<Uint8Array>;
  /** Ends the stream after the data already sent. Safe to call again. */
  end(): void;
}

const encoder = new TextEncoder();
const OPENING = encoder.encode(`: open\nretry: ${SERVER_RECONNECT_MS}\n\n`);
const HEARTBEAT = encoder.encode(': alive\n\n');

/** A result of the iteration that was not sent yet. */
type Arrival = { readonly result: IteratorResult<SessionEvent, unknown> } | { readonly error: unknown };

/** See the file header. */
export function eventStream(parts: EventStreamParts): EventStream {
  const { events, encode, clock, onClose, onError, budget = READERS } = parts;
  let arrived: Arrival | undefined;
  let isAsked = false;
  let wake = (): void => undefined;
  let timer: unknown;
  let isOver = false;
  let isCancelled = false;
  /** Bytes that were handed to the client, and that the client has not read yet. */
  let handed: Uint8Array | undefined;
  let controllerOf: ReadableStreamDefaultController<Uint8Array> | undefined;

  const reader: BudgetedReader = {
    get held() {
      return handed?.byteLength ?? 0;
    },
    giveUp() {
      // The bytes are in a buffer of the connection. Only the end of the connection frees them, so the stream fails.
      isCancelled = true;
      controllerOf?.error(new LimitError('the reader fell too far behind', { data: { limit: 'readersBytes' } }));
      finish();
    },
  };
  const release = (): void => {
    const bytes = handed;
    handed = undefined;
    if (bytes !== undefined) budget.release(reader, bytes, bytes.byteLength);
  };
  const hand = (controller: ReadableStreamDefaultController<Uint8Array>, bytes: Uint8Array): void => {
    controller.enqueue(bytes);
    handed = bytes;
    budget.hold(reader, bytes, bytes.byteLength);
  };
  const finish = (): void => {
    if (isOver) return;
    isOver = true;
    release();
    // `return` of the runtime's own readers never rejects. Other iterators may be slow to end, so the call is not
    // awaited.
    events.return?.().catch(onError);
    wake();
    onClose();
  };
  const take = (arrival: Arrival): void => {
    arrived = arrival;
    wake();
  };
  /** Requests the next event, unless a request for it is open. So one request stays open over many heartbeats. */
  const ask = (): void => {
    if (isAsked) return;
    isAsked = true;
    events.next().then(
      (result) => take({ result }),
      (error: unknown) => take({ error }),
    );
  };
  /** The next event; undefined if no event came before the next heartbeat is due. */
  const arrival = async (): Promise<Arrival | undefined> => {
    ask();
    if (arrived === undefined && !isOver) {
      await new Promise<void>((resolve) => {
        wake = resolve;
        timer = clock.setTimer(resolve, SERVER_HEARTBEAT_MS);
      });
      clock.clearTimer(timer);
    }
    const found = arrived;
    if (found !== undefined) isAsked = false;
    arrived = undefined;
    return found;
  };

  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controllerOf = controller;
        controller.enqueue(OPENING);
      },
      async pull(controller) {
        release();
        let found = await arrival();
        for (;;) {
          if (isCancelled) return;
          if (isOver) return controller.close();
          if (found === undefined) return controller.enqueue(HEARTBEAT);
          if (!('result' in found) || found.result.done === true) break;
          const encoded = encode(found.result.value);
          const bytes = encoded instanceof Promise ? await encoded : encoded;
          // The stream may have ended while the event waited for its tick.
          if (isCancelled) return;
          if (isOver) return controller.close();
          if (bytes !== undefined) return hand(controller, bytes);
          found = await arrival();
        }
        if ('error' in found) controller.enqueue(encoder.encode(failureText(found.error, onError)));
        finish();
        controller.close();
      },
      cancel() {
        isCancelled = true;
        finish();
      },
    },
    // Nothing is read ahead: bytes handed over are buffered once, in the connection.
    { highWaterMark: 0 },
  );
  return { body, end: finish };
}

/** The event that reports a failure. Its name is not `error`, because browsers use that name for a lost connection. */
function failureText(error: unknown, onError: (error: unknown) => void): string {
  const problem = problemOf(error);
  if (problem.code === 'internal') onError(error);
  return `event: problem\ndata: ${JSON.stringify(problem)}\n\n`;
}
