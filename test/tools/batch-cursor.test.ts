// Goal: the pool and a thread agree on which calls have begun, without exchanging messages.
import { describe, expect, test } from 'vitest';
import { BATCH_CALLS_MAX, BatchCursor } from '../../src/tools/batch-cursor.ts';

function pair(calls: number): { readonly pool: BatchCursor; readonly thread: BatchCursor } {
  const pool = BatchCursor.before(calls);
  return { pool, thread: new BatchCursor(structuredClone(pool.memory)) };
}

describe('BatchCursor', () => {
  test('C2: calls are claimed in order, each once', () => {
    const { pool, thread } = pair(2);
    expect(pool.claimed).toBe(0);
    expect([thread.claim(), thread.claim(), thread.claim()]).toEqual([0, 1, undefined]);
    expect(pool).toMatchObject({ claimed: 2, end: 2 });
  });

  test('C1: a call taken back is not claimed, a claimed call is not taken back', () => {
    const { pool, thread } = pair(5);
    thread.claim();
    thread.claim();
    expect(pool.takeBack(3)).toBe(3);
    expect(pool.takeBack(0)).toBe(2);
    expect(thread.claim()).toBeUndefined();
    expect(thread).toMatchObject({ claimed: 2, end: 2 });
  });

  test('C1: taking back a call that has already left does nothing', () => {
    const { pool } = pair(4);
    expect(pool.takeBack(1)).toBe(1);
    expect(pool.takeBack(3)).toBe(1);
  });

  test('A9: a batch is bounded, and holds at least one call', () => {
    expect(BatchCursor.before(BATCH_CALLS_MAX).end).toBe(BATCH_CALLS_MAX);
    expect(() => BatchCursor.before(BATCH_CALLS_MAX + 1)).toThrow();
    expect(() => BatchCursor.before(0)).toThrow();
  });
});
