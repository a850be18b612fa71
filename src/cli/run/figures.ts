/** Measurements of a run: times of sends, delay of the host's event loop, half-steps per second. */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { z } from 'zod';
import type { Runtime } from '../../index.ts';

/** The figures of the process that has the runtime. */
export interface WorkFigures {
  /** Half-steps made by this process. */
  readonly halfSteps: number;
  readonly halfStepsPerSecond: number;
  /** Seconds spent opening the store and starting its threads. */
  readonly openSeconds: number;
  readonly hostLoopDelayP99Ms: number;
}

/** The schema of `WorkFigures`. It checks figures that another process sends. */
export const workFiguresSchema: z.ZodType<WorkFigures> = z.object({
  halfSteps: z.number().int().min(0),
  halfStepsPerSecond: z.number().min(0),
  openSeconds: z.number().min(0),
  hostLoopDelayP99Ms: z.number().min(0),
});

/** The figures of a run. Times in milliseconds unless the name says otherwise. */
export interface RunFigures extends WorkFigures, SendFigures {
  readonly sessions: number;
  /** Seconds from before the store was opened until the answer. */
  readonly seconds: number;
}

/** The figures of the messages and spawns that were accepted. */
export interface SendFigures {
  readonly sends: number;
  /** Milliseconds from a send to its receipt; missing when nothing was sent. */
  readonly sendToReceiptMs?: { readonly p50: number; readonly p99: number };
}

/**
 * Sampling period of the event loop in milliseconds. The histogram counts this period as delay, so it is subtracted.
 */
const LOOP_RESOLUTION_MS = 2;
const NANOSECONDS_PER_MS = 1e6;
/** Milliseconds over which the live rate is measured. */
const RATE_WINDOW_MS = 1_000;

/** Collects figures from its construction on, until `stop` is called. */
export class RunMeter {
  readonly #begun: number = performance.now();
  readonly #loop: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  #opened: number | undefined;
  #samples: { readonly at: number; readonly halfSteps: number }[] = [];

  constructor() {
    this.#loop.enable();
  }

  /** Called when the store is open: the rate of half-steps is measured from now on. */
  opened(): void {
    this.#opened = performance.now();
  }

  /** Half-steps per second, over the last `RATE_WINDOW_MS`. */
  rate(halfSteps: number): number {
    const at = performance.now();
    this.#samples = [...this.#samples.filter((sample) => at - sample.at <= RATE_WINDOW_MS), { at, halfSteps }];
    const first = this.#samples[0];
    if (first === undefined || at === first.at) return 0;
    return (1_000 * (halfSteps - first.halfSteps)) / (at - first.at);
  }

  figures(runtime: Runtime): WorkFigures {
    const now = performance.now();
    const opened = this.#opened ?? now;
    const { halfSteps } = runtime.metrics();
    const loopMs = this.#loop.count === 0 ? 0 : this.#loop.percentile(99) / NANOSECONDS_PER_MS - LOOP_RESOLUTION_MS;
    return {
      halfSteps,
      halfStepsPerSecond: now === opened ? 0 : (1_000 * halfSteps) / (now - opened),
      openSeconds: (opened - this.#begun) / 1_000,
      hostLoopDelayP99Ms: Math.max(0, loopMs),
    };
  }

  stop(): void {
    this.#loop.disable();
  }
}

/** The figures of sends. `ms`: for each send, the milliseconds until it was accepted. */
export function sendFigures(ms: readonly number[]): SendFigures {
  const sorted = ms.toSorted((a, b) => a - b);
  if (sorted.length === 0) return { sends: 0 };
  return { sends: sorted.length, sendToReceiptMs: { p50: percentile(sorted, 50), p99: percentile(sorted, 99) } };
}

/**
 * The percentile of a list by nearest rank: `percent` percent of the values are at or below it. `sorted`: the values,
 * ascending. 0 for an empty list.
 */
export function percentile(sorted: readonly number[], percent: number): number {
  const rank = Math.ceil((percent / 100) * sorted.length);
  return sorted[Math.max(0, rank - 1)] ?? 0;
}

/** The median: the mean of the two middle values for an even count; NaN for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}
