/**
 * Goal E8: `open({ redact })` sees each text before it is stored or published. Method: a word goes in by every way, and
 * is then looked for in every file, event, request, message, log line and webhook. Spans layers: the runtime, the store,
 * the tools, the server.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { REDACTED_CHARACTERS_MIN } from '../../../src/base/bounds.ts';
import {
  agent,
  ConfigError,
  ModelError,
  type RedactFunction,
  RedactionError,
  type RedactionSource,
  type SessionEvent,
  TurnFailedError,
  tool,
} from '../../../src/index.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import {
  eventually,
  failure,
  history,
  MATRIX,
  queue,
  runtimeKit,
  type TestOptions,
} from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';
import redactCanary from '../fixtures/redact-canary.ts';

const kit = runtimeKit();
const REDACT = new URL('../fixtures/redact-canary.ts', import.meta.url);
const HIDDEN = '[hidden]';
let canaries = 0;
const canary = (): string => {
  canaries += 1;
  return `canary-${canaries}x`;
};
const USAGE = { input_tokens: 5, output_tokens: 2 };

/** A tool that returns what it was given, and a word more. */
function leakyTools(seen: unknown[]): NonNullable<Parameters<typeof agent>[0]['tools']> {
  const input = z.object({ word: z.string() });
  return [
    tool({
      name: 'long',
      description: 'A long result.',
      effect: 'pure',
      input,
      run: ({ word }, { progress }) => {
        seen.push(word);
        progress({ at: canary() });
        return Array.from({ length: 20_000 }, (_, line) => `${word} ${canary()} ${line}`).join('\n');
      },
    }),
    tool({
      name: 'throws',
      description: 'Throws.',
      effect: 'pure',
      input,
      run: ({ word }) => {
        seen.push(word);
        throw new Error(`no such person: ${canary()}`);
      },
    }),
  ];
}

/** Answers each new message with a thought, a text and two calls, and their results with a text. */
function leakyModel(requests: ModelRequest[]): ModelProvider {
  return scripted((request) => {
    requests.push(request);
    const { content } = request.messages.at(-1) ?? { content: '' };
    const last = JSON.stringify(typeof content === 'string' ? content : content.at(-1));
    if (last.includes('tool_result')) return { text: `done with ${canary()}` };
    if (last.includes('fail')) return { error: { status: 400, message: `refused for ${canary()}` } };
    const calls = ['long', 'throws'].map((name) => ({ name, input: { word: `name ${canary()}`, [`k`]: [canary()] } }));
    return { thinking: `hm ${canary()}`, text: `I look ${canary()}`, toolUse: calls };
  }) as ModelProvider;
}

function redacting(redact: RedactFunction, options: TestOptions = {}): TestOptions {
  return { redact, threads: { sessions: 0, models: 0 }, ...options };
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('G46: a word that the function hides is in no file, event, request, message and log line', async () => {
    const directory = await kit.directory();
    const requests: ModelRequest[] = [];
    const inputs: unknown[] = [];
    const lines: unknown[] = [];
    const note = (fields: object, message: string): void => void lines.push([fields, message]);
    const runtime = await kit.open({
      directory,
      threads: { ...threads, tools: 1 },
      redact: REDACT,
      provider: leakyModel(requests),
      logger: { debug: note, info: note, warn: note, error: note },
      agents: [
        agent({
          name: 'writer',
          tools: leakyTools(inputs),
          thinking: { type: 'adaptive' },
          system: () => `You know ${canary()}.`,
        }),
      ],
    });
    const session = runtime.session('one');
    const events: SessionEvent[] = [];
    const reader = (async () => {
      for await (const event of session.events({ after: 0 })) events.push(event);
    })();
    await session.ask(`I am ${canary()}`, { key: 'k1' });
    await session.ask([
      { type: 'text', text: `and ${canary()}` },
      {
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: `a file of ${canary()}` },
        title: canary(),
      },
    ]);
    await session.history.add({ role: 'user', content: `earlier ${canary()}`, note: { of: canary() } });
    const call = { callId: 'c9', name: 'long', arguments: JSON.stringify({ word: canary() }) };
    await session.history.add({ role: 'assistant', content: canary(), toolCalls: [call] });
    await session.history.add({ role: 'tool', content: canary(), toolCallId: 'c9', name: 'long' });
    await session.history.add({ role: 'user', content: `shown ${canary()}`, transient: true });
    await session.goals.create({ description: `reach ${canary()}` });
    const child = await session.spawn({ task: `A task about ${canary()}`, name: 'helper' }, { key: 'k2' });
    await child.reply();
    await session.interrupt(`because of ${canary()}`);
    await session.history.startTask(`branch ${canary()}`);
    await session.ask('the last word');
    // Comes last, because a refused request blocks its session.
    await failure(session.ask(`fail for ${canary()}`));
    expect((await runtime.search(HIDDEN)).found.length).toBeGreaterThan(0);
    const shown = [await session.messages(), await session.history.messages(), await session.request()];
    await eventually(() => events.some(({ type }) => type === 'tool.progress'));
    await runtime.close();
    await reader;

    expect(inputs.length).toBeGreaterThan(2);
    expect(inputs).toEqual(inputs.map(() => `name ${HIDDEN}`));
    expect(JSON.stringify(requests)).toContain(HIDDEN);
    expect(JSON.stringify(requests)).not.toContain('canary-');
    expect(JSON.stringify(events)).toContain(HIDDEN);
    expect(JSON.stringify(events)).not.toContain('canary-');
    expect(JSON.stringify(shown)).not.toContain('canary-');
    expect(lines.length).toBeGreaterThan(0);
    expect(JSON.stringify(lines, hideErrors)).not.toContain('canary-');
    const results = await readdir(join(directory, 'results'), { recursive: true, withFileTypes: true });
    const files = await Promise.all(
      results.filter((each) => each.isFile()).map((each) => readFile(join(each.parentPath, each.name), 'utf8')),
    );
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) expect(file).toContain(HIDDEN);
    expect((await storedTexts(directory)).filter(({ text }) => text.includes('canary-'))).toEqual([]);
  });
});

