/**
 * Goal: `import` reads the output of `export --history` into another store as the same history. A refused import
 * changes nothing.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { agent, type HistoryMessage, tool } from '../../src/index.ts';
import { serve } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { gatedModel, runtimeKit } from '../support/runtime-kit.ts';
import { emptyDirectory } from './support/program.ts';
import { command, type Outcome } from './support/surroundings.ts';

const kit = runtimeKit();
const HEAD = { format: 'troupe-history', version: 1, session: 's' };
const look = tool({
  name: 'look',
  description: 'Look.',
  input: z.object({ at: z.string() }),
  run: () => 'seen',
});

/**
 * A store with a session `s`, and its history. The session has a thought and two tool calls in one answer, and was
 * edited and reverted.
 */
async function stored(): Promise<{ readonly data: string; readonly history: readonly HistoryMessage[] }> {
  const data = await emptyDirectory();
  const runtime = await kit.open({
    directory: data,
    provider: scripted([
      {
        thinking: 'Both.',
        text: 'I look.',
        toolUse: [
          { name: 'look', input: { at: 'a' } },
          { name: 'look', input: { at: 'b' } },
        ],
      },
      'Two things.',
      'Never mind.',
      'Good.',
    ]),
    agents: [agent({ name: 'a', tools: [look] })],
  });
  const session = runtime.session('s');
  await session.ask('What is there? \ud83d\ude00 \u001b[2J');
  await session.history.addExtensionEvent({ kind: 'note' });
  await session.ask('Again');
  await session.history.undo();
  await session.history.replaceSystemPrompt('Be short.');
  await session.ask('And now?');
  const history = await session.history.toArray();
  await runtime.close();
  return { data, history };
}

async function historyOf(data: string, session: string, name = 'a'): Promise<readonly HistoryMessage[]> {
  const runtime = await kit.open({ directory: data, provider: scripted([]), agents: [agent({ name })] });
  const found = await runtime.session(session).history.toArray();
  await runtime.close();
  return found;
}

function parsed(text: string): readonly unknown[] {
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as unknown]));
}

function lines(...messages: readonly object[]): string {
  return [{ ...HEAD, messages: messages.length }, ...messages].map((line) => `${JSON.stringify(line)}\n`).join('');
}

test('a history exported to a file is the same after import into another store', async () => {
  const { data, history } = await stored();
  const directory = await emptyDirectory();
  const exported = await command(['export', 's', '--history', '--data', data, '--out', 'h.jsonl'], directory);
  expect(exported).toMatchObject({ code: 0, stdout: `${history.length} messages of s written to h.jsonl\n` });
  const text = await readFile(join(directory, 'h.jsonl'), 'utf8');
  expect(text).not.toContain('\u001b');
  const line = ['import', 's', '--agent', 'a', '--data', 'there', '--in', 'h.jsonl', '--json'];
  const { code, stdout, stderr } = await command(line, directory);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toEqual({ session: 's', agent: 'a', lines: history.length, messages: history.length });
  expect(await historyOf(join(directory, 'there'), 's')).toEqual(history);
  // An export of the other store is the same.
  const again = await command(['export', 's', '--history', '--data', 'there'], directory);
  expect(parsed(again.stdout)).toEqual(parsed(text));
  // The session continues with these messages.
  const provider = scripted(['On we go.']);
  const runtime = await kit.open({ directory: join(directory, 'there'), provider, agents: [agent({ name: 'a' })] });
  expect(await runtime.session('s').ask('Go on')).toBe('On we go.');
});

test('reads piped input, and leaves out incomplete rounds', async () => {
  const directory = await emptyDirectory();
  const stdin = `\ufeff${lines(
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'so', toolCalls: [{ callId: 'c1', name: 'look', arguments: '{}' }] },
    { role: 'user', content: 'hello?' },
    { role: 'tool', content: 'late', toolCallId: 'nobody', name: 'look' },
  ).replaceAll('\n', '\r\n')}`;
  const { code, stdout, stderr } = await command(['import', 'n', '--data', 'd'], directory, { stdin });
  expect(code, stderr).toBe(0);
  expect(stdout).toBe('2 messages of n read into d; 2 messages of incomplete rounds left out\n');
  const found = await historyOf(join(directory, 'd'), 'n', 'default');
  expect(found.map(({ content }) => content)).toEqual(['hi', 'hello?']);
});

test('invalid lines are named, and no store is made', async () => {
  const directory = await emptyDirectory();
  const { data } = await stored();
  const logged = (await command(['export', 's', '--data', data], '/')).stdout;
  const user = { role: 'user', content: 'hi' };
  for (const [stdin, words] of [
    ['', 'there are no lines'],
    ['{', 'line 1 is not JSON'],
    ['{"a":1}', 'line 1 is not the head of a history: expected {"format":"troupe-history", …}'],
    [logged, 'line 1 is a message of the log; expected the head with which history.export() begins'],
    [lines(user, { role: 'nobody', content: '' }), 'line 3.role must be'],
    [`${JSON.stringify({ ...HEAD, messages: 2 })}\n${JSON.stringify(user)}`, '1 of 2 messages are there'],
    [lines(user).replace('"version":1', '"version":2'), 'version 2'],
  ] as const) {
    const { code, stderr } = await command(['import', 'n', '--data', 'd'], directory, { stdin });
    expect(code, words).toBe(1);
    expect(stderr).toContain(words);
  }
  expect(await readdir(directory)).toEqual([]);
});

