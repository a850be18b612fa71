/**
 * Goal: a lock file is refused when a package lacks its hash, names an address, or runs a script that is not explained.
 * Method: a lock file in a temporary directory, the real script run on it as a process.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/check-lock.mjs', import.meta.url));
const directories: string[] = [];

afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

function check(packages?: Readonly<Record<string, object>>): {
  readonly code: number | null;
  readonly lines: readonly string[];
} {
  const at: string[] = [];
  if (packages !== undefined) {
    const directory = mkdtempSync(join(tmpdir(), 'troupe-lock-'));
    directories.push(directory);
    writeFileSync(join(directory, 'package-lock.json'), JSON.stringify({ packages: { '': {}, ...packages } }));
    at.push(directory);
  }
  const result = spawnSync(process.execPath, [script, ...at], { encoding: 'utf8' });
  return { code: result.status, lines: result.stderr.split('\n').filter((line) => line !== '') };
}

const INTEGRITY = 'sha512-AAAA';

test('every package of this project has an integrity hash, and only the documented packages run install scripts', () => {
  expect(check()).toEqual({ code: 0, lines: [] });
});

test.each([
  ['no hash', { version: '1.0.0' }, 'has no integrity hash'],
  ['no hash, though it is optional', { version: '1.0.0', optional: true, os: ['darwin'] }, 'has no integrity hash'],
  ['a weak hash', { version: '1.0.0', integrity: 'sha1-AAAA' }, 'weak hash'],
  ['an address', { version: '1.0.0', integrity: INTEGRITY, resolved: 'https://x.example/a.tgz' }, 'names the address'],
  ['an install script', { version: '1.0.0', integrity: INTEGRITY, hasInstallScript: true }, 'runs a script at install'],
])('a package with %s is refused by its name', (_name, entry, problem) => {
  const { code, lines } = check({ 'node_modules/a': entry });
  expect(code).toBe(1);
  expect(lines).toEqual([expect.stringMatching(`^package-lock.json: node_modules/a .*${problem}`)]);
});

test('a workspace has no hash, since it comes from no registry; a package within it needs one', () => {
  const workspace = { bench: { name: 'x' }, 'node_modules/x': { resolved: 'bench', link: true } };
  expect(check(workspace)).toEqual({ code: 0, lines: [] });
  const { lines } = check({ ...workspace, 'bench/node_modules/a': { version: '1.0.0' } });
  expect(lines).toEqual(['package-lock.json: bench/node_modules/a has no integrity hash']);
});

test('a platform package that the registry lacked passes without a hash until it has one', () => {
  const path = 'node_modules/@msgpackr-extract/msgpackr-extract-darwin-x64';
  const entry = { version: '3.0.7', optional: true, os: ['darwin'] };
  expect(check({ [path]: entry }).code).toBe(0);
  expect(check({ [path]: { version: '3.0.7' } }).lines).toEqual([expect.stringContaining('is not optional')]);
  expect(check({ [path]: { ...entry, integrity: INTEGRITY } }).lines).toEqual([
    expect.stringContaining('has a hash now'),
  ]);
  expect(check({ [path]: { ...entry, version: '3.0.8' } }).lines).toEqual([
    expect.stringContaining('has no integrity hash'),
  ]);
});
