/** Goal: the scripted model of a review derives its answers from the request alone: pages, a report, the index. */
import { describe, expect, test } from 'vitest';
import type { ContentBlock } from '../../../src/base/messages.ts';
import { answer } from '../../../src/cli/review/model.ts';
import { withPace } from '../../../src/cli/review/pace.ts';
import { planMessage, type ReviewPlan, STEER_REQUEST, taskOf } from '../../../src/cli/review/plan.ts';
import { analyseSource } from '../../../src/cli/review/source-analysis.ts';
import { formatReport, reportOf } from '../../../src/cli/review/source-report.ts';
import type { ModelRequest, RequestMessage } from '../../../src/models/provider.ts';

const file = { path: 'src/a.ts', reader: 'src-a', bytes: 10 };

function request(messages: readonly RequestMessage[]): ModelRequest {
  return { model: 'm', max_tokens: 100, messages };
}

function called(id: string, name: string, result: string, isError = false): readonly RequestMessage[] {
  const call: ContentBlock = { type: 'tool_use', id, name, input: {} };
  const answered: ContentBlock = {
    type: 'tool_result',
    tool_use_id: id,
    content: result,
    ...(isError ? { is_error: true } : {}),
  };
  return [
    { role: 'assistant', content: [call] },
    { role: 'user', content: [answered] },
  ];
}

const task: RequestMessage = { role: 'user', content: taskOf(file) };

describe('a reader', () => {
  test('asks for its file first', () => {
    expect(answer(request([task]))).toEqual({ toolUse: { name: 'read_file', input: { path: 'src/a.ts' } } });
  });

  test('asks for the next page while the result says that there is more', () => {
    const page = 'export const a = 1;\n\n[Showing lines 1-1 of 3. Use offset=2 to continue.]';
    expect(answer(request([task, ...called('1', 'read_file', page)]))).toEqual({
      toolUse: { name: 'read_file', input: { path: 'src/a.ts', offset: 2 } },
    });
  });

  test('reports the content of the pages, without the hints between them', () => {
    const first = 'export const a = 1;\n\n[Showing lines 1-1 of 3. Use offset=2 to continue.]';
    const messages = [
      task,
      ...called('1', 'read_file', first),
      ...called('2', 'read_file', '// TODO: b\nexport const b = 2;'),
    ];
    const report = formatReport(
      reportOf('src/a.ts', analyseSource('src/a.ts', 'export const a = 1;\n// TODO: b\nexport const b = 2;\n')),
    );
    expect(report).toContain('lines: 3 (0 blank, 1 comment)');
    expect(answer(request(messages))).toEqual({ toolUse: { name: 'mark_goal_completed', input: { result: report } } });
  });

  test('a later message of the user asks for the longest line: the report has one more line, else it has not', () => {
    const read = called('1', 'read_file', 'a();\nlonger();\n// longest line? no');
    const reported = (messages: readonly RequestMessage[]): string => JSON.stringify(answer(request(messages)));
    const steer: RequestMessage = { role: 'user', content: STEER_REQUEST };
    expect(reported([task, ...read])).not.toContain('longest line:');
    expect(reported([task, ...read, steer])).toContain('longest line: 19 characters, line 3');
    // The request may stand in one message with the result of a tool.
    const [call, result] = read;
    const joined = [...((result?.content ?? []) as readonly ContentBlock[]), { type: 'text', text: STEER_REQUEST }];
    const together = [task, call, { role: 'user', content: joined as readonly ContentBlock[] }] as RequestMessage[];
    expect(reported(together)).toContain('longest line: 19 characters, line 3');
  });

  test('with a pace in its URL it takes its time, and asks for pages that reach the end of the file', async () => {
    const url = withPace(new URL('../../../src/cli/review/model.ts', import.meta.url), { delayMs: 40, pageLines: 50 });
    const paced = (await import(url.href)) as { readonly answer: typeof answer };
    const first = paced.answer(request([task]), { session: 's' });
    expect(first).toMatchObject({ toolUse: { input: { path: 'src/a.ts', limit: 50 } } });
    const delays = Array.from({ length: 50 }, (_, index) => {
      const reply = paced.answer(request([task]), { session: `s:${index}` });
      return (reply as { readonly delayMs: number }).delayMs;
    });
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(20);
    expect(Math.max(...delays)).toBeLessThanOrEqual(60);
    expect(new Set(delays).size).toBeGreaterThan(10);
    // A file of 6,050 lines: 12 pages are left for 6,000 lines.
    const page = 'x\n\n[Showing lines 1-50 of 6050. Use offset=51 to continue.]';
    const next = paced.answer(request([task, ...called('1', 'read_file', page)]), { session: 's' });
    expect(next).toMatchObject({ toolUse: { input: { path: 'src/a.ts', offset: 51, limit: 500 } } });
  });

  test('stops asking at the bound on pages, and names the part it did not read', () => {
    const messages = [task];
    for (let page = 1; page <= 13; page += 1) {
      messages.push(
        ...called(
          `${page}`,
          'read_file',
          `line\n\n[Showing lines ${page}-${page} of 99. Use offset=${page + 1} to continue.]`,
        ),
      );
    }
    expect(JSON.stringify(answer(request(messages)))).toContain('note: 13 of 99 lines read');
  });

  test('reports an unreadable file, and an empty one', () => {
    const failed = called('1', 'read_file', '{"error":"File not found: src/a.ts"}', true);
    expect(answer(request([task, ...failed]))).toEqual({
      toolUse: { name: 'mark_goal_completed', input: { result: 'file: src/a.ts\nerror: File not found: src/a.ts' } },
    });
    expect(JSON.stringify(answer(request([task, ...called('1', 'read_file', '(no output)')])))).toContain(
      'lines: 0 (0 blank',
    );
  });

  test('after its report it answers with a text, and says that it is scripted', () => {
    const messages = [
      task,
      ...called('1', 'read_file', 'x();'),
      ...called('2', 'mark_goal_completed', 'Goal completed.'),
    ];
    const said = answer(request([...messages, { role: 'user', content: 'And?' }]));
    expect(said).toContain('I am a scripted model');
    expect(said).toContain('lines: 1');
  });
});

