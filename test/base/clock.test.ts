import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';

const DAY_MS = 24 * 3_600_000;
/** The longest delay of Node's own timers. */
const NODE_MS_MAX = 2 ** 31 - 1;

describe('F20: a timer of any delay', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    // The spy first: restored later, it would put the faked timer back.
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it.each([2, 5, NODE_MS_MAX, NODE_MS_MAX + 1, 60 * DAY_MS, 366 * DAY_MS])(
    'F20: fires once after %i ms, not before, and no step is longer than Node takes',
    async (delayMs) => {
      const steps = vi.spyOn(globalThis, 'setTimeout');
      let fired = 0;
      systemClock.setTimer(() => {
        fired += 1;
      }, delayMs);
      await vi.advanceTimersByTimeAsync(delayMs - 1);
      expect(fired).toBe(0);
      await vi.advanceTimersByTimeAsync(2);
      expect(fired).toBe(1);
      await vi.advanceTimersByTimeAsync(400 * DAY_MS);
      expect(fired).toBe(1);
      expect(Math.max(...steps.mock.calls.map(([, ms]) => ms ?? 0))).toBeLessThanOrEqual(NODE_MS_MAX);
    },
  );

  it.each([0, 30])('F20: a timer cleared after %i days never fires', async (days) => {
    let fired = 0;
    const timer = systemClock.setTimer(() => {
      fired += 1;
    }, 60 * DAY_MS);
    await vi.advanceTimersByTimeAsync(days * DAY_MS);
    systemClock.clearTimer(timer);
    await vi.advanceTimersByTimeAsync(100 * DAY_MS);
    expect(fired).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
