/**
 * Runs one measurement in a separate process: `measure <system> <variant> <workload> full|quick <folder of the peers>`.
 * Opens the system in an empty directory, warms it up with the workload itself, measures it over and over for a second,
 * checks every answer and every count, prints one line of JSON. The workload `turns:<n>` makes n turns, each of a new
 * session, one after another, and measures nothing, because it only serves to count syncs.
 */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openLoop } from '../loop/durable-loop.ts';
import {
  FULL_SIZE,
  type Measurement,
  manySessions,
  median,
  oneFamily,
  oneSession,
  QUICK_SIZE,
  type WorkSize,
} from '../shared-work.ts';
import { answerOf, type DrainSystem } from '../systems/system.ts';
import { openTroupe } from '../systems/troupe-system.ts';
import type { PeerWorkload } from './catalogue.ts';
import type { PeerModule, PeerSystem } from './peer.ts';

/** A measurement with the memory it took. */
export interface PeerResult extends Measurement {
  /** Largest resident set, MB, warm-up included, of all processes of the system. */
  readonly rssMb: number;
}

/**
 * One portion of the warm-up. The portion is small, since some peers are slow with a long session, and one peer is
 * always slow.
 */
const WARM_UP: WorkSize = { turns: 40, sessions: 100, turnsEach: 3, children: 100 };
/** Time of the warm-up. A fast system does more work in it than a slow one. */
const WARM_UP_MS = { full: 3_000, quick: 500 } as const;
/** A fast system is measured again, each time on new sessions, until this much has passed. */
const MEASURE_MS = { full: 1_500, quick: 300 } as const;
const REPETITIONS_MAX = 15;

const [system = '', variant = '', workload = '', scale = '', folder = ''] = process.argv.slice(2);
const directory = await mkdtemp(join(tmpdir(), 'troupe-peers-'));
try {
  const opened = await openSystem();
  try {
    const turns = /^turns:(\d+)$/.exec(workload)?.[1];
    if (turns === undefined) console.log(JSON.stringify(await measure(opened, workload as PeerWorkload)));
    else await someTurns(opened, Number(turns));
  } finally {
    await opened.close();
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}
// A peer may keep a timer or a telemetry client alive.
process.exit(0);

async function openSystem(): Promise<PeerSystem> {
  if (system === 'troupe') return openTroupe(directory, { isolation: variant === 'inline' ? 'inline' : 'isolated' });
  if (system === 'loop') return openLoop(directory, folder);
  const url = pathToFileURL(join(folder, `dist/bench/peers/systems/${system}.js`));
  const peer = (await import(url.href)) as PeerModule;
  return peer.openPeer(directory, variant);
}

async function measure(opened: PeerSystem, work: PeerWorkload): Promise<PeerResult> {
  const pace = scale === 'quick' ? 'quick' : 'full';
  const size = pace === 'quick' ? QUICK_SIZE : FULL_SIZE;
  const startedAt = performance.now();
  let portion = 0;
  do {
    portion += 1;
    await once(opened, `warm${portion}-`, work, WARM_UP);
  } while (performance.now() - startedAt < WARM_UP_MS[pace]);
  const repetitions: Measurement[] = [];
  const measuringFrom = performance.now();
  do repetitions.push(await once(opened, `run${repetitions.length}-`, work, size));
  while (repetitions.length < REPETITIONS_MAX && performance.now() - measuringFrom < MEASURE_MS[pace]);
  return { ...middleOf(repetitions), rssMb: peakMb(opened) };
}

/** Runs a workload on new sessions, so that the workload can run again on an open store. */
function once(opened: DrainSystem, label: string, work: PeerWorkload, size: WorkSize): Promise<Measurement> {
  const repetition = { label, timed: <T>(run: () => Promise<T>): Promise<T> => run() };
  switch (work) {
    case 'W1':
      return oneSession(opened, size, repetition);
    case 'W2':
      return manySessions(opened, size, repetition);
    case 'W3':
      return oneFamily(opened, size.children, repetition);
  }
}

async function someTurns(opened: DrainSystem, count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    const question = { a: turn, b: 1 };
    const answer = await opened.turn(`sync${turn}`, question);
    if (answer !== answerOf(question)) throw new Error(`answered ${answer}, not ${answerOf(question)}`);
  }
}

function middleOf(repetitions: readonly Measurement[]): Measurement {
  const middle = (pick: (one: Measurement) => number | undefined): number =>
    median(repetitions.map((one) => pick(one) ?? 0));
  return {
    rate: middle(({ rate }) => rate),
    wallMs: middle(({ wallMs }) => wallMs),
    halfSteps: middle(({ halfSteps }) => halfSteps),
    first: middle(({ first }) => first),
    last: middle(({ last }) => last),
    p50: middle(({ p50 }) => p50),
    p99: middle(({ p99 }) => p99),
  };
}

/** Peak memory of this process and of the other processes of the peer. */
function peakMb({ processes = [] }: PeerSystem): number {
  const own = process.resourceUsage().maxRSS / 1_024;
  return processes.reduce((total, pid) => total + peakOfMb(pid), own);
}

function peakOfMb(pid: number): number {
  const found = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(found?.[1] ?? 0) / 1_024;
}
