/** Goal: the live tree stays within its terminal and restores it. Without a terminal only plain lines are printed. */
import { describe, expect, test } from 'vitest';
import type { PlannedFile } from '../../src/cli/review/plan.ts';
import { ReviewBoard } from '../../src/cli/run/board.ts';
import { percentile } from '../../src/cli/run/figures.ts';
import { type ProgressSource, showProgress, treeLines } from '../../src/cli/run/progress.ts';
import { clip, clipEnd, displayWidth, left, printable, right, wrap } from '../../src/cli/text-layout.ts';
import { keptOutput, testSurroundings } from './support/surroundings.ts';

const HIDE = '\u001b[?25l';
const SHOW = '\u001b[?25h';

function boardOf(count: number): { readonly board: ReviewBoard; readonly files: readonly PlannedFile[] } {
  const files = Array.from({ length: count }, (_, index) => ({
    path: `a/rather/long/path/to/some/file-number-${index}.ts`,
    reader: `file-${index}`,
    bytes: 1,
  }));
  const board = new ReviewBoard();
  const plan = { directory: '/d', model: 'scripted', files, leftOut: 0 } as const;
  board.take({ type: 'planned', plan, standing: 'new', before: 0 });
  files.forEach(({ path }, index) => {
    board.take({ type: 'spawned', path, session: `s:${index}` });
  });
  board.take({ type: 'rate', halfStepsPerSecond: 1_234 });
  return { board, files };
}

function sourceOf(board: ReviewBoard): ProgressSource {
  return { board, id: 'review-1', seconds: () => 2.5 };
}

describe('the board', () => {
  test('follows the states that its reviewer receives, until a reader has ended', () => {
    const { board } = boardOf(3);
    const path = (index: number): string => `a/rather/long/path/to/some/file-number-${index}.ts`;
    board.take({ type: 'state', session: 's:1', state: 'awaiting' });
    board.take({ type: 'state', session: 's:2', state: 'executing' });
    board.take({ type: 'state', session: 'unknown', state: 'executing' });
    expect(board.rows(9).map(({ state, calls }) => [state, calls])).toEqual([
      ['thinks', 0],
      ['reads', 1],
    ]);
    expect(board.working).toBe(2);
    board.take({ type: 'reported', path: path(1), note: '12 lines, 1 name' });
    board.take({ type: 'ended', path: path(1), reason: 'completed' });
    board.take({ type: 'state', session: 's:1', state: 'awaiting' });
    expect(board.rows(9).map(({ state, note }) => [state, note])).toEqual([
      ['reads', ''],
      ['done', '12 lines, 1 name'],
    ]);
    expect([board.over, board.total, board.working]).toEqual([1, 3, 1]);
  });

  test('continues with the reports of a second process: no reader ends twice, and the picture stays', () => {
    const { board } = boardOf(4);
    const path = (index: number): string => `a/rather/long/path/to/some/file-number-${index}.ts`;
    board.take({ type: 'ended', path: path(0), reason: 'completed' });
    board.take({ type: 'state', session: 's:1', state: 'awaiting' });
    const files = [0, 1, 2, 3].map((index) => ({ path: path(index), reader: `file-${index}`, bytes: 1 }));
    const plan = { directory: '/d', model: 'scripted', files, leftOut: 0 } as const;
    board.take({ type: 'planned', plan, standing: 'continued', before: 1 });
    board.take({ type: 'ended', path: path(0), reason: 'completed' });
    expect([board.over, board.total, board.working]).toEqual([1, 4, 1]);
  });

  test('shows the steered reader first', () => {
    const { board } = boardOf(9);
    for (let index = 0; index < 9; index += 1) board.take({ type: 'state', session: `s:${index}`, state: 'awaiting' });
    const steered = 'a/rather/long/path/to/some/file-number-7.ts';
    board.take({ type: 'steered', path: steered, session: 's:7', text: 'More' });
    expect(board.rows(3).map(({ file }) => file.path.slice(-4, -3))).toEqual(['7', '0', '1']);
    const lines = treeLines(sourceOf(board), { columns: 80, rows: 20 });
    expect(lines[1]?.text).toMatch(/file-number-7\.ts +thinks +steered$/);
  });
});

