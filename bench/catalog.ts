/** All workloads: the systems that run each, the number of rounds, and the columns of its table. */

import {
  LIBRARIES,
  NO_BACKUP,
  NO_CLUSTER,
  NO_DELETIONS,
  NO_READER,
  type SystemName,
  type WorkloadName,
} from './names.ts';
import {
  COSTS,
  type Column,
  cold,
  coldRatioTo,
  LOAD,
  most,
  one,
  ratioTo,
  ratioToVariant,
  several,
  spread,
} from './report/columns.ts';

/** One workload. */
export interface CatalogEntry {
  readonly title: string;
  readonly unit: string;
  readonly systems: readonly SystemName[];
  /** Rounds unless the command line has another number; each is a process that repeats the work. */
  readonly rounds: number;
  /** The runs that include the workload without naming it. */
  readonly when: 'always' | 'full' | 'scale' | 'named';
  readonly columns: readonly Column[];
}

const EVERYONE: readonly SystemName[] = ['inline', 'isolated', 'loop', 'kernel', 'memory'];
const OURS: readonly SystemName[] = ['inline', 'isolated'];
const REFERENCES: readonly Column[] = [ratioTo('loop'), ratioTo('kernel')];
const TURN: Column = several('turn p50 / p99 ms', 'p50', 'p99');
/** Columns of the workloads that are measured beside the official SDK. */
const BESIDE_SDK: readonly Column[] = [
  spread('half-steps/s', 'rate'),
  ratioTo('sdk'),
  cold('half-steps/s'),
  coldRatioTo('sdk'),
  TURN,
  ...COSTS,
  LOAD,
];
const DISK: readonly Column[] = [
  one('disk bytes', 'diskBytes'),
  one('payload bytes', 'payloadBytes'),
  one('disk / payload', 'diskRatio'),
];
const REOPEN: readonly Column[] = [
  spread('open ms', 'openMs'),
  one('first message ms', 'readMs'),
  one('first turn ms', 'turnMs'),
  one('anonymous KiB after the open', 'openAnonKib'),
  one('evicted from the page cache (1: yes)', 'cold'),
];

const WATCHED: readonly Column[] = [
  spread('CPU us a half-step', 'cpuUs'),
  ratioToVariant(NO_READER, 'cpuUs'),
  one('half-steps/s', 'rate'),
  TURN,
  several('events / gaps / spans', 'events', 'gaps', 'spans'),
  LOAD,
];

