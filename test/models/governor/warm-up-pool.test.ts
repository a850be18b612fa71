// Goal: a held call leaves or completes exactly once, whatever becomes of the call that warms its prompt. Method: a
// clock moved by hand, and an inner pool controlled by the test.
import { describe, expect, test } from 'vitest';
import { CACHE_LONG_MS, CACHE_SHORT_MS, WARM_UP_GATHER_MS } from '../../../src/base/bounds.ts';
import { type ErrorShape, errorShape } from '../../../src/base/errors.ts';
import { createWarmUpPool } from '../../../src/models/governor/warm-up-pool.ts';
import { modelErrorOf } from '../../../src/models/model-error.ts';
import type {
  ModelCall,
  ModelCompletion,
  ModelPool,
  ModelPoolListener,
  RequestHeader,
} from '../../../src/models/pool.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';

const SYSTEM = 'word '.repeat(10_000);
const HEADER: RequestHeader = { model: 'claude-opus-5-5', max_tokens: 100, system: SYSTEM };

function call(id: number, header: RequestHeader = HEADER): ModelCall {
  const append = [{ role: 'user' as const, content: `call ${id}` }];
  const context = { epoch: 1, keep: 0, append, header };
  return { id, session: `s${id}`, context, wantsDeltas: false, timeoutMs: 60_000, waitsForResume: true };
}

interface Stage {
  readonly pool: ModelPool;
  readonly clock: ManualClock;
  /** The calls that left, in order. */
  readonly left: ModelCall[];
  readonly notes: string[];
  readonly ended: [id: number, how: string][];
  readonly ids: () => readonly number[];
  answer(id: number): void;
  fail(id: number): void;
}

function stage(): Stage {
  const clock = manualClock();
  const [left, notes, ended]: [ModelCall[], string[], [number, string][]] = [[], [], []];
  let inner: ModelPoolListener | undefined;
  const pool = createWarmUpPool({
    clock,
    soon: (run) => queueMicrotask(run),
    listener: {
      completed: (list: readonly ModelCompletion[]) => {
        for (const each of list) ended.push([each.id, 'error' in each ? each.error.code : 'answered']);
      },
      delta: () => undefined,
    },
    makePool: (listener) => {
      inner = listener;
      return {
        call: (each) => left.push(each),
        holds: () => false,
        wantsDeltas: (id, isWanted) => notes.push(`wants ${id} ${isWanted}`),
        cancel: (id) => notes.push(`cancel ${id}`),
        forget: (session) => notes.push(`forget${session}`),
        close: () => Promise.resolve(),
      };
    },
  });
  const usage = { input_tokens: 1, output_tokens: 1 };
  const error: ErrorShape = errorShape(modelErrorOf({ status: 500, message: 'no' }));
  return {
    ...{ pool, clock, left, notes, ended },
    ids: () => left.map(({ id }) => id),
    answer: (id) => inner?.completed([{ id, response: { content: [], stop_reason: 'end_turn', usage }, ms: 1 }]),
    fail: (id) => inner?.completed([{ id, error, ms: 1 }]),
  };
}

describe('a cold prompt', () => {
  test('U2: calls that come together leave after the call that warms it, in their order; more may join', async () => {
    const { pool, clock, ids, left, answer, notes } = stage();
    pool.call(call(1));
    pool.call(call(2));
    expect(ids()).toEqual([]);
    expect(pool.waitOf?.(1)?.detail).toMatch(/cache is warmed/);
    await clock.advance(WARM_UP_GATHER_MS);
    expect(ids()).toEqual([-1]);
    expect(left[0]?.context).toMatchObject({ keep: 0, header: { max_tokens: 0, system: SYSTEM } });
    pool.call(call(3));
    answer(-1);
    expect(ids()).toEqual([-1, 1, 2, 3]);
    expect(left.slice(1)).toEqual([call(1), call(2), call(3)]);
    expect(notes).toEqual(['forget warm-up 1']);
    expect(clock.pending).toBe(0);
  });

  test('U2: the calls leave when the warming fails, and the next calls try to warm it again', async () => {
    const { pool, clock, ids, fail, ended } = stage();
    pool.call(call(1));
    pool.call(call(2));
    await clock.advance(WARM_UP_GATHER_MS);
    fail(-1);
    expect(ids()).toEqual([-1, 1, 2]);
    expect(ended).toEqual([]);
    pool.call(call(3));
    pool.call(call(4));
    await clock.advance(WARM_UP_GATHER_MS);
    expect(ids()).toEqual([-1, 1, 2, -2]);
  });

  test('U4: a call that stays alone leaves without another', async () => {
    const { pool, clock, ids } = stage();
    pool.call(call(1));
    await clock.advance(WARM_UP_GATHER_MS);
    expect(ids()).toEqual([1]);
  });

  test('a prompt is what the provider caches: other tools or another system prompt are another one', async () => {
    const { pool, clock, ids } = stage();
    pool.call(call(1));
    pool.call(call(2, { ...HEADER, system: `${SYSTEM} more` }));
    pool.call(call(3, { ...HEADER, max_tokens: 7 }));
    await clock.advance(WARM_UP_GATHER_MS);
    expect(ids()).toEqual([-1, 2]);
  });

  test('a thinking budget is left out of the call that warms, since it must be smaller than max_tokens', async () => {
    const { pool, clock, left } = stage();
    const header = {
      ...HEADER,
      model: 'claude-sonnet-4-5',
      thinking: { type: 'enabled', budget_tokens: 1_024 },
    } as const;
    pool.call(call(1, header));
    pool.call(call(2, header));
    await clock.advance(WARM_UP_GATHER_MS);
    expect(left[0]?.context.header).not.toHaveProperty('thinking');
  });
});

