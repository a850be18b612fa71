// Goal: the policy alone, with a clock that the test moves. The tests check rates on every window of a minute and
// pauses to the millisecond. They also check that a thousand calls which fail together count as one failure.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  GOVERNOR_CIRCUIT_MS,
  GOVERNOR_CIRCUIT_PATIENCE_MS,
  GOVERNOR_CREDENTIALS_PATIENCE_MS,
  GOVERNOR_FAILURES_MAX,
  GOVERNOR_FAILURES_PERIOD_MS,
  GOVERNOR_HOLD_MS_MAX,
  GOVERNOR_WINDOW_STEP_MS,
  RATE_WINDOW_MS,
} from '../../../src/base/bounds.ts';
import { ConfigError, type ErrorShape, errorShape } from '../../../src/base/errors.ts';
import { FairQueue } from '../../../src/models/governor/fair-queue.ts';
import { Governor, type Trouble } from '../../../src/models/governor/governor.ts';
import { type GovernorLimits, shareOfLimits } from '../../../src/models/governor/limits.ts';
import { createRateMemory, RateTable } from '../../../src/models/governor/rate-table.ts';
import { type ModelFailure, modelErrorOf } from '../../../src/models/model-error.ts';

const MINUTE = RATE_WINDOW_MS;

/** A governor and its current time. */
class Desk {
  readonly governor: Governor;
  now = 0;
  #lastId = 0;

  constructor(limits?: GovernorLimits, random: () => number = () => 0) {
    this.governor = new Governor(limits, random, new RateTable(createRateMemory()));
  }

  get opensIn(): number {
    return this.governor.opensAt(this.now, 0) - this.now;
  }

