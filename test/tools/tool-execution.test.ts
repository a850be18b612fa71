// Goal: a call of a tool on this thread has one outcome, whatever the tool does. The text of the outcome is fit for a
// model, a log and a terminal.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { cleanText, cutMiddle, headOfBytes, tailOfBytes } from '../../src/tools/result-text.ts';
import type { AnyTool, Tool, ToolContext, ToolOutcome } from '../../src/tools/tool.ts';
import type { ToolExecution } from '../../src/tools/tool-execution.ts';
import { executeTool } from '../support/execute-tool.ts';
import { HandClock } from './support.ts';

function execute(run: AnyTool['run'], options: Partial<ToolExecution & Tool> = {}): Promise<ToolOutcome> {
  const tool: AnyTool = { name: 't', description: 'd', input: { type: 'object' }, ...options, run };
  return executeTool(tool, {
    context: { session: 's', callId: 'c', key: 'k', attempt: 1 },
    timeoutMs: Number.POSITIVE_INFINITY,
    mode: 'run',
    ...options,
    input: {},
  });
}
const textOf = async (run: AnyTool['run']): Promise<string> => (await execute(run)).content;
const never = (): Promise<never> => new Promise(() => undefined);

describe('results', () => {
  test.each([
    ['text', 'text', true],
    [5, '5', true],
    [null, 'null', true],
    [undefined, '(no output)', true],
    ['', '(no output)', true],
    [' \n\t', '(no output)', true],
    [{ a: [1, undefined] }, '{"a":[1,null]}', true],
    [{ error: 'no' }, '{"error":"no"}', false],
    [{ error: undefined }, '{}', false],
    [Object.create({ error: 'inherited' }), 'result not serialisable at $: an instance of Object', false],
    [new TypeError('returned'), '{"error":"TypeError: returned"}', false],
    [Buffer.from([0x61, 0xff, 0x62]), 'a\uFFFDb', true],
  ])('%o as %j', async (value, content, success) => {
    expect(await execute(() => value)).toMatchObject({ content, success });
  });

  test.each([
    ['$.a.b', () => ({ a: { b: () => 1 } })],
    ['$[1]', () => [1, Symbol('s')]],
    ['$.n', () => ({ n: 10n })],
    ['$.m', () => ({ m: new Map() })],
    ['$.x', () => ({ x: Number.NaN })],
    [
      '$.self',
      () => {
        const self: Record<string, unknown> = {};
        self['self'] = self;
        return self;
      },
    ],
  ])('F56: names the path %s', async (path, run) => {
    const outcome = await execute(run);
    expect(outcome.success).toBe(false);
    expect(outcome.content).toContain(`result not serialisable at ${path}`);
  });

  test('F56: getters and proxies that throw, and class instances, are failures', async () => {
    const getter = Object.defineProperty({}, 'a', {
      enumerable: true,
      get: () => {
        throw new Error('gotcha');
      },
    });
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('trap');
        },
      },
    );
    class Private {
      #secret = 1;
      peek(): number {
        return this.#secret;
      }
    }
    for (const value of [getter, proxy, new Private(), Promise.resolve(new Private())]) {
      expect(await execute(() => value)).toMatchObject({ success: false });
    }
  });

  test('F73: keys of the prototype stay data', async () => {
    expect(await textOf(() => JSON.parse('{"__proto__":{"polluted":1}}') as unknown)).toContain('__proto__');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('F57: text', () => {
  test.each([
    ['a\u001b[1;31mb\u001b[0mc', 'abc'],
    ['a\u001b]8;;http://x\u001b\\link\u001b]8;;\u0007b', 'alinkb'],
    ['a\u009b2Kb\u0085c\u007f\u0000', 'abc'],
    ['a\u001bPq#0\u001b\\b\u001b(Bc\u001bMd', 'abcd'],
    ['a\u001b]unterminated', 'aunterminated'],
    ['line\r\n\tnext', 'line\n\tnext'],
    ['\ud800 \udc00 \ud83d\ude00', '\uFFFD \uFFFD \ud83d\ude00'],
  ])('%j becomes %j', (dirty, clean) => expect(cleanText(dirty)).toBe(clean));

  test('cleaned text is well-formed without control characters, for any text; cleaning it again changes nothing', () => {
    const piece = fc.constantFrom(
      '\u001b',
      '[',
      ']',
      '31m',
      '\u0007',
      '\u009b',
      '\ud83d',
      '\ude00',
      'x',
      '\n',
      '\\',
      ' ',
    );
    const seed = Date.now();
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const clean = cleanText(pieces.join(''));
        expect(clean).not.toMatch(/[^\P{Cc}\n\t]|\p{Surrogate}/u);
        expect(cleanText(clean)).toBe(clean);
      }),
      { seed, verbose: 1 },
    );
  });

  test('F76: escapes that never end cost linear time', () => {
    expect(cleanText('\u001b]'.repeat(200_000))).toBe('');
    expect(cleanText(`\u009b${'1;'.repeat(500_000)}`).length).toBe(1_000_000);
    // These texts begin control strings that never end. With quadratic cost they would take minutes.
    for (const start of ['\u0090', '\u0098', '\u009d', '\u009e', '\u009f'])
      expect(cleanText(start.repeat(1_000_000))).toBe('');
  });

  test('a control sequence within JSON never removes a quote', async () => {
    const content = await textOf(() => ({ a: 'x\u009b', b: '\u001b[31m' }));
    expect(JSON.parse(content)).toEqual({ a: 'x', b: '\u001b[31m' });
  });

  test('F55: any text is cut in the middle to its bytes, on code-point borders', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 300 }),
        fc.integer({ min: 0, max: 400 }),
        (text, bytesMax) => {
          for (const part of [headOfBytes(text, bytesMax), tailOfBytes(text, bytesMax)]) {
            expect(Buffer.byteLength(part)).toBeLessThanOrEqual(bytesMax);
            expect(text.includes(part)).toBe(true);
          }
          if (bytesMax > 100) expect(Buffer.byteLength(cutMiddle(text, bytesMax))).toBeLessThanOrEqual(bytesMax);
        },
      ),
      { verbose: 1 },
    );
    expect(cutMiddle('short', 5)).toBe('short');
  });
});

