/** Goal: a close ends even if a message between threads comes late. `npm run sweep` holds each message. */
import { expect, test } from 'vitest';
import { CLOSE_SEEDS, sweepClose } from '../../sweep/close-sweep.ts';

/** A sample of the messages. */
const EVERY = 8;

test.each(CLOSE_SEEDS)('L4: a close completes, whichever of its messages is delayed, seed %i', async (seed) => {
  const { messages, failures } = await sweepClose(seed, EVERY);
  expect(failures).toEqual([]);
  // At least the question to each of two threads, and its answer.
  expect(messages).toBeGreaterThanOrEqual(4);
});
