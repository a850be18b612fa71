/**
 * Goal: a page that comes back gets the answer it waits for, and can name the messages that it loaded. Method: the
 * responses of the adapter over a model that writes when the test says so.
 */
import type { UIMessage } from 'ai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { chatInput, resumeResponse, uiMessageResponse, uiMessages } from '../../src/adapters/ai-sdk.ts';
import { agent, type ModelProvider, type Session, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { failure, gatedModel, queue, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
type Body = Record<string, unknown>;

const user = (id: string, text: string): Body => ({ id, role: 'user', parts: [{ type: 'text', text }] });
const submit = (id: string, text: string, more: Body = {}): Body => ({
  id: 's',
  trigger: 'submit-message',
  messages: [user(id, text)],
  ...more,
});
const post = (session: Session, body: Body): Promise<Response> => uiMessageResponse(session, chatInput(body));
const said = async (session: Session): Promise<readonly string[]> =>
  (await session.history.messages()).map(({ role, content }) => `${role}: ${String(content)}`);

/** Reads a response until its text has the given part, or to its end. */
function reading(response: Response): (part?: string) => Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  return async (part) => {
    while (part === undefined || !text.includes(part)) {
      const next = await reader?.read();
      if (next === undefined || next.done) break;
      text += next.value;
    }
    return text;
  };
}

/** A model that writes a text piece by piece, and then ends with it. */
async function writingSession() {
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
  return { model, writing, session: runtime.session('s') };
}

test.each([
  ['a signal', { signal: new AbortController().signal }],
  ['an id for the message', { messageId: 'mine' }],
  ['headers', { headers: { 'x-a': 'b' } }],
])('resume: a stream with %s has the missed text and the live text', async (_name, options) => {
  const { model, writing, session } = await writingSession();
  const gone = new AbortController();
  const first = reading(await uiMessageResponse(session, chatInput(submit('u1', 'hi')), { signal: gone.signal }));
  const call = await model.next();
  const write = await writing.take();
  write('Once upon ');
  await first('Once upon ');
  // The client of the first request disconnects: its stream ends, the turn and the repeat do not.
  gone.abort();
  await first();
  write('a time');
  const response = await resumeResponse(session, options);
  const second = reading(response);
  const live = await second('a time');
  expect(live).toContain('Once upon ');
  expect(live).toContain(`"messageId":"${'messageId' in options ? 'mine' : (await session.current())?.id}"`);
  if ('headers' in options) expect(response.headers.get('x-a')).toBe('b');
  call.answer('Once upon a time.');
  expect(await second()).toContain('[DONE]');
});

test('resume: the signal of one stream ends that stream only; an aborted one is empty', async () => {
  const { model, writing, session } = await writingSession();
  const first = reading(await post(session, submit('u1', 'hi')));
  const call = await model.next();
  const write = await writing.take();
  const gone = new AbortController();
  const second = reading(await resumeResponse(session, { signal: gone.signal }));
  write('Once');
  await second('Once');
  gone.abort();
  expect(await second()).not.toContain('[DONE]');
  expect(await reading(await resumeResponse(session, { signal: AbortSignal.abort() }))()).toBe('');
  call.answer('Once.');
  expect(await first()).toContain('"finish"');
});

test('a repeated request gets the live text of the turn that it began', async () => {
  const { model, writing, session } = await writingSession();
  const first = reading(await post(session, submit('u1', 'hi')));
  const call = await model.next();
  const write = await writing.take();
  write('Once');
  await first('Once');
  const again = reading(await post(session, submit('u1', 'hi')));
  expect(await again('Once')).toContain('Once');
  call.answer('Once.');
  expect(await again()).toBe(await first());
});

test('resume: with the key of its message a client that returns after the end gets the answer whole; without it, 204', async () => {
  const runtime = await kit.open({ provider: scripted(['One.', 'Two.', 'Three.']) });
  const session = runtime.session('s');
  const sent = await (await post(session, submit('u1', 'first'))).text();
  expect((await resumeResponse(session)).status).toBe(204);
  expect((await resumeResponse(session, { key: 'other' })).status).toBe(204);
  const whole = await (await resumeResponse(session, { key: 'u1' })).text();
  expect(whole).toContain('"delta":"One."');
  expect(whole).toContain('"finish"');
  expect(sent).toContain('"delta":"One."');
  // Also after an edit, which has the same id in the page: the newest answer, never the removed one.
  await (await post(session, submit('u1', 'edited', { messageId: 'u1' }))).text();
  const edited = await (await resumeResponse(session, { key: 'u1' })).text();
  expect(edited).toContain('"delta":"Two."');
  expect(edited).not.toContain('One.');
});

test('resume: 204 for a turn that was stopped before it had any content; a finished step is shown', async () => {
  const model = gatedModel();
  const look = tool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    effect: 'pure',
    run: () => 'a tree',
  });
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'looker', tools: [look] })] });
  const session = runtime.session('s');
  const first = await post(session, submit('u1', 'first'));
  await model.next();
  await session.interrupt();
  expect(await first.text()).toContain('"abort"');
  expect((await resumeResponse(session, { key: 'u1' })).status).toBe(204);
  const second = await post(session, submit('u2', 'look'));
  (await model.next()).answer({ toolUse: { name: 'look', input: {} } });
  await model.next();
  await session.interrupt();
  await second.text();
  expect(await (await resumeResponse(session, { key: 'u2' })).text()).toContain('"output":"a tree"');
});

