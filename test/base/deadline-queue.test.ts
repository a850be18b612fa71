// Goal: many deadlines on one timer behave like one timer each, for any order of adding, removing and passing of time.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { type Deadline, DeadlineQueue } from '../../src/base/deadline-queue.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';

/** A clock that moves without a tick. Its timers fire up to `early` ms too early. */
class StepClock implements Clock {
  #now = 0;
  #timers: { readonly at: number; readonly run: () => void }[] = [];
  timersSet = 0;

  get pending(): number {
    return this.#timers.length;
  }
  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  setTimer(run: () => void, delayMs: number): unknown {
    this.timersSet += 1;
    const timer = { at: this.#now + delayMs, run };
    this.#timers.push(timer);
    return timer;
  }
  clearTimer(timer: unknown): void {
    this.#timers = this.#timers.filter((each) => each !== timer);
  }
  /** Moves to each timer in turn, `early` ms before it is due. */
  move(ms: number, early = 0): void {
    const end = this.#now + ms;
    for (;;) {
      const [next] = this.#timers.filter(({ at }) => at - early <= end).sort((one, other) => one.at - other.at);
      if (next === undefined) break;
      this.clearTimer(next);
      this.#now = Math.max(this.#now, next.at - early);
      next.run();
    }
    this.#now = end;
  }
}

function stage(clock: Clock) {
  const told: string[] = [];
  const queue = new DeadlineQueue<string>(clock, (item) => told.push(item));
  return { told, queue, add: (item: string, delayMs: number) => queue.add(item, clock.monotonic(), delayMs) };
}

describe('DeadlineQueue', () => {
  test('D1, D2, D3: any adding, removing and passing of time gives the same as a sorted list', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), ms: fc.nat(40) }),
      fc.record({ kind: fc.constant('remove' as const), ms: fc.nat(60) }),
      fc.record({ kind: fc.constant('move' as const), ms: fc.nat(15) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.constantFrom(0, 0.5), (steps, early) => {
        const clock = new StepClock();
        const { told, queue, add } = stage(clock);
        const all: Deadline<string>[] = [];
        const expected: Deadline<string>[] = [];
        let waiting: Deadline<string>[] = [];
        for (const { kind, ms } of steps) {
          if (kind === 'add') {
            const deadline = add(`${all.length}`, ms);
            all.push(deadline);
            waiting.push(deadline);
          } else if (kind === 'remove') {
            const deadline = all[ms];
            if (deadline !== undefined) queue.remove(deadline);
            waiting = waiting.filter((each) => each !== deadline);
          } else {
            clock.move(ms, early);
            const due = waiting.filter((each) => each.place < 0);
            for (const { at } of due) expect(at).toBeLessThanOrEqual(clock.monotonic());
            // If a timer fires before a deadline, the deadline comes with the next timer, a millisecond later.
            for (const { at } of waiting) if (early === 0 && at < clock.monotonic()) expect(due).not.toEqual([]);
            expected.push(...due.sort((one, other) => one.at - other.at || one.order - other.order));
            waiting = waiting.filter((each) => each.place >= 0);
            for (const { at } of waiting) expect(at).toBeGreaterThan(clock.monotonic() - 1 - early);
          }
          expect(told).toEqual(expected.map(({ item }) => item));
          expect(queue.size).toBe(waiting.length);
          expect(clock.pending).toBe(waiting.length === 0 ? 0 : 1);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('D3: a thousand equal deadlines that are all removed need two timers', () => {
    const clock = new StepClock();
    const { told, queue, add } = stage(clock);
    let open: Deadline<string>[] = [];
    for (let round = 0; round < 100; round += 1) {
      const next = Array.from({ length: 10 }, (_unused, at) => add(`${round} ${at}`, 60_000));
      for (const deadline of open) queue.remove(deadline);
      open = next;
      clock.move(1_000);
    }
    for (const deadline of open) queue.remove(deadline);
    expect(clock.timersSet).toBeLessThanOrEqual(3);
    expect(clock.pending).toBe(0);
    expect(told).toEqual([]);
  });

  test('D1: the earliest deadline moves the timer; a deadline removed by another due deadline does not fire', async () => {
    const clock = manualClock();
    const told: string[] = [];
    const open = new Map<string, Deadline<string>>();
    const queue: DeadlineQueue<string> = new DeadlineQueue(clock, (item) => {
      told.push(`${item} ${clock.monotonic()}`);
      const victim = open.get('victim');
      if (item === 'first' && victim !== undefined) queue.remove(victim);
      if (item === 'first') queue.add('again', clock.monotonic(), 5);
    });
    for (const [item, delayMs] of [
      ['late', 100],
      ['first', 10],
      ['victim', 10],
    ] as const) {
      open.set(item, queue.add(item, clock.monotonic(), delayMs));
    }
    await clock.runAll();
    expect(told).toEqual(['first 10', 'again 15', 'late 100']);
    expect(queue.size).toBe(0);
    expect(clock.pending).toBe(0);
  });

  test('deadlines within a millisecond fire, and none fires early', async () => {
    const clock = manualClock(0.1);
    const { told, add } = stage(clock);
    add('a', 0.3);
    add('b', 0);
    await clock.advance(0.5);
    expect(told).toEqual([]);
    await clock.runAll();
    expect(told).toEqual(['b', 'a']);
  });
});
