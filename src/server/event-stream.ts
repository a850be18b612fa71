/**
 * Events as server-sent events (HTML standard, section "Server-sent events"): `id` is the sequence number, `event` the type, `data`
 * the event as JSON.
 *
 * Owns: one reader's iteration, its timer. Does not own: the events, which wait in the reader's bounded queue.
 *
 *  X1  An event is taken from its reader when the client has room for it: what a client does not read waits in the queue, whose
 *      bounds hold, and becomes a `gap` there.
 *      Each event it was handed is in the budget of the readers until the client has room for the next one.
 *  X2  When the stream ends, for any reason, the iteration is over and no timer is set.
 *  X3  A client that does not read is let go when the budget says so: the stream breaks. Each durable event carries its number, so the
 *      client resumes behind the last one it read whole (`Last-Event-ID`), without loss.
 */
import { SERVER_HEARTBEAT_MS, SERVER_RECONNECT_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { LimitError } from '../base/errors.ts';
import { type BudgetedReader, READERS, type ReaderBudget } from '../events/reading/reader-budget.ts';
import type { SessionEvent } from '../index.ts';
import { problemOf } from './problem.ts';

/** What a stream is made of. */
export interface EventStreamParts {
  readonly events: AsyncIterableIterator<SessionEvent>;
  /** An event as it goes over the wire; undefined: this reader is not shown it. A promise: it waits for its turn of the loop. */
  readonly encode: (event: SessionEvent) => Uint8Array | undefined | Promise<Uint8Array | undefined>;
  readonly clock: Clock;
  /** Default: that of the process. */
  readonly budget?: ReaderBudget;
  /** Told once, when the stream is over. */
  readonly onClose: () => void;
  /** Told of a failure the client is not told the reason of. */
  readonly onError: (error: unknown) => void;
}

/** A stream of one reader's events, and its end from this side. */
export interface EventStream {
  readonly body: ReadableStream<Uint8Array>;
  /** Ends the stream behind what was sent. Safe to call again. */
  end(): void;
}

const encoder = new TextEncoder();
const OPENING = encoder.encode(`: open\nretry: ${SERVER_RECONNECT_MS}\n\n`);
const HEARTBEAT = encoder.encode(': alive\n\n');

/** What the iteration came to, until it is sent. */
type Arrival = { readonly result: IteratorResult<SessionEvent, unknown> } | { readonly error: unknown };

/** See the head of the file. */
export function eventStream(parts: EventStreamParts): EventStream {
  const { events, encode, clock, onClose, onError, budget = READERS } = parts;
  let arrived: Arrival | undefined;
  let isAsked = false;
  let wake = (): void => undefined;
  let timer: unknown;
  let isOver = false;
  let isCancelled = false;
  /** What the client was handed and has not read yet. */
  let handed: Uint8Array | undefined;
  let controllerOf: ReadableStreamDefaultController<Uint8Array> | undefined;

  const reader: BudgetedReader = {
    get held() {
      return handed?.byteLength ?? 0;
    },
    giveUp() {
      // It is in a buffer of the connection, which nothing but its end empties.
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
    // Readers of the hub never fail at this; an iteration of another kind may be slow to end, and is not waited for.
    events.return?.().catch(onError);
    wake();
    onClose();
  };
  const take = (arrival: Arrival): void => {
    arrived = arrival;
    wake();
  };
  /** Asks for one event at a time, however many heartbeats its coming takes. */
  const ask = (): void => {
    if (isAsked) return;
    isAsked = true;
    events.next().then(
      (result) => take({ result }),
      (error: unknown) => take({ error }),
    );
  };
  /** The next event; undefined when none came for so long that the client is to be told that this is alive. */
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
          // It may have ended while the event waited for its turn.
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
    // Nothing is taken ahead: what was handed over waits in the connection, once.
    { highWaterMark: 0 },
  );
  return { body, end: finish };
}

/** Not `error`: that is what a browser calls a lost connection. */
function failureText(error: unknown, onError: (error: unknown) => void): string {
  const problem = problemOf(error);
  if (problem.code === 'internal') onError(error);
  return `event: problem\ndata: ${JSON.stringify(problem)}\n\n`;
}
