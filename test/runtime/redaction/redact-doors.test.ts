/**
 * Goal E8: every way by which a value enters a runtime with `redact` (G46). Method: each test brings a canary by some of
 * the ways, and then looks for canaries in everything that left the runtime (`redacted-scene.ts`). Spans layers.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  anthropic,
  type HistoryMessage,
  type ModelRequest,
  mcpTools,
  serverTool,
  tool,
} from '../../../src/index.ts';
import { strictFake } from '../../../src/testing/strict-fake.ts';
import { askHuman, search_messages } from '../../../src/tools/built-in/index.ts';
import { eventually, failure, history, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';
import { effectsKit } from '../../tools/mcp/support.ts';
import { canary, HIDDEN, redactedScene } from './redacted-scene.ts';

const kit = runtimeKit();
const effects = effectsKit();

/** The last message of a request as a text. */
function lastOf({ messages }: ModelRequest): string {
  return JSON.stringify(messages.at(-1));
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('G46: decisions of persons: a reason, a changed input, an answer and a refusal', async () => {
    const inputs: unknown[] = [];
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      effect: 'keyed',
      input: z.object({ to: z.string() }),
      run: (input) => {
        inputs.push(input);
        return `paid for ${canary()}`;
      },
    });
    const place = z.object({ town: z.string() });
    const scene = await redactedScene(kit, {
      threads,
      agents: [
        agent({
          name: 'a',
          tools: [pay, askHuman(), askHuman({ name: 'ask_place', answer: place })],
          approve: ['pay'],
        }),
      ],
      model: (request) => {
        if (lastOf(request).includes('tool_result')) return `done with ${canary()}`;
        const to = { to: `of ${canary()}` };
        const question = { question: `Who is ${canary()}?` };
        return {
          toolUse: [
            { id: 'changed', name: 'pay', input: to },
            { id: 'denied', name: 'pay', input: to },
            { id: 'text', name: 'ask_human', input: question },
            { id: 'form', name: 'ask_place', input: question },
            { id: 'declined', name: 'ask_human', input: question },
          ],
        };
      },
    });
    const { session, runtime } = scene;
    const receipt = await session.send('go');
    await eventually(async () => (await runtime.waiting()).items.length === 5);
    expect(JSON.stringify((await runtime.waiting()).items)).not.toContain('canary-');
    await session.approve('changed', {
      allow: true,
      reason: `because ${canary()}`,
      input: { to: canary() },
      by: 'ada',
    });
    await session.answer('text', `it is ${canary()}`);
    const answer = { town: canary() };
    expect(await session.answer('form', answer)).toBe(true);
    expect(await session.answer('form', answer)).toBe(true);
    await session.decline('declined', `not ${canary()}`);
    await session.approve('denied', { allow: false, reason: `no ${canary()}` });
    await receipt.answer();
    expect(inputs).toEqual([{ to: HIDDEN }]);
    const { hooks, stored, requests } = await scene.end();
    expect(JSON.stringify(hooks)).toContain(HIDDEN);
    expect(stored.filter((text) => text.includes(' audit: ')).length).toBeGreaterThan(4);
    expect(JSON.stringify(requests.at(-1))).toContain(`no ${HIDDEN}`);
  });

  test('G46: guardrails are given redacted values, and what they change, refuse and throw is redacted', async () => {
    const given: unknown[] = [];
    let mode: 'transform' | 'block before' | 'block after' | 'throw' = 'transform';
    const scene = await redactedScene(kit, {
      threads,
      agents: [
        agent({
          name: 'a',
          guardrails: {
            before: [
              ({ messages }) => {
                given.push(messages);
                if (mode === 'block before') return { block: `blocked for ${canary()}` };
                if (mode === 'throw') throw new Error(`the guardrail met ${canary()}`);
                const noted = (message: HistoryMessage): HistoryMessage =>
                  message.role === 'user' ? { ...message, content: `noted ${canary()}`, extra: canary() } : message;
                return { transform: messages.map(noted) };
              },
            ],
            after: [
              ({ message }) => {
                given.push(message);
                if (mode === 'block after') return { block: `blocked for ${canary()}` };
                return { transform: { ...message, content: `changed to ${canary()}` } };
              },
            ],
          },
        }),
      ],
      model: () => `answered with ${canary()}`,
    });
    const { session } = scene;
    expect(await session.ask(`I am ${canary()}`)).toBe(`changed to ${HIDDEN}`);
    for (const next of ['block before', 'block after', 'throw'] as const) {
      mode = next;
      const error = await failure(session.ask('again'));
      expect(JSON.stringify([error.message, error.cause, Reflect.get(error, 'data')])).not.toContain('canary-');
    }
    expect(given).toHaveLength(6);
    expect(JSON.stringify(given)).toContain(`I am ${HIDDEN}`);
    expect(JSON.stringify(given)).toContain(`answered with ${HIDDEN}`);
    expect(JSON.stringify(given)).not.toContain('canary-');
    await scene.end();
  });

  test('G46: an imported history with calls, results, thoughts and own members', async () => {
    const scene = await redactedScene(kit, { threads });
    const { session } = scene;
    const call = (id: string) => ({
      callId: id,
      name: 'look',
      arguments: JSON.stringify({ at: canary(), [`k`]: [canary()] }),
    });
    await session.history.seed([
      { role: 'user', content: `I am ${canary()}`, note: { of: [canary()] } },
      {
        role: 'assistant',
        content: `So ${canary()}`,
        toolCalls: [call('c1'), call('c2')],
        reasoning: [{ type: 'text', text: canary() }],
      },
      { role: 'tool', content: canary(), toolCallId: 'c1', name: 'look' },
      { role: 'user', content: [{ type: 'text', text: canary() }] },
    ] as unknown as readonly HistoryMessage[]);
    await session.ask('and now');
    await session.history.replaceAll([{ role: 'user', content: `other ${canary()}` }] as never);
    await session.history.replaceSystemPrompt(`You know ${canary()}`);
    await session.history.addExtensionEvent({ of: canary() } as never);
    const [first] = await session.history.messages();
    await session.history.update({ id: first?.id ?? '' }, { content: `corrected ${canary()}` });
    await session.ask('the last word');
    const { requests } = await scene.end();
    expect(JSON.stringify(requests)).toContain(`I am ${HIDDEN}`);
    expect(JSON.stringify(requests.at(-1))).toContain(HIDDEN);
  });

  test('G46: what enrichers read from files, and what they ask and set', async () => {
    const root = await kit.directory();
    await mkdir(join(root, 'skills'));
    const text = `---\nname: baking\ndescription: about ${canary()}\n---\nKnead ${canary()}.\n`;
    await writeFile(join(root, 'skills', 'baking.md'), text);
    const enricher = 'claude-haiku-4-5';
    const scene = await redactedScene(kit, {
      threads,
      skills: join(root, 'skills'),
      enrichers: { melete: { model: enricher }, mneme: { model: enricher } },
      settings: { llm: { tokenBudget: 1_000 } },
      model: (request) => {
        if (request.model !== enricher) return `fine ${canary()} ${'y'.repeat(400)}`;
        if (JSON.stringify(request.tools).includes('save_snapshot')) {
          return request.messages.length === 1
            ? { toolUse: { name: 'save_snapshot', input: { text: `They spoke of ${canary()}.` } } }
            : `saved ${canary()}`;
        }
        const steps = [
          { toolUse: { name: 'activate_skill', input: { skill_name: 'baking' } } },
          { toolUse: { name: 'set_goal', input: { description: `a loaf for ${canary()}` } } },
          { toolUse: { name: 'rename_session', input: { emoji: '🍞', name: `Bread ${canary()}` } } },
          { toolUse: { name: 'everything_is_ready', input: {} } },
        ];
        return steps[Math.floor(request.messages.length / 2)] ?? 'done';
      },
    });
    const { session } = scene;
    for (let turn = 0; turn < 6; turn += 1) await session.ask(`bake for ${canary()} ${'x'.repeat(400)}`);
    const { requests, events } = await scene.end();
    expect(events.some(({ type }) => type === 'eviction')).toBe(true);
    expect(JSON.stringify(requests)).toContain(`Knead ${HIDDEN}`);
    expect(JSON.stringify(requests)).toContain(`They spoke of ${HIDDEN}`);
    expect(JSON.stringify(events)).toContain(`a loaf for ${HIDDEN}`);
  });

  test('G46: the edits of an upgrade function, and its error', async () => {
    const directory = await kit.directory();
    const first = await redactedScene(kit, { threads, directory, agents: [agent({ name: 'a', version: '1' })] });
    await first.session.ask(`I am ${canary()}`);
    await first.end();
    const seen: unknown[] = [];
    const upgrading = agent({
      name: 'a',
      version: '2',
      upgrade: ({ messages }) => {
        seen.push(messages);
        if (seen.length === 1) throw new Error(`cannot move ${canary()}`);
        return [
          { operation: 'add', message: { role: 'user', content: `added ${canary()}` } },
          { operation: 'update', id: messages[0]?.id ?? '', attributes: { content: `updated ${canary()}` } },
          { operation: 'replaceSystemPrompt', text: `You are ${canary()}` },
        ];
      },
    });
    const scene = await redactedScene(kit, { threads, directory, agents: [upgrading] });
    const receipt = await scene.session.send('and now');
    await eventually(async () => (await scene.session.state()).blocked !== undefined);
    expect((await scene.session.state()).blocked?.message).toContain(HIDDEN);
    await scene.session.resume();
    await receipt.answer();
    expect(JSON.stringify(seen)).toContain(`I am ${HIDDEN}`);
    expect(JSON.stringify(seen)).not.toContain('canary-');
    const { requests } = await scene.end();
    expect(JSON.stringify(requests.at(-1))).toContain(`updated ${HIDDEN}`);
  });

  test('G46: failures of a provider, a system function, a predicate, a tool and a callback, with their stacks', async () => {
    const schema = z.object({});
    const throws = tool({
      name: 'throws',
      description: 'Throws.',
      effect: 'pure',
      input: schema,
      run: () => {
        throw Object.assign(new TypeError(`no ${canary()}`), { detail: canary(), cause: new Error(canary()) });
      },
    });
    let prompts = 0;
    const scene = await redactedScene(kit, {
      threads,
      agents: [
        agent({
          name: 'a',
          tools: [throws],
          system: () => {
            prompts += 1;
            if (prompts === 1) throw new Error(`no prompt for ${canary()}`);
            return `You know ${canary()}`;
          },
          approve: ({ input }) => {
            if (JSON.stringify(input).includes('refuse')) throw new Error(`cannot judge ${canary()}`);
            return false;
          },
        }),
      ],
      model: (request) => {
        const last = lastOf(request);
        if (last.includes('refused')) return { error: { status: 400, message: `refused for ${canary()}` } };
        if (last.includes('crash')) throw new RangeError(`the provider met ${canary()}`);
        if (last.includes('tool_result')) return 'seen';
        return { toolUse: { name: 'throws', input: last.includes('judge') ? { refuse: canary() } : {} } };
      },
    });
    const { session } = scene;
    session.onMessage(({ role }) => {
      throw new Error(`the callback met ${canary()} of ${role}`);
    });
    await failure(session.ask('first'));
    expect(await session.ask('tool')).toBe('seen');
    await failure(session.ask('judge'));
    await session.history.discardPendingToolCalls();
    await failure(session.ask('crash'));
    await failure(session.ask('refused'));
    const { lines } = await scene.end();
    const text = JSON.stringify(lines);
    for (const part of ['no prompt', 'the callback met', 'TypeError', 'refused for']) expect(text).toContain(part);
  });

  test('G46: a message over HTTP, a message of a structured answer, its schema and the answer', async () => {
    const scene = await redactedScene(kit, {
      threads,
      model: (request) => (lastOf(request).includes('Which') ? JSON.stringify({ town: canary() }) : `fine ${canary()}`),
    });
    const { session, url } = scene;
    const posted = await fetch(`${url}/sessions/one/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: [{ type: 'text', text: `I am ${canary()} ${'x'.repeat(100_000)}` }], key: 'k' }),
    });
    expect(posted.status).toBe(202);
    const output = {
      type: 'object',
      title: `Of ${canary()}`,
      properties: { town: { type: 'string', description: `near ${canary()}` } },
      required: ['town'],
      additionalProperties: false,
    } as const;
    const receipt = await session.send(`Which ${canary()}?`, { output, key: 'o' });
    expect(await receipt.answer()).toEqual({ town: HIDDEN });
    const child = await session.spawn({ task: `Which ${canary()}?`, output }, { key: 'c' });
    expect(await child.reply()).toEqual({ town: HIDDEN });
    const { requests } = await scene.end();
    expect(JSON.stringify(requests)).toContain(`near ${HIDDEN}`);
  });

  test('G46: earlier messages that a model searches and views', async () => {
    const results: string[] = [];
    const scene = await redactedScene(kit, {
      threads,
      agents: [agent({ name: 'a', tools: [search_messages] })],
      model: (request) => {
        const last = lastOf(request);
        if (last.includes('tool_result')) {
          results.push(last);
          return `found ${canary()}`;
        }
        return last.includes('look')
          ? { toolUse: { name: 'search_messages', input: { query: `lisbon ${canary()}` } } }
          : 'fine';
      },
    });
    const { runtime, session } = scene;
    await session.ask(`Lisbon is ${canary()}`);
    await session.ask('look');
    expect((await runtime.search('hidden')).found.length).toBeGreaterThan(0);
    await scene.end();
    expect(results).toHaveLength(1);
  });
});

test('G46: the text with which a provider refuses the credentials, for all sessions that wait because of it', async () => {
  const scene = await redactedScene(kit, {
    model: () => ({ error: { status: 401, message: `the key of ${canary()} has ended` } }),
  });
  const { session, runtime } = scene;
  await failure(session.ask('one'));
  const waiting = runtime.session('two');
  await waiting.send('two');
  await eventually(async () => (await waiting.state()).blocked !== undefined);
  expect((await waiting.state()).blocked?.message).toContain(`the key of ${HIDDEN} has ended`);
  expect(JSON.stringify([await waiting.explain(), await session.explain()])).not.toContain('canary-');
  await waiting.interrupt();
  const { lines } = await scene.end();
  expect(JSON.stringify(lines)).toContain(`the key of ${HIDDEN}`);
});

test('G46: a question of an MCP server, its schema, its result, and the text with which a server ends', async () => {
  const recorded = await effects();
  const ending = {
    command: process.execPath,
    args: ['-e', `console.error('no key for ${canary()}'); process.exit(1)`],
  };
  const scene = await redactedScene(kit, {
    mcp: { s: recorded.asking(), ending },
    agents: [agent({ name: 'a', tools: [mcpTools('s')] })],
    model: (request) =>
      lastOf(request).includes('tool_result')
        ? 'done'
        : { toolUse: { id: 'call_1', name: 's__reveal', input: { id: `of ${canary()}` } } },
  });
  const { session, runtime } = scene;
  const receipt = await session.send('go');
  await eventually(async () => (await runtime.waiting()).items.length === 1);
  expect(JSON.stringify((await runtime.waiting()).items)).toContain(`near ${HIDDEN}`);
  expect(await session.answer('call_1', { place: HIDDEN, note: `to ${canary()}` })).toBe(true);
  expect(await receipt.answer()).toBe('done');
  const runs = (await recorded.lines()).filter((line) => line.startsWith('reveal'));
  expect(runs).toHaveLength(2);
  expect(runs.join()).not.toContain('canary-');
  const { events, lines } = await scene.end();
  expect(JSON.stringify(events)).toContain(`revealed ${HIDDEN}`);
  expect(JSON.stringify(lines)).toContain(`no key for ${HIDDEN}`);
});

test('G46: over message threads, an answer that changed is not continued: the next request is whole and redacted', async () => {
  const fake = await strictFake({ script: ['fine', () => `it is ${canary()}`, 'fine', 'fine'] as never });
  const scene = await redactedScene(kit, {
    agents: [agent({ name: 'a', model: 'claude-opus-5-5', system: 'Be brief.' })],
    settings: { llm: { threads: true } },
    provider: anthropic({ apiKey: 'test', baseURL: fake.url, listModels: false }),
  });
  try {
    for (const text of ['one', 'two', 'three', 'four']) await scene.session.ask(`${text} ${canary()}`);
    const sent = (await history(scene.session)).flatMap((event) => (event.type === 'llm.thread' ? [event.thread] : []));
    expect(sent).toEqual([]);
    expect(fake.requests.map(({ messages }) => messages.length)).toEqual([1, 1, 5, 1]);
    expect(JSON.stringify(fake.requests)).not.toContain('canary-');
    expect(fake.violations).toEqual([]);
    await scene.end();
  } finally {
    await fake.close();
  }
});

test('G46: a paused answer that changed ends its turn, and the next request has no call of the provider without a result', async () => {
  const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } };
  const paused = { content: [{ type: 'text', text: `Looking for ${canary()}. ` }, search], stop_reason: 'pause_turn' };
  const fake = await strictFake({ script: [paused, 'Found.'] as never });
  const scene = await redactedScene(kit, {
    agents: [agent({ name: 'a', tools: [serverTool({ type: 'web_search_20250305' })] })],
    provider: anthropic({ apiKey: 'test', baseURL: fake.url, listModels: false }),
  });
  try {
    expect(await scene.session.ask('go')).toBe(`Looking for ${HIDDEN}. `);
    expect(await scene.session.ask('and')).toBe('Found.');
    expect(fake.requests).toHaveLength(2);
    expect(JSON.stringify(fake.requests[1])).not.toContain('srvtoolu_1');
    expect(fake.violations).toEqual([]);
    await scene.end();
  } finally {
    await fake.close();
  }
});
