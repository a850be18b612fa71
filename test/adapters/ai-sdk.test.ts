/**
 * Goal: a chat window of the Vercel AI SDK shows a turn. Method: the transport and the stream reader that `useChat`
 * itself uses. Its `fetch` is a service that answers with `uiMessageResponse`, and every chunk is checked by the SDK's
 * own schema.
 */
import { DefaultChatTransport, readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { chatInput, uiMessageChunks, uiMessageResponse } from '../../src/adapters/ai-sdk.ts';
import { agent, type OpenOptions, type Runtime, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, gatedModel, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const add = tool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  effect: 'pure',
  run: ({ a, b }) => (a < 0 ? { error: 'too small' } : a + b),
});
const calculator = agent({ name: 'calculator', tools: [add] });

/** A service and the transport of its client. */
async function chat(options: OpenOptions): Promise<{
  readonly runtime: Runtime;
  readonly responses: Response[];
  send(text: string, signal?: AbortSignal): Promise<ReadableStream<UIMessageChunk>>;
}> {
  const runtime = await kit.open(options);
  const responses: Response[] = [];
  const transport = new DefaultChatTransport<UIMessage>({
    api: 'http://service/chat',
    fetch: async (_url, init) => {
      const { id, content, key } = chatInput(JSON.parse(String(init?.body)));
      const response = await uiMessageResponse(runtime.session(id ?? 'chat'), {
        content,
        ...(key === undefined ? {} : { key }),
      });
      responses.push(response.clone());
      return response;
    },
  });
  return {
    runtime,
    responses,
    send: (text, signal) =>
      transport.sendMessages({
        trigger: 'submit-message',
        chatId: 'chat',
        messageId: undefined,
        messages: [{ id: `m-${text}`, role: 'user', parts: [{ type: 'text', text }] }],
        abortSignal: signal,
      }),
  };
}

async function lastOf(stream: ReadableStream<UIMessageChunk>): Promise<UIMessage> {
  let last: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;
  if (last === undefined) throw new Error('no message came');
  return last;
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('text, thinking, a tool call and its result become the parts of one message', async () => {
    const { send, responses } = await chat({
      threads,
      agents: [calculator],
      provider: scripted([
        { thinking: 'hm', text: 'I add.', toolUse: { name: 'add', input: { a: 1, b: 2 } } },
        'It is three.',
      ]),
    });
    const message = await lastOf(await send('1 + 2?'));
    expect(responses[0]?.headers.get('x-vercel-ai-ui-message-stream')).toBe('v1');
    expect(responses[0]?.headers.get('content-type')).toContain('text/event-stream');
    expect(message.role).toBe('assistant');
    const parts = message.parts.filter(({ type }) => !type.startsWith('data-'));
    expect(parts).toMatchObject([
      { type: 'step-start' },
      { type: 'reasoning', text: 'hm', state: 'done' },
      { type: 'text', text: 'I add.', state: 'done' },
      { type: 'dynamic-tool', toolName: 'add', state: 'output-available', input: { a: 1, b: 2 }, output: 3 },
      { type: 'step-start' },
      { type: 'text', text: 'It is three.', state: 'done' },
    ]);
    expect(message.metadata).toMatchObject({ turn: 'turn-1', reason: 'end_turn' });
  });
});

test('a failed tool is shown as failed', async () => {
  const { send } = await chat({
    agents: [calculator],
    provider: scripted([{ toolUse: { name: 'add', input: { a: -1, b: 2 } } }, 'no']),
  });
  const message = await lastOf(await send('-1 + 2?'));
  expect(message.parts).toContainEqual(
    expect.objectContaining({
      type: 'dynamic-tool',
      state: 'output-error',
      errorText: expect.stringContaining('too small'),
    }),
  );
});

test('a failed turn is an error in the client', async () => {
  const { send } = await chat({ provider: scripted([{ error: { status: 400, message: 'bad request' } }]) });
  await expect(lastOf(await send('hi'))).rejects.toThrow(/bad request/);
});

test('a client that disconnects cancels nothing', async () => {
  const model = gatedModel();
  const { runtime, send } = await chat({ provider: model.provider });
  const stream = await send('hi');
  const call = await model.next();
  await stream.cancel();
  call.answer('still here');
  await eventually(async () => (await runtime.session('chat').messages()).length === 2);
  expect((await runtime.session('chat').messages())[1]).toMatchObject({ content: 'still here' });
});

test('a message that is sent again after its answer streams the same answer without a model call', async () => {
  let calls = 0;
  const provider = scripted(() => {
    calls += 1;
    return 'once';
  }) as never;
  const { send } = await chat({ provider });
  const [first, second] = [await lastOf(await send('hi')), await lastOf(await send('hi'))];
  expect(second.parts).toEqual(first.parts);
  expect(calls).toBe(1);
});

test('a receipt can be followed, and a signal ends the reading', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session = runtime.session('s');
  const receipt = await session.send('hi');
  const controller = new AbortController();
  const chunks = await uiMessageChunks(session, receipt, { signal: controller.signal, messageId: 'mine' });
  expect((await chunks.next()).value).toEqual({ type: 'start', messageId: 'mine' });
  const call = await model.next();
  expect((await chunks.next()).value).toEqual({ type: 'start-step' });
  const waiting = chunks.next();
  controller.abort();
  expect((await waiting).done).toBe(true);
  call.answer('done');
  expect(await receipt.answer()).toBe('done');
});

test.each([
  ['no object', 'x'],
  ['no messages', { messages: [] }],
  ['an assistant’s message', { messages: [{ role: 'assistant', parts: [] }] }],
  [
    'a file by address',
    { messages: [{ role: 'user', parts: [{ type: 'file', mediaType: 'image/png', url: 'http://x' }] }] },
  ],
  [
    'a program',
    {
      messages: [
        { role: 'user', parts: [{ type: 'file', mediaType: 'text/x-sh', url: 'data:text/x-sh;base64,AA==' }] },
      ],
    },
  ],
])('a request body with %s is a ContentError', (_name, body) => {
  expect(() => chatInput(body)).toThrow(expect.objectContaining({ code: 'content' }));
});

test('an image arrives as an image block', () => {
  const parts = [
    { type: 'text', text: 'what is it?' },
    { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' },
  ];
  expect(chatInput({ id: 'c', messages: [{ id: 'm', role: 'user', parts }] })).toEqual({
    id: 'c',
    key: 'm',
    replaces: false,
    content: [
      { type: 'text', text: 'what is it?' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
    ],
  });
});
