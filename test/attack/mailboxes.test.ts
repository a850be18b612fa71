/**
 * Goal: mailboxes filled from many addresses cost a bounded amount of memory, over a restart too, and lose nothing.
 * Method: a small flood of `mailboxes.ts`. Started by hand, the flood is larger and also asserts times.
 */
import { expect, test } from 'vitest';
import { flood } from './mailboxes.ts';

test.runIf(process.platform === 'linux')(
  'mailboxes filled until they refuse: memory is bounded, refusals are typed, a kill loses nothing acknowledged',
  async () => {
    const report = await flood({ sessions: 3, messages: 24, messageBytes: 1_000_000 });
    // The model is called with one message, and sixteen megabytes wait behind that message.
    expect(report.statuses).toEqual({ '202': 3 * 17, '429 mailbox_full': 3 * 7 });
    expect(report.peakMegabytes).toBeLessThan(1_024);
    expect(report.reopenedMegabytes).toBeLessThan(1_024);
    expect(report.healthFailed).toBe(0);
    expect(report.found).toBe(report.acknowledged);
  },
);
