/**
 * Goal: values that pass the boundary of plain data are plain and well-formed, and a second pass changes nothing. No
 * value, passed or refused, touches a prototype (F57, F73). Method: random values that include everything JSON cannot
 * carry; a failing run prints its seed.
 */

import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { type Json, NotPlainError, toPlainJson, wellFormed } from '../../src/base/json.ts';

afterEach(() => {
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  expect(Object.keys(Object.prototype)).toEqual([]);
});

/** Any UTF-16 units, including lone surrogates. */
const units = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  maxLength: 8,
});
const lone = fc.constantFrom('\ud83d', '\ude00', 'a\ud83d', '\ude00b', '\ud83d\ud83d\ude00', '\u0000', '\u2028');
const text = fc.oneof(units, lone, fc.string({ unit: 'grapheme', maxLength: 8 }));
const key = fc.oneof(
  text,
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toJSON', 'polluted', 'length', '0'),
);
const scalar = fc.oneof(
  text,
  fc.boolean(),
  fc.constant(null),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

/** An object with exactly these own keys, `__proto__` among them as data. */
function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  const made = {};
  for (const [name, value] of entries) {
    Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return made;
}

const { plain } = fc.letrec<{ plain: unknown }>((tie) => ({
  plain: fc.oneof(
    { maxDepth: 5 },
    scalar,
    fc.array(tie('plain'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('plain')), { maxLength: 4 }).map(objectOf),
  ),
}));

class Instance {
  readonly secret = 1;
}

/** Values that JSON cannot hold, or that run code. */
const foreign = fc.constantFrom<() => unknown>(
  () => () => 1,
  () => Symbol('x'),
  () => 10n,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => new Instance(),
  () => new Map([[1, 2]]),
  () => new Date(Number.NaN),
  () =>
    new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('trap');
        },
      },
    ),
  () =>
    Object.defineProperty({}, 'a', {
      enumerable: true,
      get: () => {
        throw new Error('getter');
      },
    }),
  () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    return cycle;
  },
);

/** The JSON text of a value: two equal plain values have the same text, key order included. */
function same(one: Json, other: Json): void {
  expect(JSON.stringify(one)).toBe(JSON.stringify(other));
}

function isWellFormed(value: Json): boolean {
  if (typeof value === 'string') return wellFormed(value) === value;
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([name, member]) => isWellFormed(name) && isWellFormed(member as Json));
}

describe('plain data', () => {
  it('F57, T5: a plain copy is well-formed, a copy of it is equal, and it survives its text form', () => {
    fc.assert(
      fc.property(plain, (value) => {
        const copy = toPlainJson(value);
        expect(isWellFormed(copy)).toBe(true);
        same(toPlainJson(copy), copy);
        same(toPlainJson(JSON.parse(JSON.stringify(copy))), copy);
        same(toPlainJson(structuredClone(copy)), copy);
      }),
      { numRuns: 1_000 },
    );
  });

  it('F57, T5: a plain and well-formed value equals its copy and shares nothing with it', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        const value: unknown = JSON.parse(json, (_key, each: unknown) =>
          typeof each === 'string' ? wellFormed(each) : each,
        );
        const before = JSON.stringify(value);
        const copy = toPlainJson(value);
        if (Object.keys(value ?? {}).every((name) => wellFormed(name) === name))
          expect(JSON.stringify(copy)).toBe(before);
        if (typeof value === 'object' && value !== null) expect(copy).not.toBe(value);
        expect(JSON.stringify(value)).toBe(before);
      }),
      { numRuns: 500 },
    );
  });

  it('F57: repairing a text twice equals repairing it once, and well-formed texts do not change', () => {
    fc.assert(
      fc.property(text, (value) => {
        const mended = wellFormed(value);
        expect(wellFormed(mended)).toBe(mended);
        expect(mended.length).toBe(value.length);
        expect(Buffer.from(mended).toString()).toBe(mended);
      }),
      { numRuns: 1_000 },
    );
  });

  it('F73, T5: keys named like prototype members stay data, and no prototype changes', () => {
    fc.assert(
      fc.property(plain, (inner) => {
        const value = objectOf([
          ['__proto__', { polluted: inner }],
          ['constructor', { prototype: { polluted: inner } }],
        ]);
        const copy = toPlainJson(value);
        expect(Object.keys(copy as object)).toEqual(['__proto__', 'constructor']);
        expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
        expect((copy as { polluted?: unknown }).polluted).toBeUndefined();
        same(toPlainJson(JSON.parse(JSON.stringify(copy))), copy);
        expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });

  it('F73: toJSON is never called, a getter is read at most once, and inherited members are ignored', () => {
    let calls = 0;
    const withJson = { a: 1, toJSON: () => (calls += 1) };
    expect(() => toPlainJson(withJson)).toThrow(NotPlainError);
    expect(calls).toBe(0);
    let reads = 0;
    const withGetter = Object.defineProperty({}, 'a', { enumerable: true, get: () => (reads += 1) });
    expect(toPlainJson(withGetter)).toEqual({ a: 1 });
    expect(reads).toBe(1);
    const bare = Object.assign(Object.create(null) as object, { own: 1 });
    expect(toPlainJson(bare)).toEqual({ own: 1 });
    expect(() => toPlainJson(Object.create({ inherited: 1 }))).toThrow(NotPlainError);
  });

  it('F56, F73, T5: a value that is not plain, at any depth, is refused with its path and without its content', () => {
    fc.assert(
      fc.property(
        foreign,
        fc.array(fc.oneof(fc.nat(3), fc.constantFrom('a', '__proto__', 'b c')), { maxLength: 6 }),
        (make, path) => {
          let value = make();
          for (const part of path.toReversed()) {
            value =
              typeof part === 'number'
                ? [...Array.from({ length: part }, () => null), value]
                : objectOf([[part, value]]);
          }
          let thrown: unknown;
          try {
            toPlainJson(value);
          } catch (error) {
            thrown = error;
          }
          expect(thrown).toBeInstanceOf(NotPlainError);
          const place = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
          expect((thrown as NotPlainError).path.startsWith(`$${place}`)).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });
});
