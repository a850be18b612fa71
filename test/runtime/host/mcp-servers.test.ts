/**
 * Goal: an agent uses the tools of MCP servers as its others. Method: real server processes, and a scripted model. Spans
 * layers: the options, the catalogue of agents, the session thread and the MCP thread.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { agent, type McpServerMap, mcpTools, open, type Runtime, type Session } from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import { isAlive } from '../../support/processes.ts';
import { eventually, gatedModel, log, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';
import { httpServersKit } from '../../tools/mcp/http-server.ts';
import { effectsKit } from '../../tools/mcp/support.ts';

const kit = runtimeKit();
const effects = effectsKit();
const startHttp = httpServersKit();
const COUNTING = fileURLToPath(new URL('../../tools/mcp/fixtures/counting-server.mjs', import.meta.url));

const toolNames = (request: ModelRequest): readonly string[] => (request.tools ?? []).map(({ name }) => name);
/** The results of a session, by the names of the tools: results come in any order. */
async function resultsOf(session: Session): Promise<Readonly<Record<string, unknown>>> {
  const messages = await session.messages();
  return Object.fromEntries(
    messages.flatMap(({ type, toolName, content }) => (type === 'tool_response' ? [[toolName, content]] : [])),
  );
}

describe.each(MATRIX)('with threads %o', (threads) => {
  test('a granted tool is called; its result, its image and its failure reach the model', async () => {
    const recorded = await effects();
    const model = gatedModel();
    const runtime = await kit.open({
      provider: model.provider,
      threads,
      mcp: { s: recorded.process() },
      agents: [agent({ name: 'a', tools: [mcpTools('s', { only: ['pay', 'picture', 'refuse'] })] })],
    });
    const session = runtime.session('one');
    await session.send('go');
    const first = await model.next();
    expect(toolNames(first.request)).toEqual(['s__pay', 's__picture', 's__refuse']);
    const calls = ['pay', 'picture', 'refuse', 'read'];
    first.answer({ toolUse: calls.map((name) => ({ name: `s__${name}`, input: { id: '1' } })) });
    (await model.next()).answer('done');
    await eventually(async () => (await session.state()).state === 'idle');
    expect(await resultsOf(session)).toMatchObject({
      s__pay: 'pay 1 done',
      s__picture: [{ text: 'a pixel\nin blue' }, { type: 'image' }, { type: 'text' }],
      s__refuse: [{ text: 'not today' }],
      s__read: expect.stringMatching(/unknown tool/i),
    });
    // The server receives the key under which the session would repeat the call.
    expect(await recorded.lines()).toContainEqual(expect.stringMatching(/^pay 1 one#\d+@\w+$/));
    await runtime.close();
    expect((await recorded.pids()).map(isAlive)).toEqual([false]);
  });
});

test('F149: tools of two servers have their server in their names; a server that fails is skipped with one warning', async () => {
  const lines: string[] = [];
  const note = (_fields: object, message: string): void => void lines.push(message);
  const model = gatedModel();
  const [one, two] = [await effects(), await effects()];
  const runtime = await kit.open({
    provider: model.provider,
    mcp: { one: one.process(), broken: { command: 'no-such-program' }, two: two.process() },
    agents: [agent({ name: 'a', tools: ['one', 'broken', 'two'].map((name) => mcpTools(name, { only: ['read'] })) })],
    logger: { debug: () => undefined, info: () => undefined, warn: note, error: note },
  });
  await runtime.session('s').send('go');
  const { request, answer } = await model.next();
  expect(toolNames(request)).toEqual(['one__read', 'two__read']);
  answer({ toolUse: ['one', 'two'].map((name) => ({ name: `${name}__read`, input: { id: name } })) });
  (await model.next()).answer('done');
  expect((await one.lines()).filter((line) => line.startsWith('read'))).toEqual([expect.stringContaining('read one')]);
  expect((await two.lines()).filter((line) => line.startsWith('read'))).toEqual([expect.stringContaining('read two')]);
  expect(lines).toEqual([expect.stringMatching(/^MCP server "broken" is not connected: .*exit code 127/s)]);
});

test('progress is published; an interrupt cancels the call at the server', async () => {
  const recorded = await effects();
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    mcp: { s: recorded.process() },
    agents: [agent({ name: 'a', tools: [mcpTools('s')] })],
  });
  const session = runtime.session('one');
  const progressed: unknown[] = [];
  const reading = (async () => {
    for await (const event of session.events()) {
      if (event.type === 'tool.progress') {
        progressed.push(event.data);
        return;
      }
    }
  })();
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: 's__wait', input: { id: '1' } } });
  await reading;
  expect(progressed).toEqual([{ progress: 1, total: 2 }]);
  await session.interrupt();
  await eventually(async () => (await recorded.lines()).includes('cancelled 1'));
});

