/**
 * Makes model calls on model threads; each thread has a mirror of the contexts of its sessions.
 *
 * Owns: the threads, which session belongs to which thread, the index of each mirror, the running calls. Does not own:
 * the calls themselves (`in-place-pool.ts`, on the thread), retries, rates.
 *
 * - M1 Every call completes exactly once; the listener is never called from within `call`, `cancel` or `close`.
 *   Completions of one batch from a thread are reported in one call of the listener.
 * - M2 A session stays on its thread, so `holds` is true exactly when that thread's mirror has the base of the delta.
 * - M3 When a thread dies, its running calls fail as `model_connection`, retryable, and its mirror is lost. The next
 *   call of one of its sessions starts another thread.
 * - M4 A thread that does not complete a call within `MODEL_THREAD_GRACE_MS` after its timeout or its cancelling counts
 *   as dead.
 * - M5 No timer runs while no call runs.
 * - M6 A thread that dies is reported once, with the error it did not catch; a thread that is closed is not.
 */
import { strict as assert } from 'node:assert';
import { MODEL_THREAD_GRACE_MS, MODEL_THREAD_WATCH_MS, MODEL_THREAD_YOUNG_HEAP_MB } from '../../base/bounds.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { CancelledError, type ErrorShape, errorShape } from '../../base/errors.ts';
import { startThread, type Thread, type ThreadExit } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { modelErrorOf } from '../model-error.ts';
import type { ModelCall, ModelCompletion, ModelPool, ModelPoolListener } from '../pool.ts';
import type { ProviderData } from '../provider.ts';
import { MirrorIndex } from './context-mirror.ts';
import { type DeltaNote, readDeltas } from './delta-notes.ts';

/** The options of `createThreadedPool`. */
export interface ThreadedPoolOptions {
  /** The number of model threads, from 1. */
  readonly threads: number;
  /** The data from which each thread builds its provider. */
  readonly provider: ProviderData;
  readonly listener: ModelPoolListener;
  /** Called when a thread has died (M6). `why`: how it ended; `error`: the error that it did not catch. */
  readonly onDeath?: (why: string, error: Error | undefined) => void;
  /**
   * Times the check for unresponsive threads; default: the machine's clock. A call's own deadline runs on its thread.
   */
  readonly clock?: Clock;
  /**
   * Starts a thread that runs `serveModelCalls`; default: a worker. A simulator supplies an object that is not a real
   * thread.
   */
  readonly startThread?: (provider: ProviderData) => ModelThread;
}

/** The parts of a thread that the pool uses. Without `onExit` the pool does not know why the thread ended. */
export type ModelThread = Pick<Thread, 'endpoint' | 'terminate'> & Partial<Pick<Thread, 'onExit'>>;

/**
 * Starts the threads and builds the provider on each. Rejects with the error of building the provider: `ConfigError`
 * for bad options or a module that cannot be loaded. In that case no thread is left running.
 */
