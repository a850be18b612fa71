// Goal: a fault in a tool thread, a model thread or a session thread affects its own call and nothing else. Method: the
// public API over real threads. Outcomes and their order are checked, never times.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LOOP_STALL_MS, LOOP_WATCH_INTERVAL_MS, TOOL_RESULT_CROSSING_BYTES_MAX } from '../../src/base/bounds.ts';
import { shardOf } from '../../src/base/ids.ts';
import { agent, type Message, type OpenOptions, open, type Runtime, type Session } from '../../src/index.ts';
import { killSessionThread } from '../../src/runtime/handles/runtime.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, history, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const tools = new URL('fixtures/faulty-tools.ts', import.meta.url);
const dying = new URL('fixtures/dying-provider.ts', import.meta.url);
const agents = [agent({ name: 'a', tools: [tools] })];

interface Line {
  readonly level: string;
  readonly message: string;
  readonly ms?: number;
}

/** A logger that keeps its lines. */
function keeping(): { readonly logger: NonNullable<OpenOptions['logger']>; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, message, ...fields });
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { logger: logger, lines };
}

/** The tool for each fault; most faults are in `unhurried`. */
const TOOLS: ReadonlyMap<string, string> = new Map([
  ['memory', 'leaky'],
  ['spin', 'faulty'],
  ['hang', 'faulty'],
]);
const callOf = (fault: string, n: number) => ({
  name: TOOLS.get(fault) ?? 'unhurried',
  input: { fault },
  id: `c${n}`,
});
/** A model that makes these calls at once, and then says that it is over. */
const asking = (faults: readonly string[]) => scripted([{ toolUse: faults.map(callOf) }, 'Over.']);

async function responses(session: Session): Promise<readonly Message[]> {
  const found = (await session.messages()).filter(({ type }) => type === 'tool_response');
  return found.sort((a, b) => Number(a.toolUseId?.slice(1)) - Number(b.toolUseId?.slice(1)));
}

/** The same tools with enough time for large results. */
const roomy = () => [agent({ name: 'a', tools: [new URL('fixtures/large-tools.ts', import.meta.url)] })];

