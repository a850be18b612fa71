// Goal: unusual bytes, values, callbacks and clocks break nothing. Such data reaches a log and a terminal as plain
// text, or as an error that names it. Method: the public API, real threads if a boundary is crossed, and the command
// line in this process.
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { wellFormed } from '../../src/base/json.ts';
import { agent, type ModelProvider, type SessionEvent, type Tool, tool } from '../../src/index.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { command } from '../cli/support/surroundings.ts';
import { collect, eventually, failure, history, MATRIX, runtimeKit, types } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const saying = (name: string, run: () => unknown): Tool => ({
  name,
  description: `Says ${name}.`,
  input: { type: 'object' },
  effect: 'pure',
  run,
});

describe.each(MATRIX)('results of host tools, sessions: $sessions, models: $models', (threads) => {
  class Private {
    #secret = 1;
    peek(): number {
      return this.#secret;
    }
  }
  const detached = (): Uint8Array => {
    const bytes = new Uint8Array([1, 2, 3]);
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    return bytes;
  };
  const cases: readonly (readonly [string, () => unknown, string])[] = [
    ['function', () => ({ a: { b: () => 1 } }), '$.a.b: function'],
    ['symbol', () => ({ a: [Symbol('s')] }), '$.a[0]: symbol'],
    ['private', () => ({ a: { b: new Private() } }), '$.a.b: an instance of Private'],
    [
      'cycle',
      () => {
        const self: Record<string, unknown> = {};
        self['a'] = { b: self };
        return self;
      },
      '$.a.b: a cycle',
    ],
    ['bigint', () => ({ a: { b: 10n } }), '$.a.b: bigint'],
    [
      'proxy',
      () => ({
        a: new Proxy(
          { b: 1 },
          {
            get: () => {
              throw new Error('trap');
            },
          },
        ),
      }),
      '$.a',
    ],
    [
      'getter',
      () => ({
        a: {
          get b() {
            throw new Error('gotcha');
          },
        },
      }),
      '$.a.b: reading it threw Error: gotcha',
    ],
    ['detached', detached, '$: a detached buffer'],
    ['buffer', () => ({ a: new ArrayBuffer(4) }), '$.a: an instance of ArrayBuffer'],
    ['not_a_number', () => [0, Number.NaN], '$[1]: NaN'],
  ];

  test('F56: a result that JSON cannot hold is a failure that names its path; the turn continues', async () => {
    const agents = [agent({ name: 'a', tools: cases.map(([name, run]) => saying(name, run)) })];
    const calls = cases.map(([name], n) => ({ name, input: {}, id: `c${n}` }));
    const runtime = await kit.open({ threads, agents, provider: scripted([{ toolUse: calls }, 'Over.']) });
    expect(await runtime.session('s').ask('Go')).toBe('Over.');
    const responses = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_response');
    expect(responses).toHaveLength(cases.length);
    for (const [name, , path] of cases) {
      const response = responses.find(({ toolName }) => toolName === name);
      expect([name, response?.success]).toEqual([name, false]);
      expect(response?.content).toContain(`not serialisable at ${path}`);
    }
  });

  test('F56: an answer that cannot be cloned, from a provider given by value, fails its turn at once', async () => {
    const good = {
      content: [{ type: 'text', text: 'Sense.' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    const answers: unknown[] = [{ ...good, content: [{ type: 'text', text: 'x', citations: () => 1 }] }, good];
    const provider = { name: 'odd', generate: async () => answers.shift() } as unknown as ModelProvider;
    const session = (await kit.open({ threads, provider })).session('s');
    await expect(session.ask('Hi')).rejects.toMatchObject({ cause: { code: 'model_protocol', retryable: false } });
    expect(types(await history(session))).not.toContain('llm.retry');
    expect(await session.ask('Hi again')).toBe('Sense.');
  });
});

const EVIL = 'a\u001b[31mred\u001b[0m\u0000 \ud800 \u001b]0;title\u0007 \u009b2J \u202egnp.exe \u001bP+q\u001b\\ end';

describe('F57: text', () => {
  test('F57: lone surrogates, NUL and invalid UTF-8 become well-formed text in log and request', async () => {
    const bytes = saying('bytes', () => Uint8Array.of(0x61, 0xff, 0xc3, 0x28, 0x00, 0x62));
    const text = saying('text', () => EVIL);
    const requests: string[] = [];
    const runtime = await kit.open({
      agents: [agent({ name: 'a', tools: [bytes, text] })],
      provider: scripted((request, { call }) => {
        requests.push(JSON.stringify(request));
        return call === 0 ? { toolUse: [{ name: 'bytes' }, { name: 'text' }], text: `model ${EVIL}` } : 'ok';
      }),
    });
    const session = runtime.session('s');
    await session.ask(`user ${EVIL}`);
    const messages = JSON.stringify(await session.messages());
    // A lone surrogate is escaped in JSON; a well-formed text has none.
    for (const seen of [messages, ...requests]) expect(seen).not.toMatch(/\\ud[89a-f]/i);
    const tools = (await session.messages()).filter(({ type }) => type === 'tool_response');
    for (const { content } of tools) {
      expect(wellFormed(String(content))).toBe(content);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(content).not.toMatch(/[\u0000\u001b\u009b]/);
    }
  });

  test('F57: printed output has no terminal sequences, as text and as JSON, which parses to the same values', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({
      directory,
      agents: [agent({ name: 'a', tools: [saying('text', () => ({ say: EVIL }))] })],
      provider: scripted([
        { toolUse: { name: 'text', input: { say: EVIL } }, text: EVIL },
        { error: { status: 400, message: EVIL } },
      ]),
    });
    const session = runtime.session('s');
    await failure(session.ask(EVIL, { from: `evil ${EVIL}` }));
    await session.pause();
    await session.send(EVIL, { from: `evil\u001b[2J` });
    const said = await session.messages();
    await runtime.close();
    for (const line of [['inspect'], ['inspect', 's'], ['tail', 's'], ['tail', EVIL], ['inspect', EVIL], [EVIL]]) {
      const { stdout, stderr } = await command([...line, ...(line.length > 1 ? ['--data', directory] : [])], '/');
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(stdout + stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
      expect((stdout + stderr).length).toBeGreaterThan(10);
    }
    for (const line of [
      ['inspect', 's'],
      ['tail', 's', '--after', '0'],
    ]) {
      const { stdout } = await command([...line, '--json', '--data', directory], '/');
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
      const values = stdout
        .trimEnd()
        .split('\n')
        .map((each) => JSON.parse(each) as Record<string, unknown>);
      expect(
        values.some((value) => JSON.stringify(value).includes(JSON.stringify(said[0]?.content).slice(1, -1))),
      ).toBe(true);
    }
  });
});

/** A clock whose wall time jumps by hand while its monotonic time continues. */
function jumpingClock(): ManualClock & { jump(ms: number): void } {
  const steady = manualClock();
  let offset = 0;
  return {
    now: () => steady.now() + offset,
    monotonic: () => steady.monotonic(),
    setTimer: (run, delayMs) => steady.setTimer(run, delayMs),
    clearTimer: (timer) => steady.clearTimer(timer),
    advance: (ms) => steady.advance(ms),
    runAll: () => steady.runAll(),
    get pending() {
      return steady.pending;
    },
    jump: (ms) => {
      offset += ms;
    },
  };
}

describe('F59: the clock', () => {
  const HOUR_MS = 3_600_000;

  test.each([HOUR_MS, -HOUR_MS])(
    'F59: a wall clock that jumps by %d ms triggers no timer, and sequence numbers stay in order',
    async (jumpMs) => {
      const clock = jumpingClock();
      const hang = saying('hang', () => new Promise(() => undefined));
      const runtime = await kit.open({
        clock,
        agents: [agent({ name: 'a', tools: [{ ...hang, timeoutMs: 10_000 }] })],
        provider: scripted([{ error: { status: 529 } }, { toolUse: { name: 'hang', id: 'c1' } }, 'Over.', 'Again.']),
      });
      const session = runtime.session('s');
      const receipt = await session.send('Go');
      await eventually(async () => (await session.state()).phase === 'retrying');
      clock.jump(jumpMs);
      const state = async () => (await session.state()).state;
      const retries = async () => types(await history(session)).filter((type) => type === 'llm.retry').length;
      // The first wait is about a second of monotonic time, whatever the wall clock says.
      await clock.advance(400);
      expect([await state(), await retries()]).toEqual(['awaiting', 1]);
      await clock.advance(2_000);
      await eventually(async () => (await state()) === 'executing');
      clock.jump(-jumpMs * 2);
      await clock.advance(7_000);
      expect(await state()).toBe('executing');
      await clock.advance(4_000);
      expect(await receipt.answer()).toBe('Over.');
      clock.jump(jumpMs);
      expect(await session.ask('More')).toBe('Again.');
      const events = await history(session);
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, at) => at + 1));
      const seqs = (await session.messages()).map(({ seq }) => seq);
      expect(seqs).toEqual(seqs.map((_seq, at) => at + 1));
      // The jump affects only the published times.
      const times = events.map(({ at }) => at);
      expect(times.some((at, n) => n > 0 && Math.abs(at - (times[n - 1] ?? 0)) >= HOUR_MS - 20_000)).toBe(true);
    },
  );

  test('F59: a retry that waited when the wall clock jumped and the process ended is made at the next open', async () => {
    const directory = await kit.directory();
    const clock = jumpingClock();
    const first = await kit.open({ directory, clock, provider: scripted([{ error: { status: 529 } }]) });
    const receipt = await first.session('s').send('Go');
    await eventually(async () => (await first.session('s').state()).phase === 'retrying');
    await first.close({ deadlineMs: 0 });
    clock.jump(-HOUR_MS);
    const second = await kit.open({ directory, clock, provider: scripted(['Late.']) });
    const again = await second.session('s').receipt(receipt.id);
    // By the wall clock the retry is due in an hour and a second, by monotonic time soon. It must not wait for the wall
    // clock.
    await clock.advance(HOUR_MS + 5_000);
    expect(await again.answer()).toBe('Late.');
  });
});

