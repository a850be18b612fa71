/**
 * The shell thread: the shells of all `bash` tools of a process live there. A tool thread would not do: it is ended if
 * a tool blocks its event loop. All shells on that thread would end with it.
 *
 * Owns: the thread, and which shells were lost with it. Does not own: the shells (`shell-pool.ts`), the deadlines of
 * calls.
 *
 * N1 A thread that dies is replaced at the next call. The shells of the dead thread end with it (B4 of `shell.ts`). The
 *    outcome of its calls is reported as unknown, because their commands may have taken effect.
 * N2 A session whose shell was lost with its thread gets a new one in the same directory, and the result says so (O3).
 * N3 The thread keeps the process alive only while a call runs.
 */
import { SHELL_DIRECTORIES_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { OUTCOME_UNKNOWN } from '../../session/rules/tool-texts.ts';
import { type EncodedError, encodeError } from '../../threads/error-codec.ts';
import { keepAliveFor, startThread, type Thread } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import type { BashInput, ShellContext, ShellSettings } from './shell-calls.ts';
import type { EarlierShell } from './shell-pool.ts';

/** A call as it is sent to the thread. `tool`: the number of the tool; each call of a tool has the same settings. */
export interface ShellThreadCall extends Omit<ShellContext, 'signal' | 'progress'> {
  readonly id: number;
  readonly tool: number;
  readonly settings: ShellSettings;
  readonly input: BashInput;
}

/** The answer of a call. `cwd`: the directory of the session's shell after the call. */
export interface ShellThreadAnswer {
  readonly result: unknown;
  readonly cwd: string | undefined;
}

/** The notes between the thread and its starter. */
export interface ShellThreadNotes {
  readonly abort: { readonly id: number; readonly reason: EncodedError };
  readonly progress: { readonly id: number; readonly data: unknown };
}

interface Running {
  readonly thread: Thread;
  isGone: boolean;
}

/** See the head of the file. */
export class ShellThread {
  readonly #start: typeof startThread;
  readonly #progress = new Map<number, (data: unknown) => void>();
  #running: Running | undefined;
  #lastCall = 0;
  #lastTool = 0;

  /** `start`: starts the thread. A test passes its own, to keep the thread and end it. */
  constructor(start: typeof startThread = startThread) {
    this.#start = start;
  }

  /** The number of a new tool. */
  nextTool(): number {
    this.#lastTool += 1;
    return this.#lastTool;
  }

  /** The thread, started if there is none. */
  current(): Running {
    if (this.#running?.isGone === false) return this.#running;
    const thread = this.#start(workerUrl('./shell.worker', import.meta.url), {
      name: 'troupe shells',
      sharesEnvironment: true,
    });
    const running = { thread, isGone: false };
    thread.onExit(() => {
      running.isGone = true;
    });
    thread.endpoint.handle('progress', (note) => {
      const { id, data } = note as ShellThreadNotes['progress'];
      this.#progress.get(id)?.(data);
    });
    thread.unref();
    this.#running = running;
    return running;
  }

  /** Runs a call on the thread; undefined if the thread ended in between (N1). */
  async run(
    running: Running,
    call: Omit<ShellThreadCall, 'id'>,
    { signal, progress }: Pick<ShellContext, 'signal' | 'progress'>,
  ): Promise<ShellThreadAnswer | undefined> {
    this.#lastCall += 1;
    const id = this.#lastCall;
    const { endpoint } = running.thread;
    const abort = (): void => endpoint.notify('abort', { id, reason: encodeError(signal.reason) });
    this.#progress.set(id, progress);
    signal.addEventListener('abort', abort, { once: true });
    try {
      const answer = endpoint.call('run', { ...call, id });
      // A signal that is already aborted sends no event.
      if (signal.aborted) abort();
      return (await keepAliveFor(answer)) as ShellThreadAnswer;
    } catch (error) {
      if (running.isGone) return undefined;
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
      this.#progress.delete(id);
    }
  }

  /** Ends the shells of a tool. Never rejects. */
  async close(tool: number): Promise<void> {
    const running = this.#running;
    if (running === undefined || running.isGone) return;
    // If the call fails, the thread has ended, and its shells with it.
    await keepAliveFor(running.thread.endpoint.call('close', tool)).catch(() => undefined);
  }
}

/** The shell thread of this process. The thread that loads this module owns it. */
export const shellThread: ShellThread = new ShellThread();

const SHELLS = new WeakMap<object, ShellsOfTool>();

/** The shells of a `bash` tool; `undefined` for another tool. */
export function shellsOf(tool: object): ShellsOfTool | undefined {
  return SHELLS.get(tool);
}

/** The shells of one tool, on the thread. */
export class ShellsOfTool {
  readonly #thread: ShellThread;
  readonly #settings: ShellSettings;
  readonly #tool: number;
  /** For each session: the thread that its last call ran on, and the directory of its shell. */
  readonly #sessions = new Map<string, { readonly on: Running; readonly cwd: string | undefined }>();

  /** The number of runtimes that use the tool. */
  #users = 0;

  constructor(thread: ShellThread, settings: ShellSettings) {
    this.#thread = thread;
    this.#settings = settings;
    this.#tool = thread.nextTool();
  }

  /** The result of a call. */
  async run(input: BashInput, context: Omit<ShellContext, 'earlier'>): Promise<unknown> {
    const { session, timeoutMs } = context;
    const on = this.#thread.current();
    const before = this.#sessions.get(session);
    const earlier = before === undefined || before.on === on ? undefined : lostShell(before.cwd);
    this.#note(session, on, before?.cwd);
    const call = { tool: this.#tool, settings: this.#settings, input, session, timeoutMs, earlier };
    const answer = await this.#thread.run(on, call, context).catch((error: unknown) => asError(error));
    if (answer === undefined) return { error: OUTCOME_UNKNOWN };
    if (answer instanceof Error) throw answer;
    this.#note(session, on, answer.cwd);
    return answer.result;
  }

  /** Notes the tool that has these shells, and returns the tool. */
  belongTo<Made extends object>(tool: Made): Made {
    SHELLS.set(tool, this);
    return tool;
  }

  /** Notes that a runtime uses the tool. Returns a function that ends this use. The shells end with the last use. */
  use(): () => void {
    this.#users += 1;
    return () => {
      this.#users -= 1;
      if (this.#users === 0) void this.close();
    };
  }

  /** Ends the shells. Never rejects. */
  close(): Promise<void> {
    return this.#thread.close(this.#tool);
  }

  #note(session: string, on: Running, cwd: string | undefined): void {
    this.#sessions.delete(session);
    this.#sessions.set(session, { on, cwd });
    if (this.#sessions.size <= SHELL_DIRECTORIES_MAX) return;
    const [oldest] = this.#sessions.keys();
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }
}

function lostShell(cwd: string | undefined): EarlierShell {
  return { how: 'was lost with its thread', cwd };
}
