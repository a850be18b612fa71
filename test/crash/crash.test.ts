/** A short crash loop, run with all tests; `npm run crash` is the long one. */
import { expect, test } from 'vitest';
import { runCrashLoop } from './crash-loop.ts';
import { describeReport } from './report.ts';

const SEED = 20_26_11;
const KILLS = 6;

test('F01, F02, F03, F04, F62, I1 to I7: after kills at work, in recovery, while closing and during a stop, the process keeps every promise', async () => {
  const report = await runCrashLoop({ kills: KILLS, seed: SEED, generationKills: KILLS / 3 });
  const lines = describeReport(report).join('\n');
  expect(report.violations, lines).toEqual([]);
  expect(report.ends.kills, lines).toBe(KILLS);
  expect(report.byDurability, lines).toEqual({ flush: 1, os: 1, strict: 1 });
  expect(report.ends.killsInRecovery, lines).toBeGreaterThan(0);
  expect(report.counts.acknowledged, lines).toBeGreaterThan(0);
  expect(report.counts.toolRuns, lines).toBeGreaterThan(0);
}, 300_000);
