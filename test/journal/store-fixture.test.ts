import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { OpenOptions } from '../../src/index.ts';
import { closeEnvironment, openEnvironment } from '../../src/journal/lmdb/environment.ts';
import type { TableName } from '../../src/journal/lmdb/tables.ts';
import { FIXTURE_KEY, readStoreFixture, storeFixtureOptions } from '../fixtures/store-fixture.ts';
import { runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const FIXTURE = fixture('v1');

function fixture(version: string): string {
  return fileURLToPath(new URL(`../fixtures/store-${version}`, import.meta.url));
}

test('F12: a store of format 1, written by an earlier build, is read identically and can be continued', () =>
  isReadIdentically('v1'));

test('F12: a store of format 3, written by an earlier build, is read identically and can be continued', () =>
  isReadIdentically('v3'));

test('F12: a store of format 4, written by an earlier build, is read identically and can be continued', () =>
  isReadIdentically('v4'));

test('F12: a store of format 5, with drafts, removed history and moved sessions, is read identically and can be continued', async () => {
  expect(await filledTables('v5', ['drafts', 'starts', 'origins', 'dataKeys'])).toEqual([
    'drafts',
    'starts',
    'origins',
  ]);
  await isReadIdentically('v5', ['brief-1']);
});

test('F12: an encrypted store of format 5 is read identically and can be continued', async () => {
  const tables = ['drafts', 'starts', 'dataKeys'] as const;
  expect(await filledTables('v5-encrypted', tables)).toEqual(tables);
  await isReadIdentically('v5-encrypted', ['brief-1'], { encryption: { key: FIXTURE_KEY } });
});

/** Those of the tables that have an entry in the fixture. */
async function filledTables(version: string, names: readonly TableName[]): Promise<readonly TableName[]> {
  const directory = await kit.directory();
  await cp(join(fixture(version), 'shard-0'), directory, { recursive: true });
  const environment = await openEnvironment({ directory, durability: 'flush' });
  const filled = names.filter((name) => environment[name].getCount() > 0);
  await closeEnvironment(environment);
  return filled;
}

async function isReadIdentically(
  version: string,
  more: readonly string[] = [],
  options: OpenOptions = {},
): Promise<void> {
  const text = await readFile(join(fixture(version), 'expected.json'), 'utf8');
  const expected = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const directory = join(await kit.directory(), 'store');
  await cp(fixture(version), directory, { recursive: true });
  const runtime = await kit.open({ ...storeFixtureOptions(), ...options, directory });
  const found = await readStoreFixture(runtime);
  // Only the events about the recovery of the interrupted session may differ, and the keys: that build showed none.
  expect(withoutSeq(withoutKeys(found))).toEqual(withoutSeq(withoutKeys(expected)));
  expect((await runtime.session('paused').messages())[0]).toMatchObject({ content: 'first', key: 'key-1' });
  expect(Object.keys(found)).toEqual([...more, 'paused', 'stuck', 'writer-1', 'writer-1:1']);
  if (more.length > 0) expect((await runtime.session('brief-1').state()).removed).toMatchObject({ firstEvent: 61 });
  const again = await runtime.session('paused').send('first', { key: 'key-1' });
  expect(again.duplicate).toBe(true);
  await runtime.session('paused').resume();
  await runtime.session('writer-1').ask('Add 2 and 3');
  expect((await runtime.session('paused').pending()).length).toBeLessThan(2);
}

test('F12, F138: the heads of an earlier build, without an outcome, are listed, and gain one with the next turn', async () => {
  const directory = join(await kit.directory(), 'store');
  await cp(FIXTURE, directory, { recursive: true });
  const runtime = await kit.open({ ...storeFixtureOptions(), directory });
  const before = await runtime.sessions.list({ order: 'id' });
  expect(before.map(({ id }) => id)).toEqual(['paused', 'stuck', 'writer-1', 'writer-1:1']);
  expect(before.slice(2).map(({ status, lastOutcome }) => [status, lastOutcome])).toEqual([
    ['idle', undefined],
    ['idle', undefined],
  ]);
  expect(await runtime.sessions.list({ outcome: 'answered', agent: before[2]?.agent ?? '' })).toEqual([]);
  await runtime.session('writer-1').ask('Add 2 and 3');
  const [newest] = await runtime.sessions.list({ outcome: 'answered' });
  expect(newest).toMatchObject({ id: 'writer-1', status: 'idle', lastOutcome: 'answered' });
});

function withoutSeq(sessions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(sessions).map(([id, facts]) => [id, { ...(facts as object), seq: 0 }]));
}

function withoutKeys(sessions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const text = JSON.stringify(sessions, (name, value: unknown) => (name === 'key' ? undefined : value));
  return JSON.parse(text) as Readonly<Record<string, unknown>>;
}
