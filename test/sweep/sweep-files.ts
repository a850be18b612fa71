/**
 * The scenarios as tests, in two halves of about the same duration, so that two cores share them. Each operation fails in
 * one way at least; `npm run sweep` fails each in every way.
 */
import { expect, test } from 'vitest';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { describeFailure, sweep } from './sweep.ts';

/** Milliseconds one scenario may take on a busy machine. */
const SWEEP_MS = 120_000;
/** A sample: an operation can fail in four ways or five, so each fails in one at least. */
const EVERY = 4;
/** The sample has pairs for every second operation. */
const PAIRS_EVERY = 2;

/** Declares a test for each scenario of one half. */
export function sweepHalf(half: 0 | 1): void {
  for (const scenario of SCENARIOS.filter((_scenario, index) => index % 2 === half)) declare(scenario);
}

function declare(scenario: Scenario): void {
  const pairs = scenario.pairs === true ? ', and pairs of crashes' : '';
  test(`T2, F01, F05, F06, F07: ${scenario.name}: every operation${pairs}`, { timeout: SWEEP_MS }, async () => {
    const report = await sweep(scenario, { every: EVERY, pairsEvery: PAIRS_EVERY });
    expect(report.failures.map(describeFailure)).toEqual([]);
    // The story opens, writes and closes, so with fewer operations it cannot have run.
    expect(report.operations).toBeGreaterThanOrEqual(4);
    expect(report.points).toBeGreaterThanOrEqual(report.operations);
    if (scenario.pairs === true) expect(report.pairs * EVERY * PAIRS_EVERY).toBeGreaterThan(report.operations);
  });
}
