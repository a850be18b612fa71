// Goal: a text that grows by pieces is exactly their sequence, whatever units they have and wherever they are split.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TEXT_BUFFER_BYTES_MIN } from '../../src/base/bounds.ts';
import { TextBuffer } from '../../src/base/text-buffer.ts';

function joined(pieces: readonly string[]): string {
  const buffer = new TextBuffer();
  for (const piece of pieces) buffer.add(piece);
  return buffer.toString();
}

/** Any UTF-16 units: most narrow, some wide, some of them lone surrogates. */
const piece = fc
  .array(fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 0, max: 0xff }) }, fc.integer({ min: 0, max: 0xffff })))
  .map((units) => String.fromCharCode(...units));

test('X2: the text is the sequence of all pieces, lone surrogates too', () => {
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      expect(joined(pieces)).toBe(pieces.join(''));
    }),
  );
});

test('X2: a surrogate pair that was split between two pieces is whole', () => {
  const [high = '', low = ''] = '😀'.split('');
  expect(joined(['a', high, low, 'b'])).toBe('a😀b');
});

test('X3: a text that becomes wide after it has grown keeps what it had', () => {
  const narrow = 'é'.repeat(3 * TEXT_BUFFER_BYTES_MIN);
  expect(joined([narrow, 'x', '€', narrow])).toBe(`${narrow}x€${narrow}`);
});

test('the text may be read between pieces; only a text without units is empty', () => {
  const buffer = new TextBuffer('');
  expect([buffer.isEmpty, buffer.toString()]).toEqual([true, '']);
  buffer.add('');
  expect(buffer.isEmpty).toBe(true);
  buffer.add('one');
  expect([buffer.isEmpty, buffer.toString()]).toEqual([false, 'one']);
  buffer.add(' two €');
  expect(buffer.toString()).toBe('one two €');
  expect(new TextBuffer('start').toString()).toBe('start');
});
