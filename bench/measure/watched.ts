/**
 * P10: what it costs to be watched, told by profiles. Each kind of reader is measured in a process of its own that is watched so from its
 * start to its end (`stages/watched.ts`), and beside them one that nobody watches.
 */

import { ratioOf } from '../attribution.ts';
import type { Figures, Row } from '../figures.ts';
import type { RunContext } from '../names.ts';
import { isolationOf } from '../open-system.ts';
import { runStage } from '../stage.ts';

/**
 * Compiled code keeps which functions it inlined where: without, the time of a function that was compiled into its caller is the caller's,
 * and of what tells little would be seen.
 */
const INLINED = '--detailed-line-info';
/** What nobody watches, as the stage and as the tables name it. */
const NOBODY = 'nobody';
const NO_READER = 'no reader';
const OF_ONE = ['basic view of one session', 'debug view of one session'];
const OF_ALL = ['basic view of all sessions', 'debug view of all sessions', 'traces of all sessions'];

/** W2. */
export function measureWatched(context: RunContext): Promise<readonly Row[]> {
  return measured(context, 'W2', [...OF_ONE, ...OF_ALL]);
}

/** W5: the half-step that a service has, through the official SDK over loopback HTTP. troupe always asks for a stream. */
export function measureWatchedHttp(context: RunContext): Promise<readonly Row[]> {
  return measured(context, 'W5', OF_ALL);
}

async function measured(context: RunContext, workload: string, variants: readonly string[]): Promise<readonly Row[]> {
  const scale = context.scale === 'quick' ? 'quick' : 'full';
  const profile = (variant: string): Promise<Figures> =>
    runStage('./stages/watched', [isolationOf(context), workload, variant, scale], [INLINED]);
  const beside = await profile(NOBODY);
  const rows: Row[] = [{ variant: NO_READER, repetitions: [costOf(beside, beside)] }];
  for (const variant of variants) {
    rows.push({ variant, repetitions: [costOf(await profile(variant), beside)] });
  }
  return rows;
}

/**
 * `toldUs`: under functions that tell. `gcUs`: the collector's share of them. `crossingUs`: from thread to thread, which profiles do not tell
 * by what is carried: of the session and the model thread what is cloned more than in the process that nobody watches; of the host thread
 * everything that it does more. `costUs`: all of these. `moreUs`: all that the process does more than the other one, another compilation of the
 * same code included: what the three above leave out is in there, and so is what differs between any two processes.
 */
function costOf(figures: Figures, beside: Figures): Figures {
  const of = (name: string): number => figures[name] ?? 0;
  const more = (name: string): number => of(name) - (beside[name] ?? 0);
  const [busyUs, toldUs, gcUs] = [of('busyUs'), of('toldUs'), of('toldCollectorUs')];
  const hostUs = more('host.busyUs') - of('host.toldUs') - of('host.toldCollectorUs');
  const isAcross = 'session.busyUs' in figures && figures !== beside;
  const crossingUs = isAcross ? hostUs + more('session.cloningUs') + more('model.cloningUs') : 0;
  const costUs = toldUs + gcUs + crossingUs;
  const { events = 0, gaps = 0, spans = 0 } = figures;
  return {
    costUs,
    busyUs,
    ratio: ratioOf(busyUs, costUs),
    toldUs,
    gcUs,
    crossingUs,
    moreUs: more('busyUs'),
    collectorUs: of('collectorUs'),
    hostUs: of('host.busyUs'),
    sessionUs: of('session.busyUs'),
    modelUs: of('model.busyUs'),
    toolUs: of('tool.busyUs'),
    events,
    gaps,
    spans,
  };
}
