/** What it costs to be watched, of the figures of a process that is (`stages/watched.ts`) and of one that nobody watches. */

import type { Figures } from '../report/figures.ts';
import { ratioOf } from './attribution.ts';

/**
 * What goes from thread to thread for a reader of all sessions, and what the host thread makes of it: of the session thread what it
 * posts longer than in the process that nobody watches, as profiles do not tell what is carried; of the host thread all that it runs
 * longer, which the kernel tells exactly, as it does little else. Of the model thread nothing: what it posts is mostly answers.
 * Nothing where there is one thread. Of one session of a thousand no difference can be seen: its events cross at the price of all.
 *
 * The other process ran at another time, on a machine that was as fast as it was then: its figures are taken times what the
 * session thread's own work, which both do, took in this one.
 */
export function crossingOf(figures: Figures, beside: Figures): number {
  if (!isApart(figures)) return 0;
  const slower = ownWork(figures) / ownWork(beside);
  const more = (name: string): number => (figures[name] ?? 0) - slower * (beside[name] ?? 0);
  return more('host.ranUs') + more('session.postingUs');
}

/** Sessions have a thread beside the host's. */
function isApart(figures: Figures): boolean {
  return 'session.ranUs' in figures;
}

/** Of the session thread: neither telling nor what is shared with it. */
function ownWork(figures: Figures): number {
  const of = (name: string): number => figures[`session.${name}`] ?? 0;
  return of('ranUs') - of('toldUs') - of('collectorUs') - of('postingUs');
}

/**
 * `toldUs`: under functions that tell. `gcUs`: the share of them in the collector. `costUs`: both, and what crosses threads; a host thread
 * that is apart is in that and not counted again. `cpuUs`: all that the process uses. `moreUs`: what it uses more than the one that
 * nobody watches. What the cost leaves out is in there, and so is what differs between any two processes, which were not compiled
 * alike: it is no figure of a few in a hundred.
 */
export function costOf(figures: Figures, beside: Figures, crossingUs: number): Figures {
  const of = (name: string): number => figures[name] ?? 0;
  const besideHost = (name: string): number => of(name) - (isApart(figures) ? of(`host.${name}`) : 0);
  const [cpuUs, toldUs] = [of('cpuUs'), besideHost('toldUs')];
  const gcUs = besideHost('toldCollectorUs');
  const costUs = toldUs + gcUs + crossingUs;
  return {
    costUs,
    cpuUs,
    ratio: ratioOf(cpuUs, costUs),
    toldUs,
    gcUs,
    crossingUs,
    moreUs: cpuUs - (beside['cpuUs'] ?? 0),
    collectorUs: of('collectorUs'),
    helpersUs: of('helpersUs'),
    hostUs: of('host.ranUs'),
    sessionUs: of('session.ranUs'),
    modelUs: of('model.ranUs'),
    toolUs: of('tool.ranUs'),
    events: of('events'),
    gaps: of('gaps'),
    spans: of('spans'),
  };
}
