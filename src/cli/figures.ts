/** What a run measured: times of sends, delay of the host's loop, half-steps a second. */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { Runtime } from '../index.ts';

/** The figures of a run. Times in milliseconds unless named otherwise. */
export interface RunFigures {
  readonly sessions: number;
  /** Made by this process. */
  readonly halfSteps: number;
  readonly halfStepsPerSecond: number;
  /** From before the store was opened to the answer. */
  readonly seconds: number;
  /** Of which opening the store and starting its threads. */
  readonly openSeconds: number;
  readonly sends: number;
  /** Missing when nothing was sent. */
  readonly sendToReceiptMs?: { readonly p50: number; readonly p99: number };
  readonly hostLoopDelayP99Ms: number;
}

/** Milliseconds between two looks at the loop; the histogram counts them as delay, so they are taken off again. */
const LOOP_RESOLUTION_MS = 2;
const NANOSECONDS_PER_MS = 1e6;
/** Milliseconds over which the live rate is taken. */
const RATE_WINDOW_MS = 1_000;

/** Gathers figures from its making on; `stop` once. */
export class RunMeter {
  readonly #begun: number = performance.now();
  readonly #loop: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  readonly #sends: number[] = [];
  #opened: number | undefined;
  #samples: { readonly at: number; readonly halfSteps: number }[] = [];

  constructor() {
    this.#loop.enable();
  }

  /** The store is open: half-steps are counted against the time from here on. */
  opened(): void {
    this.#opened = performance.now();
  }

  accepted(ms: number): void {
    this.#sends.push(ms);
  }

  /** Seconds since the start. */
  get seconds(): number {
    return (performance.now() - this.#begun) / 1_000;
  }

  /** Half-steps a second, lately. */
  rate(halfSteps: number): number {
    const at = performance.now();
    this.#samples = [...this.#samples.filter((sample) => at - sample.at <= RATE_WINDOW_MS), { at, halfSteps }];
    const first = this.#samples[0];
    if (first === undefined || at === first.at) return 0;
    return (1_000 * (halfSteps - first.halfSteps)) / (at - first.at);
  }

  figures(runtime: Runtime, sessions: number): RunFigures {
    const now = performance.now();
    const opened = this.#opened ?? now;
    const { halfSteps } = runtime.metrics();
    const sorted = this.#sends.toSorted((a, b) => a - b);
    const loopMs = this.#loop.count === 0 ? 0 : this.#loop.percentile(99) / NANOSECONDS_PER_MS - LOOP_RESOLUTION_MS;
    return {
      sessions,
      halfSteps,
      halfStepsPerSecond: now === opened ? 0 : (1_000 * halfSteps) / (now - opened),
      seconds: (now - this.#begun) / 1_000,
      openSeconds: (opened - this.#begun) / 1_000,
      sends: sorted.length,
      ...(sorted.length === 0 ? {} : { sendToReceiptMs: { p50: percentile(sorted, 50), p99: percentile(sorted, 99) } }),
      hostLoopDelayP99Ms: Math.max(0, loopMs),
    };
  }

  stop(): void {
    this.#loop.disable();
  }
}

/** The value below which `percent` of the values lie (nearest rank). `sorted`: ascending; 0 when there are none. */
export function percentile(sorted: readonly number[], percent: number): number {
  const rank = Math.ceil((percent / 100) * sorted.length);
  return sorted[Math.max(0, rank - 1)] ?? 0;
}

/** The middle of some numbers; the mean of the two middle ones; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}
