import { describe, expect, test } from 'vitest';
import type { Journal } from '../../src/journal/journal.ts';
import { openMemoryJournal } from '../../src/journal/memory-journal.ts';
import {
  journalChecks,
  runJournalCheck,
  runJournalConformance,
} from '../../src/testing/conformance/journal-conformance.ts';
import type { MakeJournal } from '../../src/testing/conformance/journal-under-test.ts';
import { makeLmdbJournal, makeMemoryJournal } from './support/stores.ts';

const ENCRYPTION = { key: Buffer.alloc(32, 7), previousKeys: [], isRotating: false };
const makers: readonly (readonly [string, MakeJournal])[] = [
  ['memory', () => makeMemoryJournal()],
  ['LMDB, flush', makeLmdbJournal('flush')],
  ['LMDB, os', makeLmdbJournal('os')],
  ['memory, encrypted', () => makeMemoryJournal(ENCRYPTION)],
  ['LMDB, encrypted', makeLmdbJournal('flush', ENCRYPTION)],
];

describe.each(makers)('conformance of the journal: %s', (_name, makeJournal) => {
  test.each(journalChecks.map((check) => [check.title, check] as const))('%s', async (_title, check) => {
    expect(await runJournalCheck(check, makeJournal)).toBe(true);
  });
});

describe('the suite', () => {
  test('runs every check, and names the checks that the given journal cannot support', async () => {
    const { passed, skipped } = await runJournalConformance(async () => {
      const { journal, reopen, dispose } = await makeMemoryJournal();
      return { journal, reopen, dispose };
    });
    expect(passed.length + skipped.length).toBe(journalChecks.length);
    expect(skipped).toEqual(journalChecks.filter((check) => check.needs !== undefined).map((check) => check.title));
  });

  const broken: readonly (readonly [string, string, (journal: Journal) => Partial<Journal>])[] = [
    ['J1: forgets half of a turn', 'J1', (j) => ({ append: (entries) => j.append(entries.slice(0, 1)) })],
    ['J1: reads backwards', 'J1', (j) => ({ tail: (after) => [...j.tail(after)].reverse() })],
    ['J2: resolves before it is durable', 'J2', () => ({ flushed: async () => undefined })],
    ['J1: reads a session in part', 'J1', (j) => ({ read: (key, after) => [...j.read(key, after)].slice(0, 3) })],
    ['removes nothing', 'remove', () => ({ remove: () => undefined })],
    ['blobs: another address', 'blobs', (j) => ({ putBlob: (text) => `0${j.putBlob(text).slice(1)}` })],
    ['runnable: unordered', 'runnable', (j) => ({ runnable: () => [...j.runnable()].reverse() })],
    ['J5: the same fence twice', 'J5', () => ({ fence: 1 })],
    ['J7: erases nothing', 'J7', () => ({ eraseSome: () => false })],
  ];
  test.each(broken)('finds a broken journal (%s)', async (_what, title, breakIt) => {
    const make: MakeJournal = async () => {
      const store = await makeMemoryJournal();
      const wrap = (journal: Journal): Journal => overlay(journal, breakIt(journal));
      return {
        ...store,
        journal: wrap(store.journal),
        reopen: async () => wrap(await store.reopen()),
        crash: async () => wrap(await store.reopen()),
      };
    };
    await expect(runJournalConformance(make)).rejects.toThrow(new RegExp(`^${title}`));
  });
});

test('G2: a memory journal does not starve the loop, even if its callers wait for nothing but the journal', async () => {
  const journal = openMemoryJournal();
  const key = journal.intern('a');
  let stopped = false;
  const spin = async (): Promise<void> => {
    while (!stopped) {
      journal.append([{ key, data: '1' }]);
      await journal.flushed();
    }
  };
  const spinning = [spin(), spin()];
  await new Promise<void>((resolve) => setTimeout(resolve, 1));
  stopped = true;
  await Promise.all(spinning);
  expect(journal.statistics().turns).toBeGreaterThan(0);
});

/** The journal with some members replaced. */
function overlay(journal: Journal, members: Partial<Journal>): Journal {
  return new Proxy(journal, {
    get(target, name) {
      const value: unknown = Reflect.get(name in members ? members : target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
