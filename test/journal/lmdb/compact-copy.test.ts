/** C1 to C4 of `src/journal/lmdb/compact-copy.ts`, at the engine and over raw bytes. */
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { open } from 'lmdb';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createBatch, type WriteBatch } from '../../../src/journal/engine.ts';
import { copyCompact } from '../../../src/journal/lmdb/compact-copy.ts';
import { openLmdbEngine } from '../../../src/journal/lmdb/engine.ts';
import { closeEnvironment, openEnvironment } from '../../../src/journal/lmdb/environment.ts';
import { checkLmdbFile } from '../../../src/journal/lmdb/file.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { walkPages } from '../../../src/journal/lmdb/page-walk.ts';
import { PageFile } from '../../../src/journal/lmdb/pages.ts';
import { encodeRows } from '../../../src/journal/rows/row-codec.ts';
import { packRows } from '../../../src/journal/rows/row-packing.ts';
import { makeDamageTemplate, questions } from '../support/damage.ts';
import { temporaryDirectory } from '../support/stores.ts';
import { noiseText } from '../support/texts.ts';

let directory: string;
let store: string;
let copy: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  [store, copy] = [join(directory, 'store'), join(directory, 'copy')];
  await mkdir(copy);
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

test('C1, C3: a copy is a store that the checks accept, with the same contents, and its owner can write it', async () => {
  await mkdir(store);
  const contents = await makeDamageTemplate(store);
  const journal = await openLmdbJournal({ directory: store, durability: 'flush' });
  const made = await journal.copyTo?.(copy);
  expect(made?.bytes).toBe((await stat(join(copy, 'data.mdb'))).size);
  expect((await stat(join(copy, 'data.mdb'))).mode & 0o777).toBe(0o600);
  await journal.close();
  await checkLmdbFile(join(copy, 'data.mdb'));
  for (const round of [1, 2, 3]) {
    const copied = await openLmdbJournal({ directory: copy, durability: 'flush' });
    const found = Object.fromEntries(questions(copied).map(([question, ask]) => [question, ask()]));
    if (round === 1) expect(found).toEqual(contents);
    const key = copied.intern('later');
    copied.append([{ key, data: JSON.stringify(noiseText(9_000, round)) }]);
    await copied.flushed();
    expect([...copied.read(key, 0)]).toHaveLength(round);
    await copied.close();
    await checkLmdbFile(join(copy, 'data.mdb'));
  }
});

/** A text that no other text has a part of. */
function canary(name: string, bytes: number): string {
  return `CANARY-${name}-`.repeat(Math.ceil(bytes / (name.length + 8))).slice(0, bytes);
}

test('C2: a removed value of any table and size is in the file of the store, and nowhere in a copy', async () => {
  // Enough small values that a commit which removes them empties whole pages.
  const sizes = [2_100, 3_000, 3_900, 5_000, 70_000, ...Array.from({ length: 40 }, (_, index) => 40 + index * 40)];
  const environment = await openEnvironment({ directory: store, durability: 'flush' });
  const { root, log, names, keys, heads, lastRows, blobs, media, drafts, erasures } = environment;
  const packed: Buffer[] = [];
  for (let round = 0; round < 12; round += 1) {
    const entries = sizes.map((bytes, index) => {
      const data = noiseText(bytes, round * 100 + index);
      return { key: 1, turn: index, previousRow: 0, data, dataBytes: Buffer.byteLength(data) };
    });
    const rows = entries.map((entry, index) => ({
      number: 1_000 * (round + 1) + index,
      turns: index + 1,
      bytes: entry.dataBytes,
      entries: [entry],
    }));
    const stored = await packRows(encodeRows(rows));
    packed.push(...stored);
    root.transactionSync(() => {
      sizes.forEach((bytes, index) => {
        const key = round * 100 + index + 1;
        void heads.put(key, canary('head', bytes));
        void blobs.put(`blob-${key}`, Buffer.from(canary('blob', bytes)));
        void media.put(`${key}/medium`, Buffer.from(canary('medium', bytes)));
        void drafts.put(key, canary('draft', bytes));
        void names.put(`CANARY-name-${key}`, canary('key', 50));
        void keys.put(key, canary('name', 100));
        void lastRows.put(key, canary('last', 30));
        void erasures.put(key, canary('erasure', bytes));
        void log.put(rows[index]?.number ?? 0, stored[index] ?? Buffer.alloc(0), { append: true });
      });
    });
    // Values that stay are written by the commit that removes, so that LMDB reuses pages within a commit.
    root.transactionSync(() => {
      sizes.forEach((bytes, index) => {
        const key = round * 100 + index + 1;
        void heads.remove(key);
        void blobs.remove(`blob-${key}`);
        void media.remove(`${key}/medium`);
        void drafts.remove(key);
        void names.remove(`CANARY-name-${key}`);
        void keys.remove(key);
        void lastRows.remove(key);
        void erasures.remove(key);
        void log.remove(rows[index]?.number ?? 0);
        void blobs.put(`live-${key}`, Buffer.alloc(2_050 + ((key * 397) % 1_900), 'L'));
        void heads.put(100_000 + key, 'H'.repeat(bytes));
      });
    });
  }
  await root.flushed;
  const before = await readFile(join(store, 'data.mdb'));
  await root.backup(copy, true);
  const plain = await readFile(join(copy, 'data.mdb'));
  await rm(join(copy, 'data.mdb'));
  await copyCompact(root, copy);
  await closeEnvironment(environment);
  for (const name of ['head', 'blob', 'medium', 'draft', 'name', 'key', 'last', 'erasure']) {
    expect(before.includes(`CANARY-${name}-`), `${name} in the file of the store`).toBe(true);
  }
  // LMDB's own copy has some of them: the ends of overflow pages and the gaps of its buffers.
  expect(plain.includes('CANARY-')).toBe(true);
  const cleaned = await readFile(join(copy, 'data.mdb'));
  expect(cleaned.indexOf('CANARY-')).toBe(-1);
  const pieces = packed.flatMap((bytes) => [bytes.subarray(20, 60), bytes.subarray(-40)]);
  expect(pieces.some((piece) => before.includes(piece))).toBe(true);
  expect(pieces.filter((piece) => cleaned.includes(piece))).toEqual([]);
  expect(cleaned.includes('LLLLLLLL')).toBe(true);
});

