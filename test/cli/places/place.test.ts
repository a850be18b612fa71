/**
 * Goal: every command finds its sessions in the same way, and talks to the server of the process that has the directory
 * open, which the lock of the store names.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Runtime } from '../../../src/index.ts';
import { type RunningServer, serve } from '../../../src/server/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';
import { command, type Outcome } from '../support/surroundings.ts';

const kit = runtimeKit();

async function storeWith(id: string, directory: string): Promise<Runtime> {
  const runtime = await kit.open({ directory, provider: scripted({ rules: [], otherwise: 'ok' }) });
  await runtime.session(id).ask('hi');
  return runtime;
}

async function serving(runtime: Runtime, token?: string): Promise<RunningServer> {
  const server = await serve(runtime, { port: 0, ...(token === undefined ? {} : { token }) });
  onTestFinished(() => server.close());
  return server;
}

/** Changes the lock of a directory as if its process had written it so. */
async function editLock(directory: string, changes: Readonly<Record<string, unknown>>): Promise<void> {
  const file = (await readdir(directory)).find((name) => name.endsWith('.lock')) ?? '';
  const path = join(directory, file);
  await writeFile(path, JSON.stringify({ ...(JSON.parse(await readFile(path, 'utf8')) as object), ...changes }));
}

test('a directory that a process serves: the commands find its server, without --url', async () => {
  const directory = await kit.directory();
  const runtime = await storeWith('order', directory);
  const server = await serving(runtime);
  const at = (...line: readonly string[]): Promise<Outcome> => command([...line, '--data', directory], '/');

  expect(JSON.parse((await at('ls', '--json')).stdout)).toMatchObject({ id: 'order', state: 'idle' });
  expect(JSON.parse((await at('inspect', '--json')).stdout)).toMatchObject({ url: server.url, total: 1 });
  const one = JSON.parse((await at('inspect', 'order', '--json')).stdout) as object;
  expect(one).toMatchObject({ id: 'order', messages: 2, children: 0, pending: [], recent: [{ seq: 1 }, { seq: 2 }] });
  expect((await at('tail', 'order', '--limit', '1')).stdout).toContain('turn.finished');
  expect((await at('export', 'order')).stdout.trimEnd().split('\n')).toHaveLength(2);
  expect((await at('waiting')).stdout).toBe('No call waits for a person.\n');
  expect((await at('top', '--once')).stdout).toContain(server.url);
  const sent = await at('send', 'order', 'more', '--key', 'k', '--json');
  expect(JSON.parse(sent.stdout), sent.stderr).toMatchObject({ session: 'order', duplicate: false, answer: 'ok' });
  expect(await runtime.session('order').messages()).toHaveLength(4);
});

test('a server that needs a token: the command says so, and sends the one it is given', async () => {
  const directory = await kit.directory();
  await serving(await storeWith('order', directory), 'secret');
  const without = await command(['ls', '--data', directory], '/');
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--token TOKEN or TROUPE_TOKEN')]);
  const environment = { TROUPE_TOKEN: 'secret', TROUPE_DATA: directory };
  expect((await command(['ls'], '/', { environment })).stdout).toContain('order');
  const wrong = await command(['ls', '--token', 'other', '--json'], '/', { environment });
  expect([wrong.code, JSON.parse(wrong.stdout)]).toEqual([
    1,
    { error: { code: 'unauthorized', message: expect.stringContaining('401') } },
  ]);
});

test('a process that does not serve, or no longer: the command names it and what to do', async () => {
  const directory = await kit.directory();
  const runtime = await storeWith('order', directory);
  await (await serving(runtime)).close();
  await editLock(directory, { since: 5 });
  for (const line of [['ls'], ['inspect', 'order'], ['send', 'order', 'x'], ['pause', 'order'], ['search', 'x']]) {
    const { code, stderr } = await command([...line, '--data', directory], '/');
    expect([code, stderr], line[0]).toEqual([1, expect.stringContaining(`in use by process ${process.pid} on `)]);
    expect(stderr).toContain('End that process, or let it call serve()');
  }
});

test('a lock that names a server of another machine: nothing is sent there, least of all the token', async () => {
  const directory = await kit.directory();
  await storeWith('order', directory);
  const environment = { TROUPE_TOKEN: 'secret' };
  let asked = 0;
  const other = createServer((_request, response) => {
    asked += 1;
    response.end('{}');
  });
  await new Promise<void>((resolve) => {
    other.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => void other.close());
  const local = { url: `http://127.0.0.1:${(other.address() as AddressInfo).port}`, needsToken: true };
  await editLock(directory, { server: { url: 'http://example.org:4111', needsToken: true } });
  const far = await command(['ls', '--data', directory], '/', { environment });
  expect([far.code, far.stderr]).toEqual([1, expect.stringContaining('That is not on this machine')]);
  // The address is of this machine, but the process that wrote it runs on another host.
  await editLock(directory, { host: 'elsewhere', server: local });
  const elsewhere = await command(['ls', '--data', directory], '/', { environment });
  expect([elsewhere.code, elsewhere.stderr]).toEqual([1, expect.stringContaining('on elsewhere since')]);
  expect(asked).toBe(0);
});

test('the order: --url or --data, then TROUPE_URL, then TROUPE_DATA, then ./data', async () => {
  const [here, named, work] = [await kit.directory(), await kit.directory(), await kit.directory()];
  for (const [id, directory] of [
    ['by-option', here],
    ['by-variable', named],
    ['by-default', join(work, 'data')],
  ] as const) {
    await (await storeWith(id, directory)).close();
  }
  const server = await serving(await storeWith('by-server', ':memory:'));
  const ids = async (line: readonly string[], environment: Readonly<Record<string, string>>): Promise<string> => {
    const { stdout, stderr } = await command(['ls', '--json', ...line], work, { environment });
    return stdout === '' ? stderr : (JSON.parse(stdout) as { readonly id: string }).id;
  };
  expect(await ids([], {})).toBe('by-default');
  expect(await ids([], { TROUPE_DATA: named })).toBe('by-variable');
  expect(await ids([], { TROUPE_DATA: named, TROUPE_URL: server.url })).toBe('by-server');
  expect(await ids(['--data', here], { TROUPE_DATA: named, TROUPE_URL: server.url })).toBe('by-option');
  expect(await ids(['--url', server.url], { TROUPE_DATA: named, TROUPE_URL: 'http://127.0.0.1:1' })).toBe('by-server');
  const wrong = await command(['ls'], work, { environment: { TROUPE_URL: 'nonsense' } });
  expect([wrong.code, wrong.stderr]).toEqual([
    2,
    expect.stringContaining('TROUPE_URL must be an http or https address'),
  ]);
});

test('nothing there: exit code 1, and the ways to name another place', async () => {
  const empty = await kit.directory();
  for (const line of [
    ['ls'],
    ['top', '--once'],
    ['inspect', 's'],
    ['fork', 's'],
    ['delete', 's'],
    ['search', 'x'],
    ['approve', 's', 'c'],
  ]) {
    const { code, stdout, stderr } = await command([...line, '--json'], empty);
    expect([code, JSON.parse(stdout)], line[0]).toMatchObject([1, { error: { code: 'not_found' } }]);
    expect(stderr).toContain('--data DIR or TROUPE_DATA names another directory');
  }
});
