/**
 * `npm run bench` runs the workloads of the performance targets on troupe, both inline and isolated. The same run
 * measures a hand-written durable loop and a kernel, once appending to a file and once in memory. In each round every
 * system runs once, in a separate process. Prints the cold start beside the warm median, min and max. Then prints each
 * measured target and whether it was met.
 *
 *   --quick            runs W1, W2 and W3 at smaller sizes, one round
 *   --scale            also runs the workload with 100,000 sessions and 10 million messages in one store; takes
 *                      minutes and gigabytes
 *   --rounds <n>       rounds of every workload
 *   --only <names>     workloads; several with commas
 *   --systems <names>  inline, isolated, loop, kernel, memory, sdk; several with commas
 *   --seed <n>         seed of the random choices, default 1
 *   --json             the results as JSON
 *   --write            also writes RESULTS.md, results.json and report.html beside this file
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildBench } from './build.ts';
import { CATALOG } from './catalog.ts';
import { runFanOut } from './html/fan-out-run.ts';
import { pageOf } from './html/page.ts';
import { installLoop } from './loop/durable-loop.ts';
import { describeRun } from './machine.ts';
import type { SystemName, WorkloadName } from './names.ts';
import { type BenchOptions, readOptions, USAGE } from './options.ts';
import { headLines, reportOf, tableOf, verdictTable } from './report/report.ts';
import { RESULTS_FORMAT, type ResultsFile, type VerdictResult, type WorkloadResult } from './report/results-file.ts';
import { verdictsOf } from './report/verdicts.ts';
import { measureWorkload } from './rounds.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));
const loopFolder = join(folder, 'loop');

const options = readOptions(process.argv.slice(2));
if (options === undefined) {
  console.error(USAGE);
  process.exit(2);
}
const built = buildBench();
const hasLoop =
  options.systems.includes('loop') && options.workloads.some((name) => CATALOG[name].systems.includes('loop'));
const missing = hasLoop ? installLoop(loopFolder) : undefined;
const notes = [
  ...(options.scale === 'quick'
    ? ['quick: the sizes are smaller than the titles say, so no figure is worth keeping']
    : []),
  ...(missing === undefined
    ? []
    : [`the hand-written loop was skipped, because its driver cannot be installed (${missing})`]),
];
const file = await measureAll(options, missing === undefined ? options.systems : without(options.systems, 'loop'));
if (options.isJson) console.log(JSON.stringify(file, null, 2));
else printVerdicts(file.verdicts);
if (options.writes) {
  const written = { ...file, fanOut: await runFanOut() };
  writeFileSync(new URL('./RESULTS.md', import.meta.url), reportOf(written));
  writeFileSync(new URL('./results.json', import.meta.url), `${JSON.stringify(written)}\n`);
  writeFileSync(new URL('./report.html', import.meta.url), pageOf(written));
}

async function measureAll(chosen: BenchOptions, systems: readonly SystemName[]): Promise<ResultsFile> {
  const command = ['npm run bench', ...(chosen.words.length === 0 ? [] : ['--', ...chosen.words])].join(' ');
  const head = await describeRun({ seed: chosen.seed, command, notes });
  if (!chosen.isJson) for (const line of headLines(head)) console.log(line);
  const workloads: WorkloadResult[] = [];
  const failures: string[] = [];
  for (const workload of chosen.workloads) {
    const taking = CATALOG[workload].systems.filter((name) => systems.includes(name));
    const rounds = chosen.rounds ?? (chosen.scale === 'quick' ? 1 : CATALOG[workload].rounds);
    const plan = { workload, systems: taking, rounds, scale: chosen.scale, built, loopFolder, seed: chosen.seed };
    try {
      const result = await measureWorkload(plan);
      workloads.push(result);
      if (!chosen.isJson) printTable(workload, result);
    } catch (thrown) {
      // The figures of the other workloads took most of an hour. The report names this one, and the command fails.
      const failure = `${workload} was not measured: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
      console.error(failure);
      failures.push(failure);
      process.exitCode = 1;
    }
  }
  return {
    format: RESULTS_FORMAT,
    head: { ...head, notes: [...head.notes, ...failures] },
    workloads,
    verdicts: verdictsOf(workloads, { cores: head.cores, syncMs: head.syncMs, isQuick: chosen.scale === 'quick' }),
  };
}

function printTable(workload: WorkloadName, result: WorkloadResult): void {
  console.log(`\n${[result.title, ...tableOf(workload, result)].join('\n')}`);
}

/** Prints the verdicts on targets that this run measured, and counts the others; the report has all of them. */
function printVerdicts(verdicts: readonly VerdictResult[]): void {
  const judged = verdicts.filter(({ outcome }) => outcome !== 'open');
  if (judged.length > 0) console.log(`\nTargets\n${verdictTable(judged).join('\n')}`);
  const others = verdicts.filter(({ outcome }) => outcome === 'open');
  const ids = [...new Set(others.map(({ id }) => id))].join(', ');
  if (others.length > 0)
    console.log(`not measured in this run: ${others.length} of ${verdicts.length} targets (${ids})`);
}

function without<T>(list: readonly T[], left: T): readonly T[] {
  return list.filter((each) => each !== left);
}