test('a call beyond its time fails, and its frozen server is started again', async () => {
  const recorded = await effects();
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    settings: { timeouts: { mcpResponse: 1 } },
    mcp: { s: recorded.process() },
    agents: [agent({ name: 'a', tools: [mcpTools('s')] })],
  });
  const session = runtime.session('one');
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: 's__freeze', input: { id: '1' } } });
  const { request, answer } = await model.next();
  expect(JSON.stringify(request.messages)).toContain('timed out after 1 seconds');
  answer('done');
  await eventually(async () => (await recorded.pids()).length === 2);
});

test('new tools come with the next epoch, and the present one keeps its tools', async () => {
  const recorded = await effects();
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    mcp: { s: recorded.process() },
    agents: [agent({ name: 'a', tools: [mcpTools('s', { only: ['learn', 'learned', 'read'] })] })],
  });
  const session = runtime.session('one');
  await session.history.add({ id: 'u1', role: 'user', content: 'first' });
  await session.history.add({ id: 'a1', role: 'assistant', content: 'yes' });
  await session.send('go');
  const first = await model.next();
  expect(toolNames(first.request)).toEqual(['s__read', 's__learn']);
  first.answer({ toolUse: { name: 's__learn', input: {} } });
  const second = await model.next();
  // A new session has the newest tools, so the runtime knows them now.
  const other = async (id: string): Promise<readonly string[]> => {
    await runtime.session(id).send('go');
    const { request, answer } = await model.next();
    answer('done');
    return toolNames(request);
  };
  let count = 0;
  await eventually(async () => {
    count += 1;
    return (await other(`other-${count}`)).includes('s__learned');
  });
  expect(second.request.tools).toEqual(first.request.tools);
  second.answer('learned');
  await session.send('again');
  const third = await model.next();
  expect(third.request.tools).toEqual(first.request.tools);
  third.answer('done');
  await eventually(async () => (await session.state()).state === 'idle');
  // An edit before the end opens an epoch.
  await session.history.remove({ id: 'u1' });
  await session.send('once more');
  const fourth = await model.next();
  expect(toolNames(fourth.request)).toEqual(['s__read', 's__learn', 's__learned']);
  fourth.answer('done');
});

test('a restart repeats a call as its effect allows, and `effects` decides before the hints of the server', async () => {
  const recorded = await effects();
  const directory = await kit.directory();
  const options = (model: ReturnType<typeof gatedModel>): Parameters<typeof kit.open>[0] => ({
    directory,
    provider: model.provider,
    mcp: { s: recorded.process() },
    agents: [agent({ name: 'a', tools: [mcpTools('s', { effects: { pay: 'pure', wait: 'once' } })] })],
  });
  const before = gatedModel();
  const runtime = await kit.open(options(before));
  await runtime.session('one').send('go');
  (await before.next()).answer({
    toolUse: ['freeze', 'wait', 'pay'].map((name) => ({ name: `s__${name}`, input: { id: '1' } })),
  });
  await eventually(async () => (await recorded.lines()).includes('freeze 1'));
  await runtime.close({ deadlineMs: 0 });
  const after = gatedModel();
  const again = await kit.open(options(after));
  // `freeze` is pure for the server: it runs again, and freezes the new process.
  await eventually(async () => (await recorded.lines()).filter((line) => line === 'freeze 1').length === 2);
  await again.session('one').interrupt();
  expect((await log(again.session('one'))).join('\n')).toContain('Outcome unknown');
  // Both processes are frozen: they neither see the end of their input nor obey TERM.
  await again.close();
  expect((await recorded.pids()).map(isAlive)).toEqual([false, false]);
});

