/** A pool under test, the events that its listener received, and a clock driven by the test. */
import type { Clock } from '../../src/base/clock.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { ToolRun } from '../../src/tools/pool.ts';
import {
  createToolPool,
  type ThreadedToolPool,
  type ToolNoise,
  type ToolPoolOptions,
} from '../../src/tools/threads/threaded-pool.ts';
import type { ToolOutcome } from '../../src/tools/tool.ts';

export function fixture(name: string): string {
  return new URL(`./fixtures/${name}.ts`, import.meta.url).href;
}

/** A clock that stands still until the test advances it. */
export class HandClock implements Clock {
  #now = 0;
  readonly #timers = new Map<object, { readonly at: number; readonly run: () => void }>();

  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  setTimer(run: () => void, delayMs: number): unknown {
    const timer = {};
    this.#timers.set(timer, { at: this.#now + delayMs, run });
    return timer;
  }
  clearTimer(timer: unknown): void {
    this.#timers.delete(timer as object);
  }
  /** Advances the clock and fires the due timers in order. */
  advance(byMs: number): void {
    const until = this.#now + byMs;
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= until).sort(([, a], [, b]) => a.at - b.at)[0];
      if (due === undefined) break;
      const [timer, { at, run }] = due;
      this.#timers.delete(timer);
      this.#now = at;
      run();
    }
    this.#now = until;
  }
  get timers(): number {
    return this.#timers.size;
  }
  /** The time of the next timer. */
  get nextDueMs(): number {
    return Math.min(...[...this.#timers.values()].map(({ at }) => at));
  }
}

interface Waiter {
  readonly until: () => boolean;
  readonly resolve: () => void;
}

export class PoolUnderTest {
  readonly pool: ThreadedToolPool;
  readonly outcomes: Map<number, ToolOutcome[]> = new Map();
  readonly progress: { readonly id: number; readonly data: unknown }[] = [];
  readonly noise: ToolNoise[] = [];
  #waiters: Waiter[] = [];
  #lastId = 0;

  constructor(options: Partial<ToolPoolOptions> = {}) {
    this.pool = createToolPool({
      threads: 2,
      clock: systemClock,
      ...options,
      listener: {
        finished: (id, outcome) => {
          this.outcomes.set(id, [...(this.outcomes.get(id) ?? []), outcome]);
          this.#wake();
        },
        progress: (id, data) => {
          this.progress.push({ id, data });
          this.#wake();
        },
      },
      onNoise: (noise) => {
        this.noise.push(noise);
        this.#wake();
      },
    });
  }

  /** Starts a run of a tool of the unruly module; returns its id. */
  start(exportName: string, options: Partial<ToolRun> = {}): number {
    this.#lastId += 1;
    this.pool.run({
      id: this.#lastId,
      session: 's',
      callId: `call_${this.#lastId}`,
      attempt: 1,
      key: `key-${this.#lastId}`,
      toolName: exportName,
      place: { kind: 'thread', url: fixture('unruly-tools'), exportName },
      input: {},
      timeoutMs: 60_000,
      mode: 'run',
      effect: 'once',
      ...options,
    });
    return this.#lastId;
  }

  /** Resolves with the first outcome of a run. */
  async outcome(id: number): Promise<ToolOutcome> {
    await this.until(() => this.outcomes.has(id));
    const outcome = this.outcomes.get(id)?.[0];
    if (outcome === undefined) throw new Error('no outcome');
    return outcome;
  }

  async runs(exportName: string, options: Partial<ToolRun> = {}): Promise<ToolOutcome> {
    return await this.outcome(this.start(exportName, options));
  }

  /** Resolves when `condition` holds. It is checked on every event of the pool. */
  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ until: condition, resolve }));
  }

  #wake(): void {
    const ready = this.#waiters.filter(({ until }) => until());
    this.#waiters = this.#waiters.filter((waiter) => !ready.includes(waiter));
    for (const { resolve } of ready) resolve();
  }
}
