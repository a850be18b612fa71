/** Statistics, and the random numbers and the model that every benchmark uses. */
import { describe, expect, test } from 'vitest';
import { randomNumbers } from '../../bench/random.ts';
import { latencies, median, quantile } from '../../bench/report/figures.ts';
import { answerTo } from '../../bench/systems/model.ts';
import { answerOf, type Question, textOf } from '../../bench/systems/system.ts';
import type { RequestMessage } from '../../src/models/provider.ts';

describe('figures', () => {
  test('the median is the middle, or the mean of the two in the middle', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  test('quantiles of a hundred values are those at their rank', () => {
    const values = Array.from({ length: 100 }, (_, index) => index);
    expect(quantile(values, 0.5)).toBe(50);
    expect(latencies([...values].reverse())).toEqual({ p50: 50, p99: 99 });
    expect(quantile([], 0.5)).toBe(0);
  });
});

describe('chance', () => {
  test('the same seed gives the same numbers, which stay within the bound and cover its whole range', () => {
    const [one, two] = [randomNumbers(7), randomNumbers(7)];
    const drawn = Array.from({ length: 1_000 }, () => one(10));
    expect(drawn).toEqual(Array.from({ length: 1_000 }, () => two(10)));
    expect(new Set(drawn)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
  });
});

describe('the model of the benchmarks', () => {
  /** The answer of a turn, and its number of calls. */
  function converse(question: Question): { readonly calls: number; readonly answer: string } {
    const messages: RequestMessage[] = [{ role: 'user', content: textOf(question) }];
    for (let calls = 0; ; calls += 1) {
      const block = answerTo({ messages }).content[0];
      if (block?.type === 'text') return { calls, answer: block.text };
      if (block?.type !== 'tool_use') throw new Error('neither a text nor a call');
      const { a, b } = block.input as Question;
      const result = { type: 'tool_result' as const, tool_use_id: block.id, content: String(a + b) };
      messages.push({ role: 'assistant', content: [block] }, { role: 'user', content: [result] });
    }
  }

  test('one call, then the sum', () => {
    expect(converse({ a: 2, b: 3 })).toEqual({ calls: 1, answer: answerOf({ a: 2, b: 3 }) });
  });

  test('as many calls as requested, one after another, then the sum', () => {
    const question = { a: 2, b: 3, times: 39 };
    expect(converse(question)).toEqual({ calls: 39, answer: 'sum 119' });
    expect(answerOf(question)).toBe('sum 119');
  });

  test('a text after the question changes nothing', () => {
    expect(converse({ a: 1, b: 1, filler: 'and on' }).answer).toBe('sum 2');
  });
});
