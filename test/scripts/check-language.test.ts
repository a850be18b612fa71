/**
 * Goal: the language check reports phrases in comments and in prose with their line, and ignores code, strings and
 * quoted words. Method: files in a temporary directory, the real script run on them as a process.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/check-language.mjs', import.meta.url));
const directories: string[] = [];

afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

/** The findings in a file with this text, without the file's path and without the final count. */
function findings(name: string, text: string): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'troupe-language-'));
  directories.push(directory);
  const path = join(directory, name);
  writeFileSync(path, text);
  const { status, stderr } = spawnSync(process.execPath, [script, path], { encoding: 'utf8' });
  const lines = stderr.split('\n').filter((line) => line !== '');
  expect(status).toBe(lines.length > 0 ? 1 : 0);
  return lines.slice(0, -1).map((line) => line.replace(`${path}:`, ''));
}

test.each([
  ['a line comment', 'const a = 1;\n// nobody waits\n', ['2: nobody: name the subject']],
  ['a doc comment, at its line', '/**\n * One.\n * It is written anew.\n */\n', ['3: anew: "again", or the verb']],
  [
    'a comment without a subject',
    '/** What a shard is made of. */',
    ['1: What a shard is made of.: begin with the subject'],
  ],
  [
    'an invariant without a subject',
    '/**\n *  S1 what comes.\n *  S2 Where it lies.\n */',
    ['3: Where it lies.: begin with the subject'],
  ],
])('finds %s', (_what, text, expected) => {
  expect(findings('a.ts', text)).toEqual(expected);
});

test.each([
  ['code and strings', "const nobody = 'somebody told anew';\nconst told = `whoever`;\n"],
  ['names in backticks and quoted words', '// The event `told` of "somebody".\n'],
  ['a subject', '/** Parts of a shard. The call is in flight. */'],
])('does not report %s', (_what, text) => {
  expect(findings('a.ts', text)).toEqual([]);
});

test('reads the prose of Markdown, and not its code', () => {
  const text = '# Where it lies\n\nSomebody asks.\n\n```ts\n// nobody\n```\n';
  expect(findings('a.md', text)).toEqual(['1: Where it lies: begin with the subject', '3: Somebody: name the subject']);
});

test('the translated part of this project is clean', () => {
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
});
