import { expect, test } from 'vitest';
import { SHARD_RESTARTS } from '../../../src/base/bounds.ts';
import { ShardDeaths } from '../../../src/runtime/host/shard-deaths.ts';

test('D1: the second death on one session within the period isolates it, and both deaths stop counting', () => {
  const deaths = new ShardDeaths();
  for (let at = 1; at < SHARD_RESTARTS.intensity; at += 1) expect(deaths.note(at, 0)).toBe(true);
  expect(deaths.note(10, 7)).toBe(true);
  expect(deaths.isolated).toEqual([]);
  // One death more than is allowed, not counting the two with a known cause.
  expect(deaths.note(20, 7)).toBe(true);
  expect(deaths.isolated).toEqual([7]);
  expect(deaths.count).toBe(SHARD_RESTARTS.intensity - 1);
});

test('D1: deaths on two sessions, or more than a period apart, isolate no session', () => {
  const deaths = new ShardDeaths();
  deaths.note(0, 7);
  deaths.note(10, 8);
  deaths.note(SHARD_RESTARTS.periodMs + 1, 7);
  expect(deaths.isolated).toEqual([]);
  deaths.note(SHARD_RESTARTS.periodMs + 2, 7);
  expect(deaths.isolated).toEqual([7]);
});
