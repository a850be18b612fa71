/** What it costs to be watched, of the figures of a process that is (`stages/watched.ts`) and of one that nobody watches. */
import { ratioOf } from './attribution.ts';
import type { Figures } from './figures.ts';

/**
 * What goes from thread to thread for a reader of all sessions, which profiles do not tell by what is carried: of the session
 * thread what is cloned more than in the process that nobody watches; of the host thread everything that it does more, but what
 * is told of already. Of the model thread nothing: what is native there is the network. Nothing where there is one thread. Of one
 * session of a thousand no difference can be seen: its events cross at the price of all.
 *
 * The other process ran at another time, on a machine that was as fast as it was then: its figures are taken times what the
 * session thread's own work, which both do, took in this one.
 */
export function crossingOf(figures: Figures, beside: Figures): number {
  if (!('session.busyUs' in figures)) return 0;
  const slower = ownWork(figures) / ownWork(beside);
  const more = (name: string): number => (figures[name] ?? 0) - slower * (beside[name] ?? 0);
  const toldUs = (figures['host.toldUs'] ?? 0) + (figures['host.toldCollectorUs'] ?? 0);
  return more('host.busyUs') - toldUs + more('session.cloningUs');
}

/** Of the session thread: neither telling nor what is shared with it. */
function ownWork(figures: Figures): number {
  const of = (name: string): number => figures[`session.${name}`] ?? 0;
  return of('busyUs') - of('toldUs') - of('collectorUs') - of('cloningUs');
}

/**
 * `toldUs`: under functions that tell. `gcUs`: the collector's share of them. `costUs`: both, and what crosses threads. `moreUs`: all that
 * the process does more than the one that nobody watches. What the cost leaves out is in there, and so is what differs between any two
 * processes, which were not compiled alike: it is no figure of a few in a hundred.
 */
export function costOf(figures: Figures, beside: Figures, crossingUs: number): Figures {
  const of = (name: string): number => figures[name] ?? 0;
  const [busyUs, toldUs, gcUs] = [of('busyUs'), of('toldUs'), of('toldCollectorUs')];
  const costUs = toldUs + gcUs + crossingUs;
  return {
    costUs,
    busyUs,
    ratio: ratioOf(busyUs, costUs),
    toldUs,
    gcUs,
    crossingUs,
    moreUs: busyUs - (beside['busyUs'] ?? 0),
    collectorUs: of('collectorUs'),
    hostUs: of('host.busyUs'),
    sessionUs: of('session.busyUs'),
    modelUs: of('model.busyUs'),
    toolUs: of('tool.busyUs'),
    events: of('events'),
    gaps: of('gaps'),
    spans: of('spans'),
  };
}
