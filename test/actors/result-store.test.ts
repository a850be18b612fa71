import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { type DiskStep, type LoggedResults, type ResultDisk, ResultStore } from '../../actors/result-store.ts';
import { StoreCorruptError } from '../../src/base/errors.ts';

const base = mkdtempSync(join(tmpdir(), 'troupe-shelf-'));
const directory = join(base, 'results');
afterEach(() => rmSync(base, { recursive: true, force: true }));
const LONG = Array.from({ length: 400 }, (_, line) => `line ${line}`).join('\n');
const BOUNDS = { session: 'one', charactersMax: 1_000, bytesMax: 10_000 };
/** Sessions by name; a session without a number does not exist any more. */
const ownerOf = (session: string): string | undefined => ({ one: '0-1', two: '0-2' })[session];

/** A disk that records its calls, and behaves as `act` says. */
function diskOf(act: (step: DiskStep) => void): ResultDisk {
  return { perform: async (step) => act(step), performNow: act, list: async () => [], has: async () => false };
}

describe.each(['shorten', 'shortenNow'] as const)('%s', (method) => {
  test('F055: a long result is stored whole, readable by its owner only, and its short form names the file', async () => {
    const short = await new ResultStore(directory, { ownerOf })[method](LONG, BOUNDS);
    const file = /saved to: (\S+)/.exec(short)?.[1] ?? '';
    expect(short.length).toBeLessThanOrEqual(1_000);
    expect(readFileSync(file, 'utf8')).toBe(LONG);
    expect(readdirSync(directory)).toHaveLength(1);
    if (process.platform === 'win32') return;
    expect([statSync(file).mode & 0o777, statSync(dirname(file)).mode & 0o777]).toEqual([0o600, 0o700]);
  });

  test('R1: the file is written, synced and moved, and the move is synced, before its name is published', async () => {
    const steps: DiskStep['kind'][] = [];
    const resultStore = new ResultStore(directory, { ownerOf, disk: diskOf(({ kind }) => void steps.push(kind)) });
    expect(await resultStore[method](LONG, BOUNDS)).toContain('saved to: ');
    const each = ['write', 'syncFile', 'move', 'syncDirectory'];
    expect(steps).toEqual(['makeDirectory', 'syncDirectory', ...each]);
    await resultStore[method](`${LONG} and more`, BOUNDS);
    expect(steps.slice(6)).toEqual(['makeDirectory', ...each]);
  });

  test('R1: a store that does not survive a power loss is not synced', async () => {
    const steps: DiskStep['kind'][] = [];
    const disk = diskOf(({ kind }) => void steps.push(kind));
    await new ResultStore(directory, { ownerOf, isSynced: false, disk })[method](LONG, BOUNDS);
    expect(steps).toEqual(['makeDirectory', 'write', 'move']);
  });

  test.each(['makeDirectory', 'write', 'syncFile', 'move', 'syncDirectory'])(
    'F06: a disk that refuses to %s leaves the result short, and the result says that the rest is lost',
    async (refused) => {
      const disk = diskOf(({ kind }) => {
        if (kind === refused) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      });
      const short = await new ResultStore(directory, { ownerOf, disk })[method](LONG, BOUNDS);
      expect(short).toContain('line 0');
      expect(short).toContain('line 399');
      expect(short).toContain('could not be saved');
      expect(short).not.toContain('read_file');
      expect(short.length).toBeLessThanOrEqual(1_000);
    },
  );

  test('a short result is returned unchanged, at once, and nothing is written', () => {
    const disk = diskOf(() => {
      throw new Error('nothing is to be written');
    });
    expect(new ResultStore(directory, { ownerOf, disk })[method]('short', BOUNDS)).toBe('short');
  });
});

test('R3: the files of removed sessions are removed, also those that are being written, and no other file', async () => {
  const store = new ResultStore(directory, { ownerOf });
  await store.shorten(LONG, BOUNDS);
  await store.shorten(LONG, { ...BOUNDS, session: 'two' });
  const late = store.shorten(`${LONG} and more`, BOUNDS);
  await store.removeOf(new Set(['0-1', '0-10']));
  expect(await late).toContain('saved to: ');
  expect(readdirSync(directory)).toEqual([expect.stringMatching(/^tool_result_0-2_[0-9a-f]{32}\.txt$/)]);
  await store.removeOf(new Set(['0-2']));
  expect(readdirSync(directory)).toEqual([]);
});

test('R3: a session that does not exist any more gets no file', async () => {
  const short = await new ResultStore(directory, { ownerOf }).shorten(LONG, { ...BOUNDS, session: 'gone' });
  expect(short).not.toContain('saved to: ');
  expect(existsSync(directory)).toBe(false);
});

