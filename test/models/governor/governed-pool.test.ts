// Goal: a waiting call is sent once, in its order, with a delta that fits, or it receives a completion. Method: a clock
// moved by hand, and a pool controlled by the test.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { GOVERNED_CALLS_MAX, GOVERNOR_FAILURES_MAX } from '../../../src/base/bounds.ts';
import { type ErrorShape, errorShape } from '../../../src/base/errors.ts';
import { createGovernedPool, type ProviderStop } from '../../../src/models/governor/governed-pool.ts';
import type { Trouble } from '../../../src/models/governor/governor.ts';
import type { GovernorLimits } from '../../../src/models/governor/limits.ts';
import { createRateMemory, RateTable } from '../../../src/models/governor/rate-table.ts';
import { modelErrorOf } from '../../../src/models/model-error.ts';
import type {
  ContextDelta,
  ModelCall,
  ModelCompletion,
  ModelPool,
  ModelPoolListener,
} from '../../../src/models/pool.ts';
import { createInPlacePool } from '../../../src/models/pools/in-place-pool.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';

/** The governed pool: records its inputs, and completes the calls that the test names. */
class HeldPool implements ModelPool {
  readonly calls: ModelCall[] = [];
  readonly told: string[] = [];
  /** The calls that have not ended. */
  readonly out = new Set<number>();
  readonly holding = new Set<string>();
  readonly listener: ModelPoolListener;

  constructor(listener: ModelPoolListener) {
    this.listener = listener;
  }

  call(call: ModelCall): void {
    this.calls.push(call);
    this.out.add(call.id);
  }
  holds(session: string): boolean {
    return this.holding.has(session);
  }
  wantsDeltas(id: number, isWanted: boolean): void {
    this.told.push(`wants ${id} ${isWanted}`);
  }
  cancel(id: number): void {
    this.told.push(`cancel ${id}`);
  }
  forget(session: string): void {
    this.told.push(`forget ${session}`);
  }
  async close(): Promise<void> {
    this.told.push('close');
    await Promise.resolve();
    for (const id of this.out) this.end(id);
  }

  get ids(): readonly number[] {
    return this.calls.map(({ id }) => id);
  }
  answer(...ids: readonly number[]): void {
    const usage = { input_tokens: 1, output_tokens: 1 };
    for (const id of ids) this.out.delete(id);
    this.listener.completed(
      ids.map((id) => ({ id, response: { content: [], stop_reason: 'end_turn', usage }, ms: 1 })),
    );
  }
  /** Ends a call as cancelled. */
  end(id: number): void {
    this.out.delete(id);
    const error: ErrorShape = { name: 'CancelledError', code: 'cancelled', message: 'gone' };
    this.listener.completed([{ id, error, ms: 1 }]);
  }
  fail(id: number, failure: { readonly status: number; readonly retryAfterMs?: number }): void {
    const error: ErrorShape = errorShape(modelErrorOf({ message: 'no', ...failure }));
    this.out.delete(id);
    this.listener.completed([{ id, error, ms: 1 }]);
  }
}

interface Stage {
  readonly pool: ModelPool;
  readonly behind: HeldPool;
  readonly clock: ManualClock;
  readonly completions: ModelCompletion[];
  readonly troubles: Trouble[];
  readonly stops: ProviderStop[];
  readonly waiting: () => number;
  readonly ended: () => readonly [number, string][];
}

function stage(limits?: GovernorLimits): Stage {
  const clock = manualClock();
  const completions: ModelCompletion[] = [];
  const troubles: Trouble[] = [];
  const stops: ProviderStop[] = [];
  let behind: HeldPool | undefined;
  let waiting = 0;
  const pool = createGovernedPool({
    rates: new RateTable(createRateMemory()),
    limits,
    clock,
    random: () => 0,
    listener: { completed: (list) => void completions.push(...list), delta: () => undefined },
    makePool: (listener) => {
      behind = new HeldPool(listener);
      return behind;
    },
    onWaiting: (count) => {
      waiting = count;
    },
    onTrouble: (trouble) => void troubles.push(trouble),
    onStop: (stop) => void stops.push(stop),
  });
  if (behind === undefined) throw new Error('no pool was made');
  const ended = (): [number, string][] =>
    completions.map((each) => [each.id, 'error' in each ? each.error.code : 'answered']);
  return { pool, behind, clock, completions, troubles, stops, waiting: () => waiting, ended };
}

