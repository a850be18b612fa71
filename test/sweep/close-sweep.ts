/**
 * Holds each message of a close in turn until all other work is at rest. All later messages of the same connection wait
 * behind it. A step of the close that must be ended by force counts as a violation, and so does any fault that the next
 * life finds.
 */
import { simulate } from '../../src/testing/simulation/simulate.ts';

/**
 * Two session threads each, with model threads, tools and readers; some with enrichers. These seeds were found among
 * random ones.
 */
export const CLOSE_SEEDS = [12, 23, 38, 67] as const;

/** The result of the sweep of one close. */
export interface CloseReport {
  readonly seed: number;
  /** Messages between threads in the close. */
  readonly messages: number;
  readonly failures: readonly string[];
}

/** Holds every `every`-th message of the close of a seed, so one in each run; the seed says with which it begins. */
export async function sweepClose(seed: number, every: number): Promise<CloseReport> {
  const failures: string[] = [];
  let messages = 1;
  for (let heldAtClose = 1 + (seed % every); heldAtClose <= messages || messages === 1; heldAtClose += every) {
    const result = await simulate({ seed, faults: ['process.close'], heldAtClose });
    if (result.violations.length > 0) {
      failures.push(
        `seed ${seed}, message ${heldAtClose} held: ${result.violations.map(({ what }) => what).join('; ')}\n${result.trace.slice(-20).join('\n')}`,
      );
    }
    messages = Math.max(messages, result.closeMessages);
  }
  return { seed, messages, failures };
}