test('R5: a file is written only after its session is durable; if the store refuses the session, the rest is lost', async () => {
  const steps: DiskStep['kind'][] = [];
  const disk = diskOf(({ kind }) => void steps.push(kind));
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  const shortened = new ResultStore(directory, { ownerOf, disk, durable: () => promise }).shorten(LONG, BOUNDS);
  await nextTick();
  expect(steps).toEqual([]);
  resolve();
  expect(await shortened).toContain('saved to: ');
  expect(steps).toContain('move');
  steps.length = 0;
  const durable = () => Promise.reject(new Error('refused'));
  const lost = await new ResultStore(directory, { ownerOf, disk, durable }).shorten(LONG, BOUNDS);
  expect(lost).toContain('could not be saved');
  expect(steps).not.toContain('write');
});

test('R3: removing results of a store without any is no error', async () => {
  await new ResultStore(directory, { ownerOf }).removeOf(new Set(['0-1']));
  expect(existsSync(directory)).toBe(false);
});

describe('in a cluster', () => {
  /** A log that has the given texts by owner and hash. */
  function logOf(texts: Map<string, string>, refuses = false): LoggedResults {
    return {
      keep: (owner, hash, text) => {
        if (!refuses) texts.set(`${owner} ${hash}`, text);
        return !refuses;
      },
      find: (owner, hash) => texts.get(`${owner} ${hash}`),
    };
  }

  function savedIn(short: string): string {
    return /saved to: (\S+)/.exec(short)?.[1] ?? '';
  }

  test.each(['shorten', 'shortenNow'] as const)(
    'R6: the log has the text of %s, and the file is written again where it is missing',
    async (method) => {
      const texts = new Map<string, string>();
      const logged = logOf(texts);
      const short = await new ResultStore(join(base, 'elsewhere'), { ownerOf, logged })[method](LONG, BOUNDS);
      expect([...texts.values()]).toEqual([LONG]);
      const store = new ResultStore(directory, { ownerOf, logged });
      const found = await store.fileOf(savedIn(short));
      expect(found).toEqual({ path: join(directory, basename(savedIn(short))), fileKey: undefined });
      expect(readFileSync(found?.path ?? '', 'utf8')).toBe(LONG);
      texts.clear();
      expect(await store.fileOf(savedIn(short))).toEqual(found);
      expect(readdirSync(directory)).toEqual([basename(savedIn(short))]);
    },
  );

  test('R6: nothing is found for another path, without the text, or without a cluster', async () => {
    const store = new ResultStore(directory, { ownerOf, logged: logOf(new Map()) });
    const path = join(directory, `tool_result_0-1_${'0'.repeat(32)}.txt`);
    expect(store.fileOf(join(directory, 'notes.txt'))).toBeUndefined();
    expect(await store.fileOf(path)).toBeUndefined();
    expect(new ResultStore(directory, { ownerOf }).fileOf(path)).toBeUndefined();
  });

  test('R6: a log that refuses, and a result that no record will have', async () => {
    const texts = new Map<string, string>();
    const short = await new ResultStore(directory, { ownerOf, logged: logOf(texts, true) }).shorten(LONG, BOUNDS);
    expect(short).toContain('could not be saved');
    const transient = { ...BOUNDS, isUnlogged: true };
    expect(await new ResultStore(directory, { ownerOf, logged: logOf(texts) }).shorten(LONG, transient)).toContain(
      'saved to: ',
    );
    expect(texts.size).toBe(0);
  });

  test('R6: a disk that refuses, and a log that is damaged, leave no file and no error', async () => {
    const texts = new Map<string, string>();
    const logged = logOf(texts);
    const path = savedIn(await new ResultStore(join(base, 'elsewhere'), { ownerOf, logged }).shorten(LONG, BOUNDS));
    const steps: DiskStep['kind'][] = [];
    const disk = diskOf(({ kind }) => {
      steps.push(kind);
      if (kind === 'move') throw new Error('no space left on device');
    });
    expect(await new ResultStore(directory, { ownerOf, logged, disk }).fileOf(path)).toBeUndefined();
    expect(steps.at(-1)).toBe('remove');
    const damaged = {
      ...logged,
      find: () => {
        throw new StoreCorruptError('damaged');
      },
    };
    expect(await new ResultStore(directory, { ownerOf, logged: damaged }).fileOf(path)).toBeUndefined();
  });

  test('R3: files of sessions that are gone are removed', async () => {
    const store = new ResultStore(directory, { ownerOf });
    await store.shorten(LONG, BOUNDS);
    await store.shorten(LONG, { ...BOUNDS, session: 'two' });
    await store.removeGone((owner) => owner === '0-2');
    expect(readdirSync(directory)).toEqual([expect.stringMatching(/^tool_result_0-1_/)]);
  });
});
