/**
 * Goal: `troupe cluster status` says who owns a cluster and what its log keeps, from the address alone. It takes no
 * place in the cluster and writes nothing. Every failure has a code, and no output shows the password of the address.
 */
import dns from 'node:dns';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { postgres } from '../../../src/postgres/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { makeCluster } from '../../postgres/support/cluster.ts';
import { NO_SERVER, newSchema, query, sharedServer } from '../../postgres/support/server.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';
import { emptyDirectory, runProgram } from '../support/program.ts';
import { command, keptOutput } from '../support/surroundings.ts';

const kit = runtimeKit();
const LEASE_MS = 20_000;

const nodeSchema = z.strictObject({
  node: z.string(),
  leaseLeftMs: z.number(),
  address: z.strictObject({ host: z.string(), port: z.number() }).optional(),
});
const overviewSchema = z.strictObject({
  cluster: z.string(),
  schema: z.string(),
  isEncrypted: z.boolean(),
  shards: z.array(
    z.strictObject({
      shard: z.number(),
      owner: nodeSchema.optional(),
      epoch: z.number(),
      lastEntry: z.number(),
      log: z.strictObject({ entries: z.number(), bytes: z.number() }),
      snapshot: z.strictObject({ entry: z.number(), bytes: z.number(), ageMs: z.number() }).optional(),
    }),
  ),
  standbys: z.array(nodeSchema),
});
type LookupCallback = (error: null, addresses: readonly dns.LookupAddress[]) => void;
const failureSchema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });

interface Place {
  readonly url: string;
  readonly schema: string;
}

async function newPlace(): Promise<Place> {
  const { url } = await sharedServer();
  return { url, schema: newSchema() };
}

async function overviewOf({ url, schema }: Place): Promise<z.infer<typeof overviewSchema>> {
  const { code, stdout, stderr } = await command(['cluster', 'status', url, '--schema', schema, '--json'], '/');
  expect([code, stderr]).toEqual([0, '']);
  return overviewSchema.parse(JSON.parse(stdout));
}

async function textOf({ url, schema }: Place, columns = 80): Promise<readonly string[]> {
  const stdout = keptOutput(true, columns);
  const outcome = await command(['cluster', 'status', url, '--schema', schema], '/', {
    stdout,
    environment: { NO_COLOR: '1' },
  });
  expect([outcome.code, outcome.stderr]).toEqual([0, '']);
  return outcome.stdout.trimEnd().split('\n');
}

/** The output that the page of clusters shows: the indented lines below the command. */
async function shownLines(): Promise<readonly string[]> {
  const page = await readFile(new URL('../../../docs/cluster.md', import.meta.url), 'utf8');
  const [, block = ''] = /^ {4}\$ .* npx troupe cluster status\n((?: {4}.*\n|\n)+)/mu.exec(page) ?? [];
  return block
    .trimEnd()
    .split('\n')
    .map((line) => line.slice(4));
}

/** All rows of the tables, with the transaction that wrote each: it differs after any write. */
async function rowsOf({ url, schema }: Place): Promise<unknown> {
  const rows: unknown[] = [];
  for (const table of ['version', 'cluster', 'node', 'shard', 'log', 'snapshot', 'piece']) {
    rows.push(await query(url, `SELECT xmin::text, ctid::text, t::text FROM "${schema}".troupe_${table} t ORDER BY 2`));
  }
  return rows;
}

async function refused(line: readonly string[]): Promise<{ readonly code: string; readonly message: string }> {
  const { code, stdout, stderr } = await command(['cluster', 'status', ...line, '--json'], '/');
  expect(code).toBe(1);
  const { error } = failureSchema.parse(JSON.parse(stdout));
  expect(stderr).toContain(error.message);
  expect(stdout + stderr).not.toContain('secret');
  return error;
}

