/**
 * Starts threads from entry files. Each thread has an endpoint, and its end is reported exactly once.
 *
 * Owns: the worker and its endpoint. Does not own: the messages on it, and the replacement of a thread that died.
 *
 * Invariants:
 * W1 `onExit` listeners run exactly once, however the thread ends: its own exit, an uncaught error, `exit`,
 *    `terminate`;
 * W2 before a thread with a latch is ended by force, its latch is closed. Closing waits a bounded time for the work
 *    inside the latch (`exit-latch.ts`).
 */
import {
  isMainThread,
  parentPort,
  type ResourceLimits,
  SHARE_ENV,
  type Transferable,
  Worker,
  workerData,
} from 'node:worker_threads';
import { THREAD_END_MS, THREAD_EXIT_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { asError, TroupeError } from '../base/errors.ts';
import { createEndpoint } from './batched-endpoint.ts';
import type { Endpoint } from './endpoint.ts';
import { closeAtExit, type ExitLatch } from './exit-latch.ts';
import { threadFlags } from './host-flags.ts';
import { entryPath, missingEntry } from './worker-url.ts';

/** Memory bounds of a thread, in megabytes. */
export interface ThreadLimits {
  readonly heapMb?: number;
  readonly youngHeapMb?: number;
  readonly stackMb?: number;
}

/** The options of a new thread. */
export interface ThreadOptions {
  /** The thread's name, which debuggers and process listings show. */
  readonly name: string;
  /** The value that the entry reads as `data`; structured clone. */
  readonly workerData?: unknown;
  /** Ports and buffers inside `workerData` that move instead of being copied. */
  readonly transfer?: readonly object[];
  readonly resourceLimits?: ThreadLimits;
  /**
   * True if the thread shares the `process.env` of the thread that starts it, later changes included; default: a copy.
   */
  readonly sharesEnvironment?: boolean;
  /**
   * A latch that is closed before the thread is ended by force, and before the process exits. Pass the latch's memory
   * to the thread in `workerData`.
   */
  readonly gate?: ExitLatch;
}

/**
 * The way a thread ended. `error`: an error that the thread did not catch, such as one with code
 * `ERR_WORKER_OUT_OF_MEMORY`.
 */
export interface ThreadExit {
  readonly exitCode: number;
  readonly error?: Error;
}

/** A running thread, seen by the thread that started it. */
export interface Thread {
  readonly name: string;
  readonly endpoint: Endpoint;
  /** Runs `listener` once when the thread has ended. If it has already ended, `listener` runs in a microtask. */
  onExit(listener: (exit: ThreadExit) => void): void;
  /**
   * Ends the thread, even in an endless loop. Resolves when it is gone, or after `THREAD_END_MS` even if it still runs.
   * A second call is harmless.
   */
  terminate(): Promise<void>;
  /**
   * Asks the thread to end by itself, in the next tick of its event loop. If the thread still runs after
   * `THREAD_EXIT_MS`, ends it as `terminate` does. Use it for a thread that works in an addon: ending a thread within a
   * native call can crash the process.
   */
  exit(): Promise<void>;
  /** Lets the process end while the thread still runs. */
  unref(): void;
  /** Keeps the process alive while the thread runs. This is the default. */
  ref(): void;
}

/** The note that asks a thread to end by itself. */
const EXIT = 'thread.exit';

/**
 * Starts a thread. A failure inside the thread is reported as its exit, and never thrown here. A missing entry file is
 * reported as an exit with a `ConfigError`.
 */
export function startThread(entry: URL, options: ThreadOptions): Thread {
  const flags = threadFlags();
  const worker = new Worker(entryPath(entry), {
    name: options.name,
    workerData: options.workerData,
    transferList: [...(options.transfer ?? [])] as Transferable[],
    ...(options.resourceLimits === undefined ? {} : { resourceLimits: workerLimits(options.resourceLimits) }),
    ...(options.sharesEnvironment === true ? { env: SHARE_ENV } : {}),
    ...(flags === undefined ? {} : { execArgv: [...flags] }),
  });
  const endpoint = createEndpoint(worker);
  const { gate } = options;
  const forgetGate = gate === undefined ? undefined : closeAtExit(gate);
  const endNow = (): Promise<number> => {
    gate?.close();
    return worker.terminate();
  };
  let exit: ThreadExit | undefined;
  let fault: Error | undefined;
  const listeners: ((exit: ThreadExit) => void)[] = [];
  const onExit = (listener: (exit: ThreadExit) => void): void => {
    const ended = exit;
    if (ended === undefined) listeners.push(listener);
    else queueMicrotask(() => listener(ended));
  };
  worker.on('error', (error: unknown) => {
    fault = missingEntry(entry) ?? asError(error);
  });
  worker.once('exit', (exitCode) => {
    const ended = { exitCode, ...defined({ error: fault }) };
    exit = ended;
    forgetGate?.();
    for (const listener of listeners.splice(0)) listener(ended);
  });
  return {
    name: options.name,
    endpoint,
    onExit,
    async terminate() {
      await settledInTime(endNow());
    },
    async exit() {
      endpoint.notify(EXIT, undefined);
      await settledInTime(new Promise<void>((resolve) => onExit(() => resolve())), THREAD_EXIT_MS);
      if (exit === undefined) await settledInTime(endNow());
    },
    unref() {
      worker.unref();
    },
    ref() {
      worker.ref();
    },
  };
}

/**
 * Resolves when `ending` has settled, and after `waitMs` at the latest. A thread that never leaves native code cannot
 * be ended, so its end must not be waited for without a bound.
 */
export async function settledInTime(ending: Promise<unknown>, waitMs: number = THREAD_END_MS): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
  });
  await Promise.race([ending.catch(() => undefined), late]);
  clearTimeout(timer);
}

/** Period of a timer that only keeps the process alive. */
const HOLD_MS = 60_000;

/**
 * Settles as `work` does, and keeps the process alive until then. Use it to wait for an answer from a thread that was
 * `unref`ed: such a thread does not keep the process alive.
 */
export async function keepAliveFor<T>(work: Promise<T>): Promise<T> {
  const hold = setInterval(() => undefined, HOLD_MS);
  try {
    return await work;
  } finally {
    clearInterval(hold);
  }
}

/** The limits under the names that Node gives them. */
export function workerLimits(limits: ThreadLimits): ResourceLimits {
  return {
    ...defined({
      maxOldGenerationSizeMb: limits.heapMb,
      maxYoungGenerationSizeMb: limits.youngHeapMb,
      stackSizeMb: limits.stackMb,
    }),
  };
}

/** A thread's own view of itself. */
export interface ServedThread {
  readonly endpoint: Endpoint;
  /** The `workerData` that the thread was started with. */
  readonly data: unknown;
}

/**
 * Answers the requests of the starting thread with `handlers`. Call it first in a worker entry. Throws `internal` on
 * the main thread.
 */
export function serveThread(handlers: Readonly<Record<string, (payload: unknown) => unknown>>): ServedThread {
  if (isMainThread || parentPort === null) {
    throw new TroupeError('internal', 'a worker entry was loaded outside a worker thread');
  }
  const endpoint = createEndpoint(parentPort);
  endpoint.handle(EXIT, () => process.exit(1));
  for (const [method, handler] of Object.entries(handlers)) endpoint.handle(method, handler);
  return { endpoint, data: workerData };
}