describe('X1: failures', () => {
  test('F058: an error is reported as class and message', async () => {
    expect(await textOf(() => Promise.reject(new RangeError('far')))).toBe('{"error":"RangeError: far"}');
    expect(
      await textOf(() => {
        throw 'plain';
      }),
    ).toBe('{"error":"Error: plain"}');
    for (const thrown of [
      null,
      undefined,
      Symbol('s'),
      {},
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('x');
          },
        },
      ),
    ]) {
      expect(
        await execute(() => {
          throw thrown;
        }),
      ).toMatchObject({ success: false });
    }
  });

  test('F062: the timeout names the tool and the seconds, and aborts the signal', async () => {
    const clock = new HandClock();
    let context: ToolContext | undefined;
    const outcome = execute(
      (_input, given) => {
        context = given;
        return never();
      },
      { clock, timeoutMs: 2_000 },
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(context?.signal.aborted).toBe(false);
    clock.advance(2_000);
    const content = 'Tool "t" timed out after 2 seconds';
    expect(await outcome).toEqual({ content, success: false, failed: 'timeout', ms: 2_000 });
    expect(context?.signal.aborted).toBe(true);
    expect(clock.timers).toBe(0);
  });

  test('X2: an abort is answered at once, or after the tool has settled if told to wait', async () => {
    const stop = new AbortController();
    const left = execute(never, { signal: stop.signal });
    const waited = execute(
      (_input, { signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve('partial'))),
      { signal: stop.signal, onAbort: 'wait' },
    );
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort(new Error('stopped by hand'));
    expect(await left).toMatchObject({ content: 'stopped by hand', success: false });
    expect(await waited).toMatchObject({ content: 'partial', success: true });
  });

  test('X2: an aborted signal starts no tool', async () => {
    let ran = false;
    const run = (): void => {
      ran = true;
    };
    expect((await execute(run, { signal: AbortSignal.abort(new Error('too late')) })).content).toBe('too late');
    await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toBe(false);
  });

  test('X2: time spent blocking counts toward the deadline; a tool that returns at once needs no timer', async () => {
    const clock = new HandClock();
    let timersWithin = -1;
    const look = (): void => {
      timersWithin = clock.timers;
    };
    await execute(look, { clock, timeoutMs: 2_000 });
    expect(timersWithin).toBe(0);
    const outcome = execute(
      () => {
        clock.advance(1_500);
        return never();
      },
      { clock, timeoutMs: 2_000 },
    );
    expect(clock.timers).toBe(1);
    clock.advance(500);
    expect(await outcome).toMatchObject({ success: false, ms: 2_000 });
    expect(clock.timers).toBe(0);
  });

  test('a context that is spread or used as a prototype keeps its signal', async () => {
    const stop = new AbortController();
    const signals: AbortSignal[] = [];
    const outcome = execute(
      (_input, context) => {
        const spread = { ...context };
        const heir = Object.create(context) as ToolContext;
        signals.push(spread.signal, heir.signal, new Proxy(context, {}).signal);
        return never();
      },
      { signal: stop.signal },
    );
    stop.abort(new Error('enough'));
    await outcome;
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
    expect(new Set(signals).size).toBe(1);
  });

  test('progress after the outcome is dropped', async () => {
    const told: unknown[] = [];
    let late: ToolContext | undefined;
    await execute(
      (_input, context) => {
        late = context;
        context.progress(1);
      },
      { progress: (data) => told.push(data) },
    );
    late?.progress(2);
    expect(told).toEqual([1]);
  });
});

