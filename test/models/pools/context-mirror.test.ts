import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ContextMirror, MirrorIndex } from '../../../src/models/pools/context-mirror.ts';
import type { RequestMessage } from '../../../src/models/provider.ts';

const header = { model: 'm', max_tokens: 1, system: 's' };

function message(text: string): RequestMessage {
  return { role: 'user', content: text };
}

describe('ContextMirror', () => {
  it('C1, C2, C3: after any deltas the mirror gives the full request, and an index identifies its content', () => {
    const step = fc.record({
      session: fc.constantFrom('a', 'b', 'c', 'd'),
      keep: fc.nat(6),
      append: fc.array(fc.string(), { maxLength: 3 }),
      opens: fc.integer({ min: 0, max: 4 }),
      forgets: fc.integer({ min: 0, max: 9 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const mirror = new ContextMirror(3);
        const index = new MirrorIndex(3);
        /** The owner's copy of each request. */
        const full = new Map<string, { epoch: number; messages: RequestMessage[] }>();
        for (const { session, keep, append, opens, forgets } of steps) {
          const own = full.get(session) ?? { epoch: 0, messages: [] };
          full.set(session, own);
          if (opens === 0) own.epoch += 1;
          own.messages = [...own.messages.slice(0, keep), ...append.map(message)];
          const kept = own.messages.length - append.length;
          const holds = mirror.holds(session, own.epoch, kept);
          expect(index.holds(session, own.epoch, kept)).toBe(holds);
          const delta = holds
            ? { epoch: own.epoch, keep: kept, append: own.messages.slice(kept) }
            : { epoch: own.epoch, keep: 0, append: own.messages, header };
          const request = mirror.apply(session, delta);
          expect(index.note(session, delta)).toBe(true);
          expect(JSON.stringify(request)).toBe(JSON.stringify({ ...header, messages: own.messages }));
          expect(mirror.size).toBeLessThanOrEqual(3);
          if (forgets === 0) {
            mirror.forget(session);
            index.forget(session);
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('C2: a delta that does not fit changes nothing', () => {
    const mirror = new ContextMirror();
    const index = new MirrorIndex();
    const first = { epoch: 1, keep: 0, append: [message('1')], header };
    expect(mirror.apply('s', { epoch: 1, keep: 0, append: [message('1')] })).toBeUndefined();
    mirror.apply('s', first);
    index.note('s', first);
    for (const delta of [
      { epoch: 1, keep: 2, append: [] },
      { epoch: 2, keep: 1, append: [] },
      { epoch: 2, keep: 0, append: [] },
      { epoch: 2, keep: 1, append: [], header },
    ]) {
      expect(mirror.apply('s', delta)).toBeUndefined();
      expect(index.note('s', delta)).toBe(false);
    }
    expect(mirror.holds('s', 1, 1)).toBe(true);
    index.clear();
    expect(index.holds('s', 1, 1)).toBe(false);
  });

  it('C1: the next call does not change the request of a call that still runs', () => {
    const mirror = new ContextMirror();
    const before = mirror.apply('s', { epoch: 1, keep: 0, append: [message('1')], header });
    mirror.apply('s', { epoch: 1, keep: 1, append: [message('2')] });
    expect(before?.messages).toEqual([message('1')]);
  });
});
