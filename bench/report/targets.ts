/**
 * The performance targets: each with its bound, the figure that is held against it, and the command that measures it.
 * A target without a command is measured by nothing yet.
 */
import {
  LIBRARIES,
  NO_BACKUP,
  NO_CLUSTER,
  NO_READER,
  READER_OF_ALL,
  SLOW_CLUSTER,
  type WorkloadName,
} from '../names.ts';
import { type Place, type Quantity, REPETITIONS_LEAST, type Target } from './verdict-rules.ts';

/** The conditions that decide a bound. */
export interface TargetConditions {
  /** Cores of the machine. */
  readonly cores: number;
  /** Median time in ms of one append of 4 KiB and its `fdatasync`; `undefined` if it was not measured. */
  readonly syncMs: number | undefined;
}

type Ours = 'inline' | 'isolated';

const OURS: readonly Ours[] = ['inline', 'isolated'];
/** `fdatasync` times in ms of the two devices for which the targets beside the loop are stated. */
const DEVICES = { slow: 0.3, fast: 0.03 } as const;
/** With so many cores two session threads have a core each, and the host and the models one. */
const MANY_CORES = 4;
/** Workloads whose usual number of rounds gives fewer repetitions than a target wants. */
const FEW_REPETITIONS: ReadonlySet<WorkloadName> = new Set<WorkloadName>(['W4', 'W6', 'W9', 'refusals', 'limits']);
const S_A_MS = 1 / 1_000;
const PER_CENT = 100;
const GB_A_MIB = 1_024 ** 2 / 1_000 ** 3;
const KB_A_KIB = 1_024 / 1_000;

/** All targets in the order of their ids. */
export function targetsOn({ cores, syncMs }: TargetConditions): readonly Target[] {
  const device = deviceOf(syncMs);
  return [
    ...throughput(device),
    ...oneByOne(),
    ...families(device),
    ...idleSessions(),
    ...throughSdk(),
    ...latency(),
    ...interrupted(),
    ...longSession(),
    ...watching(),
    sessionThreads(cores),
    ...streaming(),
    ...refusals(),
    waitingTools(),
    ...weight(),
    ...simulator(),
    ...limits(),
    ...storeAtWork(),
    ...cluster(),
  ];
}

/** The command that measures the targets of a workload. */
function commandOf(workload: WorkloadName): string {
  const rounds = FEW_REPETITIONS.has(workload) ? ` --rounds ${REPETITIONS_LEAST}` : '';
  return `npm run bench -- --only ${workload}${rounds}`;
}

/** The device that is nearer by ratio: the loop syncs each message alone, so its rate is that of the device. */
function deviceOf(syncMs: number | undefined): keyof typeof DEVICES | undefined {
  if (syncMs === undefined) return undefined;
  return syncMs >= Math.sqrt(DEVICES.slow * DEVICES.fast) ? 'slow' : 'fast';
}

function throughput(device: keyof typeof DEVICES | undefined): readonly Target[] {
  return [
    times('P1', { workload: 'W2', system: 'inline', to: 'kernel', least: 0.2 }),
    times('P1', { workload: 'W2', system: 'isolated', to: 'kernel', least: 0.14 }),
    besideLoop('P1', { workload: 'W2', system: 'inline', slow: 10, fast: 3 }, device),
    besideLoop('P1', { workload: 'W2', system: 'isolated', slow: 5, fast: 2.2 }, device),
    ...OURS.map((system): Target => {
      const most = { inline: 0.75, isolated: 1.4 }[system];
      return {
        id: 'P1',
        target: `W2 ${system}: processor time of a half-step <= ${most} x the loop's`,
        most,
        unit: 'x',
        command: commandOf('W2'),
        figure: { place: { workload: 'W2', system }, name: 'cpuUs' },
        per: { place: { workload: 'W2', system: 'loop' }, name: 'cpuUs' },
      };
    }),
  ];
}

function oneByOne(): readonly Target[] {
  return [
    times('P2', { workload: 'W1', system: 'inline', to: 'loop', least: 1 }),
    times('P2', { workload: 'W1', system: 'isolated', to: 'loop', least: 0.5 }),
    ...OURS.map((system): Target => {
      const place = { workload: 'W1', system } as const;
      return {
        id: 'P2',
        target: `W1 ${system}: last 20 turns >= 0.9 x first 20`,
        least: 0.9,
        unit: 'x',
        command: commandOf('W1'),
        figure: { place, name: 'last' },
        per: { place, name: 'first' },
      };
    }),
  ];
}

