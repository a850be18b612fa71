/**
 * Goal: mailboxes filled from many addresses cost a bounded amount of memory, over a restart too, and lose nothing.
 * Method: a small flood of `mailboxes.ts`. By hand it is larger, and asserts times.
 */
import { expect, test } from 'vitest';
import { flood } from './mailboxes.ts';

test.runIf(process.platform === 'linux')(
  'mailboxes are filled until they refuse: memory is bounded, refusals are typed, nothing acknowledged is lost over a kill',
  async () => {
    const report = await flood({ sessions: 6, messages: 24, messageBytes: 1_000_000 });
    // One message is with the model, and sixteen megabytes wait behind it.
    expect(report.statuses).toEqual({ '202': 6 * 17, '429 mailbox_full': 6 * 7 });
    expect(report.peakMegabytes).toBeLessThan(1_024);
    expect(report.reopenedMegabytes).toBeLessThan(1_024);
    expect(report.healthFailed).toBe(0);
    expect(report.found).toBe(report.acknowledged);
  },
);
