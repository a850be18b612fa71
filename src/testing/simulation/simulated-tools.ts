/**
 * Tools of all four effects, and the threads that they run on. A tool notes in the ledger when a call starts and when
 * the call's effect on the world happens. From these notes the checks find calls that were repeated against the rule of
 * their effect.
 */
import { CALL_CHECK_GRACE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, TroupeError } from '../../base/errors.ts';
import type { LazyAbort } from '../../base/lazy-abort.ts';
import type { TaskPool, TaskPoolOptions, ThreadLine } from '../../threads/task-pool.ts';
import { READ_FILE_URL } from '../../tools/built-in/read-file.ts';
import { findTools, toolOf } from '../../tools/module-tools.ts';
import type { ToolPool, ToolRun } from '../../tools/pool.ts';
import { type CallInThread, ShiftInThread } from '../../tools/threads/call.ts';
import type { ThreadFinished, ThreadOrder, ThreadTask } from '../../tools/threads/protocol.ts';
import { createToolPool, type ToolPoolOptions } from '../../tools/threads/threaded-pool.ts';
import type { AnyTool, Effect, ToolContext, ToolFailure, ToolOutcome, ToolRetry } from '../../tools/tool.ts';
import { content } from '../../tools/tool-content.ts';
import type { Faults } from './faults.ts';
import { type Ledger, sessionOfKey, type ToolStart, type ToolStory } from './ledger.ts';
import { isAnswerTool } from './messages/simulated-forms.ts';
import { blocksOf, drawImage } from './messages/simulated-media.ts';
import type { SeededRandom } from './seeded-random.ts';
import { SimulatedProcess, type World } from './world.ts';

/** The parts of the simulation the tools need. */
export interface ToolSurroundings {
  readonly world: World;
  readonly faults: Faults;
  readonly ledger: Ledger;
  /** Returns the facts of a call that starts now. */
  readonly toolStart: (session: string, process: SimulatedProcess, attempt: number) => ToolStart;
  /** Ends the process of the runtime now. */
  /** Ends the process, or the machine's process that started it. */
  readonly crash: (why: string, process: SimulatedProcess) => void;
  readonly trace: (text: string) => void;
  /** The tool `read_file` as it runs on a thread. Missing: no agent has it. */
  readonly reader?: (thread: SimulatedProcess) => AnyTool;
}

/** Returns true if the outcome of a run is lost now. */
type Loses = (id: number, probability: number) => boolean;

/** The address of the module whose tools run on tool threads. Agents refer to these tools by it. */
export const TOOL_MODULE: URL = new URL('simulated:tools');
/** Milliseconds a simulated tool may take. */
export const TOOL_TIMEOUT_MS = 60_000;
/**
 * A lost call must be answered within this number of milliseconds. Three calls that a thread was handed together may be
 * lost one after another. The session checks its calls at intervals, but not while it has unflushed transitions. So it
 * may take two intervals to notice each loss.
 */
const LOST_CALL_MS = 6 * (TOOL_TIMEOUT_MS + CALL_CHECK_GRACE_MS);

const EFFECTS: readonly Effect[] = ['pure', 'keyed', 'once', 'probe'];
const SCHEMA = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };

/** A tool in its process. `isOnThread`: the process is a tool thread, so the tool may hold the thread's event loop. */
interface SimulatedTool {
  readonly name: string;
  readonly effect: Effect;
  readonly process: SimulatedProcess;
  readonly isOnThread: boolean;
  readonly retry: Required<ToolRetry> | undefined;
}

/** A call of a simulated tool. */
type SimulatedCall = SimulatedTool & Pick<ToolContext, 'key' | 'attempt' | 'progress'>;

/**
 * Makes the tools of each process. A tool named after its effect runs on a tool thread; `host_<effect>` runs on the
 * host.
 */
export class SimulatedTools {
  readonly #surroundings: ToolSurroundings;
  readonly #random: SeededRandom;
  /** True if the calls of the tool `once` share threads, because the tool states a concurrency. */
  readonly #onceShares: boolean;
  /** The `retry` of the tools that may have one; undefined: no tool has a `retry`. */
  readonly #retry: Required<ToolRetry> | undefined;

  constructor(surroundings: ToolSurroundings) {
    this.#surroundings = surroundings;
    this.#random = surroundings.world.random.fork();
    this.#onceShares = this.#random.chance(0.5);
    this.#retry = this.#random.chance(0.5) ? drawRetry(this.#random) : undefined;
  }

