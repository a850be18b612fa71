/** Goal: the ring of recent commits keeps its bounds, also when a commit is added again. */
import { expect, test } from 'vitest';
import { LOG_RING_BYTES_MAX } from '../../../src/base/bounds.ts';
import { RecentEntries } from '../../../src/journal/replica/recent-entries.ts';
import type { LogEntry } from '../../../src/journal/replica/shard-log.ts';

function entry(number: number): LogEntry {
  return { number, bytes: Buffer.alloc(LOG_RING_BYTES_MAX / 4), digest: '', previous: '' } as unknown as LogEntry;
}

test('the bytes of a commit that is added again count once, and the oldest commits leave', () => {
  const ring = new RecentEntries();
  for (let number = 1; number <= 4; number += 1) ring.add(entry(number));
  // A copy that was damaged adds its commits again.
  for (let number = 1; number <= 4; number += 1) ring.add(entry(number));
  expect(ring.between(1, 4)).toHaveLength(4);
  ring.add(entry(5));
  expect(ring.between(1, 5)).toBeUndefined();
  expect(ring.between(2, 5)).toHaveLength(4);
});
