import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { open, restore } from '../../src/index.ts';
import type { Journal } from '../../src/journal/journal.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild } from '../support/children.ts';
import { eventually, failure, runtimeKit } from '../support/runtime-kit.ts';
import { makeLmdbJournal, temporaryDirectory } from './support/stores.ts';
import { noiseText } from './support/texts.ts';

const kit = runtimeKit();
const MIB = 1024 * 1024;
const provider = scripted(() => 'ok');

let directory: string;
let mounts: string[];

beforeEach(async () => {
  directory = await temporaryDirectory();
  mounts = [];
});

afterEach(async () => {
  for (const path of mounts) execFileSync('umount', ['--lazy', path]);
  // A test may have taken the right to write.
  await chmod(directory, 0o700);
  await rm(directory, { recursive: true, force: true });
});

/** A file system in memory for this test alone; undefined if this process may not mount one. */
async function mountSmall(bytes: number): Promise<string | undefined> {
  const path = join(directory, 'small');
  await mkdir(path);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  mounts.push(path);
  return path;
}

/** The outcomes of opens; null if the child may not change its user. */
const outcomesSchema = z.array(z.record(z.string(), z.unknown())).nullable();

/** The files and directories below a directory, by name. */
async function entriesIn(path: string): Promise<readonly string[]> {
  return (await readdir(path, { recursive: true })).toSorted();
}

describe('F05: the durability of an acknowledgement', () => {
  test.each(['flush', 'strict', 'os'] as const)('a runtime reports its durability mode: %s', async (durability) => {
    const path = join(directory, durability);
    const runtime = await kit.open({ directory: path, durability, provider });
    expect(runtime.info()).toMatchObject({ durability, directory: path });
    await runtime.session('s').ask('Hi');
    await runtime.close();
    // The mode belongs to the opener, not to the store: a store written in one mode is read in the others.
    const again = await kit.open({ directory: path, durability: 'flush', provider });
    expect(await again.session('s').messages()).toHaveLength(2);
  });
});

describe('F06: a device that accepts no more data', () => {
  test('a full file system: sends are refused with its code, reads still work, and the runtime recovers once there is room', async (context) => {
    const small = await mountSmall(6 * MIB);
    if (small === undefined) return context.skip('mounting a file system of a few megabytes needs root');
    const ballast = join(small, 'ballast');
    await writeFile(ballast, Buffer.alloc(3 * MIB));
    const path = join(small, 'store');
    const runtime = await kit.open({ directory: path, provider });
    const acknowledged: string[] = [];
    let refusal: unknown;
    for (let index = 0; refusal === undefined; index += 1) {
      const content = `${index} ${noiseText(100_000, index)}`;
      const sent = await runtime
        .session(`s${index}`)
        .send(content)
        .catch((error: unknown) => {
          refusal = error;
        });
      if (sent !== undefined) acknowledged.push(content);
    }
    expect(refusal).toMatchObject({ name: 'StoreFullError', code: 'store_full', cause: { code: 'ENOSPC' } });
    expect(acknowledged.length).toBeGreaterThan(3);
    expect(runtime.metrics().degraded).toContain('ENOSPC');
    const read = async (): Promise<readonly unknown[]> => {
      const first = acknowledged.map(
        async (_content, index) => (await runtime.session(`s${index}`).messages())[0]?.content,
      );
      return Promise.all(first);
    };
    expect(await failure(runtime.session('late').send('more'))).toMatchObject({ code: 'store_full' });
    expect(await runtime.session('s0').messages()).not.toEqual([]);

    await rm(ballast);
    await eventually(() => runtime.metrics().degraded === undefined);
    expect(await runtime.session('late').ask('more')).toBe('ok');
    await runtime.drain();
    expect(await read()).toEqual(acknowledged);
    await runtime.close();
    const again = await kit.open({ directory: path, provider });
    expect((await again.session('s1').messages())[0]?.content).toBe(acknowledged[1]);
    // The reserve may take all the remaining room; a commit that needs room finds it in the reserve.
    expect(await again.session('late').ask('once more')).toBe('ok');
  });

  test('a full file system under a backup: it is refused, the earlier backup is whole, and the store takes writes', async (context) => {
    const small = await mountSmall(2 * MIB);
    if (small === undefined) return context.skip('mounting a file system of a few megabytes needs root');
    const backup = join(small, 'backup');
    const runtime = await kit.open({ directory: join(directory, 'store'), provider });
    await runtime.session('s').ask('Hi');
    await runtime.backup(backup);
    for (let index = 0; index < 20; index += 1) await runtime.session(`s${index}`).ask(noiseText(150_000, index));
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect(await failure(runtime.backup(backup))).toMatchObject({
        name: 'StoreFullError',
        code: 'store_full',
        data: { reason: 'ENOSPC' },
      });
    }
    expect(runtime.metrics().degraded).toBeUndefined();
    expect(await runtime.session('s').ask('Hi again')).toBe('ok');
    expect(await restore(backup, join(directory, 'restored'))).toMatchObject({ sessions: 1 });
  });

  test('a full map grows, and nothing is refused', async () => {
    const options = { directory, durability: 'flush', mapSizeBytes: MIB } as const;
    const journal = await openLmdbJournal(options);
    const key = journal.intern('a');
    for (let turn = 0; turn < 80; turn += 1) {
      journal.append([{ key, data: JSON.stringify(noiseText(200_000, turn)) }]);
      await journal.flushed();
    }
    expect([...journal.read(key, 0)]).toHaveLength(80);
    await journal.close();
    const again = await openLmdbJournal(options);
    expect([...again.read(key, 0)]).toHaveLength(80);
    await again.close();
  });

  test('a thousand abandoned readers, more than LMDB has slots, hold no slot', async () => {
    const journal = await openLmdbJournal({ directory, durability: 'flush' });
    const key = journal.intern('a');
    for (let turn = 0; turn < 200; turn += 1) journal.append([{ key, data: String(turn) }]);
    await journal.flushed();
    const left: Iterator<unknown>[] = [];
    for (let index = 0; index < 1_000; index += 1) {
      const reader = (index % 2 === 0 ? journal.tail(0) : journal.read(key, 0))[Symbol.iterator]();
      expect(reader.next().done).toBe(false);
      left.push(reader);
      if (index % 100 === 0) {
        journal.append([{ key, data: '"more"' }]);
        await journal.flushed();
      }
    }
    expect(left).toHaveLength(1_000);
    expect([...journal.read(key, 0)]).toHaveLength(210);
    await journal.close();
  });
});

