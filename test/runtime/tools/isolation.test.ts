// Goal: a tool with `isolation: 'process'` can crash, hang or leave processes behind, and costs its own call only.
// Method: the public API over real processes. Spans layers: tools, sessions, the embedding process.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { agent, ConfigError, open, type Runtime, type SessionEvent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, failure, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const url = new URL('../fixtures/isolated-tools.ts', import.meta.url);
const agents = [agent({ name: 'a', tools: [url] })];

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0) && !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
};

/** A model that calls the tools of these names at once, and repeats the last result. */
const calling = (...names: readonly string[]) =>
  scripted({
    rules: [
      { when: { result: false }, reply: { toolUse: names.map((name, n) => ({ name, input: {}, id: `c${n}` })) } },
    ],
    otherwise: '{{result}}',
  });

const pidsIn = (data: unknown): readonly number[] => (data as { readonly pids: readonly number[] }).pids;

/** The processes that a call reports as its progress. */
async function pidsOf(events: AsyncIterable<SessionEvent>): Promise<readonly number[]> {
  for await (const event of events) if (event.type === 'tool.progress') return pidsIn(event.data);
  return [];
}

describe('a tool in a process', () => {
  test('runs in a new process for each call, on its main thread', async () => {
    const runtime = await kit.open({ agents, provider: calling('where') });
    const answers = await Promise.all(['s', 't'].map((id) => runtime.session(id).ask('Go')));
    const [one, two] = answers.map((answer) => JSON.parse(answer) as { pid: number; isMainThread: boolean });
    expect([one?.isMainThread, two?.isMainThread]).toEqual([true, true]);
    expect(new Set([process.pid, one?.pid, two?.pid]).size).toBe(3);
    await eventually(() => ![one?.pid ?? 0, two?.pid ?? 0].some(isAlive));
  });

  const faults = [
    ['segfault', 'tool worker died: SIGSEGV'],
    ['abort', 'tool worker died: SIGABRT'],
    ['exit', 'tool worker died: exit code 5'],
    ['throws', '{"error":"RangeError: too far"}'],
    ['spins', 'timed out after 0.5 seconds'],
  ] as const;

  describe('of several in one turn', () => {
    let runtime: Runtime;
    let contents: ReadonlyMap<string | undefined, string>;
    beforeAll(async () => {
      const names = [...faults.map(([name]) => name), 'where'];
      runtime = await open(':memory:', {
        agents,
        provider: calling(...names),
        threads: { sessions: 0, models: 0, tools: 1 },
        logger: false,
      });
      const session = runtime.session('s');
      await session.ask('Go');
      const results = (await session.messages()).filter(({ type }) => type === 'tool_response');
      contents = new Map(results.map(({ toolUseId, content }) => [toolUseId, String(content)]));
    });
    afterAll(() => runtime.close({ deadlineMs: 0 }));

    test.each(faults)('%s fails its own call only', (name, text) => {
      expect(contents.size).toBe(faults.length + 1);
      expect(contents.get(`c${faults.findIndex((fault) => fault[0] === name)}`)).toContain(text);
      expect(contents.get(`c${faults.length}`)).toContain('"isMainThread":true');
    });
  });

  test('a crash is a lost attempt for `retry`', async () => {
    const runtime = await kit.open({ agents, provider: calling('shaky') });
    expect(await runtime.session('s').ask('Go')).toBe('steady');
    expect(runtime.metrics().toolRetries).toBe(1);
  });

  test('processes that a call leaves behind end with it, also those in another session of the system', async () => {
    const runtime = await kit.open({ agents, provider: calling('leaves') });
    const pids = pidsIn(JSON.parse(await runtime.session('s').ask('Go')));
    expect(pids).toHaveLength(2);
    await eventually(() => !pids.some(isAlive));
  });

  test('at the deadline, at an interrupt and at a close the process ends with its group', async () => {
    const runtime = await kit.open({ agents, provider: calling('hangs') });
    const hanging = runtime.session('s');
    const asked = hanging.ask('Go');
    const late = await pidsOf(hanging.events());
    expect(late).toHaveLength(3);
    expect(await asked).toContain('timed out after 0.5 seconds');
    await eventually(() => !late.some(isAlive));

    for (const end of ['interrupt', 'close'] as const) {
      const other = await kit.open({ agents, provider: calling('waits') });
      const waiting = other.session('s');
      await waiting.send('Go');
      const pids = await pidsOf(waiting.events());
      if (end === 'interrupt') await waiting.interrupt();
      else await other.close({ deadlineMs: 0 });
      await eventually(() => !pids.some(isAlive));
    }
  });

  test('the processes end with the program, even if it is killed', async () => {
    const program = new URL('../fixtures/isolating-process.ts', import.meta.url).pathname;
    const loader = new URL('../../loader/register.mjs', import.meta.url).href;
    const child = spawn(process.execPath, ['--import', loader, program], { stdio: ['ignore', 'pipe', 'inherit'] });
    const pids = await new Promise<readonly number[]>((resolve) => {
      child.stdout.on('data', (line: Buffer) => resolve(JSON.parse(String(line)) as number[]));
    });
    expect(pids).toHaveLength(3);
    child.kill('SIGKILL');
    await eventually(() => !pids.some(isAlive));
  });

  test('a module that a thread cannot load because of its addon is described in a process', async () => {
    const addon = agent({ name: 'a', tools: [new URL('../fixtures/addon-tools.ts', import.meta.url)] });
    const runtime = await kit.open({ agents: [addon], provider: calling('native') });
    expect(await runtime.session('s').ask('Go')).toBe('native code ran');
  });

  test('a value is refused with the remedy', async () => {
    const given = tool({
      name: 'mine',
      description: 'x',
      input: { type: 'object' },
      isolation: 'process',
      run: () => '',
    });
    const error = await failure(kit.open({ agents: [agent({ name: 'a', tools: [given] })] }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toContain('isolation "process" is not possible for a value');
    expect(error.message).toContain("new URL('./tools.js', import.meta.url)");
  });
});