/** All workloads, in the order of the report. */
export const CATALOG: Readonly<Record<WorkloadName, CatalogEntry>> = {
  W1: {
    title: 'W1: one session, 200 turns one after another',
    unit: 'turns/s',
    systems: EVERYONE,
    rounds: 3,
    when: 'always',
    columns: [
      spread('turns/s', 'rate'),
      several('first 20 / last 20', 'first', 'last'),
      ...REFERENCES,
      cold('turns/s'),
      coldRatioTo('loop'),
      TURN,
      ...COSTS,
      LOAD,
    ],
  },
  W2: {
    title: 'W2: 1,000 sessions at once, 3 turns each',
    unit: 'half-steps/s',
    systems: EVERYONE,
    rounds: 3,
    when: 'always',
    columns: [
      spread('half-steps/s', 'rate'),
      ...REFERENCES,
      cold('half-steps/s'),
      coldRatioTo('loop'),
      TURN,
      ...COSTS,
      LOAD,
    ],
  },
  W3: {
    title: 'W3: one parent, 1,000 children, one turn each, every reply delivered',
    unit: 'children/s',
    systems: EVERYONE,
    rounds: 3,
    when: 'always',
    columns: [spread('children/s', 'rate'), ...REFERENCES, cold('children/s'), coldRatioTo('loop'), ...COSTS, LOAD],
  },
  W4: {
    title: 'W4: memory of one idle session among 10,000 with 10 messages each; the same store opened again',
    unit: 'ms',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [spread('anonymous KiB a session', 'sessionKib'), ...REOPEN, LOAD],
  },
  W5: {
    title: 'W5: 300 sessions, 3 turns each, official SDK over loopback HTTP, not streamed (troupe always streams)',
    unit: 'half-steps/s',
    systems: ['inline', 'isolated', 'sdk'],
    rounds: 2,
    when: 'full',
    columns: BESIDE_SDK,
  },
  W5s: {
    title: 'W5s: the same work, streamed',
    unit: 'half-steps/s',
    systems: ['inline', 'isolated', 'sdk'],
    rounds: 2,
    when: 'full',
    columns: BESIDE_SDK,
  },
  W6: {
    title: 'W6: one parent with 10,000 children, 40 half-steps and 80 messages each, every reply delivered once',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [spread('half-steps/s', 'rate'), one('wall ms', 'wallMs'), one('replies', 'replies'), ...COSTS, LOAD],
  },
  W7: {
    title: 'W7: delay of the host loop and latency of single messages while W2 runs for 30 s (ms)',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('half-steps/s', 'rate'),
      one('between flushes', 'flushMs'),
      several('send to receipt p50 / p99', 'receiptP50', 'receiptP99'),
      several('send to model p50 / p99', 'callP50', 'callP99'),
      several('boundary to steer p50 / p99', 'steerP50', 'steerP99'),
      several('steers found / missed', 'steers', 'steersMissed'),
      several('loop delay p50 / p99', 'loopP50', 'loopP99'),
      most('loop delay max', 'loopMax'),
      one('cores in use', 'cores'),
      one('peak RSS MiB', 'rssMb'),
      LOAD,
    ],
  },
  W8: {
    title: 'W8: 10,000 interrupted sessions opened again (ms since the call of open)',
    unit: 'ms',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('opened', 'openedMs'),
      spread('first half-step', 'firstMs'),
      spread('all drained', 'drainedMs'),
      one('model calls', 'modelCalls'),
      LOAD,
    ],
  },
  W9: {
    title: 'W9: a half-step near message 100 and near message 10,000 of one session, with a window of 4,000 tokens',
    unit: 'us',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('us near 100', 'earlyUs'),
      spread('us near 10,000', 'lateUs'),
      spread('cost ratio', 'costRatio'),
      TURN,
      ...DISK,
      LOAD,
    ],
  },
  W10: {
    title:
      'W10: streams at once, each 40 events a second, one event a write, 200 events an answer (the official SDK: 300 streams at most)',
    unit: 'us an event',
    systems: ['inline', 'isolated', 'http', 'sdk'],
    rounds: 1,
    when: 'full',
    columns: [
      spread('CPU us an event', 'cpuUs'),
      several('socket to reader p50 / p99 ms', 'readerP50', 'readerP99'),
      several('loop delay p50 / p99 ms', 'loopP50', 'loopP99'),
      several('events / gaps', 'readEvents', 'gaps'),
      one('cores in use', 'cores'),
      one('peak RSS MiB', 'rssMb'),
      LOAD,
    ],
  },
  W11: {
    title: 'W11: sub-agents, each with one call of an async tool of 150 ms (isolated: by URL; inline: a value)',
    unit: 'ms',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('ms until the parent has every reply', 'wallMs'),
      spread('CPU us a half-step', 'cpuUs'),
      ...COSTS,
      LOAD,
    ],
  },
  W13: {
    title: 'W13: the built package: import and open in new processes, beside its two largest libraries; its size',
    unit: 'ms',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('import ms', 'importMs'),
      ratioToVariant(LIBRARIES, 'importMs'),
      spread('open ms', 'openMs'),
      one('modules of ours', 'modules'),
      one('tarball MB', 'tarballMb'),
      one('unpacked MB', 'unpackedMb'),
      one('files', 'files'),
      LOAD,
    ],
  },
  refusals: {
    title: 'W12: half-steps while a server refuses a share of the calls (529 and 429 in turn, without retry-after)',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [spread('half-steps/s', 'rate'), one('turns counted', 'turns'), LOAD],
  },
  limits: {
    title: 'Limits: 5,000 sessions on a key with 12,000 requests a minute, which the server reports in its headers',
    unit: 'requests',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('share of the allowed requests', 'share'),
      one('requests taken', 'taken'),
      one('refused', 'refused'),
      one('refused before the counting', 'refusedBefore'),
      LOAD,
    ],
  },
  family: {
    title: 'Family: W3 with 10,000 children',
    unit: 'children/s',
    systems: OURS,
    rounds: 1,
    when: 'named',
    columns: [spread('children/s', 'rate'), cold('children/s'), ...COSTS, LOAD],
  },
  concurrency: {
    title: 'Concurrency: W2 by the number of sessions in flight, and with 200 new sessions a second (staggered)',
    unit: 'half-steps/s',
    systems: ['inline', 'isolated', 'loop', 'kernel'],
    rounds: 1,
    when: 'full',
    columns: [spread('half-steps/s', 'rate'), ...REFERENCES, TURN, ...COSTS, LOAD],
  },
  'store-size': {
    title: 'Store size: ten turns in flight, of sessions chosen at random, by the number of sessions in the store',
    unit: 'half-steps/s',
    systems: ['inline'],
    rounds: 1,
    when: 'full',
    columns: [spread('half-steps/s', 'rate'), TURN, ...COSTS, LOAD],
  },
  'request-bytes': {
    title:
      'Request bytes: a half-step of a conversation of 50, 500 and 5,000 messages, with message threads and without',
    unit: 'bytes',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [one('bytes sent a half-step', 'bytes'), TURN, LOAD],
  },
  threads: {
    title: 'Session threads: W2 with one session thread and with two',
    unit: 'half-steps/s',
    systems: ['isolated'],
    rounds: 1,
    when: 'full',
    columns: [spread('half-steps/s', 'rate'), TURN, ...COSTS, LOAD],
  },
  growth: {
    title: "Growth: the store's disk beside the payload of its messages: 200 sessions, a checkpoint every 2,000 turns",
    unit: 'bytes',
    systems: ['inline'],
    rounds: 1,
    when: 'full',
    columns: [...DISK, LOAD],
  },
  watched: {
    title:
      'Watched, W2: processor time of a half-step without a reader and with each kind of reader, in separate processes',
    unit: 'us a half-step',
    systems: OURS,
    rounds: 5,
    when: 'full',
    columns: WATCHED,
  },
  'watched-http': {
    title: 'Watched, W5s: the same for readers of all sessions, through the official SDK over loopback HTTP',
    unit: 'us a half-step',
    systems: OURS,
    rounds: 5,
    when: 'full',
    columns: WATCHED,
  },
  'hand-over': {
    title:
      'Hand-over: 1,000 sessions at work move from process to process, 20 times (ms in which nobody accepts a message)',
    unit: 'ms',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [several('gap p50 / p99', 'p50', 'p99'), one('of it until open resolved', 'openedMs'), LOAD],
  },
  backup: {
    title:
      'Backup: W2 alone and while backups are written one after another (a store of 10,000 sessions of 40 messages)',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('half-steps/s', 'rate'),
      ratioToVariant(NO_BACKUP, 'rate'),
      one('MB/s', 'mbPerSecond'),
      one('backups', 'backups'),
      TURN,
      LOAD,
    ],
  },
  deletions: {
    title:
      'Deletions: W2 alone and while the deleted sessions of the repetition before are erased and the file is compacted',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'full',
    columns: [
      spread('half-steps/s', 'rate'),
      ratioToVariant(NO_DELETIONS, 'rate'),
      spread('CPU us a half-step', 'cpuUs'),
      one('share of CPU', 'cpuShare'),
      most('longest slice ms', 'sliceMs'),
      one('compactions', 'compactions'),
      TURN,
      LOAD,
    ],
  },
  cluster: {
    title:
      'Cluster: W2 and W1 with the log in PostgreSQL, and 2 ms away from it, beside LMDB alone in the same process',
    unit: 'half-steps/s',
    systems: OURS,
    rounds: 1,
    when: 'named',
    columns: [
      spread('W2 half-steps/s', 'rate'),
      ratioToVariant(NO_CLUSTER, 'rate'),
      one('CPU us a half-step', 'cpuUs'),
      one('log bytes a half-step', 'logBytes'),
      spread('W1 turns/s', 'turns'),
      ratioToVariant(NO_CLUSTER, 'turns'),
      one('W1 turn p50 ms', 'turnP50'),
      one('commits a turn', 'commits'),
      LOAD,
    ],
  },
  scale: {
    title: 'Scale: 100,000 sessions with 10 million messages, opened again',
    unit: 'ms',
    systems: ['inline'],
    rounds: 1,
    when: 'scale',
    columns: [one('build ms', 'buildMs'), one('disk bytes', 'diskBytes'), ...REOPEN, LOAD],
  },
};
