// Goal: contract §5.4 with Δ21: a short text stays unchanged, and a long text keeps its two ends within the bounds.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LIMIT_DEFAULTS } from '../../src/base/bounds.ts';
import { parseSettings } from '../../src/base/settings.ts';
import { childReplyBounds, toolTruncationReason, truncateResult } from '../../src/tools/truncation.ts';

const bounds = { charactersMax: 6_000, bytesMax: 262_144, reference: 'blob:abc' };
const lines = (count: number, width = 60): string =>
  Array.from({ length: count }, (_unused, at) => `line ${at + 1} `.padEnd(width, '.')).join('\n');

describe('§5.4', () => {
  test('a text within the threshold is unchanged', () => {
    for (const text of ['', 'short', 'x'.repeat(6_000), '😀'.repeat(6_000)]) {
      expect(truncateResult(text, bounds)).toEqual({ text });
    }
  });

  test('beyond it the first and last 10 lines surround the notice', () => {
    const whole = lines(500);
    const { text, whole: kept } = truncateResult(whole, { ...bounds, reason: toolTruncationReason('bash') });
    const shown = text.split('\n');
    expect(kept).toBe(whole);
    expect(shown.slice(0, 10)).toEqual(whole.split('\n').slice(0, 10));
    expect(shown.slice(-10)).toEqual(whole.split('\n').slice(-10));
    expect(shown.filter((line) => line.startsWith('line '))).toHaveLength(20);
    expect(text).toContain('Response truncated — bash output displays first/last 10 lines');
    expect(text).toContain('500 lines total');
    expect(text).toMatch(/saved to: blob:abc$/m);
    expect(text).toMatch(/read_file with offset\/limit/);
  });

  test('a newline at the end adds no line', () => {
    expect(truncateResult(`${lines(500)}\n`, bounds).text).toContain('500 lines total');
    expect(truncateResult(`${lines(500)}\n`, bounds).text).toContain('line 491 ');
  });

  test('a notice without a reason has no dash', () => {
    expect(truncateResult(lines(500), bounds).text).not.toContain('—');
    expect(childReplyBounds({ settings: parseSettings({}), limits: LIMIT_DEFAULTS }).reason).toBe(
      'sub-agent output displays first/last 10 lines',
    );
  });
});

describe('Δ21', () => {
  test.each([1, 5, 20, 21, 400])('%i endless lines are cut by characters, and both ends stay', (count) => {
    const whole = `start${lines(count, 50_000)}end`;
    const { text } = truncateResult(whole, bounds);
    expect(text.length).toBeLessThanOrEqual(6_000);
    expect(text.startsWith('start')).toBe(true);
    expect(text.endsWith('end')).toBe(true);
    expect(text).toContain(`${count} lines total`);
  });

  test('a notice promises ten lines only if there is room for them', () => {
    const reason = toolTruncationReason('bash');
    const whole = Array.from({ length: 100 }, (_, index) => `line ${index} ${'x'.repeat(40)}`).join('\n');
    const { text } = truncateResult(whole, { charactersMax: 600, bytesMax: 262_144, reference: 'blob:x', reason });
    expect(text).toContain('bash output displays its beginning and end (100 lines total)');
    expect(text.length).toBeLessThanOrEqual(600);
    const roomy = truncateResult(whole, { charactersMax: 3_000, bytesMax: 262_144, reference: 'blob:x', reason });
    expect(roomy.text).toContain('first/last 10 lines');
  });

  test('F55: a tool that is not truncated is still cut to the bytes, on code-point borders', () => {
    const whole = '😀'.repeat(1_000_000);
    const { text } = truncateResult(whole, { ...bounds, charactersMax: Number.POSITIVE_INFINITY });
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(262_144);
    expect(text).not.toMatch(/\p{Surrogate}/u);
    expect(text.startsWith('😀') && text.endsWith('😀')).toBe(true);
  });

  test('any text is within both bounds afterwards, and is cut only if it exceeds one', () => {
    const text = fc
      .array(fc.string({ unit: 'grapheme', maxLength: 80 }), { maxLength: 60 })
      .map((all) => all.join('\n'));
    const numbers = fc.record({
      charactersMax: fc.integer({ min: 400, max: 2_000 }),
      bytesMax: fc.integer({ min: 400, max: 4_000 }),
    });
    fc.assert(
      fc.property(text, numbers, (whole, { charactersMax, bytesMax }) => {
        const cut = truncateResult(whole, { charactersMax, bytesMax, reference: 'blob:x', reason: 'why' });
        const exceeds = [...whole].length > charactersMax || Buffer.byteLength(whole) > bytesMax;
        expect(cut.whole).toBe(exceeds ? whole : undefined);
        expect([...cut.text].length).toBeLessThanOrEqual(charactersMax);
        expect(Buffer.byteLength(cut.text)).toBeLessThanOrEqual(bytesMax);
        if (exceeds) expect(cut.text).not.toMatch(/\p{Surrogate}/u);
      }),
      { verbose: 1 },
    );
  });
});