test('the file of the servers is read again when it changes', async () => {
  const [one, two] = [await effects(), await effects()];
  const path = join(await kit.directory(), 'mcp.json');
  const write = (mcpServers: object): Promise<void> => writeFile(path, JSON.stringify({ mcpServers }));
  await write({
    one: { type: 'stdio', ...one.process(), autoApprove: [] },
    off: { command: 'x', disabled: true },
    unset: { command: ['$', '{MCP_NO_SUCH_VARIABLE}'].join('') },
  });
  const lines: string[] = [];
  const note = (_fields: object, message: string): void => void lines.push(message);
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    mcp: pathToFileURL(path),
    agents: [agent({ name: 'a', tools: [mcpTools('one', { only: ['read'] })] })],
    logger: { debug: () => undefined, info: () => undefined, warn: note, error: note },
  });
  expect(lines).toEqual([expect.stringContaining('"unset" is left out: the environment variable')]);
  await asked(runtime, model, 'first');
  // The same name is another process now.
  await write({ one: two.process() });
  await eventually(async () => (await two.pids()).length > 0);
  await eventually(async () => (await one.pids()).every((pid) => !isAlive(pid)));
  await asked(runtime, model, 'second');
  expect(
    [await one.lines(), await two.lines()].map((each) => each.filter((line) => line.startsWith('read')).length),
  ).toEqual([1, 1]);
  await write({ one: { command: 7 } });
  await eventually(() => lines.some((line) => line.includes('mcpServers.one.command')));
});

/** A new session calls `read` and ends. */
async function asked(runtime: Runtime, model: ReturnType<typeof gatedModel>, id: string): Promise<void> {
  const session = runtime.session(id);
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: 'one__read', input: { id } } });
  (await model.next()).answer('done');
  await eventually(async () => (await session.state()).state === 'idle');
  expect(await resultsOf(session)).toEqual({ one__read: `read ${id} done` });
}

test('a call of a tool of MCP waits for approval, also while its server is not there', async () => {
  const recorded = await effects();
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    mcp: { s: recorded.process(), gone: { command: 'no-such-program' } },
    agents: [agent({ name: 'a', tools: [mcpTools('s'), mcpTools('gone')], approve: ['s__pay', 'gone__pay'] })],
  });
  const session = runtime.session('one');
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: 's__pay', input: { id: '1' }, id: 'call_1' } });
  await eventually(async () => (await session.state()).phase === 'approval');
  expect((await recorded.lines()).some((line) => line.startsWith('pay'))).toBe(false);
  await session.approve('call_1', { allow: true });
  (await model.next()).answer('done');
  expect((await recorded.lines()).some((line) => line.startsWith('pay 1'))).toBe(true);
});

describe('options', () => {
  const opened = (mcp: unknown, server = 's'): Promise<Runtime> =>
    kit.open({ mcp: mcp as McpServerMap, agents: [agent({ name: 'a', tools: [mcpTools(server)] })] });

  test.each([
    [{ s: { command: 'x', argv: [] } }, '"mcp.s.argv"'],
    [{ s: { url: 'ftp://host' } }, '"mcp.s.url"'],
    [{ s: { url: 'http://host', authProvider: {} } }, '"mcp.s.authProvider"'],
    [{ 'a b': { command: 'x' } }, '"mcp.a b"'],
    [{ from_me: { command: 'x' } }, 'reserved'],
    [{ other: { command: 'true' } }, 'mcpTools("s") names no server of the option "mcp", which has: other'],
    [7, '"mcp"'],
    ['/no/such/mcp.json', 'the file /no/such/mcp.json cannot be used'],
    [undefined, 'which has: none'],
  ])('%o is refused', async (mcp, reason) => {
    await expect(opened(mcp)).rejects.toMatchObject({ code: 'config', message: expect.stringContaining(reason) });
  });

  test('mcpTools refuses unknown keys and effects', () => {
    expect(() => mcpTools('s', { all: true } as never)).toThrow('"mcpTools s.all"');
    expect(() => mcpTools('s', { effects: { pay: 'probe' as never } })).toThrow('effects.pay');
    expect(() => mcpTools('from_me')).toThrow('reserved');
  });
});

