/**
 * Runs the seeds of simulated clusters: `--seed <n>` prints every step of one, otherwise `--seeds <n>` from `--from <n>` on
 * `--threads <n>` threads; `--json` prints one JSON object. Exits 1 if a seed broke an invariant, or if many seeds did
 * not draw every fault.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { startThread } from '../../../src/threads/thread.ts';
import { CLUSTER_FAULT_KINDS, LINE_FAULT_KINDS } from './cluster-faults.ts';
import { type ClusterSimulationResult, simulateCluster } from './cluster-simulation.ts';

const KINDS: readonly string[] = [...CLUSTER_FAULT_KINDS, ...LINE_FAULT_KINDS];
/** Lines shown of a failed run. */
const TRACE_LINES = 60;
/** The numbers of a run that are added up. */
const SUMMED = [
  ...(['lives', 'takeovers', 'memberRequests', 'moves', 'given'] as const),
  ...(['messages', 'modelCalls', 'toolRuns', 'entries'] as const),
];
/** Seeds after which every kind of fault should have occurred. */
const SEEDS_FOR_ALL_KINDS = 1_000;
/** Failed seeds after which no other begins. */
const FAILURES_MAX = 10;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    threads: { type: 'string', default: String(availableParallelism()) },
    json: { type: 'boolean', default: false },
  },
});

function violationsText({ violations }: ClusterSimulationResult): string {
  return violations.map(({ kind, what }) => `  ${kind}: ${what}\n`).join('');
}

async function replay(seed: number): Promise<boolean> {
  const onTrace = (line: string): void => void process.stdout.write(`${line}\n`);
  const result = await simulateCluster({ seed, ...(values.json ? {} : { onTrace }) });
  if (values.json) process.stdout.write(`${JSON.stringify(result)}\n`);
  else if (result.violations.length > 0) process.stdout.write(`\n${violationsText(result)}`);
  else process.stdout.write(`\ncluster of seed ${seed}: every invariant holds\n`);
  return result.violations.length === 0;
}

async function runMany(): Promise<boolean> {
  const startedAt = performance.now();
  const [from, seeds, threads] = [Number(values.from), Number(values.seeds), Number(values.threads)];
  const totals = {
    seeds: 0,
    simulatedHours: 0,
    lives: 0,
    takeovers: 0,
    /** Seeds in which the nodes have lines, and the lines that were opened. */
    withLines: 0,
    lines: 0,
    memberRequests: 0,
    moves: 0,
    given: 0,
    messages: 0,
    modelCalls: 0,
    toolRuns: 0,
    entries: 0,
  };
  const faults: Record<string, number> = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
  const failures: ClusterSimulationResult[] = [];
  let next = from;
  const work = async (): Promise<void> => {
    const entry = new URL('./simulation.worker.ts', import.meta.url);
    const thread = startThread(entry, { name: 'simulated cluster' });
    let seed = next;
    const died = new Promise<never>((_resolve, reject) => {
      thread.onExit(({ error }) => reject(new Error(`the thread that simulated seed ${seed} ended`, { cause: error })));
    });
    died.catch(() => undefined);
    try {
      while (next < from + seeds && failures.length < FAILURES_MAX) {
        seed = next;
        next += 1;
        const answered = thread.endpoint.call('simulate', seed);
        answered.catch(() => undefined);
        const result = (await Promise.race([died, answered.catch(() => died)])) as ClusterSimulationResult;
        totals.seeds += 1;
        totals.simulatedHours += result.simulatedMs / 3_600_000;
        totals.withLines += result.lines === undefined ? 0 : 1;
        totals.lines += result.lines ?? 0;
        for (const key of SUMMED) totals[key] += result[key];
        for (const [kind, count] of Object.entries(result.faults)) faults[kind] = (faults[kind] ?? 0) + count;
        if (result.violations.length === 0) continue;
        failures.push(result);
        if (values.json) continue;
        const trace = result.trace.slice(-TRACE_LINES).join('\n');
        process.stdout.write(
          `cluster of seed ${seed} failed:\n${violationsText(result)}\nthe last steps:\n${trace}\n\n`,
        );
      }
    } finally {
      await thread.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(threads, seeds) }, work));
  const missing = seeds < SEEDS_FOR_ALL_KINDS ? [] : KINDS.filter((kind) => faults[kind] === 0);
  const seconds = (performance.now() - startedAt) / 1_000;
  if (values.json) {
    const failed = failures.map(({ seed, violations }) => ({ seed, violations }));
    process.stdout.write(`${JSON.stringify({ ...totals, faults, failures: failed, seconds })}\n`);
  } else {
    const counts = KINDS.map((kind) => `${kind} ${faults[kind]}`).join(', ');
    process.stdout.write(
      `clusters: seeds ${from} to ${from + totals.seeds - 1}, ${seconds.toFixed(1)} s, ${totals.simulatedHours.toFixed(1)} simulated hours\n` +
        `${totals.lives} lives, ${totals.takeovers} take-overs, ${totals.entries} log entries, ${totals.messages} messages, ` +
        `${totals.modelCalls} model calls, ${totals.toolRuns} tool runs\n` +
        `${totals.withLines} seeds with lines: ${totals.lines} lines, ${totals.memberRequests} requests of members, ` +
        `${totals.given} shards given away, ${totals.moves} moves seen by open nodes\n${counts}\n` +
        (missing.length === 0 ? '' : `never drawn: ${missing.join(', ')}\n`) +
        `${failures.length} of ${totals.seeds} clusters broke an invariant\n`,
    );
  }
  return failures.length === 0 && missing.length === 0;
}

const isClean = values.seed === undefined ? await runMany() : await replay(Number(values.seed));
process.exitCode = isClean ? 0 : 1;
