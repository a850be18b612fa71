/**
 * `npm run planted`: for each planted bug, how many simulation seeds it takes to find it. Each bug has several starting
 * points, and two processes run at once. Options: `--bug <name>`, `--starts <n>`, `--seeds <n>` from each start at
 * most, `--json`. Exits 1 if a bug was not found from every start.
 */
import { parseArgs } from 'node:util';
import { bugNamed, plantedBugs } from './bugs.ts';
import { type Hunt, huntOnce } from './hunting.ts';
import type { PlantedBug } from './planted-bug.ts';

/** Seeds between two starting points: more than the seeds that are run from one starting point. */
const START_STEP = 100_000;
/** Processes at once. */
const PROCESSES = 2;
/** How often a hunt starts again after a seed that also fails without the bug. */
const FALSE_ALARMS_MAX = 5;

interface Finding {
  readonly bug: PlantedBug;
  readonly hunts: readonly Hunt[];
}

/** Hunts from each start until the first violation that does not occur without the bug. */
async function findBug(bug: PlantedBug, starts: readonly number[], seeds: number): Promise<Finding> {
  const hunts: Hunt[] = [];
  const { simulation } = bug;
  for (const hunt of await huntOnce({ bug: bug.name, starts, seeds, simulation })) hunts.push(hunt);
  for (let alarm = 0; alarm < FALSE_ALARMS_MAX; alarm += 1) {
    const suspects = hunts.flatMap(({ seed }) => seed ?? []);
    const sound = suspects.length === 0 ? [] : await huntOnce({ starts: suspects, seeds: 1, simulation });
    const failing = new Map(sound.flatMap(({ seed, what }) => (seed === null ? [] : [[seed, what] as const])));
    if (failing.size === 0) return { bug, hunts };
    for (const [index, { start, seed }] of hunts.entries()) {
      if (seed === null || !failing.has(seed)) continue;
      process.stderr.write(`seed ${seed} fails without ${bug.name} too: ${failing.get(seed) ?? ''}\n`);
      const [next] = await huntOnce({
        bug: bug.name,
        simulation,
        starts: [seed + 1],
        seeds: Math.max(1, start + seeds - seed - 1),
      });
      if (next !== undefined) hunts[index] = { ...next, start };
    }
  }
  throw new Error(`too many seeds fail without ${bug.name}: the build is to blame`);
}

/** Seeds run until the bug was found; undefined if it was not. */
function seedsOf({ start, seed }: Hunt): number | undefined {
  return seed === null ? undefined : seed - start + 1;
}

function median(numbers: readonly number[]): number | undefined {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

function medianOf({ hunts }: Finding): number | undefined {
  // A start that did not find the bug counts as worse than all others.
  const value = median(hunts.map((hunt) => seedsOf(hunt) ?? Number.POSITIVE_INFINITY));
  return value === Number.POSITIVE_INFINITY ? undefined : value;
}

function isFound({ hunts }: Finding): boolean {
  return hunts.length > 0 && hunts.every(({ seed }) => seed !== null);
}

function line(finding: Finding): string {
  const { bug, hunts } = finding;
  const kinds = [...new Set(hunts.flatMap(({ kind }) => kind ?? []))].join(' ') || '-';
  const counts = hunts.map((hunt) => String(seedsOf(hunt) ?? '-').padStart(8)).join('');
  return `${bug.name.padEnd(36)}${kinds.padEnd(32)}${counts}${String(medianOf(finding) ?? '-').padStart(8)}\n`;
}

const { values } = parseArgs({
  options: {
    bug: { type: 'string' },
    starts: { type: 'string', default: '5' },
    // The number of seeds that one run of `.ci/run` simulates: a bug that needs more would pass it.
    seeds: { type: 'string', default: '2000' },
    json: { type: 'boolean', default: false },
  },
});
const starts = Array.from({ length: Number(values.starts) }, (_, index) => 1 + index * START_STEP);
const waiting = values.bug === undefined ? [...plantedBugs] : [bugNamed(values.bug)];
const findings: Finding[] = [];

async function work(): Promise<void> {
  for (let bug = waiting.shift(); bug !== undefined; bug = waiting.shift()) {
    const finding = await findBug(bug, starts, Number(values.seeds));
    findings.push(finding);
    if (!values.json) process.stdout.write(line(finding));
  }
}

if (!values.json) {
  const columns = starts.map((start) => String(start).padStart(8)).join('');
  process.stdout.write(`${'bug'.padEnd(36)}${'found as'.padEnd(32)}${columns}  median\n`);
}
await Promise.all(Array.from({ length: PROCESSES }, work));
const missed = findings.filter((finding) => !isFound(finding));
const overall = median(findings.flatMap((finding) => medianOf(finding) ?? []));
if (values.json) {
  const bugs = findings.map((each) => ({ name: each.bug.name, median: medianOf(each), hunts: each.hunts }));
  process.stdout.write(`${JSON.stringify({ bugs, median: overall, missed: missed.map(({ bug }) => bug.name) })}\n`);
} else {
  process.stdout.write(
    `${findings.length - missed.length} of ${findings.length} found; median of medians: ${overall ?? '-'} seeds\n`,
  );
  for (const { bug } of missed) process.stdout.write(`not found from every start: ${bug.name}, ${bug.what}\n`);
}
process.exitCode = missed.length === 0 ? 0 : 1;
