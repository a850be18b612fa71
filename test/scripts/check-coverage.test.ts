/** Goal: the coverage check accepts only a complete table. Method: tables in a temporary directory, the real script. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/check-coverage.mjs', import.meta.url));
const directories: string[] = [];

afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

function check(table: readonly string[] | undefined): { readonly code: number | null; readonly output: string } {
  const directory = mkdtempSync(join(tmpdir(), 'troupe-coverage-'));
  directories.push(directory);
  mkdirSync(join(directory, 'test'));
  writeFileSync(join(directory, 'test', 'a.test.ts'), "test('the one title | with a pipe', () => {});\n");
  if (table !== undefined) {
    const text = ['# Coverage', '', '| row | test file | test title |', '| --- | --- | --- |', ...table].join('\n');
    writeFileSync(join(directory, 'test', 'COVERAGE.md'), text);
  }
  const result = spawnSync(process.execPath, [script, directory], { encoding: 'utf8' });
  return { code: result.status, output: result.stderr };
}

/** The ids that the script requires, as it lists them when there is no table. */
function requiredRows(): readonly string[] {
  return check(undefined).output.match(/\b[FHS]\d+\b/gu) ?? [];
}

const line = (row: string): string => `| ${row} | \`test/a.test.ts\` | the one title \\| with a pipe |`;

test('without the page every required row is missing', () => {
  const { code, output } = check(undefined);
  expect(code).toBe(1);
  expect(output).toContain('test/COVERAGE.md is missing');
  const required = requiredRows();
  expect(required).toEqual(
    expect.arrayContaining(['F001', 'F087', 'F095', 'F105', 'F121', 'F144', 'F145', 'S01', 'H1', 'H63']),
  );
  expect(required).not.toContain('F142');
});

test('a complete table passes, and so does one with more rows than required', () => {
  expect(check([...requiredRows(), 'F150', 'F001'].map(line))).toEqual({ code: 0, output: '' });
});

test.each([
  ['a row that is left out', [], 'rows without a test: F010'],
  ['a title that no test has', ['| F010 | test/a.test.ts | another title |'], 'F010: no test "another title"'],
  [
    'a file that is not there',
    ['| F010 | test/b.test.ts | the one title |'],
    'no test "the one title" in test/b.test.ts',
  ],
  ['a file that holds no tests', ['| F010 | test/COVERAGE.md | Coverage |'], 'no test "Coverage" in test/COVERAGE.md'],
  ['a line without a title', ['| F010 | test/a.test.ts | |'], 'want | row | test file | test title |'],
  ['a line that names no row', [line('X010')], '"X010" is not a row id'],
])('refused: %s', (_name, lines, message) => {
  const others = requiredRows().filter((row) => row !== 'F010');
  const { code, output } = check([...others.map(line), ...lines]);
  expect(code).toBe(1);
  expect(output).toContain(message);
  expect(output).toContain('rows without a test: F010');
});
