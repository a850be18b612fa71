// Goal: the waits between the attempts of a model call are the contract's by default, or as the embedder sets them.
import { describe, expect, test } from 'vitest';
import type { ErrorShape } from '../../../src/base/errors.ts';
import { parseSettings } from '../../../src/base/settings.ts';
import { retryWaitMs } from '../../../src/session/decide/answer.ts';

const OVERLOADED: ErrorShape = { name: 'E', code: 'model_overloaded', message: 'no', retryable: true };
const asking = (retryAfterMs: number): ErrorShape => ({ ...OVERLOADED, data: { retryAfterMs } });

function waits(retry: object, count: number, random = 0, error = OVERLOADED): readonly number[] {
  const settings = parseSettings({ llm: { retry } }).llm.retry;
  return Array.from({ length: count }, (_, index) => retryWaitMs(settings, index + 1, error, random));
}

describe('settings.llm.retry', () => {
  test('F038: the default wait after attempt k is k to the fourth seconds plus up to 15 %, and there are five attempts', () => {
    expect(parseSettings({}).llm.retry).toEqual({ attempts: 5, base: 1, maximum: 300 });
    expect(waits({}, 4)).toEqual([1_000, 16_000, 81_000, 256_000]);
    expect(waits({}, 4, 1)).toEqual([1_150, 18_400, 93_150, 294_400]);
  });

  test('with a factor each wait is a multiple of the one before, up to the maximum', () => {
    expect(waits({ base: 0.5, factor: 2, maximum: 3 }, 5)).toEqual([500, 1_000, 2_000, 3_000, 3_000]);
    expect(waits({ base: 2 }, 3)).toEqual([2_000, 32_000, 162_000]);
  });

  test('F20: retry-after may exceed the maximum, and never shortens a wait', () => {
    expect(waits({ maximum: 3 }, 2, 0, asking(60_000))).toEqual([60_000, 60_000]);
    expect(waits({}, 2, 0, asking(0))).toEqual([1_000, 16_000]);
  });

  test.each([
    [{ attempts: 0 }, /"settings\.llm\.retry\.attempts".*got number 0/u],
    [{ attempts: 101 }, /"settings\.llm\.retry\.attempts".*got number 101/u],
    [{ base: 0 }, /"settings\.llm\.retry\.base".*got number 0/u],
    [{ factor: 0.5 }, /"settings\.llm\.retry\.factor".*got number 0\.5/u],
    [{ maximum: 1e9 }, /"settings\.llm\.retry\.maximum"/u],
    [{ tries: 3 }, /unknown option "settings\.llm\.retry\.tries"/u],
  ])('%o is refused, and the error names the option', (retry, message) => {
    expect(() => parseSettings({ llm: { retry } })).toThrow(message);
  });
});
