/** Goal: the whole texts of results in a journal follow RT1 to RT4 of `stored-results.ts`. */
import { describe, expect, test } from 'vitest';
import { LOGGED_RESULTS_BYTES_MAX, LOGGED_RESULTS_MAX } from '../../src/base/bounds.ts';
import { type StoreCorruptError, StoreFullError } from '../../src/base/errors.ts';
import type { StoreEncryption } from '../../src/journal/encryption/master-keys.ts';
import { EngineJournal } from '../../src/journal/engine-journal.ts';
import { openMemoryEngine } from '../../src/journal/memory-journal.ts';
import { MemoryStore } from '../../src/journal/memory-store.ts';
import type { SessionKey } from '../../src/journal/position.ts';
import { parseResultAddress, resultHash } from '../../src/journal/rows/result-address.ts';

const ENCRYPTION: StoreEncryption = { key: Buffer.alloc(32, 1), previousKeys: [], isRotating: false };
const TEXT = 'The whole text.';
const HASH = resultHash(TEXT);

interface Opened {
  readonly store: MemoryStore;
  readonly journal: EngineJournal;
  /** The damage that was reported to the engine. */
  readonly found: StoreCorruptError[];
  readonly session: SessionKey;
  /** Writes are refused while this is true. */
  refuses: boolean;
}

function opened(encryption?: StoreEncryption, store = new MemoryStore()): Opened {
  const state = { refuses: false };
  const found: StoreCorruptError[] = [];
  const device = async ({ commit }: { readonly commit: () => void }): Promise<void> => {
    if (state.refuses) throw new StoreFullError('no space');
    commit();
  };
  const engine = openMemoryEngine({ store, schedule: setImmediate, device });
  const watched = Object.assign(engine, { foundDamaged: (error: StoreCorruptError) => void found.push(error) });
  const journal = new EngineJournal(watched, { schedule: setImmediate, ...(encryption && { encryption }) });
  return Object.assign(state, { store, journal, found, session: journal.intern('one') });
}

function kept({ store, session }: Opened): readonly string[] {
  const found = [...store.blobs.keys()].filter((address) => parseResultAddress(address)?.owner === session);
  return found.map((address) => parseResultAddress(address)?.hash ?? '');
}

describe.each([
  ['plain', undefined],
  ['encrypted', ENCRYPTION],
] as const)('%s', (_name, encryption) => {
  test('RT1: a text is there at once, after its flush and after a reopen, and is stored once', async () => {
    const all = opened(encryption);
    expect(all.journal.results.keep(all.session, HASH, TEXT)).toBe(true);
    expect(all.journal.results.keep(all.session, HASH, TEXT)).toBe(true);
    expect(all.journal.results.find(all.session, HASH)).toBe(TEXT);
    expect(all.journal.results.find(all.session, resultHash('another'))).toBeUndefined();
    await all.journal.flushed();
    expect(kept(all)).toEqual([HASH]);
    const again = opened(encryption, all.store);
    expect(again.journal.results.find(again.session, HASH)).toBe(TEXT);
  });

  test('RT1: a text of a refused write is not there, and the store says that it takes none', async () => {
    const all = opened(encryption);
    all.journal.append([{ key: all.session, data: '{}' }]);
    await all.journal.flushed();
    all.refuses = true;
    all.journal.results.keep(all.session, HASH, TEXT);
    await expect(all.journal.flushed()).rejects.toThrow('no space');
    expect(all.journal.results.keep(all.session, HASH, TEXT)).toBe(false);
    all.refuses = false;
    await all.journal.recover();
    expect(all.journal.results.find(all.session, HASH)).toBeUndefined();
  });

  test('RT3: a removed session leaves no text, unless a fork needs it', async () => {
    const all = opened(encryption);
    const { journal, session } = all;
    const fork = journal.intern('fork');
    journal.append([
      { key: session, data: '{}' },
      { key: fork, data: '{}' },
    ]);
    journal.results.keep(session, HASH, TEXT);
    journal.results.keep(fork, HASH, TEXT);
    journal.remove([session], new Map([[session, [fork]]]));
    await journal.flushed();
    expect(journal.results.find(session, HASH)).toBe(TEXT);
    while (journal.eraseSome()) await journal.flushed();
    expect(journal.erasable()).toEqual([]);
    journal.remove([fork]);
    expect(journal.results.find(fork, HASH)).toBeUndefined();
    await journal.flushed();
    while (journal.eraseSome()) await journal.flushed();
    expect(journal.results.find(session, HASH)).toBeUndefined();
    journal.erased(journal.erasable());
    await journal.flushed();
    expect([...all.store.blobs.keys()]).toEqual([]);
  });

  test('RT4: a damaged text is reported once, and counts as missing then', async () => {
    const all = opened(encryption);
    all.journal.results.keep(all.session, HASH, TEXT);
    await all.journal.flushed();
    const [[address, value] = ['', '']] = all.store.blobs;
    const damaged = Buffer.from(value);
    damaged.writeUInt8(damaged.readUInt8(damaged.length - 1) ^ 1, damaged.length - 1);
    all.store.blobs.set(address, typeof value === 'string' ? damaged.toString() : damaged);
    expect(() => all.journal.results.find(all.session, HASH)).toThrow(/damaged/u);
    expect(all.found).toHaveLength(1);
    expect(all.journal.results.find(all.session, HASH)).toBeUndefined();
    expect(all.found).toHaveLength(1);
  });
});

test('RT2: the newest texts stay, up to their number and their bytes', async () => {
  const all = opened();
  const { journal, session } = all;
  const texts = Array.from({ length: LOGGED_RESULTS_MAX + 2 }, (_, number) => `text ${number}`);
  for (const text of texts) journal.results.keep(session, resultHash(text), text);
  await journal.flushed();
  expect(kept(all)).toEqual(texts.slice(2).map((text) => resultHash(text)));
  const large = 'x'.repeat(LOGGED_RESULTS_BYTES_MAX - 10);
  journal.results.keep(session, resultHash(large), large);
  await journal.flushed();
  expect(kept(all)).toEqual([...texts.slice(-1), large].map((text) => resultHash(text)));
  expect(journal.results.keep(session, resultHash(`${large}${TEXT}`), `${large}${TEXT}`)).toBe(true);
  await journal.flushed();
  expect(kept(all)).toHaveLength(2);
});
