/**
 * The endpoint over a port. A **frame** is one request, answer or note. The frames that one tick sends travel as one
 * array.
 *
 * Owns: the frames that wait for the end of the tick, the received frames that are not delivered yet, the calls that
 * wait for an answer. Does not own: the thread behind the port.
 *
 * Invariants:
 * T1 every call settles exactly once: with its answer, with the far side's error, or when either side is gone.
 * T2 frames of one side arrive in the order they were sent. A late note (`notifyLate`) keeps its position in that
 *    order; its payload has everything that was added before its batch left.
 * T3 a payload that cannot be cloned fails its own call, answer or note, and no other of its batch.
 * T4 nothing is delivered synchronously, not even between two endpoints on one thread.
 * T5 at most `ENDPOINT_SLICE_MAX` frames are delivered in one tick (a slice), except when the far side is gone. A slice
 *    whose handlers took `ENDPOINT_SLICE_MS` ends sooner. Without these bounds a port would pass on up to a thousand
 *    batches in one tick. The work that the first calls start, and their answers, would then wait until all other calls
 *    are delivered. Also, the work on one slice finishes while its data is still in the processor's caches.
 */
import { ENDPOINT_BATCH_MAX, ENDPOINT_CALLS_MAX, ENDPOINT_SLICE_MAX, ENDPOINT_SLICE_MS } from '../base/bounds.ts';
import { type Clock, soon as nextTick, type Soon, systemClock } from '../base/clock.ts';
import { asError, CancelledError, LimitError, TroupeError } from '../base/errors.ts';
import type { Endpoint } from './endpoint.ts';
import { decodeError, type EncodedError, encodeError } from './error-codec.ts';

/**
 * The port that an endpoint needs: a `MessagePort`, a `Worker`, a thread's `parentPort`, or one side of a local pair.
 */
export interface MessagePortLike {
  postMessage(message: unknown): void;
  on(event: string, listener: (value: unknown) => void): unknown;
  off(event: string, listener: (value: unknown) => void): unknown;
  close?(): void;
}

/** The ticks and the time of an endpoint's thread, which the simulator controls. */
export interface EndpointTicks {
  readonly soon: Soon;
  readonly clock: Pick<Clock, 'monotonic'>;
}

const THREAD_TICKS: EndpointTicks = { soon: nextTick, clock: systemClock };

const CALL = 0;
const ANSWER = 1;
const FAILURE = 2;
const NOTE = 3;
/**
 * A batch is one flat array with four elements for each frame: kind, id, method, payload. A flat array is cloned faster
 * than a nested one.
 */
const PLACES = 4;
const PAYLOAD_PLACE = 3;

interface OpenCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}
type Handler = (payload: unknown) => unknown;
/** An unsent late note. `at`: the index of its payload in the outbox. */
interface LateNote {
  readonly at: number;
  readonly payload: () => unknown;
}

/**
 * Makes an endpoint over `port` and owns the port from then on. The endpoint listens at once, so set the handlers in
 * the same tick. An error thrown by a note's handler is a programming error: it is thrown again in a later tick, where
 * nothing catches it.
 */
export function createEndpoint(port: MessagePortLike, ticks: EndpointTicks = THREAD_TICKS): Endpoint {
  return new BatchedEndpoint(port, ticks);
}

/** Two endpoints joined on one thread. They keep the same contract, but pass payloads without cloning them. */
export function createLocalEndpoints(ticks: EndpointTicks = THREAD_TICKS): [Endpoint, Endpoint] {
  const left = new LocalPort(ticks.soon);
  const right = new LocalPort(ticks.soon);
  left.peer = right;
  right.peer = left;
  return [new BatchedEndpoint(left, ticks), new BatchedEndpoint(right, ticks)];
}

class BatchedEndpoint implements Endpoint {
  readonly #port: MessagePortLike;
  readonly #soon: Soon;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #open = new Map<number, OpenCall>();
  readonly #handlers = new Map<string, Handler>();
  readonly #closeListeners: (() => void)[] = [];
  #outbox: unknown[] = [];
  /** Unsent notes whose payload is still being collected. */
  #late: LateNote[] = [];
  #flushing = false;
  /** Batches received and not fully delivered; the first of them is delivered up to `#inboxAt`. */
  #inbox: (readonly unknown[])[] = [];
  #inboxAt = 0;
  /** Frames that may still be delivered before the next slice. At 0, that slice is scheduled. */
  #sliceLeft = ENDPOINT_SLICE_MAX;
  /** Milliseconds that the handlers of the current slice took. */
  #sliceMs = 0;
  #lastId = 0;
  #state: 'open' | 'closed' | 'gone' = 'open';