test('a session with messages keeps them unless --replace is given', async () => {
  const { data, history } = await stored();
  const stdin = lines({ role: 'user', content: 'anew', id: 'x', createdAt: 7 });
  const line = ['import', 's', '--data', data];
  const refused = await command(line, '/', { stdin });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('--replace replaces them');
  expect(await historyOf(data, 's')).toEqual(history);
  const other = await command([...line, '--agent', 'b', '--replace'], '/', { stdin });
  expect(other.code).toBe(2);
  const replaced = await command([...line, '--replace', '--json'], '/', { stdin });
  expect(JSON.parse(replaced.stdout)).toEqual({ session: 's', agent: 'a', lines: 1, messages: 1 });
  expect(await historyOf(data, 's')).toMatchObject([{ id: 'x', createdAt: 7, content: 'anew' }]);
});

test('a directory that a server has open is changed through the server', async () => {
  const { data, history } = await stored();
  const text = (await command(['export', 's', '--history', '--data', data], '/')).stdout;
  const directory = await emptyDirectory();
  const agents = [agent({ name: 'a', tools: [look] }), agent({ name: 'b' })];
  const runtime = await kit.open({ directory, provider: scripted(['On we go.']), agents });
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const into = (id: string, ...more: readonly string[]): Promise<Outcome> =>
    command(['import', id, '--data', directory, ...more], '/', { stdin: text });
  // A refused import makes no session.
  const undefinedAgent = await into('n', '--agent', 'writer');
  expect([undefinedAgent.code, undefinedAgent.stderr]).toEqual([1, expect.stringContaining('known agents: "a", "b"')]);
  expect((await into('n')).stderr).toContain('"a", "b"');
  expect(await runtime.sessions.list()).toEqual([]);
  const { code, stdout, stderr } = await into('s', '--agent', 'a', '--json');
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toEqual({ session: 's', agent: 'a', lines: history.length, messages: history.length });
  expect(await runtime.session('s').history.toArray()).toEqual(history);
  const kept = await into('s');
  expect([kept.code, kept.stderr]).toEqual([2, expect.stringContaining('--replace replaces them')]);
  expect((await into('s', '--agent', 'b', '--replace')).stderr).toContain('is of the agent "a"; leave --agent out');
  const replaced = await into('s', '--replace', '--url', server.url);
  expect(replaced.stderr).toContain('--url and --data exclude each other');
  expect((await into('s', '--replace')).stdout).toContain(`${history.length} messages of s read into ${server.url}`);
  expect(await runtime.session('s').ask('Go on')).toBe('On we go.');
});

test('a history larger than a request to a server is refused with the remedy, and makes no session', async () => {
  const directory = await emptyDirectory();
  const runtime = await kit.open({ directory, provider: scripted([]) });
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const piece = 'x'.repeat(1024 * 1024);
  const stdin = lines(...Array.from({ length: 9 }, () => ({ role: 'user', content: piece })));
  const { code, stderr } = await command(['import', 's', '--url', server.url], '/', { stdin });
  expect([code, stderr]).toEqual([1, expect.stringContaining('end the server and import into its directory')]);
  expect(await runtime.sessions.list()).toEqual([]);
});

test('a store whose sessions of the agent have work is left unchanged', async () => {
  const data = await emptyDirectory();
  const model = gatedModel();
  const runtime = await kit.open({ directory: data, provider: model.provider, agents: [agent({ name: 'a' })] });
  await runtime.session('busy').send('wait');
  await model.next();
  await runtime.close({ deadlineMs: 0 });
  const stdin = lines({ role: 'user', content: 'hi' });
  const refused = await command(['import', 'n', '--agent', 'a', '--data', data], '/', { stdin });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('session "busy" of the agent "a" has work');
  // Sessions of other agents stay idle, because this process cannot continue them.
  const taken = await command(['import', 'n', '--data', data], '/', { stdin });
  expect(taken.code, taken.stderr).toBe(0);
  const reopened = await kit.open({ directory: data, provider: scripted(['done']), agents: [agent({ name: 'a' })] });
  await reopened.drain();
  expect((await reopened.session('busy').messages()).at(-1)?.content).toBe('done');
});

test('names invalid arguments, files and terminals', async () => {
  const directory = await emptyDirectory();
  await writeFile(join(directory, 'h.jsonl'), lines({ role: 'user', content: 'hi' }));
  for (const line of [
    ['import'],
    ['import', 's'],
    ['import', '-s', '--in', 'h.jsonl'],
    ['import', 'bad id', '--in', 'h.jsonl'],
    ['import', 's', '--in', 'nothing.jsonl'],
    ['import', 's', '--in', 'h.jsonl', '--agent', 'bad name!'],
    ['import', 's', '--in', 'h.jsonl', '--data', '/proc/nowhere'],
  ]) {
    const { code, stdout } = await command(line, directory);
    expect([code, stdout], line.join(' ')).toEqual([2, '']);
  }
});
