/**
 * Makes model calls on the calling thread. This pool is a session thread's own pool (`threads.models: 0`), and also
 * runs inside each model thread.
 * Owns: the running calls, their deadlines and streamed text, the mirror of contexts, unreported deltas and
 * completions. Does not own: the provider's sockets, retries, rates.
 *
 * - P1 Every call completes exactly once; later events of its provider are dropped.
 * - P2 The listener is never called from within `call`, `cancel` or `close`: completions are reported together, one
 *   tick later.
 * - P3 Deltas of a call keep their order and are collected for `DELTA_COALESCE_MS`. No delta comes after the
 *   completion.
 * - P4 A call ends at its `timeoutMs` or at `cancel`, even if its provider ignores the signal.
 * - P5 No timer runs while no call runs.
 * - P6 A call keeps its streamed text until it completes, whether its deltas are wanted or not. `streamed-text.ts` has
 *   the bounds of this text.
 * - P7 A malformed delta fails its call and aborts the call's signal. `onDelta` itself never throws.
 * - P8 At most `CALLS_STARTED_MAX` calls are passed to the provider in one tick. Between two ticks the answers of
 *   running calls are read.
 * - P9 Every `DRAFT_INTERVAL_MS` the pool reports a draft: the text and tokens of a call since its previous draft. If
 *   the call fails, its completion has the last draft. So all drafts of a call together are the beginning of its
 *   text, with each piece once.
 */
import {
  CALLS_STARTED_MAX,
  DELTA_CHARACTERS_MAX,
  DELTA_COALESCE_MS,
  DRAFT_INTERVAL_MS,
  ERROR_TEXT_CHARACTERS_MAX,
} from '../../base/bounds.ts';
import { type Clock, soon as nextTick, type Soon } from '../../base/clock.ts';
import { type Deadline, DeadlineQueue } from '../../base/deadline-queue.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, errorShape, TroupeError } from '../../base/errors.ts';
import { cutText } from '../../base/json.ts';
import { LazyAbort, withSignal } from '../../base/lazy-abort.ts';
import { checkResponse } from '../anthropic/response-check.ts';
import { CACHE_MARKS_MAX, withNewestMarks } from '../cache-marks.ts';
import { checkDelta } from '../delta-check.ts';
import { modelErrorOf } from '../model-error.ts';
import type { ModelCall, ModelCompletion, ModelPool, ModelPoolListener, StreamedDelta } from '../pool.ts';
import type { ModelDelta, ModelProvider, ModelRequest } from '../provider.ts';
import { ContextMirror } from './context-mirror.ts';
import { type DraftedPart, nextDraft } from './stream-drafts.ts';
import { StreamedText } from './streamed-text.ts';

/** A call in flight. */
interface Running {
  readonly id: number;
  readonly session: string;
  readonly abort: LazyAbort;
  readonly startedMs: number;
  readonly timeoutMs: number;
  deadline: Deadline<Running> | undefined;
  /** The request for the provider; cleared once the provider has it. */
  request: ModelRequest | undefined;
  wantsDeltas: boolean;
  /** True once the call has completed (P1). */
  isOver: boolean;
  /** Unreported deltas, neighbours of one type joined; undefined if there are none. */
  deltas: { type: ModelDelta['type']; texts: string[] }[] | undefined;
  deltaLength: number;
  /** The text that was streamed, without the pieces that are still in `deltas`. */
  readonly streamed: StreamedText;
  /** True once a piece has been added to `streamed`. Pieces that are still in `deltas` do not count. */
  hasStreamed: boolean;
  /** The part of the call's text and tokens that its drafts contain. */
  readonly drafted: DraftedPart;
}

/**
 * A pool that calls `provider` on this thread and reports to `listener` on this thread. `clock` times deadlines and the
 * collecting of deltas; `soon` schedules the tick in which completions are reported.
 */
export function createInPlacePool(
  provider: ModelProvider,
  listener: ModelPoolListener,
  clock: Clock,
  soon: Soon = nextTick,
): ModelPool {
  return new InPlacePool(provider, listener, clock, soon);
}

class InPlacePool implements ModelPool {
  readonly #provider: ModelProvider;
  readonly #listener: ModelPoolListener;
  readonly #clock: Clock;
  readonly #soon: Soon;
  readonly #mirror = new ContextMirror();
  readonly #running = new Map<number, Running>();
  readonly #deadlines: DeadlineQueue<Running>;
  /** Calls that have not been passed to their provider. */
  #starting: Running[] = [];
  /** Calls that have unreported deltas. */
  readonly #talking = new Set<Running>();
  #deltaTimer: unknown;
  /** The timer of the next drafts (P9). The first piece or the first token count of a call starts it. */
  #draftTimer: unknown;
  #completions: ModelCompletion[] = [];
  #isReporting = false;
  #closed = false;
  readonly #streamedSum = { characters: 0 };
  readonly #onIdle: (() => void)[] = [];