const HEADER = { model: 'm', max_tokens: 1 };

function call(id: number, changes: Partial<ModelCall> = {}): ModelCall {
  const append = [{ role: 'user' as const, content: `call ${id}` }];
  const context = { epoch: 1, keep: 0, append, header: HEADER };
  return { id, session: `s${id}`, context, wantsDeltas: false, timeoutMs: 60_000, waitsForResume: true, ...changes };
}

/** A call of the session `s<id>` to a model. */
function ofModel(id: number, model: string): ModelCall {
  const header = { ...HEADER, model };
  return call(id, { context: { epoch: 1, keep: 0, append: [{ role: 'user', content: 'x' }], header } });
}

const DELTA: ContextDelta = { epoch: 1, keep: 3, append: [{ role: 'user', content: 'new' }] };
const WHOLE: ContextDelta = { epoch: 1, keep: 0, append: [{ role: 'user', content: 'all' }], header: HEADER };

describe('a call that does not wait for resume completes as cancelled, whether it waits already or is new', () => {
  test('N7: is passed on at once and unchanged', () => {
    const { pool, behind, clock } = stage();
    const first = call(1);
    pool.call(first);
    expect(behind.calls).toEqual([first]);
    expect(behind.calls[0]).toBe(first);
    expect(clock.pending).toBe(0);
    pool.cancel(1);
    pool.wantsDeltas(1, true);
    pool.forget('s1');
    expect(behind.told).toEqual(['cancel 1', 'wants 1 true', 'forget s1']);
  });
});

