// Goal: the waits of `retry` grow to their bound, and a `retry` that cannot be kept is refused with its key.
import { describe, expect, test } from 'vitest';
import { ConfigError, type TroupeError } from '../../src/base/errors.ts';
import { mayRetryAfter, retryPolicy, retryWaitMs } from '../../src/tools/retry.ts';
import { describeTool } from '../../src/tools/tool-schema.ts';

const given = { name: 'fetch', description: 'Fetches.', input: { type: 'object' }, run: (): string => 'x' };

function refusal(change: Readonly<Record<string, unknown>>): TroupeError {
  try {
    describeTool({ ...given, effect: 'keyed', ...change });
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return error as TroupeError;
  }
  throw new Error('not refused');
}

describe('retry', () => {
  test('the waits grow by the factor to the longest one, with at most 15 % more', () => {
    const policy = retryPolicy({ attempts: 5, baseMs: 100, factor: 3, maximumMs: 1_000 }, 'pure', 'tool');
    const waits = (random: number) =>
      [1, 2, 3, 4, 5].map((attempt) => retryWaitMs(policy, attempt, { failed: 'timeout' }, () => random));
    expect(waits(0)).toEqual([100, 300, 900, 1_000, undefined]);
    expect(waits(1)).toEqual([115, 345, 1_035, 1_150, undefined]);
  });

  test('an outcome that stands is not repeated, nor one that `on` leaves out', () => {
    const policy = retryPolicy({ attempts: 2, on: ['lost'] }, 'keyed', 'tool');
    const wait = (failed: 'lost' | 'failure' | undefined) =>
      retryWaitMs(policy, 1, failed === undefined ? {} : { failed }, () => 0);
    expect([wait(undefined), wait('failure'), wait('lost')]).toEqual([undefined, undefined, 500]);
    expect(retryWaitMs(undefined, 1, { failed: 'lost' }, () => 0)).toBeUndefined();
  });

  test('an error says by `retryable: false` that it stands; anything may be thrown', () => {
    const trap = new Proxy(new Error('x'), {
      get: () => {
        throw new Error('trap');
      },
    });
    const thrown = [new Error('x'), 'text', undefined, trap, { retryable: true }, { retryable: false }];
    expect(thrown.map(mayRetryAfter)).toEqual([true, true, true, true, true, false]);
  });

  test.each([
    ['retry', true],
    ['retry', 3],
    ['retry.attempts', {}],
    ['retry.attempts', { attempts: 0 }],
    ['retry.attempts', { attempts: 1.5 }],
    ['retry.attempts', { attempts: 11 }],
    ['retry.baseMs', { attempts: 2, baseMs: -1 }],
    ['retry.factor', { attempts: 2, factor: 0.5 }],
    ['retry.maximumMs', { attempts: 2, baseMs: 10, maximumMs: 5 }],
    ['retry.maximumMs', { attempts: 2, maximumMs: 3_600_000 }],
    ['retry.on', { attempts: 2, on: [] }],
    ['retry.on', { attempts: 2, on: ['sometimes'] }],
    ['retry.times', { attempts: 2, times: 3 }],
  ])('%s is refused: %j', (key, retry) => {
    const error = refusal({ retry });
    expect(error.data).toMatchObject({ key });
    expect(error.message).toContain('fetch');
  });

  test.each(['once', 'probe', undefined])('a tool with the effect %s is refused, with the remedy', (effect) => {
    const error = refusal({ effect, probe: () => undefined, retry: { attempts: 2 } });
    expect(error.message).toContain('retry needs effect "pure" or "keyed"');
    expect(error.message).toContain('leave retry out');
  });
});
