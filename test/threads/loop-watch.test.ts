// Goal: a blocked event loop reports once how long it was blocked, and a running loop reports nothing. Method: a real
// loop, blocked by hand.
import { afterEach, expect, test, vi } from 'vitest';
import { LOOP_STALL_MS, LOOP_WATCH_INTERVAL_MS } from '../../src/base/bounds.ts';
import { watchLoop } from '../../src/threads/loop-watch.ts';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('F58, O1: one stall is reported once; checks that are slightly late, and checks after the stall, report nothing', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const stalls: number[] = [];
  const { end } = watchLoop((ms) => stalls.push(ms));
  const look = (lateMs: number): void => {
    now += LOOP_WATCH_INTERVAL_MS + lateMs;
    vi.advanceTimersByTime(LOOP_WATCH_INTERVAL_MS);
  };
  for (const lateMs of [0, 10, LOOP_STALL_MS - 1]) look(lateMs);
  expect(stalls).toEqual([]);
  look(LOOP_STALL_MS + 234);
  expect(stalls).toEqual([LOOP_STALL_MS + 234]);
  look(0);
  end();
  look(60_000);
  expect(stalls).toHaveLength(1);
});

test('O2: the watch does not keep the process alive', () => {
  const before = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const { end } = watchLoop(() => undefined);
  expect(process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length).toBe(before);
  end();
});
