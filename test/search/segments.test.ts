/**
 * Goal: an index in segments finds the same as one in memory, before and after it is opened again. Damage is detected,
 * not returned.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { matches, parseQuery } from '../../src/search/query.ts';
import { SearchIndex } from '../../src/search/search-index.ts';
import { DamagedSegmentError } from '../../src/search/segment-file.ts';
import { DirectorySegmentStore } from '../../src/search/segment-store.ts';
import { termsOf } from '../../src/search/terms.ts';

const NOW = Date.UTC(2026, 0, 1);
/** With this bound a segment has 25 documents. */
const DOCUMENTS_MAX = 100;
const directories: string[] = [];

afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), 'troupe-segments-'));
  directories.push(path);
  return path;
}

/** The matching messages, as a search returns them: candidates whose texts were read. */
function found(index: SearchIndex, asked: string): readonly string[] {
  const query = parseQuery(asked);
  if (query === undefined) return [];
  return index
    .look(query, { now: NOW, decay: 0 })
    .filter(({ read }) => matches(query, termsOf(read().text)))
    .map(({ session, seq }) => `${session}#${seq}`);
}

function saved(index: SearchIndex, segments: DirectorySegmentStore): ReturnType<SearchIndex['save']> {
  const state = index.save();
  segments.saveState(JSON.stringify(state));
  index.saved();
  return state;
}

describe('an index in segments', () => {
  const WORDS = ['alpha', 'beta', 'gammas', 'Ünïcode', 'running', 'runs', '数字'];
  const text = fc.array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 6 }).map((words) => words.join(' '));
  const step = fc.oneof(
    { weight: 30, arbitrary: fc.record({ do: fc.constant('add' as const), session: fc.nat(6), text }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), session: fc.nat(6) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('open again' as const) }) },
  );

  it('finds the same messages as a scan, saved and reopened in between (property)', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 40, maxLength: 95, size: 'max' }), (steps) => {
        const path = directory();
        let segments = new DirectorySegmentStore(path);
        let index = new SearchIndex(DOCUMENTS_MAX, segments);
        const all = new Map<string, string>();
        for (const [at, each] of steps.entries()) {
          if (each.do === 'open again') {
            const state = saved(index, segments);
            segments.close();
            segments = new DirectorySegmentStore(path);
            index = new SearchIndex(DOCUMENTS_MAX, segments, state);
            continue;
          }
          const session = `s${each.session}`;
          if (each.do === 'remove') {
            index.removeSessions([session]);
            for (const name of all.keys()) if (name.startsWith(`${session}#`)) all.delete(name);
            continue;
          }
          index.add(session, { seq: at + 1, at: NOW, text: each.text });
          all.set(`${session}#${at + 1}`, each.text);
        }
        expect(index.size).toBe(all.size);
        for (const asked of ['alpha', 'unicode run', 'beta OR gamma', '"alpha beta"', '数字 NOT alpha']) {
          const query = parseQuery(asked);
          if (query === undefined) throw new Error('no query');
          const expected = [...all].flatMap(([name, said]) => (matches(query, termsOf(said)) ? [name] : []));
          expect([...found(index, asked)].sort()).toEqual(expected.sort());
        }
        segments.close();
      }),
      { numRuns: 15 },
    );
  });

  it('X4, H2: segments named by a saved state stay until the next save; unnamed segments are removed when the index opens', () => {
    const path = directory();
    const segments = new DirectorySegmentStore(path);
    const index = new SearchIndex(DOCUMENTS_MAX, segments);
    index.add('s', { seq: 1, at: NOW, text: 'first' });
    const state = saved(index, segments);
    index.add('s', { seq: 2, at: NOW, text: 'second' });
    index.save();
    // The process crashes here, so the last saved state is the first one.
    segments.close();
    const again = new DirectorySegmentStore(path);
    const reopened = new SearchIndex(DOCUMENTS_MAX, again, state);
    expect(found(reopened, 'first')).toEqual(['s#1']);
    expect(found(reopened, 'second')).toEqual([]);
    expect(readdirSync(path).filter((name) => name.startsWith('segment-'))).toEqual(state.segments);
    again.close();
  });

  it('X2: removed messages leave the disk once they are most of a segment', () => {
    const index = new SearchIndex(DOCUMENTS_MAX);
    for (let seq = 1; seq <= 75; seq += 1)
      index.add(seq <= 60 ? 'gone' : 'kept', { seq, at: NOW, text: `alpha n${seq}` });
    const before = index.statistics().storedBytes;
    index.removeSessions(['gone']);
    index.makeRoom();
    expect(index.statistics().storedBytes).toBeLessThan(before / 2);
    expect(found(index, 'alpha')).toHaveLength(15);
  });

  it('D1: a changed byte is detected as damage or changes nothing', () => {
    const path = directory();
    const segments = new DirectorySegmentStore(path);
    const index = new SearchIndex(DOCUMENTS_MAX, segments);
    for (let seq = 1; seq <= 20; seq += 1) index.add('s', { seq, at: NOW, text: `alpha beta n${seq}` });
    const state = saved(index, segments);
    const expected = found(index, 'alpha beta');
    segments.close();
    const file = join(path, state.segments[0] ?? '');
    const whole = readFileSync(file);
    let damaged = 0;
    for (let at = 0; at < whole.length; at += 7) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 0x10;
      writeFileSync(file, bytes);
      const opened = new DirectorySegmentStore(path);
      try {
        expect(found(new SearchIndex(DOCUMENTS_MAX, opened, state), 'alpha beta')).toEqual(expected);
      } catch (error) {
        expect(error).toBeInstanceOf(DamagedSegmentError);
        damaged += 1;
      } finally {
        opened.close();
      }
    }
    expect(damaged).toBeGreaterThan(whole.length / 7 / 4);
  });
});
