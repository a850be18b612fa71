/** Stores under test, in temporary directories that are removed after the test. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defined } from '../../../src/base/defined.ts';
import { StoreFullError } from '../../../src/base/errors.ts';
import type { StoreEncryption } from '../../../src/journal/encryption/master-keys.ts';
import type { Engine } from '../../../src/journal/engine.ts';
import { EngineJournal } from '../../../src/journal/engine-journal.ts';
import type { Durability, Journal } from '../../../src/journal/journal.ts';
import { openLmdbEngine } from '../../../src/journal/lmdb/engine.ts';
import { createMemoryStore, openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import type { JournalUnderTest } from '../../../src/testing/conformance/journal-under-test.ts';

/** A new directory under the system's temporary directory. */
export async function temporaryDirectory(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'troupe-journal-'));
}

/** The memory journal with every option of the suite. */
export async function makeMemoryJournal(encryption?: StoreEncryption): Promise<JournalUnderTest> {
  const store = createMemoryStore();
  let refusal: Error | undefined;
  const reopen = async (): Promise<Journal> =>
    openMemoryJournal({ store, refuse: () => refusal, ...defined({ encryption }) });
  return {
    journal: await reopen(),
    reopen,
    crash: reopen,
    refuseWrites(cause) {
      refusal = cause;
    },
    async dispose() {
      // Nothing remains after the test.
    },
  };
}

/** The LMDB journal over a real environment, with a device that refuses on request. */
export function makeLmdbJournal(durability: Durability, encryption?: StoreEncryption): () => Promise<JournalUnderTest> {
  return async () => {
    const directory = await temporaryDirectory();
    const opened: Journal[] = [];
    let refusal: Error | undefined;
    const reopen = async (): Promise<Journal> => {
      const engine = await openLmdbEngine({ directory, durability, ...defined({ encryption }) });
      const journal = new EngineJournal(
        refusing(engine, () => refusal),
        { schedule: (run) => void setImmediate(run), ...defined({ encryption }) },
      );
      opened.push(journal);
      return journal;
    };
    return {
      journal: await reopen(),
      reopen,
      crash: reopen,
      refuseWrites(cause) {
        refusal = cause;
      },
      async dispose() {
        // A journal that was fenced off may still hold batches that it cannot write.
        for (const journal of opened) await journal.close().catch(() => undefined);
        await rm(directory, { recursive: true, force: true });
      },
    };
  };
}

/** `engine`, which refuses writes while `refusal` returns a cause. */
function refusing(engine: Engine, refusal: () => Error | undefined): Engine {
  const check = (): void => {
    const cause = refusal();
    if (cause !== undefined) throw new StoreFullError('the device refuses', { cause });
  };
  return {
    fence: engine.fence,
    compaction: engine.compaction,
    state: () => engine.state(),
    row: (number) => engine.row(number),
    rows: (from, limit, part) => engine.rows(from, limit, part),
    rowNumbers: (from, limit) => engine.rowNumbers(from, limit),
    storedRow: (number) => engine.storedRow(number),
    lastRowOf: (key) => engine.lastRowOf(key),
    keyOf: (name) => engine.keyOf(name),
    nameOf: (key) => engine.nameOf(key),
    names: (from, exclusive, limit) => engine.names(from, exclusive, limit),
    head: (key) => engine.head(key),
    runnable: () => engine.runnable(),
    blob: (address) => engine.blob(address),
    hasBlob: (address) => engine.hasBlob(address),
    storedBlob: (address) => engine.storedBlob(address),
    medium: (address) => engine.medium(address),
    hasMedium: (address) => engine.hasMedium(address),
    mediaOf: (key) => engine.mediaOf(key),
    blobsOf: (key) => engine.blobsOf(key),
    dataKey: (key) => engine.dataKey(key),
    dataKeys: (after, limit) => engine.dataKeys(after, limit),
    draft: (key) => engine.draft(key),
    draftKeys: () => engine.draftKeys(),
    originOf: (key) => engine.originOf(key),
    audit: (range) => engine.audit(range),
    erasures: () => engine.erasures(),
    startOf: (key) => engine.startOf(key),
    record: (name) => engine.record(name),
    async write(batch) {
      check();
      await engine.write(batch);
    },
    pack: (batch) => engine.pack(batch),
    async writeStored(stored) {
      check();
      await engine.writeStored(stored);
    },
    async reopen() {
      await engine.reopen();
      check();
    },
    close: () => engine.close(),
  };
}