describe('the reviewer', () => {
  const plan: ReviewPlan = {
    directory: '/home/someone/project',
    model: 'scripted',
    files: [
      { path: 'src/z/late.ts', reader: 'z-late', bytes: 1 },
      { path: 'src/a.ts', reader: 'src-a', bytes: 1 },
      { path: 'src/gone.ts', reader: 'src-gone', bytes: 1 },
      { path: 'src/silent.ts', reader: 'src-silent', bytes: 1 },
    ],
    leftOut: 2,
  };
  const report = (path: string, text: string): string => formatReport(reportOf(path, analyseSource(path, text)));
  const deliveries = [
    called(
      '1',
      'from_z-late',
      report(
        'src/z/late.ts',
        "/** Comes late, @src-a. */\nimport { a } from '../a.ts';\nimport zod from 'zod';\n// FIXME: now\n",
      ),
    ),
    called(
      '2',
      'from_src-a',
      report('src/a.ts', "/** The first. */\nimport zod from 'zod';\nexport function a() {\n  return 1;\n}\n"),
    ),
    called('3', 'from_src-gone', 'file: src/gone.ts\nerror: File not found: src/gone.ts'),
  ];
  const messagesOf = (order: readonly number[]): readonly RequestMessage[] => [
    { role: 'user', content: planMessage(plan) },
    ...order.flatMap((index) => deliveries[index] ?? []),
  ];

  test('makes the index of the plan from the delivered reports, and says that it is scripted', () => {
    const index = String(answer(request(messagesOf([0, 1, 2]))));
    expect(index).toMatch(/^Review index of project\nWritten by a scripted model/);
    expect(index).toMatch(/^src\/ +lines/m);
    expect(index).toMatch(/^ {2}a\.ts +5 {2}The first\.$/m);
    expect(index).toMatch(/^ {2}gone\.ts +- {2}File not found: src\/gone\.ts$/m);
    expect(index).toMatch(/^ {2}silent\.ts +- {2}no report$/m);
    expect(index.indexOf('src/z/\n')).toBeGreaterThan(index.indexOf('silent.ts'));
    expect(index).toContain('Totals: 2 files read of 4, 9 lines');
    expect(index).toContain('2 more source files not read');
    expect(index).toContain('src/a.ts:3 a, 3 lines');
    expect(index).toContain('src/z/late.ts: FIXME at line 4');
    expect(index).toContain('zod (2)');
    expect(Math.max(...index.split('\n').map((line) => line.length))).toBeLessThanOrEqual(79);
  });

  test('the index does not depend on the order of deliveries, and contains no name of a child', () => {
    const index = answer(request(messagesOf([0, 1, 2])));
    expect(answer(request(messagesOf([2, 1, 0])))).toBe(index);
    expect(String(index)).not.toContain('@');
  });

  test('if a file has two reports, the one with figures counts', () => {
    const late = called('4', 'from_agent-5', report('src/gone.ts', 'export const back = 1;\n'));
    const before = String(answer(request([...messagesOf([0, 1]), ...late, ...(deliveries[2] ?? [])])));
    expect(before).toMatch(/^ {2}gone\.ts +1$/m);
    expect(String(answer(request([...messagesOf([0, 1, 2]), ...late])))).toBe(before);
  });

  test('any other agent receives an answer that names the model', () => {
    expect(answer(request([{ role: 'user', content: 'Hello' }]))).toContain('scripted model');
  });
});
