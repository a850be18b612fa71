/** How late the loop of the host thread is. Watched from the first question on, so that a server nobody asks costs nothing. */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { HostMetrics } from './prometheus.ts';

/** Milliseconds between looks: what is late is told in excess of them. */
const RESOLUTION_MS = 20;
const NANOSECONDS = 1e6;

/** See the head of the file. */
export class HostWatch {
  #histogram: IntervalHistogram | undefined;

  /** Figures since the first call. */
  metrics(eventStreams: number): HostMetrics {
    if (this.#histogram === undefined) {
      this.#histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      this.#histogram.enable();
    }
    const { mean, max } = this.#histogram;
    const p99 = this.#histogram.percentile(99);
    return {
      loopDelayMs: { mean: inExcess(mean), p99: inExcess(p99), max: inExcess(max) },
      memoryBytes: process.memoryUsage.rss(),
      eventStreams,
    };
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
