/** Searches everything that the tables of a cluster have, unpacked. A deleted text must be in none of them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { openLmdbEngine } from '../../../src/journal/lmdb/engine.ts';
import { decodeBatch } from '../../../src/journal/replica/batch-codec.ts';
import { unpackRow } from '../../../src/journal/rows/row-packing.ts';
import { decodeBlob } from '../../../src/journal/rows/stored-text.ts';
import { query } from './server.ts';

/** The schema of a cluster. */
export interface Place {
  readonly url: string;
  readonly schema: string;
}

/** The tables whose rows have this text: as it is, in a row or blob of the log, or in the file of a snapshot. */
export async function tablesHolding(
  { url, schema }: Place,
  text: string,
  newDirectory: () => Promise<string>,
): Promise<readonly string[]> {
  const tables = await query(
    url,
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`,
    [schema],
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const table = String(name);
    const rows = await query(url, `SELECT * FROM "${schema}"."${table}"`);
    const bytes = rows.flatMap((row) => Object.values(row)).map((value) => bytesOf(value));
    if (table === 'troupe_log') bytes.push(...rows.flatMap((row) => plainValues(bytesOf(row['bytes']))));
    if (table === 'troupe_piece') bytes.push(...(await fileContents(rows, newDirectory)));
    if (bytes.some((each) => each.includes(text))) found.push(table);
  }
  return found;
}

function bytesOf(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(String(value));
}

/** The rows and blobs of the journal that an entry has, unpacked. */
function plainValues(entry: Buffer): readonly Buffer[] {
  return decodeBatch(entry).changes.flatMap(({ table, key, value }) => {
    if (!Buffer.isBuffer(value)) return [];
    if (table === 'blobs') return [Buffer.from(decodeBlob(value) ?? '')];
    return table === 'log' ? [unpackRow(value, Number(key))] : [];
  });
}

/** The bytes of all pieces, unpacked, and the rows and blobs in their files. */
async function fileContents(
  rows: readonly Record<string, unknown>[],
  newDirectory: () => Promise<string>,
): Promise<readonly Buffer[]> {
  const files = new Map<string, Buffer[]>();
  for (const { id, no, bytes } of rows) {
    const pieces = files.get(String(id)) ?? [];
    files.set(String(id), pieces);
    pieces[Number(no)] = brotliDecompressSync(bytesOf(bytes));
  }
  const contents: Buffer[] = [];
  for (const pieces of files.values()) {
    const directory = join(await newDirectory(), 'copy');
    await mkdir(directory);
    await writeFile(join(directory, 'data.mdb'), Buffer.concat(pieces));
    contents.push(...pieces);
    // The stores of these tests have one piece.
    const engine = await openLmdbEngine({ directory, durability: 'os' });
    contents.push(...engine.rows(0, 10_000).map(({ bytes }) => bytes));
    for (let key = 1; key < engine.state().nextKey; key += 1) {
      for (const address of engine.blobsOf(key)) {
        const stored = engine.storedBlob(address);
        contents.push(Buffer.from((stored && decodeBlob(stored)) ?? ''));
      }
    }
    await engine.close();
  }
  return contents;
}
