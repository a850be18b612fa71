/**
 * Delay of the host thread's event loop. It is measured from the first query on, so an unqueried server pays nothing.
 * It covers the last seconds only, since an hour of history would hide the present.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { HostMetrics } from './prometheus.ts';

/** Sampling interval in milliseconds. The reported delay is the time in excess of this interval. */
const RESOLUTION_MS = 20;
const NANOSECONDS = 1e6;
/** Milliseconds after which a new measuring window begins. */
const WINDOW_MS = 10_000;

/** See the file header. */
export class HostWatch {
  #histogram: IntervalHistogram | undefined;
  #begunMs = 0;

  /** Figures since the last call that ended a window, or since the first call. */
  metrics(eventStreams: number): HostMetrics {
    if (this.#histogram === undefined) {
      this.#histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      this.#histogram.enable();
      this.#begunMs = performance.now();
    }
    const figures = {
      loopDelayMs: inExcess(this.#histogram.mean),
      loopDelayP99Ms: inExcess(this.#histogram.percentile(99)),
      memoryBytes: process.memoryUsage.rss(),
      eventStreams,
    };
    if (performance.now() - this.#begunMs > WINDOW_MS) {
      this.#histogram.reset();
      this.#begunMs = performance.now();
    }
    return figures;
  }

  /** Stops measuring. */
  stop(): void {
    this.#histogram?.disable();
    this.#histogram = undefined;
  }
}

/** A delay in ms, in excess of the interval; 0 for the mean of an empty histogram, which is not a number. */
function inExcess(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / NANOSECONDS - RESOLUTION_MS) : 0;
}
