/**
 * Goal: whatever a model server does, the user is informed correctly and no partial answer is kept. Nothing loops for
 * ever, and the next request is legal (F20 to F39). Method: the public API over the strict fake, which refuses what the
 * real API refuses. A scripted provider is used if the fault is in the answer itself, and a manual clock if retries
 * wait.
 */
import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  agent,
  anthropic,
  type OpenOptions,
  type Runtime,
  type Session,
  type SessionEvent,
  serverTool,
  type Tool,
  tool,
} from '../../src/index.ts';
import { API_ANSWERS } from '../../src/models/own-provider.ts';
import type { ModelProvider, ModelRequest, ModelResponse } from '../../src/models/provider.ts';
import type { Script } from '../../src/models/script/script.ts';
import type { FaultKind } from '../../src/testing/fake-faults.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { type StrictFake, type StrictFakeOptions, strictFake } from '../../src/testing/strict-fake.ts';
import { event, RECORDED_STREAMS } from '../models/fixtures/recorded-streams.ts';
import { deferred, eventually, failure, history, log, runtimeKit, types } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

interface Stage {
  readonly fake: StrictFake;
  readonly clock: ManualClock;
  readonly runtime: Runtime;
  readonly session: Session;
}

/** A session whose model is the strict fake. The random part of waits is 0 by default. */
async function stage(
  options: StrictFakeOptions | Script,
  more: OpenOptions & { readonly tools?: readonly Tool[]; readonly directory?: string } = {},
): Promise<Stage> {
  const isOptions = typeof options === 'object' && 'script' in options;
  const fake = await strictFake(isOptions ? options : { script: options });
  fakes.push(fake);
  const clock = manualClock();
  const { tools, ...rest } = more;
  const agents = tools === undefined ? {} : { agents: [agent({ name: 'a', tools: [...tools] })] };
  const provider = anthropic({ apiKey: 'sk-of-this-test', baseURL: fake.url });
  const runtime = await kit.open({ provider, clock, random: () => 0, ...agents, ...rest });
  return { fake, clock, runtime, session: runtime.session('s') };
}

/**
 * Waits for `isMet`; the clock passes each wait before a retry in one move. Only transfers over the wire take real
 * time.
 */
async function pastRetries(clock: ManualClock, session: Session, isMet: () => boolean): Promise<void> {
  await eventually(async () => {
    if (isMet()) return true;
    if ((await session.state()).phase === 'retrying') await clock.advance((await retries(session)).at(-1)?.[1] ?? 0);
    return false;
  });
}

/** Sends a message, moves the clock past the waits, and returns the answer or the failure. */
async function askInTime({ clock, session }: Stage, content = 'Hi'): Promise<string | Error> {
  const receipt = await session.send(content);
  let result: string | Error | undefined;
  void receipt.answer().then(
    (text) => {
      result = text;
    },
    (error: Error) => {
      result = error;
    },
  );
  await pastRetries(clock, session, () => result !== undefined);
  if (result === undefined) throw new Error('no result');
  return result;
}

async function retries(session: Session): Promise<readonly (readonly [number, number, number | undefined])[]> {
  return (await history(session)).flatMap((each) =>
    each.type === 'llm.retry' ? [[each.attempt, each.waitMs, each.status] as const] : [],
  );
}

/** A tool that counts its runs. */
function counting(name = 'add'): { readonly add: Tool; readonly runs: unknown[] } {
  const runs: unknown[] = [];
  const add = tool({
    name,
    description: 'Adds.',
    input: z.object({ a: z.number(), deep: z.object({ b: z.array(z.string()) }).optional() }),
    run: (input) => {
      runs.push(input);
      return 'added';
    },
  });
  return { add, runs };
}

/** A model with fixed answers, one for each call. The last answer repeats. */
function answering(...answers: readonly unknown[]): {
  readonly provider: ModelProvider;
  readonly requests: ModelRequest[];
} {
  const requests: ModelRequest[] = [];
  // Stands for the Messages API: what it answers besides its types and counts is accepted.
  const provider: ModelProvider & { readonly [API_ANSWERS]: true } = {
    [API_ANSWERS]: true,
    name: 'by hand',
    generate: (request) => {
      const answer = answers[Math.min(requests.length, answers.length - 1)];
      requests.push(request);
      return Promise.resolve(answer as ModelResponse);
    },
  };
  return { provider, requests };
}

