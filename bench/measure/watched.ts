/**
 * P10: the cost of a reader. Processes do the same work (`stages/watched.ts`) and differ only in their reader. Measures
 * the processor time of a half-step without a reader, and with a reader of each kind.
 */
import { NO_READER, type RunContext } from '../names.ts';
import type { Row } from '../report/figures.ts';
import { runStage } from '../stage.ts';
import { isolationOf } from '../systems/open-system.ts';
import { OF_ALL, OF_ONE } from './watchers.ts';

/** W2. */
export function measureWatched(context: RunContext): Promise<readonly Row[]> {
  return measure(context, 'W2', [NO_READER, ...Object.keys(OF_ONE), ...Object.keys(OF_ALL)]);
}

/**
 * W5: a half-step as in a service, through the official SDK over loopback HTTP. troupe always asks for a stream.
 */
export function measureWatchedHttp(context: RunContext): Promise<readonly Row[]> {
  return measure(context, 'W5', [NO_READER, ...Object.keys(OF_ALL)]);
}

async function measure(context: RunContext, workload: string, variants: readonly string[]): Promise<readonly Row[]> {
  const scale = context.scale === 'quick' ? 'quick' : 'full';
  const rows: Row[] = [];
  for (const variant of variants) {
    const figures = await runStage('./stages/watched', [isolationOf(context), workload, variant, scale]);
    rows.push({ variant, repetitions: [figures] });
  }
  return rows;
}