function families(device: keyof typeof DEVICES | undefined): readonly Target[] {
  const w6 = OURS.flatMap((system): readonly Target[] => {
    const shared = { id: 'P3', command: commandOf('W6') };
    const figure = (name: string): Quantity => ({ place: { workload: 'W6', system }, name });
    return [
      {
        ...shared,
        target: `W6 ${system}: all replies <= 30 s`,
        most: 30,
        unit: 's',
        figure: figure('wallMs'),
        factor: S_A_MS,
      },
      {
        ...shared,
        target: `W6 ${system}: RSS <= 1 GB`,
        most: 1,
        unit: 'GB',
        figure: figure('rssMb'),
        factor: GB_A_MIB,
      },
      // A run in which a reply is missing or comes twice ends without figures.
      {
        ...shared,
        target: `W6 ${system}: replies, each once >= 10,000`,
        least: 10_000,
        unit: 'replies',
        figure: figure('replies'),
      },
    ];
  });
  return [besideLoop('P3', { workload: 'W3', system: 'isolated', slow: 5, fast: 2.2 }, device), ...w6];
}

function idleSessions(): readonly Target[] {
  const opened = (workload: WorkloadName, place: Omit<Place, 'workload'>, target: string, most: number): Target => {
    const whole = { workload, ...place };
    return {
      id: 'P4',
      target,
      most,
      unit: 'ms',
      command: commandOf(workload),
      figure: { place: whole, name: 'openMs' },
      remark: (measured) =>
        place.variant?.endsWith('cold') === true && measured.figure(whole, 'cold') !== 1
          ? 'the file stayed in the page cache'
          : '',
    };
  };
  const large = (system: Ours, state: 'cold' | 'warm', most: number): Target =>
    opened(
      'scale',
      // One process builds the store and opens it in both ways, so the way is part of the variant.
      { system: 'inline', variant: `${system}, open ${state}` },
      `100,000 sessions, 10 M messages, ${system}: ${state} open <= ${most.toLocaleString('en-US')} ms`,
      most,
    );
  return [
    {
      id: 'P4',
      target: 'W4 inline: anonymous memory of an idle session <= 0.3 kB',
      most: 0.3,
      unit: 'kB',
      command: commandOf('W4'),
      figure: { place: { workload: 'W4', system: 'inline', variant: 'memory' }, name: 'sessionKib' },
      factor: KB_A_KIB,
    },
    opened('W4', { system: 'inline', variant: 'open cold' }, 'W4 inline: cold open <= 50 ms', 50),
    opened('W4', { system: 'isolated', variant: 'open cold' }, 'W4 isolated: cold open <= 100 ms', 100),
    ...OURS.flatMap((system) => [large(system, 'cold', 2_000), large(system, 'warm', 300)]),
  ];
}

function throughSdk(): readonly Target[] {
  return (['W5', 'W5s'] as const).flatMap((workload) =>
    OURS.map((system) => times('P5', { workload, system, to: 'sdk', least: 1.5 })),
  );
}

function latency(): readonly Target[] {
  const place: Place = { workload: 'W7', system: 'isolated', variant: 'full drain' };
  const shared = { id: 'P7', command: commandOf('W7') };
  return [
    {
      ...shared,
      target: 'W7 isolated: host loop delay p99 <= 5 ms',
      most: 5,
      unit: 'ms',
      figure: { place, name: 'loopP99' },
    },
    {
      ...shared,
      target: 'W7 isolated: host loop delay max <= 50 ms',
      most: 50,
      unit: 'ms',
      figure: { place, name: 'loopMax', isLargest: true },
    },
    {
      ...shared,
      target: 'W7 isolated: send to receipt p50 <= 1.5 flushes',
      most: 1.5,
      unit: 'flushes',
      figure: { place, name: 'receiptP50' },
      per: { place, name: 'flushMs' },
    },
    {
      ...shared,
      target: 'W7 isolated: steer in the next request, p99 <= 20 ms after the boundary opens',
      most: 20,
      unit: 'ms',
      figure: { place, name: 'steerP99' },
      failure: (measured) => {
        const missed = measured.largest(place, 'steersMissed') ?? 0;
        return missed > 0 ? `${missed} steers missed the next request` : undefined;
      },
    },
  ];
}

