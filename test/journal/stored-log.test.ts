/**
 * Goal: the pieces of a stored log, joined and unpacked, equal what was written. D1: the pieces hold durable rows and
 * nothing else. D2: pieces stay within their bounds, whatever the size of a row. In memory and on disk.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { SEARCH_CHAIN_ROWS, SEARCH_PAGE_BYTES, SEARCH_PAGE_ROWS } from '../../src/base/bounds.ts';
import { StoreCorruptError } from '../../src/base/errors.ts';
import type { Journal } from '../../src/journal/journal.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { openMemoryJournal } from '../../src/journal/memory-journal.ts';
import { entriesOf, shippedBlob, shippedRows, transitionsOf } from '../../src/journal/rows/shipped-rows.ts';
import type { RowPiece } from '../../src/journal/stored-log.ts';

const directories: string[] = [];
afterEach(async () => {
  for (const path of directories.splice(0)) await rm(path, { recursive: true, force: true });
});

const openers: readonly (readonly [string, () => Promise<Journal>])[] = [
  ['memory', async () => openMemoryJournal()],
  [
    'disk',
    async () => {
      const directory = await mkdtemp(join(tmpdir(), 'troupe-stored-'));
      directories.push(directory);
      return openLmdbJournal({ directory, durability: 'os' });
    },
  ],
];

/** A text that does not pack. */
function noise(characters: number): string {
  let state = 7;
  let text = '';
  while (text.length < characters) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    text += state.toString(36);
  }
  return text.slice(0, characters);
}

async function write(journal: Journal, session: string, data: string): Promise<void> {
  journal.append([{ key: journal.intern(session), data: JSON.stringify(data) }]);
  await journal.flushed();
}

/** A piece within its bounds, as it arrives on another thread. */
function arrived(piece: RowPiece): RowPiece {
  expect(piece.bytes.length).toBeLessThanOrEqual(SEARCH_PAGE_BYTES);
  expect(piece.bytes.buffer.byteLength).toBe(piece.bytes.length);
  expect(piece.rows.length).toBeLessThanOrEqual(SEARCH_PAGE_ROWS);
  expect(piece.lengths.reduce((sum, length) => sum + length, 0)).toBe(piece.bytes.length);
  return structuredClone(piece);
}

/** The whole log, read by its pages: session key and text. */
async function everything({ stored }: Journal): Promise<readonly (readonly [number, string])[]> {
  const found: (readonly [number, string])[] = [];
  for (let from = 1; ; ) {
    const page = await shippedRows(async (offset) => arrived(stored.rowsFrom(from, offset)));
    for (const row of page.rows) for (const { key, data } of entriesOf(row)) found.push([key, JSON.parse(data)]);
    if (page.isLast) return found;
    from = (page.rows.at(-1)?.row ?? from) + 1;
  }
}

async function sessionOf({ stored }: Journal, key: number, until = 0): Promise<readonly string[]> {
  const rows: number[] = [];
  for (let from: number | undefined; from !== 0; ) {
    const chain = stored.chain(key, until, from);
    expect(chain.rows.length).toBeLessThanOrEqual(SEARCH_CHAIN_ROWS);
    rows.push(...chain.rows);
    from = chain.next;
  }
  rows.reverse();
  const found: string[] = [];
  for (let at = 0; at < rows.length; ) {
    const page = await shippedRows(async (offset) => arrived(stored.rowsAt(rows.slice(at), offset)));
    for (const row of page.rows) found.push(...transitionsOf(row, key).map((text) => JSON.parse(text) as string));
    at += page.rows.length;
    expect(page.isLast).toBe(at >= rows.length);
  }
  return found;
}

