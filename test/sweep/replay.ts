/**
 * Repeats one run of a sweep and shows it, or sweeps one scenario:
 * `node --import ./test/loader/register.mjs test/sweep/replay.ts <scenario> [<kind> <n> [[<kind>] <m>]]`.
 * `m` is the number of the second operation over the whole run, as a failure prints it; without a kind, the process
 * crashes before it. Without `<kind> <n>` the run without faults is shown. With `all` in their place the whole scenario
 * is swept.
 */
import { FAULT_KINDS, type FaultKind, type PlannedFault } from './faults.ts';
import { FILE_SCENARIOS } from './files/file-scenarios.ts';
import { type FileScenario, sweepFiles } from './files/file-sweep.ts';
import { SCENARIOS } from './scenarios.ts';
import { runStory } from './story-run.ts';
import { describeFailure, sweep } from './sweep.ts';

/** The scenarios whose recovery is swept as well: it has few changes. */
const PAIRED: ReadonlySet<string> = new Set(['files: compaction', 'files: restore']);

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function isKind(word: string | undefined): word is FaultKind {
  return FAULT_KINDS.some((kind) => kind === word);
}

/** Faults as the command line names them. Throws for anything else. */
function planOf(words: readonly string[]): readonly PlannedFault[] {
  const plan: PlannedFault[] = [];
  let kind: FaultKind | undefined;
  for (const word of words) {
    if (isKind(word)) {
      kind = word;
      continue;
    }
    const at = Number(word);
    if (!Number.isSafeInteger(at) || at < 1)
      throw new Error(`neither a kind (${FAULT_KINDS.join(', ')}) nor a number: ${word}`);
    plan.push({ kind: kind ?? 'before', at });
    kind = undefined;
  }
  return plan;
}

/** Sweeps every change of files of the scenarios, and every pair of crashes. Resolves to the number of failures. */
async function sweepAllFiles(scenarios: readonly FileScenario[]): Promise<number> {
  let failures = 0;
  for (const scenario of scenarios) {
    const startedAt = performance.now();
    const report = await sweepFiles(scenario, { every: 1, pairs: PAIRED.has(scenario.name) });
    for (const failure of report.failures) say(failure);
    const { steps, crashes, errors, pairs } = report;
    const ms = Math.round(performance.now() - startedAt);
    say(
      `${scenario.name}: ${steps} changes, ${crashes} crashes, ${errors} errors, ${pairs} pairs, ${report.failures.length} failures, ${ms} ms`,
    );
    failures += report.failures.length;
  }
  return failures;
}

async function main([name, ...words]: readonly string[]): Promise<number> {
  const files = FILE_SCENARIOS.filter((scenario) => name === 'every' || scenario.name === name);
  if (words[0] === 'all' && name !== 'every' && files.length > 0) return (await sweepAllFiles(files)) === 0 ? 0 : 1;
  const chosen = SCENARIOS.filter((scenario) => name === 'every' || scenario.name === name);
  if (chosen.length === 0) {
    say(`scenarios: ${[...SCENARIOS, ...FILE_SCENARIOS].map((scenario) => scenario.name).join(', ')}`);
    return 2;
  }
  let failures = 0;
  for (const scenario of chosen) {
    if (words[0] === 'all') {
      const startedAt = performance.now();
      const report = await sweep(scenario);
      for (const failure of report.failures) say(describeFailure(failure));
      const { operations, points, pairs } = report;
      const ms = Math.round(performance.now() - startedAt);
      say(
        `${scenario.name}: ${operations} operations, ${points} points, ${pairs} pairs, ${report.failures.length} failures, ${ms} ms`,
      );
      failures += report.failures.length;
      continue;
    }
    const plan = planOf(words);
    const result = await runStory(scenario, { plan });
    say(describeFailure({ scenario: scenario.name, plan, result }));
    failures += result.violations.length;
  }
  if (words[0] === 'all') failures += await sweepAllFiles(files);
  return failures === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
