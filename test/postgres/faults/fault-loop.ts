/**
 * The loop of faults: clusters one after another on one server, each with faults of one group, so that the checks read a
 * bounded amount. Its course depends on the seed and on the times of real processes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { compilePrograms } from '../../crash/compiled-programs.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { type ClusterParts, FaultyCluster } from './faulty-cluster.ts';
import { type Counts, noCounts, type Times, type Violation } from './findings.ts';

/** The numbers of faults of a run, and its surroundings. */
export interface FaultOptions {
  readonly seed: number;
  readonly kills: number;
  readonly freezes: number;
  readonly blackHoles: number;
  readonly cuts: number;
  /** Kills of the database with a restart at once. */
  readonly restarts: number;
  /** Times in which the database answers no node, shorter and longer than a lease. */
  readonly stalls: number;
  /** Milliseconds of each outage of the database. */
  readonly outages: readonly number[];
  /** Entries by which a log goes back, each with its owner and without one. */
  readonly setBacks: readonly number[];
  readonly leaseMs: number;
  /** Sessions of a cluster. */
  readonly sessions: number;
  /** Minutes after which no fault begins. */
  readonly minutes: number;
  /** Called with one line after each fault. */
  readonly progress?: (text: string) => void;
}

/** The result of a run. */
export interface FaultReport {
  readonly options: FaultOptions;
  readonly counts: Counts;
  readonly times: Times;
  readonly violations: readonly Violation[];
  /** Everything of the clusters with a violation; removed if there is none. */
  readonly directory: string;
  /** True if the minutes ended before the faults. */
  readonly isCut: boolean;
  readonly seconds: number;
}

/** Faults of one cluster. */
const FAULTS_OF_CLUSTER = 20;
const CUTS_OF_CLUSTER = 250;
/** Entries between two cuts: 500 cuts in 10,000. */
const ENTRIES_OF_CUT = 20;
/** Session threads of one cluster after another; 0: in place. */
const THREADS: readonly number[] = [1, 0, 2];
/** The longest wait in milliseconds between two messages of a session. */
const PAUSE_MS = 1_500;
const BUSY_PAUSE_MS = 300;
/** A lease in milliseconds that no cut ends. */
const LONG_LEASE_MS = 15_000;
const LONG_HOLD_MS = 15_000;
const SHORT_HOLD_MS = 3_000;
/** Shares of a lease between which the database stalls. */
const STALL_SHARES = { least: 0.3, most: 1.6 };

type Work = (cluster: FaultyCluster) => Promise<void>;

/** One cluster of a run. */
interface Group {
  readonly name: string;
  readonly hasStandby: boolean;
  readonly leaseMs: number;
  readonly holdMs: number;
  readonly pauseMs: number;
  readonly threads: number;
  readonly faults: readonly (readonly [name: string, work: Work])[];
  /** True if an owner may be without its database for longer than commits are held. */
  readonly mayRefuse?: true;
  /** True if the faults take away what was acknowledged. */
  readonly isLosing?: true;
}

/** Runs the loop. Rejects if a node or the server cannot run at all. */
export async function runFaultLoop(options: FaultOptions): Promise<FaultReport> {
  const startedMs = performance.now();
  const directory = await mkdtemp(join(tmpdir(), 'troupe-faults-'));
  const programs = await compilePrograms(new URL('.', import.meta.url));
  const server = await startServer();
  try {
    const run = new Run(options, { server, script: programs.script('node'), directory });
    await run.all();
    if (run.violations.length === 0) await rm(directory, { recursive: true, force: true });
    const { counts, times, violations, isCut } = run;
    const seconds = (performance.now() - startedMs) / 1_000;
    return { options, counts, times, violations, directory, isCut, seconds };
  } finally {
    await server.stop();
    await programs.remove();
  }
}

interface RunParts {
  readonly server: TestServer;
  readonly script: string;
  readonly directory: string;
}

class Run {
  readonly counts: Counts = noCounts();
  readonly times: Times = { claimMs: [], firstCommitMs: [], appendMs: [], refusalMs: [] };
  readonly violations: Violation[] = [];
  isCut = false;
  readonly #options: FaultOptions;
  readonly #parts: RunParts;
  readonly #random: SeededRandom;
  readonly #endMs: number;

  constructor(options: FaultOptions, parts: RunParts) {
    this.#options = options;
    this.#parts = parts;
    this.#random = new SeededRandom(options.seed);
    this.#endMs = performance.now() + options.minutes * 60_000;
  }

