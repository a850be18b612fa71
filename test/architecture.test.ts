// Goal: every path in ARCHITECTURE.md exists. Method: each path that the page names is looked up.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = new URL('../', import.meta.url);

test('every path that ARCHITECTURE.md names exists', () => {
  const text = readFileSync(new URL('ARCHITECTURE.md', root), 'utf8');
  const paths = [...text.matchAll(/`((?:src|actors|scripts)\/[\w./-]+)`/gu)].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(40);
  // `X` stands for a word of the session: `decide/X.ts`.
  const missing = paths.filter((path) => !/\/X\./u.test(path) && !existsSync(fileURLToPath(new URL(path, root))));
  expect(missing).toEqual([]);
});

test('every file that ARCHITECTURE.md names without its folder exists', () => {
  const text = readFileSync(new URL('ARCHITECTURE.md', root), 'utf8');
  const names = new Set([...text.matchAll(/`([a-z-]+\.ts)`/gu)].map(([, name = '']) => name));
  expect(names.size).toBeGreaterThan(10);
  const there = new Set(
    ['src', 'actors']
      .flatMap((folder) => readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }))
      .map((name) => basename(name)),
  );
  expect([...names].filter((name) => !there.has(name))).toEqual([]);
});
