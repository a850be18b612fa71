/**
 * Goal: a question that an MCP server asks in a call waits durably, and the call continues with the answer. Method: real
 * server processes, which are killed, and a runtime that is killed. Spans layers: the MCP thread, the host and the
 * session.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { agent, ContentError, mcpTools, type Runtime, type Session, tool } from '../../../src/index.ts';
import { isAlive } from '../../support/processes.ts';
import { eventually, failure, gatedModel, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { httpServersKit } from '../../tools/mcp/http-server.ts';
import { type Effects, effectsKit } from '../../tools/mcp/support.ts';

const kit = runtimeKit();
const effects = effectsKit();
const startHttp = httpServersKit();

type Model = ReturnType<typeof gatedModel>;

interface Stage {
  readonly runtime: Runtime;
  readonly session: Session;
  readonly model: Model;
}

async function opened(recorded: Effects, options: TestOptions = {}): Promise<Stage> {
  const model = gatedModel();
  const runtime = await kit.open({
    provider: model.provider,
    mcp: { s: recorded.asking() },
    agents: [agent({ name: 'a', tools: [mcpTools('s')] })],
    ...options,
  });
  return { runtime, session: runtime.session('one'), model };
}

/** The model calls the tool, and its server asks. */
async function asks({ session, model }: Stage, tool = 'pay', id = 'x'): Promise<void> {
  await session.send('go');
  (await model.next()).answer({ toolUse: { name: `s__${tool}`, id: 'call_1', input: { id } } });
  for await (const event of session.events()) if (event.type === 'question.asked') return;
}

/** The result that the model receives next; then its turn ends. */
async function resultOf({ session, model }: Stage): Promise<unknown> {
  (await model.next()).answer('done');
  await eventually(async () => (await session.state()).state === 'idle');
  return (await session.messages()).find(({ type }) => type === 'tool_response')?.content;
}

const runs = async (recorded: Effects): Promise<readonly string[]> =>
  (await recorded.lines()).filter((line) => !line.startsWith('started'));

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('answered, the call continues with its key; an answer that does not fit changes nothing', async () => {
    const recorded = await effects();
    const stage = await opened(recorded, { threads });
    const { session } = stage;
    await asks(stage);
    expect(await session.state()).toMatchObject({ state: 'executing', phase: 'question' });
    expect(await session.explain()).toMatchObject({ detail: 'answer() answers: s__pay (call_1)' });
    expect(await failure(session.answer('call_1', { euros: 0 }))).toBeInstanceOf(ContentError);
    expect(await runs(recorded)).toHaveLength(1);
    expect(await session.answer('call_1', { euros: 7 })).toBe(true);
    expect(await resultOf(stage)).toBe('paid 7, state of x');
    expect(await session.answer('call_1', { euros: 7 })).toBe(true);
    expect(await session.answer('call_1', { euros: 8 })).toBe(false);
    const [began, continued, ...more] = await runs(recorded);
    expect(began).toMatch(/^pay x one#\d+@\w+ begins no state$/);
    const key = began?.split(' ')[2];
    expect(continued).toBe(`pay x ${key} {"action":"accept","content":{"euros":7}} state of x`);
    expect(more).toEqual([]);
  });
});

test('declined, the call continues with that', async () => {
  const stage = await opened(await effects());
  await asks(stage);
  expect(await stage.session.decline('call_1', 'too much')).toBe(true);
  expect(await resultOf(stage)).toBe('decline');
});

test('the event has the question, the schema and the name of the server, and not the state', async () => {
  const stage = await opened(await effects());
  await asks(stage);
  for await (const event of stage.session.events()) {
    if (event.type !== 'question.asked') continue;
    expect(event).toMatchObject({ toolUseId: 'call_1', toolName: 's__pay', asked: 'human', server: 's' });
    expect(event.schema).toMatchObject({ required: ['euros'] });
    expect(JSON.stringify(event)).not.toContain('state of x');
    return;
  }
});

test('a tool may ask several times; each question has an id', async () => {
  const recorded = await effects();
  const stage = await opened(recorded);
  const { session } = stage;
  await asks(stage, 'sum', '2');
  await session.answer('call_1', { euros: 3 });
  await eventually(async () => (await session.explain()).detail === 'answer() answers: s__sum (call_1#2)');
  expect((await stage.runtime.waiting()).items).toMatchObject([{ callId: 'call_1#2', kind: 'elicitation' }]);
  expect(await session.answer('call_1', { euros: 4 })).toBe(false);
  expect(await session.answer('call_1#2', { euros: 4 })).toBe(true);
  expect(await resultOf(stage)).toBe('in all 7');
  expect(await runs(recorded)).toHaveLength(3);
});