const DONE = {
  content: [{ type: 'text', text: 'Done.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
};

async function responses(
  session: Session,
): Promise<readonly { readonly content: string; readonly success: boolean }[]> {
  return (await session.messages()).flatMap(({ type, content, success }) =>
    type === 'tool_response' ? [{ content: String(content), success: success === true }] : [],
  );
}

describe('F20, F21: an overloaded server', () => {
  it('F20: retry-after is honoured and published, a wait of weeks too', async () => {
    const s = await stage([
      { error: { status: 429, retryAfterMs: 30_000 } },
      { error: { status: 429, retryAfterMs: 3e9 } },
      'Now.',
    ]);
    expect(await askInTime(s)).toBe('Now.');
    expect(await retries(s.session)).toEqual([
      [1, 30_000, 429],
      [2, 3e9, 429],
    ]);
  });

  it('F20: a wait of days survives a restart, and only its rest is waited for', async () => {
    const dayMs = 24 * 3_600_000;
    const directory = await kit.directory();
    const script: Script = [{ error: { status: 429, retryAfterMs: 40 * dayMs } }, 'In time.'];
    const s = await stage(script, { directory });
    await s.session.send('Hi');
    await eventually(async () => (await s.session.state()).phase === 'retrying');
    await s.clock.advance(30 * dayMs);
    await s.runtime.close();
    const provider = anthropic({ apiKey: 'sk-of-this-test', baseURL: s.fake.url });
    const clock = manualClock(s.clock.now());
    const again = await kit.open({ directory, provider, clock, random: () => 0 });
    const session = again.session('s');
    await eventually(async () => (await session.explain()).reason === 'waiting_for_retry');
    await clock.advance(10 * dayMs - 1_000);
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_retry', detail: 'attempt 2 starts in 1 s' });
    expect(s.fake.requests).toHaveLength(1);
    await clock.advance(1_000);
    await eventually(async () => (await log(session)).length === 2);
    expect((await log(session)).at(-1)).toContain('In time.');
  });

  it('F36: a spend limit stops the sessions until someone acts, and explain() names it', async () => {
    const errorCode = 'enforced_spend_limit_reached';
    const s = await stage([{ error: { status: 429, errorCode, message: 'The limit is reached.' } }, 'Paid.', 'Too.']);
    expect(await askInTime(s)).toMatchObject({ cause: { code: 'model_authentication', data: { errorCode } } });
    expect(await retries(s.session)).toEqual([]);
    await s.session.send('Again');
    expect(await s.session.explain()).toMatchObject({
      reason: 'blocked',
      detail: `${errorCode}: The limit is reached.; resume() continues`,
    });
    const other = s.runtime.session('other');
    const receipt = await other.send('Hi');
    await eventually(async () => (await other.explain()).reason === 'waiting_for_governor');
    expect((await other.explain()).detail).toContain(`(${errorCode}: The limit is reached.)`);
    await s.clock.advance(100 * 24 * 3_600_000);
    expect(s.fake.requests).toHaveLength(1);
    await s.runtime.resume();
    expect(['Paid.', 'Too.']).toContain(await receipt.answer());
  });

  it('F20, F21: without retry-after the waits grow, each with a random part of up to 15 %', async () => {
    const s = await stage(() => ({ error: { status: 500 } }), { random: () => 0.5 });
    expect(await askInTime(s)).toMatchObject({ code: 'turn_failed', cause: { code: 'model_overloaded', status: 500 } });
    expect((await retries(s.session)).map(([, waitMs]) => waitMs)).toEqual([1_075, 17_200, 87_075, 275_200]);
  });

  it.each([500, 502, 503, 504, 529])('F21: status %i is waited out and published', async (status) => {
    const s = await stage([{ error: { status } }, 'At last.']);
    expect(await askInTime(s)).toBe('At last.');
    expect(await retries(s.session)).toEqual([[1, 1_000, status]]);
    expect(await log(s.session)).toEqual(['user_message:Hi', expect.stringContaining('At last.')]);
  });
});

describe('F20: the rates that the server reports', () => {
  it('F20: after the first answer calls wait for the rate, and none is refused', async () => {
    const clock = manualClock();
    const fakeOptions = { script: () => 'ok', rates: { requestsPerMinute: 6 }, clock };
    const { runtime, fake } = await stage(fakeOptions, { clock });
    expect(await runtime.session('first').ask('Hi')).toBe('ok');
    const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
    const receipts = await Promise.all(names.map((name) => runtime.session(name).send('Hi')));
    let answered = 0;
    for (const receipt of receipts) void receipt.answer().then(() => (answered += 1));
    await eventually(async () => (await runtime.session('s11').explain()).reason === 'waiting_for_governor');
    expect((await runtime.session('s11').explain()).detail).toContain('the rate that the provider reports is used up');
    await eventually(async () => {
      await clock.advance(1_000);
      return answered === names.length;
    });
    for (const name of names) expect(await retries(runtime.session(name))).toEqual([]);
    expect(fake.requests).toHaveLength(13);
  });
});

describe('F22, F23: an unreachable server', () => {
  it('F22: a refused connection is retried up to five attempts, and its cause is reported', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await new Promise((resolve) => server.close(resolve));
    const s = await stage([], {
      provider: anthropic({ apiKey: 'sk-of-this-test', listModels: false, baseURL: `http://127.0.0.1:${port}` }),
    });
    const error = await askInTime(s);
    expect(error).toMatchObject({
      code: 'turn_failed',
      cause: { code: 'model_connection', retryable: true, data: { network: 'ECONNREFUSED' } },
    });
    expect(((error as Error).cause as Error).message).toContain('ECONNREFUSED');
    expect((await retries(s.session)).map(([attempt, , status]) => [attempt, status])).toEqual(
      [1, 2, 3, 4].map((n) => [n, undefined]),
    );
  });

  it('F22: a reset before the headers is waited out', async () => {
    const s = await stage({ script: ['At last.'], faults: { at: { 0: 'reset', 1: 'reset' } } });
    expect(await askInTime(s)).toBe('At last.');
    expect((await retries(s.session)).length).toBe(2);
  });

  it('F23: a model that never answers times out after timeouts.api, and the call is made again', async () => {
    let calls = 0;
    const provider: ModelProvider = {
      name: 'silent once',
      generate: () => {
        calls += 1;
        return calls === 1 ? new Promise(() => undefined) : Promise.resolve(DONE as ModelResponse);
      },
    };
    const s = await stage([], { provider, settings: { timeouts: { api: 20 } } });
    const receipt = await s.session.send('Hi');
    await eventually(() => calls === 1);
    await s.clock.advance(20_000);
    await pastRetries(s.clock, s.session, () => calls === 2);
    expect(await receipt.answer()).toBe('Done.');
    expect(await retries(s.session)).toEqual([[1, 1_000, undefined]]);
  });

  it('F23: a stream without further data times out, and the call is made again', async () => {
    const whole = RECORDED_STREAMS[0]?.text ?? '';
    const half = whole.slice(0, whole.indexOf('event: content_block_stop'));
    let calls = 0;
    const fetch = (): Promise<Response> => {
      calls += 1;
      const text = calls === 1 ? half : whole;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          controller.enqueue(Buffer.from(text));
          if (calls > 1) controller.close();
        },
      });
      return Promise.resolve(new Response(body));
    };
    const s = await stage([], {
      provider: anthropic({ apiKey: 'sk-of-this-test', listModels: false, fetch, idleTimeoutMs: 20 }),
    });
    expect(await askInTime(s)).toBe('Hello, world.');
    expect(await retries(s.session)).toEqual([[1, 1_000, undefined]]);
  });
});