describe('F65: misbehaving callbacks', () => {
  const boom = (): never => {
    throw new Error('boom');
  };

  test.each(MATRIX)(
    'F65: a logger that throws affects nothing else, sessions: $sessions, models: $models',
    async (threads) => {
      let lines = 0;
      const throwing = (): never => {
        lines += 1;
        return boom();
      };
      const logger = { debug: throwing, info: throwing, warn: throwing, error: throwing };
      const runtime = await kit.open({
        threads,
        agents: [agent({ name: 'a', tools: [new URL('fixtures/faulty-tools.ts', import.meta.url)] })],
        provider: scripted({
          rules: [
            { when: { text: 'noisy', result: false }, reply: { toolUse: { name: 'noisy' } } },
            { when: { text: 'steady', result: false }, reply: { toolUse: { name: 'steady' } } },
          ],
          otherwise: 'ok',
        }),
        logger: logger,
      });
      expect(await runtime.session('s').ask('noisy')).toBe('ok');
      expect(await runtime.session('t').ask('steady')).toBe('ok');
      await eventually(() => lines > 0);
      expect(await runtime.session('s').ask('more')).toBe('ok');
      expect(runtime.metrics().restarts).toBe(0);
    },
  );

  test.each(MATRIX)(
    'F65: readers that throw end; other readers and the session continue, sessions: $sessions, models: $models',
    async (threads) => {
      const runtime = await kit.open({ threads, provider: scripted({ rules: [], otherwise: 'ok' }) });
      const session = runtime.session('s');
      const steady = collect(session.events({ until: (event) => event.type === 'turn.finished', deltas: false }));
      const inLoop = failure(
        (async () => {
          for await (const _event of session.events()) boom();
        })(),
      );
      const inUntil = failure(collect(session.events({ until: boom })));
      const inFilter = failure(collect(runtime.events({ filter: boom })));
      expect(await session.ask('Hi')).toBe('ok');
      for (const reader of [inLoop, inUntil, inFilter]) expect((await reader).message).toBe('boom');
      const told: readonly SessionEvent[] = await steady;
      expect(told.map(({ seq }) => seq)).toEqual(told.map((_event, at) => at + 1));
      expect(await session.ask('more')).toBe('ok');
    },
  );

  test.each(MATRIX)(
    'F65: system functions, providers and tools that throw anything fail their own turn, sessions: $sessions, models: $models',
    async (threads) => {
      const thrown: readonly unknown[] = [
        undefined,
        null,
        'text',
        7n,
        Symbol('s'),
        Object.create(null),
        new Proxy({}, { get: boom }),
      ];
      const raise = (n: number): never => {
        throw thrown[n];
      };
      const runtime = await kit.open({
        threads,
        agents: thrown.flatMap((_value, n) => [
          agent({ name: `system-${n}`, system: () => raise(n) }),
          agent({
            name: `tool-${n}`,
            tools: [tool({ name: 'throws', description: 'Throws.', input: z.object({}), run: () => raise(n) })],
          }),
        ]),
        provider: scripted((request, { session }) => {
          if (session.startsWith('model')) return Promise.reject(thrown[Number(session.slice(6))]);
          return request.messages.length > 1 ? 'Over.' : { toolUse: { name: 'throws' } };
        }),
        settings: { timeouts: { api: 5 } },
      });
      for (const n of thrown.keys()) {
        expect(await failure(runtime.session(`system-${n}`, `system-${n}`).ask('Hi'))).toMatchObject({
          code: 'turn_failed',
        });
        expect(await runtime.session(`tool-${n}`, `tool-${n}`).ask('Hi')).toBe('Over.');
        await failure(runtime.session(`model-${n}`, 'tool-0').ask('Hi'));
      }
      expect(runtime.metrics()).toMatchObject({ restarts: 0, sessionsLive: 0 });
    },
  );
});