describe.skipIf(NO_SERVER !== undefined)('troupe cluster status', () => {
  test('with an owner and a standby, and after their end', async () => {
    const place = await newPlace();
    const options = { provider: scripted(() => 'A'), encryption: { key: 'ab'.repeat(32) } };
    const a = await kit.open({
      ...options,
      directory: await kit.directory(),
      threads: { sessions: 2, models: 0 },
      cluster: postgres({ ...place, node: 'node-a', leaseMs: LEASE_MS }),
    });
    await Promise.all(['one', 'two', 'three', 'four'].map((id) => a.session(id).ask('Q')));
    const standby = kit.open({
      ...options,
      directory: await kit.directory(),
      cluster: postgres({ ...place, node: 'node-b', leaseMs: LEASE_MS, waitMs: 'forever' }),
    });
    await expect
      .poll(async () => (await overviewOf(place)).standbys.map(({ node }) => node), { timeout: 30_000 })
      .toEqual(['node-b']);
    const [title, contents, standbys] = await textOf(place);
    expect(title).toMatch(/^Cluster [\da-f-]{36}, schema t\d+_\d+$/u);
    expect(contents).toMatch(/^2 shards, encrypted: \d+ log entries of \d+ KiB, no snapshot$/u);
    expect(standbys).toMatch(/^Standbys: node-b \(lease \d+s\)$/u);
    await a.drain();
    const found = await overviewOf(place);
    expect(found).toMatchObject({ schema: place.schema, isEncrypted: true });
    expect(found.shards.map(({ shard, epoch }) => [shard, epoch])).toEqual([
      [0, 1],
      [1, 1],
    ]);
    const entries = await query(
      place.url,
      `SELECT count(*)::int AS entries, sum(length(bytes))::int AS bytes FROM "${place.schema}".troupe_log GROUP BY shard ORDER BY shard`,
    );
    expect(found.shards.map(({ log }) => log)).toEqual(entries);
    for (const { owner, lastEntry, log, snapshot } of found.shards) {
      expect(owner?.node).toBe('node-a');
      expect(owner?.leaseLeftMs).toBeGreaterThan(0);
      expect(owner?.leaseLeftMs).toBeLessThanOrEqual(LEASE_MS);
      expect(lastEntry).toBe(log.entries);
      expect(snapshot).toBeUndefined();
    }
    await a.close();
    const b = await standby;
    expect((await overviewOf(place)).shards.map(({ owner, epoch }) => [owner?.node, epoch])).toEqual([
      ['node-b', 2],
      ['node-b', 2],
    ]);
    await b.close();
    const after = await overviewOf(place);
    expect(after.standbys).toEqual([]);
    expect(after.shards.map(({ owner, epoch }) => [owner, epoch])).toEqual([
      [undefined, 2],
      [undefined, 2],
    ]);
    expect((await textOf(place, 120)).at(-1)).toBe(
      '2 shards without an owner: no work is done there until a node opens the cluster.',
    );
  });

  test('the text has a line for each shard, fits the terminal, and reading writes nothing', async () => {
    const cluster = await makeCluster();
    await cluster.claim();
    const { url, schema } = cluster;
    const tables = `"${schema}".troupe`;
    const page = await shownLines();
    await query(url, `UPDATE ${tables}_cluster SET id = '0b0c84a8-4fc5-4b1e-9d43-6fd6a3b4d0a7', shards = 2`);
    await query(url, `UPDATE ${tables}_shard SET last = 1234567, epoch = 3`);
    await query(url, `INSERT INTO ${tables}_shard SELECT 1, 3, '', owner, 804113 FROM ${tables}_shard`);
    await query(url, `UPDATE ${tables}_node SET name = 'host-a:2210', expires = now() + interval '8.5 h'`);
    await query(url, `INSERT INTO ${tables}_node VALUES ('b', 'host-b:4127', now(), now() + interval '9.5 h')`);
    await query(url, `INSERT INTO ${tables}_node VALUES ('c', 'host-c:1', now(), now() - interval '1 h')`);
    const entries = `SELECT $1::int, n, 3, '', decode(repeat('ab', $2::int), 'hex') FROM generate_series($3::int, $4::int) n`;
    await query(url, `INSERT INTO ${tables}_log ${entries}`, [0, 505, 1_220_001, 1_234_567]);
    await query(url, `INSERT INTO ${tables}_log ${entries}`, [1, 1_005, 803_501, 804_113]);
    await query(
      url,
      `INSERT INTO ${tables}_snapshot VALUES (0, 's', 1230000, '', 2, '', 1, now() - interval '150 min'),
        (1, 't', 803500, '', 1, '', 1, now() - interval '30 h')`,
    );
    const piece = (size: number): string => `decode(repeat('ab', ${size}), 'hex')`;
    await query(
      url,
      `INSERT INTO ${tables}_piece VALUES (0, 's', 0, ${piece(60_000)}), (0, 's', 1, ${piece(20_000)}),
        (1, 't', 0, ${piece(18_000)}), (1, 'next', 0, ${piece(9_000)})`,
    );
    const before = await rowsOf(cluster);
    const text = await textOf(cluster);
    // Hours in place of seconds, so that the test may take its time.
    expect(text.map((line) => line.replace(schema, 'troupe').replaceAll(/\b([89])h/gu, '$1s'))).toEqual(page);
    const [shown] = (await overviewOf(cluster)).shards;
    expect(shown?.snapshot).toMatchObject({ entry: 1_230_000, bytes: 80_000 });
    expect(shown?.owner).not.toHaveProperty('address');
    expect(await rowsOf(cluster)).toEqual(before);
    // A node that listens has the same line.
    await query(url, `UPDATE ${tables}_node SET address = 'host:4100'`);
    expect((await textOf(cluster))[5]).toBe(text[5]);
    const { shards, standbys } = await overviewOf(cluster);
    const address = { host: 'host', port: 4_100 };
    expect([shards[0]?.owner, standbys[0]]).toMatchObject([{ address }, { address }]);
    await query(
      url,
      `UPDATE ${tables}_node SET expires = now() - interval '3 min', name = 'agents-6f7d8-worker.example.com:41'`,
    );
    expect((await textOf(cluster))[5]).toBe(
      '    0  …example.com:41      3   over   1,234,567  14,567  7,184  1,230,000   2h',
    );
    expect((await textOf(cluster, 120)).at(-1)).toBe(
      'The lease of agents-6f7d8-worker.example.com:41 ran out 3m ago, and no standby waits.',
    );
    for (const columns of [40, 60, 200]) {
      expect(Math.max(...(await textOf(cluster, columns)).map((line) => line.length))).toBeLessThan(columns);
    }
    await cluster.dispose();
  });

  test('the address may be in the environment; a colour marks a shard without an owner', async () => {
    const cluster = await makeCluster();
    const log = await cluster.claim();
    await log.close();
    await query(cluster.url, `UPDATE "${cluster.schema}".troupe_shard SET owner = NULL`);
    const stdout = keptOutput(true);
    const outcome = await command(['cluster', 'status', '--schema', cluster.schema], '/', {
      stdout,
      environment: { TROUPE_CLUSTER: cluster.url },
    });
    expect([outcome.code, outcome.stderr]).toEqual([0, '']);
    expect(outcome.stdout).toContain('\u001b[33m    0  none');
    await cluster.dispose();
  });

  test('a database without a cluster, and tables of another version', async () => {
    const { url, schema } = await newPlace();
    const missing = { code: 'not_found', message: `the database has no cluster in the schema ${schema}` };
    const line = [url, '--schema', schema];
    expect(await refused(line)).toMatchObject({
      code: missing.code,
      message: expect.stringContaining(missing.message),
    });
    await query(url, `CREATE SCHEMA "${schema}"`);
    expect(await refused(line)).toMatchObject({ code: missing.code });
    expect(await query(url, `SELECT 1 FROM pg_class WHERE relnamespace = '${schema}'::regnamespace`)).toEqual([]);
    const cluster = await makeCluster();
    await cluster.claim();
    for (const version of [2, 4]) {
      await query(
        cluster.url,
        `UPDATE "${cluster.schema}".troupe_version SET number = ${version}, lowest = ${version}`,
      );
      const { code, message } = await refused([cluster.url, '--schema', cluster.schema]);
      expect([code, message]).toEqual(['store_version', expect.stringContaining(`have version ${version}`)]);
    }
    await cluster.dispose();
  });

  test('a database that refuses the role', async () => {
    const cluster = await makeCluster();
    await cluster.claim();
    const role = `reader_${cluster.schema}`;
    await query(cluster.url, `CREATE ROLE ${role} LOGIN`);
    const url = cluster.url.replace('troupe@', `${role}:secret@`);
    expect(await refused([url, '--schema', cluster.schema])).toMatchObject({
      code: 'config',
      message: expect.stringContaining('permission denied'),
    });
    await query(cluster.url, `GRANT USAGE ON SCHEMA "${cluster.schema}" TO ${role}`);
    await query(cluster.url, `GRANT SELECT ON ALL TABLES IN SCHEMA "${cluster.schema}" TO ${role}`);
    expect((await overviewOf({ url, schema: cluster.schema })).shards).toHaveLength(1);
    await query(cluster.url, `DROP OWNED BY ${role}`);
    await query(cluster.url, `DROP ROLE ${role}`);
    await cluster.dispose();
  });
});

