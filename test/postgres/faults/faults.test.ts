/** A short run of the loop of faults, with all tests; `npm run cluster:faults` is the long one, and has more kinds. */
import { expect, test } from 'vitest';
import { NO_SERVER } from '../support/server.ts';
import { runFaultLoop } from './fault-loop.ts';
import { describeReport } from './report.ts';

test.skipIf(NO_SERVER !== undefined)(
  'a fail-over pair keeps every promise through faults of its owner and its line',
  async () => {
    const report = await runFaultLoop({
      ...{ seed: 20_26_11, kills: 1, freezes: 1, blackHoles: 1, cuts: 6, restarts: 0, stalls: 0 },
      ...{ outages: [], setBacks: [], leaseMs: 2_000, sessions: 20, minutes: 10 },
    });
    const lines = describeReport(report).join('\n');
    expect(report.violations, lines).toEqual([]);
    expect(report.counts, lines).toMatchObject({ kills: 1, freezes: 1, blackHoles: 1, cuts: 6 });
    expect(report.counts.formerRefused, lines).toBe(report.counts.formerAsked);
    expect(report.counts.onceCalls, lines).toBeGreaterThan(0);
  },
  300_000,
);
