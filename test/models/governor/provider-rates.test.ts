import { describe, expect, it } from 'vitest';
import { RATE_PHASE_MS_MAX } from '../../../src/base/bounds.ts';
import { errorShape } from '../../../src/base/errors.ts';
import { Governor } from '../../../src/models/governor/governor.ts';
import { ProviderRates, type RateDraw } from '../../../src/models/governor/provider-rates.ts';
import { createRateMemory, RateTable } from '../../../src/models/governor/rate-table.ts';
import { modelErrorOf } from '../../../src/models/model-error.ts';
import type { ModelCompletion } from '../../../src/models/pool.ts';
import type { RateLimit, RateLimits } from '../../../src/models/provider.ts';
import { randomOf } from '../../../src/testing/fake-faults.ts';

const MINUTE_MS = 60_000;
const STEP_MS = 20;
/** The calls before the first answers are refused. */
const WARM_MS = 5 * MINUTE_MS;
const USAGE = { input_tokens: 1, output_tokens: 1 };

/** A token bucket like that of a provider. */
class Bucket {
  left: number;
  readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
    this.left = limit;
  }

  refill(ms: number): void {
    this.left = Math.min(this.limit, this.left + (ms * this.limit) / MINUTE_MS);
  }

  get reported(): RateLimit {
    return { limit: this.limit, remaining: Math.max(0, Math.floor(this.left)) };
  }
}

interface Play {
  readonly requests: number;
  readonly input: number;
  readonly tokens: number;
  readonly callMs: number;
  readonly governors?: number;
  /** The governors belong to one runtime, as its shards do. Otherwise each is its own process. */
  readonly isShared?: boolean;
}

/** Ten minutes of governors that always have calls to send, and of a provider that refuses calls beyond its buckets. */
function play({ requests, input, tokens, callMs, governors: count = 1, isShared = false }: Play): {
  readonly late: number;
  readonly taken: number;
} {
  const random = randomOf(1, requests + callMs);
  const buckets = { requests: new Bucket(requests), inputTokens: new Bucket(input) };
  const shared = createRateMemory();
  const governors = Array.from(
    { length: count },
    () => new Governor(undefined, () => 0, new RateTable(isShared ? shared : createRateMemory())),
  );
  const travelling: { governor: Governor; id: number; at: number }[] = [];
  const working: { governor: Governor; completion: ModelCompletion; at: number }[] = [];
  const rate = Math.min(requests, input / tokens);
  let [id, late, taken] = [0, 0, 0];
  for (let now = 0; now < 10 * MINUTE_MS; now += STEP_MS) {
    for (const bucket of Object.values(buckets)) bucket.refill(STEP_MS);
    for (const call of travelling.filter(({ at }) => at <= now)) {
      travelling.splice(travelling.indexOf(call), 1);
      const fits = buckets.requests.left >= 1 && buckets.inputTokens.left >= tokens;
      if (fits)
        [buckets.requests.left, buckets.inputTokens.left] = [
          buckets.requests.left - 1,
          buckets.inputTokens.left - tokens,
        ];
      const rateLimits: RateLimits = { requests: buckets.requests.reported, inputTokens: buckets.inputTokens.reported };
      if (now > WARM_MS && fits) taken += 1;
      else if (now > WARM_MS) late += 1;
      const completion: ModelCompletion = fits
        ? {
            id: call.id,
            ms: 1,
            response: { content: [], stop_reason: 'end_turn', usage: { ...USAGE, input_tokens: tokens }, rateLimits },
          }
        : { id: call.id, ms: 1, error: errorShape(modelErrorOf({ status: 429, message: 'no', data: { rateLimits } })) };
      working.push({ governor: call.governor, completion, at: fits ? now + callMs * (0.5 + random()) : now + 100 });
    }
    for (const call of working.filter(({ at }) => at <= now)) {
      working.splice(working.indexOf(call), 1);
      call.governor.ended([call.completion], now);
    }
    for (const governor of governors) {
      // The caller bounds the burst of the first minute, as a program does.
      while (governor.running < rate * 4 && governor.opensAt(now, tokens, 'm') === now) {
        id += 1;
        governor.started(id, 'm', now, tokens);
        travelling.push({ governor, id, at: now + 50 + 350 * random() });
      }
    }
  }
  return { late, taken };
}

function newRates(): ProviderRates {
  const table = new RateTable(createRateMemory());
  const row = table.make('m');
  if (row === undefined) throw new Error('no row');
  return new ProviderRates(table, row);
}