  constructor(provider: ModelProvider, listener: ModelPoolListener, clock: Clock, soon: Soon) {
    this.#provider = provider;
    this.#listener = listener;
    this.#clock = clock;
    this.#soon = soon;
    this.#deadlines = new DeadlineQueue(clock, (running) => this.#timedOut(running));
  }

  call(call: ModelCall): void {
    const running: Running = {
      id: call.id,
      session: call.session,
      abort: new LazyAbort(),
      startedMs: this.#clock.monotonic(),
      timeoutMs: call.timeoutMs,
      deadline: undefined,
      request: undefined,
      wantsDeltas: call.wantsDeltas,
      isOver: false,
      deltas: undefined,
      deltaLength: 0,
      streamed: new StreamedText(this.#streamedSum),
      hasStreamed: false,
      drafted: { characters: 0, isCut: false, usage: undefined, isUsageNew: false },
    };
    this.#running.set(call.id, running);
    if (this.#closed) {
      this.#fail(running, new CancelledError('the model pool is closed'));
      return;
    }
    running.request = this.#mirror.apply(call.session, call.context);
    if (running.request === undefined) {
      const message = 'the context this call builds on is not held here; send it whole';
      this.#fail(running, modelErrorOf({ code: 'model_connection', message }));
      return;
    }
    running.deadline = this.#deadlines.add(running, running.startedMs, call.timeoutMs);
    // The call is not started from within `call` (P2): a provider may send deltas before it returns.
    if (this.#starting.push(running) === 1) queueMicrotask(this.#startAll);
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#mirror.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart = false): void {
    const running = this.#running.get(id);
    if (running === undefined) return;
    // Gathered pieces are reported first, so that they come before the pieces that arrive from now on.
    this.#publishDeltasOf(running);
    running.wantsDeltas = isWanted;
    if (!isWanted || !fromStart || !running.hasStreamed) return;
    this.#listener.delta(id, running.session, { type: 'text', text: '', before: running.streamed.pieces() });
  }

  cancel(id: number): void {
    const running = this.#running.get(id);
    if (running !== undefined) {
      this.#abandon(running, new CancelledError('the model call was cancelled'));
    }
  }

  forget(session: string): void {
    this.#mirror.forget(session);
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const running of [...this.#running.values()]) {
      this.#abandon(running, new CancelledError('the model pool was closed'));
    }
    if (!this.#isReporting) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  #startAll = (): void => {
    const starting = this.#starting.splice(0, CALLS_STARTED_MAX);
    if (this.#starting.length > 0) this.#soon(this.#startAll);
    for (const running of starting) {
      const { request } = running;
      running.request = undefined;
      if (request !== undefined && !running.isOver) this.#start(running, request);
    }
  };

  #start(running: Running, request: ModelRequest): void {
    const onDelta = (delta: unknown): void => this.#take(running, delta);
    const onUsage = (usage: unknown): void => {
      if (running.isOver) return;
      running.drafted.usage = usage;
      running.drafted.isUsageNew = true;
      this.#draftLater();
    };
    const context = withSignal({ onDelta, onUsage, session: running.session }, running.abort);
    try {
      const messages = withNewestMarks(request.messages, CACHE_MARKS_MAX);
      const sent = messages === request.messages ? request : { ...request, messages };
      Promise.resolve(this.#provider.generate(sent, context)).then(
        (response) => this.#succeed(running, response),
        (error: unknown) => this.#fail(running, error),
      );
    } catch (error) {
      // A provider that throws synchronously is treated like a provider that rejects.
      this.#fail(running, error);
    }
  }

  #timedOut(running: Running): void {
    const message = `the model did not answer within ${running.timeoutMs} ms`;
    this.#abandon(running, modelErrorOf({ code: 'model_timeout', message }));
  }

  #abandon(running: Running, error: Error): void {
    // Completes the call before aborting, because a provider may reject at once on abort and must find its call ended.
    this.#fail(running, error);
    running.abort.abort();
  }

  #succeed(running: Running, answer: unknown): void {
    if (running.isOver) return;
    try {
      const response = checkResponse(answer);
      this.#complete(running, { id: running.id, response, ms: this.#elapsedMs(running) });
    } catch (error) {
      this.#fail(running, error);
    }
  }

