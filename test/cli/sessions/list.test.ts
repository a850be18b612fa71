/** Goal: `troupe ls` lists the sessions that its filters name, the last changed one first, in a table that fits. */
import { expect, onTestFinished, test } from 'vitest';
import { passes } from '../../../src/cli/places/session-filter.ts';
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
    await ids('--since', '1960-01-01T00:00:00Z', '--agent', 'reader'),
    await ids('--outcome', 'answered', '--agent', 'reader'),
    await ids('--status', 'idle,failed', '--agent', 'reader'),
    await ids('--outcome', 'failed'),
    await ids('--status', 'failed,blocked'),
  ];
  const expected = [
    ['a', 'b', 'c', 'c:1'],
    ['b', 'c'],
    ['a'],
    ['c:1'],
    ['a', 'b', 'c'],
    [],
    ['a'],
    [],
    ['a'],
    ['a'],
    ['a'],
    [],
    [],
  ];
  expect(await look()).toEqual(expected);
  expect(await ids('--limit', '2')).toHaveLength(2);
  await server.close();
  await runtime.close();
  expect(await look()).toEqual(expected);
  expect((await ids('--roots')).at(-1)).toBe('b');
  const shown = await command(['ls', '--data', directory, '--limit', '2'], '/');
  expect(shown.stdout).toMatch(/^session +(name +)?agent +state +last turn +msgs +mail +age\n/u);
  expect(shown.stdout).toContain('Only the last 2 sessions to change; --limit shows more.\n');
  expect((await command(['ls', '--agent', 'nobody', '--data', directory], '/')).stdout).toBe('No session.\n');
});

test('ls and inspect show how the last turn ended, its error and the count of messages', async () => {
  const directory = await kit.directory();
  const provider = scripted(['Hello.', { error: { status: 400, message: 'no such luck' } }]);
  const runtime = await kit.open({ directory, provider });
  expect(await runtime.session('s').ask('hi')).toBe('Hello.');
  await runtime
    .session('s')
    .ask('again')
    .catch(() => undefined);
  await runtime.drain();
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const look = async (): Promise<void> => {
    const shown = await command(['ls', '--data', directory], '/');
    expect(shown.stdout).toMatch(/^s +default +blocked +failed +3 .*no such luck/mu);
    const inspected = await command(['inspect', 's', '--data', directory], '/');
    expect(inspected.stdout).toMatch(/^last turn +failed: .*no such luck/mu);
    expect(inspected.stdout).toMatch(/^log +4 messages \(3 of users and the agent\), /mu);
  };
  await look();
  await server.close();
  await runtime.close();
  await look();
});

test('a filter by status or by the outcome of the last turn', () => {
  const row = { id: 'a', agent: 'x', state: 'idle', mailbox: 0, updatedAt: 5 } as const;
  const failed = { ...row, status: 'failed', lastOutcome: 'failed' } as never;
  const answered = { ...row, status: 'idle', lastOutcome: 'answered' } as never;
  expect([passes(failed, { status: ['failed', 'blocked'] }), passes(answered, { status: ['failed'] })]).toEqual([
    true,
    false,
  ]);
  expect([passes(failed, { outcome: 'failed' }), passes(answered, { outcome: 'failed' })]).toEqual([true, false]);
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
