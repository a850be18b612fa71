import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, ConfigError, type OpenOptions, open, StoreLockedError, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { startChild } from '../../support/children.ts';
import { failure, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const provider = scripted(['Hello.']);

const badOptions: readonly (readonly [string, unknown, string])[] = [
  ['an unknown key', { sessionz: 1 }, 'sessionz'],
  ['an unknown key of threads', { threads: { session: 1 } }, 'threads.session'],
  ['a count that is none', { threads: { sessions: -1 } }, 'threads.sessions'],
  ['no tool threads', { threads: { tools: 0 } }, 'threads.tools'],
  ['an unknown durability', { durability: 'maybe' }, 'durability'],
  ['an unknown limit', { limits: { mailboxes: 1 } }, 'limits.mailboxes'],
  ['a limit of zero', { limits: { mailbox: 0 } }, 'limits.mailbox'],
  ['an unknown setting', { settings: { llm: { modell: 'x' } } }, 'settings.llm.modell'],
  ['a setting of another type', { settings: { llm: { tokenBudget: 'many' } } }, 'settings.llm.tokenBudget'],
  ['a provider that is none', { provider: { name: 'x' } }, 'provider'],
  ['an agent that was not made by agent()', { agents: [{ name: 'x' }] }, 'agents.0'],
  ['no agents', { agents: [] }, 'agents'],
  ['a logger that is none', { logger: {} }, 'logger'],
  ['a clock that is none', { clock: {} }, 'clock'],
];

test.each(badOptions)('open rejects %s with ConfigError naming the key', async (_what, options, key) => {
  const error = await failure(open(':memory:', options as OpenOptions));
  expect(error).toBeInstanceOf(ConfigError);
  expect(error.message).toContain(key);
});

test('an invalid value is named with its type', async () => {
  const error = await failure(open(':memory:', { durability: 7 } as unknown as OpenOptions));
  expect(error.message).toMatch(/"durability".*number 7/u);
});

test.each([[''], [7]])('open rejects %j as a directory', async (directory) => {
  await expect(open(directory as string)).rejects.toBeInstanceOf(ConfigError);
});

const note = (name: string) => tool({ name, description: 'Notes.', input: z.object({}), run: () => 'noted' });

test.each([
  ['a bad tool name', [{ ...note('x'), name: 'no spaces' }], 'no spaces'],
  ['a reserved tool name', [note('from_me')], 'from_me'],
  ['two tools of one name', [note('twin'), note('twin')], 'twin'],
  ['a tool of a name the runtime needs for children', [note('mark_goal_completed')], 'mark_goal_completed'],
  ['a schema that is none', [{ ...note('odd'), input: { type: 'string' } }], 'odd'],
  ['a module that throws', [new URL('../../tools/fixtures/throwing-module.ts', import.meta.url)], 'throwing-module'],
  ['a module without tools', [new URL('../../tools/fixtures/no-tools.ts', import.meta.url)], 'no-tools'],
])('open rejects %s, naming it', async (_what, tools, name) => {
  const error = await failure(open(':memory:', { provider, agents: [agent({ name: 'a', tools })] }));
  expect(error).toBeInstanceOf(ConfigError);
  expect(error.message).toContain(name);
});

test('an invalid tool module rejects with ConfigError also if a session thread loads it', async () => {
  const url = new URL('../../tools/fixtures/bad-tool.ts', import.meta.url);
  const agents = [agent({ name: 'a', tools: [url] })];
  const error = await failure(open(':memory:', { provider, agents, threads: { sessions: 1 } }));
  expect(error).toBeInstanceOf(ConfigError);
  expect(error.code).toBe('config');
});

test('two agents with one name are refused', async () => {
  const agents = [agent({ name: 'twin' }), agent({ name: 'twin' })];
  await expect(open(':memory:', { provider, agents })).rejects.toThrow(/twin/u);
});

test.each([
  ['an unknown key', { name: 'a', tols: [] }, 'tols'],
  ['a name that is none', { name: 'a b' }, 'name'],
  ['a bad number', { name: 'a', toolRounds: 0 }, 'toolRounds'],
  ['a bad system', { name: 'a', system: 7 }, 'system'],
])('agent() throws ConfigError for %s', (_what, options, key) => {
  expect(() => agent(options as never)).toThrow(ConfigError);
  expect(() => agent(options as never)).toThrow(key);
});

test('without agents there is one agent, named default', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  await session.ask('Hi');
  expect((await runtime.sessions.get('s'))?.agent).toBe('default');
});

