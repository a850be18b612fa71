/**
 * Goal: other agents use a runtime through MCP, in both eras of the protocol. Method: the official client, over a linked
 * pair in memory, over HTTP without a network, and over stdio.
 */
import { fileURLToPath } from 'node:url';
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createMcpHandler } from '@modelcontextprotocol/server';
import { afterEach, expect, test } from 'vitest';
import { type McpOptions, mcpServer } from '../../src/adapters/mcp.ts';
import type { OpenOptions, Runtime } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, gatedModel, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const clients: Client[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});

interface Told {
  readonly text: string;
  readonly isError: boolean;
  readonly structured: Readonly<Record<string, unknown>> | undefined;
}

async function connected(
  options: OpenOptions,
  given: McpOptions = {},
): Promise<{
  readonly runtime: Runtime;
  readonly client: Client;
  call(name: string, input: object, signal?: AbortSignal): Promise<Told>;
}> {
  const runtime = await kit.open(options);
  const [near, far] = InMemoryTransport.createLinkedPair();
  await mcpServer(runtime, given).connect(far);
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(near);
  clients.push(client);
  return { runtime, client, call: (name, input, signal) => callTool(client, name, input, signal) };
}

async function callTool(client: Client, name: string, input: object, signal?: AbortSignal): Promise<Told> {
  const result = await client.callTool({ name, arguments: { ...input } }, signal === undefined ? {} : { signal });
  const content = result.content as readonly { readonly text?: string }[];
  return {
    text: content.map(({ text }) => text).join('\n'),
    isError: result.isError === true,
    structured: result.structuredContent as Told['structured'],
  };
}

const repeating = scripted({ rules: [], otherwise: 'you said {{text}}' });

test('lists its three tools, with schemas that name their inputs', async () => {
  const { client } = await connected({ provider: repeating });
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name).sort()).toEqual(['read', 'send', 'spawn']);
  expect(tools.find(({ name }) => name === 'send')?.inputSchema.required).toEqual(['session', 'content']);
});

test('send returns one answer for one key; read returns the conversation', async () => {
  const { call } = await connected({ provider: repeating });
  const first = await call('send', { session: 'a', content: 'hello', key: 'k' });
  expect(first).toMatchObject({
    text: 'you said hello',
    isError: false,
    structured: { session: 'a', duplicate: false },
  });
  const again = await call('send', { session: 'a', content: 'hello', key: 'k' });
  expect(again.structured).toMatchObject({ duplicate: true, answer: 'you said hello' });
  const read = await call('read', { session: 'a' });
  expect(read.text.split('\n')).toEqual([
    'idle, 0 waiting',
    '#1 user_message: hello',
    '#2 agent_message: you said hello',
  ]);
  expect((await call('read', { session: 'a', after: 1 })).structured).toMatchObject({ messages: [{ seq: 2 }] });
});

test('spawn makes a child and returns its reply', async () => {
  const { call, runtime } = await connected({ provider: scripted(() => 'found it') as never });
  const told = await call('spawn', { session: 'root', task: 'look', name: 'scout' });
  expect(told).toMatchObject({ text: 'found it', structured: { child: 'root:1', name: 'scout', reply: 'found it' } });
  expect(await runtime.sessions.get('root:1')).toMatchObject({ parent: 'root', name: 'scout' });
});

test('send returns the receipt if it does not wait, or waits too long', async () => {
  const model = gatedModel();
  const { call, runtime } = await connected({ provider: model.provider }, { answerTimeoutMs: 1 });
  const now = await call('send', { session: 'a', content: 'one', wait: false });
  expect(now.structured).toEqual({ session: 'a', receipt: 'a/1.1', duplicate: false });
  const late = await call('send', { session: 'b', content: 'two' });
  expect(late).toMatchObject({ isError: false, structured: { receipt: expect.stringMatching(/^b\/\d+\.1$/) } });
  expect(late.structured).not.toHaveProperty('answer');
  for (const answer of ['yes', 'yes']) (await model.next()).answer(answer);
  await eventually(async () => (await runtime.session('b').messages()).length === 2);
});

test('a client that cancels its call leaves the session working', async () => {
  const model = gatedModel();
  const { call, runtime } = await connected({ provider: model.provider });
  const controller = new AbortController();
  const calling = call('send', { session: 'a', content: 'hi' }, controller.signal);
  const running = await model.next();
  controller.abort();
  await expect(calling).rejects.toThrow();
  running.answer('done');
  await eventually(async () => (await runtime.session('a').messages()).length === 2);
});

test('a failure is a result that the model can read, with its code', async () => {
  const { call } = await connected({ provider: repeating }, { allows: (id) => id.startsWith('open-') });
  expect(await call('send', { session: 'closed', content: 'hi' })).toMatchObject({
    isError: true,
    text: expect.stringContaining('invalid_name'),
  });
  expect(await call('send', { session: 'open-1', content: ' ' })).toMatchObject({
    isError: true,
    text: expect.stringContaining('content:'),
  });
  expect(await call('send', { session: 'open-1', content: 'hi', agent: 'nobody' })).toMatchObject({
    isError: true,
    text: expect.stringContaining('unknown_agent'),
  });
});

test.each(['legacy', 'auto'] as const)('over HTTP, with a client that negotiates %s', async (mode) => {
  const runtime = await kit.open({ provider: repeating });
  const handler = createMcpHandler(() => mcpServer(runtime));
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
  clients.push(client);
  const fetched = (url: string | URL, init?: RequestInit): Promise<Response> => handler.fetch(new Request(url, init));
  await client.connect(new StreamableHTTPClientTransport(new URL('http://service/mcp'), { fetch: fetched }));
  expect(client.getProtocolEra()).toBe(mode === 'auto' ? 'modern' : 'legacy');
  expect(await callTool(client, 'send', { session: 'a', content: 'hello' })).toMatchObject({ text: 'you said hello' });
});

test.each(['legacy', 'auto'] as const)('over stdio, in a separate process, as %s', async (mode) => {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
  clients.push(client);
  const fixture = fileURLToPath(new URL('./fixtures/mcp-server.ts', import.meta.url));
  const loader = new URL('../loader/register.mjs', import.meta.url).href;
  await client.connect(new StdioClientTransport({ command: process.execPath, args: ['--import', loader, fixture] }));
  expect(await callTool(client, 'send', { session: 'a', content: 'hello' })).toMatchObject({ text: 'you said hello' });
});