function interrupted(): readonly Target[] {
  return OURS.flatMap((system): readonly Target[] => {
    const shared = { id: 'P8', unit: 'ms', command: commandOf('W8') };
    const place = { workload: 'W8', system } as const;
    return [
      {
        ...shared,
        target: `W8 ${system}: first half-step <= 200 ms`,
        most: 200,
        figure: { place, name: 'firstMs' },
      },
      {
        ...shared,
        target: `W8 ${system}: all drained <= 3 s`,
        most: 3,
        unit: 's',
        figure: { place, name: 'drainedMs' },
        factor: S_A_MS,
      },
    ];
  });
}

function longSession(): readonly Target[] {
  return OURS.flatMap((system): readonly Target[] => {
    const shared = { id: 'P9', unit: 'x', command: commandOf('W9') };
    return [
      {
        ...shared,
        target: `W9 ${system}: half-step near 10,000 messages <= 1.1 x near 100`,
        most: 1.1,
        figure: { place: { workload: 'W9', system, variant: 'half-step' }, name: 'costRatio' },
      },
      {
        ...shared,
        target: `W9 ${system}: disk <= 1 x payload`,
        most: 1,
        figure: { place: { workload: 'W9', system, variant: 'disk' }, name: 'diskRatio' },
      },
    ];
  });
}

/**
 * Bounds of the processor time of a half-step, as multiples of that without a reader. Readers of all sessions are
 * judged in W5s, where a half-step is that of a service. In W2 a half-step takes a tenth of that time, so readers of
 * all sessions in W2 are only in the table.
 */
const WATCHED: readonly (readonly [workload: WorkloadName, work: string, variant: string, most: number])[] = [
  ['watched', 'W2', 'basic view of one session', 1.02],
  ['watched', 'W2', 'debug view of one session', 1.02],
  ['watched-http', 'W5s', 'basic view of all sessions', 1.02],
  ['watched-http', 'W5s', 'debug view of all sessions', 1.1],
  ['watched-http', 'W5s', 'traces of all sessions', 1.05],
];

function watching(): readonly Target[] {
  return [
    unmeasured('P10', 'no reader <= 1.01 x a product without events (no switch turns events off)'),
    ...OURS.flatMap((system) =>
      WATCHED.map(([workload, work, variant, most]): Target => {
        const unread = { workload, system, variant: NO_READER };
        return {
          id: 'P10',
          target: `${work} ${system}: ${variant} <= ${most} x the processor time without`,
          most,
          unit: 'x',
          command: commandOf(workload),
          figure: { place: { workload, system, variant }, name: 'cpuUs' },
          per: { place: unread, name: 'cpuUs' },
          // The bounds are closer to 1 than two decimals show.
          digits: 3,
          remark: (measured) => `without: ${measured.range(unread, 'cpuUs')} us`,
        };
      }),
    ),
  ];
}

function sessionThreads(cores: number): Target {
  const quantity = (variant: string): Quantity => ({
    place: { workload: 'threads', system: 'isolated', variant },
    name: 'rate',
  });
  const least = cores >= MANY_CORES ? 1.7 : 1;
  return {
    id: 'P11',
    target: `W2 with two session threads >= ${least} x one, on ${cores} cores`,
    least,
    unit: 'x',
    command: commandOf('threads'),
    // Two threads on one core have no target.
    ...(cores < 2 ? {} : { figure: quantity('2 session threads'), per: quantity('1 session thread') }),
  };
}

