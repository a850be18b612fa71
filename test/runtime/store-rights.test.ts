/** Goal: only its owner can read a store, and `open` reports wider rights. */
import { chmod, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../src/index.ts';
import { openManifest } from '../../src/journal/store/birth.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { writeManifest } from '../../src/journal/store/manifest.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { search_messages } from '../../src/tools/built-in/index.ts';
import { runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const long = tool({
  name: 'long',
  description: 'Answers at length.',
  input: z.object({}),
  run: () => 'many words\n'.repeat(20_000),
});

/** Every file and directory of a store that others than its owner have rights to. */
async function wide(directory: string): Promise<readonly string[]> {
  const paths = ['', ...(await readdir(directory, { recursive: true }))];
  const found = await Promise.all(
    paths.map(async (path) => ({ path, mode: (await stat(join(directory, path))).mode })),
  );
  return found.flatMap(({ path, mode }) => ((mode & 0o077) === 0 ? [] : [path]));
}

describe.skipIf(process.platform === 'win32')('access rights of a store', () => {
  let umask: number;
  beforeAll(() => {
    umask = process.umask(0);
  });
  afterAll(() => {
    process.umask(umask);
  });

  test('with the widest umask, files are 0600 and directories 0700: store, lock, manifest, results, search', async () => {
    const directory = join(await kit.directory(), 'store');
    const provider = scripted([
      { toolUse: { name: 'long' } },
      { toolUse: { name: 'search_messages', input: { query: 'words' } } },
      'done',
    ]);
    const runtime = await kit.open({
      directory,
      provider,
      agents: [agent({ name: 'a', tools: [long, search_messages] })],
    });
    expect(await runtime.session('s').ask('go')).toBe('done');
    const names = await readdir(directory);
    expect(names).toEqual(expect.arrayContaining(['manifest.json', 'results', 'search', 'shard-0']));
    expect(names.some((name) => name.endsWith('.lock'))).toBe(true);
    expect(await wide(directory)).toEqual([]);
    await runtime.close();
    expect(await wide(directory)).toEqual([]);
  });

  test('every way to create a data directory gives it mode 0700, whichever runs first', async () => {
    const parent = await kit.directory();
    const [lock, manifest, birth] = ['lock', 'manifest', 'birth'].map((name) => join(parent, name)) as [
      string,
      string,
      string,
    ];
    await (await acquireStoreLock(lock)).release();
    await writeManifest(manifest, 1);
    await openManifest(birth, 1);
    for (const directory of [lock, manifest, birth]) expect((await stat(directory)).mode & 0o777).toBe(0o700);
    for (const directory of [lock, manifest, birth]) expect(await wide(directory)).toEqual([]);
  });

  test('open warns of a directory with wider rights, names it, and does not change it', async () => {
    const directory = join(await kit.directory(), 'store');
    const provider = scripted(() => 'ok');
    await (await kit.open({ directory, provider })).close();
    const warnings: string[] = [];
    const logger = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line).msg) });
    await (await kit.open({ directory, provider, logger })).close();
    expect(warnings).toEqual([]);
    const file = join(directory, 'shard-0', 'data.mdb');
    await chmod(file, 0o644);
    await (await kit.open({ directory, provider, logger })).close();
    expect(warnings).toEqual([expect.stringContaining(`${file} has mode 0644`)]);
    expect((await stat(file)).mode & 0o777).toBe(0o644);
  });
});
