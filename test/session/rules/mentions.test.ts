// Goal: the addressed names, in any text. The time is linear, because the text is the model's.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mentionedNames } from '../../../src/session/rules/mentions.ts';

/** The contract's rule for code, in its plainest form; its time is not linear. */
function plainly(text: string): ReadonlySet<string> {
  const prose = text
    .replace(/(^|\n)(```|~~~)[\s\S]*?(\n\2|$)/g, ' ')
    .replace(/(?<!`)(`+)(?!`)[\s\S]*?(?<!`)\1(?!`)/g, ' ');
  return new Set([...prose.matchAll(/(?<![\w.+-])@(\w[\w-]*)/g)].map((match) => match[1] ?? ''));
}

describe('Δ31: names mentioned outside code', () => {
  const seed = Number(process.env['TROUPE_SEED'] ?? Date.now());

  test(`Δ31, F115: spans of any number of backticks are code, as the plain rule has it (seed ${seed})`, () => {
    const piece = fc.constantFrom('`', '``', '```', '~~~', '@ann', '@bob', ' ', '\n', 'x', '@');
    const text = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(text, (given) => {
        expect(mentionedNames(given)).toEqual(plainly(given));
      }),
      { seed, numRuns: 3_000 },
    );
  });

  test('F76: a text that is nothing but unequal runs of backticks takes linear time', () => {
    let runs = '';
    for (let length = 1; runs.length < 8_000_000; length += 1) runs += `${'`'.repeat(length)} `;
    expect(mentionedNames(`${runs}@ann`)).toEqual(new Set(['ann']));
  });
});