export async function createThreadedPool(options: ThreadedPoolOptions): Promise<ModelPool> {
  assert(Number.isInteger(options.threads) && options.threads > 0, 'a threaded pool has at least one thread');
  const pool = new ThreadedPool(options);
  try {
    await pool.ready();
    return pool;
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/** A slot for a thread. The thread of a lane may be replaced, but the sessions of a lane stay in it. */
interface Lane {
  thread: ModelThread | undefined;
  readonly index: MirrorIndex;
}

interface Running {
  readonly lane: Lane;
  readonly thread: ModelThread;
  readonly session: string;
  readonly startedAt: number;
  /** The monotonic ms at which the thread counts as dead (M4). */
  deadline: number;
  cancelled: boolean;
}

class ThreadedPool implements ModelPool {
  readonly #options: ThreadedPoolOptions;
  readonly #clock: Clock;
  readonly #lanes: readonly Lane[];
  readonly #running = new Map<number, Running>();
  /** How each dead thread ended. */
  readonly #deaths = new WeakMap<ModelThread, string>();
  #completions: ModelCompletion[] = [];
  #watch: unknown;
  #closed = false;

  constructor(options: ThreadedPoolOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#lanes = Array.from({ length: options.threads }, () => ({ thread: undefined, index: new MirrorIndex() }));
  }

  /** Resolves when every thread has built its provider. */
  async ready(): Promise<void> {
    await Promise.all(this.#lanes.map((lane) => this.#threadOf(lane).endpoint.call('ready', undefined)));
  }

  call(call: ModelCall): void {
    const now = this.#clock.monotonic();
    if (this.#closed) {
      this.#complete({ id: call.id, error: errorShape(new CancelledError('the model pool is closed')), ms: 0 });
      return;
    }
    const lane = this.#laneOf(call.session);
    const thread = this.#threadOf(lane);
    const deadline = now + call.timeoutMs + MODEL_THREAD_GRACE_MS;
    const running: Running = { lane, thread, session: call.session, startedAt: now, deadline, cancelled: false };
    this.#running.set(call.id, running);
    lane.index.note(call.session, call.context);
    this.#watch ??= this.#clock.setTimer(this.#look, MODEL_THREAD_WATCH_MS);
    thread.endpoint.call('call', call).then(
      (completion) => this.#end(call.id, running, completion as ModelCompletion),
      (error: unknown) => this.#fail(call.id, running, this.#failureOf(running, error)),
    );
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#laneOf(session).index.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart = false): void {
    this.#running.get(id)?.thread.endpoint.notify('wantsDeltas', { id, isWanted, fromStart });
  }

  cancel(id: number): void {
    const running = this.#running.get(id);
    if (running === undefined) return;
    running.cancelled = true;
    running.deadline = Math.min(running.deadline, this.#clock.monotonic() + MODEL_THREAD_GRACE_MS);
    running.thread.endpoint.notify('cancel', id);
  }

  forget(session: string): void {
    const lane = this.#laneOf(session);
    lane.index.forget(session);
    lane.thread?.endpoint.notify('forget', session);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const closed = errorShape(new CancelledError('the model pool was closed'));
    for (const [id, running] of [...this.#running]) this.#fail(id, running, closed);
    // Ending a thread closes its sockets, which aborts the provider's running calls.
    await Promise.all(this.#lanes.map(({ thread }) => thread?.terminate()));
  }

  #laneOf(session: string): Lane {
    const lane = this.#lanes[hashOf(session) % this.#lanes.length];
    assert(lane !== undefined, 'a pool has at least one lane');
    return lane;
  }

  #threadOf(lane: Lane): ModelThread {
    if (lane.thread !== undefined) return lane.thread;
    const { provider, startThread: start = startWorker } = this.#options;
    const thread = start(provider);
    thread.endpoint.handle('deltas', (note) =>
      readDeltas(note as DeltaNote, (id, delta) => {
        const running = this.#running.get(id);
        if (running?.thread === thread) this.#options.listener.delta(id, running.session, delta);
      }),
    );
    thread.endpoint.onClose(() => this.#lose(lane, thread));
    thread.onExit?.((exit) => this.#died(thread, exit));
    lane.thread = thread;
    return thread;
  }

  /** Called when a thread is lost with its mirror. The endpoint itself rejects the thread's open calls (M3). */
  #lose(lane: Lane, thread: ModelThread): void {
    if (lane.thread !== thread) return;
    lane.thread = undefined;
    lane.index.clear();
  }

  /** Runs before the calls of the thread fail: they reject in the microtasks of the tick in which the thread ended. */
  #died(thread: ModelThread, { exitCode, error }: ThreadExit): void {
    if (this.#closed || this.#deaths.has(thread)) return;
    const why = error === undefined ? `it ended with exit code ${exitCode}` : `${error.name}: ${error.message}`;
    this.#deaths.set(thread, why);
    this.#options.onDeath?.(why, error);
  }

  #failureOf(running: Running, error: unknown): ErrorShape {
    if (running.cancelled) return errorShape(new CancelledError('the model call was cancelled', { cause: error }));
    if (running.lane.thread !== running.thread) {
      const why = this.#deaths.get(running.thread);
      const message = `the model thread died${why === undefined ? '' : ` (${why})`}; the call can be made again`;
      return errorShape(modelErrorOf({ code: 'model_connection', message, cause: error }));
    }
    // The call or its answer could not be sent between the threads, so the state of the session's mirror is uncertain.
    this.forget(running.session);
    return errorShape(error);
  }

  #fail(id: number, running: Running, error: ErrorShape): void {
    const ms = Math.round(this.#clock.monotonic() - running.startedAt);
    this.#end(id, running, { id, error, ms });
  }

  #end(id: number, running: Running, completion: ModelCompletion): void {
    if (this.#running.get(id) !== running) return;
    this.#running.delete(id);
    if (this.#running.size === 0) {
      this.#clock.clearTimer(this.#watch);
      this.#watch = undefined;
    }
    this.#complete(completion);
  }

  #complete(completion: ModelCompletion): void {
    this.#completions.push(completion);
    // Scheduled as a microtask, so that it runs after the answers of the whole batch, which are also microtasks (M1).
    if (this.#completions.length === 1) queueMicrotask(() => this.#report());
  }

  #report(): void {
    const completions = this.#completions;
    this.#completions = [];
    this.#options.listener.completed(completions);
  }

  #look = (): void => {
    this.#watch = this.#clock.setTimer(this.#look, MODEL_THREAD_WATCH_MS);
    const now = this.#clock.monotonic();
    for (const { thread, lane, deadline } of this.#running.values()) {
      if (now < deadline || lane.thread !== thread) continue;
      this.#lose(lane, thread);
      this.#deaths.set(thread, SPUN);
      this.#options.onDeath?.(SPUN, undefined);
      void thread.terminate();
    }
  };
}

/** The reason that is reported for a thread that did not complete a call in time (M4). */
const SPUN = 'its event loop was held past the deadline of a call';

function startWorker(provider: ProviderData): ModelThread {
  return startThread(workerUrl('./model.worker', import.meta.url), {
    name: 'troupe-model',
    workerData: provider,
    resourceLimits: { youngHeapMb: MODEL_THREAD_YOUNG_HEAP_MB },
  });
}

/**
 * A hash of a text: FNV-1a over UTF-16 units. This hash is cheap, and spreads sessions evenly enough. Source: the FNV
 * specification, 32 bits.
 */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}
