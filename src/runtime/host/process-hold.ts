/**
 * Lets a process end if its runtime was never closed and has nothing to do.
 *
 * Owns: whether the session threads keep the process alive. Does not own: the threads, nor what they do.
 *  P1 The threads keep the process alive while a request is unanswered or a session works, and for two checks after
 *     that. Then each thread is asked too, because a thread in a long transition has not counted that transition yet;
 *  P2 before a request to a released thread is sent, the threads keep the process alive again;
 *  P3 if nothing is left to do, the process closes its runtimes before it ends, so that everything is flushed and the
 *     directories are released. A wait for a session that does not work, such as `ask` on a paused session, does not
 *     keep the process alive.
 */
import { PROCESS_HOLD_LOOK_MS } from '../../base/bounds.ts';
import { endpointWith } from '../../threads/endpoint.ts';
import { readCounters } from '../protocol/metrics.ts';
import type { ShardThread } from './shard-threads.ts';

/**
 * Requests that wait for the work of a session. They are not counted here, because the shard's counters show that work.
 */
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
  /** The figures of the last check, if the runtime was idle then. */
  #rest: string | undefined;
  /** True while the threads are asked whether they have anything to do. */
  #isAsking = false;
  #timer: NodeJS.Timeout | undefined;

  /** `close`: closes the runtime. `counters`: those of its shards; the list is complete before the first check. */
  constructor(counters: readonly SharedArrayBuffer[], close: () => Promise<void>) {
    this.#counters = counters;
    this.#close = close;
  }

  /** Watches a session thread from its start. */
  watch(thread: HeldThread): ShardThread {
    this.#threads.add(thread);
    thread.onExit(() => {
      this.#threads.delete(thread);
      if (this.#threads.size === 0) this.#end();
    });
    if (this.#timer === undefined) this.#begin();
    const { endpoint } = thread;
    const watched = endpointWith(endpoint, {
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
    });
    return {
      endpoint: watched,
      exit: () => thread.exit(),
      onExit: (listener) => thread.onExit(listener),
      serve: (services) => thread.serve(services),
    };
  }

  /** Ends the watch, because the last thread is gone. A thread that replaces it begins the watch again. */
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
    // A thread that ended meanwhile has a successor, which the next checks ask.
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

/** Runs when nothing else keeps the process alive. A close that fails is reported as an unhandled rejection. */
function closeAll(): void {
  for (const hold of [...open]) void hold.close();
}
