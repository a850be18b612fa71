/**
 * Goal: `inspect`, `tail` and `send` over the store of a review show the content of the log without starting anything.
 */

import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agent, open } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { directoryWith, emptyDirectory, modules } from './support/program.ts';
import { countOf, readLogs } from './support/store-log.ts';
import { command, type Outcome } from './support/surroundings.ts';

interface InspectedUsage {
  readonly usage: { readonly input_tokens: number };
  readonly treeUsage?: { readonly input_tokens: number };
}

let data = '';
let id = '';

/** One review for all tests of this file; only the last one changes it. */
beforeAll(async () => {
  data = await realpath(await mkdtemp(join(tmpdir(), 'troupe-cli-')));
});
afterAll(() => rm(data, { recursive: true, force: true }));

async function reviewed(): Promise<string> {
  if (id !== '') return id;
  const sources = await directoryWith(modules(12));
  const { code, stdout, stderr } = await command(['run', '--dir', sources, '--data', data, '--json'], sources);
  expect(code, stderr).toBe(0);
  id = (JSON.parse(stdout) as { readonly session: string }).session;
  return id;
}

function withData(...line: readonly string[]): Promise<Outcome> {
  return command([...line, '--data', data], '/');
}

describe('inspect', () => {
  test('shows the tree: parents before children, children in spawn order, each with the reason why it waits', async () => {
    const session = await reviewed();
    const { code, stdout } = await withData('inspect');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toContain('13 sessions: 13 idle');
    expect(lines[3]).toMatch(new RegExp(`^${session} +idle +0 +\\d+ +[\\d,]+ {2}nothing waits$`));
    const children = lines.slice(4, 16).map((line) => /^├ :(\d+) /.exec(line)?.[1]);
    expect(children).toEqual(Array.from({ length: 12 }, (_, index) => String(index + 1)));
    for (const line of lines.slice(4, 16)) expect(line).toMatch(/completed$/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect((await withData('inspect', '--limit', '3')).stdout).toContain('and 10 more; --limit 13 shows all');
  });

  test('--json prints the same for programs', async () => {
    const session = await reviewed();
    const all = JSON.parse((await withData('inspect', '--json')).stdout) as { readonly sessions: readonly unknown[] };
    expect(all).toMatchObject({ data, total: 13 });
    expect(all.sessions[0]).toMatchObject({ id: session, mailbox: 0, why: { reason: 'nothing_waits' }, children: 12 });
    const one = JSON.parse((await withData('inspect', `${session}:1`, '--json')).stdout) as unknown;
    expect(one).toMatchObject({
      id: `${session}:1`,
      parent: session,
      messages: 5,
      why: { reason: 'completed' },
      pending: [],
    });
  });

  test('shows the facts and last messages of one session', async () => {
    const session = await reviewed();
    const { stdout } = await withData('inspect', `${session}:1`, '--limit', '4');
    expect(stdout).toContain(`child of ${session}`);
    expect(stdout).toContain('Last 4 messages of 5');
    expect(stdout).toMatch(/^ {4}2 {2}tool call +read_file \{"path":/m);
    expect(stdout).not.toContain('Review this file');
  });

  test('shows the tokens of a parent with its descendants; --json has them by kind', async () => {
    const session = await reviewed();
    const ids = [session, ...Array.from({ length: 12 }, (_, index) => `${session}:${index + 1}`)];
    let input = 0;
    for (const id of ids) {
      const one = JSON.parse((await withData('inspect', id, '--json')).stdout) as InspectedUsage;
      input += one.usage.input_tokens;
      expect(one.treeUsage?.input_tokens !== undefined).toBe(id === session);
    }
    const parent = JSON.parse((await withData('inspect', session, '--json')).stdout) as InspectedUsage;
    expect(parent.treeUsage?.input_tokens).toBe(input);
    expect((await withData('inspect', session)).stdout).toMatch(
      /^tree +[\d,]+ in, [\d,]+ out, with all its descendants$/m,
    );
  });

  test('names an unknown session', async () => {
    await reviewed();
    const { code, stderr } = await withData('inspect', 'nobody');
    expect([code, stderr]).toEqual([1, expect.stringContaining('session "nobody" is not in')]);
  });
});

describe('tail', () => {
  test('prints durable events with their numbers, without a gap; --after resumes', async () => {
    const session = await reviewed();
    const { stdout } = await withData('tail', `${session}:2`, '--after', '0', '--json');
    const events = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { readonly seq: number; readonly type: string });
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.map(({ type }) => type)).toContain('turn.finished');
    const rest = await withData('tail', `${session}:2`, '--after', '3', '--limit', '2', '--json');
    expect(
      rest.stdout
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { readonly seq: number }).seq),
    ).toEqual([4, 5]);
    const last = await withData('tail', `${session}:2`, '--limit', '1');
    expect(last.stdout).toMatch(new RegExp(`^ +${events.length} `));
    expect(Math.max(...last.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  });
});

describe('send', () => {
  test('a session of a scripted review answers without an API key, once for each message key', async () => {
    const session = await reviewed();
    const said = await withData('send', `${session}:3`, 'what', 'did', 'you', 'see?', '--key', 'k1', '--json');
    expect(said.code, said.stderr).toBe(0);
    const first = JSON.parse(said.stdout) as { readonly answer: string };
    expect(first).toMatchObject({ session: `${session}:3`, duplicate: false });
    expect(first.answer).toContain('I am a scripted model');
    const again = await withData('send', `${session}:3`, 'what did you see?', '--key', 'k1', '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ duplicate: true, answer: first.answer });
    expect((await withData('inspect', `${session}:3`)).stdout).toContain('what did you see?');
  });

  test('a new session needs an API key, and the error says so', async () => {
    const { code, stderr } = await command(['send', 'someone', 'hello', '--data', await emptyDirectory()], '/');
    expect(code).toBe(1);
    expect(stderr).toContain('set ANTHROPIC_API_KEY');
  });

  test('a session whose agent is defined only in another program is left unchanged', async () => {
    const directory = await emptyDirectory();
    const runtime = await open(directory, {
      threads: { sessions: 0, models: 0, tools: 1 },
      provider: scripted(['one']),
      agents: [agent({ name: 'writer' })],
    });
    await runtime.session('s').ask('hello');
    await runtime.close();
    const { code, stderr } = await command(['send', 's', 'more', '--data', directory], '/');
    expect(code).toBe(1);
    expect(stderr).toContain('agent "writer"');
  });
});

test('inspect and tail change nothing: an interrupted session stays interrupted', async () => {
  const directory = await emptyDirectory();
  const runtime = await open(directory, {
    threads: { sessions: 0, models: 0, tools: 1 },
    provider: scripted([{ text: 'late', delayMs: 3_600_000 }]),
  });
  await runtime.session('waiting').send('hello');
  await runtime.close({ deadlineMs: 0 });
  const before = await readLogs(directory);
  const tree = await command(['inspect', '--data', directory], '/');
  expect(tree.stdout).toMatch(/^waiting +awaiting +0 +1 +0 {2}waiting for/m);
  expect((await command(['inspect', 'waiting', '--data', directory], '/')).stdout).toContain(
    'interrupted in a model call; open continues it',
  );
  expect((await command(['tail', 'waiting', '--data', directory], '/')).stdout).toContain('awaiting');
  const after = await readLogs(directory);
  expect(after.map(({ records }) => records)).toEqual(before.map(({ records }) => records));
  expect(countOf(after, 'responded')).toEqual({ waiting: 0 });
});
