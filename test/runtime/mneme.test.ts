/**
 * Goal: Mneme summarises messages that leave the window, through the public API. No message is lost without a summary,
 * and every request is within the budget.
 */
import { describe, expect, test } from 'vitest';
import { agent, type OpenOptions } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ReplyFunction } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/index.ts';
import { think } from '../../src/tools/built-in/think.ts';
import { tool } from '../../src/tools/tool.ts';
import { collect, eventually, failure, gatedModel, history, log, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const MNEME = 'claude-haiku-4-5';
const BUDGET = 1_000;
const WINDOW = 950;
const enrichers = { mneme: { model: MNEME } };
const settings = { llm: { tokenBudget: BUDGET } };
const SAVED: Reply = { toolUse: { name: 'save_snapshot', input: { text: 'They spoke at length.' } } };
/** A text of that many tokens. */
const words = (tokens: number, letter = 'x'): string => letter.repeat(tokens * 4);

/** The main model answers with a hundred tokens; Mneme makes the replies of `enricher`, or saves and stops. */
function model(
  seen: { readonly main: ModelRequest[]; readonly enricher: ModelRequest[] },
  enricher?: ReplyFunction,
): ReplyFunction {
  return (request, context) => {
    if (request.model !== MNEME) {
      seen.main.push(request);
      return words(100, 'y');
    }
    seen.enricher.push(request);
    if (enricher !== undefined) return enricher(request, context);
    return request.messages.length === 1 ? SAVED : 'done';
  };
}

const nothingSeen = (): { main: ModelRequest[]; enricher: ModelRequest[] } => ({ main: [], enricher: [] });

function tokensOf({ messages }: ModelRequest): number {
  let tokens = 0;
  for (const { content } of messages) {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    for (const block of blocks)
      if (block.type === 'text') tokens += Math.ceil(Buffer.byteLength(String(block.text)) / 4);
  }
  return tokens;
}

describe.each(MATRIX)('threads %o', (threads) => {
  const open = (options: OpenOptions) => kit.open({ threads, enrichers, settings, ...options });

  test('a long conversation stays within the budget, is summarised, and is byte-stable between summaries', async () => {
    const seen = nothingSeen();
    const runtime = await open({
      provider: scripted(model(seen)),
      agents: [agent({ name: 'main', system: 'Be brief.' })],
    });
    const session = runtime.session('s');
    for (let turn = 0; turn < 12; turn += 1) await session.ask(words(100));
    await runtime.drain();
    expect(seen.main).toHaveLength(12);
    for (const request of seen.main) expect(tokensOf(request)).toBeLessThanOrEqual(WINDOW);
    // 330 tokens leave at a time: three messages, so that the window begins with an answer and with a question in turn.
    const below = (await history(session)).flatMap((event) => (event.type === 'eviction' ? [event.below] : []));
    expect(below.length).toBeGreaterThanOrEqual(4);
    expect(below).toEqual([...below].sort((a, b) => a - b));
    expect(seen.main.at(-1)?.system).toContain('## Recent Memory\n\nThey spoke at length.');
    expect(seen.main[0]?.system).not.toContain('Memory\n\n');
    // The system prompt changes when the memory changes, and at no other time.
    let changes = 0;
    for (const [index, { system }] of seen.main.entries())
      if (index > 0 && system !== seen.main[index - 1]?.system) changes += 1;
    expect(changes).toBeLessThanOrEqual(below.length + 1);
    const asked = await session.messages();
    expect(asked.filter(({ type }) => type === 'user_message')).toHaveLength(12);
  });

  test('F097: a summary request has messages and thoughts, and of tools only the number of calls', async () => {
    const seen = nothingSeen();
    const look = tool({
      name: 'look',
      description: 'Looks.',
      input: { type: 'object' },
      effect: 'pure',
      run: () => 'a secret',
    });
    let step = 0;
    const provider = scripted((request, context) => {
      if (request.model === MNEME) return model(seen)(request, context);
      step += 1;
      if (step === 1) return { toolUse: { name: 'think', input: { thoughts: 'where to begin' } } };
      if (step === 2) return { toolUse: [{ name: 'look' }, { name: 'look' }] };
      if (step === 3) return { toolUse: { name: 'look' } };
      return words(200, 'y');
    });
    const runtime = await open({ provider, agents: [agent({ name: 'main', tools: [think, look] })] });
    const session = runtime.session('s');
    await session.goals.create({ description: 'find it' });
    await session.ask('find the thing');
    for (let turn = 0; turn < 5; turn += 1) await session.ask(words(100));
    await eventually(() => seen.enricher.length > 0);
    const [first] = seen.enricher;
    const text = JSON.stringify(first?.messages[0]?.content);
    expect(text).toMatch(/EVICTION ZONE\\n=+\\n/u);
    expect(text).toMatch(/message \d+ User: find the thing/u);
    expect(text).toMatch(/message \d+ Think: where to begin/u);
    expect(text).toContain('[3 tools called]');
    expect(text).not.toContain('a secret');
    expect(text).toContain('CONTEXT\\n=======\\n');
    expect(text).toContain('goal 1: find it');
    expect(first?.max_tokens).toBe(2_048);
    expect(first?.tools?.map(({ name }) => name)).toEqual([
      'save_snapshot',
      'attach_messages_to_goals',
      'everything_ok',
    ]);
  });

  test('pinned messages stay in the request after they left the window', async () => {
    const seen = nothingSeen();
    const pin: Reply = { toolUse: { name: 'attach_messages_to_goals', input: { message_ids: [3], goal_ids: [1] } } };
    const runtime = await open({
      provider: scripted(
        model(seen, ({ messages }) => (messages.length === 1 ? pin : messages.length === 3 ? SAVED : 'done')),
      ),
    });
    const session = runtime.session('s');
    await session.goals.create({ description: 'open the door' });
    await session.ask('The code is 4711-0815.');
    for (let turn = 0; turn < 12; turn += 1) await session.ask(words(100));
    await runtime.drain();
    expect((await session.viewport()).some(({ seq }) => seq === 3)).toBe(false);
    expect(JSON.stringify(seen.main.at(-1)?.messages)).toContain('message 3: The code is 4711-0815.');
    const second = JSON.stringify(seen.enricher.find(({ messages }) => messages.length === 3)?.messages[2]?.content);
    expect(second).toContain('Pinned 1 message-goal links');
  });

  test('the phase is published while a turn waits, and an interrupt then ends only the turn', async () => {
    const gated = gatedModel();
    const runtime = await open({ provider: gated.provider });
    const session = runtime.session('s');
    for (let turn = 0; turn < 4; turn += 1) {
      const asked = session.ask(words(100));
      (await gated.next()).answer(words(100, 'y'));
      await asked;
    }
    const receipt = await session.send(words(300));
    const enricher = await gated.next();
    expect(enricher.request.model).toBe(MNEME);
    expect(await session.state()).toMatchObject({ state: 'idle', phase: 'preparing', mailbox: 1 });
    expect(await session.explain()).toMatchObject({ reason: 'preparing' });
    expect(await session.interrupt()).toBe(true);
    expect((await failure(receipt.answer())).code).toBe('cancelled');
    enricher.answer(SAVED);
    (await gated.next()).answer('done');
    await runtime.drain();
    expect((await history(session)).filter(({ type }) => type === 'eviction')).toHaveLength(1);
    expect(gated.calls.filter(({ request }) => request.model !== MNEME)).toHaveLength(4);
  });

  test('Δ24: an empty summary is a failure: three attempts, a note in the log, and the turn starts', async () => {
    const seen = nothingSeen();
    const runtime = await open({ provider: scripted(model(seen, () => 'I would rather not.')) });
    const session = runtime.session('s');
    for (let turn = 0; turn < 5; turn += 1) await session.ask(words(100));
    await session.ask('and now?');
    await runtime.drain();
    expect(seen.enricher).toHaveLength(3);
    expect((await log(session)).filter((line) => line.startsWith('system_message'))).toHaveLength(1);
    expect((await history(session)).filter(({ type }) => type === 'eviction')).toHaveLength(1);
    for (const request of seen.main) expect(tokensOf(request)).toBeLessThanOrEqual(WINDOW);
  });

  test('F099: five snapshots become one of the second level, which stands first', async () => {
    const seen = nothingSeen();
    const enricher: ReplyFunction = ({ messages, system }) => {
      if (messages.length > 1) return 'done';
      const isOld = String(system).includes('summaries of consecutive parts');
      return { toolUse: { name: 'save_snapshot', input: { text: isOld ? 'All of it.' : 'A part.' } } };
    };
    const runtime = await open({ provider: scripted(model(seen, enricher)) });
    const session = runtime.session('s');
    const evictions = async (): Promise<number> =>
      (await history(session)).filter(({ type }) => type === 'eviction').length;
    while ((await evictions()) < 5) await session.ask(words(100));
    await runtime.drain();
    const over = seen.enricher.filter(({ messages }) => JSON.stringify(messages).includes('5 snapshots, oldest first'));
    expect(over.length).toBeGreaterThan(0);
    expect(JSON.stringify(over[0]?.messages)).toMatch(/Snapshot 1 \(messages 1\.\.\d+\)\\nA part\./u);
    await session.ask('go on');
    const system = String(seen.main.at(-1)?.system);
    expect(system).toContain('## Long-term Memory\n\nAll of it.');
    expect(system).not.toContain('A part.');
  });
});

test('F119: a sub-agent whose traces were summed up is hidden, and shown again with its next delivery', async () => {
  const provider = scripted((request, { session }) => {
    if (request.model === MNEME) return request.messages.length === 1 ? SAVED : 'done';
    if (session.includes(':')) return `word ${request.messages.length}`;
    return JSON.stringify(request.messages.at(-1)).includes('call it') ? '@ada say it again' : words(100, 'y');
  });
  const runtime = await kit.open({ enrichers, settings, provider });
  const session = runtime.session('s');
  const child = await session.spawn({ task: 'work', name: 'ada' });
  await child.reply();
  await runtime.drain();
  for (let turn = 0; turn < 8; turn += 1) await session.ask(words(100));
  await session.ask('call it');
  await runtime.drain();
  const events = await history(session);
  const hidden = events.findIndex(({ type }) => type === 'subagent.evicted');
  const shown = events.findIndex(({ type }, index) => index > hidden && type === 'children.updated');
  expect(events.filter(({ type }) => type === 'subagent.evicted')).toHaveLength(1);
  expect(events.slice(0, hidden).some(({ type }) => type === 'eviction')).toBe(true);
  expect(shown).toBeGreaterThan(hidden);
  expect(events[shown]).toMatchObject({ children: [{ id: child.id, name: 'ada' }] });
});

test('after a crash during a summary, it is made again, once, and the waiting turn starts', async () => {
  const directory = await kit.directory();
  const gated = gatedModel();
  const first = await kit.open({ directory, enrichers, settings, provider: gated.provider });
  const session = first.session('s');
  for (let turn = 0; turn < 4; turn += 1) {
    const asked = session.ask(words(100));
    (await gated.next()).answer(words(100, 'y'));
    await asked;
  }
  await session.send(words(300));
  await gated.next();
  const copy = await kit.crashed(directory);
  const seen = nothingSeen();
  const second = await kit.open({ directory: copy, enrichers, settings, provider: scripted(model(seen)) });
  await second.drain();
  const again = second.session('s');
  expect(seen.enricher.filter(({ messages }) => messages.length === 1)).toHaveLength(1);
  expect(seen.main).toHaveLength(1);
  expect((await log(again)).at(-1)).toBe(`agent_message:${words(100, 'y')}`);
  expect(String(seen.main[0]?.system)).toContain('They spoke at length.');
});

test('opened without Mneme, a session continues, and its memory is still shown', async () => {
  const directory = await kit.directory();
  const seen = nothingSeen();
  const first = await kit.open({ directory, enrichers, settings, provider: scripted(model(seen)) });
  for (let turn = 0; turn < 8; turn += 1) await first.session('s').ask(words(100));
  await first.drain();
  await first.close();
  const later = nothingSeen();
  const second = await kit.open({ directory, settings, provider: scripted(model(later)) });
  for (let turn = 0; turn < 8; turn += 1) await second.session('s').ask(words(100));
  expect(later.enricher).toEqual([]);
  expect(later.main.at(-1)?.system).toMatch(/^## Recent Memory\n\nThey spoke at length\./u);
});

test('a fork has the memory of its parent', async () => {
  const seen = nothingSeen();
  const runtime = await kit.open({ enrichers, settings, provider: scripted(model(seen)) });
  const session = runtime.session('s');
  for (let turn = 0; turn < 8; turn += 1) await session.ask(words(100));
  await runtime.drain();
  const fork = await session.fork();
  await fork.ask('and here?');
  expect(String(seen.main.at(-1)?.system)).toContain('They spoke at length.');
  expect(await collect(fork.events({ until: (await fork.state()).seq, deltas: false }))).not.toEqual([]);
});

test('an agent with automatic compression is refused, because a session is summarised in one way only', async () => {
  const agents = [agent({ name: 'main', compression: true })];
  const refused = await failure(kit.open({ enrichers, agents, provider: scripted(['x']) }));
  expect(refused.code).toBe('config');
  expect(refused.message).toContain('compression');
  expect(refused.message).toContain('mneme');
});
