/**
 * Goal: clients that never read cost a bounded amount of memory, and cost other clients nothing. Method: a small attack
 * of `readers.ts`. Started by hand, the attack is larger and also asserts times.
 */
import { expect, test } from 'vitest';
import { attack } from './readers.ts';

test.runIf(process.platform === 'linux')(
  'stalled readers and unread pages: memory is bounded, refusals are typed, health is answered, nothing is lost',
  async () => {
    const report = await attack({ readers: 100, pages: 60, sessions: 4, messages: 4, messageBytes: 500_000 });
    expect(report.untyped).toEqual([]);
    expect(report.peakMegabytes).toBeLessThan(1_024);
    expect(report.healthFailed).toBe(0);
    expect(report.acknowledged).toBe(32);
    expect(report.found).toBe(32);
    expect(report.eventsWrong).toBe(0);
    expect(report.exitCode).toBe(0);
    expect(report.statuses['200']).toBeGreaterThan(0);
  },
);