describe('F24, F25, F26: a stream that breaks', () => {
  /** All events of a session in order of arrival, including deltas. */
  function follow(session: Session): { readonly events: SessionEvent[]; stop(): Promise<void> } {
    const events: SessionEvent[] = [];
    const abort = new AbortController();
    const reading = (async () => {
      for await (const each of session.events({ deltas: true, signal: abort.signal })) events.push(each);
    })().catch(() => undefined);
    return {
      events,
      async stop() {
        abort.abort();
        await reading;
      },
    };
  }

  it('F24: llm.retry supersedes the published text of a lost answer, and none of it is kept or sent', async () => {
    const s = await stage({ script: ['The whole answer.', 'More.'], faults: { at: { 0: 'disconnect' } } });
    const { events, stop } = follow(s.session);
    expect(await askInTime(s)).toBe('The whole answer.');
    await eventually(() => events.some((each) => each.type === 'turn.finished'));
    const retry = events.findIndex((each) => each.type === 'llm.retry');
    const shown = events.flatMap((each, place) => (each.type === 'text.delta' ? [{ place, ...each }] : []));
    expect(
      shown
        .filter(({ place }) => place > retry)
        .map(({ text }) => text)
        .join(''),
    ).toBe('The whole answer.');
    expect(new Set(shown.map(({ turn }) => turn)).size).toBe(1);
    expect(await log(s.session)).toEqual(['user_message:Hi', 'agent_message:The whole answer.']);
    expect(await askInTime(s, 'And?')).toBe('More.');
    expect(JSON.stringify(s.fake.requests)).not.toContain('break off');
    expect(s.fake.violations).toEqual([]);
    await stop();
  });

  it('F24: the tokens of a lost answer are reported with the failure', async () => {
    const s = await stage({ script: [], faults: { rate: 1, kinds: ['disconnect'] } });
    expect(await askInTime(s)).toMatchObject({
      cause: { code: 'model_connection', data: { lostUsage: { input_tokens: 1, output_tokens: 1 } } },
    });
    expect((await s.session.messages()).filter(({ type }) => type === 'agent_message')).toEqual([]);
  });

  it('F25: an error inside a stream that began with 200 counts as its own status, never as an answer', async () => {
    const s = await stage({ script: ['Whole.'], faults: { at: { 0: 'error_event' } } });
    expect(await askInTime(s)).toBe('Whole.');
    expect(await retries(s.session)).toEqual([[1, 1_000, 529]]);
    expect(await log(s.session)).toEqual(['user_message:Hi', 'agent_message:Whole.']);
  });

  it.each<FaultKind>(['missing_stop', 'bad_json', 'wrong_index', 'out_of_order'])(
    'F26: %s is waited out',
    async (kind) => {
      const s = await stage({ script: ['Whole.'], faults: { at: { 0: kind } } });
      expect(await askInTime(s)).toBe('Whole.');
      expect((await retries(s.session)).length).toBe(1);
      expect(await log(s.session)).toEqual(['user_message:Hi', 'agent_message:Whole.']);
    },
  );

  it('F26: after five answers that break the protocol the call fails', async () => {
    const s = await stage({ script: [], faults: { rate: 1, kinds: ['bad_json'] } });
    expect(await askInTime(s)).toMatchObject({ code: 'turn_failed', cause: { code: 'model_protocol' } });
    expect(s.fake.requests.length).toBe(5);
    expect((await s.session.state()).state).toBe('idle');
  });

  it.each<FaultKind>(['slow_bytes', 'unknown_event'])('F26: %s changes nothing', async (kind) => {
    const s = await stage({ script: ['Grüße 🎭'], faults: { at: { 0: kind } } });
    expect(await askInTime(s)).toBe('Grüße 🎭');
    expect(await retries(s.session)).toEqual([]);
  });
});

