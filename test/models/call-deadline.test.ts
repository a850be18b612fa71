import { describe, expect, it } from 'vitest';
import { CallDeadline } from '../../src/models/call-deadline.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';

const LIMITS = { firstByteMs: 100, idleMs: 30, totalMs: 1_000 };

function start(limits: Partial<typeof LIMITS> = {}): {
  readonly clock: ManualClock;
  readonly deadline: CallDeadline;
  readonly told: readonly unknown[];
} {
  const clock = manualClock();
  const told: unknown[] = [];
  const startMs = clock.monotonic();
  const deadline = new CallDeadline(clock, { ...LIMITS, ...limits }, (phase, limitMs) => {
    told.push([phase, limitMs, clock.monotonic() - startMs]);
  });
  return { clock, deadline, told };
}

describe('CallDeadline', () => {
  it('F23: a call that received no byte times out at the first-byte deadline', async () => {
    const { clock, told } = start();
    await clock.advance(99);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual([['ttfb', 100, 100]]);
    expect(clock.pending).toBe(0);
  });

  it('F23, D2: the silence deadline counts from the last byte, and may come before the first-byte deadline', async () => {
    const { clock, deadline, told } = start();
    await clock.advance(10);
    deadline.heard();
    await clock.advance(29);
    deadline.heard();
    await clock.advance(29);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual([['idle', 30, 69]]);
  });

  it('F23: the silence deadline is shorter after the last event only', async () => {
    const { clock, deadline, told } = start();
    deadline.heard();
    await clock.advance(10);
    deadline.ending(5);
    deadline.ending(5);
    await clock.advance(4);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual([['idle', 5, 15]]);
  });

  it('F23: the duration of the whole call is bounded, whatever arrives', async () => {
    const { clock, deadline, told } = start();
    for (let ms = 0; ms < 1_000; ms += 20) {
      deadline.heard();
      await clock.advance(20);
    }
    expect(told).toEqual([['total', 1_000, 1_000]]);
  });

  it('F23, D1: a call that has ended never times out', async () => {
    const { clock, deadline, told } = start();
    deadline.heard();
    deadline.end();
    deadline.heard();
    await clock.advance(5_000);
    expect(told).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('D3: a call uses one timer, however many chunks arrive', async () => {
    const { clock, deadline } = start();
    for (let chunk = 0; chunk < 50; chunk += 1) {
      deadline.heard();
      expect(clock.pending).toBe(1);
      await clock.advance(7);
    }
  });

  it('F23: if two deadlines are due together, the reason is the one of the whole call', async () => {
    const { clock, told } = start({ totalMs: 100 });
    await clock.advance(100);
    expect(told).toEqual([['total', 100, 100]]);
  });
});
