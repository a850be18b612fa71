/** Goal: dead letters over HTTP, with `troupe/client` and with `troupe dead-letters`, on a server and in a directory. */
import { expect, test } from 'vitest';
import { createClient } from '../../src/client/index.ts';
import { agent } from '../../src/index.ts';
import * as answers from '../../src/server/answers.ts';
import { countOf, readLogs } from '../cli/support/store-log.ts';
import { command, type Outcome } from '../cli/support/surroundings.ts';
import { leaveEntries, unfit } from '../support/dead-letters.ts';
import { eventually, failure } from '../support/runtime-kit.ts';
import { echo, type Served, serverKit } from './support.ts';

const kit = serverKit();
const agents = [agent({ name: 'a' })];

/** A closed store with the session `s`, in which three entries will be set aside; their numbers. */
async function store(): Promise<{ readonly directory: string; readonly ids: readonly number[] }> {
  const directory = await kit.directory();
  const runtime = await kit.open({ provider: echo, agents, directory });
  await runtime.session('s').ask('hello');
  await runtime.close();
  return { directory, ids: await leaveEntries(directory, 's', [unfit('one'), unfit('two'), unfit('three')]) };
}

async function served(): Promise<Served & { readonly directory: string; readonly ids: readonly number[] }> {
  const made = await store();
  const server = await kit.serve({ agents, directory: made.directory });
  await eventually(async () => (await server.runtime.deadLetters()).items.length === 3);
  return { ...server, ...made };
}

test('HTTP: list, read, send again, drop, with the documented answers', async () => {
  const { get, post, url, runtime, ids } = await served();
  const [one, two] = ids;
  const list = await get('/dead-letters?limit=2&session=s');
  expect(answers.deadLetterList.parse(list.body)).toMatchObject({ letters: [{ id: one }, { id: two }] });
  const { next } = list.body as { next: string };
  expect((await get(`/dead-letters?after=${next}`)).body).toMatchObject({ letters: [{ id: ids[2] }] });
  expect(await get('/dead-letters?after=x')).toMatchObject({ status: 400, body: { code: 'config' } });
  expect((await get('/sessions/s')).body).toMatchObject({ deadLetters: 3 });
  const letter = await get(`/sessions/s/dead-letters/${one}`);
  expect(answers.deadLetter.parse(letter.body)).toMatchObject({ content: 'one', source: { type: 'user' } });
  expect(await get('/sessions/s/dead-letters/99')).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(await get('/sessions/s/dead-letters/x')).toMatchObject({ status: 400, body: { code: 'bad_request' } });
  expect(await get('/sessions/none/dead-letters/1')).toMatchObject({ status: 404, body: { code: 'unknown_session' } });

  const path = `/sessions/s/dead-letters/${one}/resend`;
  expect(await post(path, {})).toMatchObject({ status: 400, body: { code: 'content' } });
  const sent = await post(path, { as: 'user' });
  expect(sent.status).toBe(202);
  expect(answers.receipt.parse(sent.body)).toMatchObject({ session: 's', duplicate: false });
  const receipt = new URL(sent.headers.get('location') ?? '', `${url}${path}`);
  expect((await get(`${receipt.pathname}?wait=answer`)).body).toMatchObject({ answer: 'to one' });
  expect((await post(path, { as: 'user' })).body).toEqual({ ...(sent.body as object), duplicate: true });
  expect(await post('/sessions/s/dead-letters/99/resend', {})).toMatchObject({
    status: 404,
    body: { code: 'letter_not_found' },
  });
  const drop = (id: number | undefined) => fetch(`${url}/sessions/s/dead-letters/${id}`, { method: 'DELETE' });
  expect(answers.letterDropped.parse(await (await drop(two)).json())).toEqual({ dropped: true });
  expect(await (await drop(two)).json()).toEqual({ dropped: false });
  expect((await runtime.deadLetters()).items.map(({ id }) => id)).toEqual([ids[2]]);
});