describe('F07: a device that fails', () => {
  test('a write that fails with EIO: the cause has its code, reads work, nothing acknowledged is lost, the store recovers', async () => {
    const under = await makeLmdbJournal('flush')();
    const { journal } = under;
    const key = journal.intern('a');
    const count = (of: Journal): number => [...of.read(key, 0)].length;
    journal.append([{ key, data: '"kept"' }]);
    await journal.flushed();
    for (const code of ['EIO', 'EROFS', 'EMFILE']) {
      under.refuseWrites?.(Object.assign(new Error(`${code}: refused`), { code }));
      const before = count(journal);
      journal.append([{ key, data: '"refused"' }]);
      expect(await failure(journal.flushed())).toMatchObject({ name: 'StoreFullError', cause: { code } });
      expect(await failure(journal.recover())).toMatchObject({ code: 'store_full' });
      expect(count(journal)).toBe(before);
      under.refuseWrites?.(undefined);
      await journal.recover();
      journal.append([{ key, data: '"after"' }]);
      await journal.flushed();
    }
    expect(count(journal)).toBe(4);
    await under.dispose();
  });

  test('a read-only file system: open is refused with EROFS and writes nothing; once it is writable, all data is there', async (context) => {
    const small = await mountSmall(6 * MIB);
    if (small === undefined) return context.skip('mounting a file system needs root');
    const path = join(small, 'store');
    const first = await kit.open({ directory: path, provider });
    await first.session('s').ask('Hi');
    await first.close();
    execFileSync('mount', ['-o', 'remount,ro', small]);
    expect(await failure(open(path, { provider }))).toMatchObject({
      name: 'StoreNotWritableError',
      code: 'store_not_writable',
      cause: { code: 'EROFS' },
    });
    execFileSync('mount', ['-o', 'remount,rw', small]);
    const again = await kit.open({ directory: path, provider });
    expect(await again.session('s').messages()).toHaveLength(2);
  });

  test.skipIf(process.platform === 'win32')(
    'without rights the open is refused with EACCES and its remedy, and changes nothing',
    async (context) => {
      const empty = join(directory, 'empty');
      const foreign = join(directory, 'foreign');
      await mkdir(empty);
      const first = await kit.open({ directory: foreign, provider });
      await first.session('s').ask('Hi');
      await first.close();
      // Others may look into these directories; no one but root may write.
      for (const path of [empty, foreign, directory]) await chmod(path, 0o555);
      const before = await entriesIn(directory);
      const places = [empty, join(directory, 'new'), join(directory, 'new', 'deeper'), foreign];
      const child = startChild(new URL('./support/unprivileged-opener.ts', import.meta.url), places);
      await child.said('\n');
      expect(await child.ended(), child.errors()).toBe(0);
      const outcomes = outcomesSchema.parse(JSON.parse(child.output()));
      if (outcomes === null) return context.skip('root may not change its user here');
      const remedy = 'give the user of this process the right to write it, or choose another directory';
      expect(outcomes).toEqual(
        places.map((path) => ({
          ...{ name: 'StoreNotWritableError', code: 'store_not_writable', cause: 'EACCES' },
          data: { path, reason: 'EACCES' },
          message: expect.stringMatching(`^the data directory ${path} cannot be written: EACCES .*; ${remedy}$`),
        })),
      );
      expect(await entriesIn(directory)).toEqual(before);
      for (const path of [directory, foreign]) await chmod(path, 0o700);
      const again = await kit.open({ directory: foreign, provider });
      expect(await again.session('s').messages()).toHaveLength(2);
    },
  );

  test('a path that cannot be a directory', async () => {
    await writeFile(join(directory, 'file'), '');
    const error = await failure(open(join(directory, 'file', 'store'), { provider }));
    expect(error).toMatchObject({ name: 'StoreFullError', cause: { code: 'ENOTDIR' } });
  });

  test.skipIf(process.platform === 'win32')(
    'without file descriptors the open is refused with EMFILE, and works once there are some',
    async () => {
      const path = join(directory, 'store');
      const first = await kit.open({ directory: path, provider });
      await first.session('before').ask('Hi');
      await first.close();
      // Enough for a loader that reads all modules of the product at once, since the store must run out of descriptors,
      // not the loader.
      const child = startChild(
        new URL('./support/exhausted-opener.ts', import.meta.url),
        [path],
        'ulimit -n 1024; exec "$@"',
      );
      await child.said('"messages"');
      expect(await child.ended()).toBe(0);
      expect(JSON.parse(child.output())).toEqual({
        name: 'StoreFullError',
        cause: 'EMFILE',
        answer: 'Hello.',
        messages: 2,
      });
    },
  );
});
