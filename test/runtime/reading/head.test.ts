import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import { decodeHead, encodeHead, type HeadData, isHeadBlocked } from '../../../src/runtime/reading/head.ts';

const text = fc.string({ unit: 'grapheme' });
const count = fc.maxSafeNat();
const head: fc.Arbitrary<HeadData> = fc.record(
  {
    summary: fc.record(
      {
        id: text,
        agent: text,
        parent: text,
        name: text,
        state: fc.constantFrom('idle' as const, 'awaiting' as const, 'executing' as const),
        mailbox: count,
        updatedAt: count,
      },
      { requiredKeys: ['id', 'agent', 'state', 'mailbox', 'updatedAt'] },
    ),
    snapshot: fc.record({ address: text, position: count }),
    blocked: fc.constant(true as const),
  },
  { requiredKeys: ['summary'] },
) as fc.Arbitrary<HeadData>;

describe('heads', () => {
  it('A10, T5: an encoded head decodes unchanged, and says whether the session is blocked', () => {
    fc.assert(
      fc.property(head, (data) => {
        const encoded = encodeHead(data);
        expect(decodeHead(encoded)).toMatchObject(data);
        expect(decodeHead(encodeHead(decodeHead(encoded)))).toEqual(decodeHead(encoded));
        expect(isHeadBlocked(encoded)).toBe(data.blocked === true);
      }),
      { numRuns: 150 },
    );
  });

  it('F08, F79: any other text is reported as a damaged store, and as nothing else', () => {
    const other = fc.oneof(
      fc.string(),
      fc.json(),
      head.map((data) => encodeHead(data).slice(0, -1)),
      fc.constant('{"v":2}'),
    );
    fc.assert(
      fc.property(other, (encoded) => {
        expect(() => decodeHead(encoded)).toThrow(StoreCorruptError);
      }),
      { numRuns: 150 },
    );
  });
});