describe('waiting', () => {
  test('F20, G2: one 429 holds back the calls of all sessions; after the pause they leave gradually, in turn', async () => {
    const { pool, behind, clock, waiting, troubles } = stage();
    pool.call(call(1));
    behind.fail(1, { status: 429, retryAfterMs: 30_000 });
    expect(troubles).toMatchObject([{ kind: 'pause', waitMs: 30_000 }]);
    for (let id = 2; id <= 9; id += 1) pool.call(call(id));
    expect(behind.ids).toEqual([1]);
    expect(waiting()).toBe(8);
    await clock.advance(29_999);
    expect(behind.ids).toEqual([1]);
    await clock.advance(1);
    expect(behind.ids).toEqual([1, 2]);
    behind.answer(2);
    expect(behind.ids).toEqual([1, 2, 3, 4]);
    behind.answer(3, 4);
    expect(behind.ids).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    behind.answer(5);
    expect(waiting()).toBe(0);
    expect(clock.pending, 'G5').toBe(0);
  });

  test('G2, E3: while the rate of one model is used up, calls of others leave; a model with many calls does not delay one with few', async () => {
    const { pool, behind, clock, completions } = stage();
    pool.call(ofModel(1, 'small'));
    pool.call(ofModel(2, 'large'));
    const answered = (id: number, remaining: number): void =>
      behind.listener.completed([
        {
          id,
          ms: 1,
          response: {
            content: [],
            stop_reason: 'end_turn',
            usage: { input_tokens: 1, output_tokens: 1 },
            rateLimits: { requests: { limit: 60, remaining } },
          },
        },
      ]);
    answered(1, 0);
    answered(2, 60);
    for (let id = 3; id <= 9; id += 1) pool.call(ofModel(id, 'small'));
    pool.call(ofModel(10, 'large'));
    expect(behind.ids).toEqual([1, 2, 10]);
    expect(pool.waitOf?.(3)?.detail).toContain('the rate that the provider reports is used up');
    pool.cancel(4);
    await clock.advance(4_000);
    expect(behind.ids).toEqual([1, 2, 10, 3]);
    expect(completions.find(({ id }) => id === 4)).toMatchObject({ error: { code: 'cancelled' } });
    await clock.advance(60_000);
    expect(behind.ids).toEqual([1, 2, 10, 3, 5, 6, 7, 8, 9]);
    expect(clock.pending, 'G5').toBe(0);
  });

  test('E3: models alternate when all of them may call', () => {
    const { pool, behind } = stage({ concurrency: 1 });
    pool.call(ofModel(1, 'a'));
    for (const id of [2, 3, 4, 5]) pool.call(ofModel(id, 'a'));
    for (const id of [6, 7]) pool.call(ofModel(id, 'b'));
    for (const id of [1, 2, 6, 3, 7, 4]) behind.answer(id);
    expect(behind.ids).toEqual([1, 2, 6, 3, 7, 4, 5]);
  });

  test('G2: a call that arrives while others wait is queued behind them, even if there is room by then', () => {
    const { pool, behind } = stage({ concurrency: 1 });
    const asked: number[] = [];
    pool.call(call(1));
    pool.call(call(2));
    behind.listener.completed([]);
    behind.answer(1);
    asked.push(...behind.ids);
    pool.call(call(3));
    behind.answer(2);
    expect(asked).toEqual([1, 2]);
    expect(behind.ids).toEqual([1, 2, 3]);
  });

  test('E1: a tree of many children and a single session take turns', () => {
    const { pool, behind } = stage({ concurrency: 1 });
    pool.call(call(1, { session: 'big' }));
    for (let id = 2; id <= 6; id += 1) pool.call(call(id, { session: `big:${id}` }));
    pool.call(call(7, { session: 'small' }));
    for (let last = 1; last !== undefined && behind.ids.length < 7; last = behind.ids.at(-1) ?? 0) behind.answer(last);
    expect(behind.ids).toEqual([1, 2, 7, 3, 4, 5, 6]);
  });

  test('G1, G3: a cancelled call never leaves and completes once, in a later tick; the timer ends with the last call', async () => {
    const { pool, behind, clock, ended } = stage({ requestsPerMinute: 1 });
    pool.call(call(1));
    pool.call(call(2));
    expect(clock.pending).toBe(1);
    pool.cancel(2);
    pool.cancel(2);
    expect(ended()).toEqual([]);
    expect(clock.pending, 'G5').toBe(0);
    await clock.advance(120_000);
    expect(ended()).toEqual([[2, 'cancelled']]);
    expect(behind.ids).toEqual([1]);
  });

  test('G3: the timeout counts from the moment the call leaves', async () => {
    const clock = manualClock();
    const completions: ModelCompletion[] = [];
    const requests: ModelRequest[] = [];
    const provider: ModelProvider = {
      name: 'silent',
      generate: (request) => {
        requests.push(request);
        return new Promise(() => undefined);
      },
    };
    const pool = createGovernedPool({
      rates: new RateTable(createRateMemory()),
      limits: { requestsPerMinute: 1 },
      clock,
      random: () => 0,
      listener: { completed: (list) => void completions.push(...list), delta: () => undefined },
      makePool: (listener) => createInPlacePool(provider, listener, clock),
    });
    pool.call(call(1, { timeoutMs: 5_000 }));
    pool.call(call(2, { timeoutMs: 5_000 }));
    await clock.advance(60_000);
    expect(completions).toMatchObject([{ id: 1, error: { code: 'model_timeout' }, ms: 5_000 }]);
    expect(requests).toHaveLength(2);
    await clock.advance(4_999);
    expect(completions).toHaveLength(1);
    await clock.advance(1);
    expect(completions[1]).toMatchObject({ id: 2, error: { code: 'model_timeout' }, ms: 5_000 });
    await pool.close();
  });

  test('a watch that begins or ends while its call waits takes effect when the call leaves', () => {
    const { pool, behind } = stage({ concurrency: 1 });
    pool.call(call(1));
    pool.call(call(2));
    pool.wantsDeltas(2, true);
    expect(behind.told).toEqual([]);
    behind.answer(1);
    expect(behind.calls[1]).toMatchObject({ id: 2, wantsDeltas: true });
  });

  test('A9: beyond the bound a call is refused as retryable, and completes in a later tick', async () => {
    const { pool, behind, clock, completions } = stage({ concurrency: 1 });
    for (let id = 1; id <= GOVERNED_CALLS_MAX + 1; id += 1) pool.call(call(id));
    pool.call(call(0));
    expect(completions).toEqual([]);
    await clock.advance(0);
    expect(behind.ids).toEqual([1]);
    const refused = { id: 0, error: { code: 'model_rate_limited', retryable: true, data: { retryAfterMs: 1_000 } } };
    expect(completions).toMatchObject([refused]);
  });

  test('G1: close completes waiting calls as cancelled before it resolves', async () => {
    const { pool, behind, clock, ended } = stage({ requestsPerMinute: 1 });
    for (let id = 1; id <= 3; id += 1) pool.call(call(id));
    const closed = pool.close();
    expect(ended()).toEqual([]);
    await closed;
    expect(ended()).toEqual([
      [1, 'cancelled'],
      [2, 'cancelled'],
      [3, 'cancelled'],
    ]);
    expect(clock.pending).toBe(0);
    expect(behind.told).toEqual(['close']);
    pool.call(call(4));
    await clock.advance(120_000);
    expect(ended().at(-1)).toEqual([4, 'cancelled']);
    expect(behind.ids).toEqual([1]);
  });
});

