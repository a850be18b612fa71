/** B3 and B4 of `src/journal/store/backup.ts`: the order in which the parts of a store are taken. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeBackup } from '../../../src/journal/store/backup.ts';
import { readBackupRecord } from '../../../src/journal/store/backup-record.ts';
import { temporaryDirectory } from '../support/stores.ts';

let directory: string;
let store: string;
let backup: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  [store, backup] = [join(directory, 'store'), join(directory, 'backup')];
  for (const name of ['results', 'webhooks']) await mkdir(join(store, name), { recursive: true });
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Backs up the store, whose one shard changes with `meanwhile` while it is copied. */
async function backedUp(mark: string, meanwhile: () => Promise<unknown>): ReturnType<typeof writeBackup> {
  return writeBackup(backup, {
    store,
    shards: 1,
    now: () => 7,
    copyShard: async (_shard, to, known) => {
      await meanwhile();
      if (known === mark) return { mark };
      await writeFile(join(to, 'data.mdb'), mark);
      return { mark, bytes: mark.length };
    },
  });
}

test('B3: a result that is written while its shard is copied is in the backup; one that is removed is not', async () => {
  const [old, late] = [
    join(store, 'results', 'tool_result_0-1_aa.txt'),
    join(store, 'results', 'tool_result_0-2_bb.txt'),
  ];
  await writeFile(old, 'old');
  expect(await backedUp('first', () => writeFile(late, 'late'))).toMatchObject({ results: 2, copiedResults: 2 });
  expect((await readdir(join(backup, 'results'))).sort()).toEqual(['tool_result_0-1_aa.txt', 'tool_result_0-2_bb.txt']);
  await rm(old);
  expect(await backedUp('first', async () => undefined)).toMatchObject({ copiedShards: 0, results: 1, copiedBytes: 0 });
  expect(await readdir(join(backup, 'results'))).toEqual(['tool_result_0-2_bb.txt']);
});

test('B4: a cursor that moves while a shard is copied is in the backup as it was before', async () => {
  const cursor = join(store, 'webhooks', 'a1.json');
  await writeFile(cursor, 'before');
  await backedUp('first', () => writeFile(cursor, 'after'));
  const folder = (await readBackupRecord(backup))?.cursors ?? '';
  expect(await readFile(join(backup, folder, 'a1.json'), 'utf8')).toBe('before');
});

test('B1: a shard that cannot be copied leaves the earlier backup, and the next one removes what it left', async () => {
  await backedUp('first', async () => undefined);
  const record = await readBackupRecord(backup);
  const failing = backedUp('second', async () => {
    throw new Error('the shard is gone');
  });
  await expect(failing).rejects.toThrow('the shard is gone');
  expect(await readBackupRecord(backup)).toEqual(record);
  expect(await readFile(join(backup, 'shards', record?.shards[0]?.file ?? ''), 'utf8')).toBe('first');
  await backedUp('second', async () => undefined);
  expect(await readdir(join(backup, 'shards'))).toHaveLength(1);
  expect((await readdir(backup)).sort()).toEqual(['backup.json', 'shards']);
});