describe('tools', () => {
  const kinds = [
    ['F50', 'exit', 'tool worker died: exit code 9'],
    ['F50', 'abort', 'process.abort() is not supported in workers'],
    ['F51', 'memory', 'tool worker died: out of memory'],
    ['F52', 'spin', 'timed out after 0.4 seconds'],
    ['F50', 'hijack', '{"error":"Error: said what it liked"}'],
    ['F53', 'hang', 'timed out after 0.4 seconds'],
    ['F54', 'throwText', '{"error":"Error: just text"}'],
    ['F54', 'throwNothing', 'non-error thrown: undefined'],
    ['F54', 'throwProxy', 'unreadable'],
    ['F54', 'strayThrow', '{"error":"RangeError: nobody catches this"}'],
    ['F54', 'strayRejection', '{"error":"TypeError: nobody awaits this"}'],
    ['F54', 'thenThatThrows', '{"error":"Error: no then"}'],
    ['F56', 'cycle', 'not serialisable at $.a.b: a cycle'],
    ['F56', 'function', 'not serialisable at $.a.b: function'],
    ['F56', 'bigint', 'not serialisable at $.a[0].b: bigint'],
  ] as const;
  // All faults share one runtime and one tool thread, so a slot that is not freed would block every later call.
  let runtime: Runtime;
  beforeAll(async () => {
    const calls = new Map(kinds.map(([, fault]) => [`s-${fault}`, ['good', fault, 'good'].map(callOf)]));
    runtime = await open(':memory:', {
      threads: { sessions: 0, models: 0, tools: 1 },
      agents,
      provider: scripted((_request, { session, call }) =>
        call === 0 ? { toolUse: calls.get(session) ?? [] } : 'Over.',
      ),
    });
  });
  afterAll(() => runtime.close({ deadlineMs: 0 }));

  test.each(kinds)(
    '%s: %s fails its own call only; the calls around it are not affected',
    async (_row, fault, said) => {
      const session = runtime.session(`s-${fault}`);
      expect(await session.ask('Go')).toBe('Over.');
      const [before, failed, after] = await responses(session);
      expect(failed?.success).toBe(false);
      expect(failed?.content).toContain(said);
      for (const neighbour of [before, after]) expect(neighbour).toMatchObject({ content: 'fine' });
      const finished = (await history(session)).filter((event) => event.type === 'tool.finished');
      expect(finished.map(({ toolUseId, success }) => [toolUseId, success]).sort()).toEqual([
        ['c0', true],
        ['c1', false],
        ['c2', true],
      ]);
    },
  );

  test('F54: an error thrown after the result is logged once with its tool, and fails no other call', async () => {
    const { logger, lines } = keeping();
    const provider = scripted({
      rules: [
        { when: { text: 'noisy', result: false }, reply: { toolUse: { name: 'noisy' } } },
        { when: { text: 'steady', result: false }, reply: { toolUse: { name: 'steady' } } },
      ],
      otherwise: '{{result}}',
    });
    const runtime = await kit.open({ threads: { sessions: 1, models: 1, tools: 1 }, agents, provider, logger });
    for (let round = 0; round < 3; round += 1) {
      expect(await runtime.session(`n${round}`).ask('noisy')).toContain('done before');
      expect(await runtime.session(`s${round}`).ask('steady')).toContain('steady');
    }
    const noise = lines.filter(({ message }) => message.includes('after the result'));
    expect(noise).toEqual([{ level: 'warn', message: expect.stringContaining('"noisy"') }]);
  });

  test('F55: 105 MB are cut in the log, both ends kept, no code point split; the notice names the stored result', async () => {
    const directory = await kit.directory();
    const limits = { toolResultBytes: 64 * 1024 };
    const provider = asking(['huge']);
    const settings = { timeouts: { tool: 60 } };
    const runtime = await kit.open({ directory, threads: { tools: 1 }, agents: roomy(), provider, limits, settings });
    const session = runtime.session('s');
    expect(await session.ask('Go')).toBe('Over.');
    const content = String((await responses(session))[0]?.content);
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(limits.toolResultBytes);
    expect(content.startsWith('€€€') && content.endsWith('€€€')).toBe(true);
    expect(content).not.toContain('\uFFFD');
    const file = /The whole text is saved to: (\S+)/.exec(content)?.[1] ?? '';
    expect(file.startsWith(join(directory, 'results'))).toBe(true);
    const whole = await readFile(file, 'utf8');
    expect(Buffer.byteLength(whole)).toBeLessThanOrEqual(TOOL_RESULT_CROSSING_BYTES_MAX);
    expect(whole.startsWith('€€€') && whole.endsWith('€€€') && whole.includes('cut: a result of more than')).toBe(true);
  });

  test('F55, F06: if the disk refuses the result, the call gets its short form, which says that the rest is lost', async () => {
    const directory = await kit.directory();
    // A file has the name of the result store's directory, so every write of a result fails.
    await writeFile(join(directory, 'results'), 'in the way');
    const runtime = await kit.open({
      directory,
      threads: { sessions: 1, tools: 1 },
      agents: roomy(),
      provider: asking(['huge']),
    });
    const session = runtime.session('s');
    expect(await session.ask('Go')).toBe('Over.');
    const [response] = await responses(session);
    expect(response?.success).not.toBe(false);
    expect(response?.content).toContain('could not be saved');
    expect(runtime.metrics().restarts).toBe(0);
  });

  test.each([0, 1])(
    'a result lost while its thread lives is answered as lost, and the turn ends; session threads: %i',
    async (sessions) => {
      const runtime = await kit.open({
        threads: { sessions, models: 0, tools: 1 },
        agents,
        provider: asking(['swallow', 'good', 'good']),
      });
      const session = runtime.session('s');
      expect(await session.ask('Go')).toBe('Over.');
      expect((await responses(session)).map(({ content, success }) => [content, success])).toEqual([
        ['The result of this call was lost on its way from the tool thread. It may have taken effect.', false],
        ['fine', true],
        ['fine', true],
      ]);
      expect(runtime.metrics()).toMatchObject({ toolCallsRunning: 0, sessionsLive: 0 });
    },
  );

  test('T8: 48 faults and healthy calls in a pool of 2: one outcome per call, and the pool is complete at the end', async () => {
    const quick = ['throwProxy', 'function', 'cycle', 'abort', 'thenThatThrows', 'hijack'];
    // Faults that end a thread are rarer, because starting threads takes most of this test's time.
    const costly = ['exit', 'spin', 'hang', 'strayThrow', 'exit', 'strayRejection'];
    const faults = Array.from({ length: 48 }, (_unused, n) =>
      n % 8 === 0 ? (costly[n / 8] ?? '') : (quick[n % quick.length] ?? ''),
    );
    const asked = faults.flatMap((fault) => [fault, 'good']);
    const sessions = Array.from({ length: 8 }, (_unused, n) => asked.slice(n * 12, (n + 1) * 12));
    const { logger, lines } = keeping();
    const runtime = await kit.open({
      threads: { sessions: 1, models: 0, tools: 2 },
      agents,
      logger,
      provider: scripted((_request, { session, call }) =>
        call === 0 ? { toolUse: (sessions[Number(session.slice(1))] ?? []).map(callOf) } : 'Over.',
      ),
    });
    const answers = await Promise.all(sessions.map((_list, n) => runtime.session(`s${n}`).ask('Go')));
    expect(answers.every((answer) => answer === 'Over.')).toBe(true);
    for (const [n, list] of sessions.entries()) {
      const found = await responses(runtime.session(`s${n}`));
      expect(found.map(({ toolUseId }) => toolUseId)).toEqual(list.map((_fault, at) => `c${at}`));
      expect(found.map(({ success }) => success !== false)).toEqual(list.map((fault) => fault === 'good'));
    }
    expect(runtime.metrics()).toMatchObject({ restarts: 0, toolCalls: 96, toolCallsRunning: 0, sessionsLive: 0 });
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    expect(await runtime.session('s0').ask('Again')).toBe('Over.');
  }, 120_000);
});

