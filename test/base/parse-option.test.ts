/** Goal: an option that does not fit is refused with its key, the expected form once, and the value once. */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ConfigError } from '../../src/base/errors.ts';
import { parseOption } from '../../src/base/parse-option.ts';

const url = z.union([z.string(), z.instanceof(URL)]);
const schema = z.strictObject({ name: z.string(), kind: z.enum(['a', 'b']), url, count: z.number().min(1) });
const good = { name: 'n', kind: 'a', url: 'x', count: 1 };

/** The message with which a value is refused. */
function refusal(name: string, value: unknown): string {
  try {
    parseOption(schema, name, value);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('the value was not refused');
}

test.each([
  [{ ...good, name: {} }, 'option "o.name": expected string; got object'],
  [{ ...good, name: undefined }, 'option "o.name": expected string; got undefined'],
  [{ ...good, kind: 'c' }, 'option "o.kind": expected one of "a"|"b"; got string "c"'],
  [{ ...good, url: {} }, 'option "o.url": expected string or URL; got object'],
  [{ ...good, count: 0 }, 'option "o.count": Too small: expected number to be >=1; got number 0'],
  [[], 'option "o": expected object; got array of 0'],
])('%j', (value, message) => {
  expect(refusal('o', value)).toBe(message);
});

test('options without a name are called so', () => {
  expect(refusal('', 5)).toBe('the options: expected object; got number 5');
});
