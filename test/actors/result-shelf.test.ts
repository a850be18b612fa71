import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ResultShelf } from '../../actors/result-shelf.ts';

const directory = mkdtempSync(join(tmpdir(), 'troupe-shelf-'));
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const LONG = Array.from({ length: 400 }, (_, line) => `line ${line}`).join('\n');
const BOUNDS = { charactersMax: 1_000, bytesMax: 10_000 };

test('F055: a long result is kept whole, and its short form names the file', () => {
  const short = new ResultShelf(directory).shorten(LONG, BOUNDS);
  const file = /saved to: (\S+)/.exec(short)?.[1] ?? '';
  expect(short.length).toBeLessThanOrEqual(1_000);
  expect(readFileSync(file, 'utf8')).toBe(LONG);
});

test('F06: a disk that takes no more leaves the result short and says that the rest is lost', () => {
  const full = (): never => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  const short = new ResultShelf(directory, full).shorten(LONG, BOUNDS);
  expect(short).toContain('line 0');
  expect(short).toContain('line 399');
  expect(short).toContain('could not be saved');
  expect(short).not.toContain('read_file');
  expect(short.length).toBeLessThanOrEqual(1_000);
});

test('a short result is left as it is, and nothing is written', () => {
  const write = (): never => {
    throw new Error('nothing is to be written');
  };
  expect(new ResultShelf(directory, write).shorten('short', BOUNDS)).toBe('short');
});