describe('model threads', () => {
  test.each([
    ['exits', 'die', 'it ended with exit code 3'],
    ['throws in a timer', 'throw', 'RangeError: thrown in a timer'],
  ])(
    'F50: a model thread that %s is replaced and says why; the call is made again, other sessions are not affected',
    async (_how, word, why) => {
      const mark = join(await kit.directory(), 'died');
      const { logger, lines } = keeping();
      const runtime = await kit.open({ threads: { sessions: 1, models: 2 }, provider: dying, logger });
      const session = runtime.session('s');
      const [answer, ...others] = await Promise.all([
        session.ask(`${word} ${mark}`),
        ...Array.from({ length: 6 }, (_unused, n) => runtime.session(`t${n}`).ask('live')),
      ]);
      expect(answer).toBe(`to ${word}`);
      expect(others.every((other) => other === 'to live')).toBe(true);
      const told = await history(session);
      expect(told.filter(({ type }) => type === 'llm.retry')).toMatchObject([
        {
          attempt: 1,
          code: 'model_connection',
          detail: `the model thread died (${why}); the call can be made again`,
        },
      ]);
      await eventually(() => lines.some(({ level }) => level === 'error'));
      const [death] = lines.filter(({ level }) => level === 'error');
      expect(death?.message).toBe(`a model thread of ${dying.href} died (${why}); another one takes its place`);
      expect(runtime.metrics().restarts).toBe(0);
    },
  );
});

describe('session threads', () => {
  const threads = { sessions: 2, models: 0 };
  /** A name on each of two shards. */
  const [here, there] = [0, 1].map((shard) => {
    for (let n = 0; ; n += 1) if (shardOf(`s${n}`, 2) === shard) return `s${n}`;
  }) as [string, string];

  test('F50: one of two session threads dies: its sessions continue from the log, the others are not interrupted', async () => {
    const runtime = await kit.open({
      directory: await kit.directory(),
      threads: { sessions: 2, models: 1 },
      provider: scripted({ rules: [], otherwise: 'to {{text}}' }),
    });
    await runtime.session(here).ask('one');
    await runtime.session(there).ask('one');
    const other = Promise.all(
      Array.from({ length: 10 }, (_unused, n) => runtime.session(there).ask(`m${n}`, { deliver: 'turn' })),
    );
    await killSessionThread(runtime, 0);
    expect(await runtime.session(here).ask('two', { key: 'k' })).toBe('to two');
    expect(await other).toHaveLength(10);
    const count = async (name: string): Promise<number> => (await runtime.session(name).messages()).length;
    expect([await count(here), await count(there)]).toEqual([4, 22]);
    expect(runtime.metrics().restarts).toBe(1);
  });

  test('F58: a blocked session thread reports its stall afterwards; the other thread continues meanwhile', async () => {
    const { logger, lines } = keeping();
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: dying, logger });
    await runtime.session(there).ask('warm');
    let isStalled = true;
    const stalled = runtime
      .session(here)
      .ask(`spin ${LOOP_STALL_MS + LOOP_WATCH_INTERVAL_MS + 500}`)
      .finally(() => {
        isStalled = false;
      });
    let meanwhile = 0;
    // More than two would only keep the processor busy.
    while (isStalled && meanwhile < 2) {
      expect(await runtime.session(there).ask('live')).toBe('to live');
      if (isStalled) meanwhile += 1;
    }
    expect(await stalled).toBe('to spin');
    expect(meanwhile).toBeGreaterThan(1);
    await eventually(() => lines.length > 0);
    expect(lines).toEqual([{ level: 'warn', message: 'actor stalled: session thread 0', ms: expect.any(Number) }]);
    expect(lines[0]?.ms).toBeGreaterThanOrEqual(LOOP_STALL_MS);
    expect(runtime.metrics().stalls).toBe(1);
  });
});
