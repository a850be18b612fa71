/** Goal: `troupe backup` and `troupe restore` work on a directory and through its server. Run in place. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serve } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { runtimeKit } from '../support/runtime-kit.ts';
import { emptyDirectory } from './support/program.ts';
import { command } from './support/surroundings.ts';

const kit = runtimeKit();
const provider = scripted({ rules: [], otherwise: 'to {{text}}' });

test('a directory is backed up, again with nothing to copy of its results, and restored', async () => {
  const directory = await emptyDirectory();
  const runtime = await kit.open({ directory: join(directory, 'data'), provider });
  await runtime.session('s').ask('hi');
  await runtime.close();
  const made = await command(['backup', 'data', 'backups'], directory);
  expect(made.stderr).toBe('');
  expect(made.stdout).toMatch(/^Backed up to backups: 1 shard and 0 results, [\d,]+ bytes; copied 1 shard/);
  const again = await command(['backup', '--data', 'data', 'backups', '--json'], directory);
  expect(JSON.parse(again.stdout)).toMatchObject({ directory: join(directory, 'backups'), shards: 1 });
  const restored = await command(['restore', 'backups', 'restored'], directory);
  expect(restored.stdout).toMatch(/^Restored restored: 1 session as of \d{4}-/);
  expect((await command(['export', 's', '--data', 'restored'], directory)).stdout).toContain('to hi');
  expect((await command(['doctor', 'check', 'restored'], directory)).stdout).toContain('whole');
  expect(await command(['restore', 'backups', 'restored'], directory)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('not empty'),
  });
  expect(await command(['backup', 'data', 'backups', '--data', 'other'], directory)).toMatchObject({ code: 2 });
  expect(await command(['backup', 'missing', 'backups'], directory)).toMatchObject({ code: 1 });
});

test('a store that a server has open is backed up by its server, in the directory for backups only', async () => {
  const directory = await emptyDirectory();
  const data = join(directory, 'data');
  const runtime = await kit.open({ directory: data, provider });
  await runtime.session('s').ask('hi');
  const refusing = await serve(runtime, { port: 0 });
  expect(await command(['backup', 'data', 'backups/one'], directory)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('--backups'),
  });
  await refusing.close();
  const server = await serve(runtime, { port: 0, backups: join(directory, 'backups') });
  try {
    const made = await command(['backup', 'data', 'backups/one', '--json'], directory);
    expect(JSON.parse(made.stdout)).toMatchObject({ shards: 1, copiedShards: 1 });
    expect(await command(['backup', 'data', 'elsewhere'], directory)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('only'),
    });
  } finally {
    await server.close();
  }
  expect((await command(['restore', 'backups/one', 'restored'], directory)).code).toBe(0);
});
