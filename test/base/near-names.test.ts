import { describe, expect, test } from 'vitest';
import { NAMES_LISTED_MAX } from '../../src/base/bounds.ts';
import { namesHint, nearestName, nearestNames } from '../../src/base/near-names.ts';

describe('the name that was meant', () => {
  test.each([
    ['writter', 'writer'],
    ['Writer', 'writer'],
    ['wirter', 'writer'],
    ['wri', 'writer'],
    ['dri', 'dir'],
    ['painter', undefined],
    ['', undefined],
    ['x', undefined],
  ])('%s: %s', (wanted, meant) => {
    expect(nearestName(wanted, ['dir', 'reader', 'writer'])).toBe(meant);
  });
});

test('the nearest names, whether or not they are similar', () => {
  expect(nearestNames('red', ['write', 'read', 'grep'], 2)).toEqual(['read', 'grep']);
});

test('an error says what was meant and what there is', () => {
  expect(namesHint('wirter', ['writer', 'reader'], 'agents')).toBe(
    '; did you mean "writer"? Known agents: "reader", "writer"',
  );
  expect(namesHint('painter', ['writer'], 'agents')).toBe('; known agents: "writer"');
  expect(namesHint('painter', [], 'skills')).toBe('; there are no skills');
  const many = Array.from({ length: NAMES_LISTED_MAX + 3 }, (_, n) => `name-${String(n).padStart(3, '0')}`);
  expect(namesHint('painter', many, 'agents', String)).toMatch(/^; known agents: name-000, .*name-029 and 3 more$/u);
});
