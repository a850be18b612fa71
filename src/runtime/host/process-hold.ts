/**
 * Lets a process end whose runtime was never closed, once the runtime has nothing to do.
 *
 * Owns: whether the session threads keep the process alive. Does not own: the threads, nor what they do.
 *  P1 The threads keep the process alive while a request is unanswered or a session works, and for two looks after. Then
 *     each thread is asked as well: one that is in a long step has counted nothing of it yet;
 *  P2 a request to a released thread holds it again before it leaves;
 *  P3 a process that ends for want of other work closes its runtimes first, so that everything is flushed and the
 *     directories are released. A wait for a session that does not work, such as `ask` on a paused one, holds nothing.
 */
import { PROCESS_HOLD_LOOK_MS } from '../../base/bounds.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import { readCounters } from '../protocol/metrics.ts';
import type { ShardThread } from './shard-threads.ts';

/** Requests that wait for the work of a session: the session says whether it works. */
const WAITS: ReadonlySet<string> = new Set(['receipt.wait', 'child.wait', 'runtime.drain']);

/** A thread that can keep the process alive. */
interface HeldThread extends ShardThread {
  ref(): void;
  unref(): void;
}

/** Runtimes with threads, which are closed before the process ends. */
const open = new Set<ProcessHold>();

/** See the head of the file. */
export class ProcessHold {
  readonly #counters: readonly SharedArrayBuffer[];
  readonly #threads = new Set<HeldThread>();
  readonly #close: () => Promise<void>;
  #unanswered = 0;
  #isReleased = false;
  /** The figures of the last look at which the runtime was idle. */
  #rest: string | undefined;
  /** True while the threads are asked whether they have anything to do. */
  #isAsking = false;
  #timer: NodeJS.Timeout | undefined;

  /** `close`: closes the runtime. `counters`: those of its shards, which are complete before the first look. */
  constructor(counters: readonly SharedArrayBuffer[], close: () => Promise<void>) {
    this.#counters = counters;
    this.#close = close;
  }

  /** Watches a session thread from its start on. */
  watch(thread: HeldThread): ShardThread {
    this.#threads.add(thread);
    thread.onExit(() => {
      this.#threads.delete(thread);
      if (this.#threads.size === 0) this.#end();
    });
    if (this.#timer === undefined) this.#begin();
    const { endpoint } = thread;
    const watched: Endpoint = {
      call: (method, payload) => {
        if (this.#isReleased) this.#hold();
        const answer = endpoint.call(method, payload);
        if (WAITS.has(method)) return answer;
        this.#unanswered += 1;
        const answered = (): void => {
          this.#unanswered -= 1;
        };
        answer.then(answered, answered);
        return answer;
      },
      notify: (method, payload) => endpoint.notify(method, payload),
      notifyLate: (method, payload) => endpoint.notifyLate(method, payload),
      hasten: () => endpoint.hasten(),
      handle: (method, handler) => endpoint.handle(method, handler),
      onClose: (listener) => endpoint.onClose(listener),
      close: () => endpoint.close(),
    };
    return {
      endpoint: watched,
      exit: () => thread.exit(),
      onExit: (listener) => thread.onExit(listener),
      serve: (services) => thread.serve(services),
    };
  }

  /** Ends the watch: the last thread is gone. Another thread, in its place, begins it again. */
  #end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#isReleased = false;
    open.delete(this);
    if (open.size === 0) process.off('beforeExit', closeAll);
  }

  /** Closes the runtime. */
  close(): Promise<void> {
    return this.#close();
  }

  #begin(): void {
    this.#timer = setInterval(() => this.#look(), PROCESS_HOLD_LOOK_MS);
    this.#timer.unref();
    if (open.size === 0) process.on('beforeExit', closeAll);
    open.add(this);
  }

  #look(): void {
    if (this.#isReleased || this.#isAsking) return;
    const rest = this.#idleFigures();
    if (rest !== undefined && rest === this.#rest) void this.#ask(rest);
    this.#rest = rest;
  }

  /** Releases the threads if all of them say that they have nothing to do, and nothing has happened meanwhile. */
  async #ask(rest: string): Promise<void> {
    this.#isAsking = true;
    const asked = [...this.#threads].map(({ endpoint }) => endpoint.call('runtime.drain', { id: 0 }));
    const answers = await Promise.allSettled(asked);
    this.#isAsking = false;
    // A thread that ended meanwhile has a successor, which the next looks ask.
    if (answers.every(({ status }) => status === 'fulfilled') && this.#idleFigures() === rest) this.#release();
  }

  /** Figures that differ after any work; undefined while the runtime counts something to do. */
  #idleFigures(): string | undefined {
    const { sessionsLive, sessionsQueued, modelCallsRunning, toolCallsRunning, turns, accepted } = readCounters(
      this.#counters,
    );
    const isIdle = sessionsLive + sessionsQueued + modelCallsRunning + toolCallsRunning + this.#unanswered === 0;
    return isIdle ? `${turns} ${accepted}` : undefined;
  }

  #release(): void {
    this.#isReleased = true;
    for (const thread of this.#threads) thread.unref();
  }

  #hold(): void {
    this.#isReleased = false;
    this.#rest = undefined;
    for (const thread of this.#threads) thread.ref();
  }
}

/** Nothing else keeps the process alive. A close that fails is reported as an unhandled rejection. */
function closeAll(): void {
  for (const hold of [...open]) void hold.close();
}