  /** Tools given as values; they run in `process`. */
  valuesFor(process: SimulatedProcess): readonly AnyTool[] {
    return EFFECTS.map((effect) => this.#tool(`host_${effect}`, effect, { process, isOnThread: false }));
  }

  /**
   * Makes the tool pool of a session thread: the production pool over simulated threads, with a chance to lose
   * outcomes.
   */
  poolOf(process: SimulatedProcess): (options: ToolPoolOptions) => ToolPool {
    const moduleOf = (thread: SimulatedProcess): Readonly<Record<string, AnyTool>> => this.#module(thread);
    return (options) => new LossyToolPool(process, options, this.#surroundings, moduleOf);
  }

  #module(process: SimulatedProcess): Readonly<Record<string, AnyTool>> {
    return Object.fromEntries(
      EFFECTS.map((effect) => [effect, this.#tool(effect, effect, { process, isOnThread: true })]),
    );
  }

  #tool(name: string, effect: Effect, place: Pick<SimulatedTool, 'process' | 'isOnThread'>): AnyTool {
    const { isOnThread } = place;
    const retry = effect === 'pure' || effect === 'keyed' ? this.#retry : undefined;
    const made = { name, effect, retry, ...place };
    return {
      name,
      description: `Acts, ${effect}.`,
      input: SCHEMA,
      effect,
      timeoutMs: TOOL_TIMEOUT_MS,
      ...(effect === 'once' && isOnThread && this.#onceShares ? { concurrency: 3 } : {}),
      ...defined({ retry }),
      run: (_input, { key, attempt, progress }) => this.#run({ ...made, key, attempt, progress }),
      ...(effect === 'probe' ? { probe: ({ key }: { readonly key: string }) => this.#probe(key) } : {}),
    };
  }

  /** An attempt of a tool with `retry` may fail, and the process may die before the next attempt. */
  #mayFail({ retry, attempt, process }: SimulatedCall): void {
    const { faults, world, crash } = this.#surroundings;
    if (retry === undefined || !faults.strikes('tool.flaky', 0.3)) return;
    if (attempt < retry.attempts && faults.strikes('tool.crash', 0.1)) {
      world.schedule(process, this.#random.between(0, retry.maximumMs), () =>
        crash('while a tool waits for its retry', process),
      );
    }
    throw new Error(flakyText(attempt, retry.attempts));
  }

  #probe(key: string): unknown {
    const story = this.#surroundings.ledger.tools.get(key);
    return story?.effect !== 'probe' || story.effects === 0 ? undefined : resultOf(story.tool, key);
  }

  async #run(call: SimulatedCall): Promise<unknown> {
    const { name, effect, retry, process, isOnThread, key, attempt, progress } = call;
    const { ledger, faults, world, toolStart, trace } = this.#surroundings;
    const spins = (): boolean => isOnThread && faults.strikes('tool.spin', 0.1);
    const spin = (): Promise<never> => {
      trace(`tool ${name} spins for ${key}`);
      process.hold();
      return new Promise(() => undefined);
    };
    if (!process.isAlive) return new Promise(() => undefined);
    const known = ledger.tools.get(key);
    // A `pure` call that started before its record was durable may have been lost with the record. Another call may
    // have the same key by now.
    const isLost = known !== undefined && known.tool !== name && known.effect === 'pure';
    const story: ToolStory =
      known === undefined || isLost ? { tool: name, effect, retry, starts: [], effects: 0 } : known;
    ledger.tools.set(key, story);
    ledger.toolStarted(key, story, toolStart(sessionOfKey(key), process, attempt));
    trace(`tool ${name} starts for ${key}`);
    const random = this.#random;
    if (spins()) return spin();
    if (random.chance(0.2)) progress({ done: 0.5 });
    await world.sleep(process, random.between(0, 3_000));
    this.#mayFail(call);
    if (faults.strikes('tool.hang', 0.04)) return new Promise(() => undefined);
    if (faults.strikes('tool.throw', 0.05)) throw random.pick<unknown>([new Error('it broke'), 'a string', null]);
    if (spins()) return spin();
    story.effects += 1;
    await world.sleep(process, random.between(0, 3_000));
    if (faults.strikes('tool.late', 0.03)) await world.sleep(process, TOOL_TIMEOUT_MS * 2);
    if (faults.strikes('tool.oversize', 0.03)) return 'x'.repeat(400_000);
    if (faults.strikes('tool.uncloneable', 0.03)) return { run: () => undefined };
    if (faults.strikes('tool.surrogate', 0.03)) return 'a lone \ud83d surrogate \u0000';
    if (faults.strikes('tool.failure', 0.05)) return { error: 'it did not work' };
    story.result = resultOf(name, key);
    if (!random.chance(0.1)) return story.result;
    return content(blocksOf(story.result, drawImage(random)));
  }
}

/** Draws a `retry`. A call whose tool throws always runs again, until its attempts are used up. */
function drawRetry(random: SeededRandom): Required<ToolRetry> {
  const baseMs = random.pick([0, 50, 2_000]);
  const on = random.pick<readonly ToolFailure[]>([['failure'], ['failure', 'timeout', 'lost']]);
  return { attempts: random.pick([1, 2, 3, 5]), baseMs, factor: random.pick([1, 3]), maximumMs: baseMs + 4_000, on };
}

/** The error text of an attempt that fails. The call runs again if attempts are left. */
function flakyText(attempt: number, attempts: number): string {
  return `flaky: attempt ${attempt} of ${attempts}`;
}

/** True for a failure by `tool.flaky` before the last attempt: the call should have run again. */
export function isGivenUpEarly(content: string): boolean {
  const [, attempt, attempts] = /flaky: attempt (\d+) of (\d+)/.exec(content) ?? [];
  return Number(attempt) < Number(attempts);
}

/** The one right result of a call. */
export function resultOf(tool: string, key: string): string {
  return `result of ${tool} for ${key}`;
}

/**
 * The production pool, except that some outcomes never reach their session. Within `LOST_CALL_MS` the session must give
 * up a lost call and answer it, or receive another outcome. If the process of the session dies before that, the pool
 * does not check the call.
 */
class LossyToolPool implements ToolPool {
  readonly #pool: ToolPool;
  readonly #process: SimulatedProcess;
  readonly #surroundings: ToolSurroundings;
  /** Runs that the session has not given up and whose outcome it has not received. */
  readonly #runs = new Map<number, ToolRun>();
  /** Runs that ended their thread, or were alone on it. Only these may fail with the death of a thread. */
  readonly #guilty = new Set<number>();

  constructor(
    process: SimulatedProcess,
    options: ToolPoolOptions,
    surroundings: ToolSurroundings,
    moduleOf: (thread: SimulatedProcess) => Readonly<Record<string, AnyTool>>,
  ) {
    this.#process = process;
    this.#surroundings = surroundings;
    const { listener } = options;
    const loses: Loses = (id, probability) => this.#loses(id, probability);
    this.#pool = createToolPool({
      ...options,
      makeTaskPool: (tasks) =>
        new SimulatedTaskPool(process, tasks, { ...surroundings, moduleOf, loses, guilty: this.#guilty }),
      listener: {
        progress: (id, data) => listener.progress(id, data),
        finished: (id, outcome) => {
          this.#checkDeath(id, outcome);
          if (this.#loses(id, 0.06)) return;
          this.#runs.delete(id);
          listener.finished(id, outcome);
        },
      },
    });
  }

  /** Checks that a call does not fail with the death of a thread that another call ended. */
  #checkDeath(id: number, { content }: ToolOutcome): void {
    const { ledger } = this.#surroundings;
    if (!content.startsWith('tool worker died') || this.#guilty.has(id)) return;
    ledger.violate('failed', `${this.#runs.get(id)?.key ?? id} failed with a thread that it did not end (R6)`);
  }

  /** True if the outcome of a run is lost here, although the pool and the session live. */
  #loses(id: number, probability: number): boolean {
    const { world, faults, ledger, trace } = this.#surroundings;
    const run = this.#runs.get(id);
    if (run === undefined || !faults.strikes('tool.lost', probability)) return false;
    trace(`the outcome of ${run.key} is lost`);
    ledger.lostOutcomes.add(run.key);
    world.schedule(this.#process, LOST_CALL_MS, () => {
      if (!this.#runs.has(id)) return;
      ledger.violate('stuck', `the outcome of ${run.key} was lost, and the call is not answered (I17)`);
    });
    return true;
  }

  run(run: ToolRun): void {
    if (isAnswerTool(run.toolName)) {
      const { ledger } = this.#surroundings;
      ledger.violate('failed', `${run.key} gives a structured answer, and its call reached the tool pool (I19)`);
    }
    this.#runs.set(run.id, run);
    this.#pool.run(run);
  }

  cancel(id: number, reason: string): void {
    this.#runs.delete(id);
    this.#pool.cancel(id, reason);
  }

  holds(id: number): boolean {
    return this.#pool.holds(id);
  }

  describe(url: string): ReturnType<ToolPool['describe']> {
    return this.#pool.describe(url);
  }

  close(): Promise<void> {
    this.#runs.clear();
    return this.#pool.close();
  }
}

/** The parts that the threads of one pool need. */
interface ThreadSurroundings extends ToolSurroundings {
  readonly moduleOf: (thread: SimulatedProcess) => Readonly<Record<string, AnyTool>>;
  readonly loses: Loses;
  /** Receives the runs that may fail with the death of their thread. */
  readonly guilty: Set<number>;
}

/** Simulated tool threads: each task runs in its own process, which can die. */
class SimulatedTaskPool implements TaskPool {
  readonly #process: SimulatedProcess;
  readonly #options: TaskPoolOptions;
  readonly #surroundings: ThreadSurroundings;
  readonly #waiting: (() => void)[] = [];
  readonly #threads = new Set<SimulatedProcess>();
  #isClosed = false;

  constructor(process: SimulatedProcess, options: TaskPoolOptions, surroundings: ThreadSurroundings) {
    this.#process = process;
    this.#options = options;
    this.#surroundings = surroundings;
  }

  run(message: unknown, { abort }: { readonly abort?: LazyAbort } = {}): Promise<unknown> {
    const task = message as ThreadTask;
    return new Promise((resolve, reject) => {
      if (this.#isClosed) return reject(new CancelledError('the thread pool is closed'));
      const begin = (): void => {
        if (abort?.isAborted === true) return reject(new CancelledError('the task was aborted'));
        this.#start(task, abort).then(resolve, reject);
      };
      if (this.#threads.size < this.#options.threads) begin();
      else this.#waiting.push(begin);
    });
  }

  counts(): { readonly running: number; readonly waiting: number; readonly threads: number } {
    return { running: this.#threads.size, waiting: this.#waiting.length, threads: this.#threads.size };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const thread of [...this.#threads]) thread.kill();
  }

  #start(task: ThreadTask, abort: LazyAbort | undefined): Promise<unknown> {
    const { world, faults, trace } = this.#surroundings;
    const thread = new SimulatedProcess('tool thread', this.#process);
    this.#threads.add(thread);
    return new Promise((resolve, reject) => {
      const settle = (end: () => void): void => {
        if (!this.#threads.delete(thread)) return;
        // The delay stands for the way of the answer from thread to thread.
        world.schedule(this.#process, world.random.number(), () => {
          end();
          this.#waiting.shift()?.();
        });
      };
      thread.onDeath(() => settle(() => reject(died('exit code 1'))));
      abort?.listen(() => {
        settle(() => reject(new CancelledError('the task was aborted')));
        thread.kill();
      });
      if (faults.strikes('thread.tools', 0.15)) {
        world.schedule(this.#process, world.random.between(0, 4_000), () => {
          trace('a tool thread dies');
          thread.kill();
        });
      }
      this.#work(task, thread).then(
        (value) => {
          if (
            task.kind === 'run' &&
            value !== undefined &&
            this.#surroundings.loses((value as ThreadFinished).id, 0.03)
          )
            return;
          settle(() => resolve(structuredClone(value)));
        },
        (error: unknown) => settle(() => reject(error)),
      );
    });
  }

  /** Does the work of `tool-threads.worker.ts`, over a virtual clock. */
  async #work(task: ThreadTask, thread: SimulatedProcess): Promise<unknown> {
    const { world, moduleOf, loses, guilty, reader } = this.#surroundings;
    const module = moduleOf(thread);
    if (task.kind === 'describe') return findTools(module, task.url);
    const begun = new Set<CallInThread>();
    thread.onDeath(() => {
      const running = [...begun].filter((call) => call.running);
      const [first] = task.calls;
      const [only] = running;
      if (begun.size === 0 && first !== undefined) guilty.add(first.run.id);
      if (running.length === 1 && only !== undefined) guilty.add(only.call.run.id);
      for (const { cursor, at, call } of running) if (cursor.holder === at) guilty.add(call.run.id);
    });
    const line: ThreadLine = {
      post: (message) => {
        const order = structuredClone(message) as ThreadOrder;
        // The message takes time. Before it arrives, the thread may die, or finish its work.
        world.schedule(thread, world.random.number(), () => {
          if (order.kind === 'abort') shift.abort(order.id, order.reason);
          else shift.join(order);
        });
      },
    };
    const shift = new ShiftInThread({
      find: ({ url, exportName }) => (url === READ_FILE_URL && reader ? reader(thread) : toolOf(module, exportName)),
      within: (call, begin) => {
        if (thread.isHeld) return new Promise(() => undefined);
        begun.add(call);
        const begins = begin();
        if (!thread.isHeld) return begins;
        // The tool holds the event loop before its first wait, and never returns.
        call.cursor.hold(call.at);
        return new Promise(() => undefined);
      },
      clock: world.clockOf(thread),
      soon: world.soonOf(thread),
      post: (note) => {
        // The rate is high because few outcomes come as a note: a call that is alone on its thread sends none.
        if (note.kind === 'finished' && loses(note.id, 0.3)) return;
        world.schedule(this.#process, 0, () => this.#options.onNote?.(note, line));
      },
    });
    return shift.run(task);
  }
}

function died(threadDeath: string): TroupeError {
  return new TroupeError('internal', `the thread died: ${threadDeath}`, { retryable: true, data: { threadDeath } });
}
