/** Goal: the moments and the pace of a staged review follow from its files, and its lines fit the smallest terminal. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { delayOf, paceFor, paceIn, withPace } from '../../../src/cli/review/pace.ts';
import type { PlannedFile } from '../../../src/cli/review/plan.ts';
import { killAt, steeredFile } from '../../../src/cli/stage/moments.ts';
import { beganText, continuedText, killedText, notKilledText, steeredText } from '../../../src/cli/stage/texts.ts';

function filesOf(sizes: readonly number[]): readonly PlannedFile[] {
  return sizes.map((bytes, index) => ({ path: `${index}.ts`, reader: `file-${index}`, bytes }));
}

describe('the steered reader', () => {
  test('is that of the largest file if all readers begin at once', () => {
    expect(steeredFile(filesOf([1, 9, 3]))?.path).toBe('1.ts');
    expect(steeredFile([])).toBeUndefined();
  });

  test('of many files, it begins when about a third have ended, and is the largest of those that begin then', () => {
    const sizes = Array.from({ length: 500 }, (_, index) => (index === 3 ? 9_999 : index === 250 ? 500 : 1));
    expect(steeredFile(filesOf(sizes))?.path).toBe('250.ts');
  });

  test('is one of the files, whatever their number', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(200_000), { minLength: 1, maxLength: 300 }), (sizes) => {
        const files = filesOf(sizes);
        expect(files).toContain(steeredFile(files));
      }),
    );
  });
});

describe('the kill', () => {
  test('comes when 60 % have ended, before the last one, and not in a review of few files', () => {
    expect([1, 3, 4, 5, 10, 500].map(killAt)).toEqual([undefined, undefined, 3, 3, 6, 300]);
  });
});

describe('the pace', () => {
  test('many files share the time, few take an answer as long as it may take', () => {
    const many = paceFor(filesOf(Array.from({ length: 500 }, () => 4_000)));
    // 500 readers with three answers each, 64 at once: about 23 rounds.
    expect(many.delayMs).toBeGreaterThan(200);
    expect(many.delayMs).toBeLessThan(500);
    expect(paceFor(filesOf([10])).delayMs).toBe(600);
    expect(paceFor([]).delayMs).toBe(600);
    expect(paceFor(filesOf(Array.from({ length: 2_000 }, () => 200_000))).delayMs).toBe(20);
  });

  test('passes through a URL, and a URL with another value is refused', () => {
    const pace = { delayMs: 123, pageLines: 50 };
    const url = withPace(new URL('file:///model.js'), pace);
    expect(paceIn(url.href)).toEqual(pace);
    expect(paceIn('file:///model.js')).toBeUndefined();
    url.searchParams.set('pageLines', 'many');
    expect(() => paceIn(url.href)).toThrow();
  });

  test('an answer takes between half and one and a half times the mean, the same each time', () => {
    const pace = { delayMs: 100, pageLines: 50 };
    const delays = Array.from({ length: 200 }, (_, index) => delayOf(pace, `s:${index}`, 1));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(50);
    expect(Math.max(...delays)).toBeLessThanOrEqual(150);
    expect(delays).toEqual(Array.from({ length: 200 }, (_, index) => delayOf(pace, `s:${index}`, 1)));
  });
});

test('every line fits in 80 columns', () => {
  const pid = 4_194_304;
  const files = filesOf(Array.from({ length: 2_000 }, () => 1));
  const plan = { directory: '/d', model: 'scripted', files, leftOut: 98_000 } as const;
  const lines = [
    beganText({ type: 'planned', plan, standing: 'new', before: 0 }, pid),
    beganText({ type: 'planned', plan, standing: 'continued', before: 1_999 }, pid),
    steeredText({ type: 'steered', path: `src/${'long/'.repeat(40)}file.ts`, session: 's', text: 'Also name it.' }),
    killedText({ pid, working: 64 }),
    continuedText({ pid, next: pid, working: 64, ended: 1_200, recoverySeconds: 12.3 }),
    notKilledText(3, 0),
    notKilledText(2_000, 1_999),
    notKilledText(2_000, 0),
  ];
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80);
});
