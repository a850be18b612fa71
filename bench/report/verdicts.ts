/** The targets, each with its measured value and whether it holds. */

import { NO_READER } from '../names.ts';
import type { VerdictResult, WorkloadResult } from './results-file.ts';
import { type Bound, judge, Measured, open, type Place } from './verdict-rules.ts';

const OURS = ['inline', 'isolated'] as const;
const GIB_IN_MIB = 1_024;
/** With so many cores two session threads have a core each, and the host and the models one. */
const MANY_CORES = 4;

/** Workloads whose targets are ratios of one run, which are valid at any size. */
const ANY_SIZE: ReadonlySet<string> = new Set(['W1', 'W2', 'W3', 'W5', 'W5s', 'threads', 'watched', 'watched-http']);

/** The conditions of a run. */
export interface RunConditions {
  /** Cores of the machine. */
  readonly cores: number;
  /** The sizes are smaller than those of the targets: only ratios get a verdict. */
  readonly isQuick: boolean;
}

/** A verdict on every target; `open` where this run did not measure it. */
export function verdictsOf(
  workloads: readonly WorkloadResult[],
  { cores, isQuick }: RunConditions,
): readonly VerdictResult[] {
  const measured = new Measured(isQuick ? workloads.filter(({ workload }) => ANY_SIZE.has(workload)) : workloads);
  return [
    ...throughput(measured),
    ...oneByOne(measured),
    ...families(measured),
    ...idleSessions(measured),
    ...throughSdk(measured),
    ...latency(measured),
    ...interrupted(measured),
    ...longSession(measured),
    ...watching(measured),
    ...sessionThreads(measured, cores),
    ...refusals(measured),
  ];
}

function throughput(measured: Measured): readonly VerdictResult[] {
  return [
    times(measured, 'P1', { workload: 'W2', system: 'inline', to: 'loop', least: 10 }),
    times(measured, 'P1', { workload: 'W2', system: 'inline', to: 'kernel', least: 0.2 }),
    times(measured, 'P1', { workload: 'W2', system: 'isolated', to: 'loop', least: 5 }),
  ];
}

function oneByOne(measured: Measured): readonly VerdictResult[] {
  const steady = OURS.map((system) => {
    const place = { workload: 'W1', system };
    const [first, last] = [measured.figure(place, 'first'), measured.figure(place, 'last')];
    const target = `W1 ${system}: last 20 turns >= 0.9 x first 20`;
    return judge(
      { id: 'P2', target, least: 0.9, unit: 'x' },
      first === undefined || last === undefined ? undefined : last / first,
    );
  });
  return [
    times(measured, 'P2', { workload: 'W1', system: 'inline', to: 'loop', least: 1 }),
    times(measured, 'P2', { workload: 'W1', system: 'isolated', to: 'loop', least: 0.7 }),
    ...steady,
  ];
}

function families(measured: Measured): readonly VerdictResult[] {
  const w6 = OURS.flatMap((system) => {
    const place = { workload: 'W6', system };
    const wallMs = measured.figure(place, 'wallMs');
    return [
      judge(
        { id: 'P3', target: `W6 ${system}: under 30 s, each reply once`, most: 30, unit: 's' },
        wallMs === undefined ? undefined : wallMs / 1_000,
      ),
      judge(
        { id: 'P3', target: `W6 ${system}: under 1 GB RSS`, most: GIB_IN_MIB, unit: 'MB' },
        measured.figure(place, 'rssMb'),
      ),
    ];
  });
  return [times(measured, 'P3', { workload: 'W3', system: 'isolated', to: 'loop', least: 5 }), ...w6];
}

function idleSessions(measured: Measured): readonly VerdictResult[] {
  const memory = measured.figure({ workload: 'W4', system: 'inline', variant: 'memory' }, 'sessionKib');
  const openMs = (place: Place, target: string, most: number): VerdictResult => {
    const verdict = judge({ id: 'P4', target, most, unit: 'ms' }, measured.figure(place, 'openMs'));
    const isCold = place.variant?.endsWith('cold') === true;
    if (!isCold || verdict.outcome === 'open' || measured.figure(place, 'cold') === 1) return verdict;
    return { ...verdict, measured: `${verdict.measured} (the file stayed in the page cache)` };
  };
  const large = (variant: string): Place => ({ workload: 'scale', system: 'inline', variant });
  return [
    judge(
      { id: 'P4', target: 'W4 inline: anonymous memory of an idle session <= 0.3 kB', most: 0.3, unit: 'kB' },
      memory,
    ),
    ...OURS.map((system) =>
      openMs({ workload: 'W4', system, variant: 'open cold' }, `W4 ${system}: cold open <= 50 ms`, 50),
    ),
    ...OURS.flatMap((system) => [
      openMs(large(`${system}, open cold`), `100,000 sessions, 10 M messages, ${system}: cold open <= 2 s`, 2_000),
      openMs(large(`${system}, open warm`), `100,000 sessions, 10 M messages, ${system}: warm open <= 200 ms`, 200),
    ]),
  ];
}

function throughSdk(measured: Measured): readonly VerdictResult[] {
  return ['W5', 'W5s'].flatMap((workload) =>
    OURS.map((system) => times(measured, 'P5', { workload, system, to: 'sdk', least: 0.9 })),
  );
}

