import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { type DiskStep, type ResultDisk, ResultStore } from '../../actors/result-store.ts';

const base = mkdtempSync(join(tmpdir(), 'troupe-shelf-'));
const directory = join(base, 'results');
afterEach(() => rmSync(base, { recursive: true, force: true }));
const LONG = Array.from({ length: 400 }, (_, line) => `line ${line}`).join('\n');
const BOUNDS = { charactersMax: 1_000, bytesMax: 10_000 };

/** A disk that records its calls, and behaves as `act` says. */
function diskOf(act: (step: DiskStep) => void): ResultDisk {
  return { perform: async (step) => act(step), performNow: act };
}

describe.each(['shorten', 'shortenNow'] as const)('%s', (method) => {
  test('F055: a long result is stored whole, readable by its owner only, and its short form names the file', async () => {
    const short = await new ResultStore(directory)[method](LONG, BOUNDS);
    const file = /saved to: (\S+)/.exec(short)?.[1] ?? '';
    expect(short.length).toBeLessThanOrEqual(1_000);
    expect(readFileSync(file, 'utf8')).toBe(LONG);
    expect(readdirSync(directory)).toHaveLength(1);
    if (process.platform === 'win32') return;
    expect([statSync(file).mode & 0o777, statSync(dirname(file)).mode & 0o777]).toEqual([0o600, 0o700]);
  });

  test('R1: the file is written, synced and moved, and the move is synced, before its name is published', async () => {
    const steps: DiskStep['kind'][] = [];
    const resultStore = new ResultStore(directory, { disk: diskOf(({ kind }) => void steps.push(kind)) });
    expect(await resultStore[method](LONG, BOUNDS)).toContain('saved to: ');
    const each = ['write', 'syncFile', 'move', 'syncDirectory'];
    expect(steps).toEqual(['makeDirectory', 'syncDirectory', ...each]);
    await resultStore[method](`${LONG} and more`, BOUNDS);
    expect(steps.slice(6)).toEqual(['makeDirectory', ...each]);
  });

  test('R1: a store that does not survive a power loss is not synced', async () => {
    const steps: DiskStep['kind'][] = [];
    const disk = diskOf(({ kind }) => void steps.push(kind));
    await new ResultStore(directory, { isSynced: false, disk })[method](LONG, BOUNDS);
    expect(steps).toEqual(['makeDirectory', 'write', 'move']);
  });

  test.each(['makeDirectory', 'write', 'syncFile', 'move', 'syncDirectory'])(
    'F06: a disk that refuses to %s leaves the result short, and the result says that the rest is lost',
    async (refused) => {
      const disk = diskOf(({ kind }) => {
        if (kind === refused) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      });
      const short = await new ResultStore(directory, { disk })[method](LONG, BOUNDS);
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
    expect(new ResultStore(directory, { disk })[method]('short', BOUNDS)).toBe('short');
  });
});
