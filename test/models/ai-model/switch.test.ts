/**
 * Goal: a session whose answers came from another vendor's model is legal for Claude, whatever Claude requires of
 * an answer; and an answer that was changed has no origin. Method: answers with thoughts and calls in all the ways that a
 * history can change.
 */
import { expect, it } from 'vitest';
import type { ContentBlock } from '../../../src/base/messages.ts';
import { checkRequestText } from '../../../src/context/legality/legality.ts';
import { renderMessages } from '../../../src/context/render.ts';
import { agent, open } from '../../../src/index.ts';
import { aiModel } from '../../../src/models/ai-model/index.ts';
import { messagesOf } from '../../../src/models/ai-model/prompt.ts';
import type { RequestMessage } from '../../../src/models/provider.ts';
import { encodeRequest } from '../../../src/models/request-body.ts';
import { loggedForm } from '../../../src/session/history/logged-form.ts';
import { checkMessage } from '../../../src/session/history/message-check.ts';
import { storableAnswer } from '../../../src/session/rules/answer.ts';
import type { LoggedMessage } from '../../../src/session/state/messages.ts';
import { fakeGemini, fakeOpenAi } from '../../../src/testing/index.ts';
import { vendors } from './samples.ts';

const origin = { provider: 'vendor.responses', model: 'm-1', metadata: { vendor: { itemId: 'i_1' } } };
const ANSWER: readonly ContentBlock[] = [
  { type: 'thinking', thinking: 'Hm.', signature: '', origin },
  { type: 'tool_use', id: 'call_1', name: 'look', input: {}, origin: { ...origin, id: 'call_1' } },
];

function logged(blocks: readonly ContentBlock[]): readonly LoggedMessage[] {
  const call = { type: 'tool_call', content: 'look', toolUseId: 'call_1', toolName: 'look', input: {} } as const;
  const at = { at: 0, tokens: 1 };
  return [
    { seq: 1, type: 'user_message', content: 'Look.', ...at },
    { seq: 2, ...call, blocks, ...at },
    { seq: 3, type: 'tool_response', content: 'A dot.', toolUseId: 'call_1', toolName: 'look', success: true, ...at },
  ];
}

it('manual thinking, which requires a thought before a call, gets the call as text (R22)', () => {
  const options = { timestamps: false, deliveriesAsText: true, callsNeedThought: true };
  const text = encodeRequest({
    model: 'claude-opus-4-6',
    max_tokens: 4_096,
    thinking: { type: 'enabled', budget_tokens: 2_048 },
    tools: [{ name: 'look', description: 'Looks.', input_schema: { type: 'object' } }],
    messages: renderMessages(logged(ANSWER), options),
  });
  expect(checkRequestText(text)).toEqual([]);
  expect(JSON.parse(text).messages).toMatchObject([
    { role: 'user', content: [{ text: 'Look.' }, { text: '[look {}] A dot.' }] },
  ]);
});

it('the stored form keeps thoughts, metadata and parts of other models', () => {
  const part: ContentBlock = { type: 'provider_part', part: { type: 'custom', kind: 'vendor.x' }, origin };
  const said: ContentBlock = { type: 'text', text: 'Done.', origin };
  const content = [...ANSWER, part, said];
  const options = { stop: 'tool_use', halfStep: 1, taken: new Set<string>(), timeoutMsOf: () => undefined };
  expect(storableAnswer(content, options).content).toEqual(content);
  // Claude's thought without a signature was cut off.
  expect(storableAnswer([{ type: 'thinking', thinking: 'Hm.', signature: '' }], options).content).toEqual([]);
});

it('an answer that an embedder gives has no origin', () => {
  const blocks: readonly ContentBlock[] = [{ type: 'text', text: 'Done.', origin }, ...ANSWER];
  const message = { id: 'm9', createdAt: 0, role: 'assistant', content: 'Done.', blocks } as const;
  expect(() => checkMessage(message)).not.toThrow();
  expect(loggedForm(message)[0].blocks).toEqual([
    { type: 'text', text: 'Done.' },
    { type: 'tool_use', id: 'call_1', name: 'look', input: {} },
  ]);
  expect(() => checkMessage({ ...message, role: 'user', content: [{ type: 'text', text: 'x', origin }] })).toThrow(
    /origin/,
  );
});

it('a call has the id under which its provider knows it, once', () => {
  const reader = {
    provider: origin.provider,
    wire: origin.provider,
    model: origin.model,
    version: 'v3',
    urls: {},
    mediaInResults: true,
  } as const;
  const round = (id: string): readonly RequestMessage[] => [
    {
      role: 'assistant',
      content: [{ type: 'tool_use', id, name: 'look', input: {}, origin: { ...origin, id: 'look:0' } }],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'A dot.' }] },
  ];
  const prompt = messagesOf([...round('call_1_0'), ...round('call_2_0')], reader);
  const ids = prompt.map(({ content }) => Reflect.get(Object(content[0]), 'toolCallId'));
  expect(ids).toEqual(['look:0', 'look:0', 'call_2_0', 'call_2_0']);
  const foreign = messagesOf(round('call_1_0'), { ...reader, model: 'm-2' });
  expect(foreign.map(({ content }) => Reflect.get(Object(content[0]), 'toolCallId'))).toEqual(['call_1_0', 'call_1_0']);
});

it('a prompt does not end with the words of the model: a paused answer of Claude is continued by a message', async () => {
  const fake = fakeGemini({ script: ['So.'] });
  const { gemini } = await vendors();
  const messages: readonly RequestMessage[] = [
    { role: 'user', content: 'Search.' },
    { role: 'assistant', content: [{ type: 'text', text: 'I search.' }] },
  ];
  const context = { signal: new AbortController().signal, onDelta: () => undefined, session: 's' };
  await aiModel(gemini(fake.fetch, 'gemini-3-pro')).generate(
    { model: 'gemini-3-pro', max_tokens: 10, messages },
    context,
  );
  expect(fake.refusals).toEqual([]);
});

it.each([
  ['a guardrail changes it', true],
  ['an edit changes it', false],
])('an answer has no origin once %s, and the wire takes it', async (_name, isGuarded) => {
  const fake = fakeOpenAi({ script: [{ thinking: 'Hm.', text: 'rude' }, 'Sorry.'] });
  const { openAi } = await vendors();
  const helper = agent({
    name: 'helper',
    model: 'gpt-5.5',
    ...(isGuarded
      ? { guardrails: { after: [({ message }) => ({ transform: { ...message, content: 'polite' } })] } }
      : {}),
  });
  const provider = aiModel(openAi(fake.fetch, 'gpt-5.5'));
  const runtime = await open(':memory:', { provider, agents: [helper], logger: false });
  try {
    const session = runtime.session('s');
    await session.ask('Hello');
    if (!isGuarded) {
      const [, answer] = await session.history.toArray();
      await session.history.update({ id: String(answer?.id) }, { content: 'polite' });
    }
    await session.ask('Again');
    expect(fake.refusals).toEqual([]);
    const items = fake.requests.at(-1)?.['input'] as readonly object[];
    // A text with an origin would be a reference to the item, or have its id.
    expect(items[1]).toMatchObject({ role: 'assistant' });
    expect(JSON.stringify(items[1])).toContain('polite');
    expect(Reflect.get(Object(items[1]), 'id')).toBeUndefined();
  } finally {
    await runtime.close();
  }
});
