// Goal: the edit of a text and the diff that describes it, over random texts. The edit is compared with
// `String.replace`, the diff with an applier of unified diffs written here and with `patch` itself.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Region, regionDiff } from '../../../src/tools/built-in/region-diff.ts';
import { type Planned, planEdit, unplanEdit } from '../../../src/tools/built-in/text-edit.ts';

/** Few letters, so that matches, near matches and equal lines are common. */
const textOf = (units: readonly string[], maxLength = 60): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...units), { maxLength }).map((parts) => parts.join(''));
const lfText = textOf(['a', 'b', '\n', '\n', ' ', 'a\n', '$&']);
const anyText = textOf(['a', 'b', '\n', '\r\n', '\ra', ' ', '\t', '\uFEFF', 'ä', '🚋']);
/** A text as files have it: carriage returns only in line ends, a byte order mark only at the beginning. */
const plainText = textOf(['a', 'b', '\n', '\r\n', ' ', 'ä', '🚋']);

/** A text, a part of it, and its replacement. */
const edits = (text: fc.Arbitrary<string>): fc.Arbitrary<readonly [string, string, string]> =>
  fc
    .tuple(text, fc.nat(), fc.nat(12), text)
    .map(([whole, at, length, newText]): readonly [string, string, string] => {
      const start = at % (whole.length + 1);
      return [whole, whole.slice(start, start + length), newText];
    })
    .filter(([, oldText]) => oldText.trim() !== '');

function timesIn(text: string, part: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += 1) if (text.startsWith(part, at)) count += 1;
  return count;
}

function editOf(planned: Planned): Extract<Planned, { readonly type: 'edit' }> {
  if (planned.type !== 'edit') throw new Error(`not an edit: ${planned.type}`);
  return planned;
}

/** Applies a unified diff of one hunk to a text. Throws if it does not fit. */
function applied(text: string, diff: string): string {
  const [, , header = '', ...body] = diff.split('\n');
  const [, from = '', oldCount = '', , newCount = ''] = /^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$/.exec(header) ?? [];
  if (body.pop() !== '') throw new Error('the diff does not end with a line end');
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const start = oldCount === '0' ? Number(from) : Number(from) - 1;
  const [removed, added]: [string[], string[]] = [[], []];
  for (const [index, line] of body.entries()) {
    if (line.startsWith('\\')) continue;
    const end = body[index + 1]?.startsWith('\\') === true ? '' : '\n';
    if (line[0] !== '+') removed.push(line.slice(1) + end);
    if (line[0] !== '-') added.push(line.slice(1) + end);
  }
  expect([removed.length, added.length]).toEqual([Number(oldCount), Number(newCount)]);
  expect(lines.slice(start, start + removed.length)).toEqual(removed);
  return [...lines.slice(0, start), ...added, ...lines.slice(start + removed.length)].join('');
}

function changed({ text, start, end, replacement }: Region): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

