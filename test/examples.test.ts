/**
 * Goal: each program of `examples/` runs unchanged. Method: compiled against the built package, run without a key, and
 * asked for its answer. The page of the chat runs over connections that a proxy breaks.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { AbstractChat, type ChatInit, type ChatState, type ChatStatus, type UIMessage } from 'ai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createClient } from '../src/client/index.ts';
import { compilePrograms, type Programs } from './support/package-programs.ts';
import { deferred } from './support/runtime-kit.ts';

const names = [
  'http-service',
  'many-agents',
  'custom-provider',
  'approval',
  'steady-service',
  'chat-service',
  'chat-page',
  'cluster-node',
];
let compiled: Programs;

beforeAll(async () => {
  const text = (name: string): string =>
    readFileSync(fileURLToPath(new URL(`../examples/${name}.ts`, import.meta.url)), 'utf8');
  compiled = await compilePrograms(Object.fromEntries(names.map((name) => [name, text(name)])));
});
afterAll(() => compiled?.remove());

it('http-service: streams the answer, answers one key once, and ends on request', async () => {
  const service = compiled.start('http-service');
  const ended = once(service, 'exit');
  try {
    const [line] = (await once(service.stdout?.setEncoding('utf8') ?? service, 'data')) as [string];
    const url = line.trim();
    const ask = async (): Promise<readonly [string, string | null]> => {
      const headers = { 'idempotency-key': 'k' };
      const response = await fetch(`${url}/chat/one`, { method: 'POST', headers, body: 'hello' });
      return [await response.text(), response.headers.get('x-receipt')];
    };
    expect(await ask()).toEqual(['You said: hello', 'one/1.1']);
    expect(await ask()).toEqual(['You said: hello', 'one/1.1']);
    const blank = await fetch(`${url}/chat/one`, { method: 'POST', body: ' ' });
    expect([blank.status, await blank.text()]).toEqual([400, 'content\n']);
    expect((await fetch(url)).status).toBe(404);
  } finally {
    service.kill('SIGTERM');
  }
  expect(await ended).toEqual([0, null]);
});

it('many-agents: every sub-agent answers', async () => {
  expect(await compiled.run('many-agents')).toBe('1000 of 1000 sub-agents answered\n');
});

it('custom-provider: is retried after 429 and 500, calls a tool, and streams', async () => {
  expect((await compiled.run('custom-provider')).trim().split('\n')).toEqual([
    'attempt 1 failed with 429, model_rate_limited',
    'attempt 2 failed with 500, model_overloaded',
    'streamed: There are 3 words.',
    'answered: There are 3 words.',
  ]);
});

it('approval: an allowed call runs, a denied one does not', async () => {
  const lines = (await compiled.run('approval')).trim().split('\n');
  expect(lines.slice(0, 2).toSorted()).toEqual(['Ada, 20 euros: allowed', 'Bob, 2000 euros: denied']);
  expect(lines.slice(2).join('\n')).toContain('paid 20 euros to Ada (keyed)');
  expect(lines.slice(2).join('\n')).not.toContain('to Bob');
});

it('steady-service: the second model answers with the tools of both servers, over HTTP', async () => {
  const service = compiled.start('steady-service', { DATA: await mkdtemp(join(compiled.directory, 'data-')) });
  const ended = once(service, 'exit');
  try {
    const [line] = (await once(service.stdout?.setEncoding('utf8') ?? service, 'data')) as [string];
    const call = async (path: string, body?: object): Promise<Readonly<Record<string, unknown>>> => {
      const headers = { 'content-type': 'application/json' };
      const init = body === undefined ? {} : { method: 'POST', headers, body: JSON.stringify(body) };
      return (await (await fetch(`${line.trim()}/sessions/one${path}`, init)).json()) as Record<string, unknown>;
    };
    const { pendingId } = await call('/messages', { content: 'Read the notes, and remember the city.' });
    const { answer } = await call(`/receipts/${String(pendingId)}?wait=answer`);
    expect(answer).toBe('I have read it, and I keep it in mind.');
    const { messages } = (await call('/messages')) as { messages: readonly { toolName?: string; success?: boolean }[] };
    expect(messages.flatMap(({ toolName, success }) => (success === undefined ? [] : [[toolName, success]]))).toEqual([
      ['files__read_text_file', true],
      ['memory__create_entities', true],
    ]);
    expect(JSON.stringify((await call(''))['usage'])).toContain('"models":{"gpt/gpt-5.5"');
  } finally {
    service.kill('SIGTERM');
  }
  expect(await ended).toEqual([0, null]);
});

it('chat-service: answers with a tool, regenerates, resumes, lists, shows, stops, and serves the sessions', async () => {
  const service = compiled.start('chat-service');
  const ended = once(service, 'exit');
  try {
    const [line] = (await once(service.stdout?.setEncoding('utf8') ?? service, 'data')) as [string];
    const url = line.trim();
    const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'hello' }] };
    const chat = async (more: object): Promise<string> => {
      const body = JSON.stringify({ id: 'one', messages: [message], ...more });
      return (await fetch(`${url}/api/chat`, { method: 'POST', body })).text();
    };
    expect(await chat({})).toContain('You said: hello');
    expect(await chat({ trigger: 'regenerate-message' })).toContain('You said: hello');
    expect((await fetch(`${url}/api/chat/one/stream`)).status).toBe(204);
    expect(await (await fetch(`${url}/api/chat/one/stream?message=m1`)).text()).toContain('You said: hello');
    expect(await (await fetch(`${url}/api/chat/one`)).json()).toMatchObject([
      { id: 'm1', role: 'user' },
      { role: 'assistant', parts: [{ type: 'step-start' }, { type: 'text', text: 'You said: hello' }] },
    ]);
    const unknown = { trigger: 'regenerate-message', messages: [{ ...message, id: 'other' }] };
    expect(await chat(unknown)).toBe('message_not_found\n');
    expect(await (await fetch(`${url}/api/chat/none`)).json()).toEqual([]);
    const stopped = await fetch(`${url}/api/chat/one/stop`, { method: 'POST' });
    expect(await stopped.json()).toEqual({ stopped: false });
    const question = { ...message, parts: [{ type: 'text', text: 'the time?' }] };
    expect(await chat({ id: 'two', messages: [question] })).toMatch(/"toolName":"clock".*It is \d{4}-/s);
    const listed = (await (await fetch(`${url}/api/chats`)).json()) as readonly { id: string }[];
    expect(listed.map(({ id }) => id)).toEqual(['two', 'one']);
    const large = await fetch(`${url}/api/chat`, { method: 'POST', body: 'x'.repeat(9_000_000) });
    expect(large.status).toBe(413);
    const session = createClient({ url: `${url}/agents` }).session('one');
    expect((await session.history()).map(({ content }) => content)).toEqual(['hello', 'You said: hello']);
    expect((await fetch(`${url}/api/chat`, { method: 'POST', body: '{}' })).status).toBe(400);
    expect((await fetch(`${url}/api/chat/%E0%A4%A`)).status).toBe(400);
  } finally {
    service.kill('SIGTERM');
  }
  expect(await ended).toEqual([0, null]);
});

type OpenChat = (
  url: string,
  id: string,
  create: (init: ChatInit<UIMessage>) => Chat,
  retryMs?: number,
) => Promise<Chat>;

class PageState implements ChatState<UIMessage> {
  status: ChatStatus = 'ready';
  error: Error | undefined = undefined;
  messages: UIMessage[];
  constructor(messages: readonly UIMessage[] = []) {
    this.messages = [...messages];
  }
  pushMessage = (message: UIMessage): void => void this.messages.push(message);
  popMessage = (): void => void this.messages.pop();
  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.with(index, message);
  };
  snapshot = <T>(value: T): T => structuredClone(value);
}

class Chat extends AbstractChat<UIMessage> {}

/** A proxy before a service. It breaks the next connections as `faults` says, and then breaks none. */
async function breakingProxy(target: string, faults: ('before' | 'middle')[]) {
  const seen: string[] = [];
  const forward = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = 'GET', url = '/' } = request;
    const body = method === 'POST' ? await text(request) : null;
    const fault = method === 'GET' && !url.includes('/stream') ? undefined : faults.shift();
    seen.push(`${method} ${url}${fault === undefined ? '' : ` ${fault}`}`);
    if (fault === 'before') return void request.socket.destroy();
    const answer = await fetch(`${target}${url}`, { method, body });
    const whole = await answer.text();
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (fault === undefined) return void response.end(whole);
    const half = whole.slice(0, whole.indexOf('said'));
    response.write(half, () => request.socket.destroy());
  };
  const server = createServer((request, response) => {
    forward(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, close: () => server.close() };
}

it.each([
  ['in the middle of the answer', ['middle'], 2],
  ['before the message arrived, and again', ['before', 'before'], 4],
  ['in the middle, and again before the answer', ['middle', 'before', 'middle'], 4],
] as const)('chat-page: a connection that is lost %s costs no answer', async (_when, faults, requests) => {
  const service = compiled.start('chat-service');
  const ended = once(service, 'exit');
  try {
    const [line] = (await once(service.stdout?.setEncoding('utf8') ?? service, 'data')) as [string];
    const proxy = await breakingProxy(line.trim(), [...faults]);
    const page = (await import(pathToFileURL(join(compiled.directory, 'chat-page.js')).href)) as { openChat: OpenChat };
    const finished = deferred<void>();
    const create = (init: ChatInit<UIMessage>): Chat =>
      new Chat({
        ...init,
        state: new PageState(init.messages),
        onFinish: ({ isError }) => void (isError || finished.resolve()),
      });
    const chat = await page.openChat(proxy.url, 'one', create, 1);
    await chat.sendMessage({ text: 'hello' });
    await finished.promise;
    expect(chat.messages.map(({ role, parts }) => [role, parts.findLast(({ type }) => type === 'text')])).toMatchObject(
      [
        ['user', { text: 'hello' }],
        ['assistant', { text: 'You said: hello' }],
      ],
    );
    expect(proxy.seen.slice(1), proxy.seen.join('\n')).toHaveLength(requests);
    const kept = (await (await fetch(`${line.trim()}/api/chat/one`)).json()) as readonly unknown[];
    expect(kept).toHaveLength(2);
    proxy.close();
  } finally {
    service.kill('SIGTERM');
  }
  expect(await ended).toEqual([0, null]);
});