function latency(measured: Measured): readonly VerdictResult[] {
  const drain: Place = { workload: 'W7', system: 'isolated', variant: 'full drain' };
  const quiet: Place = { ...drain, variant: 'quiet' };
  const [receipt, flush] = [measured.figure(drain, 'receiptP50'), measured.figure(drain, 'flushMs')];
  const flushes = receipt === undefined || flush === undefined ? undefined : receipt / flush;
  const steer = (place: Place): VerdictResult => {
    const target = `W7 isolated, ${place.variant}: steer in the next request, p99 <= 5 ms after the boundary opens`;
    const missed = measured.largest(place, 'steersMissed') ?? 0;
    const bound: Bound = { id: 'P7', target, most: 5, unit: 'ms' };
    if (missed > 0) return { id: 'P7', target, measured: `${missed} were not in it`, outcome: 'fails' };
    return judge(bound, measured.figure(place, 'steerP99'));
  };
  return [
    judge(
      { id: 'P7', target: 'W7 isolated: host loop delay p99 <= 5 ms', most: 5, unit: 'ms' },
      measured.figure(drain, 'loopP99'),
    ),
    judge(
      { id: 'P7', target: 'W7 isolated: host loop delay max <= 50 ms', most: 50, unit: 'ms' },
      measured.largest(drain, 'loopMax'),
    ),
    judge({ id: 'P7', target: 'W7 isolated: send to receipt p50 <= 1.5 flushes', most: 1.5, unit: 'flushes' }, flushes),
    steer(drain),
    steer(quiet),
  ];
}

function interrupted(measured: Measured): readonly VerdictResult[] {
  return OURS.flatMap((system) => [
    judge(
      { id: 'P8', target: `W8 ${system}: first half-step <= 200 ms`, most: 200, unit: 'ms' },
      measured.figure({ workload: 'W8', system }, 'firstMs'),
    ),
    judge(
      { id: 'P8', target: `W8 ${system}: all drained <= 3 s`, most: 3_000, unit: 'ms' },
      measured.figure({ workload: 'W8', system }, 'drainedMs'),
    ),
  ]);
}

function longSession(measured: Measured): readonly VerdictResult[] {
  return OURS.flatMap((system) => [
    judge(
      { id: 'P9', target: `W9 ${system}: half-step near 10,000 messages <= 1.1 x near 100`, most: 1.1, unit: 'x' },
      measured.figure({ workload: 'W9', system, variant: 'half-step' }, 'costRatio'),
    ),
    judge(
      { id: 'P9', target: `W9 ${system}: disk <= 1.5 x payload`, most: 1.5, unit: 'x' },
      measured.figure({ workload: 'W9', system, variant: 'disk' }, 'diskRatio'),
    ),
  ]);
}

function refusals(measured: Measured): readonly VerdictResult[] {
  return OURS.flatMap((system) =>
    (
      [
        ['300 sessions', '1 %', 0.8],
        ['6,000 sessions', '20 %', 0.5],
      ] as const
    ).map(([sessions, share, least]) => {
      const place = (refused: string) => ({ workload: 'refusals', system, variant: `${sessions}, ${refused} refused` });
      const target = `W12 ${system}: ${sessions}, ${share} of the calls refused >= ${least} x none`;
      return judge({ id: 'P13', target, least, unit: 'x' }, measured.ratio(place(share), place('none')));
    }),
  );
}

/**
 * Bounds of the processor time of a half-step, as multiples of that without a reader. Readers of all sessions are
 * judged in W5, where a half-step is that of a service. In W2 a half-step takes a tenth of that time, so W2 is only in
 * the table and has no bound.
 */
const WATCHED: readonly (readonly [workload: string, work: string, variant: string, most: number])[] = [
  ['watched', 'W2', 'basic view of one session', 1.02],
  ['watched', 'W2', 'debug view of one session', 1.1],
  ['watched-http', 'W5', 'basic view of all sessions', 1.02],
  ['watched-http', 'W5', 'debug view of all sessions', 1.1],
  ['watched-http', 'W5', 'traces of all sessions', 1.05],
];

function watching(measured: Measured): readonly VerdictResult[] {
  return [
    open('P10', 'no reader <= 1.01 x a product without events', 'not measured: no switch turns events off'),
    ...OURS.flatMap((system) =>
      WATCHED.map(([workload, work, variant, most]) => {
        const unread = { workload, system, variant: NO_READER };
        const target = `${work} ${system}: ${variant} <= ${most} x the processor time without`;
        const ratio = measured.ratio({ workload, system, variant }, unread, 'cpuUs');
        const verdict = judge({ id: 'P10', target, most, unit: 'x' }, ratio);
        if (ratio === undefined) return verdict;
        return { ...verdict, measured: `${ratio.toFixed(3)} x (without: ${measured.range(unread, 'cpuUs')} us)` };
      }),
    ),
  ];
}

function sessionThreads(measured: Measured, cores: number): readonly VerdictResult[] {
  const place = (variant: string): Place => ({ workload: 'threads', system: 'isolated', variant });
  const least = cores >= MANY_CORES ? 1.7 : 1;
  const target = `W2 with two session threads >= ${least} x one, on ${cores} cores`;
  return [
    judge(
      { id: 'P11', target, least, unit: 'x' },
      measured.ratio(place('2 session threads'), place('1 session thread')),
    ),
  ];
}

function times(
  measured: Measured,
  id: string,
  { workload, system, to, least }: Place & { readonly to: string; readonly least: number },
): VerdictResult {
  const target = `${workload} ${system} >= ${least} x ${to}`;
  return judge({ id, target, least, unit: 'x' }, measured.ratio({ workload, system }, { workload, system: to }));
}
