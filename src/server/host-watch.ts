/**
 * How late the loop of the host thread is. Watched from the first question on, so that a server nobody asks costs nothing; told of the
 * last seconds, as what was an hour ago hides what is now.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { HostMetrics } from './prometheus.ts';

/** Milliseconds between looks: what is late is told in excess of them. */
const RESOLUTION_MS = 20;
const NANOSECONDS = 1e6;
/** Milliseconds after which a look begins anew. */
const WINDOW_MS = 10_000;

/** See the head of the file. */
export class HostWatch {
  #histogram: IntervalHistogram | undefined;
  #begunMs = 0;

  /** Figures since the last look that ended a window, or since the first one. */
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

  /** Stops watching. */
  stop(): void {
    this.#histogram?.disable();
    this.#histogram = undefined;
  }
}

/** An empty histogram has no mean. */
function inExcess(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / NANOSECONDS - RESOLUTION_MS) : 0;
}
