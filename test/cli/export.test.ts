/** Goal: `export` writes what `session.messages()` returns, all of it or nothing. */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agent, type Message } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { runtimeKit } from '../support/runtime-kit.ts';
import { emptyDirectory } from './support/program.ts';
import { command } from './support/surroundings.ts';

const kit = runtimeKit();

/** A store with one session, and that session's messages. */
async function stored(turns: number): Promise<{ readonly data: string; readonly messages: readonly Message[] }> {
  const data = await emptyDirectory();
  const runtime = await kit.open({
    directory: data,
    provider: scripted({
      rules: [{ when: { text: 'fail' }, reply: { error: { status: 400 } } }],
      otherwise: 'said {{text}}',
    }),
    // Small enough that old messages leave the window.
    agents: [agent({ name: 'a', tokenBudget: 400 })],
  });
  const session = runtime.session('s');
  for (let turn = 0; turn < turns; turn += 1) await session.ask(`turn ${turn} ${'word '.repeat(30)}`);
  const bounced = await session.send('fail', { bounceBack: true });
  await bounced.answer().catch(() => undefined);
  await session.ask('the end \u001b[2J');
  const messages = await session.messages();
  await runtime.close();
  return { data, messages };
}

function parsed(text: string): readonly unknown[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}

test('each line is a message, oldest first, including evicted messages and excluding bounced ones', async () => {
  const { data, messages } = await stored(20);
  const { code, stdout, stderr } = await command(['export', 's', '--data', data], '/');
  expect(code, stderr).toBe(0);
  expect(parsed(stdout)).toEqual(messages);
  expect(messages.length).toBe(42);
  const inspected = JSON.parse(
    (await command(['inspect', 's', '--data', data, '--limit', '100', '--json'], '/')).stdout,
  ) as {
    readonly recent: readonly unknown[];
  };
  expect(inspected.recent.length).toBeLessThan(42);
  // Control sequences of a terminal are escaped, and parse to the same text.
  expect(stdout).not.toContain('\u001b');
});

test('a file appears complete or not at all; an existing file is kept unless --force is given', async () => {
  const { data, messages } = await stored(1);
  const directory = await emptyDirectory();
  const line = ['export', 's', '--data', data, '--out', 'log.jsonl'];
  const first = await command(line, directory);
  expect(first).toMatchObject({ code: 0, stdout: `${messages.length} messages of s written to log.jsonl\n` });
  expect(parsed(await readFile(join(directory, 'log.jsonl'), 'utf8'))).toEqual(messages);
  expect(await readdir(directory)).toEqual(['log.jsonl']);
  if (process.platform !== 'win32') expect((await stat(join(directory, 'log.jsonl'))).mode & 0o077).toBe(0);
  await writeFile(join(directory, 'log.jsonl'), 'mine');
  expect((await command(line, directory)).code).toBe(2);
  expect(await readFile(join(directory, 'log.jsonl'), 'utf8')).toBe('mine');
  const forced = await command([...line, '--force', '--json'], directory);
  expect(JSON.parse(forced.stdout)).toEqual({
    session: 's',
    messages: messages.length,
    file: join(directory, 'log.jsonl'),
  });
});

test('names an invalid session, file or directory', async () => {
  const { data } = await stored(1);
  for (const [line, exit] of [
    [['export', '--data', data], 2],
    [['export', 'nobody', '--data', data], 1],
    [['export', 's', '--data', '/nowhere'], 1],
    [['export', 's', '--data', data, '--force'], 2],
    [['export', 's', '--data', data, '--out', '/nowhere/file'], 2],
  ] as const) {
    const { code, stdout } = await command(line, '/');
    expect([code, stdout], line.join(' ')).toEqual([exit, '']);
  }
});
