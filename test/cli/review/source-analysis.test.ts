/** Goal: the rules of the scripted review find the content of a file, and a report of it can be read back. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { analyseSource } from '../../../src/cli/review/source-analysis.ts';
import { formatReport, parseReport, reportOf, type SourceReport } from '../../../src/cli/review/source-report.ts';

const SCRIPT = `#!/usr/bin/env node
/**
 * Queues of work. A second sentence
 * that is not the summary.
 */
import type { A } from './a.ts';
import {
  b,
  type C,
} from './b.ts';
import 'side-effect';
import again from './a.ts';

// TODO: bound it
export const size = 3;
export type { A };
export { b as bee, type C } from './b.ts';
export default class Queue {
  #items: number[] = [];

  add(
    item: number,
  ): void {
    if (item > 0) {
      this.#items.push(item);
    }
    call(
      item,
    );
  }

  get first(): number | undefined {
    return this.#items[0];
  }
}

export async function drain(queue: Queue): Promise<void> {
  await queue;
}
`;

describe('a script', () => {
  const facts = analyseSource('lib/queue.ts', SCRIPT);

  test('the summary is the first sentence of the opening comment', () => {
    expect(facts.summary).toBe('Queues of work.');
    expect(analyseSource('a.ts', '\n// One line\n// and more\n\n// not this\nx();\n').summary).toBe(
      'One line and more',
    );
    expect(analyseSource('a.ts', '/** First. */\n/** Second. */\nexport const a = 1;\n').summary).toBe('First.');
    expect(analyseSource('a.ts', 'x();\n/** Too late. */\n').summary).toBe('');
  });

  test('lines, blank lines and lines of comment are counted', () => {
    const lines = SCRIPT.split('\n').length - 1;
    const blank = SCRIPT.split('\n')
      .slice(0, -1)
      .filter((line) => line === '').length;
    expect([facts.lines, facts.blank, facts.comment]).toEqual([lines, blank, 5]);
    expect(analyseSource('a.ts', '')).toMatchObject({ lines: 0, blank: 0, comment: 0, exports: [], imports: [] });
    expect(analyseSource('a.ts', 'no line end').lines).toBe(1);
  });

  test('exports and imports are named once each, in order', () => {
    expect(facts.exports).toEqual(['size', 'Queue', 'drain', 'A', 'bee', 'C']);
    expect(facts.imports).toEqual(['./a.ts', './b.ts', 'side-effect']);
    expect(analyseSource('a.ts', 'export default 7;\n').exports).toEqual(['default']);
  });

  test('the longest function is found with its extent, and calls are not taken for functions', () => {
    expect(facts.longest).toEqual({ name: 'add', lines: 10, at: SCRIPT.split('\n').indexOf('  add(') + 1 });
    const call =
      'function short() {\n  return 1;\n}\nconst value = [\n  1,\n  2,\n  3,\n  4,\n];\n  long(\n    1,\n    2,\n    3,\n  );\n';
    expect(analyseSource('a.ts', call).longest).toEqual({ name: 'short', lines: 3, at: 1 });
  });

  test('markers such as TODO count at the start of a comment', () => {
    expect(facts.marks).toEqual([`TODO at line ${SCRIPT.split('\n').indexOf('// TODO: bound it') + 1}`]);
    expect(analyseSource('a.ts', 'const todo = "TODO";\n// words about a TODO\n/* FIXME */\n').marks).toEqual([
      'FIXME at line 3',
    ]);
  });
});

test('other languages: names, functions by indentation, comments', () => {
  const python =
    '"""Reads logs.\n\nMore.\n"""\nimport os\nfrom a.b import c\n\ndef read(path):\n    # XXX slow\n    with open(path) as f:\n        return f\n\nclass Log:\n    def close(self):\n        pass\n';
  expect(analyseSource('log.py', python)).toMatchObject({
    summary: 'Reads logs.',
    comment: 5,
    exports: ['read', 'Log'],
    imports: ['os', 'a.b'],
    longest: { name: 'read', lines: 4, at: 8 },
    marks: ['XXX at line 9'],
  });
  expect(analyseSource('a.go', '// Package a.\npackage a\n\nfunc Do() {\n\treturn\n}\n')).toMatchObject({
    summary: 'Package a.',
    exports: ['Do'],
    longest: { name: 'Do', lines: 3 },
  });
  expect(analyseSource('a.rs', 'use std::io;\npub fn go() {\n    x();\n}\n')).toMatchObject({
    exports: ['go'],
    imports: ['std::io'],
  });
  expect(analyseSource('a.unknown', 'anything {\n')).toMatchObject({ lines: 1, exports: [], imports: [] });
});

describe('a report', () => {
  test('is read back as written', () => {
    const word = fc.stringMatching(/^[\w$./-]{1,12}$/);
    const names = fc.uniqueArray(word, { maxLength: 60 });
    const facts = fc.record({
      summary: fc.stringMatching(/^([A-Za-z:,]{1,8} ?){0,8}$/).map((text) => text.trim()),
      lines: fc.nat(99_999),
      blank: fc.nat(999),
      comment: fc.nat(999),
      exports: names,
      imports: names,
      marks: fc.array(
        fc.nat(999).map((line) => `TODO at line ${line}`),
        { maxLength: 5 },
      ),
    });
    const longest = fc.option(fc.record({ name: word, lines: fc.nat(999), at: fc.nat(999) }), { nil: undefined });
    fc.assert(
      fc.property(word, facts, longest, fc.option(word, { nil: undefined }), (path, some, span, note) => {
        const report = reportOf(path, { ...some, ...(span === undefined ? {} : { longest: span }) }, note);
        expect(parseReport(formatReport(report))).toEqual(report);
      }),
    );
  });

  test('any text is parsed as a report or as none, and parsing never throws', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const report = reportOf('a.ts', analyseSource('a.ts', text));
        expect((parseReport(formatReport(report)) as SourceReport).lines).toBe(report.lines);
        expect(() => parseReport(text)).not.toThrow();
      }),
    );
    expect(parseReport('I could not finish.')).toBeUndefined();
    expect(parseReport('file: a.ts\nerror: File not found: a.ts')).toEqual({
      path: 'a.ts',
      error: 'File not found: a.ts',
    });
  });

  test('names beyond the bound are counted, not listed', () => {
    const exports = Array.from({ length: 100 }, (_, index) => `name${index}`);
    const report = reportOf('a.ts', { ...analyseSource('a.ts', ''), exports });
    expect(report.exports.count).toBe(100);
    expect(report.exports.names.length).toBeLessThan(100);
  });
});
