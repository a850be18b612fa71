/**
 * Goal: rows of the contract that need the whole runtime, or a runtime without one of its parts. Method: the public API
 * over scripted models.
 */
import { readFileSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { agent, type OpenOptions, open, type Runtime, type SessionEvent, tool } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import { scripted } from '../../src/testing/scripted.ts';

const runtimes: Runtime[] = [];
afterEach(async () => {
  await Promise.all(runtimes.splice(0).map((runtime) => runtime.close({ deadlineMs: 0 })));
});

async function start(options: OpenOptions): Promise<Runtime> {
  const runtime = await open(':memory:', { threads: { sessions: 0, models: 0 }, ...options });
  runtimes.push(runtime);
  return runtime;
}

async function eventsOf(iterable: AsyncIterable<SessionEvent>): Promise<readonly SessionEvent[]> {
  const events: SessionEvent[] = [];
  for await (const event of iterable) events.push(event);
  return events;
}

it('F012: without an enricher no session is ever preparing; a user message goes straight to its half-step', async () => {
  const runtime = await start({ provider: scripted(['one', 'two']) });
  const session = runtime.session('s');
  await session.ask('first');
  const receipt = await session.send('second');
  await receipt.answer();
  const events = await eventsOf(session.events({ after: 0, until: receipt }));
  const states = events.filter((event) => event.type === 'session.state');
  expect(states.map((event) => event.state)).toEqual(['awaiting', 'idle', 'awaiting', 'idle']);
  expect(states.filter((event) => event.phase !== undefined)).toEqual([]);
});

it('F048: a child makes its half-steps with llm.subagentModel', async () => {
  const models = new Map<string, string>();
  const reply = (request: ModelRequest, { session }: { readonly session: string }): string => {
    models.set(session, request.model);
    return 'done';
  };
  const runtime = await start({
    provider: scripted(reply),
    agents: [agent({ name: 'a', model: 'claude-opus-4-6' })],
    settings: { llm: { subagentModel: 'claude-sonnet-4-6' } },
  });
  const session = runtime.session('s');
  const child = await session.spawn({ task: 'work' });
  await child.reply();
  await runtime.drain();
  expect(models.get('s')).toBe('claude-opus-4-6');
  expect(models.get(child.id)).toBe('claude-sonnet-4-6');
});

it('F064: 100 lines over the threshold become the first and last 10 lines and a notice; the file named holds all', async () => {
  const whole = Array.from({ length: 100 }, (_unused, index) => `line ${index + 1} ${'x'.repeat(100)}`).join('\n');
  const list = tool({
    name: 'list',
    description: 'Lists a lot.',
    input: { type: 'object', properties: {} },
    effect: 'pure',
    run: () => whole,
  });
  const runtime = await start({
    provider: scripted([{ toolUse: { name: 'list', input: {} } }, 'done']),
    agents: [agent({ name: 'a', tools: [list] })],
  });
  const session = runtime.session('s');
  await session.ask('go');
  const response = (await session.messages()).find((message) => message.type === 'tool_response');
  const text = String(response?.content);
  const lines = whole.split('\n');
  expect(text.startsWith(lines.slice(0, 10).join('\n'))).toBe(true);
  expect(text.endsWith(lines.slice(-10).join('\n'))).toBe(true);
  expect(text).toContain('Response truncated');
  expect(text).toContain('100 lines total');
  const file = /saved to: (\S+tool_result_[\w-]+\.txt)/.exec(text)?.[1] ?? '';
  expect(readFileSync(file, 'utf8')).toBe(whole);
});

it('F119: a child whose traces were evicted is hidden, and shown again with its next delivery', async () => {
  // A small budget: a few long messages push all earlier ones out of the window.
  const reply = (request: ModelRequest, { session }: { readonly session: string }): string => {
    if (session.includes(':')) return `word ${request.messages.length}`;
    return JSON.stringify(request.messages.at(-1)).includes('call it') ? '@ada say it again' : 'noted';
  };
  const runtime = await start({
    provider: scripted(reply),
    agents: [agent({ name: 'a', tokenBudget: 1_000 })],
  });
  const session = runtime.session('s');
  const child = await session.spawn({ task: 'work', name: 'ada' });
  await child.reply();
  await runtime.drain();
  for (let turn = 0; turn < 6; turn += 1) await session.ask(`${turn} ${'x'.repeat(1_200)}`);
  const receipt = await session.send('call it');
  await receipt.answer();
  await runtime.drain();
  const { seq } = await session.state();
  const events = await eventsOf(session.events({ after: 0, until: seq }));
  const types = events.map((event) => event.type);
  expect(types.filter((type) => type === 'subagent.evicted')).toHaveLength(1);
  const hidden = types.indexOf('subagent.evicted');
  const shown = events.findIndex((event, index) => index > hidden && event.type === 'children.updated');
  expect(shown).toBeGreaterThan(hidden);
  expect(events[shown]).toMatchObject({ children: [{ id: child.id, name: 'ada' }] });
});