test('G1, N1: whatever happens, each call ends once, leaves at most once, and the number of calls in flight is bounded', async () => {
  const id = fc.nat({ max: 30 });
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant('call' as const), tree: fc.nat({ max: 3 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('answer' as const), id }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('fail' as const),
        id,
        status: fc.constantFrom(429, 529, 500, 401, 404, 400),
        retryAfterMs: fc.constantFrom(0, 5_000),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), id }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, 1_000, 60_000) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('resume' as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.boolean(), async (steps, isLimited) => {
      const { pool, behind, clock, completions, ended } = stage(
        isLimited ? { concurrency: 2, requestsPerMinute: 5, inputTokensPerMinute: 500 } : undefined,
      );
      let lastId = 0;
      for (const each of steps) {
        const before = completions.length;
        if (each.do === 'call') {
          lastId += 1;
          pool.call(call(lastId, { session: `t${each.tree}:${lastId}` }));
          expect(completions.length).toBe(before);
        } else if (each.do === 'answer' && behind.out.has(each.id)) behind.answer(each.id);
        else if (each.do === 'fail' && behind.out.has(each.id)) {
          behind.fail(each.id, { status: each.status, retryAfterMs: each.retryAfterMs });
        } else if (each.do === 'cancel') {
          pool.cancel(each.id);
          expect(completions.length).toBe(before);
          if (behind.out.has(each.id)) behind.end(each.id);
        } else if (each.do === 'advance') await clock.advance(each.ms);
        else if (each.do === 'resume') pool.resume?.();
        if (isLimited) expect(behind.out.size).toBeLessThanOrEqual(2);
      }
      await pool.close();
      expect(new Set(behind.ids).size).toBe(behind.ids.length);
      const ids = ended().map(([endedId]) => endedId);
      expect([...ids].sort((a, b) => a - b)).toEqual(Array.from({ length: lastId }, (_, index) => index + 1));
      expect(clock.pending).toBe(0);
    }),
    { numRuns: 150 },
  );
});

