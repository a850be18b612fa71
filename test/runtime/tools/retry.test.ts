// Goal: a failed call of a tool runs again as its `retry` says, and only then. Method: the public API; tools on the host
// thread and on real tool threads. Spans layers: tools, the runner of calls, events, metrics, the log.
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  type OpenOptions,
  type SessionEvent,
  type ToolContext,
  type ToolRetry,
  TroupeError,
  tool,
} from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, gatedModel, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const SOON: ToolRetry = { attempts: 3, baseMs: 1, maximumMs: 1 };
const nothing: z.ZodType<object> = z.object({});
type Run = (context: ToolContext) => unknown;

/** A tool of this name whose runs are kept. */
function flaky(
  run: Run,
  options: { readonly retry?: ToolRetry; readonly timeoutMs?: number; readonly concurrency?: number } = {},
) {
  const contexts: ToolContext[] = [];
  const made = tool({
    name: 'flaky',
    description: 'Fails.',
    input: nothing,
    effect: 'keyed',
    retry: SOON,
    ...options,
    run: (_input, context) => {
      contexts.push(context);
      return run(context);
    },
  });
  return { tool: made, contexts };
}

/** A runtime in which a call has failed once and waits for its next attempt, for longer than any test takes. */
async function waiting() {
  const directory = await kit.directory();
  const busy = flaky(
    () => {
      throw new Error('busy');
    },
    { retry: { attempts: 2, baseMs: 60_000, maximumMs: 60_000 } },
  );
  const provider = scripted([{ toolUse: { name: 'flaky', input: {} } }]);
  const first = await kit.open({ directory, provider, agents: [agent({ name: 'a', tools: [busy.tool] })] });
  const receipt = await first.session('s').send('Go');
  await eventually(() => first.metrics().toolRetries === 1);
  return { directory, busy, first, receipt };
}

/** The result of one call of the tool, and the events of its turn. */
async function callOf(
  tools: NonNullable<Parameters<typeof agent>[0]['tools']>,
  name = 'flaky',
  options: Partial<OpenOptions> = {},
) {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'a', tools })], ...options });
  const session = runtime.session('s');
  const found: SessionEvent[] = [];
  const turn = await session.send('Go');
  let isCalled = false;
  for await (const event of session.events({ until: turn })) {
    found.push(event);
    if (isCalled) continue;
    // The first event shows that the reader is there, which ephemeral events need.
    isCalled = true;
    void model.next().then((call) => call.answer({ toolUse: { name, input: {} } }));
    void eventually(() => model.calls.length === 2).then(async () => (await model.next()).answer('Done.'));
  }
  const result = (await session.messages()).find(({ type }) => type === 'tool_response');
  return { result: result?.content, success: result?.success, events: found, runtime };
}

const retries = (events: readonly SessionEvent[]) => events.filter(({ type }) => type === 'tool.retry');

