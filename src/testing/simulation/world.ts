/**
 * The simulated machine: virtual time, one queue of all future tasks, and processes that can die.
 *
 * Owns: the time, the order of tasks, which processes live. Does not own: the tasks' work, the drawn faults.
 *  V1 tasks run in the order of their virtual time; tasks of the same time run in the order in which they were given.
 *     Between two tasks all microtasks run. So the run is a function of the seed alone;
 *  V2 a task belongs to a process and never runs once that process is dead;
 *  V3 a process dies with its parent: threads die with their process;
 *  V4 wall time may jump, monotonic time never does;
 *  V5 an error that a task throws goes to the listener; a real process would end;
 *  V6 a process whose event loop is held runs no further task, but lives until it is killed.
 */
import type { Clock, Soon } from '../../base/clock.ts';
import type { SeededRandom } from './seeded-random.ts';

/** Epoch ms at which every simulation begins: 2026-01-01, 00:00 UTC. */
const START_MS = 1_767_225_600_000;
/**
 * Virtual ms for which a message is held: long enough for all other work to end, and less than the time that a session
 * thread has to close (`SHARD_CLOSE_MS`).
 */
const HELD_MS = 25_000;
/** A run with more tasks counts as endless. */
const TASKS_MAX = 400_000;

interface Task {
  readonly at: number;
  readonly order: number;
  readonly process: SimulatedProcess;
  readonly run: () => void;
  cancelled: boolean;
}

/** A process or one of its threads: everything that dies at once. */
export class SimulatedProcess {
  readonly name: string;
  readonly parent: SimulatedProcess | undefined;
  #isAlive = true;
  #isHeld = false;
  readonly #onDeath: (() => void)[] = [];
  readonly #children: SimulatedProcess[] = [];