/** Errors in a logged line have their message and stack outside of their own members. */
function hideErrors(_name: string, value: unknown): unknown {
  return value instanceof Error ? { message: value.message, stack: value.stack } : value;
}

describe('the function', () => {
  test('G46: sees the kind, the session, its agent and its tenant', async () => {
    const seen = new Map<string, RedactionSource>();
    const redact: RedactFunction = (text, source) => {
      seen.set(source.kind, source);
      return text;
    };
    const runtime = await kit.open(
      redacting(redact, { provider: leakyModel([]), agents: [agent({ name: 'writer', tools: leakyTools([]) })] }),
    );
    await runtime.tenant('acme').session('one', 'writer').ask('hello');
    const source = { session: 'acme~one', agent: 'writer', tenant: 'acme' };
    for (const kind of ['message', 'answer', 'tool_input', 'tool_result'] as const) {
      expect(seen.get(kind)).toEqual({ kind, ...source });
    }
  });

  test('G46: a message whose redaction fails is refused, quotes nothing, and is not stored', async () => {
    const directory = await kit.directory();
    const secret = 'hunter2';
    const redact: RedactFunction = (text) => {
      if (text.includes('twice')) return text.repeat(REDACTED_CHARACTERS_MIN);
      if (text.includes('later')) return Promise.resolve(text) as unknown as string;
      if (text.includes(secret)) throw new TypeError(`cannot handle ${text}`);
      return text;
    };
    const runtime = await kit.open(redacting(redact, { directory, provider: scripted(['fine', 'fine']) }));
    const session = runtime.session('one');
    for (const text of [`my ${secret}`, `twice ${secret}`, `later ${secret}`]) {
      const error = await failure(session.send(text));
      expect(error).toBeInstanceOf(RedactionError);
      expect(error).toMatchObject({ code: 'redaction_failed', data: { key: 'redact', kind: 'message' } });
      expect(JSON.stringify([error.message, error.stack, error.cause])).not.toContain(secret);
    }
    expect(await session.ask('hello')).toBe('fine');
    expect((await session.messages()).map(({ content }) => content)).toEqual(['hello', 'fine']);
    await runtime.close();
    expect((await storedTexts(directory)).filter(({ text }) => text.includes(secret))).toEqual([]);
  });

  test('G46: an answer, a result and a thought whose redaction fails are not stored', async () => {
    const redact: RedactFunction = (text) => {
      if (text.includes('hunter2')) throw new Error(text);
      return text;
    };
    const tools = [
      tool({ name: 'tell', description: 'Tells.', effect: 'pure', input: z.object({}), run: () => 'it is hunter2' }),
    ];
    const requests: ModelRequest[] = [];
    const provider = scripted((request) => {
      requests.push(request);
      const last = JSON.stringify(request.messages.at(-1));
      if (last.includes('tell')) return { toolUse: { name: 'tell', input: {} } };
      return last.includes('tool_result') ? 'I see' : 'it is hunter2';
    });
    const runtime = await kit.open(redacting(redact, { provider, agents: [agent({ name: 'a', tools })] }));
    const session = runtime.session('one');
    const error = await failure(session.ask('say it'));
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(error.cause).toMatchObject({ code: 'redaction_failed' });
    expect((await session.usage()).lost).toBeDefined();
    expect(await session.ask('tell it')).toBe('I see');
    const result = (await session.messages()).find(({ type }) => type === 'tool_response');
    expect(result).toMatchObject({ success: false, content: expect.stringContaining('redaction_failed') as string });
    expect(JSON.stringify([await history(session), requests])).not.toContain('hunter2');
  });

  test('G46: the same key with the same text is the same message, and with another text is refused', async () => {
    const runtime = await kit.open({ redact: REDACT, provider: scripted(['fine']) });
    const session = runtime.session('one');
    const first = await session.send('I am canary-1', { key: 'k' });
    expect((await session.send('I am canary-1', { key: 'k' })).id).toBe(first.id);
    expect(await failure(session.send('I was canary-1', { key: 'k' }))).toMatchObject({ code: 'key_reused' });
    expect(await first.answer()).toBe('fine');
  });

  test('G46: a text that becomes blank is replaced, because a blank text would be refused', async () => {
    const runtime = await kit.open(redacting((text) => text.replace('gone', ''), { provider: scripted(['gone']) }));
    expect(await runtime.session('one').ask('gone')).toBe('[redacted]');
    expect((await runtime.session('one').messages()).map(({ content }) => content)).toEqual([
      '[redacted]',
      '[redacted]',
    ]);
  });

  test('G46: a function on session threads, and a module without one, are refused with the remedy', async () => {
    const crossing = kit.open({ redact: (text) => text, threads: { sessions: 1 } });
    expect(await failure(crossing)).toMatchObject({ message: expect.stringContaining('URL of a module') as string });
    const empty = kit.open({ redact: new URL('../fixtures/tools.ts', import.meta.url) });
    expect(await failure(empty)).toBeInstanceOf(ConfigError);
    expect(await failure(kit.open({ redact: 'x' as unknown as URL }))).toBeInstanceOf(ConfigError);
  });
});

