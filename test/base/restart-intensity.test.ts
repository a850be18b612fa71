/** Goal: supervisors, session threads and single sessions count restarts in the same way, up to the same limit. */
import { expect, test } from 'vitest';
import { SESSION_RESTARTS, SHARD_RESTARTS } from '../../src/base/bounds.ts';
import { countRestart } from '../../src/base/restart-intensity.ts';
import { ShardDeaths } from '../../src/runtime/host/shard-deaths.ts';
import { CrashCounter } from '../../src/runtime/shard/crash-counter.ts';

/** The times of one restart more than allowed: the first is exactly one period before the last. */
const atTheEdge = ({ intensity, periodMs }: typeof SHARD_RESTARTS): number[] =>
  Array.from({ length: intensity + 1 }, (_none, index) => (index * periodMs) / intensity);

test('a restart exactly one period old still counts, for every component with a restart intensity', () => {
  const times = atTheEdge(SHARD_RESTARTS);
  const last = times.at(-1) ?? 0;
  expect(countRestart(times.slice(0, -1), last, SHARD_RESTARTS)).toEqual({ restarts: times, allowed: false });

  const deaths = new ShardDeaths();
  expect(times.map((at) => deaths.note(at, 0))).toEqual([true, true, true, true, true, false]);
  expect(deaths.count).toBe(6);

  let now = 0;
  const crashes = new CrashCounter(() => now);
  const allowed = atTheEdge(SESSION_RESTARTS).map((at) => {
    now = at;
    return crashes.count('s');
  });
  expect(allowed).toEqual([true, true, true, true, true, false]);
});

test('a restart older than the period no longer counts', () => {
  const times = atTheEdge(SHARD_RESTARTS);
  const last = (times.at(-1) ?? 0) + 1;
  expect(countRestart(times.slice(0, -1), last, SHARD_RESTARTS).allowed).toBe(true);
});
