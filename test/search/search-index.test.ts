/** Goal: the index finds the same as a scan of all texts, in a sensible order, and forgets removed messages. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PostingList } from '../../src/search/posting-list.ts';
import { matches, parseQuery } from '../../src/search/query.ts';
import { SearchIndex } from '../../src/search/search-index.ts';
import { termsOf } from '../../src/search/terms.ts';

const NOW = Date.UTC(2026, 0, 1);
const YEAR_MS = 365.25 * 24 * 3_600_000;

function look(index: SearchIndex, query: string, decay = 0): readonly string[] {
  const parsed = parseQuery(query);
  if (parsed === undefined) return [];
  return index.look(parsed, { now: NOW, decay }).map(({ session, seq }) => `${session}#${seq}`);
}

describe('posting lists', () => {
  it('return the numbers put in (property)', () => {
    const gap = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 2 ** 30 }));
    fc.assert(
      fc.property(fc.array(fc.tuple(gap, fc.integer({ min: 1, max: 70_000 })), { maxLength: 60 }), (steps) => {
        const list = new PostingList();
        const expected: [number, number][] = [];
        let document = 0;
        for (const [step, times] of steps) {
          document += step;
          if (document >= 2 ** 32) break;
          list.add(document, times);
          expected.push([document, times]);
        }
        const found: [number, number][] = [];
        list.each((each, times) => found.push([each, times]));
        expect(found).toEqual(expected);
        expect(list.count).toBe(expected.length);
      }),
    );
  });
});

describe('ranking', () => {
  it('a rare word weighs more than a frequent one, a short text more than a long one', () => {
    const index = new SearchIndex();
    index.add('s', { seq: 1, at: NOW, text: `budget ${'word '.repeat(200)}` });
    index.add('s', { seq: 2, at: NOW, text: 'the budget word' });
    index.add('s', { seq: 3, at: NOW, text: 'word' });
    expect(look(index, 'budget')).toEqual(['s#2', 's#1']);
    for (let seq = 4; seq < 40; seq += 1) index.add('s', { seq, at: NOW, text: 'common filler' });
    index.add('s', { seq: 40, at: NOW, text: 'rare filler' });
    expect(look(index, 'common OR rare')[0]).toBe('s#40');
  });

  it('age lowers the rank', () => {
    const index = new SearchIndex();
    index.add('old', { seq: 1, at: NOW - 10 * YEAR_MS, text: 'budget budget' });
    index.add('new', { seq: 1, at: NOW, text: 'a budget somewhere' });
    expect(look(index, 'budget')).toEqual(['old#1', 'new#1']);
    expect(look(index, 'budget', 0.3)).toEqual(['new#1', 'old#1']);
  });
});

describe('bounds', () => {
  it('X3: beyond its bound the oldest messages are removed', () => {
    const index = new SearchIndex(100);
    for (let seq = 1; seq <= 1_000; seq += 1) index.add('s', { seq, at: NOW, text: `alpha n${seq}` });
    expect(index.size).toBeLessThanOrEqual(100);
    expect(look(index, 'n1000')).toEqual(['s#1000']);
    expect(look(index, 'n1')).toEqual([]);
  });
});

describe('compared with a scan', () => {
  const WORDS = ['alpha', 'beta', 'gammas', 'delta', 'running', 'runs'];
  const text = fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 6 }).map((words) => words.join(' '));
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ do: fc.constant('add' as const), session: fc.nat(4), text }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), session: fc.nat(4) }) },
  );
  const query = fc
    .array(
      fc.oneof(
        fc.constantFrom(...WORDS),
        fc.constantFrom('OR', 'NOT', 'AND'),
        text.map((it) => `"${it}"`),
      ),
      {
        minLength: 1,
        maxLength: 4,
      },
    )
    .map((parts) => parts.join(' '));

  it('finds the same messages (property)', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), query, (steps, asked) => {
        const index = new SearchIndex();
        const all = new Map<string, Map<number, string>>();
        let seq = 0;
        for (const each of steps) {
          const session = `s${each.session}`;
          if (each.do === 'remove') {
            index.removeSessions([session]);
            all.delete(session);
            continue;
          }
          seq += 1;
          index.add(session, { seq, at: NOW, text: each.text });
          all.set(session, (all.get(session) ?? new Map()).set(seq, each.text));
        }
        const parsed = parseQuery(asked);
        if (parsed === undefined) return;
        const expected: string[] = [];
        for (const [session, texts] of all) {
          for (const [at, said] of texts) if (matches(parsed, termsOf(said))) expected.push(`${session}#${at}`);
        }
        // The index gives candidates, and the searcher reads them. The index may name too many, but never too few.
        const texts = (name: string): string => {
          const [session = '', at = ''] = name.split('#');
          return all.get(session)?.get(Number(at)) ?? '';
        };
        const found = look(index, asked).filter((name) => matches(parsed, termsOf(texts(name))));
        expect([...found].sort()).toEqual(expected.sort());
        expect(index.size).toBe([...all.values()].reduce((sum, texts) => sum + texts.size, 0));
      }),
      { numRuns: 100 },
    );
  });
});
