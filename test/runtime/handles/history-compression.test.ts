/**
 * Compression through the public API: over the real SDK against the strict fake, with a scripted model, across
 * restarts. `test/session/history/compression.test.ts` tests the pure core.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { COMPACTION_INSTRUCTION } from '../../../src/context/compaction-request.ts';
import { agent, anthropic, type HistoryMessage, type Session, tool } from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { type StrictFake, strictFake } from '../../../src/testing/strict-fake.ts';
import { eventually, failure, gatedModel, history, log, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

const SMALL = { messages: 12, keepRecent: 4, idleMinMessages: 5, idleMinTokens: 0 } as const;

function isForSummary({ messages }: Pick<ModelRequest, 'messages'>): boolean {
  return JSON.stringify(messages.at(-1)).includes(JSON.stringify(COMPACTION_INSTRUCTION).slice(1, -1));
}

/** A model that says how many messages its request had, and summarises when asked to. */
function talker(): ReturnType<typeof scripted> {
  let summaries = 0;
  return scripted((request) => {
    if (!isForSummary(request)) return `I see ${request.messages.length} messages.`;
    summaries += 1;
    return `<topics>part ${summaries}</topics>\nsummary ${summaries}`;
  });
}

async function talk(session: Session, turns: number, from = 1): Promise<void> {
  for (let turn = from; turn < from + turns; turn += 1) await session.ask(`ask ${turn}`);
}

async function texts(session: Session): Promise<readonly string[]> {
  const { messages } = await session.request();
  return messages.map(
    ({ role, content }) => `${role} ${typeof content === 'string' ? content : JSON.stringify(content)}`,
  );
}

const contents = (messages: readonly HistoryMessage[]): readonly unknown[] => messages.map(({ content }) => content);

describe.each(MATRIX)('compression with $sessions session threads', (threads) => {
  test('H53, H54, H58: a long conversation becomes a summary and its newest messages; the log and its archive keep all', async () => {
    const directory = await kit.directory();
    const options = { directory, threads, agents: [agent({ name: 'main', system: 'Be brief.', compression: SMALL })] };
    const runtime = await kit.open({ ...options, provider: talker() });
    const session = runtime.session('s');
    await talk(session, 6);
    const before = await log(session);
    await session.ask('ask 7');
    expect((await texts(session)).slice(0, 3)).toEqual([
      'user [The conversation begins here.]',
      expect.stringContaining('assistant [{"type":"text","text":"summary 1"}]'),
      'user ask 5',
    ]);
    expect((await session.request()).system).toBe('Be brief.');
    expect((await log(session)).slice(0, before.length)).toEqual(before);
    expect(await session.history.chunks()).toMatchObject([
      { session: 's', number: 1, level: 1, messageCount: 8, topics: 'part 1' },
    ]);
    const chunk = (await session.history.chunk(1)) ?? [];
    expect(contents(chunk).filter((_content, index) => index % 2 === 0)).toEqual(['ask 1', 'ask 2', 'ask 3', 'ask 4']);
    expect(await session.history.chunk(2)).toBeUndefined();
    expect(await failure(session.history.chunk(0))).toMatchObject({ code: 'invalid_index' });
    const events = await history(session);
    expect(events.filter((event) => event.type === 'compaction.applied')).toMatchObject([{ level: 1, chunk: 1 }]);
    const shown = await texts(session);
    await runtime.close();
    const again = (await kit.open({ ...options, provider: talker() })).session('s');
    expect(await texts(again)).toEqual(shown);
    expect(await again.history.chunk(1)).toEqual(chunk);
  });

  test('H53, H56: on demand: below the bounds nothing is compressed unless forced, and right after a compression none is needed', async () => {
    const runtime = await kit.open({
      threads,
      provider: talker(),
      agents: [agent({ name: 'main', compression: SMALL })],
    });
    const session = runtime.session('s');
    await talk(session, 4);
    expect(await session.history.compress()).toEqual({ compressed: false, reason: 'not_needed' });
    expect(await session.history.compress({ force: true })).toEqual({ compressed: true, level: 1, chunk: 1 });
    expect(await session.history.compress()).toEqual({ compressed: false, reason: 'not_needed' });
    expect((await session.state()).state).toBe('idle');
    expect(await failure(session.history.compress({ force: 1 } as never))).toMatchObject({ code: 'config' });
  });
});

