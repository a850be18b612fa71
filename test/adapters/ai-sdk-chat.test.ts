/**
 * Goal: `useChat` resumes the turn at work after a reload, asks for another answer, and edits an earlier message.
 * Method: the SDK's own chat (`AbstractChat`, which `useChat` wraps) over its real transport. Its `fetch` is a service
 * of two routes.
 */
import { AbstractChat, type ChatState, type ChatStatus, DefaultChatTransport, type UIMessage } from 'ai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { chatInput, resumeResponse, uiMessageResponse } from '../../src/adapters/ai-sdk.ts';
import { agent, type ModelProvider, type Runtime, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { collect, deferred, eventually, gatedModel, queue, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

class PlainState implements ChatState<UIMessage> {
  status: ChatStatus = 'ready';
  error: Error | undefined = undefined;
  messages: UIMessage[] = [];
  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, message];
  };
  popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.with(index, message);
  };
  snapshot = <T>(value: T): T => structuredClone(value);
}

class Chat extends AbstractChat<UIMessage> {}

function chatOf(
  runtime: Runtime,
  more: { readonly onData?: (part: unknown) => void; messages?: UIMessage[] } = {},
): Chat {
  const { messages = [], ...options } = more;
  const state = new PlainState();
  state.messages = messages;
  let ids = 0;
  return new Chat({
    ...options,
    state,
    id: 'chat',
    generateId: () => {
      ids += 1;
      return `user-${ids}`;
    },
    transport: new DefaultChatTransport<UIMessage>({
      api: 'http://service/api/chat',
      fetch: async (url, init) => {
        const path = new URL(String(url)).pathname;
        if (init?.method === 'GET') {
          expect(path).toBe('/api/chat/chat/stream');
          return resumeResponse(runtime.session('chat'));
        }
        const input = chatInput(JSON.parse(String(init?.body)));
        return uiMessageResponse(runtime.session(input.id ?? 'none'), input);
      },
    }),
  });
}

const said = (chat: Chat): string[] =>
  chat.messages.map(
    ({ role, parts }) => `${role}: ${parts.map((part) => (part.type === 'text' ? part.text : '')).join('')}`,
  );

test('resume: a reloaded page shows the turn from its beginning and follows it; idle: nothing', async () => {
  const model = gatedModel();
  const add = tool({
    name: 'add',
    description: 'Adds.',
    input: z.object({ a: z.number() }),
    run: ({ a }) => ({ sum: a + 1 }),
  });
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'adder', tools: [add] })] });
  const before = chatOf(runtime);
  const sent = before.sendMessage({ text: '1 + 1?' });
  (await model.next()).answer({ text: 'I add.', toolUse: { name: 'add', input: { a: 1 } } });
  const call = await model.next();
  await eventually(() =>
    Promise.resolve(before.lastMessage?.parts.some((part) => part.type === 'dynamic-tool') === true),
  );
  const after = chatOf(runtime, { messages: before.messages.slice(0, 1) });
  const resumed = after.resumeStream();
  await eventually(() => Promise.resolve(after.messages.length === 2));
  call.answer('It is two.');
  await Promise.all([sent, resumed]);
  expect(after.messages).toEqual(before.messages);
  expect(after.lastMessage?.parts).toMatchObject([
    { type: 'step-start' },
    { type: 'text', text: 'I add.' },
    { type: 'dynamic-tool', toolName: 'add', input: { a: 1 }, output: { sum: 2 } },
    { type: 'step-start' },
    { type: 'text', text: 'It is two.' },
  ]);
  await after.resumeStream();
  expect(after.status).toBe('ready');
  expect(after.messages).toHaveLength(2);
});

test('resume: the text that is being written is there from its beginning; without a client it is kept as well', async () => {
  const model = gatedModel();
  const writing = queue<(text: string) => void>();
  const provider: ModelProvider = {
    ...model.provider,
    generate: (request, context) => {
      writing.put((text) => context.onDelta({ type: 'text', text }));
      return model.provider.generate(request, { ...context, onDelta: () => undefined });
    },
  };
  const runtime = await kit.open({ provider });
  const text = (chat: Chat): string => said(chat).at(-1) ?? '';
  const before = chatOf(runtime);
  const sent = before.sendMessage({ text: 'hi' });
  const call = await model.next();
  const write = await writing.take();
  write('Once upon ');
  await eventually(() => Promise.resolve(text(before) === 'assistant: Once upon '));
  await before.stop();
  await sent;
  write('a time');
  const after = chatOf(runtime, { messages: before.messages.slice(0, 1) });
  const resumed = after.resumeStream();
  await eventually(() => Promise.resolve(text(after) === 'assistant: Once upon a time'));
  call.answer('Once upon a time.');
  await resumed;
  expect(said(after)).toEqual(['user: hi', 'assistant: Once upon a time.']);
});