test('a database that does not answer, also at a host with two addresses', async () => {
  const lookup = vi.spyOn(dns, 'lookup').mockImplementation(((
    _host: string,
    _options: object,
    found: LookupCallback,
  ) => {
    found(null, [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ]);
  }) as typeof dns.lookup);
  onTestFinished(() => lookup.mockRestore());
  for (const host of ['127.0.0.1', 'two-addresses']) {
    expect(await refused([`postgres://user:secret@${host}:1/none`])).toEqual({
      code: 'store_full',
      message: expect.stringMatching(/cannot be used now: connect E[A-Z]+ /u),
    });
  }
  expect(lookup).toHaveBeenCalledOnce();
});

test.each([
  [[], '<address> is missing'],
  [['http://user:secret@host/none'], '<address> must be an address that begins with postgres://'],
  [['postgres://user:sec/ret@host:port/secret'], '<address> is no address that can be parsed'],
  [['postgres://localhost/none', '--schema', 'No'], '--schema must have lower-case letters'],
])('%j is refused', async (line, message) => {
  const { code, stderr } = await command(['cluster', 'status', ...line], '/');
  expect(stderr).toContain(message);
  expect(stderr).not.toContain('secret');
  expect(code).toBe(2);
});

test('another action is refused, and the help loads no code of the database', async () => {
  expect(await command(['cluster', 'move', 'postgres://localhost/none'], '/')).toMatchObject({ code: 2 });
  const directory = await emptyDirectory();
  expect(await runProgram(['cluster', '--help'], directory, { NODE_V8_COVERAGE: directory })).toMatchObject({
    code: 0,
  });
  const [report = ''] = await readdir(directory);
  const loaded = await readFile(join(directory, report), 'utf8');
  expect(loaded).toContain('chunk-command');
  expect(loaded).not.toContain('/node_modules/');
  expect(loaded).not.toContain('postgres-driver.js');
});
