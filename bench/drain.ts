/**
 * `npm run bench`: the drain workloads on troupe, inline and isolated, and in the same run on a hand-written durable loop and
 * on an append-file kernel. Systems take turns, round by round, each in a process of its own; medians, with min and max.
 *
 *   --quick          a tenth of the work, one round
 *   --rounds <n>     rounds, default 3
 *   --only <names>   W1, W2, W3, W9, family; several with commas
 *   --systems <names>  inline, isolated, loop, kernel; several with commas
 *   --json           the raw rounds as JSON
 *   --write          also bench/RESULTS.md
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installLoop } from './loop/durable-loop.ts';
import { describeMachine, load } from './machine.ts';
import { type Round, type Rounds, tableOf, titleOf } from './report.ts';
import type { RunResult, SystemName } from './run.ts';
import type { WorkloadName } from './workloads.ts';

const SYSTEMS: readonly SystemName[] = ['inline', 'isolated', 'loop', 'kernel'];
const WORKLOADS: readonly WorkloadName[] = ['W1', 'W2', 'W3', 'W9', 'family'];
/** Workloads in which only troupe is of interest. */
const OWN: ReadonlySet<WorkloadName> = new Set<WorkloadName>(['W9', 'family']);

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string' },
    systems: { type: 'string' },
    json: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
const workloads = choose(values.only, WORKLOADS);
const wanted = choose(values.systems, SYSTEMS);
if (!Number.isInteger(rounds) || rounds < 1 || workloads.length === 0 || wanted.length === 0) {
  console.error(
    `usage: npm run bench -- [--quick] [--rounds n] [--only ${WORKLOADS}] [--systems ${SYSTEMS}] [--json] [--write]`,
  );
  process.exit(2);
}

const folder = fileURLToPath(new URL('.', import.meta.url));
const loopFolder = join(folder, 'loop');
const built = join(folder, 'dist/bench/run.js');
build();
const missing = wanted.includes('loop') ? installLoop(loopFolder) : undefined;
const systems = missing === undefined ? wanted : wanted.filter((name) => name !== 'loop');
const notes =
  missing === undefined ? [] : [`skipped: the hand-written loop, whose driver cannot be installed (${missing})`];
const head = [...describeMachine(), ...notes];
if (!values.json) for (const line of head) console.log(line);

const results = new Map<WorkloadName, Rounds>();
for (const workload of workloads) {
  const measured = await measureWorkload(workload);
  results.set(workload, measured);
  if (!values.json) console.log(`\n${[titleOf(workload), ...tableOf(workload, measured)].join('\n')}`);
}
if (values.json) {
  const plain = [...results].map(([workload, table]) => ({ workload, systems: Object.fromEntries(table) }));
  console.log(JSON.stringify({ head, results: plain }, null, 2));
}
if (values.write) writeResults();

/**
 * Plain JavaScript of the package and of this folder: a loader that strips types would run on each thread that is started, and
 * be measured with it.
 */
function build(): void {
  const compiler = join(folder, '../node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
  if (existsSync(built)) return;
  console.error(`the benchmark cannot be built:\n${stdout}`);
  process.exit(1);
}

/** Rounds of all systems, interleaved, so that what happens on the machine happens to all of them. */
async function measureWorkload(workload: WorkloadName): Promise<Rounds> {
  const taking = OWN.has(workload) ? systems.filter((name) => name === 'inline' || name === 'isolated') : systems;
  const table = new Map<SystemName, Round[]>(taking.map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const name of taking) {
      const before = load();
      table.get(name)?.push({ result: await runApart(name, workload), load: before });
    }
  }
  return table;
}

/** One measurement in a process of its own. */
async function runApart(system: SystemName, workload: WorkloadName): Promise<RunResult> {
  const scale = values.quick ? 'quick' : 'full';
  const child = spawn(process.execPath, [built, system, workload, scale, loopFolder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await once(child, 'close');
  if (child.exitCode !== 0)
    throw new Error(`${system} could not run ${workload} (${child.exitCode ?? child.signalCode})`);
  return JSON.parse(text) as RunResult;
}

function choose<T extends string>(given: string | undefined, all: readonly T[]): readonly T[] {
  if (given === undefined) return all;
  const names = given.split(',');
  return names.every((name) => all.some((each) => each === name)) ? all.filter((name) => names.includes(name)) : [];
}

function writeResults(): void {
  const parts = [...results].map(
    ([workload, table]) => `## ${titleOf(workload)}\n\n${tableOf(workload, table).join('\n')}\n`,
  );
  const intro = [
    '# Drain benchmark',
    '',
    'Written by `npm run bench -- --write`; `README.md` beside this file says what is measured and how.',
    '',
    ...head.map((line) => `- ${line}`),
    `- rounds: ${rounds}, interleaved; medians`,
    '',
  ];
  writeFileSync(new URL('./RESULTS.md', import.meta.url), `${intro.join('\n')}\n${parts.join('\n')}`);
}