describe('the packages of MCP are optional', () => {
  const run = promisify(execFile);
  const loader = new URL('../../loader/register.mjs', import.meta.url).href;
  const entry = new URL('../../../src/index.ts', import.meta.url).href;
  /** Reports each resolved package of MCP, or hides them. */
  const hooks = (isHidden: boolean): string => {
    const body = isHidden
      ? `throw Object.assign(new Error('hidden'), { code: 'ERR_MODULE_NOT_FOUND' });`
      : `process._rawDebug('loaded ' + specifier);`;
    const source = `export async function resolve(specifier, context, next) {
      if (specifier.startsWith('@modelcontextprotocol/')) { ${body} }
      return next(specifier, context);
    }`;
    const module = `data:text/javascript,${encodeURIComponent(source)}`;
    return `data:text/javascript,${encodeURIComponent(`import { register } from 'node:module'; register(${JSON.stringify(module)});`)}`;
  };
  // A file, since threads would inherit the options of a program given as text.
  const program = async (isHidden: boolean, text: string): Promise<{ stdout: string; stderr: string }> => {
    const path = join(await kit.directory(), 'program.mjs');
    await writeFile(path, text);
    // The bundles of threads contain the packages.
    const env = { ...process.env, TROUPE_THREADS: '' };
    return await run(process.execPath, ['--import', loader, '--import', hooks(isHidden), path], { env });
  };

  test('importing troupe, and a runtime without servers, loads none of them', async () => {
    const text = `const { open, agent, mcpTools } = await import(${JSON.stringify(entry)});
      const runtime = await open(':memory:', { logger: false });
      await runtime.close();
      console.log(typeof mcpTools('s'));`;
    expect(await program(false, text)).toEqual({ stdout: 'object\n', stderr: '' });
  });

  test('a missing package is a ConfigError with the command that installs it', async () => {
    const text = `const { open } = await import(${JSON.stringify(entry)});
      await open(${JSON.stringify(join(await kit.directory(), 'store'))}, { logger: false, mcp: { s: { command: 'true' } } }).catch((error) => console.log(error.code, error.message));`;
    const { stdout } = await program(true, text);
    expect(stdout).toContain('config option "mcp" needs the package @modelcontextprotocol/client: npm install');
  });
});

describe('servers of others', () => {
  const require = createRequire(import.meta.url);
  const binary = (name: string): string => require.resolve(`@modelcontextprotocol/${name}/dist/index.js`);

  async function called(
    server: McpServerMap[string],
    calls: readonly { readonly name: string; readonly input: object }[],
  ) {
    const model = gatedModel();
    const runtime = await kit.open({
      provider: model.provider,
      mcp: { s: server },
      agents: [agent({ name: 'a', tools: [mcpTools('s')] })],
    });
    const session = runtime.session('one');
    await session.send('go');
    const first = await model.next();
    first.answer({ toolUse: calls.map(({ name, input }) => ({ name: `s__${name}`, input: { ...input } })) });
    (await model.next()).answer('done');
    return { names: toolNames(first.request), results: await resultsOf(session) };
  }

  test('server-everything', async () => {
    const server = { command: process.execPath, args: [binary('server-everything')] };
    const found = await called(server, [
      { name: 'echo', input: { message: 'hello' } },
      { name: 'get-tiny-image', input: {} },
      { name: 'get-structured-content', input: { location: 'Chicago' } },
    ]);
    expect(found.results['s__echo']).toBe('Echo: hello');
    expect(found.results['s__get-tiny-image']).toContainEqual(expect.objectContaining({ type: 'image' }));
    expect(String(found.results['s__get-structured-content'])).toContain('temperature');
  });

  test('server-filesystem', async () => {
    const directory = await kit.directory();
    const server = { command: process.execPath, args: [binary('server-filesystem'), directory] };
    const path = join(directory, 'a.txt');
    const found = await called(server, [
      { name: 'write_file', input: { path, content: 'written' } },
      { name: 'read_text_file', input: { path: fileURLToPath(new URL('../../../package.json', import.meta.url)) } },
    ]);
    expect(found.results['s__write_file']).toContain('Successfully wrote');
    expect(JSON.stringify(found.results['s__read_text_file'])).toContain('Access denied');
  });

  test('server-memory', async () => {
    const file = join(await kit.directory(), 'memory.jsonl');
    const server = { command: process.execPath, args: [binary('server-memory')], env: { MEMORY_FILE_PATH: file } };
    const entity = { name: 'Ada', entityType: 'person', observations: ['wrote programs'] };
    const found = await called(server, [{ name: 'create_entities', input: { entities: [entity] } }]);
    expect(found.results['s__create_entities']).toContain('Ada');
    const again = await called(server, [{ name: 'read_graph', input: {} }]);
    expect(again.results['s__read_graph']).toContain('wrote programs');
  });
});