describe('F27 to F30: tool calls that cannot run', () => {
  it('F27: an input that breaks the schema is not run; the result names the path', async () => {
    const { add, runs } = counting();
    const input = { a: 1, deep: { b: ['x', 7] } };
    const { session, fake } = await stage([{ toolUse: { name: 'add', input } }, 'Oh.'], { tools: [add] });
    expect(await session.ask('Go')).toBe('Oh.');
    expect(runs).toEqual([]);
    expect(await responses(session)).toEqual([{ content: expect.stringMatching(/deep\.b\[?\.?1/), success: false }]);
    expect(JSON.stringify(fake.requests[1])).toContain('"is_error":true');
    expect(fake.violations).toEqual([]);
  });

  it('F27: an input that is not JSON is not run; the result informs the model, and the next request is legal', async () => {
    const { add, runs } = counting('never');
    const { session, fake } = await stage(
      { script: ['Oh.'], faults: { at: { 0: 'truncated_input' } } },
      { tools: [add] },
    );
    expect(await session.ask('Go')).toBe('Oh.');
    expect(runs).toEqual([]);
    expect(await responses(session)).toEqual([
      { content: expect.stringContaining('not a JSON object'), success: false },
    ]);
    expect(await retries(session)).toEqual([]);
    expect(fake.violations).toEqual([]);
  });

  it.each([[['a', 1]], ['text'], [3]])('F27: an input that is %j, not an object, is not run', async (input) => {
    const { add, runs } = counting();
    const call = { type: 'tool_use', id: 'a', name: 'add', input };
    const { provider, requests } = answering({ ...DONE, content: [call], stop_reason: 'tool_use' }, DONE);
    const { session } = await stage([], { provider, tools: [add] });
    expect(await session.ask('Go')).toBe('Done.');
    expect(runs).toEqual([]);
    expect((await responses(session))[0]).toMatchObject({ success: false });
    expect(requests[1]?.messages[1]?.content).toEqual([{ ...call, input: {} }]);
  });

  it('F27: a model that never sends a valid input is stopped by toolRounds', async () => {
    const { add, runs } = counting();
    const { session, fake } = await stage(() => ({ toolUse: { name: 'add', input: { a: 'one' } } }), {
      agents: [agent({ name: 'a', tools: [add], toolRounds: 4 })],
    });
    expect(await failure(session.ask('Go'))).toMatchObject({ code: 'turn_failed', cause: { code: 'limit' } });
    expect(fake.requests.length).toBe(4);
    expect(runs).toEqual([]);
    expect(fake.violations).toEqual([]);
  });

  it('F28: an unknown tool is answered with the most similar names', async () => {
    const { add } = counting('read_file');
    const { session, fake } = await stage([{ toolUse: { name: 'readFile' } }, 'Oh.'], { tools: [add] });
    expect(await session.ask('Go')).toBe('Oh.');
    expect(await responses(session)).toEqual([
      { content: expect.stringMatching(/readFile.*read_file/s), success: false },
    ]);
    expect(fake.violations).toEqual([]);
  });

  it('F29: repeated call ids are made unique; each call runs once and every request is legal', async () => {
    const { add, runs } = counting();
    const calls = (...values: readonly number[]) => ({
      toolUse: values.map((a) => ({ id: 'toolu_same', name: 'add', input: { a } })),
    });
    const { session, fake } = await stage([calls(1, 2), calls(3), 'Done.'], { tools: [add] });
    expect(await session.ask('Go')).toBe('Done.');
    expect(runs).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }]);
    const ids = (await session.messages()).flatMap(({ type, toolUseId }) => (type === 'tool_call' ? [toolUseId] : []));
    expect(new Set(ids).size).toBe(3);
    expect(fake.violations).toEqual([]);
  });

  it.each(['max_tokens', 'model_context_window_exceeded'])(
    'F30: a call cut by %s is never run, and its partial input is not kept',
    async (stop) => {
      const { add, runs } = counting();
      const [start, end] = (RECORDED_STREAMS.find(({ name }) => name.includes('token limit'))?.text ?? '').split(
        'max_tokens',
      );
      const cut = `${start}${stop}${end}`.replace('"name":"write"', '"name":"add"');
      const whole = RECORDED_STREAMS[0]?.text ?? '';
      const bodies: string[] = [];
      const fetch: typeof globalThis.fetch = (_url, init) => {
        bodies.push(String(init?.body));
        return Promise.resolve(new Response(bodies.length === 1 ? cut : whole));
      };
      const { session } = await stage([], {
        provider: anthropic({ apiKey: 'sk-of-this-test', listModels: false, fetch }),
        tools: [add],
      });
      expect(await session.ask('Go')).toBe('Hello, world.');
      expect(runs).toEqual([]);
      expect(await responses(session)).toEqual([{ content: expect.stringContaining('truncated'), success: false }]);
      expect(bodies[1]).not.toContain('path');
      expect(JSON.parse(bodies[1] ?? '')).toMatchObject({
        messages: [
          {},
          { content: [{ id: 'toolu_1', input: {} }] },
          { content: [{ type: 'tool_result', is_error: true }] },
        ],
      });
    },
  );
});

