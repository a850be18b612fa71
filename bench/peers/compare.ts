/**
 * `npm run bench:peers` runs the same work item on troupe, on the hand-written durable loop, and on other systems that
 * hold conversations, each as its makers mean it to be used. In each round every system runs once, in a separate
 * process, all on one Node. Prints medians with min and max.
 *
 *   --quick            a part of the work, one round, no counting of syncs
 *   --rounds <n>       rounds, default 3
 *   --only <names>     W1, W2, W3; several with commas
 *   --systems <names>  rows of the table; several with commas
 *   --write            also writes bench/peers/RESULTS.md
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeRun, load } from '../machine.ts';
import { deviceOf, machineOf, nodeOf } from '../report/report.ts';
import { type Bench, countSyncs, runApart } from './apart.ts';
import { ENTRIES, type Entry, type PeerWorkload, WORKLOADS } from './catalogue.ts';
import { compile, install, packageVersion } from './install.ts';
import type { PeerResult } from './measure.ts';
import { figuresTable, type Measured, ratioTable, verdicts, whoTable } from './table.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string' },
    systems: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const names = ENTRIES.map(({ name }) => name);
const roundCount = Number(values.rounds ?? (values.quick ? 1 : 3));
const workloads = choose(values.only, WORKLOADS);
const chosen = choose(values.systems, names);
if (!Number.isInteger(roundCount) || roundCount < 1 || workloads.length === 0 || chosen.length === 0) {
  console.error(
    `usage: npm run bench:peers -- [--quick] [--rounds n] [--only ${WORKLOADS}] [--systems ${names}] [--write]`,
  );
  process.exit(2);
}

const folder = fileURLToPath(new URL('.', import.meta.url));
const installation = install(folder);
const bench = build();
const notes: string[] = [...installation.notes];
const loads: number[] = [load()];
const entries = await working(ENTRIES.filter(({ name }) => chosen.includes(name)));
const counts = await countAll(entries);
const results = await measureAll(entries);
const measured = entries.map(
  (entry): Measured => ({
    entry,
    version: versionOf(entry),
    syncs: counts.get(entry.name),
    rounds: results.get(entry.name) ?? new Map(),
  }),
);
loads.push(load());

const head = await headLines();
const parts = [
  head.map((line) => `- ${line}`),
  whoTable(measured, installation.nodeVersion),
  figuresTable(measured, workloads),
  ratioTable(measured, workloads),
  workloads.includes('W2') ? verdicts(measured) : [],
].filter((lines) => lines.length > 0);
console.log(`\n${parts.map((lines) => lines.join('\n')).join('\n\n')}`);
if (values.write) {
  const intro =
    '# troupe and its peers\n\nWritten by `npm run bench:peers -- --write`; `README.md` beside this file describes the comparison.';
  const text = [intro, ...parts.map((lines) => lines.join('\n'))].join('\n\n');
  writeFileSync(join(folder, 'RESULTS.md'), `${text}\n`);
}
// Without troupe there is no comparison.
process.exitCode = ENTRIES.some(({ kind, name }) => kind === 'troupe' && chosen.includes(name) && !isWhole(name))
  ? 1
  : 0;

/**
 * Everything runs as plain JavaScript. The measuring program and the package are built into the benchmark's output,
 * where they find the packages of troupe; the peers are built beside their own packages.
 */
function build(): Bench {
  const compiler = join(folder, '../../node_modules/typescript/bin/tsc');
  const measure = join(folder, '../dist/bench/peers/measure.js');
  // The output of an earlier build must not be measured in place of this one.
  rmSync(measure, { force: true });
  const complaints = compile(join(folder, 'tsconfig.measure.json'), compiler);
  if (!existsSync(measure)) {
    console.error(`the benchmark cannot be built:\n${complaints}`);
    process.exit(1);
  }
  compile(join(folder, 'tsconfig.json'), compiler);
  return { node: installation.node, measure, folder, scale: values.quick ? 'quick' : 'full' };
}

