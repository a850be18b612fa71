import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { open as openLmdb } from 'lmdb';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FLUSH_BYTES_MAX, ROW_TURNS_MAX } from '../../../src/base/bounds.ts';
import { StoreCorruptError, StoreVersionError, TroupeError } from '../../../src/base/errors.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { checkLmdbFile } from '../../../src/journal/lmdb/file.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { PageFile } from '../../../src/journal/lmdb/pages.ts';
import { STORE_FORMAT } from '../../../src/journal/lmdb/tables.ts';
import { openJournal } from '../../../src/journal/open-journal.ts';
import { POSITION_STRIDE } from '../../../src/journal/rows/row-codec.ts';
import { unpackRow } from '../../../src/journal/rows/row-packing.ts';
import { sealText } from '../../../src/journal/rows/sealed-text.ts';
import { temporaryDirectory } from '../support/stores.ts';
import { noiseText } from '../support/texts.ts';

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function openStore(): Promise<Journal> {
  return openLmdbJournal({ directory, durability: 'flush' });
}

/** A closed store with `turns` flushed transitions of one session `a`. */
async function makeStore(turns: number, bytes = 2_000): Promise<string> {
  const journal = await openStore();
  const key = journal.intern('a');
  for (let turn = 0; turn < turns; turn += 1) {
    journal.append([{ key, data: JSON.stringify(noiseText(bytes, turn)) }]);
    if (turn % 10 === 0) await journal.flushed();
  }
  await journal.close();
  const path = join(directory, 'data.mdb');
  // The reserve behind the pages is left out, because these tests are about the pages.
  await truncate(path, bytesOfPages(path));
  return path;
}

function bytesOfPages(path: string): number {
  const file = new PageFile(path);
  const { lastPage, pageBytes } = file.meta();
  file.close();
  return (lastPage + 1) * pageBytes;
}

