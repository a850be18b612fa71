// Goal: any value passed to the boundary of plain data gives plain JSON, or an error that names the path.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PLAIN_VALUES_MAX } from '../../src/base/bounds.ts';
import { NotPlainError, toPlainJson } from '../../src/base/json.ts';

function pathOf(value: unknown): string {
  try {
    toPlainJson(value);
  } catch (error) {
    expect(error).toBeInstanceOf(NotPlainError);
    return error instanceof NotPlainError ? error.path : '';
  }
  throw new Error('it is plain');
}

describe('F56, F73: plain data', () => {
  test('T5: JSON stays the same, a second pass changes nothing, and no prototype is touched', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const given: unknown = JSON.parse(JSON.stringify(value));
        const plain = toPlainJson(given);
        expect(JSON.stringify(plain)).toBe(JSON.stringify(given).replace(/\\ud[89a-f][0-9a-f]{2}/gi, '\uFFFD'));
        expect(toPlainJson(plain)).toEqual(plain);
        expect(Reflect.get({}, 'polluted')).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  test('F56: for any input the result is JSON or a NotPlainError', () => {
    const odd = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withObjectString: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
    });
    fc.assert(
      fc.property(odd, (value) => {
        try {
          const plain = toPlainJson(value);
          expect(JSON.parse(JSON.stringify(plain))).toEqual(JSON.parse(JSON.stringify(toPlainJson(plain))));
        } catch (error) {
          expect(error).toBeInstanceOf(NotPlainError);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test('F56: getters, traps, revoked proxies and misleading classes are refused with their path', () => {
    const boom = (): never => {
      throw new Error('boom');
    };
    const revocable = Proxy.revocable({}, {});
    revocable.revoke();
    class Named {}
    Object.defineProperty(Named, 'name', { get: boom });
    expect(pathOf({ a: [Object.defineProperty({}, 'b', { enumerable: true, get: boom })] })).toBe('$.a[0].b');
    expect(pathOf({ a: new Proxy({ b: 1 }, { get: boom }) })).toBe('$.a.b');
    expect(pathOf({ a: new Proxy({}, { ownKeys: boom }) })).toBe('$.a');
    expect(pathOf({ a: new Proxy([], { get: boom }) })).toBe('$.a');
    expect(pathOf({ a: revocable.proxy })).toBe('$.a');
    expect(pathOf({ a: new Named() })).toBe('$.a');
  });

  test('F73: an array is read by index, whatever methods and species it has', () => {
    let calls = 0;
    const array = [1, [2]] as unknown[] & Record<string, unknown>;
    const spy = (): never => {
      calls += 1;
      throw new Error('called');
    };
    for (const name of ['map', 'toJSON', 'forEach']) Object.defineProperty(array, name, { value: spy });
    Object.defineProperty(array, 'constructor', { get: spy });
    expect(toPlainJson({ array })).toEqual({ array: [1, [2]] });
    expect(calls).toBe(0);
  });

  test('A9: a value with more entries than the bound is refused at once: a sparse array, a value shared many times', () => {
    const holes: unknown[] = [];
    holes.length = 2 ** 32 - 1;
    const shared = Array.from({ length: 30 }).reduce<unknown>((inner) => ({ a: inner, b: inner }), 1);
    expect(pathOf({ holes })).toBe('$.holes');
    expect(pathOf({ shared })).toMatch(/^\$\.shared/);
    expect(() => toPlainJson(holes)).toThrow(`${2 ** 32 - 1} places`);
    expect(() => toPlainJson(shared)).toThrow(String(PLAIN_VALUES_MAX));
    const half: unknown[] = [];
    half.length = PLAIN_VALUES_MAX / 2;
    expect(toPlainJson([half])).toHaveLength(1);
    expect(pathOf([half, half])).toBe('$[1]');
  });
});