/** Returns the systems that can do one turn; a note gives the reason for each of the others. */
async function working(wanted: readonly Entry[]): Promise<readonly Entry[]> {
  const able: Entry[] = [];
  for (const entry of wanted) {
    const outcome = await runApart(bench, entry, 'turns:1');
    if ('failure' in outcome) note(`skipped: ${entry.name} (${outcome.failure})`);
    else able.push(entry);
  }
  return able;
}

async function countAll(list: readonly Entry[]): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  if (values.quick) return found;
  for (const entry of list) {
    const syncs = await countSyncs(bench, entry);
    if (syncs !== undefined) found.set(entry.name, syncs);
    console.log(`${entry.name}: ${syncs?.toFixed(2) ?? 'unknown'} syncs a turn`);
  }
  return found;
}

/** Interleaves the rounds of all systems, so that other work on the machine affects all of them. */
async function measureAll(
  list: readonly Entry[],
): Promise<ReadonlyMap<string, ReadonlyMap<PeerWorkload, readonly PeerResult[]>>> {
  const found = new Map(list.map(({ name }) => [name, new Map<PeerWorkload, PeerResult[]>()]));
  for (const workload of workloads) {
    const failed = new Set<string>();
    for (let round = 1; round <= roundCount; round += 1) {
      for (const entry of list.filter(({ name }) => !failed.has(name))) {
        const outcome = await runApart(bench, entry, workload);
        const rounds = found.get(entry.name);
        if ('failure' in outcome) {
          note(`skipped: ${workload} of ${entry.name} (${outcome.failure})`);
          failed.add(entry.name);
          rounds?.delete(workload);
          continue;
        }
        const result = resultIn(outcome.text);
        rounds?.set(workload, [...(rounds.get(workload) ?? []), result]);
        const rate = Math.round(result.rate).toLocaleString('en-US');
        console.log(`round ${round} ${workload} ${entry.name}: ${rate} (load ${load().toFixed(1)})`);
      }
    }
  }
  return found;
}

/** The result is the last line, since a peer may have printed other lines before it. */
function resultIn(text: string): PeerResult {
  return JSON.parse(text.trim().split('\n').at(-1) ?? '') as PeerResult;
}

function isWhole(name: string): boolean {
  return workloads.every((workload) => results.get(name)?.get(workload)?.length === roundCount);
}

function versionOf({ kind, packages }: Entry): string {
  if (packages.length === 0) {
    const { version } = JSON.parse(readFileSync(join(folder, '../../package.json'), 'utf8')) as {
      readonly version: string;
    };
    return version;
  }
  const [first, ...others] = packages.map((name) => ({ name, version: packageVersion(folder, name) ?? 'missing' }));
  const title = kind === 'reference' ? `${first?.name} ${first?.version}` : (first?.version ?? '');
  return [title, ...others.map(({ name, version }) => `${name} ${version}`)].join(', ');
}

async function headLines(): Promise<readonly string[]> {
  const run = await describeRun({
    seed: 0,
    command: 'npm run bench:peers',
    notes: [],
  });
  return [
    `date: ${run.date.slice(0, 10)}; commit: ${run.commit}; all systems on Node ${nodeOf({ ...run, node: installation.nodeVersion })}`,
    `device: ${deviceOf(run)}`,
    `machine: ${machineOf(run)}; load ${loads.map((each) => each.toFixed(1)).join(' at the start, ')} at the end`,
    `rounds: ${roundCount}, interleaved${values.quick ? ', quick sizes, which cannot be compared' : ''}; model: in the process, without latency or HTTP`,
    ...run.notes,
    ...notes,
  ];
}

function note(text: string): void {
  notes.push(text);
  console.log(text);
}

function choose<T extends string>(given: string | undefined, all: readonly T[]): readonly T[] {
  if (given === undefined) return all;
  const wanted = given.split(',');
  return wanted.every((name) => all.some((each) => each === name)) ? all.filter((name) => wanted.includes(name)) : [];
}
