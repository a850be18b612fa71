/**
 * Goal: `troupe cluster init` makes a cluster that nodes then use with a role that cannot make tables, and `migrate`
 * changes the tables of an earlier version. Both may be repeated, and change nothing that is there.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { postgres } from '../../../src/postgres/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { NO_SERVER, newSchema, query, sharedServer } from '../../postgres/support/server.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';
import { emptyDirectory } from '../support/program.ts';
import { command } from '../support/surroundings.ts';

const kit = runtimeKit();

const madeSchema = z.strictObject({
  cluster: z.string(),
  schema: z.string(),
  shards: z.number(),
  isEncrypted: z.boolean(),
  isNew: z.boolean(),
});
const changedSchema = z.strictObject({ schema: z.string(), from: z.number(), to: z.number() });
const failureSchema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });

interface Place {
  readonly url: string;
  readonly schema: string;
}

async function newPlace(): Promise<Place> {
  const { url } = await sharedServer();
  return { url, schema: newSchema() };
}

async function answered(action: string, { url, schema }: Place, ...options: readonly string[]): Promise<unknown> {
  const line = ['cluster', action, url, '--schema', schema, '--json', ...options];
  const { code, stdout, stderr } = await command(line, '/');
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function refused(action: string, { url, schema }: Place, ...options: readonly string[]): Promise<unknown> {
  const { code, stdout } = await command(['cluster', action, url, '--schema', schema, '--json', ...options], '/');
  expect(code).toBe(1);
  return failureSchema.parse(JSON.parse(stdout)).error;
}

async function keyFile(): Promise<string> {
  const file = join(await emptyDirectory(), 'key');
  await writeFile(file, 'cd'.repeat(32));
  return file;
}

describe.skipIf(NO_SERVER !== undefined)('troupe cluster', () => {
  test('init makes a cluster once, and nodes open it with a role that cannot make tables', async () => {
    const place = await newPlace();
    const { url, schema } = place;
    const made = madeSchema.parse(await answered('init', place, '--shards', '3'));
    expect(made).toMatchObject({ schema, shards: 3, isEncrypted: false, isNew: true });
    expect(await answered('init', place, '--shards', '3')).toEqual({ ...made, isNew: false });
    expect(await refused('init', place, '--shards', '4')).toEqual({
      code: 'config',
      message: expect.stringMatching(/has a cluster of 3 shards already, and 4 were asked for/u),
    });
    const role = `node_${schema}`;
    await query(url, `CREATE ROLE ${role} LOGIN`);
    await query(url, `GRANT USAGE ON SCHEMA "${schema}" TO ${role}`);
    await query(url, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "${schema}" TO ${role}`);
    const node = await kit.open({
      provider: scripted(() => 'A'),
      directory: await kit.directory(),
      cluster: postgres({ url: url.replace('troupe@', `${role}@`), schema, node: 'a' }),
    });
    expect(await node.session('s').ask('Q')).toBe('A');
    expect(node.cluster?.status()).toMatchObject({ cluster: made.cluster, shards: [{}, {}, {}] });
    await node.close();
    await query(url, `DROP OWNED BY ${role}`);
    await query(url, `DROP ROLE ${role}`);
  });

  test('init with a key: only nodes with that key open the cluster', async () => {
    const place = await newPlace();
    const file = await keyFile();
    const made = await answered('init', place, '--shards', '1', '--key-file', file);
    expect(made).toMatchObject({ isEncrypted: true, isNew: true });
    expect(await refused('init', place, '--shards', '1')).toMatchObject({ code: 'store_key' });
    const options = async (key?: string): Promise<Parameters<typeof kit.open>[0]> => ({
      provider: scripted(() => 'A'),
      directory: await kit.directory(),
      cluster: postgres({ ...place, node: 'a' }),
      ...(key === undefined ? {} : { encryption: { key } }),
    });
    await expect(kit.open(await options())).rejects.toMatchObject({ code: 'store_key' });
    const node = await kit.open(await options('cd'.repeat(32)));
    expect(await node.session('s').ask('Q')).toBe('A');
    await node.close();
  });

  test('migrate changes the tables of an earlier version, and nothing else', async () => {
    const place = await newPlace();
    const { url, schema } = place;
    expect(await refused('migrate', place)).toMatchObject({ code: 'not_found' });
    expect(await query(url, `SELECT 1 FROM pg_namespace WHERE nspname = '${schema}'`)).toEqual([]);
    await answered('init', place, '--shards', '1');
    const { to } = changedSchema.parse(await answered('migrate', place));
    // The tables of version 2.
    await query(url, `ALTER TABLE "${schema}".troupe_node DROP COLUMN address`);
    await query(url, `UPDATE "${schema}".troupe_version SET number = 2`);
    expect(await refused('status', place)).toMatchObject({ code: 'store_version' });
    expect(await answered('migrate', place)).toEqual({ schema, from: 2, to });
    const { stdout } = await command(['cluster', 'migrate', url, '--schema', schema], '/');
    expect(stdout).toBe(`The tables in the schema ${schema} have version ${to} already.\n`);
    expect(await answered('status', place)).toMatchObject({ shards: [{ shard: 0, epoch: 0 }] });
    await query(url, `UPDATE "${schema}".troupe_version SET number = ${to + 1}, lowest = ${to + 1}`);
    expect(await refused('migrate', place)).toMatchObject({ code: 'store_version' });
  });
});

test.each([
  [['init', 'postgres://localhost/none'], '--shards is missing'],
  [['init', 'postgres://localhost/none', '--shards', '0'], '--shards'],
  [['init', 'postgres://localhost/none', '--shards', '1', '--key-file', '/none'], 'cannot be read'],
  [['status', 'postgres://localhost/none', '--shards', '2'], '--shards belongs to init'],
  [['migrate', 'postgres://localhost/none', '--key-file', '/none'], '--key-file belongs to init'],
])('%j is refused', async (line, message) => {
  const { code, stderr } = await command(['cluster', ...line], '/');
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});