test('troupe/client does the same', async () => {
  const { url, ids } = await served();
  const client = createClient({ url });
  const session = client.session('s');
  expect((await client.deadLetters({ limit: 1 })).letters).toMatchObject([{ session: 's', id: ids[0] }]);
  expect((await session.deadLetters()).map(({ id }) => id)).toEqual(ids);
  expect(await session.deadLetter(ids[0] ?? 0)).toMatchObject({ content: 'one' });
  expect(await failure(session.resendDeadLetter(ids[0] ?? 0))).toMatchObject({ code: 'content' });
  const receipt = await session.resendDeadLetter(ids[0] ?? 0, { as: 'user' });
  expect(await receipt.answer()).toBe('to one');
  expect(await session.dropDeadLetter(ids[1] ?? 0)).toBe(true);
  expect(await session.dropDeadLetter(ids[1] ?? 0)).toBe(false);
  expect((await session.deadLetters()).map(({ id }) => id)).toEqual([ids[2]]);
});

test('troupe dead-letters, on a server', async () => {
  const { url, ids, runtime } = await served();
  const [one, two] = ids;
  const at = (...line: readonly string[]): Promise<Outcome> => command(['dead-letters', ...line, '--url', url], '/');
  const table = await at();
  expect([table.code, table.stderr]).toEqual([0, '']);
  const lines = table.stdout.trimEnd().split('\n');
  expect(lines[0]).toMatch(/^age +session +letter +type +reason$/u);
  expect(lines[1]).toMatch(new RegExp(`s +${one} +subagent  a subagent entry cannot come from user$`, 'u'));
  expect(lines).toHaveLength(4);
  const cut = await at('ls', 's', '--limit', '1');
  expect(cut.stdout).toContain('Only the first 1 letter; --limit shows more.');
  expect(JSON.parse((await at('show', 's', String(one), '--json')).stdout)).toMatchObject({ content: 'one' });
  const sent = await at('resend', 's', String(one), '--as', 'user');
  expect(sent.stdout, sent.stderr).toMatch(new RegExp(`^Sent again: ${one} of s, as s/\\d+\\.\\d+\n$`, 'u'));
  expect((await at('resend', 's', String(one))).stdout).toBe(sent.stdout.replace('Sent again', 'Sent before'));
  await eventually(async () => (await runtime.session('s').messages()).at(-1)?.content === 'to one');
  expect((await at('drop', 's', String(two))).stdout).toBe(`Dropped: ${two} of s\n`);
  expect((await at('drop', 's', String(two))).code).toBe(1);
});

test('troupe dead-letters, in a directory: only the log changes', async () => {
  const { directory, ids } = await store();
  // Entries become letters when a runtime with the agents has the store open.
  const runtime = await kit.open({ provider: echo, agents, directory });
  await eventually(async () => (await runtime.deadLetters()).items.length === 3);
  await runtime.close();
  const [one, two, three] = ids.map(String);
  const at = (...line: readonly string[]): Promise<Outcome> =>
    command(['dead-letters', ...line, '--data', directory], '/');
  const answersBefore = countOf(await readLogs(directory), 'responded');
  const listed = (await at('--json')).stdout.trimEnd().split('\n');
  expect(listed.map((line) => (JSON.parse(line) as { id: number }).id)).toEqual(ids);
  const shown = await at('show', 's', one ?? '');
  expect(shown.stdout, shown.stderr).toMatch(/^letter +\d+ of s\ntype +subagent from user\n(?:.+\n)+\none\n$/u);
  const refused = await at('resend', 's', one ?? '');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('still cannot be promoted')]);
  const sent = await at('resend', 's', one ?? '', '--as', 'user', '--json');
  expect(JSON.parse(sent.stdout), sent.stderr).toMatchObject({ session: 's', letter: ids[0], duplicate: false });
  expect((await at('drop', 's', two ?? '', '--json')).stdout).toContain('"dropped":true');
  expect(countOf(await readLogs(directory), 'responded')).toEqual(answersBefore);
  const later = await kit.open({ provider: echo, agents, directory });
  await later.drain();
  expect((await later.session('s').messages()).at(-1)?.content).toBe('to one');
  expect((await later.deadLetters()).items.map(({ id }) => String(id))).toEqual([three]);
  for (const line of [['show'], ['show', 's', 'x'], ['other'], ['ls', 's', '3'], ['drop', 's', '3', '--as', 'user']])
    expect((await at(...line)).code, line.join(' ')).toBe(2);
});
