/**
 * Goal: no interface answers with an error larger than 4 kB, whatever its input. Method: each interface receives bodies
 * with up to 10,000 errors, and names that are fifty times as large.
 */
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { agUiInput } from '../../src/adapters/ag-ui.ts';
import { chatInput } from '../../src/adapters/ai-sdk.ts';
import { mcpServer } from '../../src/adapters/mcp.ts';
import { errorShape, TroupeError } from '../../src/base/errors.ts';
import { boundedText } from '../../src/base/json.ts';
import { HttpProblem, problemOf } from '../../src/server/problem.ts';
import { serverKit } from '../server/support.ts';

const kit = serverKit();
const MOST = 4_096;
const huge = 'x'.repeat(200_000);
const many = Array.from({ length: 10_000 }, () => ({ role: 7 }));
const shown = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

async function thrown(run: () => unknown): Promise<unknown> {
  try {
    await run();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

test.each([
  ['ai-sdk: many bad messages', () => chatInput({ messages: many })],
  ['ai-sdk: a bad role', () => chatInput({ messages: [{ role: huge, parts: [] }] })],
  [
    'ai-sdk: a bad media type',
    () =>
      chatInput({ messages: [{ role: 'user', parts: [{ type: 'file', mediaType: huge, url: 'data:x;base64,' }] }] }),
  ],
  ['ag-ui: many bad messages', () => agUiInput({ threadId: 't', runId: 'r', messages: many })],
  ['ag-ui: bad content', () => agUiInput({ threadId: 't', runId: 'r', messages: [{ role: 'user', content: many }] })],
])('%s', async (_name, run) => {
  const error = await thrown(run);
  expect(error).toBeInstanceOf(TroupeError);
  expect(shown((error as Error).message)).toBeLessThan(MOST);
});

test('MCP: a failed call returns a small result that describes the failure', async () => {
  const runtime = await kit.open();
  const server = mcpServer(runtime);
  const client = new Client({ name: 'test', version: '1' });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(here), client.connect(there)]);
  for (const call of [
    { name: 'send', arguments: { session: huge, content: 'x' } },
    { name: 'send', arguments: { session: 's', content: 'x', agent: huge } },
    { name: 'send', arguments: { session: 's', content: 'x', deliver: huge } },
    { name: 'read', arguments: { session: 's', after: huge } },
    { name: 'spawn', arguments: { session: 's', task: 'x', name: huge } },
  ]) {
    const answer = await client.callTool(call);
    expect(answer.isError).toBe(true);
    expect(shown(answer)).toBeLessThan(MOST);
  }
  await client.close();
});

describe('HTTP and the methods behind it', () => {
  test('every route answers a huge body, a huge name and a huge query with a problem document below 4 kB', async () => {
    const { url, post, get, runtime } = await kit.serve();
    await runtime.session('s').ask('Hi');
    const bodies = [
      { [huge]: 1 },
      { id: huge, agent: huge, content: many, task: huge, callId: huge, allow: huge, pendingId: huge },
      many,
      { content: [{ type: huge }] },
      { content: many.map(() => ({ type: 'nothing' })) },
      { id: 't', agent: huge },
      { task: 'x', agent: huge },
      { task: 'x', name: huge },
      { task: 'x', tools: [huge] },
    ];
    const paths = [
      '',
      '/s/messages',
      '/s/recall',
      '/s/interrupt',
      '/s/pause',
      '/s/resume',
      '/s/children',
      '/s/approve',
    ];
    for (const path of paths) {
      for (const body of bodies) {
        const answer = await post(`/sessions${path}`, body);
        if (answer.status >= 400) expect(shown(answer.body)).toBeLessThan(MOST);
      }
    }
    const long = 'y'.repeat(14_000);
    for (const path of [
      `/sessions/${long}`,
      `/${long}`,
      `/sessions?after=${long}&${long}=1`,
      `/sessions/s/receipts/${long}`,
    ]) {
      const answer = await get(path);
      if (answer.status >= 400) expect(shown(answer.body)).toBeLessThan(MOST);
    }
    expect(url).toContain('http');
  });

  test("the `detail` of a problem document is short, however long the error's message is", () => {
    expect(shown(problemOf(new HttpProblem('bad_request', huge)))).toBeLessThan(MOST);
  });

  test('methods of the runtime throw small errors', async () => {
    const runtime = await kit.open();
    const session = runtime.session('s');
    const runs: (() => unknown)[] = [
      () => runtime.session(huge),
      () => runtime.session('s', huge),
      () => runtime.sessions.get(huge),
      () => session.send({ [huge]: 1 } as unknown as string),
      () => session.send([{ type: huge as 'text', text: 'x' }]),
      () => session.send('x', { [huge]: 1 }),
      () => session.send('x', { deliver: huge as 'ride' }),
      () => session.spawn({ task: 'x', agent: huge }),
      () => session.receipt(huge),
      () => session.activateSkill(huge),
      () => session.page(huge as 'messages'),
      () => session.page('messages', { after: huge }),
      () => session.child(huge),
      () => session.events({ mode: huge as 'basic' }),
    ];
    for (const run of runs) {
      const error = await thrown(run);
      expect(error).toBeInstanceOf(TroupeError);
      expect(shown((error as TroupeError).data)).toBeLessThan(MOST);
      expect(shown(errorShape(error))).toBeLessThan(2 * MOST);
      expect(shown((error as Error).message)).toBeLessThan(MOST);
    }
  });
});

test('a text is cut so that its JSON form fits a number of bytes, and never within a character', () => {
  for (const text of [
    '\0'.repeat(500),
    '\0'.repeat(9_000),
    '😀'.repeat(9_000),
    `${'a'.repeat(2_940)}${'😀'.repeat(90)}`,
    'é"\n'.repeat(4_000),
  ]) {
    const cut = boundedText(text);
    expect(shown(cut)).toBeLessThanOrEqual(3_000);
    expect(cut).toMatch(/cut, of \d+ characters/);
    expect(cut).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  }
  expect(boundedText('a'.repeat(2_900))).toHaveLength(2_900);
  expect(shown(errorShape(new Error(huge)))).toBeLessThan(MOST);
});
