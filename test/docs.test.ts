/**
 * Goal: the code on the pages of `docs/` works as shown. Method: the TypeScript blocks of a page are one program,
 * compiled against the built package and run, all in one process. Its output is the content of the page's text blocks,
 * in order. The lines of a console block that begin with `$` are typed into a shell, in a directory with the page's
 * JavaScript blocks as files; the lines below them are their output. Links lead to existing files, and every error code
 * is explained.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NO_SERVER, sharedServer } from './postgres/support/server.ts';
import { ERROR_CODES } from './support/error-codes.ts';
import { compilePrograms, type Programs } from './support/package-programs.ts';
import { PageProcess } from './support/pages/page-process.ts';

const execute = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
const docs = join(root, 'docs');
const pages = readdirSync(docs).filter((name) => name.endsWith('.md'));
const texts = new Map(pages.map((page) => [page, readFileSync(join(docs, page), 'utf8')]));

function blocks(text: string, language: string): readonly string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    (match) => match[1] ?? '',
  );
}

const programs = new Map(
  [...texts].flatMap(([page, text]) => {
    const code = blocks(text, 'ts');
    return code.length === 0 ? [] : [[page.replace('.md', ''), code.join('\n')] as const];
  }),
);
/** The anchors of a page, as GitHub makes them from its headings. */
function anchorsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** Runs unchanged in a separate test. */
const PLAIN = 'get-started';

let compiled: Programs;
let shared: PageProcess;

beforeAll(async () => {
  compiled = await compilePrograms(Object.fromEntries(programs));
  shared = new PageProcess(compiled.directory);
});
afterAll(() => {
  shared?.kill();
  return compiled?.remove();
});

describe('a page shows the output of its program', () => {
  it.for([...programs.keys()].filter((name) => name !== PLAIN))('%s', async (name, { skip }) => {
    const expected = blocks(texts.get(`${name}.md`) ?? '', 'text').join('');
    expect(expected).not.toBe('');
    if (name !== 'cluster') return expect(await shared.run(name)).toBe(expected);
    skip(NO_SERVER !== undefined, NO_SERVER);
    const environment = { DATABASE_URL: (await sharedServer()).url };
    expect(await compiled.run(name, { environment })).toBe(expected);
  });

  it('and leaves nothing open: their process ends', async () => expect(await shared.end()).toEqual([0, null]));
});

describe('a page shows the output of its command lines', () => {
  const typed = [...texts].filter(([, text]) => blocks(text, 'console').length > 0).map(([page]) => page);
  it.each(typed)('%s', async (page) => {
    const text = texts.get(page) ?? '';
    const directory = join(compiled.directory, page.replace('.md', '-files'));
    const programs = join(directory, 'bin');
    await mkdir(programs, { recursive: true });
    // Here `npx troupe` is the program that was built, as it is the installed one for a user.
    const npx = `#!/bin/sh\nshift\nexec "${process.execPath}" "${join(root, 'dist', 'cli.js')}" "$@"\n`;
    await writeFile(join(programs, 'npx'), npx, { mode: 0o755 });
    for (const file of blocks(text, 'js')) {
      const name = /^\/\/ (\S+\.js)\n/.exec(file)?.[1];
      if (name === undefined) throw new Error(`a JavaScript block of ${page} does not begin with the name of its file`);
      await writeFile(join(directory, name), file);
    }
    const env = { ...process.env, PATH: `${programs}:${dirname(process.execPath)}:${process.env['PATH']}` };
    for (const block of blocks(text, 'console')) {
      for (const [, line = '', shown = ''] of block.matchAll(/^\$ (.*)\n((?:(?!\$ ).*\n)*)/gm)) {
        const { stdout } = await execute('sh', ['-c', line], { cwd: directory, env });
        // The age of a call depends on the machine.
        expect(stdout.replaceAll(/^ *\d+s +/gm, 'now  '), line).toBe(shown);
      }
    }
  });
  it('there is such a page', () => expect(typed).toContain('approvals.md'));
});

it('get-started is plain JavaScript: it runs unchanged, without a compiler', async () => {
  const expected = blocks(texts.get(`${PLAIN}.md`) ?? '', 'text').join('');
  expect(expected).not.toBe('');
  await writeFile(join(compiled.directory, 'plain.js'), programs.get(PLAIN) ?? '');
  expect(await compiled.run('plain')).toBe(expected);
});

it('every program on a page runs', () => {
  for (const [page, text] of texts) {
    const languages = [...text.matchAll(/^```(\w+)$/gm)].map((match) => match[1]);
    expect(
      languages.filter((language) => !['ts', 'js', 'text', 'console'].includes(language ?? '')),
      page,
    ).toEqual([]);
  }
});

it('links point to existing files, and llms.txt names every page', () => {
  const index = readFileSync(join(docs, 'llms.txt'), 'utf8');
  for (const [page, text] of [...texts, ['llms.txt', index] as const]) {
    for (const [, target = '', anchor] of text.matchAll(/\]\(([^)#]*)(?:#([^)]+))?\)/g)) {
      if (/^https?:/.test(target)) continue;
      const file = target === '' ? join(docs, page) : join(dirname(join(docs, page)), target);
      expect(existsSync(file), `${page}: ${target}`).toBe(true);
      if (anchor !== undefined) expect(anchorsOf(readFileSync(file, 'utf8')), `${page}: ${target}`).toContain(anchor);
    }
  }
  for (const page of pages) expect(index, page).toContain(`(${page})`);
});

it('operations explains every error code', () => {
  const told = [...(texts.get('operations.md') ?? '').matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1]);
  expect(told.toSorted()).toEqual(Object.keys(ERROR_CODES).toSorted());
});