  #fail(running: Running, error: unknown): void {
    if (running.isOver) return;
    const stack = faultStack(error);
    const unreported = (running.deltas ?? []).map(({ type, texts }) => ({ type, text: texts.join('') }));
    const lost = nextDraft(running.streamed, running.drafted, unreported);
    this.#complete(running, {
      id: running.id,
      error: errorShape(error),
      ms: this.#elapsedMs(running),
      ...defined({ stack, lost }),
    });
  }

  #elapsedMs(running: Running): number {
    return Math.round(this.#clock.monotonic() - running.startedMs);
  }

  #complete(running: Running, completion: ModelCompletion): void {
    running.isOver = true;
    running.streamed.drop();
    this.#running.delete(running.id);
    if (running.deadline !== undefined) this.#deadlines.remove(running.deadline);
    this.#completions.push(completion);
    if (this.#running.size === 0) this.#clearTimers();
    if (this.#isReporting) return;
    this.#isReporting = true;
    this.#soon(this.#report);
  }

  /** Clears both timers when no call runs (P5). The tick of the completion reports the remaining deltas (P3). */
  #clearTimers(): void {
    if (this.#deltaTimer !== undefined) this.#clock.clearTimer(this.#deltaTimer);
    if (this.#draftTimer !== undefined) this.#clock.clearTimer(this.#draftTimer);
    this.#deltaTimer = undefined;
    this.#draftTimer = undefined;
  }

  #draftLater(): void {
    this.#draftTimer ??= this.#clock.setTimer(() => {
      this.#draftTimer = undefined;
      this.#reportDrafts();
    }, DRAFT_INTERVAL_MS);
  }

  /**
   * Reports the drafts of all calls: one timer serves them all. A call younger than the interval waits for the next
   * interval.
   */
  #reportDrafts(): void {
    const now = this.#clock.monotonic();
    for (const running of [...this.#running.values()]) {
      if (now - running.startedMs < DRAFT_INTERVAL_MS) continue;
      const draft = nextDraft(running.streamed, running.drafted);
      if (draft !== undefined) this.#listener.delta(running.id, running.session, { type: 'text', text: '', draft });
    }
    if (this.#running.size > 0) this.#draftLater();
  }

  #report = (): void => {
    this.#isReporting = false;
    const completions = this.#completions;
    this.#completions = [];
    this.#publishDeltas();
    this.#listener.completed(completions);
    if (this.#isReporting || this.#onIdle.length === 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  };

  #take(running: Running, given: unknown): void {
    if (running.isOver) return;
    const delta = checkDelta(given);
    if (delta instanceof Error) this.#abandon(running, delta);
    else if (delta.text !== '') this.#gather(running, delta);
  }

  #gather(running: Running, delta: ModelDelta): void {
    this.#draftLater();
    if (!running.wantsDeltas) {
      running.hasStreamed = true;
      running.streamed.add(delta.type, delta.text);
      return;
    }
    running.deltas ??= [];
    const last = running.deltas.at(-1);
    if (last?.type === delta.type) last.texts.push(delta.text);
    else running.deltas.push({ type: delta.type, texts: [delta.text] });
    running.deltaLength += delta.text.length;
    this.#talking.add(running);
    if (running.deltaLength > DELTA_CHARACTERS_MAX) {
      this.#publishDeltasOf(running);
      return;
    }
    this.#deltaTimer ??= this.#clock.setTimer(() => {
      this.#deltaTimer = undefined;
      this.#publishDeltas();
    }, DELTA_COALESCE_MS);
  }

  #publishDeltas(): void {
    if (this.#talking.size === 0) return;
    for (const running of [...this.#talking]) this.#publishDeltasOf(running);
  }

  #publishDeltasOf(running: Running): void {
    this.#talking.delete(running);
    const deltas = running.deltas;
    running.deltas = undefined;
    running.deltaLength = 0;
    for (const { type, texts } of deltas ?? []) {
      const text = texts.join('');
      const delta: StreamedDelta = running.hasStreamed ? { type, text } : { type, text, before: [] };
      running.hasStreamed = true;
      running.streamed.add(type, text);
      this.#listener.delta(running.id, running.session, delta);
    }
  }
}

/**
 * The stack of an error that shows a fault in the provider's code; undefined for an error that the provider reports.
 */
function faultStack(error: unknown): string | undefined {
  const isReported = error instanceof TroupeError && error.code !== 'internal';
  const fault = error instanceof TroupeError ? error.cause : error;
  if (isReported || !(fault instanceof Error) || fault.stack === undefined) return undefined;
  return cutText(fault.stack, ERROR_TEXT_CHARACTERS_MAX);
}