test('H53: compression is off by default, and is switched on by settings for all agents, or for one', async () => {
  const off = (await kit.open({ provider: talker() })).session('s');
  await off.ask('hello');
  expect(await off.history.compress({ force: true })).toEqual({ compressed: false, reason: 'disabled' });
  const settings = { compression: { ...SMALL, enabled: true } };
  const agents = [agent({ name: 'main' }), agent({ name: 'plain', compression: false })];
  const runtime = await kit.open({ provider: talker(), settings, agents });
  for (const name of ['main', 'plain']) await talk(runtime.session(name, name), 7);
  expect(await runtime.session('main').history.chunks()).toHaveLength(1);
  expect(await runtime.session('plain').history.chunks()).toEqual([]);
});

test('H55: an error and a blank summary leave the conversation unchanged; deltas of a summary are not published', async () => {
  let summaries = 0;
  const provider = scripted((request) => {
    if (!isForSummary(request)) return 'fine';
    summaries += 1;
    return summaries === 1 ? { error: { status: 400, message: 'refused' } } : '   ';
  });
  const runtime = await kit.open({ provider, agents: [agent({ name: 'main', compression: SMALL })] });
  const session = runtime.session('s');
  await talk(session, 4);
  const before = await texts(session);
  for (const reason of ['refused', 'the summary is blank']) {
    expect(await session.history.compress({ force: true })).toEqual({ compressed: false, reason });
    expect(await texts(session)).toEqual(before);
  }
  expect(await session.history.chunks()).toEqual([]);
  const events = await history(session);
  expect(events.filter((event) => event.type === 'turn.failed')).toEqual([]);
  expect(events.filter((event) => event.type === 'compaction.failed')).toHaveLength(2);
});

test('H55: an interrupted compression changes nothing except that the message about to begin its turn is cancelled', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'main', compression: SMALL })] });
  const session = runtime.session('s');
  for (let turn = 1; turn <= 6; turn += 1) {
    const asked = session.ask(`ask ${turn}`);
    (await model.next()).answer('fine');
    await asked;
  }
  const before = await texts(session);
  const receipt = await session.send('ask 7');
  expect(isForSummary((await model.next()).request)).toBe(true);
  expect(await session.interrupt()).toBe(true);
  expect(await failure(receipt.answer())).toMatchObject({ code: 'cancelled' });
  expect(await texts(session)).toEqual([...before, 'user ask 7']);
  expect(await session.history.chunks()).toEqual([]);
});

test('H57: a prompt that is too long is compressed and sent again; the reader sees one finished turn', async () => {
  let refusals = 0;
  const provider = scripted((request) => {
    if (isForSummary(request)) return 'summary';
    if (request.messages.length > 8) {
      refusals += 1;
      return { error: { status: 400, message: 'prompt is too long: 208310 tokens > 200000 maximum' } };
    }
    return 'fine';
  });
  const compression = { ...SMALL, messages: 1_000 };
  const runtime = await kit.open({ provider, agents: [agent({ name: 'main', compression })] });
  const session = runtime.session('s');
  await talk(session, 4);
  expect(await session.ask('ask 5')).toBe('fine');
  expect(refusals).toBe(1);
  expect(contents((await session.history.chunk(1)) ?? [])).toContain('ask 1');
  expect(await texts(session)).toContainEqual(expect.stringContaining('ask 5'));
  const events = await history(session);
  expect(events.filter((event) => event.type === 'turn.finished')).toHaveLength(5);
  expect(events.filter((event) => event.type === 'turn.failed')).toEqual([]);
});

