/**
 * Goal: a value of another form than its type, from a function that an embedder gave, fails the turn that it is of, with
 * a text that names it. No other session notices, wherever the function runs.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  type ErrorShape,
  ModelError,
  type ModelProvider,
  type TurnFailedError,
  tool,
} from '../../../src/index.ts';
import { scripted } from '../../../src/testing/index.ts';
import { failure, history, MATRIX, runtimeKit, types } from '../../support/runtime-kit.ts';
import talking, { MALFORMED } from '../fixtures/talking-provider.ts';

const kit = runtimeKit();
const BY_URL = new URL('../fixtures/talking-provider.ts', import.meta.url);

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test.each([
    ['value', talking],
    ['URL', BY_URL],
  ])('a malformed delta of a provider by %s fails its turn alone', async (_by, provider) => {
    const runtime = await kit.open({ threads, provider, agents: [agent({ name: 'bot', model: 'm' })] });
    for (const [index, [, what]] of MALFORMED.entries()) {
      const session = runtime.session(`s${index}`);
      const receipt = await session.send(`number ${index}`);
      for await (const _event of session.events({ until: receipt }));
      const { cause } = (await failure(receipt.answer())) as TurnFailedError;
      expect(cause).toMatchObject({
        code: 'model_protocol',
        retryable: false,
        message: `onDelta got ${what}; expected { type: 'text' | 'thinking', text: string }`,
      });
      expect(types(await history(session)).filter((type) => type === 'turn.failed')).toHaveLength(1);
    }
    expect(await runtime.session('good').ask('hello')).toBe('so far');
  });

  test.each([undefined, 'yes', 1, null])(
    'a verdict %s of `approve` runs no call and fails its turn',
    async (verdict) => {
      let runs = 0;
      const input = z.object({});
      const run = (): string => {
        runs += 1;
        return 'refunded';
      };
      const refund = tool({ name: 'refund', description: 'Refunds.', input, effect: 'keyed', run });
      const approve = ({ session }: { session: string }): boolean => (session === 'bad' ? (verdict as never) : false);
      const provider = scripted([{ toolUse: { name: 'refund' } }, 'done']);
      const runtime = await kit.open({
        threads,
        provider,
        agents: [agent({ name: 'till', tools: [refund], approve })],
      });
      const { cause } = (await failure(runtime.session('bad').ask('Refund it'))) as TurnFailedError;
      expect(cause).toMatchObject({
        code: 'config',
        message: expect.stringContaining('must return true or false, got'),
      });
      expect(runs).toBe(0);
      expect(await runtime.session('good').ask('Refund it')).toBe('done');
      expect(runs).toBe(1);
    },
  );

  test.each<readonly [string, Partial<Record<keyof ErrorShape | 'status' | 'retryAfterMs', unknown>>, object]>([
    ['no wait and no status', { retryAfterMs: Number.NaN, status: Number.NaN }, { message: 'busy', data: {} }],
    ['a wait without end', { retryAfterMs: Number.POSITIVE_INFINITY, status: 429 }, { data: { status: 429 } }],
    ['a wait in the past', { retryAfterMs: -5, status: 429 }, { data: { status: 429 } }],
    ['data with a function', { data: { run: () => 1, id: 7 } }, { data: { id: 7, omitted: /\$\.run: function/u } }],
    ['data with a big integer', { data: { count: 5n } }, { data: { omitted: /\$\.count: bigint/u } }],
    ['data that has itself', { data: circular() }, { data: { omitted: /\$\.self.*cycle/u } }],
    ['no message', { message: undefined }, { message: 'undefined' }],
    ['a function as message', { message: () => 1 }, { message: 'function' }],
    ['a symbol as code', { code: Symbol('c') }, { code: 'internal' }],
    ['a function as retryable', { retryable: () => true }, { code: 'model_overloaded', retryable: false }],
  ])('an error of a provider with %s is stored as far as it can be', async (_what, given, expected) => {
    const { code = 'model_overloaded', message = 'message' in given ? given.message : 'busy', ...details } = given;
    const provider: ModelProvider = {
      name: 'broken',
      generate: ({ messages }) =>
        messages.at(-1)?.content === 'fail'
          ? Promise.reject(new ModelError(code as never, message as never, details as never))
          : talking.generate({ model: 'm', max_tokens: 1, messages: [] }, CONTEXT),
    };
    const runtime = await kit.open({ threads, provider, agents: [agent({ name: 'bot', model: 'm' })] });
    const { cause } = (await failure(runtime.session('bad').ask('fail'))) as TurnFailedError;
    expect(JSON.parse(JSON.stringify({ ...(cause as object), message: (cause as Error).message }))).toMatchObject(
      matching(expected),
    );
    expect(await runtime.session('good').ask('hello')).toBe('so far');
  });

  test.each<readonly [string, unknown, string]>([
    [
      'a block without its parts',
      [{ role: 'user', content: [{ type: 'image' }] }],
      'content[0].source must be an object',
    ],
    ['null as a block', [{ role: 'user', content: [null] }], 'content[0].type must be one of'],
    [
      'a result without a name',
      [
        { role: 'user', content: 'a' },
        { role: 'tool', content: 'b', toolCallId: 'c' },
      ],
      '',
    ],
  ])('a guardrail that makes %s', async (_what, transform, expected) => {
    const guarded = agent({ name: 'guarded', model: 'm', guardrails: { before: [() => ({ transform }) as never] } });
    const runtime = await kit.open({
      threads,
      provider: scripted(() => 'fine') as ModelProvider,
      agents: [agent({ name: 'bot', model: 'm' }), guarded],
    });
    const said = runtime.session('bad', 'guarded').ask('hello');
    if (expected === '') expect(await said).toBe('fine');
    else expect((await failure(said)).message).toContain(expected);
    expect(await runtime.session('good', 'bot').ask('hello')).toBe('fine');
  });

  test('a listener that interrupts for a reason that is no text', async () => {
    const runtime = await kit.open({ threads, provider: scripted(() => 'fine') as ModelProvider });
    const session = runtime.session('bad');
    const stop = new AbortController();
    session.onMessage((_message, control) => control?.interrupt(circular() as never), {
      wait: true,
      signal: stop.signal,
    });
    expect((await failure(session.ask('hello'))).message).toMatch(/interrupt\(reason\) takes a string.*got object/u);
    stop.abort();
    expect(await session.ask('hello')).toBe('fine');
  });
});

const CONTEXT = { session: 's', signal: new AbortController().signal, onDelta: () => undefined };

function circular(): Readonly<Record<string, unknown>> {
  const value: Record<string, unknown> = {};
  value['self'] = value;
  return value;
}

/** The same with each pattern as a matcher. */
function matching(value: object): object {
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => {
      if (each instanceof RegExp) return [key, expect.stringMatching(each)];
      return [key, typeof each === 'object' ? matching(each as object) : each];
    }),
  );
}