describe('a tool with retry', () => {
  test('runs again with the same key until it answers, and each retry is published, logged and counted', async () => {
    const lines: string[] = [];
    const write = (_fields: object, message: string): void => void lines.push(message);
    const logger = { debug: write, info: write, warn: write, error: write };
    const { tool: given, contexts } = flaky(({ attempt }) => {
      if (attempt < 3) throw new Error('not yet');
      return `attempt ${attempt}`;
    });
    const { result, events, runtime } = await callOf([given], 'flaky', { logger });
    expect(result).toBe('attempt 3');
    expect(contexts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(contexts.map(({ key }) => key)).size).toBe(1);
    expect(retries(events)).toMatchObject([
      { toolName: 'flaky', attempt: 1, waitMs: 1, reason: 'failure' },
      { toolName: 'flaky', attempt: 2, waitMs: 1, reason: 'failure' },
    ]);
    expect(runtime.metrics().toolRetries).toBe(2);
    expect(lines.filter((line) => line.includes('it runs again'))).toHaveLength(2);
  });

  test('fails with its last error after the last attempt', async () => {
    const { tool: given, contexts } = flaky(({ attempt }) => {
      throw new Error(`no ${attempt}`);
    });
    expect(await callOf([given])).toMatchObject({ result: '{"error":"Error: no 3"}', success: false });
    expect(contexts).toHaveLength(3);
  });

  test('a returned error, and a thrown one whose `retryable` is false, stand at once', async () => {
    const answer = flaky(() => ({ error: 'no such city' }));
    expect((await callOf([answer.tool])).result).toBe('{"error":"no such city"}');
    const thrown = flaky(() => {
      throw Object.assign(new Error('gone for good'), { retryable: false });
    });
    expect((await callOf([thrown.tool])).result).toContain('gone for good');
    const may = flaky(({ attempt }) => {
      if (attempt === 1) throw new TroupeError('internal', 'later', { retryable: true });
      return 'now';
    });
    expect((await callOf([may.tool])).result).toBe('now');
    expect([answer, thrown, may].map(({ contexts }) => contexts.length)).toEqual([1, 1, 2]);
  });

  test('timeoutMs holds for each attempt, and `on` says which failures count', async () => {
    const hang: Run = ({ attempt, signal }) =>
      attempt > 1
        ? 'in time'
        : new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    const again = flaky(hang, { timeoutMs: 30 });
    const { result, events } = await callOf([again.tool]);
    expect(result).toBe('in time');
    expect(retries(events)).toMatchObject([{ attempt: 1, reason: 'timeout' }]);
    const stands = flaky(hang, { timeoutMs: 30, retry: { ...SOON, on: ['failure', 'lost'] } });
    expect((await callOf([stands.tool])).result).toContain('timed out after 0.03 seconds');
  });

  test('on tool threads: a thread that dies, an attempt that hangs, an error nobody catches', async () => {
    const url = new URL('../fixtures/flaky-tools.ts', import.meta.url);
    for (const [name, reason] of [
      ['dies', 'lost'],
      ['hangs', 'timeout'],
      ['strays', 'failure'],
    ] as const) {
      const { result, events } = await callOf([url], name);
      expect(result).toBe('answered as attempt 2');
      expect(retries(events)).toMatchObject([{ toolName: name, attempt: 1, reason }]);
    }
  });

  test('the wait holds no concurrency slot, and ends with an interrupt', async () => {
    const clock = manualClock();
    const model = gatedModel();
    const { tool: given, contexts } = flaky(
      ({ callId }) => {
        if (callId === 'c1') throw new Error('busy');
        return 'quick';
      },
      { concurrency: 1, retry: { attempts: 2, baseMs: 60_000, maximumMs: 60_000 } },
    );
    const runtime = await kit.open({ clock, provider: model.provider, agents: [agent({ name: 'a', tools: [given] })] });
    const session = runtime.session('s');
    await session.send('Go');
    const uses = ['c1', 'c2'].map((id) => ({ name: 'flaky', input: {}, id }));
    (await model.next()).answer({ toolUse: uses });
    await eventually(async () => (await session.pending()).some(({ toolUseId }) => toolUseId === 'c2'));
    expect(contexts.map(({ callId }) => callId)).toEqual(['c1', 'c2']);
    await session.interrupt();
    await runtime.drain();
    await clock.advance(120_000);
    expect((await session.state()).state).toBe('idle');
    expect(contexts).toHaveLength(2);
  });

  test('a crash in the wait runs the call again from its first attempt, with the same key', async () => {
    const { directory, busy, receipt } = await waiting();
    const copy = await kit.crashed(directory);
    const well = flaky(({ attempt }) => `attempt ${attempt}`);
    const agents = [agent({ name: 'a', tools: [well.tool] })];
    const second = await kit.open({ directory: copy, provider: scripted(['Done.']), agents });
    expect(await (await second.session('s').receipt(receipt.id)).answer()).toBe('Done.');
    expect(well.contexts.map(({ attempt, key }) => [attempt, key])).toEqual([[1, busy.contexts[0]?.key]]);
  });

  test('close does not wait for the next attempt; the call runs again at the next open', async () => {
    const { directory, first, receipt } = await waiting();
    await first.close({ deadlineMs: 60_000 });
    const well = flaky(() => 'well');
    const agents = [agent({ name: 'a', tools: [well.tool] })];
    const second = await kit.open({ directory, provider: scripted(['Done.']), agents });
    expect(await (await second.session('s').receipt(receipt.id)).answer()).toBe('Done.');
    expect(well.contexts).toHaveLength(1);
  });
});