describe('F31 to F35: unusual answers', () => {
  const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } };

  it('F31: a paused turn continues with its own text last, unchanged; usage adds up; no end is published meanwhile', async () => {
    const paused = { content: [{ type: 'text', text: 'Looking. ' }, search], stop_reason: 'pause_turn' };
    const usage = { input_tokens: 10, output_tokens: 5 };
    const searching = [agent({ name: 'a', tools: [serverTool({ type: 'web_search_20250305' })] })];
    const script = [
      { ...paused, usage },
      { text: 'Found.', usage },
    ] as unknown as Script;
    const { session, fake } = await stage(script, { agents: searching });
    expect(await session.ask('Go')).toBe('Looking. Found.');
    expect(fake.requests[1]?.messages.at(-1)).toMatchObject({ role: 'assistant', content: paused.content });
    const events = await history(session);
    const done = events.filter((each) => each.type === 'turn.finished');
    expect(done).toMatchObject([{ reason: 'end_turn', usage: { input_tokens: 20, output_tokens: 10 } }]);
    expect((await session.state()).usage).toMatchObject({ input_tokens: 20, output_tokens: 10 });
    expect(fake.violations).toEqual([]);
  });

  it('F31: a turn that pauses again and again ends after six continuations', async () => {
    const paused = { content: [{ type: 'text', text: 'x' }], stop_reason: 'pause_turn' };
    const { session, fake } = await stage(() => paused as never);
    expect(await session.ask('Go')).toBe('x'.repeat(7));
    expect(fake.requests.length).toBe(7);
    expect((await history(session)).find((each) => each.type === 'turn.finished')).toMatchObject({
      reason: 'pause_turn',
    });
  });

  it('F32: a refusal ends the turn with that outcome, runs nothing, is not retried, and the session continues', async () => {
    const { add, runs } = counting();
    const refused = {
      content: [
        { type: 'text', text: 'I will not.' },
        { type: 'tool_use', id: 'a', name: 'add', input: { a: 1 } },
      ],
      stop_reason: 'refusal',
    };
    const { session, fake } = await stage([refused, 'Gladly.'] as unknown as Script, { tools: [add] });
    await session.ask('Do harm');
    expect(fake.requests.length).toBe(1);
    expect(runs).toEqual([]);
    expect((await history(session)).find((each) => each.type === 'turn.finished')).toMatchObject({ reason: 'refusal' });
    expect(await session.ask('Then help')).toBe('Gladly.');
    expect(fake.violations).toEqual([]);
  });

  it('F33: an answer that fills the context window ends the turn once, with its own code', async () => {
    const { session, fake } = await stage([{ text: 'And th', stopReason: 'model_context_window_exceeded' }, 'On.']);
    expect(await session.ask('Go')).toBe('And th');
    expect((await history(session)).find((each) => each.type === 'turn.finished')).toMatchObject({
      reason: 'model_context_window_exceeded',
    });
    expect(await session.ask('On?')).toBe('On.');
    expect(fake.requests.length).toBe(2);
  });

  it('F33, F35: a prompt that is too long fails once with its rule, is not retried, and never loops', async () => {
    const s = await stage(['never', 'never'], {
      agents: [agent({ name: 'a', model: 'claude-haiku-4-5', tokenBudget: 1_000_000 })],
    });
    const long = 'word '.repeat(170_000);
    for (const calls of [1, 2]) {
      await s.session.resume();
      expect(await askInTime(s, calls === 1 ? long : 'And now?')).toMatchObject({
        code: 'turn_failed',
        cause: { code: 'model_invalid_request', status: 400, retryable: false, data: { rule: 'R34' } },
      });
      expect(s.fake.requests.length).toBe(calls);
    }
    expect(await s.session.explain()).toMatchObject({
      reason: 'blocked',
      detail: expect.stringContaining('prompt is too long'),
    });
    expect((await log(s.session)).at(-1)).toMatch(/^system_message:.*prompt is too long/u);
  });

  it('F34: an answer without content is not stored, the turn has no text, and the next request is legal', async () => {
    const { session, fake } = await stage([
      '',
      { content: [{ type: 'text', text: '' }] },
      { text: ' \n' },
      'Yes.',
    ] as unknown as Script);
    for (const word of ['one', 'two', 'three']) expect(await session.ask(word)).toBe('');
    expect(await session.ask('four')).toBe('Yes.');
    expect(await log(session)).toEqual([
      ...['one', 'two', 'three', 'four'].map((word) => `user_message:${word}`),
      'agent_message:Yes.',
    ]);
    expect(fake.violations.filter(({ fatal }) => fatal)).toEqual([]);
  });

  it('F35: a refused request is not sent again, waiting messages continue after resume, no unbroken rule is named', async () => {
    const gate = deferred();
    const s = await stage(async (_request, { call }) => {
      if (call > 0) return 'Fine.';
      await gate.promise;
      return { error: { status: 400, message: 'we do not like it' } };
    });
    const first = await s.session.send('Hi');
    const second = await s.session.send('Again');
    gate.resolve();
    const error = await failure(first.answer());
    expect(error.cause).toMatchObject({ code: 'model_invalid_request', status: 400, message: 'we do not like it' });
    expect(error.cause).not.toHaveProperty('data.rule');
    expect(await second.status()).toEqual({ status: 'accepted' });
    expect(await s.session.explain()).toMatchObject({ reason: 'blocked' });
    await s.session.resume();
    expect(await second.answer()).toBe('Fine.');
    expect(s.fake.requests.length).toBe(2);
    expect(await retries(s.session)).toEqual([]);
  });

  it('F35: explain shows a refused request without contents; an edit of the history resumes the session', async () => {
    const s = await stage((request) =>
      JSON.stringify(request.messages).includes('secret words')
        ? { error: { status: 400, message: 'messages.0: we do not like it' } }
        : 'Fine.',
    );
    const refused = await s.session.send('secret words');
    await failure(refused.answer());
    expect((await s.session.state()).blocked).toMatchObject({ code: 'model_invalid_request' });
    const explained = await s.session.explain();
    expect(explained.request).toMatchObject({
      messageCount: 1,
      messages: [{ index: 0, shape: 'user: text, 12 characters, text, 55 characters' }],
    });
    expect(JSON.stringify(explained.request)).not.toContain('secret');
    const next = await s.session.send('Something else');
    expect(await next.status()).toEqual({ status: 'accepted' });
    const [first] = await s.session.history.toArray();
    await s.session.history.remove({ id: String(first?.id) });
    expect(await next.answer()).toBe('Fine.');
    expect((await s.session.state()).blocked).toBeUndefined();
  });

  it('F35: with settings.recovery.rollbackFailed the next message continues without an edit', async () => {
    const s = await stage(
      (request) =>
        JSON.stringify(request.messages).includes('bad words')
          ? { error: { status: 400, message: 'messages.0: we do not like it' } }
          : 'Fine.',
      { settings: { recovery: { rollbackFailed: true } } },
    );
    await failure((await s.session.send('bad words')).answer());
    expect(await s.session.ask('Something else')).toBe('Fine.');
  });
});

