/**
 * Goal: an export that only tests or benchmarks reach fails the check. Method: a small project in a temporary
 * directory, checked by the real tool with the configuration and the arguments of `npm run check`.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const directories: string[] = [];

afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true });
});

/** The arguments of `knip` in `npm run check`. */
function argumentsOfCheck(): readonly string[] {
  const [, given] = /'knip ([^']+)'/.exec(readFileSync(join(root, 'scripts/check.mjs'), 'utf8')) ?? [];
  if (given === undefined) throw new Error('scripts/check.mjs has no command "knip"');
  return given.split(' ');
}

function check(files: Readonly<Record<string, string>>): { readonly code: number | null; readonly output: string } {
  const directory = mkdtempSync(join(tmpdir(), 'troupe-unused-'));
  directories.push(directory);
  const all = { 'package.json': '{ "name": "small", "type": "module" }', ...files };
  for (const [file, text] of Object.entries(all)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true });
    writeFileSync(join(directory, file), text);
  }
  copyFileSync(join(root, 'knip.json'), join(directory, 'knip.json'));
  const knip = join(root, 'node_modules/knip/bin/knip.js');
  const result = spawnSync(process.execPath, [knip, ...argumentsOfCheck()], { cwd: directory, encoding: 'utf8' });
  return { code: result.status, output: result.stdout };
}

const index = "export { used } from './used.ts';\n";
const used = 'export const used = 1;\n';

test('the exports of an entry point are used', () => {
  expect(check({ 'src/index.ts': index, 'src/used.ts': used })).toMatchObject({ code: 0 });
});

test.each([
  ['an export', 'export const idle = 2;\n', 'idle'],
  ['a type', 'export interface Idle { readonly a: number }\n', 'Idle'],
])('%s that only a test imports is found', (_what, more, name) => {
  const { code, output } = check({
    'src/index.ts': index,
    'src/used.ts': used + more,
    'test/used.test.ts': `import { ${name} } from '../src/used.ts';\nexport type A = typeof ${name};\n`,
  });
  expect(code).toBe(1);
  expect(output).toContain(name);
});

test('a file without an importer is found', () => {
  const { code, output } = check({ 'src/index.ts': index, 'src/used.ts': used, 'actors/idle.ts': 'console.log(1);\n' });
  expect(code).toBe(1);
  expect(output).toContain('actors/idle.ts');
});

test('an export with a reason beside it is exempt', () => {
  const text = `${used}/** @measured A benchmark reads it. */\nexport const idle = 2;\n`;
  expect(check({ 'src/index.ts': index, 'src/used.ts': text })).toMatchObject({ code: 0 });
});