  constructor(port: MessagePortLike, { soon, clock }: EndpointTicks) {
    this.#port = port;
    this.#soon = soon;
    this.#clock = clock;
    port.on('message', this.#receive);
    // A batch that cannot be read would leave calls without answers, so it is treated as the end of the connection.
    port.on('messageerror', this.#gone);
    // A port ends with `close`, a worker with `exit`.
    port.on('close', this.#gone);
    port.on('exit', this.#gone);
  }

  call(method: string, payload: unknown): Promise<unknown> {
    if (this.#state !== 'open') return Promise.reject(this.#endError());
    if (this.#open.size >= ENDPOINT_CALLS_MAX) {
      return Promise.reject(
        new LimitError(`more than ${ENDPOINT_CALLS_MAX} calls wait on one endpoint`, {
          data: { limit: 'endpointCalls' },
          retryable: true,
        }),
      );
    }
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#open.set(id, { resolve, reject });
      this.#send(CALL, id, method, payload);
    });
  }

  notify(method: string, payload: unknown): void {
    if (this.#state === 'open') this.#send(NOTE, 0, method, payload);
  }

  notifyLate(method: string, payload: () => unknown): void {
    if (this.#state !== 'open') return;
    this.#late.push({ at: this.#outbox.length + PAYLOAD_PLACE, payload });
    this.#send(NOTE, 0, method, undefined);
  }

  hasten(): void {
    // The flush is a microtask, so that nothing is delivered synchronously between two endpoints on one thread (T4).
    queueMicrotask(this.#flush);
  }

  handle(method: string, handler: Handler): void {
    this.#handlers.set(method, handler);
  }

  onClose(listener: () => void): void {
    if (this.#state === 'gone') queueMicrotask(listener);
    else this.#closeListeners.push(listener);
  }

  close(): void {
    if (this.#state !== 'open') return;
    this.#flush();
    this.#state = 'closed';
    this.#letGo();
    this.#port.close?.();
  }

  #endError(): Error {
    return this.#state === 'closed'
      ? new CancelledError('the endpoint was closed')
      : new TroupeError('internal', 'the other side of the thread boundary is gone', { retryable: true });
  }

  #gone = (): void => {
    if (this.#state !== 'open') return;
    // Frames that the far side sent before its end are still delivered.
    while (this.#deliverNext());
    if (this.#state !== 'open') return;
    this.#state = 'gone';
    this.#letGo();
    for (const listener of this.#closeListeners.splice(0)) listener();
  };

  #letGo(): void {
    this.#port.off('message', this.#receive);
    this.#outbox = [];
    this.#late = [];
    this.#inbox = [];
    this.#inboxAt = 0;
    const calls = [...this.#open.values()];
    this.#open.clear();
    for (const call of calls) call.reject(this.#endError());
  }

  #send(kind: number, id: number, method: string, payload: unknown): void {
    this.#outbox.push(kind, id, method, payload);
    if (this.#flushing) return;
    this.#flushing = true;
    // The flush waits for the next tick, not for a microtask. All continuations of this tick run before it, so a batch
    // of calls is answered by one batch.
    this.#soon(this.#flush);
  }

  #flush = (): void => {
    this.#flushing = false;
    const frames = this.#outbox;
    if (frames.length === 0 || this.#state !== 'open') return;
    this.#outbox = [];
    if (this.#late.length > 0) for (const { at, payload } of this.#late.splice(0)) frames[at] = payload();
    const step = ENDPOINT_BATCH_MAX * PLACES;
    if (frames.length <= step) this.#post(frames);
    else for (let start = 0; start < frames.length; start += step) this.#post(frames.slice(start, start + step));
  };

  #post(frames: readonly unknown[]): void {
    try {
      this.#port.postMessage(frames);
    } catch {
      for (let start = 0; start < frames.length; start += PLACES) {
        this.#postOne(frames.slice(start, start + PLACES));
      }
    }
  }

  #postOne(frame: readonly unknown[]): void {
    try {
      this.#port.postMessage(frame);
    } catch (error) {
      const id = frame[1] as number;
      if (frame[0] === CALL) this.#settle(id)?.reject(asError(error));
      if (frame[0] === ANSWER) this.#port.postMessage([FAILURE, id, '', encodeError(error)]);
      // A note gets no answer, so its failure is not reported. The contract of notes allows their loss.
    }
  }

  #receive = (message: unknown): void => {
    this.#inbox.push(message as readonly unknown[]);
    // If other batches wait, a slice is being delivered or scheduled.
    if (this.#inbox.length === 1) this.#deliverSlice();
  };

  /** Delivers some of the received frames, in order, and leaves the rest to later ticks (T2, T5). */
  #deliverSlice(): void {
    let beganAt = this.#clock.monotonic();
    while (this.#sliceLeft > 0 && this.#inbox.length > 0) {
      this.#sliceLeft -= 1;
      // The next slice is scheduled before the last frame of a full slice, so it runs before the work that frame schedules.
      if (this.#sliceLeft === 0) this.#soon(this.#nextSlice);
      this.#deliverNext();
      const endedAt = this.#clock.monotonic();
      this.#sliceMs += endedAt - beganAt;
      beganAt = endedAt;
      if (this.#sliceLeft === 0 || this.#sliceMs < ENDPOINT_SLICE_MS) continue;
      this.#sliceLeft = 0;
      this.#soon(this.#nextSlice);
    }
  }

  #nextSlice = (): void => {
    this.#sliceLeft = ENDPOINT_SLICE_MAX;
    this.#sliceMs = 0;
    this.#deliverSlice();
  };

  /** Delivers one frame; false when none is left. */
  #deliverNext(): boolean {
    const frames = this.#inbox[0];
    if (frames === undefined) return false;
    const at = this.#inboxAt;
    this.#inboxAt += PLACES;
    if (this.#inboxAt >= frames.length) {
      this.#inbox.shift();
      this.#inboxAt = 0;
    }
    const id = frames[at + 1] as number;
    const payload = frames[at + 3];
    if (frames[at] === ANSWER) this.#settle(id)?.resolve(payload);
    else if (frames[at] === FAILURE) this.#settle(id)?.reject(decodeError(payload as EncodedError));
    else if (frames[at] === CALL) this.#answer(id, frames[at + 2] as string, payload);
    else this.#take(frames[at + 2] as string, payload);
    return this.#inbox.length > 0;
  }

  #settle(id: number): OpenCall | undefined {
    const call = this.#open.get(id);
    this.#open.delete(id);
    return call;
  }

  #answer(id: number, method: string, payload: unknown): void {
    const handler = this.#handlers.get(method);
    try {
      if (handler === undefined) throw new TroupeError('internal', `no handler for ${JSON.stringify(method)}`);
      const result = handler(payload);
      if (isThenable(result)) {
        Promise.resolve(result).then(
          (value) => this.#reply(ANSWER, id, value),
          (error: unknown) => this.#reply(FAILURE, id, encodeError(error)),
        );
      } else this.#reply(ANSWER, id, result);
    } catch (error) {
      this.#reply(FAILURE, id, encodeError(error));
    }
  }

  #reply(kind: number, id: number, payload: unknown): void {
    if (this.#state === 'open') this.#send(kind, id, '', payload);
  }

  #take(method: string, payload: unknown): void {
    try {
      const result = this.#handlers.get(method)?.(payload);
      if (isThenable(result)) Promise.resolve(result).catch((error: unknown) => this.#throwOutside(error));
    } catch (error) {
      this.#throwOutside(error);
    }
  }

  #throwOutside(error: unknown): void {
    this.#soon(() => {
      throw error;
    });
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function';
}

/** One side of a pair on one thread. The endpoint's batching makes the delivery asynchronous (T4). */
class LocalPort implements MessagePortLike {
  peer: LocalPort | undefined;
  readonly #soon: Soon;
  readonly #listeners = new Map<string, Set<(value: unknown) => void>>();

  constructor(soon: Soon) {
    this.#soon = soon;
  }

  postMessage(message: unknown): void {
    this.peer?.emit('message', message);
  }

  on(event: string, listener: (value: unknown) => void): void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
  }

  off(event: string, listener: (value: unknown) => void): void {
    this.#listeners.get(event)?.delete(listener);
  }

  close(): void {
    const peer = this.peer;
    this.peer = undefined;
    this.#soon(() => peer?.emit('close', undefined));
  }

  emit(event: string, value: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }
}