test('U4: a warm prompt holds no call back; it is warm for as long as the cache lasts, and longer if it is read', async () => {
  for (const [header, cacheMs] of [
    [HEADER, CACHE_SHORT_MS],
    [{ ...HEADER, transport: { cacheTtl: '1h' } }, CACHE_LONG_MS],
  ] as const) {
    const { pool, clock, ids, answer } = stage();
    pool.call(call(1, header));
    pool.call(call(2, header));
    await clock.advance(WARM_UP_GATHER_MS);
    answer(-1);
    await clock.advance(cacheMs - WARM_UP_GATHER_MS - 1);
    pool.call(call(3, header));
    expect(ids()).toEqual([-1, 1, 2, 3]);
    await clock.advance(cacheMs - 1);
    pool.call(call(4, header));
    expect(ids()).toEqual([-1, 1, 2, 3, 4]);
    await clock.advance(cacheMs);
    pool.call(call(5, header));
    expect(ids()).toEqual([-1, 1, 2, 3, 4]);
  }
});

test('U3: a call that builds on a mirror, or whose prompt is too short to be cached, leaves at once', () => {
  const { pool, ids } = stage();
  pool.call({ ...call(1), context: { epoch: 1, keep: 2, append: [] } });
  pool.call(call(2, { ...HEADER, system: 'Be brief.' }));
  expect(ids()).toEqual([1, 2]);
});

describe('the end of a held call', () => {
  test('U1: a cancelled call completes once, later, and never leaves', async () => {
    const { pool, clock, ids, ended, answer } = stage();
    for (const id of [1, 2, 3]) pool.call(call(id));
    await clock.advance(WARM_UP_GATHER_MS);
    pool.cancel(2);
    expect(ended).toEqual([]);
    await clock.advance(0);
    expect(ended).toEqual([[2, 'cancelled']]);
    answer(-1);
    expect(ids()).toEqual([-1, 1, 3]);
  });

  test('U1, U5: closing ends the held calls, and leaves no timer', async () => {
    const { pool, clock, ids, ended } = stage();
    pool.call(call(1));
    pool.call(call(2));
    await pool.close();
    expect(ended).toEqual([
      [1, 'cancelled'],
      [2, 'cancelled'],
    ]);
    expect(clock.pending).toBe(0);
    pool.call(call(3));
    expect(ids()).toEqual([3]);
  });

  test('U1: closing while the cache is warmed ends the held calls once, and none of them leaves', async () => {
    const { pool, clock, ids, ended, fail } = stage();
    pool.call(call(1));
    pool.call(call(2));
    await clock.advance(WARM_UP_GATHER_MS);
    const closed = pool.close();
    fail(-1);
    await closed;
    expect(ids()).toEqual([-1]);
    expect(ended).toEqual([
      [1, 'cancelled'],
      [2, 'cancelled'],
    ]);
  });

  test('U1: the wish for deltas is kept until the call leaves', async () => {
    const { pool, clock, left, notes } = stage();
    pool.call(call(1));
    pool.wantsDeltas(1, true);
    await clock.advance(WARM_UP_GATHER_MS);
    expect(left).toEqual([{ ...call(1), wantsDeltas: true }]);
    pool.wantsDeltas(1, false);
    expect(notes).toEqual(['wants 1 false']);
  });
});
