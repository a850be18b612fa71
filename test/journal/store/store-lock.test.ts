import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isRecord } from '../../../src/base/json.ts';
import { acquireStoreLock, refuseIfOwned, storeOwner } from '../../../src/journal/store/lock.ts';
import { processStart } from '../../../src/journal/store/process-identity.ts';
import { startChild, type TestChild } from '../../support/children.ts';
import { temporaryDirectory } from '../support/stores.ts';

let directory: string;
let children: TestChild[];

beforeEach(async () => {
  directory = await temporaryDirectory();
  children = [];
});

afterEach(async () => {
  for (const child of children) if (child.process.exitCode === null) await child.kill();
  await rm(directory, { recursive: true, force: true });
});

function startHolder(): TestChild {
  const child = startChild(new URL('../support/lock-holder.ts', import.meta.url), [directory]);
  children.push(child);
  return child;
}

/** Changes the only claim in the directory. */
async function editClaim(changes: Readonly<Record<string, unknown>>): Promise<string> {
  const [file = ''] = await readdir(directory);
  const path = join(directory, file);
  const claim: unknown = JSON.parse(await readFile(path, 'utf8'));
  if (!isRecord(claim)) throw new Error('a claim is an object');
  await writeFile(path, JSON.stringify({ ...claim, ...changes }));
  return path;
}