test('edit and regenerate: a page names the messages that it loaded; an unknown id is refused and adds nothing', async () => {
  const runtime = await kit.open({ provider: scripted(['One.', 'Two.', 'Three.', 'Four.']) });
  const session = runtime.session('s');
  await (await post(session, submit('u1', 'first'))).text();
  // By the id that the history shows.
  await (
    await post(session, { id: 's', trigger: 'regenerate-message', messageId: 'm2', messages: [user('m1', 'first')] })
  ).text();
  expect(await said(session)).toEqual(['user: first', 'assistant: Two.']);
  // The page keeps that id, also when it loads again.
  expect((await uiMessages(session))[0]?.id).toBe('m1');
  await (await post(session, submit('m1', 'edited', { messageId: 'm1' }))).text();
  expect(await said(session)).toEqual(['user: edited', 'assistant: Three.']);
  const refused = await failure(post(session, submit('unknown', 'edit', { messageId: 'unknown' })));
  expect(refused).toMatchObject({ code: 'message_not_found', data: { id: 'unknown' } });
  // A page that was not loaded since another page replaced the message by another id.
  expect(await failure(post(session, submit('u1', 'edit', { messageId: 'u1' })))).toMatchObject({
    code: 'message_not_found',
  });
  expect(await said(session)).toEqual(['user: edited', 'assistant: Three.']);
});

test('edit: a message that was merged into another is found by its key', async () => {
  const runtime = await kit.open({ provider: scripted(['Both.', 'New.']) });
  const session = runtime.session('s');
  await session.pause();
  await session.send('one', { key: 'u1', deliver: 'merge' });
  const second = await session.send('two', { key: 'u2', deliver: 'merge' });
  await session.resume();
  await second.answer();
  await (await post(session, submit('u2', 'three', { messageId: 'u2' }))).text();
  expect(await said(session)).toEqual(['user: three', 'assistant: New.']);
});

test('uiMessages: texts, files, tools and their results; the answer at work is left out, what waits is there', async () => {
  const add = tool({
    name: 'add',
    description: 'Adds.',
    input: z.object({ a: z.number() }),
    run: ({ a }) => {
      if (a === 0) throw new Error('nothing to add');
      return { sum: a + 1 };
    },
  });
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'adder', tools: [add] })] });
  const session = runtime.session('s');
  expect(await uiMessages(session)).toEqual([]);
  const url =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const parts = [
    { type: 'text', text: '1 + 1?' },
    { type: 'file', mediaType: 'image/png', url },
  ];
  const first = await post(session, { id: 's', messages: [{ id: 'u1', role: 'user', parts }] });
  (await model.next()).answer({
    text: 'I add.',
    toolUse: [
      { name: 'add', id: 'c1', input: { a: 1 } },
      { name: 'add', id: 'c2', input: { a: 0 } },
    ],
  });
  const call = await model.next();
  const begun: UIMessage[] = await uiMessages(session);
  expect(begun).toMatchObject([{ id: 'u1', role: 'user', parts: [{ text: '1 + 1?' }, { type: 'file', url }] }]);
  call.answer('It is two.');
  await first.text();
  expect((await uiMessages(session)).slice(1)).toEqual([
    {
      id: 'm2',
      role: 'assistant',
      parts: [
        { type: 'step-start' },
        { type: 'text', text: 'I add.', state: 'done' },
        {
          type: 'dynamic-tool',
          toolName: 'add',
          toolCallId: 'c1',
          state: 'output-available',
          input: { a: 1 },
          output: { sum: 2 },
        },
        {
          type: 'dynamic-tool',
          toolName: 'add',
          toolCallId: 'c2',
          state: 'output-error',
          input: { a: 0 },
          errorText: expect.stringContaining('nothing to add'),
        },
        { type: 'step-start' },
        { type: 'text', text: 'It is two.', state: 'done' },
      ],
    },
  ]);
  await session.pause();
  await session.send('later', { key: 'u2' });
  expect((await uiMessages(session)).at(-1)).toMatchObject({ id: 'u2', role: 'user', parts: [{ text: 'later' }] });
});