  /** Sends a call. Fails if the governor holds it back. */
  leave(model = 'm', inputTokens = 0): number {
    expect(this.governor.opensAt(this.now, inputTokens)).toBe(this.now);
    this.#lastId += 1;
    this.governor.started(this.#lastId, model, this.now, inputTokens);
    return this.#lastId;
  }

  /** Sends calls while the governor lets them, `most` at most. */
  leaveAll(most = Number.POSITIVE_INFINITY): readonly number[] {
    const ids: number[] = [];
    while (ids.length < most && this.opensIn === 0) ids.push(this.leave());
    return ids;
  }

  answer(id: number, input_tokens = 1, output_tokens = 1): void {
    const usage = { input_tokens, output_tokens };
    const response = { content: [], stop_reason: 'end_turn', usage };
    expect(this.governor.ended([{ id, response, ms: 1 }], this.now)).toEqual([]);
  }

  fail(id: number, failure: Partial<ModelFailure>): Trouble | undefined {
    const error = errorShape(modelErrorOf({ message: 'no', ...failure }));
    return this.governor.ended([{ id, error, ms: 1 }], this.now)[0];
  }

  /** These calls end together. */
  failTogether(ids: readonly number[], failure: Partial<ModelFailure>): readonly Trouble[] {
    const error = errorShape(modelErrorOf({ message: 'no', ...failure }));
    return this.governor.ended(
      ids.map((id) => ({ id, error, ms: 1 })),
      this.now,
    );
  }

  cancel(id: number): Trouble | undefined {
    const error: ErrorShape = { name: 'CancelledError', code: 'cancelled', message: 'gone' };
    return this.governor.ended([{ id, error, ms: 1 }], this.now)[0];
  }
}

const BUSY = { status: 429 };
const OVERLOADED = { status: 529 };
const REFUSED_CONNECTION = { code: 'model_connection' } as const;

describe('rates', () => {
  const limitsOf = fc.record(
    {
      concurrency: fc.integer({ min: 1, max: 5 }),
      requestsPerMinute: fc.integer({ min: 1, max: 12 }),
      inputTokensPerMinute: fc.integer({ min: 1, max: 2_000 }),
    },
    { requiredKeys: [] },
  );
  const callsOf = fc.array(
    fc.record({
      at: fc.integer({ min: 0, max: 2 * MINUTE }),
      takesMs: fc.integer({ min: 1, max: 90_000 }),
      input: fc.integer({ min: 1, max: 2_500 }),
    }),
    { maxLength: 60 },
  );

  test('N1, F20: calls in a minute stay within the rates, concurrent calls within the concurrency, and every call ends', () => {
    fc.assert(
      fc.property(limitsOf, callsOf, (limits, calls) => {
        const ran = run(limits, calls);
        expect(ran.starts).toHaveLength(calls.length);
        expect(ran.concurrency).toBeLessThanOrEqual(limits.concurrency ?? Number.POSITIVE_INFINITY);
        for (const { at } of ran.starts) {
          const minute = ran.starts.filter((start) => start.at > at - MINUTE && start.at <= at);
          expect(minute.length).toBeLessThanOrEqual(limits.requestsPerMinute ?? Number.POSITIVE_INFINITY);
          const input = minute.reduce((sum, start) => sum + Math.min(start.input, limits.inputTokensPerMinute ?? 0), 0);
          if (limits.inputTokensPerMinute !== undefined) {
            // A call larger than the whole limit is sent alone (W2), so it counts as the limit.
            expect(input).toBeLessThanOrEqual(limits.inputTokensPerMinute);
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  test('W1: the whole allowance may leave at once, and the next call leaves exactly a minute later', () => {
    const desk = new Desk({ requestsPerMinute: 3 });
    expect(desk.leaveAll()).toHaveLength(3);
    desk.now = 20_000;
    expect(desk.opensIn).toBe(MINUTE - 20_000);
    desk.now = MINUTE - 1;
    expect(desk.opensIn).toBe(1);
    desk.now = MINUTE;
    expect(desk.leaveAll()).toHaveLength(3);
  });

  test('N1: the input tokens that an answer reports replace the estimate', () => {
    const desk = new Desk({ inputTokensPerMinute: 1_000 });
    const id = desk.leave('m', 900);
    expect(desk.governor.opensAt(0, 200)).toBe(MINUTE);
    desk.answer(id, 100);
    expect(desk.governor.opensAt(0, 900)).toBe(0);
    expect(desk.governor.opensAt(0, 901)).toBe(MINUTE);
  });

  test('N1: the expected output counts while a call is in flight, the real output after it has ended', () => {
    const desk = new Desk({ outputTokensPerMinute: 1_200 });
    const [first = 0, second = 0] = desk.leaveAll();
    // No call has been answered: five hundred tokens are reserved for each, and a third call would exceed the limit.
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
    desk.answer(first, 1, 1_100);
    desk.now = 10_000;
    desk.answer(second, 1, 100);
    expect(desk.opensIn).toBe(MINUTE - 10_000);
    desk.now = MINUTE;
    expect(desk.opensIn).toBe(0);
  });

  test('concurrency: only the end of a call makes room', () => {
    const desk = new Desk({ concurrency: 2 });
    const [first = 0] = desk.leaveAll();
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
    desk.cancel(first);
    expect(desk.opensIn).toBe(0);
  });

  test('N7: without limits a call passes freely, and again after recovery from refusals', () => {
    const desk = new Desk();
    expect(desk.governor.isFree).toBe(true);
    desk.answer(desk.leave());
    expect(desk.governor.isFree).toBe(true);
    desk.fail(desk.leave(), BUSY);
    expect(desk.governor.isFree).toBe(false);
    while (!desk.governor.isFree) desk.answer(desk.leave());
    expect(desk.opensIn).toBe(0);
  });

  test('shares add up to the limits, and none is empty; the error for a limit below the number of shards names it', () => {
    const limits = { concurrency: 7, requestsPerMinute: 50 };
    const shares = [0, 1, 2].map((index) => shareOfLimits(limits, index, 3));
    expect(shares).toEqual([
      { concurrency: 3, requestsPerMinute: 17 },
      { concurrency: 2, requestsPerMinute: 17 },
      { concurrency: 2, requestsPerMinute: 16 },
    ]);
    const refused = () => shareOfLimits({ concurrency: 2 }, 0, 3);
    expect(refused).toThrow(ConfigError);
    expect(refused).toThrow(/governor\.concurrency.*3.*got number 2/u);
  });
});

describe('F20: a common pause', () => {
  test('F20: after a 429 with retry-after nothing leaves before that time, then one call, then gradually all', () => {
    const desk = new Desk();
    const [failed = 0] = desk.leaveAll(1);
    expect(desk.fail(failed, { ...BUSY, retryAfterMs: 30_000 })).toMatchObject({ kind: 'pause', waitMs: 30_000 });
    expect(desk.opensIn).toBe(30_000);
    desk.now = 29_999;
    expect(desk.opensIn).toBe(1);
    desk.now = 30_000;
    const waves: number[] = [];
    for (let out = desk.leaveAll(1_000); waves.length < 6; out = desk.leaveAll(1_000)) {
      waves.push(out.length);
      for (const id of out) desk.answer(id);
    }
    expect(waves).toEqual([1, 2, 4, 8, 16, 32]);
  });

  test('N3: slow calls do not hold back the others: each second without a refusal doubles the calls that may leave', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { ...BUSY, retryAfterMs: 1_000 });
    desk.now = 1_000;
    let left = 0;
    const total: number[] = [];
    for (let second = 0; second < 6; second += 1) {
      left += desk.leaveAll(100_000).length;
      total.push(left);
      expect(desk.opensIn).toBe(GOVERNOR_WINDOW_STEP_MS);
      desk.now += GOVERNOR_WINDOW_STEP_MS;
    }
    expect(total).toEqual([1, 2, 4, 8, 16, 32]);
  });

  test('N2: retry-after 0 counts as a header, and causes no pause', () => {
    const desk = new Desk();
    const [failed = 0] = desk.leaveAll(8);
    expect(desk.fail(failed, { ...BUSY, retryAfterMs: 0 })).toBeUndefined();
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
    expect(desk.governor.running).toBe(7);
    expect(desk.governor.explain(desk.now, 0)).toBe('7 calls are in flight, and 7 may be: the provider refused some');
  });

  test('N6: a thousand calls that fail together cause one pause; the longest retry-after among them counts', () => {
    const desk = new Desk();
    const ids = desk.leaveAll(1_000);
    const troubles = ids.map((id, place) => {
      desk.now = place;
      return desk.fail(id, { ...BUSY, retryAfterMs: 30_000 });
    });
    expect(troubles.filter((trouble) => trouble !== undefined)).toHaveLength(1);
    expect(desk.governor.opensAt(desk.now, 0)).toBe(999 + 30_000);
  });

  test('N6: an answer to a call from before the pause releases no other call', () => {
    const desk = new Desk();
    const [failed = 0, ...others] = desk.leaveAll(50);
    desk.fail(failed, { ...BUSY, retryAfterMs: 1_000 });
    desk.now = 1_000;
    for (const id of others) desk.answer(id);
    expect(desk.leaveAll(100)).toHaveLength(1);
  });

  test('F20, N2: without retry-after there is no pause, however often a call is refused', () => {
    const desk = new Desk();
    for (let time = 0; time < 20; time += 1) {
      desk.fail(desk.leave(), OVERLOADED);
      expect(desk.opensIn).toBe(0);
    }
  });

  test('N2: successes clear the refusals: after a full window of answers no call is held back', () => {
    const desk = new Desk();
    const ids = desk.leaveAll(10);
    desk.fail(ids[0] ?? 0, OVERLOADED);
    for (const id of ids.slice(1)) desk.answer(id);
    expect(desk.governor.isFree).toBe(false);
    for (let answered = 9; answered < 20; answered += 1) desk.answer(desk.leave());
    expect(desk.governor.isFree).toBe(true);
  });

  test('A9: no header pauses all calls for longer than the bound', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { ...BUSY, retryAfterMs: 1e12 });
    expect(desk.opensIn).toBe(GOVERNOR_HOLD_MS_MAX);
  });

  test('N3: a call cancelled before its first byte gives its slot to the next', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { ...BUSY, retryAfterMs: 1_000 });
    desk.now = 1_000;
    const probe = desk.leave();
    expect(desk.opensIn).toBeGreaterThan(0);
    desk.cancel(probe);
    expect(desk.leaveAll(10)).toHaveLength(1);
  });
});

describe('F20: the window of calls in flight', () => {
  test('Y1: a window of refusals halves the window once, however they arrive, and is reported once', () => {
    for (const isTogether of [true, false]) {
      const desk = new Desk();
      const ids = desk.leaveAll(100);
      const troubles = isTogether
        ? desk.failTogether(ids, OVERLOADED)
        : ids.flatMap((id) => desk.fail(id, OVERLOADED) ?? []);
      expect(troubles).toMatchObject([{ kind: 'window' }]);
      expect(desk.leaveAll(100)).toHaveLength(50);
    }
  });

  test('Y1: a window of answers makes the window a sixth larger', () => {
    const desk = new Desk();
    desk.failTogether(desk.leaveAll(112), OVERLOADED);
    const ids = desk.leaveAll(1_000);
    expect(ids).toHaveLength(56);
    for (const id of ids) desk.answer(id);
    expect(desk.leaveAll(1_000)).toHaveLength(65);
  });

  test('Y2: one call may always leave, however many are refused; while each is answered, waves double', () => {
    const desk = new Desk();
    for (let round = 0; round < 10; round += 1) desk.failTogether(desk.leaveAll(20), OVERLOADED);
    const waves: number[] = [];
    for (let wave = 0; wave < 5; wave += 1) {
      const ids = desk.leaveAll(1_000);
      waves.push(ids.length);
      for (const id of ids) desk.answer(id);
    }
    expect(waves).toEqual([1, 2, 4, 8, 16]);
  });

  test('Y2: the first refusal ends the doubling, and a second without refusals adds nothing more', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { ...BUSY, retryAfterMs: 1_000 });
    desk.now = 1_000;
    for (let wave = 0; wave < 3; wave += 1) for (const id of desk.leaveAll(1_000)) desk.answer(id);
    const [refused = 0, ...others] = desk.leaveAll(1_000);
    expect(others).toHaveLength(7);
    desk.fail(refused, OVERLOADED);
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
    desk.now += 10 * GOVERNOR_WINDOW_STEP_MS;
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('F21: the circuit', () => {
  /** Fails calls one after the other until the circuit changes. */
  function failUntilOpen(desk: Desk, failure: Partial<ModelFailure>): number {
    for (let failed = 1; failed <= 100; failed += 1) {
      if (desk.fail(desk.leave(), failure)?.kind === 'circuit') return failed;
    }
    throw new Error('the circuit stayed closed');
  }

  test.each([500, 502, 503, 504])('F21: opens after several server errors in a row with status %i', (status) => {
    expect(failUntilOpen(new Desk(), { status })).toBe(GOVERNOR_FAILURES_MAX);
  });

  test('F21, F22: opens on lost connections; one call probes it, a failure keeps it open longer, an answer closes it', () => {
    const desk = new Desk(undefined, () => 1 - Number.EPSILON);
    failUntilOpen(desk, REFUSED_CONNECTION);
    const waits: number[] = [];
    for (let time = 0; time < 4; time += 1) {
      waits.push(desk.opensIn);
      desk.now += desk.opensIn;
      const [probe = 0, ...more] = desk.leaveAll(1_000);
      expect(more).toEqual([]);
      // A call without an answer shows nothing, so no other call follows for a long time.
      expect(desk.opensIn).toBe(GOVERNOR_CIRCUIT_PATIENCE_MS);
      expect(desk.fail(probe, REFUSED_CONNECTION)).toMatchObject({ kind: 'circuit' });
    }
    expect(waits).toEqual([1, 2, 4, 8].map((factor) => factor * GOVERNOR_CIRCUIT_MS));
    desk.now += desk.opensIn;
    desk.answer(desk.leave());
    const followers = desk.leaveAll(1_000);
    expect(followers).toHaveLength(2);
    for (const id of followers) desk.answer(id);
    while (!desk.governor.isFree) desk.answer(desk.leave());
    // The circuit is closed: opening it takes as many failures as before.
    expect(failUntilOpen(desk, REFUSED_CONNECTION)).toBe(GOVERNOR_FAILURES_MAX);
    expect(desk.opensIn).toBe(GOVERNOR_CIRCUIT_MS);
  });

  test('F21: an answer in between, or a refusal of one request, restarts the count', () => {
    const desk = new Desk();
    for (let round = 0; round < 5; round += 1) {
      for (let failed = 1; failed < GOVERNOR_FAILURES_MAX; failed += 1) {
        expect(desk.fail(desk.leave(), { status: 500 })).toBeUndefined();
      }
      if (round % 2 === 0) desk.answer(desk.leave());
      else expect(desk.fail(desk.leave(), { status: 400 })).toBeUndefined();
    }
    expect(desk.governor.isFree).toBe(true);
  });

  test('F21: failures spread over more than a minute are not an outage', () => {
    const desk = new Desk();
    for (let failed = 0; failed < 5 * GOVERNOR_FAILURES_MAX; failed += 1) {
      expect(desk.fail(desk.leave(), { status: 500 })).toBeUndefined();
      desk.now += Math.ceil((2 * GOVERNOR_FAILURES_PERIOD_MS) / GOVERNOR_FAILURES_MAX);
    }
  });

  test('F21: a 503 with a retry time is waited for', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { status: 503, retryAfterMs: 7_000 });
    expect(desk.opensIn).toBe(7_000);
  });
});

describe('F36, F37: refused for all sessions', () => {
  test.each([401, 402, 403])('F36: after a %i nothing leaves until resume, then one call', (status) => {
    const desk = new Desk();
    const [failed = 0, late = 0, later = 0] = desk.leaveAll(3);
    expect(desk.fail(failed, { status })).toMatchObject({ kind: 'credentials' });
    expect(desk.governor.refusal).toMatchObject({ code: 'model_authentication', data: { status } });
    expect(desk.opensIn).toBe(Number.POSITIVE_INFINITY);
    expect(desk.governor.explain(desk.now, 0)).toMatch(/refused the credentials.*resume\(\)/u);
    expect(desk.fail(late, { status })).toBeUndefined();
    desk.governor.resume();
    expect(desk.governor.refusal).toBeUndefined();
    // The refusal of a call that was sent with the old key no longer has an effect.
    expect(desk.fail(later, { status })).toBeUndefined();
    expect(desk.governor.refusal).toBeUndefined();
    const [probe = 0, ...more] = desk.leaveAll(1_000);
    expect(more).toEqual([]);
    expect(desk.opensIn).toBe(GOVERNOR_CREDENTIALS_PATIENCE_MS);
    expect(desk.fail(probe, { status })).toMatchObject({ kind: 'credentials' });
    expect(desk.governor.refusal).toBeDefined();
  });

  test('F37: a model that is not found blocks its own calls only', () => {
    const desk = new Desk();
    expect(desk.fail(desk.leave('old'), { status: 404 })).toMatchObject({ kind: 'model' });
    expect(desk.governor.refusalOf('old')).toMatchObject({ data: { status: 404 } });
    expect(desk.governor.refusalOf('new')).toBeUndefined();
    desk.answer(desk.leave('new'));
    desk.governor.resume();
    expect(desk.governor.refusalOf('old')).toBeUndefined();
  });

  test('F37: a model that is not found counts as an answer: calls of other models continue as after any answer', () => {
    const desk = new Desk();
    desk.fail(desk.leave(), { ...BUSY, retryAfterMs: 1_000 });
    desk.now = 1_000;
    desk.fail(desk.leave('old'), { status: 404 });
    expect(desk.leaveAll(10)).toHaveLength(2);
  });

  test('F20, F36: resume does not shorten a pause that the provider asked for', () => {
    const desk = new Desk();
    const [first = 0, second = 0] = desk.leaveAll(2);
    desk.fail(first, { status: 401 });
    desk.fail(second, { ...BUSY, retryAfterMs: 9_000 });
    desk.governor.resume();
    expect(desk.opensIn).toBe(9_000);
  });
});

describe('the queue', () => {
  test('E1: session trees take turns, each in its own order; no call is lost or passed over', () => {
    const command = fc.oneof(
      fc.record({ do: fc.constant('put' as const), tree: fc.integer({ min: 0, max: 4 }), child: fc.nat({ max: 3 }) }),
      fc.record({ do: fc.constant('take' as const) }),
      fc.record({ do: fc.constant('remove' as const), place: fc.nat({ max: 20 }) }),
    );
    fc.assert(
      fc.property(fc.array(command, { maxLength: 120 }), (commands) => {
        const queue = new FairQueue<{ readonly id: number; readonly session: string }>();
        let waiting: { readonly id: number; readonly tree: number; passedBy: Set<number> }[] = [];
        let lastId = 0;
        const gone = (id: number) => {
          waiting = waiting.filter((each) => each.id !== id);
        };
        for (const each of commands) {
          if (each.do === 'put') {
            lastId += 1;
            queue.put({ id: lastId, session: each.child === 0 ? `t${each.tree}` : `t${each.tree}:${each.child}` });
            waiting.push({ id: lastId, tree: each.tree, passedBy: new Set() });
          } else if (each.do === 'remove') {
            const victim = waiting[each.place];
            expect(queue.remove(victim?.id ?? -1)?.id).toBe(victim?.id);
            gone(victim?.id ?? -1);
          } else {
            const taken = queue.take();
            const found = waiting.find(({ id }) => id === taken?.id);
            expect(taken?.id).toBe(found?.id);
            if (found === undefined) expect(waiting).toEqual([]);
            else {
              expect(waiting.find(({ tree }) => tree === found.tree)).toBe(found);
              gone(found.id);
              const heads = waiting.filter(
                (one, place) => waiting.findIndex(({ tree }) => tree === one.tree) === place,
              );
              for (const head of heads.filter(({ tree }) => tree !== found.tree)) {
                // If the head of another tree is passed twice, that tree has missed its turn.
                expect(head.passedBy.has(found.tree)).toBe(false);
                head.passedBy.add(found.tree);
              }
            }
          }
          expect(queue.size).toBe(waiting.length);
        }
      }),
      { numRuns: 300 },
    );
  });
});

interface PlannedCall {
  readonly at: number;
  readonly takesMs: number;
  readonly input: number;
}

/** Runs calls first come, first served, from event to event. Throws if they stop while some wait. */
function run(limits: GovernorLimits, calls: readonly PlannedCall[]) {
  const governor = new Governor(limits, () => 0, new RateTable(createRateMemory()));
  const arrivals = [...calls].sort((a, b) => a.at - b.at);
  const queue: PlannedCall[] = [];
  const ends: { readonly at: number; readonly id: number; readonly input: number }[] = [];
  const starts: { readonly at: number; readonly input: number }[] = [];
  let concurrency = 0;
  let now = 0;
  for (let step = 0; starts.length < calls.length || ends.length > 0; step += 1) {
    if (step > 100_000) throw new Error('the calls come to no end');
    while (arrivals[0] !== undefined && arrivals[0].at <= now) queue.push(...arrivals.splice(0, 1));
    for (const { id, input } of ends.filter((end) => end.at <= now)) {
      const usage = { input_tokens: input, output_tokens: 0 };
      governor.ended([{ id, response: { content: [], stop_reason: 'end_turn', usage }, ms: 0 }], now);
    }
    ends.splice(0, ends.length, ...ends.filter((end) => end.at > now));
    let opensAt = Number.POSITIVE_INFINITY;
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      opensAt = governor.opensAt(now, next.input);
      if (opensAt > now) break;
      queue.shift();
      const id = starts.length + 1;
      governor.started(id, 'm', now, next.input);
      starts.push({ at: now, input: next.input });
      ends.push({ at: now + next.takesMs, id, input: next.input });
      concurrency = Math.max(concurrency, governor.running);
    }
    const times = [opensAt, arrivals[0]?.at, ...ends.map((end) => end.at)].filter((time) => time !== undefined);
    const next = Math.min(...times.filter((time) => time > now));
    if (starts.length === calls.length && ends.length === 0) break;
    if (next === Number.POSITIVE_INFINITY) throw new Error(`${queue.length} calls wait for ever`);
    now = next;
  }
  return { starts, concurrency };
}