describe.each(openers)('in %s', (_name, openJournal) => {
  test('D2: rows of every size, filling more than a page, are read by log order and by session', async () => {
    const journal = await openJournal();
    const wanted: (readonly [string, string])[] = [];
    const sizes = [10, SEARCH_PAGE_BYTES, 40_000, 3 * SEARCH_PAGE_BYTES + 17, 5, 70_000, SEARCH_PAGE_BYTES - 60];
    for (const [index, size] of sizes.entries()) wanted.push([index % 2 === 0 ? 'a' : 'b', noise(size)]);
    for (let count = 0; count < 2 * SEARCH_CHAIN_ROWS + 3; count += 1) wanted.push(['a', `small ${count}`]);
    wanted.push(['b', noise(SEARCH_PAGE_BYTES * 2)]);
    for (const [session, data] of wanted) await write(journal, session, data);
    const keyOf = (name: string): number => journal.keyOf(name) ?? 0;
    expect(await everything(journal)).toEqual(wanted.map(([name, data]) => [keyOf(name), data]));
    for (const name of ['a', 'b']) {
      const own = wanted.flatMap(([session, data]) => (session === name ? [data] : []));
      expect(await sessionOf(journal, keyOf(name))).toEqual(own);
    }
    await journal.close();
  });

  test('D1: a row that is not durable is not returned, and a later session is still found', async () => {
    const journal = await openJournal();
    const key = journal.intern('a');
    await write(journal, 'a', 'one');
    await write(journal, 'b', 'two');
    await write(journal, 'a', 'three');
    journal.append([{ key, data: JSON.stringify('not yet') }]);
    expect(await everything(journal)).toHaveLength(3);
    expect(await sessionOf(journal, key)).toEqual(['one', 'three']);
    await journal.flushed();
    expect(await sessionOf(journal, key)).toEqual(['one', 'three', 'not yet']);
    const [newest] = journal.stored.chain(key, 0).rows;
    expect(await sessionOf(journal, key, (newest ?? 0) - 1)).toEqual(['not yet']);
    expect(await sessionOf(journal, key, newest)).toEqual([]);
    journal.remove([key]);
    expect(await sessionOf(journal, key)).toEqual([]);
    await journal.close();
  });

  test('missing rows and an empty list of rows give nothing', async () => {
    const journal = await openJournal();
    expect(await everything(journal)).toEqual([]);
    expect(await sessionOf(journal, 77)).toEqual([]);
    expect(() => journal.stored.rowsAt([5], 0)).toThrow(StoreCorruptError);
    expect(journal.stored.rowsAt([], 0)).toMatchObject({ rows: [], isLast: true });
    await journal.close();
  });

  test('D2: two large values read alternately stay separate', async () => {
    const journal = await openJournal();
    const texts = [noise(3 * SEARCH_PAGE_BYTES), noise(4 * SEARCH_PAGE_BYTES).toUpperCase()];
    const addresses = texts.map((text) => journal.putBlob(text));
    for (const text of texts) await write(journal, 'a', text);
    const { stored } = journal;
    const blobs = addresses.map((address) =>
      shippedBlob(address, async (offset) => {
        await new Promise(setImmediate);
        return stored.blob(address, offset);
      }),
    );
    const rows = stored.chain(journal.keyOf('a') ?? 0, 0).rows.map((row) =>
      shippedRows(async (offset) => {
        await new Promise(setImmediate);
        return arrived(stored.rowsAt([row], offset));
      }),
    );
    expect(await Promise.all(blobs)).toEqual(texts);
    const read = (await Promise.all(rows)).flatMap((page) => page.rows.flatMap((row) => entriesOf(row)));
    expect(read.map(({ data }) => JSON.parse(data))).toEqual(texts.toReversed());
    expect(await shippedBlob('none', async (offset) => stored.blob('none', offset))).toBeUndefined();
    await journal.close();
  });
});

test('a blob that does not match its address is refused', async () => {
  const journal = openMemoryJournal();
  const address = journal.putBlob('a text');
  await journal.flushed();
  const other = journal.stored.blob(address, 0);
  await expect(shippedBlob('another', async () => other)).rejects.toThrow(StoreCorruptError);
  await journal.close();
});
