/**
 * Runs turns on the measured system until its code is compiled. Compiled code belongs to a thread, and each runtime
 * starts new threads. So repetitions use new sessions, not new runtimes.
 */
import type { RunContext } from './names.ts';
import { manySessions, type Repetition, type WorkSize } from './shared-work.ts';
import type { DrainSystem } from './systems/system.ts';

const WARM_TURNS = 10_000;
const WARM_MS = 2_000;
/** A slow system stops warming up after this time. */
const WARM_MS_MAX = 5_000;
const WARM_MS_MAX_QUICK = 3_000;
const PASS = { sessions: 500, turnsEach: 4 };

/** Options of a warm-up. */
export interface WarmUpOptions {
  /** Size of W2 in one pass. */
  readonly pass?: Pick<WorkSize, 'sessions' | 'turnsEach'>;
  /** Prefix of the session names; a system that is warmed up twice needs two different ones. */
  readonly label?: string;
  /** Called after each pass: runs the workload itself, in small. Resolves to the number of turns it made. */
  readonly also?: (repetition: Repetition) => Promise<number>;
}

/** Runs W2 with 500 sessions again and again until 10,000 turns and 2 s have passed, or 5 s (`quick`: 3 s). */
export async function warmUp(
  { scale }: Pick<RunContext, 'scale'>,
  system: DrainSystem,
  { pass: size = PASS, also, label = 'warm' }: WarmUpOptions = {},
): Promise<void> {
  const startedAt = performance.now();
  const longestMs = scale === 'quick' ? WARM_MS_MAX_QUICK : WARM_MS_MAX;
  let turns = 0;
  for (let pass = 0; ; pass += 1) {
    await manySessions(system, size, unmeasured(`${label}${pass}-`));
    turns += size.sessions * size.turnsEach;
    if (also !== undefined) turns += await also(unmeasured(`${label}-also${pass}-`));
    const tookMs = performance.now() - startedAt;
    if (tookMs >= longestMs || (turns >= WARM_TURNS && tookMs >= WARM_MS)) return;
  }
}

function unmeasured(label: string): Repetition {
  return { label, timed: (work) => work() };
}
