/**
 * The scenarios as tests, in two halves of about the same duration, so that two cores share them. Each scenario fails at
 * a sample of its operations; `npm run sweep` fails each operation in every way.
 */
import { expect, test } from 'vitest';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { describeFailure, sweep } from './sweep.ts';

/** Milliseconds one scenario may take on a busy machine. */
const SWEEP_MS = 120_000;
/** An operation can fail in at least this many ways. */
const WAYS_MIN = 4;
/** The sample has every thirteenth run. The number has no divisor in common with the ways, so all of them are tried. */
const EVERY = 13;
/** The sample has pairs for every eighth operation. */
const PAIRS_EVERY = 8;

/** Declares a test for each scenario of one half. */
export function sweepHalf(half: 0 | 1): void {
  for (const scenario of SCENARIOS.filter((_scenario, index) => index % 2 === half)) declare(scenario);
}

function declare(scenario: Scenario): void {
  const pairs = scenario.pairs === true ? ', and pairs of crashes' : '';
  test(`T2, F01, F05, F06, F07: ${scenario.name}: operations${pairs}`, { timeout: SWEEP_MS }, async () => {
    const report = await sweep(scenario, { every: EVERY, pairsEvery: PAIRS_EVERY });
    expect(report.failures.map(describeFailure)).toEqual([]);
    // The story opens, writes and closes, so with fewer operations it cannot have run.
    expect(report.operations).toBeGreaterThanOrEqual(4);
    expect(report.points * EVERY).toBeGreaterThanOrEqual(report.operations * WAYS_MIN);
    if (scenario.pairs === true) expect(report.pairs * EVERY * PAIRS_EVERY).toBeGreaterThan(report.operations);
  });
}
