/**
 * Goal: work on the files of a store leaves a whole store, whichever change of the file system it does not survive.
 * Method: see `files/file-sweep.ts`. This is a sample; `npm run sweep` fails every change, and pairs of them.
 */
import { expect, test } from 'vitest';
import { FILE_SCENARIOS } from './files/file-scenarios.ts';
import { sweepFiles } from './files/file-sweep.ts';

/** One in so many changes: two of each scenario, in the middle of its work and near its end. */
const EVERY: Readonly<Record<string, number>> = {
  'files: compaction': 15,
  'files: compaction of an open store': 15,
  'files: another number of session threads': 40,
  'files: a repeated backup': 25,
  'files: restore': 12,
  'files: hand-over': 20,
};

test.each(FILE_SCENARIOS.map((scenario) => [scenario.name, scenario] as const))(
  'Q1, Q2, M1, M2, Y1, Y3, Z1, Z3, B1, K6: %s',
  async (_name, scenario) => {
    const report = await sweepFiles(scenario, { every: EVERY[scenario.name] ?? 1 });
    expect(report.failures).toEqual([]);
    expect(report.crashes).toBeGreaterThan(1);
    expect(report.errors).toBe(2 * report.crashes);
  },
  120_000,
);
