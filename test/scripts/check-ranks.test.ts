/**
 * Goal: the rank check finds each kind of forbidden import, at its line, and accepts the allowed ones. Method: a small
 * tree in a temporary directory, the real script run on it as a process.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/check-ranks.mjs', import.meta.url));
const trees: string[] = [];

afterEach(() => {
  for (const tree of trees.splice(0)) rmSync(tree, { recursive: true, force: true });
});

function check(files: Readonly<Record<string, string>>): { readonly code: number | null; readonly lines: string[] } {
  const tree = mkdtempSync(join(tmpdir(), 'troupe-ranks-'));
  trees.push(tree);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(tree, name)), { recursive: true });
    writeFileSync(join(tree, name), text);
  }
  const result = spawnSync(process.execPath, [script, tree], { encoding: 'utf8' });
  return { code: result.status, lines: result.stderr.split('\n').filter((line) => line !== '') };
}

/** The violations of a tree, without the final count. */
function violations(files: Readonly<Record<string, string>>): string[] {
  const { code, lines } = check(files);
  expect(code).toBe(lines.length > 0 ? 1 : 0);
  return lines.slice(0, -1);
}

test('a tree of allowed imports passes', () => {
  expect(
    violations({
      'src/base/ids.ts': "import { createHash } from 'node:crypto';\nexport const a = createHash;\n",
      'src/events/event.ts': "import { a } from '../base/ids.ts';\nexport type E = typeof a;\n",
      'src/session/decide.ts':
        "import { z } from 'zod';\nimport type { E } from '../events/event.ts';\nexport const s = z;\n",
      'src/threads/port.ts': "import { Worker } from 'node:worker_threads';\nexport { Worker };\n",
      'src/models/anthropic-client.ts': "import Client from '@anthropic-ai/sdk/index.mjs';\nexport { Client };\n",
      'src/journal/lmdb.ts': "export { open } from 'lmdb';\n",
      'src/runtime/open.ts': "export * from '../../actors/supervisor.ts';\n",
      'actors/supervisor.ts': "export { s } from '../src/session/decide.ts';\n",
      'src/server/serve.ts': "export * from '../index.ts';\n",
      'src/index.ts': "export * from './runtime/open.ts';\n",
      'src/cli/main.ts': "import '../server/serve.ts';\n",
      'src/observer/main.tsx':
        "import { render } from 'preact';\nimport type { E } from '../events/event.ts';\nrender(0 as unknown as E);\n",
      'src/testing/simulate.ts': "import '../runtime/open.ts';\nimport '../index.ts';\n",
    }),
  ).toEqual([]);
});