  constructor(name: string, parent?: SimulatedProcess) {
    this.name = name;
    this.parent = parent;
    if (parent !== undefined) parent.#children.push(this);
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** True once a task holds the event loop of this process for ever (V6). */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Holds the event loop of this process for ever (V6). */
  hold(): void {
    this.#isHeld = true;
  }

  /** Runs `listener` once when the process dies; at once if it is already dead. */
  onDeath(listener: () => void): void {
    if (this.#isAlive) this.#onDeath.push(listener);
    else listener();
  }

  /** Resolves with the promise's value, or with undefined when the process dies first. */
  async untilDeath<Value>(promise: Promise<Value>): Promise<Value | undefined> {
    const death = new Promise<undefined>((resolve) => this.onDeath(() => resolve(undefined)));
    return Promise.race([promise, death]);
  }

  /** Dies together with its children (V3). */
  kill(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    for (const child of this.#children) child.kill();
    for (const listener of this.#onDeath.splice(0)) listener();
  }
}

/** The listener of a world. */
export interface WorldListener {
  /** Called when a task threw, or when a rejection was not handled. */
  uncaught(process: SimulatedProcess, thrown: unknown): void;
}

/** See the file header. */
export class World {
  readonly random: SeededRandom;
  readonly #listener: WorldListener;
  readonly #tasks = new TaskHeap();
  #nowMs = 0;
  #wallShiftMs = 0;
  #order = 0;
  #ran = 0;
  /** Messages between threads since `countMessages`, and the number of the message that is held. */
  #messages = 0;
  #heldAt: number | undefined;

  constructor(random: SeededRandom, listener: WorldListener) {
    this.random = random;
    this.#listener = listener;
  }

  /** Monotonic ms since the beginning. */
  get elapsedMs(): number {
    return this.#nowMs;
  }

  /** Tasks run so far. */
  get tasksRun(): number {
    return this.#ran;
  }

  /**
   * Counts messages between threads from now on. The message with the number `heldAt`, from 1, is held, together with
   * later messages on the same line.
   */
  countMessages(heldAt: number | undefined): void {
    this.#messages = 0;
    this.#heldAt = heldAt;
  }

  /** Messages between threads since the last `countMessages`. */
  get messages(): number {
    return this.#messages;
  }

  /** Counts a message. Returns how long it is held, in virtual ms. */
  heldMs(): number {
    this.#messages += 1;
    return this.#messages === this.#heldAt ? HELD_MS : 0;
  }

  /** Makes wall time jump, but not monotonic time (V4). */
  jump(ms: number): void {
    this.#wallShiftMs += ms;
  }

  /**
   * Puts a task into the queue. The task never runs if the process is dead now, or dies before the task is due (V2).
   */
  schedule(process: SimulatedProcess, delayMs: number, run: () => void): object {
    this.#order += 1;
    const delay = Number.isFinite(delayMs) ? Math.max(0, delayMs) : 2 ** 31;
    const task: Task = { at: this.#nowMs + delay, order: this.#order, process, run, cancelled: false };
    if (process.isAlive) this.#tasks.push(task);
    return task;
  }

  cancel(task: unknown): void {
    if (task !== undefined && task !== null) (task as Task).cancelled = true;
  }

  /** Resolves after a virtual time; never, once the process is dead. */
  sleep(process: SimulatedProcess, ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.schedule(process, ms, resolve);
    });
  }

  /** The clock of a process. */
  clockOf(process: SimulatedProcess): Clock {
    return {
      now: () => Math.floor(START_MS + this.#nowMs + this.#wallShiftMs),
      monotonic: () => this.#nowMs,
      setTimer: (run, delayMs) => this.schedule(process, delayMs, run),
      clearTimer: (timer) => this.cancel(timer),
    };
  }

  /**
   * Runs work in a later tick of a process. Ticks come in order, a little time apart, so that processes overtake each
   * other.
   */
  soonOf(process: SimulatedProcess): Soon {
    let last = 0;
    return (run) => {
      const latency = this.random.chance(0.7) ? 0 : this.random.number() * 2;
      last = Math.max(last, this.#nowMs + latency);
      this.schedule(process, last - this.#nowMs, run);
    };
  }

  /**
   * Runs tasks until `isOver` returns true or no task is left. Returns false if more than `TASKS_MAX` tasks have run.
   */
  async run(isOver: () => boolean): Promise<boolean> {
    await settle();
    while (!isOver()) {
      const task = this.#tasks.pop();
      if (task === undefined) return true;
      if (task.cancelled || !task.process.isAlive || task.process.isHeld) continue;
      this.#ran += 1;
      if (this.#ran > TASKS_MAX) return false;
      this.#nowMs = Math.max(this.#nowMs, task.at);
      try {
        task.run();
      } catch (thrown) {
        this.#listener.uncaught(task.process, thrown);
      }
      await settle();
    }
    return true;
  }
}

/** Resolves after all microtasks, because they run before the next immediate. */
function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A binary heap by time, then by order. */
class TaskHeap {
  readonly #tasks: Task[] = [];

  push(task: Task): void {
    const tasks = this.#tasks;
    let index = tasks.length;
    tasks.push(task);
    while (index > 0) {
      const above = (index - 1) >>> 1;
      const parent = tasks[above];
      if (parent === undefined || isBefore(parent, task)) break;
      tasks[index] = parent;
      index = above;
    }
    tasks[index] = task;
  }

  pop(): Task | undefined {
    const tasks = this.#tasks;
    const first = tasks[0];
    const last = tasks.pop();
    if (first === undefined || last === undefined || tasks.length === 0) return first;
    let index = 0;
    for (;;) {
      const left = index * 2 + 1;
      const a = tasks[left];
      if (a === undefined) break;
      const b = tasks[left + 1];
      const isRight = b !== undefined && isBefore(b, a);
      const child = isRight ? b : a;
      if (isBefore(last, child)) break;
      tasks[index] = child;
      index = isRight ? left + 1 : left;
    }
    tasks[index] = last;
    return first;
  }
}

function isBefore(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