test('C2, C3: the name of a removed session is not a separator in a copy, which grows and shrinks as any store', async () => {
  const gone = (index: number): string => `user-${index % 97}/CANARY-name-${index}`;
  const kept = (index: number): string => `user-${index % 97}/kept-${'x'.repeat(index % 40)}-${index}`;
  const numbers = Array.from({ length: 6_000 }, (_, index) => index);
  const environment = await openEnvironment({ directory: store, durability: 'flush' });
  environment.root.transactionSync(() => {
    for (const index of numbers) {
      void environment.names.put(gone(index), `${index}`);
      void environment.names.put(kept(index), `${index}`);
    }
  });
  environment.root.transactionSync(() => {
    for (const index of numbers) void environment.names.remove(gone(index));
  });
  await environment.root.backup(copy, true);
  expect((await readFile(join(copy, 'data.mdb'))).includes('CANARY-name')).toBe(true);
  await rm(join(copy, 'data.mdb'));
  await copyCompact(environment.root, copy);
  const names = [...environment.names.getRange()].map(({ key, value }) => [key, value]);
  await closeEnvironment(environment);
  expect((await readFile(join(copy, 'data.mdb'))).indexOf('CANARY-name')).toBe(-1);
  checkWhole(join(copy, 'data.mdb'));

  const root = open({ path: join(copy, 'data.mdb'), noSubdir: true, maxDbs: 20 });
  const copied = root.openDB<string, string>({ name: 'names', encoding: 'string' });
  expect([...copied.getRange()].map(({ key, value }) => [key, value])).toEqual(names);
  for (const [step, isAdded] of [
    [7, true],
    [2, false],
    [3, true],
    [1, false],
  ] as const) {
    root.transactionSync(() => {
      for (let index = 0; index < numbers.length; index += step) {
        if (isAdded) void copied.put(gone(index), `${index}`);
        else void copied.remove(kept(index));
      }
    });
    await root.flushed;
    checkWhole(join(copy, 'data.mdb'));
  }
  const added = numbers.filter((index) => index % 7 === 0 || index % 3 === 0);
  expect([...copied.getKeys()].sort()).toEqual(added.map(gone).sort());
  await root.close();
});

/** Visits every page and compares every key. */
function checkWhole(path: string): void {
  const file = new PageFile(path);
  expect(walkPages(file, file.meta(), {}).isWhole).toBe(true);
  file.close();
}

test('L9: a commit, a refusal, a reopening and a close may fall into a copy', async () => {
  const engine = await openLmdbEngine({ directory: store, durability: 'flush' });
  await engine.write(batchOf(1, 20_000));
  const first = engine.copyTo?.(copy, undefined);
  await engine.write(batchOf(2, 20_000));
  await engine.reopen();
  const { mark } = (await first) ?? { mark: '' };
  expect(await engine.copyTo?.(copy, mark)).toMatchObject({ bytes: expect.any(Number) });
  const again = await engine.copyTo?.(copy, undefined);
  expect(await engine.copyTo?.(copy, again?.mark)).toEqual({ mark: again?.mark });
  await engine.write(batchOf(3, 20_000));
  const last = engine.copyTo?.(copy, again?.mark);
  await engine.close();
  expect((await last)?.bytes).toBeGreaterThan(0);
  const copied = await openLmdbEngine({ directory: copy, durability: 'flush' });
  expect(copied.state().lastRow).toBe(3);
  await copied.close();
});

test('L9: an environment is closed, and opened again, only after the copies of it', async () => {
  const engine = await openLmdbEngine({ directory: store, durability: 'flush' });
  for (let row = 1; row <= 24; row += 1) await engine.write(batchOf(row, 1_000_000));
  const second = join(directory, 'second');
  await mkdir(second);
  const order: string[] = [];
  const noted = async (name: string, work: Promise<unknown> | undefined): Promise<void> => {
    await work;
    order.push(name);
  };
  await Promise.all([
    noted('copy', engine.copyTo?.(copy, undefined)),
    noted('copy', engine.copyTo?.(second, undefined)),
    noted('reopen', engine.reopen()),
  ]);
  await Promise.all([noted('copy', engine.copyTo?.(copy, undefined)), noted('close', engine.close())]);
  expect(order).toEqual(['copy', 'copy', 'reopen', 'copy', 'close']);
  for (const path of [copy, second]) {
    await checkLmdbFile(join(path, 'data.mdb'));
    const copied = await openLmdbEngine({ directory: path, durability: 'flush' });
    expect(copied.state().lastRow).toBe(24);
    await copied.close();
  }
});

function batchOf(number: number, bytes: number): WriteBatch {
  const data = noiseText(bytes, number);
  const batch = createBatch();
  batch.rows.push({
    number,
    turns: 1,
    bytes: Buffer.byteLength(data),
    entries: [{ key: 1, turn: 0, previousRow: 0, data, dataBytes: Buffer.byteLength(data) }],
  });
  batch.bytes = bytes;
  return batch;
}