/** A call that the test streams by hand. */
interface StreamedCall {
  readonly context: GenerateContext;
  answer(content: readonly Readonly<Record<string, unknown>>[]): void;
  fail(): void;
}

describe('a streamed answer', () => {
  const calls = queue<StreamedCall>();
  const provider: ModelProvider = {
    name: 'streamed',
    generate: (_request, context) =>
      new Promise<ModelResponse>((resolve, reject) => {
        calls.put({
          context,
          answer: (content) =>
            resolve({ content: content as unknown as ModelResponse['content'], stop_reason: 'end_turn', usage: USAGE }),
          fail: () => reject(new ModelError('model_protocol', `cut at ${canary()}`)),
        });
      }),
  };

  test('G46: a secret that deltas cut in two is published whole and redacted', async () => {
    const runtime = await kit.open(redacting(redactCanary, { provider }));
    const session = runtime.session('one');
    const events: SessionEvent[] = [];
    const receipt = await session.send('go');
    const reader = (async () => {
      for await (const event of session.events({ after: 0, until: receipt })) events.push(event);
    })();
    const call = await calls.take();
    for (const text of ['it is cana', 'ry-', '7x', ' indeed']) call.context.onDelta({ type: 'text', text });
    call.answer([{ type: 'text', text: 'it is canary-7x indeed' }]);
    await reader;
    const deltas = events.flatMap((event) => (event.type === 'text.delta' ? [event.text] : []));
    expect(deltas).toEqual([`it is ${HIDDEN} indeed`]);
    expect(await receipt.answer()).toBe(`it is ${HIDDEN} indeed`);
  });

  test('G46: a lost answer keeps the texts that were whole, and not the one that the failure cut', async () => {
    const runtime = await kit.open(redacting(redactCanary, { provider }));
    const session = runtime.session('one');
    const receipt = await session.send('go');
    const call = await calls.take();
    call.context.onDelta({ type: 'thinking', text: 'about canary-8x' });
    call.context.onDelta({ type: 'text', text: 'it is canar' });
    call.fail();
    expect(await failure(receipt.answer())).toBeInstanceOf(TurnFailedError);
    const lost = (await history(session)).find(({ type }) => type === 'llm.lost');
    expect(lost).toMatchObject({ text: '', thinking: `about ${HIDDEN}`, truncated: true });
    expect(JSON.stringify(await history(session))).not.toContain('canar');
  });

  test('G46: a thought that would change is left out, and the texts beside it stay', async () => {
    const runtime = await kit.open(redacting(redactCanary, { provider }));
    const session = runtime.session('one');
    const receipt = await session.send('go');
    const signed = (thinking: string) => ({ type: 'thinking', thinking, signature: 'c2lnbmVk' });
    (await calls.take()).answer([signed('about canary-9x'), { type: 'text', text: 'fine' }]);
    expect(await receipt.answer()).toBe('fine');
    const again = await session.send('again');
    (await calls.take()).answer([signed('about you'), { type: 'text', text: 'canary-9x' }]);
    expect(await again.answer()).toBe(HIDDEN);
    const reasoning = (await session.history.messages()).map((message) => Reflect.get(message, 'reasoning'));
    expect(JSON.stringify(reasoning)).toContain('about you');
    expect(JSON.stringify(reasoning)).not.toContain('about canary');
  });
});