describe('G4: the delta of a call that waited', () => {
  const waitsWith = (isHeldThen: boolean, whole?: () => ContextDelta) => {
    const { pool, behind } = stage({ concurrency: 1 });
    behind.holding.add('s2');
    pool.call(call(1));
    expect(pool.holds('s2', 1, 3)).toBe(true);
    pool.call(call(2, { context: DELTA }), whole);
    if (!isHeldThen) {
      behind.holding.delete('s2');
      pool.forget('s2');
    }
    behind.answer(1);
    return behind.calls[1]?.context;
  };

  test('G4: is sent unchanged if the mirror still matches', () => {
    expect(waitsWith(true, () => WHOLE)).toBe(DELTA);
  });

  test('G4: is replaced by the whole request if the mirror was forgotten, displaced or lost meanwhile', () => {
    expect(waitsWith(false, () => WHOLE)).toBe(WHOLE);
  });

  test('G4: with a real mirror the model receives the whole request', async () => {
    const clock = manualClock();
    const requests: ModelRequest[] = [];
    const provider: ModelProvider = {
      name: 'noting',
      generate: (request) => {
        requests.push(request);
        const usage = { input_tokens: 1, output_tokens: 1 };
        return Promise.resolve({ content: [{ type: 'text', text: 'ok' }], stop_reason: 'end_turn', usage });
      },
    };
    const completions: ModelCompletion[] = [];
    const pool = createGovernedPool({
      rates: new RateTable(createRateMemory()),
      limits: { requestsPerMinute: 1 },
      clock,
      random: () => 0,
      listener: { completed: (list) => void completions.push(...list), delta: () => undefined },
      makePool: (listener) => createInPlacePool(provider, listener, clock),
    });
    pool.call(call(1, { session: 's' }));
    await clock.advance(0);
    expect(pool.holds('s', 1, 1)).toBe(true);
    const append = [{ role: 'user' as const, content: 'second' }];
    const first = { role: 'user' as const, content: 'call 1' };
    pool.call(call(2, { session: 's', context: { epoch: 1, keep: 1, append } }), () => ({
      ...WHOLE,
      append: [first, ...append],
    }));
    pool.forget('s');
    await clock.advance(60_000);
    expect(completions.map((each) => 'response' in each)).toEqual([true, true]);
    expect(requests[1]?.messages).toEqual([first, ...append]);
    await pool.close();
  });
});

describe('calls refused for all sessions', () => {
  test('F36, G6: with ten thousand sessions one call is sent; the others wait, and all leave after resume', async () => {
    const { pool, behind, clock, ended, troubles, waiting } = stage({ concurrency: 1 });
    for (let id = 1; id <= 5_000; id += 1) pool.call(call(id));
    behind.fail(1, { status: 401 });
    for (let id = 5_001; id <= 10_000; id += 1) pool.call(call(id));
    await clock.advance(3_600_000);
    expect(behind.ids).toEqual([1]);
    expect(ended()).toEqual([[1, 'model_authentication']]);
    expect(troubles).toMatchObject([{ kind: 'credentials' }]);
    expect([pool.stopped, waiting()]).toEqual([9_999, 9_999]);
    expect(pool.waitOf?.(10_000)).toMatchObject({
      detail: expect.stringContaining('resume()'),
      refusal: { code: 'model_authentication' },
    });
    pool.resume?.();
    expect([pool.stopped, behind.ids.length]).toEqual([0, 2]);
    for (let id = 2; id <= 10_000; id += 1) behind.answer(id);
    expect(behind.ids).toHaveLength(10_000);
    expect(new Set(ended().map(([id]) => id)).size).toBe(10_000);
  });

  test('F36: a call that does not wait for resume completes as cancelled, waiting or new', async () => {
    const { pool, behind, clock, ended } = stage({ concurrency: 1 });
    const changes = { waitsForResume: false };
    pool.call(call(1));
    pool.call(call(2, changes));
    behind.fail(1, { status: 403 });
    pool.call(call(3, changes));
    pool.call(call(4));
    await clock.advance(0);
    expect(ended()).toEqual([
      [1, 'model_authentication'],
      [2, 'cancelled'],
      [3, 'cancelled'],
    ]);
    expect(pool.stopped).toBe(1);
  });

  test('F37: a model that is not found fails its own calls, also those with deltas, and no other', async () => {
    const { pool, behind, clock, ended } = stage();
    const other = { ...WHOLE, header: { ...HEADER, model: 'other' } };
    pool.call(call(1, { session: 'old' }));
    pool.call(call(2, { session: 'older' }));
    behind.answer(2);
    behind.fail(1, { status: 404 });
    pool.call(call(3, { session: 'older', context: DELTA }));
    pool.call(call(4, { session: 'new', context: other }));
    await clock.advance(0);
    expect(ended()).toEqual([
      [2, 'answered'],
      [1, 'model_invalid_request'],
      [3, 'model_invalid_request'],
    ]);
    expect(behind.ids).toEqual([1, 2, 4]);
    pool.resume?.();
    pool.call(call(5, { session: 'older', context: DELTA }));
    expect(behind.ids).toEqual([1, 2, 4, 5]);
  });
});

