/**
 * Repeats one run of a sweep and shows it, or sweeps one scenario:
 * `node --import ./test/loader/register.mjs test/sweep/replay.ts <scenario> [<kind> <n> [[<kind>] <m>]]`.
 * `m` is the number of the second operation over the whole run, as a failure prints it; without a kind, the process
 * crashes before it. Without `<kind> <n>` the run without faults is shown. With `all` in their place the whole scenario
 * is swept.
 */
import { FAULT_KINDS, type FaultKind, type PlannedFault } from './faults.ts';
import { SCENARIOS } from './scenarios.ts';
import { runStory } from './story-run.ts';
import { describeFailure, sweep } from './sweep.ts';

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

async function main([name, ...words]: readonly string[]): Promise<number> {
  const chosen = SCENARIOS.filter((scenario) => name === 'every' || scenario.name === name);
  if (chosen.length === 0) {
    say(`scenarios: ${SCENARIOS.map((scenario) => scenario.name).join(' ')}`);
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
  return failures === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
