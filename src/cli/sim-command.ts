/**
 * `troupe sim`: runs the whole runtime over virtual time, with faults at every port, and checks the store each time the
 * runtime ends.
 */
import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { VERSION } from '../runtime/protocol/version.ts';
import { FAULT_KINDS } from '../testing/simulation/faults.ts';
import { simulate } from '../testing/simulation/simulate.ts';
import { type SimulationTotals, simulateMany } from '../testing/simulation/simulate-many.ts';
import type { SimulationResult } from '../testing/simulation/simulation-result.ts';
import { type Arguments, type Command, EXIT } from './command.ts';
import type { Surroundings } from './surroundings.ts';
import { number as grouped, printableJson } from './text-layout.ts';

const SEEDS_DEFAULT = 200;
const SEEDS_MAX = 100_000_000;
const THREADS_MAX = 64;
/** Maximum lines shown of a failed run. */
const TRACE_LINES = 60;
const FAULT_COLUMNS = 30;
const CELLS_A_LINE = 3;
/** Number of seeds after which every kind of fault should have occurred. */
const SEEDS_FOR_ALL_KINDS = 1_000;

/** See the head of the file. */
export const simCommand: Command = {
  positionals: [],
  options: {
    seed: {
      kind: 'count',
      value: 'N',
      min: 0,
      max: SEEDS_MAX,
      help: 'Replay this one seed and print every step',
    },
    seeds: { kind: 'count', value: 'N', min: 1, max: SEEDS_MAX, help: `Seeds to run (default: ${SEEDS_DEFAULT})` },
    from: { kind: 'count', value: 'N', min: 0, max: SEEDS_MAX, help: 'First seed (default: 1)' },
    threads: { kind: 'count', value: 'N', min: 1, max: THREADS_MAX, help: 'Threads (default: one for each core)' },
    json: { kind: 'flag', help: 'Print one JSON object' },
  },
  details: [
    'Each seed makes a randomly configured runtime, opens it, sends messages to it, kills or closes it, and opens it again. Stores, threads, tools, models, clocks and readers fail at random. After each life the log is checked against everything the runtime acknowledged and published. At the end faults are off, and all work must finish.',
    'A failure prints its seed. The same seed on the same commit repeats the same run.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const seed = given.count('seed');
  if (seed !== undefined) return replay(seed, given.flag('json'), surroundings);
  const { stdout } = surroundings;
  const startedAt = performance.now();
  const from = given.count('from') ?? 1;
  const seeds = given.count('seeds') ?? SEEDS_DEFAULT;
  const threads = given.count('threads') ?? availableParallelism();
  const commit = await commitName();
  const totals = await simulateMany({
    from,
    seeds,
    threads,
    onResult: (result) => {
      if (result.violations.length > 0 && !given.flag('json')) stdout.write(failureText(result, commit));
    },
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  if (given.flag('json')) {
    const failures = totals.failures.map(({ seed: failed, violations }) => ({ seed: failed, violations }));
    stdout.write(`${printableJson({ ...totals, failures, from, commit, node: process.version, seconds })}\n`);
  } else stdout.write(reportText(totals, { from, commit, seconds, threads }));
  return totals.failures.length === 0 && undrawn(totals).length === 0 ? EXIT.ok : EXIT.failed;
}

async function replay(seed: number, isJson: boolean, { stdout }: Surroundings): Promise<number> {
  const result = await simulate({
    seed,
    ...(isJson ? {} : { onTrace: (line: string) => stdout.write(`${line}\n`) }),
  });
  if (isJson) stdout.write(`${printableJson(result)}\n`);
  else if (result.violations.length > 0) stdout.write(`\n${violationsText(result)}`);
  else stdout.write(`\nseed ${seed}: every invariant holds\n`);
  return result.violations.length === 0 ? EXIT.ok : EXIT.failed;
}

function failureText(result: SimulationResult, commit: string): string {
  const trace = result.trace.slice(-TRACE_LINES).join('\n');
  return `seed ${result.seed} at ${commit} failed:\n${violationsText(result)}\nthe last steps:\n${trace}\n\nreplay: npx troupe sim --seed ${result.seed}\n\n`;
}

function violationsText({ violations }: SimulationResult): string {
  return violations.map(({ kind, what }) => `  ${kind}: ${what}\n`).join('');
}

function reportText(
  totals: SimulationTotals,
  run: { readonly from: number; readonly commit: string; readonly seconds: number; readonly threads: number },
): string {
  const { simulatedHours, faults } = totals;
  const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
  const speed = (simulatedHours * 3_600) / run.seconds;
  const lines = [
    `commit ${run.commit}, Node ${process.version}, seeds ${run.from} to ${run.from + totals.seeds - 1}, ${run.threads} threads, ${run.seconds.toFixed(1)} s`,
    `${simulatedHours.toFixed(1)} simulated hours (${grouped(Math.round(speed))} times real time), ${grouped(totals.lives)} lives, ${grouped(totals.tasks)} steps`,
    `${grouped(totals.messages)} messages sent, ${grouped(totals.modelCalls)} model calls, ${grouped(totals.toolRuns)} tool runs`,
    `${grouped(injected)} faults of ${FAULT_KINDS.filter((kind) => faults[kind] > 0).length} kinds:`,
    ...faultLines(faults),
  ];
  const missing = undrawn(totals);
  if (missing.length > 0) lines.push(`never drawn: ${missing.join(', ')}`);
  lines.push(`${totals.failures.length} of ${grouped(totals.seeds)} seeds broke an invariant`);
  return `${lines.join('\n')}\n`;
}

function faultLines(faults: SimulationTotals['faults']): readonly string[] {
  const cells = FAULT_KINDS.map((kind) => `${kind} ${faults[kind]}`.padEnd(FAULT_COLUMNS));
  const lines: string[] = [];
  for (let index = 0; index < cells.length; index += CELLS_A_LINE)
    lines.push(
      `  ${cells
        .slice(index, index + CELLS_A_LINE)
        .join('')
        .trimEnd()}`,
    );
  return lines;
}

/** Kinds of fault that never occurred; none if there were too few seeds for all kinds to occur. */
function undrawn({ seeds, faults }: SimulationTotals): readonly string[] {
  return seeds < SEEDS_FOR_ALL_KINDS ? [] : FAULT_KINDS.filter((kind) => faults[kind] === 0);
}

/** The version for which seeds are valid: the commit of a working copy, or the version of the package. */
async function commitName(): Promise<string> {
  try {
    const cwd = fileURLToPath(new URL('.', import.meta.url));
    const { stdout } = await promisify(execFile)('git', ['describe', '--always', '--dirty', '--abbrev=12'], { cwd });
    return stdout.trim();
  } catch {
    // An installed package is not a working copy.
    return `version ${VERSION}`;
  }
}