describe('F27: input', () => {
  const strict = z.strictObject({ a: z.object({ b: z.array(z.number()) }), n: z.number().default(7) });
  const check = (input: Tool['input'], given: unknown, more: object = {}): Promise<ToolOutcome> =>
    executeTool(
      { name: 't', description: 'd', input, run: (value) => ({ value }), ...more },
      { input: given, context: { session: 's', callId: 'c', key: 'k', attempt: 1 }, timeoutMs: 1_000, mode: 'run' },
    );

  test.each([null, 'text', 5, [1], undefined])('%j is not an object', async (given) => {
    expect((await check({ type: 'object' }, given)).content).toContain('$: expected an object');
  });

  test('an error names the path of the wrong value, for zod and JSON Schema alike', async () => {
    expect((await check(strict, { a: { b: [1, 'two'] } })).content).toContain('$.a.b[1]');
    const json = { type: 'object', properties: { a: { type: 'array', items: { type: 'number' } } }, required: ['a'] };
    expect((await check(json, { a: [1, 'two'] })).content).toContain('$.a[1]: must be number');
    expect((await check(json, {})).content).toContain("must have required property 'a'");
    expect((await check(json, { a: [] })).success).toBe(true);
  });

  test('defaults and transforms reach the tool', async () => {
    expect((await check(strict, { a: { b: [] } })).content).toBe('{"value":{"a":{"b":[]},"n":7}}');
  });

  test('asynchronous schemas work, and schemas that throw are failures', async () => {
    const slow = z.object({ a: z.string().refine(async (text) => text === 'yes', 'not yes') });
    expect((await check(slow, { a: 'yes' })).success).toBe(true);
    expect((await check(slow, { a: 'no' })).content).toContain('$.a: not yes');
    const broken = {
      '~standard': {
        version: 1 as const,
        vendor: 'x',
        validate: () => {
          throw new Error('bug');
        },
      },
    };
    expect(await check(broken, {})).toMatchObject({ success: false });
  });

  test('F145: timeout does not disturb a strict schema, and stays where it belongs to the tool', async () => {
    const adjustable = { adjustableTimeout: true };
    const bare = z.strictObject({});
    expect((await check(bare, { timeout: 5 }, adjustable)).content).toBe('{"value":{}}');
    expect((await check(bare, { timeout: 5 })).success).toBe(false);
    const own = z.strictObject({ timeout: z.number() });
    expect((await check(own, { timeout: 5 }, adjustable)).content).toBe('{"value":{"timeout":5}}');
  });
});

describe('probe', () => {
  const context = { session: 's', callId: 'c', key: 'k9', attempt: 1 };
  const probing = (probe?: Tool['probe']): Promise<ToolOutcome> =>
    executeTool(
      { name: 't', description: 'd', input: { type: 'object' }, run: () => 'ran', ...(probe ? { probe } : {}) },
      { input: {}, context, timeoutMs: 1_000, mode: 'probe' },
    );
  test('replaces the run, runs the tool on undefined, fails if the probe throws or is missing', async () => {
    expect((await probing(({ key }) => key)).content).toBe('k9');
    expect((await probing(() => undefined)).content).toBe('ran');
    expect(
      (
        await probing(() => {
          throw new Error('lost');
        })
      ).content,
    ).toBe('{"error":"Error: lost"}');
    expect(await probing()).toMatchObject({ success: false });
  });
});