test('over HTTP: a server that is killed while its question waits, the next process continues the call', async () => {
  const recorded = await effects();
  const { args = [], env = {} } = recorded.asking();
  const server = await startHttp((port) => [...args, '--http', String(port)], env);
  const stage = await opened(recorded, { mcp: { s: { url: server.url } } });
  await asks(stage);
  await server.kill();
  await server.start();
  expect(await stage.session.answer('call_1', { euros: 7 })).toBe(true);
  expect(await resultOf(stage)).toBe('paid 7, state of x');
  expect(await runs(recorded)).toHaveLength(2);
});

test('a server that is killed while its question waits: the next process continues a `once` call', async () => {
  const recorded = await effects();
  const stage = await opened(recorded);
  await asks(stage);
  const [pid = 0] = await recorded.pids();
  process.kill(pid, 'SIGKILL');
  await eventually(async () => (await recorded.pids()).length === 2);
  expect(await stage.session.answer('call_1', { euros: 7 })).toBe(true);
  expect(await resultOf(stage)).toBe('paid 7, state of x');
  expect(await runs(recorded)).toHaveLength(2);
});

test('a server that dies in the continued run of a `once` call: its outcome is unknown', async () => {
  const recorded = await effects();
  const stage = await opened(recorded);
  await asks(stage, 'pay_and_die');
  await stage.session.answer('call_1', { euros: 7 });
  expect(JSON.stringify(await resultOf(stage))).toContain('Outcome unknown');
  expect(await runs(recorded)).toHaveLength(2);
});

test('a program that is killed while the question waits: the next one continues the call', async () => {
  const recorded = await effects();
  const directory = await kit.directory();
  const loader = new URL('../../loader/register.mjs', import.meta.url).href;
  const script = fileURLToPath(new URL('./fixtures/asking-process.ts', import.meta.url));
  const line = ['--import', loader, script, directory, JSON.stringify(recorded.asking())];
  const victim = spawn(process.execPath, line, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(victim.stdout, 'data');
  const ended = once(victim, 'exit');
  victim.kill('SIGKILL');
  await ended;
  await eventually(async () => (await recorded.pids()).every((pid) => !isAlive(pid)));
  const stage = await opened(recorded, { directory });
  const { session } = stage;
  expect(await session.state()).toMatchObject({ state: 'executing', phase: 'question' });
  expect(await failure(session.answer('call_1', { euros: 'seven' }))).toBeInstanceOf(ContentError);
  expect(await session.answer('call_1', { euros: 7 })).toBe(true);
  expect(await resultOf(stage)).toBe('paid 7, state of x');
  expect(await runs(recorded)).toHaveLength(2);
});

test('a restart with an agent that lost the tool: the answer starts nothing, and the model learns why', async () => {
  const recorded = await effects();
  const directory = await kit.directory();
  const first = await opened(recorded, { directory });
  await asks(first);
  await first.runtime.close();
  const stage = await opened(recorded, { directory, agents: [agent({ name: 'a' })] });
  expect(await stage.session.answer('call_1', { euros: 7 })).toBe(true);
  expect(await resultOf(stage)).toContain('Unknown tool: s__pay');
  expect(await runs(recorded)).toHaveLength(1);
});

test('a restart with an own tool of the same name: it does not run in place of the call that asked', async () => {
  const recorded = await effects();
  const directory = await kit.directory();
  const first = await opened(recorded, { directory });
  await asks(first);
  await first.runtime.close();
  const own = tool({ name: 's__pay', description: 'Pays.', input: { type: 'object' }, run: () => 'own' });
  const stage = await opened(recorded, { directory, agents: [agent({ name: 'a', tools: [own, mcpTools('s')] })] });
  expect(await stage.session.answer('call_1', { euros: 7 })).toBe(true);
  expect(await resultOf(stage)).toContain('no longer has the tool');
  expect(await runs(recorded)).toHaveLength(1);
});

test('an interrupt ends the question; the server hears nothing more of the call', async () => {
  const recorded = await effects();
  const stage = await opened(recorded);
  const { session } = stage;
  await asks(stage);
  await session.interrupt();
  expect((await session.state()).state).toBe('idle');
  expect(await session.answer('call_1', { euros: 7 })).toBe(false);
  expect(await runs(recorded)).toHaveLength(1);
});