describe('F36 to F38: keys, models, counters', () => {
  it.each([401, 402, 403])(
    'F36: status %i blocks the sessions of the key, each notified once of its own call; resume continues all',
    async (status) => {
      let isRefusing = true;
      const { runtime, fake } = await stage(() => (isRefusing ? { error: { status, message: 'no' } } : 'Welcome.'));
      const sessions = Array.from({ length: 12 }, (_, index) => runtime.session(`s${index}`));
      for (const session of sessions) await session.send('Hi');
      const isStopped = async (session: Session): Promise<boolean> => (await session.state()).blocked !== undefined;
      await eventually(async () => (await Promise.all(sessions.map(isStopped))).every(Boolean));
      const waiting = await Promise.all(sessions.map((session) => session.send('Again')));
      await runtime.drain();
      expect(fake.requests.length, 'nothing is tried again').toBeLessThanOrEqual(12);
      const told: number[] = [];
      for (const session of sessions) {
        told.push(types(await history(session)).filter((type) => type === 'authentication_required').length);
        const { reason } = await session.explain();
        expect(reason).toBe(told.at(-1) === 1 ? 'blocked' : 'waiting_for_governor');
      }
      expect(
        told.filter((times) => times > 0),
        'only of its own call',
      ).toEqual(Array(fake.requests.length).fill(1));
      isRefusing = false;
      await runtime.resume();
      expect(await Promise.all(waiting.map((receipt) => receipt.answer()))).toEqual(waiting.map(() => 'Welcome.'));
    },
  );

  it('F37: a retired model fails its turn once, by name; sessions of other models continue', async () => {
    const { runtime, fake } = await stage(
      ({ model }) => (model === 'claude-old' ? { error: { status: 404, message: 'model: claude-old' } } : 'Here.'),
      { agents: [agent({ name: 'old', model: 'claude-old' }), agent({ name: 'new', model: 'claude-opus-4-6' })] },
    );
    const error = await failure(runtime.session('a', 'old').ask('Hi'));
    expect(error.cause).toMatchObject({ code: 'model_invalid_request', status: 404, message: 'model: claude-old' });
    expect(await runtime.session('b', 'new').ask('Hi')).toBe('Here.');
    expect(fake.requests.length).toBe(2);
  });

  it.each([
    ['no usage', undefined],
    ['a usage of nothing', { input_tokens: 0, output_tokens: 0 }],
    ['no numbers', { input_tokens: 'many', output_tokens: null }],
    ['absurd numbers', { input_tokens: 1e300, output_tokens: -5 }],
    ['fractions', { input_tokens: Number.NaN, output_tokens: 0.5 }],
  ])('F38: with %s the budget uses our own estimate, and no counter is corrupted', async (_what, usage) => {
    const text = 'word '.repeat(200);
    const { provider } = answering({ content: [{ type: 'text', text }], stop_reason: 'end_turn', usage });
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tokenBudget: 1_000 })] });
    const session = runtime.session('s');
    for (let turn = 0; turn < 6; turn += 1) await session.ask(`turn ${turn}`);
    expect((await session.state()).usage).toMatchObject({ input_tokens: 0, output_tokens: 0 });
    expect(types(await history(session))).toContain('eviction');
    expect((await session.messages()).every(({ tokens }) => Number.isSafeInteger(tokens) && tokens > 0)).toBe(true);
  });
});