async function digest(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

/** Opening rejects with `StoreCorruptError` that names the path and a reason, and leaves the file unchanged. */
async function expectCorrupt(path: string): Promise<void> {
  const before = await digest(path);
  const error: unknown = await openStore().then(
    async (journal) => {
      await journal.close();
      return 'opened';
    },
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreCorruptError);
  expect(error).toMatchObject({
    code: 'store_corrupt',
    data: { path, reason: expect.any(String), hint: expect.stringContaining('troupe doctor') },
  });
  expect(await digest(path)).toBe(before);
}

describe('F08: a foreign or incomplete store', () => {
  test('an empty file', async () => {
    const path = await makeStore(5);
    await truncate(path, 0);
    await expectCorrupt(path);
  });

  test('zeros instead of the file', async () => {
    const path = await makeStore(5);
    await writeFile(path, Buffer.alloc((await stat(path)).size));
    await expectCorrupt(path);
  });

  test('random bytes or text instead of the file', async () => {
    const path = join(directory, 'data.mdb');
    for (const bytes of [Buffer.from('not a database\n'.repeat(1_000)), createNoise(100_000)]) {
      await writeFile(path, bytes);
      await expectCorrupt(path);
    }
  });

  test('either meta page set to zeros', async () => {
    const path = await makeStore(5);
    for (const page of [0, 1]) {
      const whole = await readFile(path);
      await writeFile(path, Buffer.from(whole).fill(0, page * 4_096, page * 4_096 + 4_096));
      await expectCorrupt(path);
      await writeFile(path, whole);
    }
    await (await openStore()).close();
  });

  test('a file cut at any page never opens as a smaller store and never ends the process', async () => {
    const path = await makeStore(40);
    const whole = await readFile(path);
    let refused = 0;
    for (let size = 0; size < whole.length; size += 4_096) {
      await writeFile(path, whole.subarray(0, size));
      const verdict = await checkLmdbFile(path).then(
        () => 'whole',
        (error: unknown) => error,
      );
      if (verdict === 'whole') continue;
      expect(verdict).toBeInstanceOf(StoreCorruptError);
      refused += 1;
    }
    expect(refused).toBeGreaterThan((whole.length / 4_096) * 0.8);
    await writeFile(path, whole.subarray(0, 20 * 4_096));
    await expectCorrupt(path);
    await writeFile(path, whole.subarray(0, 5_000));
    await expectCorrupt(path);
  });

  test('a file that lacks only unused pages is whole', async () => {
    const path = await makeStore(3);
    const journal = await openStore();
    const address = journal.putBlob(noiseText(400_000));
    await journal.flushed();
    await journal.close();
    const environment = openLmdb({ path: directory, overlappingSync: false });
    const blobs = environment.openDB({ name: 'blobs', encoding: 'binary' });
    await blobs.remove(address);
    await environment.close();
    const { size } = await stat(path);
    await truncate(path, size - 30 * 4_096);
    await checkLmdbFile(path);
    const again = await openStore();
    expect([...again.tail(0)]).toHaveLength(3);
    await again.close();
  });

  test('an LMDB file of another program', async () => {
    const environment = openLmdb({ path: directory, overlappingSync: false });
    await environment.put('theirs', 1);
    await environment.close();
    await expectCorrupt(join(directory, 'data.mdb'));
  });

  test('the data file is gone and its lock file remains: no silent new start', async () => {
    const path = await makeStore(3);
    await rm(path);
    await expect(openStore()).rejects.toBeInstanceOf(StoreCorruptError);
    expect(await readdir(directory)).toEqual(['lock.mdb']);
  });

  test('a flipped bit in a row fails the read that reaches it', async () => {
    const path = await makeStore(3, 100_000);
    const whole = await readFile(path);
    // The three rows fill nearly all of the file.
    const at = whole.length >> 1;
    whole.writeUInt8(whole.readUInt8(at) ^ 1, at);
    await writeFile(path, whole);
    const journal = await openStore();
    const place = { path: directory, row: expect.any(Number), hint: expect.stringContaining('troupe doctor') };
    for (const read of [() => [...journal.tail(0)], () => [...journal.read(journal.keyOf('a') ?? 0, 0)]]) {
      expect(read).toThrow(
        expect.objectContaining({ name: 'StoreCorruptError', data: expect.objectContaining(place) }),
      );
    }
    await journal.close();
  });

  test('a creation that was killed leaves nothing that opens as a store', async () => {
    const birth = join(directory, 'creating');
    await mkdir(birth);
    for (const file of ['data.mdb', 'lock.mdb']) await writeFile(join(birth, file), 'half');
    const journal = await openStore();
    expect(journal.fence).toBe(1);
    await journal.close();
  });
});

describe('F11: a store of a newer version', () => {
  test('is refused with its format and the supported one, and is not written to', async () => {
    const path = await makeStore(3);
    const environment = openLmdb({ path: directory, overlappingSync: false });
    const meta = environment.openDB({ name: 'meta', encoding: 'string', useVersions: true });
    await meta.put('format', String(STORE_FORMAT + 1), 0);
    await environment.close();
    const before = await digest(path);
    await expect(openStore()).rejects.toMatchObject({
      name: StoreVersionError.name,
      code: 'store_version',
      data: { found: STORE_FORMAT + 1, supported: STORE_FORMAT },
    });
    expect(await digest(path)).toBe(before);
  });
});

describe('F12: a store of format 1', () => {
  test('is used like our own format: old and new content is read, and an older library would refuse it', async () => {
    const path = await makeStore(3);
    const environment = openLmdb({ path: directory, overlappingSync: false });
    const meta = environment.openDB({ name: 'meta', encoding: 'string', useVersions: true });
    const log = environment.openDB<Buffer, number>({ name: 'log', encoding: 'binary' });
    for (const { key, value } of log.getRange()) await log.put(key, unpackRow(value, key));
    await meta.put('format', sealText('meta', 'format', '1'), 0);
    await environment.close();
    const journal = await openStore();
    const key = journal.keyOf('a') ?? 0;
    journal.append([{ key, data: JSON.stringify('more of the same '.repeat(200)) }]);
    await journal.flushed();
    expect([...journal.read(key, 0)]).toHaveLength(4);
    await journal.close();
    await checkLmdbFile(path);
    const after = openLmdb({ path: directory, overlappingSync: false });
    const format = after.openDB({ name: 'meta', encoding: 'string', useVersions: true }).get('format');
    await after.close();
    expect(format).toBe(sealText('meta', 'format', String(STORE_FORMAT)));
  });
});

describe('the store on disk', () => {
  test('J1: every append, packed or not, is read back as from a list, by tail and by session, also after a reopen', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ session: fc.nat(3), kind: fc.nat(5), length: fc.nat(6_000) }), {
          minLength: 1,
          maxLength: 40,
        }),
        async (steps) => {
          const place = await temporaryDirectory();
          let journal = await openLmdbJournal({ directory: place, durability: 'os' });
          const keys = ['a', 'b', 'c', 'd'].map((name) => journal.intern(name));
          const written: { readonly key: number; readonly data: string }[] = [];
          for (const { session, kind, length } of steps) {
            const key = keys[session] ?? 0;
            const text = kind % 2 === 0 ? noiseText(length, length) : 'as ever '.repeat(length / 8);
            const position = journal.append([{ key, data: JSON.stringify(text) }]);
            written.push({ key, data: JSON.stringify(text) });
            if (kind >= 3) await journal.flushed();
            if (kind === 4) journal.checkpoint([{ key, position, data: '{}', runnable: false }], position);
            if (kind !== 5) continue;
            await journal.close();
            journal = await openLmdbJournal({ directory: place, durability: 'os' });
          }
          const plain = (entries: Iterable<{ readonly key: number; readonly data: string }>): object[] =>
            [...entries].map(({ key, data }) => ({ key, data }));
          await journal.flushed();
          for (const key of keys)
            expect(plain(journal.read(key, 0))).toEqual(written.filter((entry) => entry.key === key));
          expect(plain(journal.tail(0))).toEqual(written);
          await journal.close();
          await rm(place, { recursive: true, force: true });
        },
      ),
      { numRuns: 15 },
    );
  });

  test('stored sessions take less room than their texts', async () => {
    const path = join(directory, 'data.mdb');
    const journal = await openStore();
    const key = journal.intern('a');
    const data = JSON.stringify({
      content: 'The question, as before, is what the answer means to those who asked. '.repeat(12),
    });
    for (let turn = 0; turn < 2_000; turn += 1) {
      journal.append([{ key, data }]);
      await journal.flushed();
    }
    await journal.close();
    // With one row per page, the file would be five times as large as the packed data.
    expect(bytesOfPages(path)).toBeLessThan(2_000 * data.length * 0.5);
  });

  test('J1: transitions of one flush are packed, 64 a row, and the statistics count them', async () => {
    const journal = await openStore();
    const key = journal.intern('a');
    const positions = Array.from({ length: ROW_TURNS_MAX * 3 + 1 }, () => journal.append([{ key, data: '1' }]));
    await journal.flushed();
    expect(journal.statistics()).toMatchObject({ turns: positions.length, rows: 4, flushes: 1 });
    expect(positions[0]).toBe(POSITION_STRIDE);
    expect(positions.at(-1)).toBe(POSITION_STRIDE * 4);
    await journal.close();
  });

  test('G1: a flush too large for one write is written in several, even without waiters in between', async () => {
    const journal = await openStore();
    const key = journal.intern('a');
    const data = JSON.stringify('x'.repeat(FLUSH_BYTES_MAX / 16));
    for (let turn = 0; turn < 64; turn += 1) journal.append([{ key, data }]);
    await journal.flushed();
    expect(journal.statistics().flushes).toBeGreaterThanOrEqual(4);
    expect([...journal.read(key, 0)]).toHaveLength(64);
    await journal.close();
    const again = await openStore();
    expect([...again.read(key, 0)]).toHaveLength(64);
    await again.close();
  });

  test('E1: a reader that pauses between rows continues across flushes and checkpoints', async () => {
    const journal = await openStore();
    const key = journal.intern('a');
    const wanted = Array.from({ length: 500 }, (_, turn) => String(turn));
    for (const data of wanted) journal.append([{ key, data }]);
    const seen: string[] = [];
    for (const entry of journal.tail(0)) {
      seen.push(entry.data);
      if (seen.length % 100 === 0) {
        await journal.flushed();
        journal.append([{ key, data: '"later"' }]);
        journal.checkpoint([], entry.position);
      }
    }
    expect(seen).toEqual(wanted);
    await journal.close();
  });

  test('L3: a reader that outlives its journal gets an error, not unmapped memory', async () => {
    const journal = await openStore();
    const key = journal.intern('a');
    for (let turn = 0; turn < 3_000; turn += 1) journal.append([{ key, data: '1' }]);
    const reader = journal.tail(0)[Symbol.iterator]();
    await journal.flushed();
    reader.next();
    await journal.close();
    expect(() => {
      while (reader.next().done !== true);
    }).toThrow(TroupeError);
  });

  test('openJournal uses memory without a directory, and LMDB with one', async () => {
    const memory = await openJournal({ durability: 'flush' });
    const stored = await openJournal({ directory: join(directory, 'a', 'b'), durability: 'strict' });
    for (const journal of [memory, stored]) {
      journal.append([{ key: journal.intern('a'), data: '1' }]);
      await journal.close();
    }
    expect(await readdir(join(directory, 'a', 'b'))).toContain('data.mdb');
  });
});

function createNoise(bytes: number): Buffer {
  const noise = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += 1) noise.writeUInt8((at * 7_919 + (at >> 3)) & 0xff, at);
  return noise;
}

test('F07: a directory that cannot be created is reported as a full store, with the reason', async () => {
  const file = join(directory, 'file');
  const handle = await open(file, 'w');
  await handle.close();
  await expect(openLmdbJournal({ directory: join(file, 'store'), durability: 'flush' })).rejects.toMatchObject({
    code: 'store_full',
    cause: { code: 'ENOTDIR' },
  });
});
