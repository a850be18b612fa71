/**
 * The host's side of the connections to MCP servers on the MCP thread.
 *
 * Owns: the thread, and which calls are in flight there. Does not own: the connections, which are the thread's
 * (`connection.ts`).
 *
 * J1 A thread that dies is replaced after `MCP_RETRY_MS`. The wait grows each time a thread dies soon after its start.
 *    The servers of a dead thread end with it (T2 of `stdio-transport.ts`). The calls in flight on a dead thread are
 *    treated as calls of a lost connection (K1 of `connection.ts`).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { MCP_CLOSE_MS, MCP_RETRY_MS, MCP_RETRY_MS_MAX, MCP_STABLE_MS } from '../../base/bounds.ts';
import { asError, CancelledError } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import { keepAliveFor, settledInTime, startThread, type Thread } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { ConnectionLostError, repeatLost } from './call-repeats.ts';
import type { McpCall, McpCallHooks, McpConnections, McpListener, McpServerAnswer, McpServerMap } from './protocol.ts';
import type { McpThreadCall, McpThreadData, McpThreadNotes } from './thread-protocol.ts';

/** A thread, and whether it still runs. */
interface Running {
  readonly thread: Thread;
  /** Settles when the thread has started the servers. */
  readonly started: Promise<unknown>;
  isGone: boolean;
}

/** See the head of the file. */
export class ThreadConnections implements McpConnections {
  readonly #listener: McpListener;
  readonly #data: McpThreadData;
  readonly #startThread: typeof startThread;
  readonly #progress = new Map<number, McpCallHooks['progress']>();
  #servers: McpServerMap = {};
  #running: Promise<Running> | undefined;
  #lastId = 0;
  /** The number of threads that died in a row, each soon after its start. */
  #deaths = 0;
  readonly #closing = new AbortController();

  /** `start`: starts the thread. A test passes its own, to keep the thread and end it. */
  constructor(listener: McpListener, version: string, start: typeof startThread = startThread) {
    this.#listener = listener;
    this.#data = { version };
    this.#startThread = start;
  }

  async configure(servers: McpServerMap): Promise<void> {
    this.#servers = servers;
    const isNew = this.#running === undefined;
    const { thread, started } = await this.#thread();
    await keepAliveFor(isNew ? started : thread.endpoint.call('configure', servers));
  }

  call(call: McpCall, hooks: McpCallHooks): Promise<McpServerAnswer> {
    return repeatLost(call.effect, () => this.#attempt(call, hooks));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const running = await this.#running?.catch(() => undefined);
    if (running === undefined) return;
    if (!running.isGone) await settledInTime(running.thread.endpoint.call('close', undefined), MCP_CLOSE_MS);
    await running.thread.exit();
    running.thread.endpoint.close();
  }

  async #attempt(call: McpCall, { signal, progress }: McpCallHooks): Promise<McpServerAnswer> {
    const running = await this.#thread();
    const { endpoint } = running.thread;
    this.#lastId += 1;
    const id = this.#lastId;
    const cancel = (): void => endpoint.notify('cancel', { id, reason: asError(signal.reason).message });
    this.#progress.set(id, progress);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const request: McpThreadCall = { ...call, id };
      const answer = endpoint.call('call', request);
      // A signal that is already aborted sends no event.
      if (signal.aborted) cancel();
      return (await keepAliveFor(answer)) as McpServerAnswer;
    } catch (error) {
      if (running.isGone && !this.#closing.signal.aborted) {
        throw new ConnectionLostError('the MCP thread ended', { isUnsent: false, cause: error });
      }
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
      this.#progress.delete(id);
    }
  }

  /** The thread, started if there is none. Rejects with `CancelledError` once closed. */
  #thread(): Promise<Running> {
    if (this.#closing.signal.aborted) return Promise.reject(new CancelledError('the runtime is closed'));
    this.#running ??= this.#start(0);
    return this.#running;
  }

  async #start(delayMs: number): Promise<Running> {
    if (delayMs > 0) await delay(delayMs, undefined, { signal: this.#closing.signal });
    const startedAt = performance.now();
    const thread = this.#startThread(workerUrl('./mcp.worker', import.meta.url), {
      name: 'troupe mcp',
      workerData: this.#data,
    });
    const { endpoint } = thread;
    this.#handle(endpoint, 'mcp.tools', (list) => this.#listener.tools(list));
    this.#handle(endpoint, 'mcp.lost', ({ server, why }) => this.#listener.lost(server, why));
    this.#handle(endpoint, 'mcp.warn', ({ message }) => this.#listener.warn(message));
    this.#handle(endpoint, 'mcp.progress', ({ id, data }) => this.#progress.get(id)?.(data));
    const started = endpoint.call('configure', this.#servers);
    const running: Running = { thread, started, isGone: false };
    // `configure` reports a failure of the first start. Later starts have the same servers and the same package, so
    // their failures are not reported.
    started.catch(() => undefined);
    thread.onExit(({ error }) => {
      running.isGone = true;
      if (this.#closing.signal.aborted) return;
      this.#listener.warn(`the MCP thread ended and is started again: ${error?.message ?? 'it exited'}`);
      const hasLasted = performance.now() - startedAt >= MCP_STABLE_MS;
      this.#deaths = hasLasted ? 1 : this.#deaths + 1;
      const next = this.#start(growingWait(this.#deaths, { first: MCP_RETRY_MS, longest: MCP_RETRY_MS_MAX }));
      // A close during the wait rejects this promise. `close` and the waiting calls handle the rejection.
      next.catch(() => undefined);
      this.#running = next;
    });
    // Open connections do not keep this process alive: the servers end with it.
    thread.unref();
    return running;
  }

  #handle<N extends keyof McpThreadNotes>(
    endpoint: Thread['endpoint'],
    note: N,
    handler: (payload: McpThreadNotes[N]) => void,
  ): void {
    endpoint.handle(note, (payload) => handler(payload as McpThreadNotes[N]));
  }
}
