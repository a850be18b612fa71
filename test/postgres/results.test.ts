/**
 * Goal: the whole text of a shortened result is at every owner of its session. `read_file` finds it by the path in the
 * shortened text, on whichever machine the tool ran, until its session is deleted.
 */
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agent, type Runtime, type Session } from '../../src/index.ts';
import { postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { read_file } from '../../src/tools/built-in/index.ts';
import { startChild } from '../support/children.ts';
import { long } from '../support/pure-tools.ts';
import { MATRIX, runtimeKit, type TestOptions } from '../support/runtime-kit.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';
import { type Place, tablesHolding } from './support/table-contents.ts';

const kit = runtimeKit();
const NODE = new URL('./fixtures/result-node.ts', import.meta.url);
const CANARY = 'canary-5b1c';
/** A line in the middle of the result, which its shortened text does not have, and `read` shows. */
const MIDDLE = `${CANARY} 7000`;
/** Another such line, which `read` does not show. */
const DEEP = `${CANARY} 9000`;
const ENCRYPTION = { encryption: { key: 'ab'.repeat(32) } };

/** Calls `long` for `make`, and for `read` `read_file` with the path in the newest shortened text. */
const model = scripted({
  rules: [
    { when: { text: 'make', result: false }, reply: { toolUse: { name: 'long', input: { word: CANARY } } } },
    { when: { text: 'make' }, reply: 'made' },
    {
      when: { text: '/', result: false },
      reply: { toolUse: { name: 'read_file', input: { path: '{{text}}', offset: 7_000, limit: 2 } } },
    },
  ],
  otherwise: 'done',
});

async function newPlace(): Promise<Place & { readonly leaseMs: number }> {
  const { url } = await sharedServer();
  return { url, schema: newSchema(), leaseMs: 1_000 };
}

/** A node with an empty directory. */
async function node(place: Place, options: TestOptions = {}): Promise<{ runtime: Runtime; directory: string }> {
  const directory = options.directory ?? (await kit.directory());
  const runtime = await kit.open({
    agents: [agent({ name: 'worker', tools: [long, read_file] })],
    provider: model,
    store: { eraseWithinMs: 200 },
    ...options,
    threads: { sessions: 0, models: 0, tools: 1, ...options.threads },
    directory,
    cluster: postgres({ ...place, waitMs: 'forever' }),
  });
  return { runtime, directory };
}

async function textOf(session: Session): Promise<string> {
  return JSON.stringify(await session.messages());
}

/** The path in the shortened text of a session. */
async function pathIn(session: Session): Promise<string> {
  return /saved to: ([^\\"\s]+)/.exec(await textOf(session))?.[1] ?? '';
}

/** Lets the model read the whole text of the session's result; returns what the session has then. */
async function read(session: Session): Promise<string> {
  await session.ask(await pathIn(session));
  return textOf(session);
}

describe.skipIf(NO_SERVER !== undefined)('whole results in a cluster', () => {
  test.each(MATRIX)('R6: the next owner reads the rest after the first directory is gone: %o', async (threads) => {
    const place = await newPlace();
    const a = await node(place, { threads });
    await a.runtime.session('one').ask('make');
    const path = await pathIn(a.runtime.session('one'));
    const [name = ''] = await readdir(join(a.directory, 'results'));
    expect(path).toBe(join(a.directory, 'results', name));
    const whole = await readFile(path);
    await a.runtime.close();
    await rm(a.directory, { recursive: true, force: true });
    const b = await node(place, { threads });
    expect(await readdir(b.directory)).not.toContain('results');
    expect(await textOf(b.runtime.session('one'))).not.toContain(MIDDLE);
    expect(await read(b.runtime.session('one'))).toContain(MIDDLE);
    const restored = join(b.directory, 'results', name);
    expect((await readFile(restored)).equals(whole)).toBe(true);
    expect(await readdir(join(b.directory, 'results'))).toEqual([name]);
    if (process.platform !== 'win32') expect((await stat(restored)).mode & 0o777).toBe(0o600);
  });

  test.each([
    ['plain', {}],
    ['encrypted', ENCRYPTION],
  ])('R6, RT3: a fork reads the result of a deleted session at the next owner: %s', async (_name, encryption) => {
    const place = await newPlace();
    const a = await node(place, encryption);
    await a.runtime.session('one').ask('make');
    await a.runtime.session('one').fork({ id: 'fork' });
    await a.runtime.session('one').delete();
    await expect.poll(() => a.runtime.metrics().snapshots, { timeout: 30_000 }).toBeGreaterThan(0);
    await a.runtime.close();
    const b = await node(place, encryption);
    expect(await read(b.runtime.session('fork'))).toContain(MIDDLE);
    const files = await readdir(join(b.directory, 'results'));
    const bytes = await readFile(join(b.directory, 'results', files[0] ?? ''));
    expect(bytes.includes(DEEP)).toBe(!('encryption' in encryption));
    expect(await tablesHolding(place, DEEP, kit.directory)).toEqual('encryption' in encryption ? [] : ['troupe_piece']);
    await b.runtime.session('fork').delete();
    await expect.poll(() => readdir(join(b.directory, 'results'))).toEqual([]);
    await expect.poll(() => tablesHolding(place, DEEP, kit.directory), { timeout: 60_000 }).toEqual([]);
  });

  test('RT3: a deleted session leaves no byte of its result in the tables', async () => {
    const place = await newPlace();
    const { runtime, directory } = await node(place);
    await runtime.session('kept').ask('Hello.');
    await runtime.session('gone').ask('make');
    // The check can fail.
    expect(await tablesHolding(place, DEEP, kit.directory)).toEqual(['troupe_log']);
    await runtime.session('gone').delete();
    await expect.poll(() => tablesHolding(place, DEEP, kit.directory), { timeout: 60_000 }).toEqual([]);
    expect(await readdir(join(directory, 'results'))).toEqual([]);
  });

  test('R3: a node removes its results of sessions that another node removed', async () => {
    const place = await newPlace();
    const a = await node(place);
    await a.runtime.session('gone').ask('make');
    await a.runtime.session('kept').ask('make');
    await a.runtime.close();
    expect(await readdir(join(a.directory, 'results'))).toHaveLength(2);
    const b = await node(place);
    await b.runtime.session('gone').delete();
    await expect.poll(() => b.runtime.metrics().sessionsErasing).toBe(0);
    await b.runtime.close();
    const again = await node(place, { directory: a.directory });
    expect(await readdir(join(a.directory, 'results'))).toHaveLength(1);
    expect(await read(again.runtime.session('kept'))).toContain(MIDDLE);
  });

  test('R6: a node that was killed loses no result', async () => {
    const place = await newPlace();
    const owner = startChild(NODE, [await kit.directory(), place.url, place.schema]);
    await owner.said('made\n');
    await owner.kill();
    const b = await node(place);
    expect(await read(b.runtime.session('one'))).toContain(MIDDLE);
  });

  test('a compacted copy, and an owner that starts from a snapshot, have the result', async () => {
    const place = await newPlace();
    const a = await node(place);
    await a.runtime.session('one').ask('make');
    await a.runtime.session('gone').ask('Hello.');
    await a.runtime.session('gone').delete();
    await expect.poll(() => a.runtime.metrics().compactions, { timeout: 30_000 }).toBeGreaterThan(0);
    await expect.poll(() => a.runtime.metrics().snapshots, { timeout: 30_000 }).toBeGreaterThan(0);
    await rm(join(a.directory, 'results'), { recursive: true });
    expect(await read(a.runtime.session('one'))).toContain(MIDDLE);
    await a.runtime.close();
    const [first] = await query(place.url, `SELECT min(no) AS no FROM "${place.schema}".troupe_log`);
    expect(Number(first?.['no'])).toBeGreaterThan(1);
    const b = await node(place);
    expect(await read(b.runtime.session('one'))).toContain(MIDDLE);
  });

  test('a path that names no result of the cluster is read as it is', async () => {
    const { runtime, directory } = await node(await newPlace());
    const session = runtime.session('one');
    await session.ask(join(directory, 'results', `tool_result_0-9_${'0'.repeat(32)}.txt`));
    await session.ask(join(directory, 'manifest.json'));
    expect(await textOf(session)).toMatch(/does not exist|not found|no such file/iu);
    expect(await readdir(directory)).not.toContain('results');
  });
});
