/**
 * Goal: the two tools find and show messages of the sessions within reach, by default those of the same tree. They
 * leave out what the asking session already sees. Edited or deleted text is not found, and a crash loses nothing.
 */
import { describe, expect, test } from 'vitest';
import { agent, type Runtime } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/index.ts';
import { search_messages, think, view_messages } from '../../../src/tools/built-in/index.ts';
import { MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** A model that calls the tool its user names (`name {json}`) and repeats its result; otherwise it says `noted`. */
const provider = scripted(({ messages }) => {
  const content = messages.at(-1)?.content;
  const [block] = Array.isArray(content) ? content : [];
  if (block?.type === 'tool_result') return `got: ${String(block.content)}`;
  const said = typeof content === 'string' ? content : block?.type === 'text' ? block.text : '';
  const call = /^(search_messages|view_messages|think) (\{.*\})$/su.exec(said);
  return call === null ? 'noted' : { toolUse: { name: call[1] ?? '', input: JSON.parse(call[2] ?? '{}') } };
});

function open(options: Partial<TestOptions> = {}): Promise<Runtime> {
  const agents = [agent({ name: 'main', tools: [search_messages, view_messages, think] })];
  return kit.open({ provider, agents, search: { scope: 'all' }, ...options });
}

async function call(runtime: Runtime, name: string, input: object, from = 'asker'): Promise<string> {
  return (await runtime.session(from).ask(`${name} ${JSON.stringify(input)}`)).replace('got: ', '');
}

const search = (runtime: Runtime, query: string, from = 'asker'): Promise<string> =>
  call(runtime, 'search_messages', { query }, from);

describe.each(MATRIX)('threads %o', (threads) => {
  test('F101: messages and thoughts of other sessions are found; the own window and tool results are not', async () => {
    const runtime = await open({ threads });
    await runtime.session('a').ask('The elephants live in Prague');
    await runtime.session('b').ask('think {"thoughts":"maybe an elephant knows"}');
    await runtime.session('asker').ask('elephant elephant elephant');
    const found = await search(runtime, 'elephants');
    expect(found).toContain('Found 3 results for "elephants":');
    expect(found).toContain('[message a#1, session "Session #a", human]\n...The elephants live in Prague...');
    expect(found).toContain('[message b#2, session "Session #b", thought]\n...maybe an elephant knows...');
    expect(await search(runtime, 'noted Prague')).toBe('No results found for "noted Prague".');
    expect(found).toContain('[message b#1, session "Session #b", human]');
    expect(await search(runtime, 'Prague NOT elephants')).toContain('No results');
  });

  test('a found message is shown with its neighbours, and tool calls in short form', async () => {
    const runtime = await open({ threads });
    for (let count = 1; count <= 8; count += 1) await runtime.session('a').ask(`word ${count}`);
    await runtime.session('a').ask('think {"thoughts":"hm"}');
    const shown = await call(runtime, 'view_messages', { message_id: 'a#15' });
    expect(shown).toContain('Session "Session #a" (a)');
    expect(shown).toContain('FULL CONTEXT (messages 5..20)');
    expect(shown).toContain('→ message 15 User: word 8');
    expect(shown).toContain('  message 16 Assistant: noted');
    expect(shown).toContain('message 18 Think: hm');
    expect(shown).toMatch(/message 19 ToolResult: \[ok\] /u);
  });
});

test('errors are reported to the model', async () => {
  const runtime = await open();
  expect(await search(runtime, ' ')).toContain('Query cannot be blank');
  expect(await call(runtime, 'view_messages', { message_id: 'nobody#1' })).toContain('there is no message nobody#1');
  expect(await call(runtime, 'view_messages', { message_id: '7' })).toContain('<session>#<number>');
});

test.each(['sub-agents', 'agents:foo', '"unbalanced', 'AND OR NOT', 'NEAR(', '*', '-'])(
  'F102: the query %j never fails',
  async (query) => {
    const runtime = await open();
    await runtime.session('a').ask('foo agents');
    expect(await search(runtime, query)).toMatch(/^(Found|No results)/u);
  },
);

test('new messages are found by the next search; deleted or replaced ones are not', async () => {
  const runtime = await open();
  await runtime.session('a').ask('zebra one');
  expect(await search(runtime, 'zebra')).toContain('Found 1 result ');
  await runtime.session('a').ask('zebra two');
  expect(await search(runtime, 'zebra')).toContain('Found 2 results');
  await runtime.sessions.delete('a');
  expect(await search(runtime, 'zebra')).toContain('No results');
  await runtime.session('a').ask('giraffe');
  expect(await search(runtime, 'zebra')).toContain('No results');
  expect(await search(runtime, 'giraffe')).toContain('[message a#1,');
});

test('F101: messages that left the own window are found', async () => {
  const runtime = await open({ settings: { llm: { tokenBudget: 2_000 } } });
  const asker = runtime.session('asker');
  await asker.ask('the walrus sleeps');
  expect(await search(runtime, 'walrus')).toContain('No results');
  for (let count = 0; count < 20; count += 1) await asker.ask(`filler ${'x'.repeat(500)}`);
  expect(await search(runtime, 'walrus')).toContain('[message asker#1,');
});

test('A10: after a crash everything is found as before', async () => {
  const directory = await kit.directory();
  const first = await open({ directory });
  for (const name of ['a', 'b', 'c']) await first.session(name).ask(`penguin of ${name}`);
  const before = await search(first, 'penguin', 'x');
  const again = await open({ directory: await kit.crashed(directory) });
  expect((await search(again, 'penguin', 'x')).split('\n').sort()).toEqual(before.split('\n').sort());
});

test('an edited message is found in its new form, and an index opened again continues where it was', async () => {
  const directory = await kit.directory();
  const first = await open({ directory });
  await first.session('a').ask('a heron');
  await first.session('b').ask('another heron');
  expect(await search(first, 'heron')).toContain('Found 2 results');
  const [message] = await first.session('a').history.messages();
  await first.session('a').history.update({ id: message?.id ?? '' }, { content: 'a stork' });
  expect(await search(first, 'heron')).toContain('Found 1 result ');
  expect(await search(first, 'stork')).toContain('[message a#');
  await first.close();
  const second = await open({ directory });
  expect(await search(second, 'heron')).toContain('[message b#1,');
  expect(await search(second, 'stork')).toContain('[message a#');
  await second.session('b').ask('a third heron');
  expect(await search(second, 'heron')).toContain('Found 2 results');
});

test('results are bounded, and the bound is a setting', async () => {
  const runtime = await open({ settings: { recall: { maxResults: 2 } } });
  for (let count = 0; count < 5; count += 1) await runtime.session(`s${count}`).ask('lemur');
  expect(await search(runtime, 'lemur')).toContain('Found 2 results');
});

describe('scope', () => {
  /** Sessions with a found message. */
  const seen = async (runtime: Runtime, from: string): Promise<readonly string[]> => {
    const found = await search(runtime, 'elephant', from);
    return [...new Set([...found.matchAll(/\[message ([^,]+)#\d+,/gu)].map((match) => match[1] ?? ''))].sort();
  };

  async function zoo(options: Partial<TestOptions>): Promise<Runtime> {
    const runtime = await open({ limits: { depth: 2 }, ...options });
    for (const id of ['ann', 'ann-2', 'bob']) await runtime.session(id).ask('an elephant');
    const child = await runtime.session('ann').spawn({ name: 'helper', task: 'an elephant' });
    await child.reply();
    await runtime.drain();
    return runtime;
  }

  test('by default a session finds its own tree, upward and downward, and no session with the same name prefix', async () => {
    const runtime = await zoo({ search: {} });
    expect(await seen(runtime, 'ann')).toEqual(['ann:1']);
    expect(await seen(runtime, 'ann-2')).toEqual([]);
    expect(await seen(runtime, 'carl')).toEqual([]);
    expect(await search(runtime, 'elephant', 'carl')).toBe('No results found for "elephant".');
  });

  test('a message out of scope is answered like a missing message', async () => {
    const runtime = await zoo({ search: { scope: 'tree' } });
    expect(await call(runtime, 'view_messages', { message_id: 'ann:1#1' }, 'ann')).toContain('FULL CONTEXT');
    const [there, missing] = [
      await call(runtime, 'view_messages', { message_id: 'bob#1' }, 'ann'),
      await call(runtime, 'view_messages', { message_id: 'eve#1' }, 'ann'),
    ];
    expect(there).toContain('there is no message bob#1');
    expect(there.replaceAll('bob', 'eve')).toBe(missing);
  });

  test('a function sets the trees that are searched, for each session separately', async () => {
    const asked: string[] = [];
    const runtime = await zoo({
      search: {
        scope: async ({ session }) => {
          asked.push(session);
          return session === 'ann-2' ? ['ann'] : session === 'root' ? 'all' : 'tree';
        },
      },
    });
    expect(await seen(runtime, 'ann-2')).toEqual(['ann', 'ann:1']);
    expect(await seen(runtime, 'bob')).toEqual([]);
    expect(await seen(runtime, 'root')).toEqual(['ann', 'ann-2', 'ann:1', 'bob']);
    expect(await call(runtime, 'view_messages', { message_id: 'ann#1' }, 'ann-2')).toContain('an elephant');
    expect(asked).toEqual(['ann-2', 'bob', 'root', 'ann-2']);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('no directory of users')), 'no directory of users'],
    ['answers what is no reach', () => 5 as unknown as 'tree', 'search.scope'],
  ])('a function that %s: the model receives a failure, and nothing is found', async (_name, scope, told) => {
    const runtime = await zoo({ search: { scope } });
    const answer = await search(runtime, 'elephant', 'ann-2');
    expect(answer).toContain(told);
    expect(answer).not.toContain('an elephant');
  });

  test('an invalid scope is refused at open', async () => {
    const refused = open({ search: { scope: 'everything' as 'all' } });
    await expect(refused).rejects.toMatchObject({ code: 'config', message: expect.stringContaining('search.scope') });
  });
});