test('each change of what stops all calls is reported once, after the state at the start', async () => {
  const { pool, behind, clock, stops } = stage();
  const well = { isCircuitOpen: false, isRefused: false };
  expect(stops).toEqual([well]);
  pool.call(call(1));
  behind.fail(1, { status: 401 });
  expect(stops.slice(1)).toEqual([{ isCircuitOpen: false, isRefused: true }]);
  pool.resume?.();
  expect(stops.slice(2)).toEqual([well]);
  for (let id = 10; id < 20; id += 1) pool.call(call(id));
  await clock.advance(60_000);
  for (const id of [...behind.out]) behind.fail(id, { status: 503 });
  for (let id = 30; stops.length < 4; id += 1) {
    pool.call(call(id));
    await clock.advance(60_000);
    for (const each of [...behind.out]) behind.fail(each, { status: 503 });
  }
  expect(stops.slice(3)).toEqual([{ isCircuitOpen: true, isRefused: false }]);
  for (let id = 100; stops.length < 5; id += 1) {
    pool.call(call(id));
    await clock.advance(60_000);
    behind.answer(...behind.out);
  }
  expect(stops.slice(4)).toEqual([well]);
});

describe('calls that another model can make', () => {
  const other = (id: number): ModelCall => call(id, { fallbackAfterMs: 5_000 });

  test('G7: a pause that is longer ends them, waiting or new; for a shorter one they wait', async () => {
    const { pool, behind, clock, completions, ended } = stage();
    pool.call(call(1));
    behind.fail(1, { status: 429, retryAfterMs: 4_000 });
    pool.call(other(2));
    pool.call(call(3));
    expect(behind.ids).toEqual([1]);
    await clock.advance(4_000);
    expect(behind.ids).toEqual([1, 2]);
    pool.call(other(4));
    behind.fail(2, { status: 429, retryAfterMs: 5_001 });
    pool.call(other(5));
    await clock.advance(0);
    expect(ended().slice(2)).toEqual([
      [4, 'model_overloaded'],
      [5, 'model_overloaded'],
    ]);
    const [, , away] = completions;
    expect(away !== undefined && 'error' in away && away.error).toMatchObject({
      retryable: true,
      data: { away: true },
    });
    await clock.advance(5_001);
    expect(behind.ids).toEqual([1, 2, 3]);
  });

  test('G7: while the circuit is open they end, except the one that tests the provider', async () => {
    const { pool, behind, clock, ended } = stage();
    for (let id = 1; id <= GOVERNOR_FAILURES_MAX; id += 1) {
      pool.call(call(id));
      behind.fail(id, { status: 500 });
    }
    const failed = GOVERNOR_FAILURES_MAX;
    pool.call(other(failed + 1));
    await clock.advance(0);
    expect(ended().at(-1)).toEqual([failed + 1, 'model_overloaded']);
    await clock.advance(60_000);
    pool.call(other(failed + 2));
    pool.call(other(failed + 3));
    await clock.advance(0);
    expect(behind.ids.slice(failed)).toEqual([failed + 2]);
    expect(ended().at(-1)).toEqual([failed + 3, 'model_overloaded']);
  });

  test('G7: refused credentials end them with their error', async () => {
    const { pool, behind, clock, ended } = stage();
    pool.call(call(1));
    behind.fail(1, { status: 401 });
    pool.call(other(2));
    pool.call(call(3));
    await clock.advance(0);
    expect(ended()).toEqual([
      [1, 'model_authentication'],
      [2, 'model_authentication'],
    ]);
  });
});
