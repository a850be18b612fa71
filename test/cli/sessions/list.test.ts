/** Goal: `troupe ls` lists the sessions that its filters name, the last changed one first, in a table that fits. */
import { expect, onTestFinished, test } from 'vitest';
import { servedReader } from '../../../src/cli/places/served-reader.ts';
import type { Server } from '../../../src/cli/places/server.ts';
import { paintFor } from '../../../src/cli/surroundings.ts';
import { type Column, tableLines } from '../../../src/cli/table.ts';
import { agent } from '../../../src/index.ts';
import { serve } from '../../../src/server/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { gatedModel, runtimeKit } from '../../support/runtime-kit.ts';
import { command, keptOutput } from '../support/surroundings.ts';

const kit = runtimeKit();

test('in a directory and on a server: order, filters, limit', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const agents = [agent({ name: 'writer' }), agent({ name: 'reader' })];
  const runtime = await kit.open({ directory, provider: model.provider, agents });
  for (const [id, name] of [
    ['b', 'writer'],
    ['a', 'reader'],
    ['c', 'writer'],
  ] as const) {
    await runtime.session(id, name).send('hi');
    (await model.next()).answer('ok');
    await runtime.drain();
  }
  await runtime.session('c').spawn({ task: 'look', name: 'scout' });
  (await model.next()).answer('seen');
  (await model.next()).answer('ok');
  await runtime.drain();
  const ids = async (...line: readonly string[]): Promise<readonly string[]> => {
    const { code, stdout, stderr } = await command(['ls', '--json', '--data', directory, ...line], '/');
    expect(code, stderr).toBe(0);
    return stdout
      .split('\n')
      .flatMap((text) => (text === '' ? [] : [(JSON.parse(text) as { readonly id: string }).id]));
  };
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const look = async (): Promise<readonly (readonly string[])[]> => [
    (await ids()).toSorted(),
    (await ids('--agent', 'writer', '--roots')).toSorted(),
    await ids('--agent', 'reader'),
    await ids('--parent', 'c'),
    (await ids('--roots')).toSorted(),
    await ids('--state', 'executing'),
    await ids('--since', '2000-01-01T00:00:00Z', '--agent', 'reader'),
    await ids('--since', '2999-01-01T00:00:00Z'),
  ];
  const expected = [['a', 'b', 'c', 'c:1'], ['b', 'c'], ['a'], ['c:1'], ['a', 'b', 'c'], [], ['a'], []];
  expect(await look()).toEqual(expected);
  expect(await ids('--limit', '2')).toHaveLength(2);
  await server.close();
  await runtime.close();
  expect(await look()).toEqual(expected);
  expect((await ids('--roots')).at(-1)).toBe('b');
  const shown = await command(['ls', '--data', directory, '--limit', '2'], '/');
  expect(shown.stdout).toMatch(/^session +(name +)?agent +status +(last turn +)?mail +msgs +age\n/u);
  expect(shown.stdout).toContain('Only the last 2 sessions to change; --limit shows more.\n');
  expect((await command(['ls', '--agent', 'nobody', '--data', directory], '/')).stdout).toBe('No session.\n');
});

test('status, last outcome, error and messages: the filters and the columns', async () => {
  const directory = await kit.directory();
  const failure = { status: 529, type: 'overloaded_error', message: 'too many requests' };
  const provider = scripted((_request, { session }) => (session === 'broken' ? { error: failure } : 'ok'));
  const runtime = await kit.open({ directory, provider, settings: { llm: { retry: { attempts: 1 } } } });
  await runtime.session('fine').ask('hi');
  await expect(runtime.session('broken').ask('hi')).rejects.toThrow();
  await runtime.drain();
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const shown = async (...line: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await command([...line, '--data', directory], '/', {
      stdout: keptOutput(false, 160),
    });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const look = async (): Promise<void> => {
    for (const filter of [
      ['--status', 'failed,blocked'],
      ['--outcome', 'failed'],
    ]) {
      const lines = (await shown('ls', ...filter)).split('\n');
      expect(lines[0]).toMatch(/^session +agent +status +last turn +mail +msgs +age +error$/u);
      expect(lines[1]).toMatch(/^broken +\S+ +failed +failed +0 +1 +\d+s +model_overloaded: .*too many requests/u);
      expect(lines.slice(2)).toEqual(['']);
    }
    expect(await shown('ls', '--outcome', 'answered')).toMatch(/^fine +\S+ +idle +answered +0 +2 +\d+s$/mu);
    expect(await shown('inspect')).toMatch(/^broken +idle +0 +1 +0 {2}failed: model_overloaded: /mu);
    expect(await shown('inspect', 'broken')).toMatch(/^last turn +failed: model_overloaded: .*too many requests$/mu);
    expect(await shown('inspect', 'fine')).toMatch(/^log +2 messages \(2 of users and the agent\)/mu);
  };
  await look();
  await server.close();
  await runtime.close();
  await look();
});

test('a server is sent the filters, and reads all pages by id', async () => {
  const asked: string[] = [];
  const ask: Server['ask'] = async (path, schema) => {
    asked.push(path);
    return schema.parse({ sessions: [], ...(asked.length === 1 ? { next: 'place' } : {}) });
  };
  const reader = servedReader({ origin: 'http://served', ask, respond: () => Promise.reject(new Error('not asked')) });
  const filter = { status: ['failed', 'blocked'], state: 'idle', outcome: 'failed', agent: 'a b' } as const;
  await reader.list({ ...filter, parent: null, changedAfter: 5, changedBefore: 9 }, 3);
  await reader.list({ parent: 'x' }, Number.POSITIVE_INFINITY);
  const query =
    'order=newest&state=idle&status=failed%2Cblocked&outcome=failed&agent=a+b&parent=&changedAfter=5&changedBefore=9&limit=4';
  expect(asked).toEqual([
    `sessions?${query}`,
    `sessions?${query}&after=place`,
    'sessions?order=id&parent=x&limit=1000',
  ]);
});

interface Row {
  readonly id: string;
  readonly text: string;
  readonly count: string;
}

test('a table fits: the widest column gives first, a count never, an empty column is left out', () => {
  const columns: readonly Column<Row>[] = [
    { title: 'id', text: ({ id }) => id, min: 8, keepsEnd: true },
    { title: 'none', text: () => '' },
    { title: 'text', text: ({ text }) => text, min: 8 },
    { title: 'count', text: ({ count }) => count, isRight: true },
  ];
  const rows: readonly Row[] = [
    { id: `${'long-'.repeat(8)}end`, text: 'é漢字'.repeat(9), count: '1,234,567' },
    { id: 'short', text: 'x', count: '1' },
  ];
  const at = (width: number): readonly string[] =>
    tableLines(columns, rows, { columns: width, paint: paintFor(keptOutput(), {}) });
  expect(at(200)[1]).toBe(`${'long-'.repeat(8)}end  ${'é漢字'.repeat(9)}  1,234,567`);
  expect(at(50)).toEqual([
    'id                  text                    count',
    '…ong-long-long-end  é漢字é漢字é漢字é…   1,234,567',
    'short               x                           1',
  ]);
  // Below the least widths the end of a line is cut.
  expect(at(20)[1]).toBe('…ong-end  é漢字é… …');
});
