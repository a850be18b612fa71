import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RecentMap } from '../../src/models/recent-map.ts';

describe('RecentMap', () => {
  test('O1: it behaves like a map that moves each added key to its end, for any puts and deletes', () => {
    const step = fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd', 'e'), act: fc.nat(9) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (steps, sizeMax) => {
        const recent = new RecentMap<number>(sizeMax);
        const plain = new Map<string, number>();
        steps.forEach(({ key, act }, at) => {
          if (act === 0) {
            recent.clear();
            plain.clear();
          } else if (act < 3) {
            recent.delete(key);
            plain.delete(key);
          } else {
            recent.put(key, at);
            plain.delete(key);
            plain.set(key, at);
            const [oldest] = plain.keys();
            if (plain.size > sizeMax && oldest !== undefined) plain.delete(oldest);
          }
          expect(recent.size).toBe(plain.size);
          for (const each of ['a', 'b', 'c', 'd', 'e']) expect(recent.get(each)).toBe(plain.get(each));
        });
      }),
      { numRuns: 500 },
    );
  });
});
