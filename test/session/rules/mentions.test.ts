// Goal: mentioned names are found in any text, in linear time, because a model writes the text.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mentionedNames } from '../../../src/session/rules/mentions.ts';

/** The contract's rule for code in its simplest form, which takes more than linear time. */
function plainly(text: string): ReadonlySet<string> {
  const prose = text
    .replace(/(^|\n)(```|~~~)[\s\S]*?(\n\2|$)/g, ' ')
    .replace(/(?<!`)(`+)(?!`)[\s\S]*?(?<!`)\1(?!`)/g, ' ');
  return new Set([...prose.matchAll(/(?<![\w.+-])@(\w[\w-]*)/g)].map((match) => match[1] ?? ''));
}

describe('Δ31: names mentioned outside code', () => {
  test('Δ31, F115: spans of any number of backticks are code, by the plain rule', () => {
    const piece = fc.constantFrom('`', '``', '```', '~~~', '@ann', '@bob', ' ', '\n', 'x', '@');
    const text = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(text, (given) => {
        expect(mentionedNames(given)).toEqual(plainly(given));
      }),
      { numRuns: 3_000 },
    );
  });

  test('F76: a text of nothing but unequal runs of backticks takes linear time', () => {
    let runs = '';
    for (let length = 1; runs.length < 8_000_000; length += 1) runs += `${'`'.repeat(length)} `;
    expect(mentionedNames(`${runs}@ann`)).toEqual(new Set(['ann']));
  });
});