  async all(): Promise<void> {
    for (const [index, group] of this.#groups().entries()) {
      if (this.#isOver()) return;
      await this.#cluster(group, index);
    }
  }

  #isOver(): boolean {
    if (performance.now() < this.#endMs) return false;
    this.isCut = true;
    return true;
  }

  async #cluster(group: Group, index: number): Promise<void> {
    const { leaseMs, holdMs, pauseMs, threads } = group;
    const { server, script } = this.#parts;
    const directory = join(this.#parts.directory, `cluster-${index}`);
    const known = this.violations.length;
    const parts: ClusterParts = {
      ...{ server, script, directory, leaseMs, holdMs, pauseMs, threads },
      mayRefuse: group.mayRefuse === true,
      schema: `faults_${index}`,
      sessions: this.#options.sessions,
      random: () => this.#random.number(),
      counts: this.counts,
      times: this.times,
      report: (violation) => {
        this.violations.push(violation);
        this.#options.progress?.(`VIOLATION ${violation.kind}: ${violation.what}`);
      },
    };
    const cluster = new FaultyCluster(parts);
    try {
      await cluster.open(group.hasStandby);
      for (const [name, work] of group.faults) {
        if (this.#isOver()) break;
        await work(cluster);
        this.#options.progress?.(`${parts.schema} ${group.name}, ${threads} threads: ${name}`);
      }
      if (group.isLosing !== true) await cluster.verify();
    } catch (error) {
      // A loop that waits in vain has found something, and so has a node that ends; the other clusters run nevertheless.
      const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
      parts.report({ kind: 'stuck', what: [what, ...cluster.logs()].join('\n') });
    } finally {
      await cluster.close();
    }
    if (this.violations.length === known) await rm(directory, { recursive: true, force: true });
  }

  /** The groups of the run. The rare kinds come first, so that a run whose minutes end has all of them. */
  #groups(): readonly Group[] {
    const { kills, freezes, blackHoles, cuts, restarts, stalls, outages, setBacks, leaseMs } = this.#options;
    const groups: Group[] = [];
    const add = (group: Omit<Group, 'threads'>): void => {
      if (group.faults.length > 0) groups.push({ ...group, threads: THREADS[groups.length % THREADS.length] ?? 0 });
    };
    const moving = { hasStandby: true, leaseMs, holdMs: LONG_HOLD_MS, pauseMs: PAUSE_MS };
    const alone = { hasStandby: false, leaseMs: LONG_LEASE_MS, holdMs: LONG_HOLD_MS, pauseMs: BUSY_PAUSE_MS };
    add({
      ...moving,
      name: 'outages',
      holdMs: SHORT_HOLD_MS,
      mayRefuse: true,
      faults: outages.map((ms) => [`outage of ${ms} ms`, (cluster) => cluster.outage(ms)]),
    });
    add({
      ...alone,
      name: 'set-backs',
      faults: setBacks.map((entries) => [`set back by ${entries}`, (cluster) => cluster.setBack(entries)]),
    });
    for (const entries of setBacks) {
      add({
        ...alone,
        name: 'set-backs without an owner',
        faults: [[`set back by ${entries}`, (cluster) => cluster.setBackAlone(entries)]],
        isLosing: true,
      });
    }
    const ofDatabase = this.#shuffled([
      ...repeated(restarts, 'restart', (cluster) => cluster.outage(0)),
      ...repeated(stalls, 'stall', (cluster) => {
        const share = STALL_SHARES.least + this.#random.number() * (STALL_SHARES.most - STALL_SHARES.least);
        return cluster.stall(share * leaseMs);
      }),
    ]);
    const moves = this.#shuffled([
      ...repeated(kills, 'kill', (cluster) => cluster.kill()),
      ...repeated(freezes, 'freeze', (cluster) => cluster.freeze()),
      ...repeated(blackHoles, 'black hole', (cluster) => cluster.blackHole()),
    ]);
    const cutting = repeated(cuts, 'cut', (cluster) => cluster.cut(ENTRIES_OF_CUT));
    for (const faults of pieces(ofDatabase, FAULTS_OF_CLUSTER)) add({ ...moving, name: 'database', faults });
    for (const faults of pieces(cutting, CUTS_OF_CLUSTER)) add({ ...alone, name: 'cuts', faults });
    for (const faults of pieces(moves, FAULTS_OF_CLUSTER)) add({ ...moving, name: 'owners', mayRefuse: true, faults });
    return groups;
  }

  #shuffled<T>(items: readonly T[]): readonly T[] {
    return items
      .map((item) => [this.#random.number(), item] as const)
      .sort(([a], [b]) => a - b)
      .map(([, item]) => item);
  }
}

function repeated(count: number, name: string, work: Work): readonly (readonly [string, Work])[] {
  return Array.from({ length: count }, () => [name, work] as const);
}

function pieces<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