describe('F148: the edit of a text', () => {
  test('F148: one match gives the same as String.replace; several matches change nothing', () => {
    fc.assert(
      fc.property(edits(lfText), ([text, oldText, newText]) => {
        const planned = planEdit(text, { oldText, newText });
        const count = timesIn(text, oldText);
        if (count > 1) expect(planned).toMatchObject({ type: 'several', isFuzzy: false, count: String(count) });
        else expect(editOf(planned)).toMatchObject({ text: text.replace(oldText, () => newText), isFuzzy: false });
      }),
      { numRuns: 700 },
    );
  });

  test('F148: with any line ends and marks the match is replaced, and everything outside it stays', () => {
    fc.assert(
      fc.property(edits(anyText), ([text, oldText, newText]) => {
        const planned = planEdit(text, { oldText, newText });
        if (planned.type !== 'edit') return;
        const { region } = planned;
        const lf = (part: string): string => part.replaceAll('\r\n', '\n');
        const mark = text.startsWith('\uFEFF') ? '\uFEFF' : '';
        const raw = text.slice(mark.length);
        // The parts around the match, found from their ends, code unit by code unit.
        const before = rawHead(raw, region.text.slice(0, region.start));
        const after = rawTail(raw, region.text.slice(region.end));
        expect(lf(raw)).toBe(region.text);
        expect(planned.text.startsWith(mark + before)).toBe(true);
        expect(planned.text.endsWith(after)).toBe(true);
        const middle = planned.text.slice(mark.length + before.length, planned.text.length - after.length);
        expect(lf(middle)).toBe(region.replacement);
        // The replacement gets one kind of line end, if the file has any line end.
        if (raw.includes('\n')) expect(/\r\n/.test(middle) && /(?<!\r)\n/.test(middle)).toBe(false);
      }),
      { numRuns: 700 },
    );
  });

  test('F148: lines that differ only in white space are found if there is one such place', () => {
    const lines = fc.array(fc.constantFrom('a', 'b', 'ab', 'ba', ''), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(lines, fc.nat(), fc.integer({ min: 1, max: 4 }), (whole, at, height) => {
        const start = at % whole.length;
        const part = whole.slice(start, start + height);
        if (part.join('') === '') return;
        const spaced = (line: string): string => `\t${[...line].join(' ')} `;
        const oldText = part.map((line) => `  ${[...line].join('  ')}`).join('\n');
        const planned = planEdit(whole.map(spaced).join('\n'), { oldText, newText: 'new' });
        const fits = whole.flatMap((_line, index) =>
          part.every((line, offset) => whole[index + offset] === line) ? [index + 1] : [],
        );
        if (fits.length > 1) {
          expect(planned).toMatchObject({ type: 'several', isFuzzy: true, lines: fits.join(', ') });
          return;
        }
        const expected = [...whole.slice(0, start).map(spaced), 'new', ...whole.slice(start + part.length).map(spaced)];
        expect(editOf(planned)).toMatchObject({ text: expected.join('\n'), isFuzzy: true });
      }),
      { numRuns: 500 },
    );
  });

  test('F148: an edit that was made is recognised or reported as unknown, and never taken for one not made', () => {
    fc.assert(
      fc.property(edits(plainText), fc.constantFrom('', '\uFEFF'), ([text, oldText, newText], mark) => {
        const wanted = { oldText, newText };
        const planned = planEdit(mark + text, wanted);
        if (planned.type !== 'edit' || planned.isFuzzy || newText === '') return;
        expect(unplanEdit(planned.text, wanted).type).not.toBe('missing');
      }),
      { numRuns: 700 },
    );
  });
});

/** The part of `raw`, from its start, that equals `lf` once its line ends are LF. */
function rawHead(raw: string, lf: string): string {
  let at = 0;
  for (const unit of lf.split('')) at += unit === '\n' && raw[at] === '\r' ? 2 : 1;
  return raw.slice(0, at);
}
function rawTail(raw: string, lf: string): string {
  let at = raw.length;
  for (const unit of lf.split('').reverse()) at -= unit === '\n' && raw[at - 2] === '\r' ? 2 : 1;
  return raw.slice(at);
}

const regions: fc.Arbitrary<Region> = fc
  .tuple(textOf(['a', 'b', '\n', '\n', 'a\n', 'b\n', 'c\n'], 40), fc.nat(), fc.nat(10), lfText)
  .map(([text, at, length, replacement]) => {
    const start = at % (text.length + 1);
    return { text, start, end: Math.min(text.length, start + length), replacement };
  });

describe('F148: the diff of a region', () => {
  test('F148: applying it to the old text gives the new text; without a change it is empty', () => {
    fc.assert(
      fc.property(regions, (region) => {
        const diff = regionDiff('a.txt', region);
        if (changed(region) === region.text) expect(diff).toBe('');
        else expect(applied(region.text, diff)).toBe(changed(region));
      }),
      { numRuns: 1_200 },
    );
  });

  test('F148: a last line without a line end is marked as such', () => {
    expect(regionDiff('a', { text: 'x', start: 1, end: 1, replacement: '\n' })).toBe(
      '--- a\n+++ a\n@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+x\n',
    );
    expect(regionDiff('a', { text: '', start: 0, end: 0, replacement: 'x' })).toBe(
      '--- a\n+++ a\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n',
    );
    expect(regionDiff('a', { text: '\n\nx\n', start: 0, end: 1, replacement: '' })).toBe(
      '--- a\n+++ a\n@@ -1,3 +1,2 @@\n-\n \n x\n',
    );
  });

  test.skipIf(spawnSync('patch', ['--version']).status !== 0)('F148: patch(1) takes it', () => {
    const directory = mkdtempSync(join(tmpdir(), 'troupe-diff-'));
    const file = join(directory, 'a.txt');
    try {
      fc.assert(
        fc.property(regions, (region) => {
          // The diff treats an empty file and a missing file alike.
          if (changed(region) === region.text || changed(region) === '' || region.text === '') return;
          writeFileSync(file, region.text);
          execFileSync('patch', ['--fuzz=0', '--no-backup-if-mismatch', file], {
            input: regionDiff('a.txt', region),
            stdio: ['pipe', 'ignore', 'inherit'],
          });
          expect(readFileSync(file, 'utf8')).toBe(changed(region));
        }),
        { numRuns: 40 },
      );
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
