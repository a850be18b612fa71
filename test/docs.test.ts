/**
 * Goal: the code on the pages of `docs/` works as shown. Method: the TypeScript blocks of a page are one program,
 * compiled against the built package and run. Its output is the content of the page's text blocks, in order. Links lead
 * to existing files, and every error code is explained.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ERROR_CODES } from './support/error-codes.ts';
import { compilePrograms, type Programs } from './support/package-programs.ts';

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

let compiled: Programs;

beforeAll(async () => {
  compiled = await compilePrograms(Object.fromEntries(programs));
});
afterAll(() => compiled?.remove());

describe('a page shows the output of its program', () => {
  it.each([...programs.keys()])('%s', async (name) => {
    const expected = blocks(texts.get(`${name}.md`) ?? '', 'text').join('');
    expect(expected).not.toBe('');
    expect(await compiled.run(name)).toBe(expected);
  });
});

it('get-started is plain JavaScript: it runs unchanged, without a compiler', async () => {
  const text = texts.get('get-started.md') ?? '';
  await writeFile(join(compiled.directory, 'plain.js'), programs.get('get-started') ?? '');
  expect(await compiled.run('plain')).toBe(blocks(text, 'text').join(''));
});

it('every program on a page runs', () => {
  for (const [page, text] of texts) {
    const languages = [...text.matchAll(/^```(\w+)$/gm)].map((match) => match[1]);
    expect(
      languages.filter((language) => language !== 'ts' && language !== 'text'),
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
