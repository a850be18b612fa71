/** Goal: an outage of the store ends only when the log can be read and written again. */
import { expect, test } from 'vitest';
import { StoreCorruptError, StoreFullError } from '../../../src/base/errors.ts';
import { StoreOutage } from '../../../src/runtime/shard/store-outage.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';

/** An outage whose ends are `ends`, one after another: each resumes everything, or throws. */
function outageWith(ends: readonly (() => void)[]) {
  const clock = manualClock();
  const told: string[] = [];
  let recoveries = 0;
  const journal = {
    recover: async () => undefined,
    runnable: () => [],
    tailKeys: () => new Set<number>(),
    checkpointed: () => 0,
  };
  const outage = new StoreOutage({
    journal: journal as never,
    clock,
    dropAll: () => undefined,
    notify: (error) => told.push(error === undefined ? 'over' : error.code),
    over: () => {
      recoveries += 1;
      ends[recoveries - 1]?.();
    },
    failed: (message) => told.push(message),
  });
  return { outage, clock, told, recoveries: () => recoveries };
}

test('O1: damage that only the resumption finds begins one more outage, and everything is resumed after it', async () => {
  const damaged = (): void => {
    throw new StoreCorruptError('row 1 is damaged');
  };
  const { outage, clock, told, recoveries } = outageWith([damaged, () => undefined]);
  outage.flushFailed(new StoreFullError('no space'));
  await clock.advance(1_000);
  expect(recoveries()).toBe(1);
  expect(outage.error).toMatchObject({ code: 'store_full', cause: { code: 'store_corrupt' } });
  // The copy of a cluster refuses a write as well once it is known to be damaged.
  outage.flushFailed(new StoreFullError('the copy is damaged'));
  await clock.advance(1_000);
  expect(outage.error).toBeUndefined();
  await clock.advance(10_000);
  expect(recoveries()).toBe(2);
  expect(told).toEqual([
    ...['the store refuses writes', 'store_full', 'over'],
    ...['the store refuses writes', 'store_full', 'over'],
  ]);
});