describe('F09: one owner', () => {
  test('K1: a second claim of the same process is refused and names the owner; after release it is granted', async () => {
    const before = Date.now();
    const lock = await acquireStoreLock(join(directory, 'deep', 'down'));
    await expect(acquireStoreLock(join(directory, 'deep', 'down'))).rejects.toMatchObject({
      name: 'StoreLockedError',
      code: 'store_locked',
      message: expect.stringContaining(String(process.pid)),
      data: { pid: process.pid, host: hostname(), since: expect.any(Number) },
    });
    await lock.release();
    await lock.release();
    const again = await acquireStoreLock(join(directory, 'deep', 'down'));
    expect(Date.now()).toBeGreaterThanOrEqual(before);
    await again.release();
    expect(await readdir(join(directory, 'deep', 'down'))).toEqual([]);
  });

  test('K5: a claim that came with a copy owns nothing; while its process lives the copy is refused as one', async () => {
    const holder = startHolder();
    await holder.said('held');
    const copy = await temporaryDirectory();
    try {
      await cp(directory, copy, { recursive: true });
      expect(await storeOwner(directory)).toMatchObject({ pid: holder.process.pid });
      expect(await storeOwner(copy)).toBeUndefined();
      await refuseIfOwned(copy);
      await expect(acquireStoreLock(copy)).rejects.toMatchObject({
        code: 'store_locked',
        message: expect.stringContaining('is a copy of a store'),
        data: { pid: holder.process.pid },
      });
      expect((await readdir(copy)).length).toBe(1);
      await holder.kill();
      await (await acquireStoreLock(copy)).release();
      expect(await readdir(copy)).toEqual([]);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  });

  test('K1: a claim held by another process is refused with its pid, and granted when it is released', async () => {
    const holder = startHolder();
    await holder.said('held');
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({
      code: 'store_locked',
      data: { pid: holder.process.pid, host: hostname() },
    });
    holder.process.stdin?.end();
    expect(await holder.ended()).toBe(0);
    await (await acquireStoreLock(directory)).release();
  });

  test('K4: the owner names its server in its lock and takes the name back; after release it writes nothing', async () => {
    expect(await storeOwner(directory)).toBeUndefined();
    const lock = await acquireStoreLock(directory);
    const owner = { pid: process.pid, host: hostname(), since: expect.any(Number), isLocal: true };
    expect(await storeOwner(directory)).toEqual({ ...owner, server: undefined });
    const server = { url: 'http://127.0.0.1:4111', needsToken: true };
    await lock.announce(server);
    expect(await storeOwner(directory)).toEqual({ ...owner, server });
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({ code: 'store_locked' });
    await lock.announce(undefined);
    expect(await storeOwner(directory)).toEqual({ ...owner, server: undefined });
    const late = lock.announce(server);
    await Promise.all([lock.release(), late, lock.announce(server)]);
    expect(await readdir(directory)).toEqual([]);
  });

  test('an owner on another host, and the lock of a process that is gone', async () => {
    await acquireStoreLock(directory);
    await editClaim({ host: 'elsewhere', server: { url: 'http://127.0.0.1:1', needsToken: false } });
    expect(await storeOwner(directory)).toMatchObject({ host: 'elsewhere', isLocal: false });
    await editClaim({ host: hostname(), pid: 2 ** 22 + 1 });
    expect(await storeOwner(directory)).toBeUndefined();
  });

  test('K2: of several processes that claim at once exactly one wins, and the refusals name it', async () => {
    const racers = Array.from({ length: 6 }, startHolder);
    await Promise.all(racers.map((racer) => racer.said('\n')));
    const winners = racers.filter((racer) => racer.output() === 'held\n');
    expect(winners).toHaveLength(1);
    for (const racer of racers) {
      if (winners.includes(racer)) continue;
      expect(JSON.parse(racer.output())).toMatchObject({ code: 'store_locked', host: hostname() });
    }
    expect(await readdir(directory)).toHaveLength(1);
  });

  test('K1: concurrent claims of one process never give two owners at a time, and each gets an answer', async () => {
    let owners = 0;
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, async () => {
        try {
          const lock = await acquireStoreLock(directory);
          owners += 1;
          expect(owners).toBe(1);
          await new Promise((resolve) => setImmediate(resolve));
          owners -= 1;
          await lock.release();
          return 'owned';
        } catch (error) {
          expect(error).toMatchObject({ code: 'store_locked' });
          return 'refused';
        }
      }),
    );
    expect(outcomes).toContain('owned');
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('F10: stale claims', () => {
  test('K3: a claim of a killed process is stale', async () => {
    const holder = startHolder();
    await holder.said('held');
    await holder.kill();
    expect(await readdir(directory)).toHaveLength(1);
    const lock = await acquireStoreLock(directory);
    expect(await readdir(directory)).toEqual([expect.stringContaining(`owner-${process.pid}-`)]);
    await lock.release();
  });

  test('K3: after a kill exactly one of several claiming processes wins', async () => {
    const holder = startHolder();
    await holder.said('held');
    await holder.kill();
    const racers = Array.from({ length: 4 }, startHolder);
    await Promise.all(racers.map((racer) => racer.said('\n')));
    expect(racers.filter((racer) => racer.output() === 'held\n')).toHaveLength(1);
  });

  test.skipIf(process.platform !== 'linux')(
    'K3: a claim is stale if its pid now belongs to another process',
    async () => {
      await acquireStoreLock(directory);
      await editClaim({ startedAt: '1' });
      await (await acquireStoreLock(directory)).release();
      await acquireStoreLock(directory);
      await editClaim({ boot: 'another boot of this machine' });
      await (await acquireStoreLock(directory)).release();
      expect(await readdir(directory)).toEqual([]);
    },
  );

  test('K3: a claim of another host is never judged stale; the message says which file to remove', async () => {
    await acquireStoreLock(directory);
    const path = await editClaim({ host: 'elsewhere', pid: 2 ** 22 + 1, since: 1 });
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({
      code: 'store_locked',
      message: expect.stringContaining(path),
      data: { pid: 2 ** 22 + 1, host: 'elsewhere', since: 1, path },
    });
  });

  test('K2: a claim from the future, after the clock was set back, is waited for and then respected', async () => {
    await acquireStoreLock(directory);
    await editClaim({ since: Date.now() + 3_600_000 });
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({ code: 'store_locked' });
    expect(await readdir(directory)).toHaveLength(1);
  });

  test('an unreadable lock file is respected, and the error names it', async () => {
    const path = join(directory, 'owner-1-00.lock');
    await writeFile(path, 'what');
    await expect(acquireStoreLock(directory)).rejects.toMatchObject({ code: 'store_locked', data: { path } });
    expect(await readdir(directory)).toEqual(['owner-1-00.lock']);
  });

  test.skipIf(process.platform !== 'linux')(
    'K3: a running process has one start time, a missing process has none',
    async () => {
      expect(await processStart(process.pid)).toBe(await processStart(process.pid));
      expect(await processStart(process.pid)).toMatch(/^\d+$/);
      expect(await processStart(2 ** 22 + 1)).toBeUndefined();
    },
  );
});
