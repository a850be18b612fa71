/** Writes results as Markdown: the systems, their figures, and the distance of troupe from each. */
import { median } from '../shared-work.ts';
import { type Entry, type PeerWorkload, WORKLOADS } from './catalogue.ts';
import type { PeerResult } from './measure.ts';

/** The results of one system. */
export interface Measured {
  readonly entry: Entry;
  readonly version: string;
  /** Missing if syncs cannot be counted. */
  readonly syncs: number | undefined;
  /** Rounds by workload; none if the workload failed. */
  readonly rounds: ReadonlyMap<PeerWorkload, readonly PeerResult[]>;
}

const UNITS: Readonly<Record<PeerWorkload, string>> = { W1: 'turns/s', W2: 'half-steps/s', W3: 'children/s' };
const NONE = '-';
/** With at least this many syncs for each turn an answer counts as synced; a count over many turns is not exact. */
const SYNCED_FROM = 0.95;

/** True if each answer follows a sync: by the count, else by the settings. */
export function isDurable({ syncs, entry }: Measured): boolean {
  return syncs === undefined ? entry.isDurable : syncs >= SYNCED_FROM;
}

/** The table of the systems. */
export function whoTable(all: readonly Measured[], nodeVersion: string): readonly string[] {
  return align([
    ['system', 'version', 'node', 'persists', 'synced', 'syncs a turn', 'form of W3'],
    ...all.map(({ entry, version, syncs }) => [
      entry.name,
      version,
      nodeVersion,
      entry.persists,
      entry.synced,
      syncs?.toFixed(2) ?? NONE,
      entry.family,
    ]),
  ]);
}

/** The table of figures: medians of the rounds with the smallest and the largest. */
export function figuresTable(all: readonly Measured[], workloads: readonly PeerWorkload[]): readonly string[] {
  const titles = workloads.flatMap((workload) => {
    const title = `${workload} ${UNITS[workload]} (min to max)`;
    return workload === 'W1' ? [title, 'W1 first 20 / last 20'] : [title];
  });
  return align([
    ['system', 'durable', ...titles, 'peak RSS MB'],
    ...all.map((measured) => [
      measured.entry.name,
      isDurable(measured) ? 'yes' : 'no',
      ...workloads.flatMap((workload) => {
        const rate = rateCell(measured, workload);
        return workload === 'W1' ? [rate, edgesCell(measured)] : [rate];
      }),
      memoryCell(measured),
    ]),
  ]);
}

/** How many times as fast troupe is, by medians; no lines if troupe was not measured. */
export function ratioTable(all: readonly Measured[], workloads: readonly PeerWorkload[]): readonly string[] {
  const troupes = all.filter(({ entry }) => entry.kind === 'troupe');
  const others = all.filter(({ entry }) => entry.kind !== 'troupe');
  if (troupes.length === 0 || others.length === 0) return [];
  const pairs = workloads.flatMap((workload) => troupes.map((troupe) => ({ workload, troupe })));
  return align([
    ['system', ...pairs.map(({ workload, troupe }) => `${workload}: troupe ${troupe.entry.variant} / system`)],
    ...others.map((other) => [
      other.entry.name,
      ...pairs.map(({ workload, troupe }) => times(rateOf(troupe, workload), rateOf(other, workload))),
    ]),
  ]);
}

/** The fastest durable peer in W2, then the hand-written loop, which is no peer, and troupe beside both. */
export function verdicts(all: readonly Measured[]): readonly string[] {
  const rate = (one: Measured): number => rateOf(one, 'W2') ?? 0;
  const isMeasured = (one: Measured): boolean => rateOf(one, 'W2') !== undefined;
  const [fastest] = all
    .filter((one) => one.entry.kind === 'peer' && isDurable(one) && isMeasured(one))
    .sort((a, b) => rate(b) - rate(a));
  const loop = all.find((one) => one.entry.kind === 'reference' && isMeasured(one));
  const beside = (other: Measured): string => {
    const troupes = all.filter((one) => one.entry.kind === 'troupe' && isMeasured(one));
    if (troupes.length === 0) return 'troupe was not measured';
    return `troupe ${troupes.map((one) => `${one.entry.variant} is ${times(rate(one), rate(other))} x`).join(', ')}`;
  };
  return [
    fastest === undefined
      ? 'fastest durable peer: none was measured in W2'
      : `fastest durable peer: ${fastest.entry.name} at ${whole(rate(fastest))} half-steps/s (W2); ${beside(fastest)}`,
    ...(loop === undefined
      ? []
      : [`hand-written durable loop (no peer): ${whole(rate(loop))} half-steps/s (W2); ${beside(loop)}`]),
  ];
}

function rateOf({ rounds }: Measured, workload: PeerWorkload): number | undefined {
  const list = rounds.get(workload) ?? [];
  return list.length === 0 ? undefined : median(list.map(({ rate }) => rate));
}

function rateCell(measured: Measured, workload: PeerWorkload): string {
  const rates = (measured.rounds.get(workload) ?? []).map(({ rate }) => rate);
  if (rates.length === 0) return NONE;
  return `${whole(median(rates))} (${whole(Math.min(...rates))} to ${whole(Math.max(...rates))})`;
}

function edgesCell({ rounds }: Measured): string {
  const list = rounds.get('W1') ?? [];
  if (list.length === 0) return NONE;
  const edge = (pick: (result: PeerResult) => number | undefined): string =>
    whole(median(list.map((result) => pick(result) ?? 0)));
  return `${edge(({ first }) => first)} / ${edge(({ last }) => last)}`;
}

/** The memory in W2, which has the most sessions, or in the largest other workload if W2 was not run. */
function memoryCell({ rounds }: Measured): string {
  const list = rounds.get('W2') ?? WORKLOADS.flatMap((workload) => rounds.get(workload) ?? []);
  return list.length === 0 ? NONE : whole(median(list.map(({ rssMb }) => rssMb)));
}

function times(ours: number | undefined, theirs: number | undefined): string {
  if (ours === undefined || theirs === undefined || theirs === 0) return NONE;
  const ratio = ours / theirs;
  return ratio >= 10 ? whole(ratio) : ratio.toFixed(2);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Rows as lines of one width; the first row is the head. */
function align(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(rows[0] ?? []), line(widths.map((width) => '-'.repeat(width))), ...rows.slice(1).map(line)];
}
