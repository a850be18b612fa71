/**
 * P10: what it costs to be watched, told by profiles. Each kind of reader is measured in a process of its own that is watched so from its
 * start to its end (`stages/watched.ts`), and beside them one that nobody watches.
 */

import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { runStage } from '../stage.ts';
import { isolationOf } from '../systems/open-system.ts';
import { costOf, crossingOf } from '../watching/watching-cost.ts';

/**
 * Compiled code keeps which functions it inlined where: without, the time of a function that was compiled into its caller is the caller's,
 * and of what tells little would be seen.
 */
const INLINED = '--detailed-line-info';
/**
 * Collectors without helping threads, whose time would be on no thread: what helps one thread's collector is several times its pauses
 * where much lives, and half of them where nothing does (`--trace-gc-nvp`), so that no key would share it out.
 */
const UNHELPED = '--single-threaded-gc';
/** What nobody watches, as the stage and as the tables name it. */
const NOBODY = 'nobody';
const NO_READER = 'no reader';
const OF_ALL = ['basic view of all sessions', 'debug view of all sessions', 'traces of all sessions'];
/** Readers of one session, and which reader of all reads as they do. */
const OF_ONE = [
  ['basic view of one session', 'basic view of all sessions'],
  ['debug view of one session', 'debug view of all sessions'],
] as const;

type OfOne = (typeof OF_ONE)[number];

/** W2. */
export function measureWatched(context: RunContext): Promise<readonly Row[]> {
  return measured(context, 'W2', OF_ONE);
}

/** W5: the half-step that a service has, through the official SDK over loopback HTTP. troupe always asks for a stream. */
export function measureWatchedHttp(context: RunContext): Promise<readonly Row[]> {
  return measured(context, 'W5', []);
}

async function measured(context: RunContext, workload: string, ofOne: readonly OfOne[]): Promise<readonly Row[]> {
  const scale = context.scale === 'quick' ? 'quick' : 'full';
  const profile = (variant: string): Promise<Figures> =>
    runStage('./stages/watched', [isolationOf(context), workload, variant, scale], [INLINED, UNHELPED]);
  const beside = await profile(NOBODY);
  const costs = new Map([[NO_READER, costOf(beside, beside, 0)]]);
  for (const variant of OF_ALL) {
    const figures = await profile(variant);
    costs.set(variant, costOf(figures, beside, crossingOf(figures, beside)));
  }
  for (const [variant, like] of ofOne) {
    const figures = await profile(variant);
    const { crossingUs = 0, events: ofAll = 0 } = costs.get(like) ?? {};
    costs.set(variant, costOf(figures, beside, (crossingUs * (figures['events'] ?? 0)) / ofAll));
  }
  return [...costs].map(([variant, figures]) => ({ variant, repetitions: [figures] }));
}
