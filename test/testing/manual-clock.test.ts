import { describe, expect, it } from 'vitest';
import { manualClock } from '../../src/testing/manual-clock.ts';

describe('manualClock', () => {
  it('stands still until advanced, starting from the given time', async () => {
    const clock = manualClock(1_000);
    expect([clock.now(), clock.monotonic()]).toEqual([1_000, 0]);
    await clock.advance(250);
    expect([clock.now(), clock.monotonic()]).toEqual([1_250, 250]);
    expect(manualClock().now()).toBe(Date.UTC(2026, 0, 1));
  });

  it('V1: timers fire by due time, equal ones in the order they were set', async () => {
    const clock = manualClock();
    const fired: string[] = [];
    const set = (name: string, delayMs: number): unknown => clock.setTimer(() => fired.push(name), delayMs);
    set('late', 20);
    set('first', 10);
    set('second', 10);
    set('now', 0);
    set('past', -5);
    const cleared = set('cleared', 5);
    clock.clearTimer(cleared);
    clock.clearTimer('unknown');
    await clock.advance(10);
    expect(fired).toEqual(['now', 'past', 'first', 'second']);
    expect(clock.pending).toBe(1);
    await clock.advance(10);
    expect(fired.at(-1)).toBe('late');
  });

  it('V2: a timer sees its own due time, and a timer it sets counts from there', async () => {
    const clock = manualClock(0);
    const seen: number[] = [];
    clock.setTimer(() => {
      seen.push(clock.now());
      clock.setTimer(() => seen.push(clock.now()), 5);
    }, 10);
    await clock.advance(100);
    expect(seen).toEqual([10, 15]);
    expect(clock.now()).toBe(100);
  });

  it('V3: microtasks and immediates caused by a timer run before the next timer fires', async () => {
    const clock = manualClock();
    const order: string[] = [];
    clock.setTimer(() => {
      queueMicrotask(() => {
        setImmediate(() => {
          order.push('caused');
          clock.setTimer(() => order.push('set late'), 1);
        });
      });
    }, 1);
    clock.setTimer(() => order.push('next'), 3);
    await clock.advance(3);
    expect(order).toEqual(['caused', 'set late', 'next']);
  });

  it('runAll moves to the last timer, and gives up if timers never end', async () => {
    const clock = manualClock(0);
    clock.setTimer(() => clock.setTimer(() => {}, 90), 10);
    await clock.runAll();
    expect([clock.now(), clock.pending]).toEqual([100, 0]);
  });

  it('rejects with the error that a timer throws', async () => {
    const clock = manualClock();
    clock.setTimer(() => {
      throw new Error('from the timer');
    }, 1);
    await expect(clock.advance(1)).rejects.toThrow('from the timer');
  });
});
