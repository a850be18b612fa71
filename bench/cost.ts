/** The cost of a measurement: processor time of all threads, resident set, delay of this thread's event loop. */
import { readFileSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Figures } from './report/figures.ts';

const NS_A_MS = 1_000_000;
const KIB_A_MIB = 1_024;
/** This value in `clear_refs` resets the peak of the resident set. */
const RESET_PEAK = '5';

/** The result of `measure` and its cost. */
export interface Costed<T> {
  readonly value: T;
  readonly cpuMs: number;
  readonly figures: Figures;
}

/**
 * Runs `measure` and reads the cost of the process meanwhile: `cores`, `rssMb`, `loopP50`, `loopP99`, `loopMax` (ms).
 * The delay of the loop is sampled each ms and includes the sampling interval. `rssMb` is the peak since the call, or
 * since the start of the process if the peak cannot be reset.
 */
export async function costOf<T>(measure: () => Promise<T>): Promise<Costed<T>> {
  resetPeak();
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const [cpu, startedAt] = [process.cpuUsage(), performance.now()];
  const value = await measure();
  const { user, system } = process.cpuUsage(cpu);
  const wallMs = performance.now() - startedAt;
  delays.disable();
  const cpuMs = (user + system) / 1_000;
  return {
    value,
    cpuMs,
    figures: {
      cores: cpuMs / wallMs,
      rssMb: peakRssMb(),
      loopP50: delays.percentile(50) / NS_A_MS,
      loopP99: delays.percentile(99) / NS_A_MS,
      loopMax: delays.max / NS_A_MS,
    },
  };
}

/** The value of one line of `/proc/self/status`, in KiB; `undefined` if the system has no such file or line. */
export function statusKib(name: 'RssAnon' | 'VmHWM'): number | undefined {
  try {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
    return found === null ? undefined : Number(found[1]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function peakRssMb(): number {
  return (statusKib('VmHWM') ?? process.resourceUsage().maxRSS) / KIB_A_MIB;
}

function resetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', RESET_PEAK);
  } catch (error) {
    // The system is not Linux, or the write is not permitted. Then the peak is the one since the process started.
    if (!(error instanceof Error && 'code' in error)) throw error;
  }
}
