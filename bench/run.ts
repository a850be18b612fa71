/**
 * Runs one measurement in a separate process, so that memory and compiled code belong to this system and workload
 * alone: `run <system> <workload> full|quick|long <folder of the loop's driver> <seed>`. Prints its rows as one line of
 * JSON. `long` is for profiles: it makes no cold repetition, and so much work that the start does not show.
 */

import { measureBackup } from './measure/backup.ts';
import { measureCluster } from './measure/cluster.ts';
import { measureConcurrency } from './measure/concurrency.ts';
import { measureDeletions } from './measure/deletions.ts';
import { measureChildren, measureLargeFamily, measureSession, measureSessions } from './measure/drain.ts';
import { measureGenerations } from './measure/generations.ts';
import { measureGrowth } from './measure/growth.ts';
import { measureHandOver } from './measure/hand-over.ts';
import { measureIdle } from './measure/idle.ts';
import { measureInterrupted } from './measure/interrupted.ts';
import { measureLargeStore } from './measure/large-store.ts';
import { measureLatency } from './measure/latency.ts';
import { measureLimits } from './measure/limits.ts';
import { measureLongSession } from './measure/long-session.ts';
import { measurePlain, measureStreamed } from './measure/loopback.ts';
import { measureRefusals } from './measure/refusals.ts';
import { measureRequestBytes } from './measure/request-bytes.ts';
import { measureSessionThreads } from './measure/session-threads.ts';
import { measureStoreSize } from './measure/store-size.ts';
import { measureStreaming } from './measure/streaming.ts';
import { measureWaitingTools } from './measure/waiting-tools.ts';
import { measureWatched, measureWatchedHttp } from './measure/watched.ts';
import { measureWeight } from './measure/weight.ts';
import { type RunContext, SYSTEMS, type WorkloadName } from './names.ts';
import type { Row } from './report/figures.ts';

const MEASURES: Readonly<Record<WorkloadName, (context: RunContext) => Promise<readonly Row[]>>> = {
  W1: measureSession,
  W2: measureSessions,
  W3: measureChildren,
  W4: measureIdle,
  W5: measurePlain,
  W5s: measureStreamed,
  W6: measureGenerations,
  W7: measureLatency,
  W8: measureInterrupted,
  W9: measureLongSession,
  W10: measureStreaming,
  W11: measureWaitingTools,
  W13: measureWeight,
  refusals: measureRefusals,
  limits: measureLimits,
  concurrency: measureConcurrency,
  'store-size': measureStoreSize,
  'request-bytes': measureRequestBytes,
  threads: measureSessionThreads,
  growth: measureGrowth,
  watched: measureWatched,
  'watched-http': measureWatchedHttp,
  'hand-over': measureHandOver,
  backup: measureBackup,
  deletions: measureDeletions,
  cluster: measureCluster,
  scale: measureLargeStore,
  family: measureLargeFamily,
};

const [systemName, workload = '', scaleName, loopFolder = '', seed = '1'] = process.argv.slice(2);
const system = SYSTEMS.find((name) => name === systemName);
const scale = (['quick', 'full', 'long'] as const).find((name) => name === (scaleName ?? 'full'));
const measure = Object.entries(MEASURES).find(([name]) => name === workload)?.[1];
if (system === undefined || scale === undefined || measure === undefined) {
  console.error(
    `usage: run ${SYSTEMS.join('|')} ${Object.keys(MEASURES).join('|')} quick|full|long <loop folder> <seed>`,
  );
  process.exit(2);
}
const rows = await measure({ system, scale, loopFolder, seed: Number(seed) });
process.stdout.write(`${JSON.stringify(rows)}\n`);