test.each([
  [
    'a higher rank',
    'src/base/a.ts',
    "\nimport { x } from '../session/b.ts';",
    'src/base (rank 0) may not import src/session (rank 1)',
  ],
  [
    'a type of a higher rank',
    'src/base/a.ts',
    "\nimport type { X } from '../session/b.ts';",
    'src/base (rank 0) may not import',
  ],
  [
    'a folder of the same rank',
    'src/session/a.ts',
    "\nimport { x } from '../journal/b.ts';",
    'src/session (rank 1) may not import src/journal',
  ],
  [
    'the events as values',
    'src/session/a.ts',
    "\nimport { x } from '../events/b.ts';",
    'src/session (rank 1) may not import src/events',
  ],
  [
    'the other direction of the exception',
    'src/events/a.ts',
    "\nimport type { X } from '../session/b.ts';",
    'src/events (rank 1) may not import src/session',
  ],
  [
    'actors from below',
    'src/tools/a.ts',
    "\nexport * from '../../actors/b.ts';",
    'src/tools (rank 2) may not import actors (rank 3)',
  ],
  [
    'the index from within',
    'src/runtime/a.ts',
    "\nimport '../index.ts';",
    'src/runtime (rank 4) may not import src/index.ts',
  ],
  [
    'a folder inside the session of a higher rank, as a type',
    'src/session/state/a.ts',
    "\nimport type { X } from '../rules/b.ts';",
    'src/session/state (rank 0) may not import src/session/rules (rank 1)',
  ],
  [
    'a closed folder of the same inner rank',
    'src/session/decide/a.ts',
    "\nimport { x } from '../apply/b.ts';",
    'src/session/decide (rank 2) may not import src/session/apply (rank 2)',
  ],
  [
    'the files of the session itself',
    'src/session/decide/a.ts',
    "\nimport { x } from '../turn.ts';",
    'src/session/decide (rank 2) may not import src/session/. (rank 3)',
  ],
  [
    'an inner folder without a rank',
    'src/runtime/door/a.ts',
    "\nimport { x } from '../elsewhere/b.ts';",
    'src/runtime/elsewhere has no rank; give it one in check-ranks',
  ],
  ['the testing folder', 'src/index.ts', "\nexport * from './testing/b.ts';", 'only tests import src/testing'],
  [
    'the server from testing',
    'src/testing/a.ts',
    "\nimport '../server/b.ts';",
    'src/testing may not import src/server',
  ],
  [
    'the command line from the server',
    'src/server/a.ts',
    "\nimport '../cli/b.ts';",
    'src/server (rank 6) may not import src/cli',
  ],
  [
    'later, by a call',
    'src/base/a.ts',
    "\nexport const x = () => import('../models/b.ts');",
    'src/base (rank 0) may not import src/models',
  ],
  [
    'a type by a call',
    'src/base/a.ts',
    "\nexport type X = import('../models/b.ts').X;",
    'src/base (rank 0) may not import src/models',
  ],
  ['a file outside', 'src/base/a.ts', "\nimport '../../test/b.ts';", 'imports test, which is not part of the library'],
  [
    'over several lines',
    'src/base/a.ts',
    "\nimport {\n  x,\n  y,\n} from '../tools/b.ts';",
    'src/base (rank 0) may not import src/tools',
  ],
  [
    'worker threads',
    'src/tools/a.ts',
    "\nimport 'node:worker_threads';",
    'only src/threads/* imports node:worker_threads',
  ],
  [
    'worker threads by the old name',
    'src/tools/a.ts',
    "\nimport 'worker_threads';",
    'only src/threads/* imports node:worker_threads',
  ],
  ['piscina', 'src/models/a.ts', "\nimport { Piscina } from 'piscina';", 'only src/threads/* imports piscina'],
  ['comlink', 'src/runtime/a.ts', "\nimport * as comlink from 'comlink';", 'only src/threads/* imports comlink'],
  [
    'the vendor SDK',
    'src/models/scripted.ts',
    "\nimport type { Message } from '@anthropic-ai/sdk';",
    'only src/models/anthropic* imports @anthropic-ai/sdk',
  ],
  ['the store', 'src/runtime/a.ts', "\nimport { open } from 'lmdb';", 'only src/journal/* imports lmdb'],
  [
    'a builtin in a pure folder',
    'src/session/a.ts',
    "\nimport { readFile } from 'node:fs/promises';",
    'src/session is pure and may not import node:fs/promises',
  ],
  [
    'a builtin without prefix',
    'src/context/a.ts',
    "\nimport { createHash } from 'crypto';",
    'src/context is pure and may not import node:crypto',
  ],
  [
    'a package in a pure folder',
    'src/context/a.ts',
    "\nimport { pino } from 'pino';",
    'src/context is pure and may not import pino',
  ],
  ['a folder without a rank', 'src/other/a.ts', '', 'src/other has no rank'],
  [
    'a value of the house in the browser',
    'src/observer/a.tsx',
    "\nimport { a } from '../base/b.ts';",
    'src/observer may import types of src/base and src/events, nothing else',
  ],
  [
    'a type of the runtime in the browser',
    'src/observer/a.ts',
    "\nimport type { A } from '../runtime/b.ts';",
    'src/observer may import types of src/base and src/events, nothing else',
  ],
  [
    'a builtin in the browser',
    'src/observer/a.ts',
    "\nimport { join } from 'node:path';",
    'src/observer runs in a browser and may not import node:path',
  ],
  [
    'the browser from the server',
    'src/server/a.ts',
    "\nimport '../observer/b.ts';",
    'imports src/observer, which is not part of the library',
  ],
])('refused: %s', (_name, file, text, message) => {
  const found = violations({ [file]: text });
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(new RegExp(`^${file}:[12]: `));
  expect(found[0]).toContain(message);
});

test('an import cycle is shown completely; dynamic imports close no cycle', () => {
  expect(
    violations({
      'src/base/a.ts': "import './b.ts';",
      'src/base/b.ts': "// first line\nimport './c.ts';",
      'src/base/c.ts': "import './a.ts';",
      'src/base/d.ts': "import './e.ts';",
      'src/base/e.ts': "export const late = () => import('./d.ts');",
    }),
  ).toEqual(['src/base/c.ts:1: import cycle: src/base/a.ts -> src/base/b.ts -> src/base/c.ts -> src/base/a.ts']);
});

test('a cycle of type imports is named once; the one of sessions and children is allowed', () => {
  const handles = 'src/runtime/handles';
  expect(
    violations({
      'src/base/a.ts': "import type { B } from './b.ts';",
      'src/base/b.ts': "import './a.ts';\nimport type { C } from './c.ts';",
      'src/base/c.ts': "import type { A } from './a.ts';",
      [`${handles}/session.ts`]: "import './child.ts';",
      [`${handles}/child.ts`]: "import type { Session } from './session.ts';",
    }),
  ).toEqual([
    'src/base/a.ts:1: these files import each other, if only for types: src/base/a.ts, src/base/b.ts, src/base/c.ts',
  ]);
});

test('text that only looks like an import is ignored', () => {
  const text = [
    "// import '../index.ts';",
    "/* export * from '../cli/a.ts'; */",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a file that holds a template
    "export const template = `import '../runtime/a.ts'; ${[`from '../server/a.ts'`].join('}')} import '../cli/b.ts'`;",
    'export const quotes = /[\'"`]/u;',
    "export const quotient = 4 / 2; // it's a comment with an apostrophe",
    "export const text = 'export x from \\'../cli/c.ts\\'';",
    "export const comment = '/* no comment';",
    "import { real } from '../tools/real.ts';",
    'export { real };',
  ].join('\n');
  expect(violations({ 'src/base/a.ts': text })).toEqual([
    'src/base/a.ts:8: src/base (rank 0) may not import src/tools (rank 2)',
  ]);
});

test('this project keeps its ranks', () => {
  const result = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  expect(result.stderr).toBe('');
  expect(result.status).toBe(0);
});
