/**
 * Goal: work on the files of a store leaves a whole store, whichever change of the file system it does not survive.
 * Method: see `files/file-sweep.ts`. This is a sample; `npm run sweep` fails every change, and pairs of them.
 */
import { expect, test } from 'vitest';
import { FILE_SCENARIOS } from './files/file-scenarios.ts';
import { sweepFiles } from './files/file-sweep.ts';

/** Every eighth change, and fewer of a scenario with many changes. */
const EVERY = 8;
const EVERY_OF_MANY: Readonly<Record<string, number>> = {
  'files: another number of session threads': 24,
  'files: a repeated backup': 12,
};

test.each(FILE_SCENARIOS.map((scenario) => [scenario.name, scenario] as const))(
  'Q1, Q2, M1, M2, Y1, Y3, Z1, Z3, B1, K6: %s',
  async (_name, scenario) => {
    const report = await sweepFiles(scenario, { every: EVERY_OF_MANY[scenario.name] ?? EVERY });
    expect(report.failures).toEqual([]);
    expect(report.crashes).toBeGreaterThan(1);
    expect(report.errors).toBe(2 * report.crashes);
  },
  120_000,
);
