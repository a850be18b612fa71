/** The cache marks that remain are legal, whatever marks were given, and they are the newest (R16, R18). */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { CacheControl, ContentBlock } from '../../src/base/messages.ts';
import { checkRequest } from '../../src/context/legality/legality.ts';
import { CACHE_MARKS_MAX, marksOf, withNewestMarks } from '../../src/models/cache-marks.ts';
import type { RequestMessage } from '../../src/models/provider.ts';

const mark = fc.constantFrom<CacheControl | undefined>(
  undefined,
  { type: 'ephemeral' },
  { type: 'ephemeral', ttl: '5m' },
  { type: 'ephemeral', ttl: '1h' },
);
const block = mark.map((each): ContentBlock => ({ type: 'text', text: 'x', ...(each && { cache_control: each }) }));
const message = fc
  .array(block, { minLength: 1, maxLength: 4 })
  .map((content): RequestMessage => ({ role: 'user', content }));

it('R16, R18: the newest of the given marks that are legal together are kept', () => {
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 8 }), fc.integer({ min: 0, max: 4 }), (messages, max) => {
      const sent = withNewestMarks(messages, max);
      const body = { model: 'm', max_tokens: 1, messages: sent };
      const rules = checkRequest(body).map(({ rule }) => rule);
      expect(rules).not.toContain('R16');
      expect(rules).not.toContain('R18');
      const count = (of: readonly RequestMessage[]): number => of.reduce((sum, each) => sum + marksOf(each), 0);
      expect(count(sent)).toBeLessThanOrEqual(max);
      expect(count(sent) === 0).toBe(count(messages) === 0 || max === 0);
      if (count(messages) === 0) expect(sent).toBe(messages);
    }),
  );
  expect(CACHE_MARKS_MAX).toBe(4);
});