function streaming(): readonly Target[] {
  const shared = { id: 'P12', command: commandOf('W10') };
  const place = (system: Ours, variant: string): Place => ({
    workload: 'W10',
    system,
    variant: `1,000 streams, ${variant}`,
  });
  const sdk: Quantity = {
    place: { workload: 'W10', system: 'sdk', variant: `300 streams, ${NO_READER}` },
    name: 'cpuUs',
  };
  const cost = (system: Ours, variant: string, most: number): Target => ({
    ...shared,
    target: `W10 ${system}, ${variant}: processor time of an event <= ${most} x the official SDK's`,
    most,
    unit: 'x',
    figure: { place: place(system, variant), name: 'cpuUs' },
    per: sdk,
  });
  const read = place('isolated', READER_OF_ALL);
  return [
    cost('inline', NO_READER, 0.4),
    cost('isolated', NO_READER, 0.6),
    cost('isolated', READER_OF_ALL, 0.9),
    {
      ...shared,
      target: 'W10 isolated: socket to reader p99 <= 25 ms',
      most: 25,
      unit: 'ms',
      figure: { place: read, name: 'readerP99' },
    },
    {
      ...shared,
      target: 'W10 isolated: host loop delay p99 <= 5 ms',
      most: 5,
      unit: 'ms',
      figure: { place: read, name: 'loopP99' },
    },
  ];
}

function waitingTools(): Target {
  return {
    id: 'P14',
    target: 'W11: 100 sub-agents that wait 150 ms in a tool by URL <= 1,000 ms',
    most: 1_000,
    unit: 'ms',
    command: commandOf('W11'),
    figure: { place: { workload: 'W11', system: 'isolated', variant: '100 children' }, name: 'wallMs' },
  };
}

function refusals(): readonly Target[] {
  const shares = [
    ['300 sessions', '1 %', 0.8],
    ['6,000 sessions', '20 %', 0.5],
  ] as const;
  return OURS.flatMap((system) =>
    shares.map(([sessions, share, least]): Target => {
      const quantity = (refused: string): Quantity => ({
        place: { workload: 'refusals', system, variant: `${sessions}, ${refused} refused` },
        name: 'rate',
      });
      return {
        id: 'P13',
        target: `W12 ${system}: ${sessions}, ${share} of the calls refused >= ${least} x none`,
        least,
        unit: 'x',
        command: commandOf('refusals'),
        figure: quantity(share),
        per: quantity('none'),
      };
    }),
  );
}

function limits(): readonly Target[] {
  return OURS.flatMap((system): readonly Target[] => {
    const shared = { id: 'I1', command: commandOf('limits') };
    const place = { workload: 'limits', system } as const;
    return [
      {
        ...shared,
        target: `5,000 sessions, ${system}: requests taken >= 0.95 x what the key allows`,
        least: 0.95,
        unit: 'x',
        figure: { place, name: 'share' },
      },
      {
        ...shared,
        target: `5,000 sessions, ${system}: refused in the steady state <= 0`,
        most: 0,
        unit: 'requests',
        figure: { place, name: 'refused', isLargest: true },
      },
    ];
  });
}

function weight(): readonly Target[] {
  const shared = { id: 'P15', command: commandOf('W13') };
  const place = (variant: string): Place => ({ workload: 'W13', system: 'inline', variant });
  const imported: Quantity = { place: place('import'), name: 'importMs' };
  const whole = (name: string): Quantity => ({ place: place('package'), name });
  return [
    {
      ...shared,
      target: 'W13: import of troupe <= 1.3 x the import of zod and lmdb',
      most: 1.3,
      unit: 'x',
      figure: imported,
      per: { place: place(LIBRARIES), name: 'importMs' },
    },
    ...OURS.map((system) => ({
      ...shared,
      target: `W13 ${system}: open(':memory:') <= 80 ms`,
      most: 80,
      unit: 'ms',
      figure: { place: { workload: 'W13', system, variant: 'open' }, name: 'openMs' } as const,
    })),
    {
      ...shared,
      target: 'W13: modules of ours loaded <= 20',
      most: 20,
      unit: 'modules',
      figure: { place: place('import'), name: 'modules' },
    },
    { ...shared, target: 'W13: tarball, packed <= 1 MB', most: 1, unit: 'MB', figure: whole('tarballMb') },
    { ...shared, target: 'W13: files of the package <= 300', most: 300, unit: 'files', figure: whole('files') },
  ];
}

