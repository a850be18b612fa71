/**
 * Measures the delay of the host thread's event loop. Measuring begins with the first request for metrics, so a server
 * without such requests pays nothing. The figures cover only the last seconds, because an hour of history would hide
 * the present delay.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { HostMetrics } from './prometheus.ts';

/** Sampling interval in milliseconds. The reported delay is the time in excess of this interval. */
const RESOLUTION_MS = 20;
const NANOSECONDS = 1e6;
/** Milliseconds that a measuring window lasts at least. */
const WINDOW_MS = 10_000;

/** See the file header. */
export class HostWatch {
  #histogram: IntervalHistogram | undefined;
  #begunMs = 0;

  /**
   * The figures since the measuring window began. If the window is older than `WINDOW_MS`, this call ends it and a new
   * window begins.
   */
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

/** Returns a delay in ms beyond the sampling interval. The mean of an empty histogram is NaN and counts as 0. */
function inExcess(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / NANOSECONDS - RESOLUTION_MS) : 0;
}
