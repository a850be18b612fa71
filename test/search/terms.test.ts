/** Goal: words are found in any of their forms and spellings. The pairs are from the paper on the stemmer. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stem } from '../../src/search/stem.ts';
import { termsOf } from '../../src/search/terms.ts';

it.each([
  ['caresses', 'caress'],
  ['ponies', 'poni'],
  ['cats', 'cat'],
  ['feed', 'feed'],
  ['agreed', 'agre'],
  ['plastered', 'plaster'],
  ['motoring', 'motor'],
  ['sing', 'sing'],
  ['conflated', 'conflat'],
  ['troubled', 'troubl'],
  ['sized', 'size'],
  ['hopping', 'hop'],
  ['falling', 'fall'],
  ['hissing', 'hiss'],
  ['filing', 'file'],
  ['happy', 'happi'],
  ['sky', 'sky'],
  ['relational', 'relat'],
  ['conditional', 'condit'],
  ['rational', 'ration'],
  ['digitizer', 'digit'],
  ['vietnamization', 'vietnam'],
  ['operator', 'oper'],
  ['decisiveness', 'decis'],
  ['hopefulness', 'hope'],
  ['sensibiliti', 'sensibl'],
  ['triplicate', 'triplic'],
  ['formative', 'form'],
  ['electriciti', 'electr'],
  ['goodness', 'good'],
  ['revival', 'reviv'],
  ['allowance', 'allow'],
  ['adoption', 'adopt'],
  ['replacement', 'replac'],
  ['adjustment', 'adjust'],
  ['probate', 'probat'],
  ['rate', 'rate'],
  ['cease', 'ceas'],
  ['controll', 'control'],
  ['roll', 'roll'],
])('%s has the stem %s', (word, expected) => {
  expect(stem(word)).toBe(expected);
});

it('accents, case and width do not matter', () => {
  expect(termsOf('Crème BRÛLÉE, Zürich ﬁne')).toEqual(termsOf('creme brulee zurich fine'));
});

it('words of other scripts and numbers are terms unchanged', () => {
  expect(termsOf('Дом 42 寿司 — v2.0')).toEqual(['дом', '42', '寿司', 'v2', '0']);
});

it('any text gives terms without accents, blanks or capitals, and folding them again changes nothing (property)', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const terms = termsOf(text);
      expect(termsOf(text)).toEqual(terms);
      for (const term of terms) expect(term).toMatch(/^[\p{L}\p{N}]+$/u);
    }),
    { numRuns: 15 },
  );
});