/** A store that is backed up, or handed over, while its sessions work. */
function storeAtWork(): readonly Target[] {
  return OURS.flatMap((system): readonly Target[] => [
    {
      id: 'I2',
      target: `hand-over ${system}: nobody accepts <= 1,000 ms (p99)`,
      most: 1_000,
      unit: 'ms',
      command: commandOf('hand-over'),
      figure: { place: { workload: 'hand-over', system }, name: 'p99' },
    },
    {
      id: 'I3',
      target: `backup ${system}: W2 beside it >= 0.8 x W2 alone`,
      least: 0.8,
      unit: 'x',
      command: commandOf('backup'),
      figure: { place: { workload: 'backup', system, variant: 'backups without end' }, name: 'rate' },
      per: { place: { workload: 'backup', system, variant: NO_BACKUP }, name: 'rate' },
    },
    {
      id: 'I4',
      target: `deletions ${system}: share of processor time <= 10 %`,
      most: 10,
      unit: '%',
      command: commandOf('deletions'),
      figure: { place: { workload: 'deletions', system, variant: 'deletions' }, name: 'cpuShare' },
      factor: PER_CENT,
    },
    {
      id: 'I4',
      target: `deletions ${system}: longest slice of a compaction <= 5 ms`,
      most: 5,
      unit: 'ms',
      command: commandOf('deletions'),
      figure: { place: { workload: 'deletions', system, variant: 'deletions' }, name: 'sliceMs' },
    },
  ]);
}

/** A log in PostgreSQL beside LMDB alone. */
function cluster(): readonly Target[] {
  const shared = { id: 'I5', command: commandOf('cluster') };
  return OURS.flatMap((system): readonly Target[] => {
    const figure = (variant: string, name: string): Quantity => ({
      place: { workload: 'cluster', system, variant },
      name,
    });
    const beside = (work: string, name: string, variant: string, least: number): Target => ({
      ...shared,
      target: `cluster ${system}, ${variant}: ${work} >= ${least} x ${NO_CLUSTER}`,
      least,
      unit: 'x',
      figure: figure(variant, name),
      per: figure(NO_CLUSTER, name),
    });
    return [
      beside('W2', 'rate', 'PostgreSQL', system === 'inline' ? 0.9 : 0.85),
      beside('W2', 'rate', SLOW_CLUSTER, 0.8),
      beside('W1', 'turns', 'PostgreSQL', 0.55),
      {
        ...shared,
        target: `cluster ${system}, ${SLOW_CLUSTER}: W1 turn <= 7 ms (p50)`,
        most: 7,
        unit: 'ms',
        figure: figure(SLOW_CLUSTER, 'turnP50'),
      },
      {
        ...shared,
        target: `cluster ${system}: commits of a turn of W1 <= 2`,
        most: 2,
        unit: 'commits',
        figure: figure('PostgreSQL', 'commits'),
      },
    ];
  });
}

function simulator(): readonly Target[] {
  return [
    {
      ...unmeasured('P16', 'simulator >= 200 seeds/s on two cores'),
      command: 'npm run sim -- --seeds 2000',
    },
    {
      ...unmeasured('P16', '1,000,000 seeds, as a nightly command'),
      command: 'npm run sim -- --seeds 1000000',
    },
  ];
}

/** A target for which this benchmark has no figure. */
function unmeasured(id: string, target: string): Target {
  return { id, target, unit: '' };
}

/** A rate as a multiple of another system's. */
function times(
  id: string,
  {
    workload,
    system,
    to,
    least,
  }: { readonly workload: WorkloadName; readonly system: Ours; readonly to: string; readonly least: number },
): Target {
  return {
    id,
    target: `${workload} ${system} >= ${least} x ${to}`,
    least,
    unit: 'x',
    command: commandOf(workload),
    figure: { place: { workload, system }, name: 'rate' },
    per: { place: { workload, system: to }, name: 'rate' },
  };
}

/** A rate as a multiple of the loop's; its bound depends on the device, and an unknown device has none. */
function besideLoop(
  id: string,
  {
    workload,
    system,
    slow,
    fast,
  }: { readonly workload: WorkloadName; readonly system: Ours; readonly slow: number; readonly fast: number },
  device: keyof typeof DEVICES | undefined,
): Target {
  if (device === undefined) {
    const target = `${workload} ${system} >= ${slow} x loop on a slow device, ${fast} x on a fast one`;
    return { id, target, unit: 'x', command: commandOf(workload) };
  }
  const target = times(id, { workload, system, to: 'loop', least: { slow, fast }[device] });
  return { ...target, target: `${target.target} (${device} device)` };
}
