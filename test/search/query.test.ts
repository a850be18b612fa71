/** Goal: parsing any input gives a query or none, and never throws. The four operators work as documented. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { matches, parseQuery } from '../../src/search/query.ts';
import { termsOf } from '../../src/search/terms.ts';

function finds(query: string, text: string): boolean {
  const parsed = parseQuery(query);
  return parsed !== undefined && matches(parsed, termsOf(text));
}

describe('F102: queries as people type them', () => {
  it.each([
    ['sub-agents', 'two sub-agents work', true],
    ['sub-agents', 'agents of a sub', false],
    ['agents:foo', 'see agents: foo', true],
    ['"never closed', 'it was never closed', true],
    ['a "b c" d"', 'd c b a', false],
    ['C++ (templates)', 'templates in c', true],
    ['*', 'anything', false],
    ['running', 'he runs', true],
    ['and or not', 'and or not', true],
    ['^col: {x} ~2', 'x col 2', true],
  ])('%s in %j: %s', (query, text, expected) => {
    expect(finds(query, text)).toBe(expected);
  });

  it.each(['', '   ', 'AND OR NOT', 'AND', 'NEAR', 'NOT word', '"', '""', '--', 'OR NOT x'])(
    '%j is not a query',
    (query) => {
      expect(parseQuery(query)).toBeUndefined();
    },
  );

  it('any text is a query or none, and never throws (property)', () => {
    const piece = fc.oneof(fc.constantFrom('AND', 'OR', 'NOT', 'NEAR', '"', ':', '-', '*', '(', ')'), fc.string());
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        const query = parseQuery(pieces.join(' '));
        if (query === undefined) return;
        expect(query.every(({ all }) => all.length > 0)).toBe(true);
        expect(matches(query, [])).toBe(false);
      }),
    );
  });
});

describe('operators', () => {
  it.each([
    ['cats dogs', 'cats and dogs', true],
    ['cats dogs', 'cats', false],
    ['cats AND dogs', 'dogs, cats', true],
    ['cats OR dogs', 'a dog', true],
    ['cats NOT dogs', 'cats', true],
    ['cats NOT dogs', 'cats, dogs', false],
    ['cats OR dogs NOT fish', 'cats, fish', true],
    ['cats OR dogs NOT fish', 'dogs, fish', false],
    ['cats NEAR dogs', 'cats like some dogs', true],
    ['cats NEAR dogs', `cats ${'x '.repeat(20)} dogs`, false],
    ['"big cats"', 'big cats', true],
    ['"big cats"', 'cats are big', false],
    ['"NOT" me', 'not me', true],
  ])('%s in %j: %s', (query, text, expected) => {
    expect(finds(query, text)).toBe(expected);
  });
});