test('a runtime that cannot be opened leaves no server', async () => {
  const recorded = await effects();
  const opening = open(await kit.directory(), {
    logger: false,
    mcp: { s: recorded.process() },
    agents: [agent({ name: 'a', tools: [mcpTools('s')], approve: ['no_such_tool'] })],
  });
  await expect(opening).rejects.toMatchObject({ code: 'config' });
  expect((await recorded.pids()).map(isAlive)).toEqual([false]);
});

test('C3: after a restart a session keeps the tools of a server that is not there, and its open call waits for it', async () => {
  const recorded = await effects();
  const directory = await kit.directory();
  const flag = join(directory, 'flag');
  await writeFile(flag, '');
  const { command, args = [], env = {} } = recorded.process();
  // The server does not start while the flag is missing.
  const guarded = { command: 'sh', args: ['-c', 'test -e "$FLAG" && exec "$@"', 'sh', command, ...args] };
  const options = (model: ReturnType<typeof gatedModel>): Parameters<typeof kit.open>[0] => ({
    directory: join(directory, 'store'),
    provider: model.provider,
    mcp: { s: { ...guarded, env: { ...env, FLAG: flag, SOME_TOKEN: 'hush-hush' } } },
    agents: [agent({ name: 'a', tools: [mcpTools('s', { only: ['wait', 'read'] })] })],
  });
  const before = gatedModel();
  const runtime = await kit.open(options(before));
  await runtime.session('one').send('go');
  const first = await before.next();
  first.answer({ toolUse: { name: 's__wait', input: { id: '1' } } });
  await eventually(async () => (await runtime.session('one').state()).state === 'executing');
  await runtime.close({ deadlineMs: 0 });
  await rm(flag);
  const after = gatedModel();
  const again = await kit.open(options(after));
  await again.session('one').interrupt();
  await again.session('one').send('again');
  const second = await after.next();
  expect(second.request.tools).toEqual(first.request.tools);
  second.answer({ toolUse: { name: 's__read', input: { id: '2' } } });
  await eventually(async () => (await again.session('one').state()).state === 'executing');
  await writeFile(flag, '');
  const third = await after.next();
  expect(JSON.stringify(third.request.messages)).toContain('read 2 done');
  const kept = await readFile(join(directory, 'store', 'mcp-tools.json'), 'utf8');
  expect(kept).not.toContain('hush-hush');
  third.answer('done');
});

test('C1: a server with an authentication provider is called from this thread', async () => {
  const recorded = await effects();
  const server = await startHttp((port) => [COUNTING, '--http', String(port)], { EFFECTS_FILE: recorded.file });
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    threads: { sessions: 1 },
    mcp: { s: { url: server.url, authProvider: { token: async () => 'given' } } },
    agents: [agent({ name: 'a', tools: [mcpTools('s', { only: ['header'] })] })],
  });
  const session = runtime.session('one');
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: 's__header', input: { name: 'authorization' } } });
  (await model.next()).answer('done');
  expect(await resultsOf(session)).toEqual({ s__header: 'Bearer given' });
});

test('T2: a server ends with a program that is killed', async () => {
  const recorded = await effects();
  const path = join(await kit.directory(), 'program.mjs');
  const loader = new URL('../../loader/register.mjs', import.meta.url).href;
  const text = `const { open } = await import(${JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)});
    await open(':memory:', { logger: false, mcp: { s: ${JSON.stringify(recorded.process())} } });
    process.stdout.write('opened');
    setInterval(() => undefined, 1_000);`;
  await writeFile(path, text);
  const program = spawn(process.execPath, ['--import', loader, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(program.stdout, 'data');
  const pids = await recorded.pids();
  expect(pids.map(isAlive)).toEqual([true]);
  // Without the watcher a stopped server would survive, since it cannot see the end of its input.
  process.kill(pids[0] ?? 0, 'SIGSTOP');
  program.kill('SIGKILL');
  await eventually(() => pids.every((pid) => !isAlive(pid)));
});