describe('F39: interrupts by the user', () => {
  it('F39: an interrupt during a stream aborts the request; nothing of the answer is kept; the next request is legal', async () => {
    const whole = RECORDED_STREAMS[0]?.text ?? '';
    const half = whole.slice(0, whole.indexOf('event: content_block_stop'));
    const begun = deferred();
    const aborted = deferred();
    const bodies: string[] = [];
    const fetch: typeof globalThis.fetch = (_url, init) => {
      bodies.push(String(init?.body));
      if (bodies.length > 1) return Promise.resolve(new Response(whole));
      init?.signal?.addEventListener('abort', () => aborted.resolve());
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(Buffer.from(half)),
        pull: () => begun.resolve(),
      });
      return Promise.resolve(new Response(body));
    };
    const { session } = await stage([], {
      provider: anthropic({ apiKey: 'sk-of-this-test', listModels: false, fetch }),
    });
    const receipt = await session.send('Hi');
    await begun.promise;
    expect(await session.interrupt()).toBe(true);
    await aborted.promise;
    expect(await failure(receipt.answer())).toMatchObject({ code: 'cancelled' });
    expect(await log(session)).toEqual(['user_message:Hi']);
    expect(await session.ask('Again')).toBe('Hello, world.');
    expect(JSON.parse(bodies[1] ?? '')).toMatchObject({ messages: [{ role: 'user' }] });
  });

  it('F39: an interrupt during a tool aborts it; its call is answered; the next request is legal', async () => {
    const running = deferred();
    const aborted = deferred();
    const slow = tool({
      name: 'slow',
      description: 'Takes its time.',
      input: z.object({}),
      run: (_input, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted.resolve();
            reject(new Error('stopped'));
          });
          running.resolve();
        }),
    });
    const { session, fake } = await stage([{ toolUse: [{ name: 'slow' }, { name: 'slow' }] }, 'Fine.'], {
      tools: [slow],
    });
    const receipt = await session.send('Go');
    await running.promise;
    expect(await session.interrupt()).toBe(true);
    await aborted.promise;
    expect(await failure(receipt.answer())).toMatchObject({ code: 'cancelled' });
    expect((await responses(session)).map(({ success }) => success)).toEqual([false, false]);
    expect(await session.ask('Again')).toBe('Fine.');
    // After an interrupt the user's next text follows the results of the calls.
    expect(fake.violations.filter(({ rule }) => rule !== 'R69')).toEqual([]);
  });
});

it('F26: an unknown event before all others does not fail the stream', async () => {
  const text = event('weather', { sky: 'clear' }) + (RECORDED_STREAMS[0]?.text ?? '').replaceAll('\n', '\r\n');
  const provider = anthropic({
    apiKey: 'sk-of-this-test',
    listModels: false,
    fetch: () => Promise.resolve(new Response(text)),
  });
  const { session } = await stage([], { provider });
  expect(await session.ask('Hi')).toBe('Hello, world.');
});