test('A10: after a kill during a summary, the summary is requested again with the same bytes', async () => {
  const directory = await kit.directory();
  const agents = [agent({ name: 'main', compression: SMALL })];
  const first = gatedModel();
  const runtime = await kit.open({ directory, provider: first.provider, agents });
  const session = runtime.session('s');
  for (let turn = 1; turn <= 6; turn += 1) {
    const asked = session.ask(`ask ${turn}`);
    (await first.next()).answer('fine');
    await asked;
  }
  await session.send('ask 7');
  const lost = await first.next();
  // The compression's records are on disk once the session's state is answered.
  expect((await session.state()).state).toBe('awaiting');
  const second = gatedModel();
  const reopened = await kit.open({ directory: await kit.crashed(directory), provider: second.provider, agents });
  const again = await second.next();
  expect(JSON.stringify(again.request)).toBe(JSON.stringify(lost.request));
  again.answer('summary');
  (await second.next()).answer('after all');
  await eventually(async () => (await reopened.session('s').state()).state === 'idle');
  expect((await log(reopened.session('s'))).filter((line) => line.endsWith(':ask 7'))).toHaveLength(1);
  expect(await reopened.session('s').history.chunks()).toHaveLength(1);
});

test('two sessions are compressed at once, and each is answered from its own messages', async () => {
  const runtime = await kit.open({ provider: talker(), agents: [agent({ name: 'main', compression: SMALL })] });
  const sessions = ['a', 'b', 'c'].map((id) => runtime.session(id));
  await Promise.all(sessions.map((session) => talk(session, 7)));
  for (const session of sessions) {
    const chunk = (await session.history.chunk(1)) ?? [];
    expect(chunk).toHaveLength(8);
    expect(await session.history.chunks()).toMatchObject([{ session: session.id, number: 1 }]);
  }
});

test('H54, H56: reading a hundred pages with tools, over the SDK against the strict fake: legal, complete, once', async () => {
  const page = tool({
    name: 'page',
    description: 'Reads a page.',
    input: z.object({ number: z.number() }),
    effect: 'pure',
    run: ({ number }) => `page ${number}: ${'word '.repeat(600)}`,
  });
  let asked = 0;
  const fake = await strictFake({
    script: (request: ModelRequest) => {
      if (isForSummary(request)) return '<topics>pages</topics>\nRead so far.';
      asked += 1;
      if (asked > 100) return 'All read.';
      return { thinking: `page ${asked}`, toolUse: { name: 'page', input: { number: asked } } };
    },
  });
  fakes.push(fake);
  const runtime = await kit.open({
    provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
    agents: [
      agent({
        name: 'reader',
        model: 'claude-opus-4-6',
        thinking: { type: 'adaptive' },
        tools: [page],
        compression: { messages: 120, tokens: 10_000_000 },
      }),
    ],
  });
  const session = runtime.session('s', 'reader');
  expect(await session.ask('Read all pages.')).toBe('All read.');
  // The request for a summary ends with its instruction, after the results of the last calls.
  expect(fake.violations.filter(({ rule }) => rule !== 'R69')).toEqual([]);
  const summaries = fake.requests.filter((request) => isForSummary(request as unknown as ModelRequest));
  expect(summaries).toHaveLength(1);
  const [chunk] = await session.history.chunks();
  expect(chunk).toMatchObject({ number: 1, level: 1, topics: 'pages' });
  // Whole rounds are kept, the newest unchanged.
  const { messages } = await session.request();
  const uses = messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
  );
  const results = messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? []
      : content.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : [])),
  );
  expect(results).toEqual(uses);
  expect(JSON.stringify(messages)).toContain('page 100: ');
  expect((await log(session)).filter((line) => line.startsWith('tool_response:page '))).toHaveLength(100);
});
