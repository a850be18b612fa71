/** Goal: `POST /backups` writes into the directory for backups, and nowhere else. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { restore } from '../../src/index.ts';
import { serverKit } from './support.ts';

const kit = serverKit();

test('a backup is made in the directory for backups', async () => {
  const base = await kit.directory();
  const backups = join(base, 'backups');
  const { post } = await kit.serve({ directory: join(base, 'store') }, { backups });
  await post('/sessions/s/messages?wait=answer', { content: 'hi' });
  const made = await post('/backups', { directory: 'nightly' });
  expect(made).toMatchObject({ status: 200, body: { directory: join(backups, 'nightly'), copiedShards: 1 } });
  expect(await restore(join(backups, 'nightly'), join(base, 'restored'))).toMatchObject({ sessions: 1 });
});

test('any other directory is forbidden, and a server without one makes none', async () => {
  const base = await kit.directory();
  const { post } = await kit.serve({ directory: join(base, 'store') }, { backups: join(base, 'backups') });
  for (const directory of ['..', '../store2', join(base, 'elsewhere'), '/tmp', `${join(base, 'backups')}2`]) {
    expect(await post('/backups', { directory }), directory).toMatchObject({
      status: 403,
      body: { code: 'forbidden' },
    });
  }
  expect(await readdir(base)).toEqual(['store']);
  const other = await kit.serve({ directory: join(base, 'other') });
  expect(await other.post('/backups', { directory: 'nightly' })).toMatchObject({ status: 403 });
  const inMemory = await kit.serve({}, { backups: join(base, 'backups') });
  expect(await inMemory.post('/backups', { directory: 'nightly' })).toMatchObject({ status: 400 });
});