describe('the live tree', () => {
  test.each([
    [80, 24],
    [40, 10],
    [20, 3],
    [1, 1],
  ])('T2: at %i columns and %i rows no line is wider, and there are no more rows', (columns, rows) => {
    const { board, files } = boardOf(30);
    for (const file of files.slice(0, 9)) board.take({ type: 'ended', path: file.path, reason: 'completed' });
    board.warning = 'a warning that is longer than the narrowest terminal';
    const lines = treeLines(sourceOf(board), { columns, rows });
    expect(lines.length).toBeLessThanOrEqual(rows);
    for (const { text } of lines) expect(displayWidth(text)).toBeLessThanOrEqual(columns);
  });

  test('T1: the cursor is hidden while the tree lives and shown once when it stops, also when the process ends', () => {
    for (const way of ['stop', 'exit'] as const) {
      const stdout = keptOutput(true);
      const surroundings = testSurroundings('/', { stdout });
      const progress = showProgress(stdout, sourceOf(boardOf(5).board), surroundings);
      expect(stdout.text().startsWith(HIDE)).toBe(true);
      expect(stdout.text()).not.toContain(SHOW);
      if (way === 'stop') progress.stop();
      else surroundings.exit();
      progress.stop();
      expect(stdout.text().endsWith(SHOW)).toBe(true);
      expect(stdout.text().split(SHOW).length).toBe(2);
      expect(surroundings.handlers()).toBe(0);
      const text = stdout.text();
      stdout.resize(40, 10);
      expect(stdout.text()).toBe(text);
    }
  });

  test('T2: after the terminal became narrower, all rows of the wrapped lines are drawn over', () => {
    const stdout = keptOutput(true, 80, 24);
    const progress = showProgress(stdout, sourceOf(boardOf(50).board), testSurroundings('/', { stdout }));
    const standing = treeLines(sourceOf(boardOf(50).board), { columns: 79, rows: 23 });
    stdout.resize(20, 24);
    const rows = standing.reduce((sum, { text }) => sum + Math.ceil(displayWidth(text) / 20), 0);
    expect(stdout.text()).toContain(`\u001b[${rows}A\r\u001b[J`);
    progress.stop();
  });

  test('T3: a note is written above the tree, which is then drawn again', () => {
    const stdout = keptOutput(true);
    const progress = showProgress(stdout, sourceOf(boardOf(5).board), testSurroundings('/', { stdout }));
    const before = stdout.text().length;
    progress.note('a note');
    const written = stdout.text().slice(before);
    const lines = treeLines(sourceOf(boardOf(5).board), { columns: 79, rows: 23 }).length;
    expect(written.startsWith(`\u001b[${lines}A\r\u001b[Ja note\n`)).toBe(true);
    expect(written.split('reviewer  review-1').length).toBe(2);
    progress.stop();
    progress.note('late');
    expect(stdout.text()).not.toContain('late');
  });

  test('NO_COLOR: no colours, but the tree is drawn', () => {
    const drawn = (environment: Readonly<Record<string, string>>): string => {
      const stdout = keptOutput(true);
      showProgress(stdout, sourceOf(boardOf(5).board), testSurroundings('/', { stdout, environment })).stop();
      return stdout.text();
    };
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for colours
    const colour = /\u001b\[\d+m/;
    expect(drawn({})).toMatch(colour);
    expect(drawn({ NO_COLOR: '1' })).not.toMatch(colour);
    expect(drawn({ NO_COLOR: '1' })).toContain('reviewer  review-1');
  });
});

test('without a terminal there is one plain line for each tenth, and no control characters', () => {
  const { board, files } = boardOf(200);
  const stdout = keptOutput(false);
  const progress = showProgress(stdout, sourceOf(board), testSurroundings('/', { stdout }));
  for (const file of files) {
    board.take({ type: 'ended', path: file.path, reason: 'completed' });
    progress.changed();
  }
  board.take({ type: 'asking' });
  progress.changed();
  progress.changed();
  progress.stop();
  const lines = stdout.text().trimEnd().split('\n');
  expect(lines.length).toBe(11);
  expect(lines[0]).toBe(' 10 %  20 of 200 files read  1,234 half-steps/s  2.5 s');
  expect(stdout.text()).not.toContain('\u001b');
});

describe('layout', () => {
  test('printed text never holds terminal sequences', () => {
    expect(printable('a\u001b[2Jb\u0007\r\nc\td\u202e')).toBe('a�[2Jb�\nc\td�');
  });

  test('texts are cut and padded to columns, and wide characters count as two', () => {
    expect([clip('abcdef', 4), clip('abc', 4), clip('日本語', 4), clip('x', 0)]).toEqual(['abc…', 'abc', '日…', '']);
    expect([clipEnd('a/b/c.ts', 5), clipEnd('c.ts', 5)]).toEqual(['…c.ts', 'c.ts']);
    expect([left('ab', 4), right('ab', 4), left('abcdef', 4)]).toEqual(['ab  ', '  ab', 'abc…']);
    expect(wrap('one two three', 7)).toEqual(['one two', 'three']);
  });

  test('percentiles are by nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, index) => index + 1);
    expect([percentile(values, 50), percentile(values, 99), percentile([7], 50), percentile([], 99)]).toEqual([
      50, 99, 7, 0,
    ]);
  });
});
