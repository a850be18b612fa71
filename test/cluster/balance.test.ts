import { expect, test } from 'vitest';
import { shardToGive, shareOf } from '../../src/cluster/balance.ts';
import type { OtherNode } from '../../src/cluster/plan.ts';
import { sharing } from './support/register.ts';

/** The shard that node `m` with the shards `own` of `shards` gives away. */
function given(shards: number, own: readonly number[], ...others: readonly OtherNode[]): number | undefined {
  return shardToGive({ shards, stay: 'm', own, others });
}

test.each([
  [4, 1, 4, 4],
  [4, 3, 1, 2],
  [4, 4, 1, 1],
  [2, 3, 0, 1],
])('of %i shards, each of %i nodes has %i to %i', (shards, nodes, least, most) => {
  expect(shareOf(shards, nodes)).toEqual({ least, most });
});

test('a node gives its last shard while it has more than the most', () => {
  expect(given(4, [0, 1, 2, 3])).toBeUndefined();
  expect(given(4, [0, 1, 2, 3], sharing('b'))).toBe(3);
  expect(given(4, [0, 2, 1], sharing('b'))).toBe(2);
  expect(given(4, [0, 1], sharing('b'))).toBeUndefined();
  expect(given(1, [0], sharing('b'))).toBeUndefined();
});

test('a node within its share gives one only while another lacks one that is not free', () => {
  expect(given(4, [0, 1], sharing('x', 2, 3), sharing('c'))).toBe(1);
  expect(given(4, [0, 1], sharing('x', 2), sharing('c'))).toBeUndefined();
  expect(given(4, [0], sharing('b', 1, 2), sharing('c', 3))).toBeUndefined();
  expect(given(5, [0, 1], sharing('x', 2, 3), sharing('c', 4))).toBeUndefined();
});

test('of several nodes with as many shards, the one with the first stay gives one', () => {
  const [b, z] = [sharing('b', 2, 3), sharing('z', 2, 3)];
  expect(given(4, [0, 1], b, sharing('c'))).toBeUndefined();
  expect(given(4, [0, 1], z, sharing('c'))).toBe(1);
  expect(given(7, [0, 1], sharing('z', 2, 3, 4), sharing('c', 5, 6), sharing('d'))).toBeUndefined();
});

test('nodes without an address, and nodes whose lease has run out, have no share', () => {
  const { address: _, ...standby } = sharing('b');
  expect(given(4, [0, 1, 2, 3], standby)).toBeUndefined();
  expect(given(4, [0, 1, 2, 3], { ...sharing('b'), leaseLeftMs: 0 })).toBeUndefined();
});

test('from any spread, gifts to the nodes with the fewest end in an even one, and move nothing needlessly', () => {
  for (let shards = 1; shards <= 12; shards += 1) {
    for (let nodes = 1; nodes <= 6; nodes += 1) {
      const owned = Array.from({ length: nodes }, (): number[] => []);
      for (let shard = 0; shard < shards; shard += 1) owned[shard % 2 === 0 ? 0 : shard % nodes]?.push(shard);
      const { least, most } = shareOf(shards, nodes);
      const needed = owned.reduce((sum, own) => sum + Math.max(0, own.length - most), 0);
      const lacking = owned.reduce((sum, own) => sum + Math.max(0, least - own.length), 0);
      let moves = 0;
      for (let isMoving = true; isMoving; ) {
        isMoving = false;
        for (const [index, own] of owned.entries()) {
          const others = owned.flatMap((each, at) => (at === index ? [] : [sharing(`n${at}`, ...each)]));
          const shard = shardToGive({ shards, stay: `n${index}-1`, own, others });
          if (shard === undefined) continue;
          own.splice(own.indexOf(shard), 1);
          const poorest = owned.reduce((a, b) => (b.length < a.length ? b : a));
          poorest.push(shard);
          moves += 1;
          isMoving = true;
        }
      }
      expect(owned.every(({ length }) => length >= least && length <= most)).toBe(true);
      expect(moves).toBe(Math.max(needed, lacking));
    }
  }
});
