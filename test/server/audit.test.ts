/**
 * Goal: the audit log over HTTP, with `troupe/client` and with `troupe audit`. Over HTTP the token names the author, and
 * in a directory the command does. Only an administrator reads it, and one of a tenant reads what is about its sessions.
 */
import { userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { createClient } from '../../src/client/index.ts';
import { agent } from '../../src/index.ts';
import * as answers from '../../src/server/answers.ts';
import { serve } from '../../src/server/index.ts';
import { command, type Outcome } from '../cli/support/surroundings.ts';
import { leaveEntries, unfit } from '../support/dead-letters.ts';
import { eventually, failure } from '../support/runtime-kit.ts';
import { echo, serverKit } from './support.ts';

const kit = serverKit();
const agents = [agent({ name: 'a' })];
const TOKENS = [
  { token: 'secret-root', name: 'root', role: 'admin' },
  { token: 'secret-acme', name: 'acme-admin', tenant: 'acme', role: 'admin' },
  { token: 'secret-writer', name: 'writer', role: ['writer', 'approver'] },
] as const;

test('the token names the author, and each act of a route has its entry', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ provider: echo, agents, directory });
  await first.session('s').ask('hello');
  await first.close();
  const [one = 0, two = 0] = await leaveEntries(directory, 's', [unfit('one'), unfit('two')]);
  const runtime = await kit.open({ provider: echo, agents, directory });
  await eventually(async () => (await runtime.deadLetters()).items.length === 2);
  const server = await serve(runtime, { port: 0, tokens: TOKENS });
  try {
    const root = createClient({ url: server.url, token: 'secret-root' });
    const writer = createClient({ url: server.url, token: 'secret-writer' });
    await root.session('s').resendDeadLetter(one, { as: 'user' });
    await root.session('s').dropDeadLetter(two);
    const edit = (token: string, id: string, body: object): Promise<Response> =>
      fetch(`${server.url}/sessions/${id}/history`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    expect(
      (await edit('secret-writer', 's', { operation: 'add', message: { role: 'user', content: 'x' } })).status,
    ).toBe(200);
    await runtime.session('acme~t').ask('hello');
    await createClient({ url: server.url, token: 'secret-acme' }).session('t').delete();
    expect((await root.audit()).entries.map(({ action, by, session }) => [action, by, session])).toEqual([
      ['dead_letter.resent', 'root', 's'],
      ['dead_letter.dropped', 'root', 's'],
      ['history.edited', 'writer', 's'],
      ['session.deleted', 'acme-admin', 'acme~t'],
    ]);
    // Pages, filters, and roles.
    const page = await root.audit({ limit: 3 });
    expect((await root.audit({ after: page.next ?? '', limit: 3 })).entries).toMatchObject([{ session: 'acme~t' }]);
    expect((await root.audit({ session: 's', action: 'history.edited' })).entries).toHaveLength(1);
    const acme = createClient({ url: server.url, token: 'secret-acme' });
    expect((await acme.audit()).entries).toMatchObject([{ session: 'acme~t', tenant: 'acme' }]);
    expect((await acme.audit({ session: 's' })).entries).toEqual([]);
    expect(await failure(writer.audit())).toMatchObject({ code: 'role_missing' });
    const raw = await fetch(`${server.url}/audit`, { headers: { authorization: 'Bearer secret-root' } });
    expect(answers.auditList.parse(await raw.json())).toBeDefined();
    const bad = await fetch(`${server.url}/audit?after=!`, { headers: { authorization: 'Bearer secret-root' } });
    expect([bad.status, await bad.json()]).toEqual([400, expect.objectContaining({ code: 'config' })]);

    const at = (...line: readonly string[]): Promise<Outcome> =>
      command(['audit', ...line, '--url', server.url, '--token', 'secret-root'], '/');
    const lines = (await at()).stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^time +act +session +by +details$/u);
    expect(lines).toHaveLength(5);
    expect((await at('--json', '--limit', '1')).stderr).toMatch(/^There are more entries: --after \S+\n$/u);
    const named = await command(['delete', 's', '--by', 'ada', '--url', server.url, '--token', 'secret-root'], '/');
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('the token names the author')]);
  } finally {
    await server.close();
  }
});

test('in a directory the author is the one that --by names, or the user of the system', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ provider: echo, agents, directory });
  for (const id of ['s', 't']) await first.session(id).ask('hello');
  await first.close();
  const at = (...line: readonly string[]): Promise<Outcome> => command([...line, '--data', directory], '/');
  expect((await at('delete', 's', '--by', 'ada')).code).toBe(0);
  expect((await at('delete', 't')).code).toBe(0);
  const listed = await at('audit', '--json');
  const entries = listed.stdout.trimEnd().split('\n');
  expect(
    entries.map((line) => JSON.parse(line) as unknown),
    listed.stderr,
  ).toMatchObject([
    { action: 'session.deleted', session: 's', by: 'ada' },
    { action: 'session.deleted', session: 't', by: userInfo().username },
  ]);
  const cut = await at('audit', '--limit', '1');
  const after = /--after (\S+) shows more/u.exec(cut.stdout)?.[1] ?? '';
  expect(JSON.parse((await at('audit', '--after', after, '--json')).stdout)).toMatchObject({ session: 't' });
  expect((await at('audit', 't', '--action', 'session.deleted')).stdout.trimEnd().split('\n')).toHaveLength(2);
  expect((await at('audit', 'none')).stdout).toBe('There are no such entries in the audit log.\n');
  for (const line of [
    ['--action', 'other'],
    ['--after', '!'],
  ])
    expect((await at('audit', ...line)).code, line.join(' ')).not.toBe(0);
  expect((await at('delete', 's', '--by', '')).code).toBe(2);
});
