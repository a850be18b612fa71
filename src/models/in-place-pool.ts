/**
 * Model calls made in the thread that asks for them. It is a session thread's own pool (`threads.models: 0`), and it is what
 * runs inside a model thread.
 * Owns: the running calls, their deadlines, the mirror of contexts, deltas and completions not told yet. Does not own: the
 * provider's sockets, retries, rates.
 *
 * - P1 Every call completes exactly once; whatever its provider does after that is dropped.
 * - P2 The listener is never called from within `call`, `cancel` or `close`: completions go out together, one turn of the loop
 *   later.
 * - P3 Deltas of a call keep their order, are gathered for `DELTA_COALESCE_MS`, and none comes after its completion.
 * - P4 A call is over at its `timeoutMs` or at `cancel`, whether or not its provider minds the signal.
 * - P5 No timer runs while no call does.
 */
import { DELTA_CHARACTERS_MAX, DELTA_COALESCE_MS } from '../base/bounds.ts';
import { type Clock, soon as nextTurn, type Soon } from '../base/clock.ts';
import { CancelledError, errorShape } from '../base/errors.ts';
import { LazyAbort } from '../base/lazy-abort.ts';
import { ContextMirror } from './context-mirror.ts';
import { modelErrorOf } from './model-error.ts';
import type { ModelCall, ModelCompletion, ModelPool, ModelPoolListener } from './pool.ts';
import type { ModelDelta, ModelProvider, ModelRequest, ModelResponse } from './provider.ts';
import { checkResponse } from './response-check.ts';

/** A call on its way. */
interface Running {
  readonly id: number;
  readonly session: string;
  readonly abort: LazyAbort;
  readonly startedMs: number;
  timer: unknown;
  wantsDeltas: boolean;
  /** Deltas not told yet, neighbours of one type joined. */
  deltas: { type: ModelDelta['type']; texts: string[] }[];
  deltaLength: number;
}

/**
 * A pool that calls `provider` on this thread and tells `listener` on this thread. `clock` gives deadlines and the gathering
 * of deltas, `soon` the turn of the loop in which completions are told.
 */
export function createInPlacePool(
  provider: ModelProvider,
  listener: ModelPoolListener,
  clock: Clock,
  soon: Soon = nextTurn,
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
  /** Calls with deltas not told yet. */
  readonly #talking = new Set<Running>();
  #deltaTimer: unknown;
  #completions: ModelCompletion[] = [];
  #isTelling = false;
  #closed = false;
  readonly #onQuiet: (() => void)[] = [];

  constructor(provider: ModelProvider, listener: ModelPoolListener, clock: Clock, soon: Soon) {
    this.#provider = provider;
    this.#listener = listener;
    this.#clock = clock;
    this.#soon = soon;
  }

  call(call: ModelCall): void {
    const running: Running = {
      id: call.id,
      session: call.session,
      abort: new LazyAbort(),
      startedMs: this.#clock.monotonic(),
      timer: undefined,
      wantsDeltas: call.wantsDeltas,
      deltas: [],
      deltaLength: 0,
    };
    this.#running.set(call.id, running);
    if (this.#closed) {
      this.#fail(running, new CancelledError('the model pool is closed'));
      return;
    }
    const request = this.#mirror.apply(call.session, call.context);
    if (request === undefined) {
      const message = 'the context this call builds on is not held here; send it whole';
      this.#fail(running, modelErrorOf({ code: 'model_connection', message }));
      return;
    }
    running.timer = this.#clock.setTimer(() => {
      const message = `the model did not answer within ${call.timeoutMs} ms`;
      this.#abandon(running, modelErrorOf({ code: 'model_timeout', message }));
    }, call.timeoutMs);
    // Not from within `call` (P2): a provider may answer with deltas before it returns.
    queueMicrotask(() => {
      if (this.#running.get(call.id) === running) this.#start(running, request);
    });
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#mirror.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean): void {
    const running = this.#running.get(id);
    if (running !== undefined) running.wantsDeltas = isWanted;
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
    if (!this.#isTelling) return Promise.resolve();
    return new Promise((resolve) => this.#onQuiet.push(resolve));
  }

  #start(running: Running, request: ModelRequest): void {
    const onDelta = (delta: ModelDelta): void => {
      if (running.wantsDeltas) this.#gather(running, delta);
    };
    const { abort, session } = running;
    const context = {
      get signal() {
        return abort.signal;
      },
      onDelta,
      session,
    };
    this.#generate(request, context).then(
      (response) => this.#succeed(running, response),
      (error: unknown) => this.#fail(running, error),
    );
  }

  /** Async, so that a provider that throws at once fails as one that rejects. */
  async #generate(request: ModelRequest, context: Parameters<ModelProvider['generate']>[1]): Promise<ModelResponse> {
    return checkResponse(await this.#provider.generate(request, context));
  }

  #abandon(running: Running, error: Error): void {
    // Complete first: a provider that rejects at once on abort finds its call gone.
    this.#fail(running, error);
    running.abort.abort();
  }

  #succeed(running: Running, response: ModelResponse): void {
    this.#complete(running, (ms) => ({ id: running.id, response, ms }));
  }

  #fail(running: Running, error: unknown): void {
    this.#complete(running, (ms) => ({ id: running.id, error: errorShape(error), ms }));
  }

  #complete(running: Running, completion: (ms: number) => ModelCompletion): void {
    if (this.#running.get(running.id) !== running) return;
    this.#running.delete(running.id);
    if (running.timer !== undefined) this.#clock.clearTimer(running.timer);
    this.#completions.push(completion(Math.round(this.#clock.monotonic() - running.startedMs)));
    if (this.#running.size === 0 && this.#deltaTimer !== undefined) {
      // The completion's own turn tells the rest (P3), so no timer is left (P5).
      this.#clock.clearTimer(this.#deltaTimer);
      this.#deltaTimer = undefined;
    }
    if (this.#isTelling) return;
    this.#isTelling = true;
    this.#soon(() => this.#tell());
  }

  #tell(): void {
    this.#isTelling = false;
    const completions = this.#completions;
    this.#completions = [];
    this.#tellDeltas();
    this.#listener.completed(completions);
    if (this.#isTelling) return;
    for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  #gather(running: Running, delta: ModelDelta): void {
    if (this.#running.get(running.id) !== running || delta.text === '') return;
    const last = running.deltas.at(-1);
    if (last?.type === delta.type) last.texts.push(delta.text);
    else running.deltas.push({ type: delta.type, texts: [delta.text] });
    running.deltaLength += delta.text.length;
    this.#talking.add(running);
    if (running.deltaLength > DELTA_CHARACTERS_MAX) {
      this.#tellDeltasOf(running);
      return;
    }
    this.#deltaTimer ??= this.#clock.setTimer(() => {
      this.#deltaTimer = undefined;
      this.#tellDeltas();
    }, DELTA_COALESCE_MS);
  }

  #tellDeltas(): void {
    for (const running of [...this.#talking]) this.#tellDeltasOf(running);
  }

  #tellDeltasOf(running: Running): void {
    this.#talking.delete(running);
    const deltas = running.deltas;
    running.deltas = [];
    running.deltaLength = 0;
    for (const { type, texts } of deltas) {
      this.#listener.delta(running.id, running.session, { type, text: texts.join('') });
    }
  }
}
