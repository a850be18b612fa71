/**
 * `npm run bench:gate` measures W1, W2 and W3 at smaller sizes on troupe and on the kernel, and compares the ratios
 * with those of this kind of processor in `gate.json`. Exits 1 if a ratio is too far below its baseline, and again in a
 * longer second run. Without a baseline the gate says so and passes. A baseline of other Node flags exits 1.
 *
 *   --write            measures this machine and writes its baseline instead; the machine should be quiet
 *   --baseline <file>  another file than `gate.json`
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildBench } from './build.ts';
import {
  baselineFor,
  compareRatios,
  failedTwice,
  findingLine,
  GATED,
  type GateRatio,
  gateRatios,
  incomparable,
  isFailure,
  REFERENCE,
  readBaselines,
  withBaseline,
} from './gate.ts';
import { describeRun, NODE_FLAGS } from './machine.ts';
import type { SystemName, WorkloadName } from './names.ts';
import type { WorkloadResult } from './report/results-file.ts';
import { measureWorkload } from './rounds.ts';

const SEED = 1;
/** Rounds of a workload that failed. Failures are rare, so there is time for more. */
const ROUNDS_AGAIN = 2;
/** Rounds of a baseline, since one round differs from the next by a third, and from some by a half. */
const ROUNDS_WRITTEN = 3;
/** The kernel runs before and after, so that other work on the machine shows in at least one of its runs. */
const IN_TURN: readonly SystemName[] = [REFERENCE, 'inline', 'isolated', REFERENCE];

const options = readWords(process.argv.slice(2));
if (options === undefined) {
  console.error('usage: npm run bench:gate -- [--write] [--baseline file]');
  process.exit(2);
}
const { place } = options;
process.exitCode = options.writes ? await write() : await check();

function readWords(words: readonly string[]): { readonly writes: boolean; readonly place: string } | undefined {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: { write: { type: 'boolean', default: false }, baseline: { type: 'string' } },
    });
    const usual = fileURLToPath(new URL('./gate.json', import.meta.url));
    return { writes: values.write, place: values.baseline === undefined ? usual : resolve(values.baseline) };
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

async function write(): Promise<number> {
  const { date, commit, node, flags, machine, cores, load, syncMs } = await describeRun({
    seed: SEED,
    command: '',
    notes: [],
  });
  const ratios = await measure(buildBench(), GATED, ROUNDS_WRITTEN);
  const head = { date, commit, node, flags, machine, cores, load, syncMs };
  const baselines = withBaseline(readBaselines(place), { head, ratios });
  writeFileSync(place, `${JSON.stringify(baselines, null, 2)}\n`);
  for (const { workload, system, figure, ratio } of ratios) {
    console.log(`${workload} ${system.padEnd(8)} ${figure}  ${ratio.toFixed(3)} x ${REFERENCE}`);
  }
  return 0;
}

async function check(): Promise<number> {
  const baselines = readBaselines(place);
  if (baselines === undefined) {
    console.log(
      'regression gate: passed, because there is no baseline (bench/gate.json); `npm run bench:gate -- --write` measures one',
    );
    return 0;
  }
  const { machine } = await describeRun({ seed: SEED, command: '', notes: [] });
  const baseline = baselineFor(baselines, machine);
  const { head, ratios } = baseline;
  console.log(
    `regression gate: compared with ${head.commit} of ${head.date.slice(0, 10)}, ${head.machine}, ${head.cores} cores`,
  );
  const refusal = incomparable(baseline, NODE_FLAGS);
  if (refusal !== undefined) {
    console.error(`regression gate: ${refusal}; \`npm run bench:gate -- --write\` measures it again`);
    return 1;
  }
  const built = buildBench();
  const first = compareRatios(baseline, machine, await measure(built, GATED));
  for (const finding of first) console.log(findingLine(finding));
  const again = GATED.filter((workload) => first.some((each) => each.workload === workload && isFailure(each)));
  if (again.length === 0) return 0;
  console.log(`measuring again, because the machine may have been busy: ${again.join(', ')}`);
  const wanted = { head, ratios: ratios.filter(({ workload }) => again.some((each) => each === workload)) };
  const second = compareRatios(wanted, machine, await measure(built, again, ROUNDS_AGAIN));
  for (const finding of second) console.log(findingLine(finding));
  return failedTwice(first, second).length > 0 ? 1 : 0;
}

async function measure(built: string, workloads: readonly WorkloadName[], rounds = 1): Promise<readonly GateRatio[]> {
  const results: WorkloadResult[] = [];
  for (const workload of workloads) {
    results.push(
      await measureWorkload({
        workload,
        systems: IN_TURN,
        rounds,
        scale: 'quick',
        built,
        // The loop is not among the systems.
        loopFolder: fileURLToPath(new URL('./loop', import.meta.url)),
        seed: SEED,
      }),
    );
  }
  return gateRatios(results);
}