test('without a provider the default is anthropic(), which needs no key to open', async () => {
  await expect(kit.open({ provider: anthropic({ apiKey: 'test' }) })).resolves.toBeDefined();
});

test('F09: a second open in the same process rejects with StoreLockedError naming the pid', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, provider });
  const error = await failure(open(directory, { provider }));
  expect(error).toBeInstanceOf(StoreLockedError);
  expect(error.message).toContain(String(process.pid));
  await first.close();
  await expect(kit.open({ directory, provider })).resolves.toBeDefined();
});

test('F09, F10: a directory that another process holds rejects with StoreLockedError and its pid, and opens once that is killed', async () => {
  const directory = await kit.directory();
  const holder = startChild(new URL('../fixtures/holding-process.ts', import.meta.url), [directory]);
  await holder.until((output) => output !== '', 'a word that it holds the directory');
  const error = await failure(open(directory, { provider }));
  expect(error).toBeInstanceOf(StoreLockedError);
  expect(error.message).toContain(String(holder.process.pid));
  await holder.kill();
  await expect(kit.open({ directory, provider })).resolves.toBeDefined();
});

test('a failed open releases the directory', async () => {
  const directory = await kit.directory();
  const agents = [agent({ name: 'a', tools: [note('from_me')] })];
  await expect(open(directory, { provider, agents })).rejects.toBeInstanceOf(ConfigError);
  expect((await readdir(directory)).filter((name) => name.startsWith('owner-'))).toEqual([]);
  await expect(kit.open({ directory, provider })).resolves.toBeDefined();
});

test('each :memory: store is new', async () => {
  const [one, other] = [await kit.open({ provider }), await kit.open({ provider })];
  await one.session('s').ask('Hi');
  expect(await other.sessions.get('s')).toBeUndefined();
});

test('a store keeps its number of shards without the option, and inline; another option changes it', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, provider, threads: { sessions: 2 } });
  expect(first.info()).toMatchObject({ shards: 2, threads: { sessions: 2 } });
  const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
  await Promise.all(ids.map((id) => first.session(id).ask('Hi')));
  await first.close();
  const second = await open(directory, { provider, logger: false });
  expect(second.info()).toMatchObject({ shards: 2, threads: { sessions: 2 } });
  expect((await second.sessions.list({ order: 'id' })).map(({ id }) => id)).toEqual(ids);
  await second.close();
  const here = await kit.open({ directory, provider, threads: { sessions: 0 } });
  expect(here.info()).toMatchObject({ shards: 2, threads: { sessions: 0 } });
  expect((await here.sessions.list({ order: 'id' })).length).toBe(ids.length);
  await here.close();
  const third = await kit.open({ directory, provider, threads: { sessions: 1 } });
  expect(third.info()).toMatchObject({ shards: 1, threads: { sessions: 1 } });
  expect((await third.sessions.list({ order: 'id' })).map(({ id }) => id)).toEqual(ids);
});

test('a store of a newer format is refused and not written to', async () => {
  const directory = await kit.directory();
  const path = join(directory, 'manifest.json');
  await writeFile(path, '{"format":99,"shards":1}');
  expect((await failure(open(directory, { provider }))).code).toBe('store_version');
  expect(await readFile(path, 'utf8')).toBe('{"format":99,"shards":1}');
});