describe('rates that the provider reports', () => {
  it.each([
    ['short calls', { requests: 120, input: 1e9, tokens: 1, callMs: 2_000 }],
    ['calls of a minute and a half', { requests: 120, input: 1e9, tokens: 1, callMs: 90_000 }],
    ['the input is the limit', { requests: 10_000, input: 100_000, tokens: 1_000, callMs: 5_000 }],
  ] as const)('N8: no call is refused in steady state, and most of the rate is used: %s', (_, options) => {
    const { late, taken } = play(options);
    const rate = Math.min(options.requests, options.input / options.tokens);
    expect(late).toBe(0);
    expect(taken / (5 * rate)).toBeGreaterThan(0.9);
  });

  it.each([2, 5])(
    'N8, T3: no call of %i shards is refused in steady state, and 95 % of the rate is used',
    (governors) => {
      const { late, taken } = play({ requests: 600, input: 1e9, tokens: 1, callMs: 30_000, governors, isShared: true });
      expect(late).toBe(0);
      expect(taken / (5 * 600)).toBeGreaterThan(0.95);
    },
  );

  it('H2: calls that overtake others on their way let no further call leave too early', () => {
    const rates = newRates();
    const requests = (remaining: number): RateLimits => ({ requests: { limit: 60, remaining } });
    rates.ended(0, requests(60), undefined);
    const draws: RateDraw[] = [];
    while (rates.opensAt(0, 0) === 0) draws.push(rates.take(0, 0));
    expect(draws).toHaveLength(57);
    draws.reverse().forEach((draw, taken) => {
      rates.ended(0, requests(59 - taken), draw);
      expect(rates.opensAt(0, 0)).toBeGreaterThan(0);
    });
    // The last that left was the first to be taken: the copy is too low by now, until the next calls agree.
    let after = 0;
    for (let calls = 0; calls < 3; calls += 1) {
      after = rates.opensAt(after, 0);
      rates.ended(after, requests(3 + Math.floor(after / 1_000) - calls - 1), rates.take(after, 0));
    }
    expect(rates.opensAt(after, 0) - after).toBeLessThan(3_000);
  });

  it('H2: a call that never ends keeps the copy from rising for a bounded time only', () => {
    const rates = newRates();
    const LIMIT = 1_000_000;
    /** The provider counts more than the copy: another process has stopped calling. Returns the wait for half a limit. */
    const waitAfterCalls = (now: number): number => {
      // A call that is cancelled says nothing of what the provider counted.
      rates.ended(now, undefined, rates.take(now, LIMIT));
      for (let calls = 0; calls < 5; calls += 1) {
        const draw = rates.take(now, 0);
        rates.ended(now, { inputTokens: { limit: LIMIT, remaining: LIMIT } }, draw);
      }
      return rates.opensAt(now, LIMIT / 2) - now;
    };
    rates.ended(0, { inputTokens: { limit: LIMIT, remaining: LIMIT } }, undefined);
    expect(waitAfterCalls(0)).toBe(0);
    rates.take(0, 0);
    expect(waitAfterCalls(1)).toBeGreaterThan(0);
    expect(waitAfterCalls(RATE_PHASE_MS_MAX + 2)).toBe(0);
  });

  it('H3: of the calls of two processes on one key fewer than 1 in 50 are refused', () => {
    const { late, taken } = play({ requests: 600, input: 1e9, tokens: 1, callMs: 3_000, governors: 2 });
    expect(late / taken).toBeLessThan(0.02);
    expect(taken / (5 * 600)).toBeGreaterThan(0.9);
  });

  it('H1, H4: nothing is held back without a report, nor for another model, and a wait always ends', () => {
    const governor = new Governor(undefined, () => 0, new RateTable(createRateMemory()));
    expect(governor.isFree).toBe(true);
    const end = (id: number, requests: RateLimit, now: number): void => {
      const response = { content: [], stop_reason: 'end_turn', usage: USAGE, rateLimits: { requests } };
      governor.ended([{ id, response, ms: 1 }], now);
    };
    governor.started(1, 'm');
    end(1, { limit: 60, remaining: 1 }, 0);
    expect([governor.isFree, governor.countsInput]).toEqual([false, true]);
    expect(governor.opensAt(0, 0, 'm')).toBe(3_000);
    expect(governor.explain(0, 0, 'm')).toBe('the rate that the provider reports is used up for 3 s');
    expect(governor.opensAt(0, 0, 'other')).toBe(0);
    expect(governor.opensAt(3_000, 0, 'm')).toBe(3_000);
    governor.started(2, 'none', 0);
    governor.ended(
      [
        {
          id: 2,
          response: {
            content: [],
            stop_reason: 'end_turn',
            usage: USAGE,
            rateLimits: { requests: { limit: 0, remaining: 0 } },
          },
          ms: 1,
        },
      ],
      0,
    );
    expect(governor.opensAt(0, 0, 'none')).toBe(0);
    governor.started(3, 'm', 3_000, 0);
    end(3, { limit: 60, remaining: 60 }, 4_000);
    expect(governor.opensAt(4_000, 0, 'm')).toBe(4_000);
  });
});