test('resume: a turn too long to be kept comes from the log, and the first client gets all of it', async () => {
  const model = gatedModel();
  const long = 'x'.repeat(700_000);
  const look = tool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    run: () => long,
    maxResultBytes: 800_000,
    maxResultChars: 800_000,
  });
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'a', tools: [look] })] });
  const before = chatOf(runtime);
  const sent = before.sendMessage({ text: 'hi' });
  (await model.next()).answer({ toolUse: { name: 'look', input: {} } });
  (await model.next()).answer({ text: long, toolUse: { name: 'look', input: {} } });
  const call = await model.next();
  const after = chatOf(runtime, { messages: before.messages.slice(0, 1) });
  const resumed = after.resumeStream();
  await eventually(() => Promise.resolve(after.lastMessage?.parts.some(({ type }) => type === 'text') === true));
  call.answer('Done.');
  await Promise.all([sent, resumed]);
  expect(after.messages).toEqual(before.messages);
  expect(said(after).at(-1)).toBe(`assistant: ${long}Done.`);
});

test('regenerate: the answer leaves the conversation, and the same message is answered again', async () => {
  const runtime = await kit.open({ provider: scripted(['One.', 'Two.', 'Another two.']) });
  const chat = chatOf(runtime);
  await chat.sendMessage({ text: 'first' });
  await chat.sendMessage({ text: 'second' });
  const old = chat.lastMessage?.id;
  await chat.regenerate();
  expect(said(chat)).toEqual(['user: first', 'assistant: One.', 'user: second', 'assistant: Another two.']);
  expect(chat.lastMessage?.id).not.toBe(old);
  const session = runtime.session('chat');
  const log = (await session.viewport()).map(({ content }) => content);
  expect(log).toEqual(['first', 'One.', 'second', 'Another two.']);
  const events = await collect(session.events({ until: ({ type }) => type === 'history.changed' }));
  expect(events.at(-1)).toMatchObject({ removed: [3, 4] });
});

test('edit: everything from the message on leaves, also while its answer is being made; twice is possible', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const chat = chatOf(runtime);
  const first = chat.sendMessage({ text: 'frist' });
  (await model.next()).answer('One.');
  await first;
  const second = chat.sendMessage({ text: 'second' });
  await model.next();
  const edited = chat.sendMessage({ text: 'first', messageId: 'user-1' });
  (await model.next()).answer('First!');
  await Promise.all([second, edited]);
  const again = chat.sendMessage({ text: 'last', messageId: 'user-1' });
  (await model.next()).answer('Last!');
  await again;
  expect(said(chat)).toEqual(['user: last', 'assistant: Last!']);
  expect((await runtime.session('chat').viewport()).map(({ content }) => content)).toEqual(['last', 'Last!']);
});

test('edit: a message that still waits is withdrawn', async () => {
  const runtime = await kit.open({ provider: scripted(['Yes.']) });
  const session = runtime.session('chat');
  await session.pause();
  await session.send('frist', { key: 'user-1' });
  const message = { id: 'user-1', role: 'user', parts: [{ type: 'text', text: 'first' }] };
  const input = chatInput({ id: 'chat', trigger: 'submit-message', messageId: 'user-1', messages: [message] });
  const response = await uiMessageResponse(session, input);
  await session.resume();
  expect(await response.text()).toContain('Yes.');
  expect((await session.viewport()).map(({ content }) => content)).toEqual(['first', 'Yes.']);
});

test('progress reaches the client and is not kept in the message', async () => {
  const isShown = deferred();
  const work = tool({
    name: 'work',
    description: 'Works.',
    input: z.object({}),
    run: async (_input, { progress }) => {
      progress({ done: 1 });
      await isShown.promise;
      return 'plain text';
    },
  });
  const runtime = await kit.open({
    provider: scripted([{ toolUse: { name: 'work', input: {} } }, 'Done.']),
    agents: [agent({ name: 'worker', tools: [work] })],
  });
  const data: unknown[] = [];
  const chat = chatOf(runtime, {
    onData: (part) => {
      data.push(part);
      isShown.resolve();
    },
  });
  await chat.sendMessage({ text: 'work' });
  expect(data).toMatchObject([{ type: 'data-progress', data: { data: { done: 1 } } }]);
  expect(chat.lastMessage?.parts.filter(({ type }) => type.startsWith('data-'))).toEqual([]);
  expect(chat.lastMessage?.parts).toContainEqual(expect.objectContaining({ toolName: 'work', output: 'plain text' }));
});
