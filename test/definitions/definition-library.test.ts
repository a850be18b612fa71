/**
 * Goal: a library has the definitions of its directories. A later directory takes precedence, broken files are left out
 * and reported, and changes are seen while it is open. Method: real files; the wait after a change is on a clock moved
 * by hand.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { DEFINITION_BYTES_MAX, DEFINITIONS_SETTLE_MS } from '../../src/base/bounds.ts';
import { DefinitionLibrary } from '../../src/definitions/definition-library.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { deferred, eventually } from '../support/runtime-kit.ts';

const opened: DefinitionLibrary[] = [];
const directories: string[] = [];

afterEach(async () => {
  for (const library of opened.splice(0)) library.close();
  for (const path of directories.splice(0)) await rm(path, { recursive: true, force: true });
});

async function directory(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'troupe-definitions-'));
  directories.push(path);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(path, name, '..'), { recursive: true });
    await writeFile(join(path, name), text);
  }
  return path;
}

function skill(name: string, content = `${name}!`): string {
  return `---\nname: ${name}\ndescription: about ${name}\n---\n${content}\n`;
}

async function open(skills: readonly string[], workflows: readonly string[] = []) {
  const clock = manualClock();
  const warnings: string[] = [];
  let changed = deferred();
  const library = await DefinitionLibrary.open({
    skills,
    workflows,
    clock,
    warn: (message) => warnings.push(message),
    onChange: () => changed.resolve(),
  });
  opened.push(library);
  /** Waits until the last change is seen and read. */
  const settled = async (): Promise<void> => {
    changed = deferred();
    await eventually(() => clock.pending > 0);
    await clock.advance(DEFINITIONS_SETTLE_MS);
    await changed.promise;
  };
  return { library, warnings, clock, settled };
}

test('files, and folders with a SKILL.md, are skills; other files and folders are ignored', async () => {
  const path = await directory({
    'a.md': skill('a'),
    'b/SKILL.md': skill('b'),
    'b/notes.md': 'x',
    'c/readme.md': skill('c'),
    'd.txt': skill('d'),
    '.e.md': skill('e'),
  });
  const { library, warnings } = await open([path]);
  expect(library.skillNames).toEqual(['a', 'b']);
  expect(library.skill('b')).toEqual({ name: 'b', description: 'about b', content: 'b!' });
  expect(library.skill('toString')).toBeUndefined();
  expect(warnings).toEqual([]);
});

test('workflows are flat files', async () => {
  const path = await directory({ 'a.md': skill('a'), 'b/SKILL.md': skill('b') });
  const { library } = await open([], [path]);
  expect(library.workflowNames).toEqual(['a']);
  expect(library.skillNames).toEqual([]);
});

test('if two files have one name, the later directory wins; within a directory the first wins and the other is reported', async () => {
  const first = await directory({ 'a.md': skill('a', 'theirs'), 'b.md': skill('b') });
  const second = await directory({ 'a.md': skill('a', 'mine'), 'z.md': skill('a', 'again') });
  const { library, warnings } = await open([first, second]);
  expect(library.skill('a')?.content).toBe('mine');
  expect(library.skillNames).toEqual(['a', 'b']);
  expect(warnings).toEqual([expect.stringContaining('another file defines "a"')]);
});

test('a broken file is left out and reported; the others are loaded', async () => {
  const path = await directory({
    'bad.md': 'no front matter',
    'good.md': skill('good'),
    'large.md': skill('large', 'x'.repeat(DEFINITION_BYTES_MAX)),
  });
  const { library, warnings } = await open([path]);
  expect(library.skillNames).toEqual(['good']);
  expect(warnings).toHaveLength(2);
});

test('new, changed and removed files are noticed, also in a new folder', async () => {
  const path = await directory({ 'a.md': skill('a'), 'b.md': skill('b') });
  const { library, settled } = await open([path]);
  await writeFile(join(path, 'a.md'), skill('a', 'new'));
  await settled();
  await eventually(() => library.skill('a') !== undefined);
  expect(library.skill('a')?.content).toBe('new');
  await rm(join(path, 'b.md'));
  await settled();
  expect(library.skillNames).toEqual(['a']);
  await mkdir(join(path, 'c'));
  await settled();
  await writeFile(join(path, 'c', 'SKILL.md'), skill('c'));
  await settled();
  expect(library.skillNames).toEqual(['a', 'c']);
});

test('D3: a closed library reads nothing more and holds no timer', async () => {
  const path = await directory({ 'a.md': skill('a') });
  const { library, clock } = await open([path]);
  await writeFile(join(path, 'b.md'), skill('b'));
  await eventually(() => clock.pending > 0);
  library.close();
  expect(clock.pending).toBe(0);
  await writeFile(join(path, 'c.md'), skill('c'));
  await clock.advance(10 * DEFINITIONS_SETTLE_MS);
  expect(library.skillNames).toEqual(['a']);
});
