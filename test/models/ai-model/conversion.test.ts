/**
 * Goal: history → prompt → parts → blocks is the identity, or a loss of the table; and no wire refuses any history.
 * Method: random histories with blocks of several models (fast-check). The way back is made of the code that reads
 * answers; losses are applied by hand, by the ids of the table.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ContentBlock, type ResultBlock, textOf } from '../../../src/base/messages.ts';
import { checkRequestText } from '../../../src/context/legality/legality.ts';
import { PartAssembly } from '../../../src/models/ai-model/answer.ts';
import { aiModel, LOSSES } from '../../../src/models/ai-model/index.ts';
import { FAILED_TEXT, MEDIA_FOLLOWS_TEXT, messagesOf, type PromptReader } from '../../../src/models/ai-model/prompt.ts';
import type { AssistantPart, PromptMessage } from '../../../src/models/ai-model/specification.ts';
import type { RequestMessage } from '../../../src/models/provider.ts';
import { encodeRequest } from '../../../src/models/request-body.ts';
import { fakeGemini, fakeOpenAi, fakeOpenAiCompatible } from '../../../src/testing/index.ts';
import { histories, OTHERS, OWN } from './histories.ts';
import { vendors } from './samples.ts';

const READER: PromptReader = { ...OWN, wire: OWN.provider, version: 'v3', urls: {}, mediaInResults: true };

/** Plays the parts of a prompt as the parts of an answer. */
function answerOf(parts: readonly AssistantPart[]): readonly ContentBlock[] {
  const assembly = new PartAssembly(OWN, () => undefined);
  parts.forEach((part, index) => {
    const fields = part as Readonly<Record<string, unknown>>;
    const { providerOptions: providerMetadata, ...own } = fields;
    const id = String(index);
    if (part.type === 'text' || part.type === 'reasoning') {
      assembly.accept({ type: `${String(part.type)}-start`, id });
      assembly.accept({ type: `${String(part.type)}-delta`, id, delta: fields['text'] });
      assembly.accept({ type: `${String(part.type)}-end`, id, providerMetadata });
    } else if (part.type === 'tool-call') {
      assembly.accept({ ...own, input: JSON.stringify(fields['input']), providerMetadata });
    } else {
      assembly.accept({ ...own, providerMetadata });
    }
  });
  assembly.accept({ type: 'finish', finishReason: { unified: 'stop' }, usage: {} });
  return assembly.response().content;
}

/** A history as the prompt should give it back: the blocks of the answers, and the texts and files of the others. */
type Plain = readonly (readonly [role: string, content: unknown])[];

/** The losses that a run has met. */
const met = new Set<string>();

function lose<T>(id: string, value: T): T {
  expect(LOSSES.map((loss) => loss.id)).toContain(id);
  met.add(id);
  return value;
}

/** The history with the losses of the table. */
function expected(history: readonly RequestMessage[], reader: PromptReader): Plain {
  const plain: [string, unknown][] = [];
  const put = (role: string, content: readonly unknown[]): void => {
    if (content.length === 0) return;
    const last = plain.at(-1);
    if (last?.[0] === role && role !== 'tool')
      last[1] = lose('joined', [...(last[1] as readonly unknown[]), ...content]);
    else plain.push([role, content]);
  };
  for (const { role, content } of history) {
    const blocks: readonly ContentBlock[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    if (role === 'assistant') put(role, withoutLast(blocks.flatMap((block) => expectedBlock(block))));
    else {
      const after: unknown[] = [];
      const results = blocks.flatMap((block) =>
        block.type === 'tool_result' ? [expectedResult(block, reader, after)] : [],
      );
      put('tool', results);
      put('user', [...after, ...blocks.flatMap((block) => (block.type === 'tool_result' ? [] : expectedMedia(block)))]);
    }
  }
  return plain;
}

function expectedBlock(block: ContentBlock): readonly ContentBlock[] {
  const origin = 'origin' in block ? block.origin : undefined;
  const isOwn =
    typeof origin === 'object' &&
    origin !== null &&
    'provider' in origin &&
    'model' in origin &&
    origin.provider === OWN.provider &&
    origin.model === OWN.model;
  if (block.type === 'thinking' || block.type === 'redacted_thinking')
    return isOwn ? [block] : lose('foreign-thought', []);
  if (block.type === 'provider_part') return isOwn ? [block] : lose('foreign-part', []);
  if (block.type === 'server_tool_use' || block.type.endsWith('_tool_result')) return lose('server-tool', []);
  if (origin === undefined || isOwn) return [block];
  const { origin: _origin, ...rest } = block as { readonly origin?: unknown };
  return [lose('foreign-metadata', rest as ContentBlock)];
}

function withoutLast(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  const end = blocks.findLastIndex(({ type }) => type !== 'thinking') + 1;
  return end === blocks.length ? blocks : lose('last-thought', blocks.slice(0, end));
}

function expectedMedia(block: ContentBlock): readonly unknown[] {
  if (block.type === 'text') return [{ type: 'text', text: block.text }];
  if (block.type === 'search_result') {
    return [lose('search-result', { type: 'text', text: `${block.title}\n${block.source}\n${textOf(block.content)}` })];
  }
  if (block.type !== 'image' && block.type !== 'document') return [];
  const { type, data, url, file_id: file, media_type: mediaType } = block.source;
  const name = block.type === 'image' ? 'image' : 'file';
  if (type === 'file')
    return [lose('stored-file', { type: 'text', text: `[${name} ${String(file)}: kept by another provider]` })];
  if (type === 'url') return [lose('address', { type: 'text', text: `[${name}: ${String(url)}]` })];
  const title = block.type === 'document' ? block.title : undefined;
  if (type === 'text') return [lose('document-text', { type: 'text', text: `${title}\n${String(data)}` })];
  return [{ type: 'file', mediaType, data, ...(title === undefined ? {} : { filename: title }) }];
}

function expectedResult(
  block: Extract<ContentBlock, { type: 'tool_result' }>,
  reader: PromptReader,
  after: unknown[],
): unknown {
  const { content = '', is_error: isError = false } = block;
  const type = isError ? 'error-text' : 'text';
  if (typeof content === 'string') return { type, value: content };
  const parts = (content as readonly ResultBlock[]).flatMap(expectedMedia) as readonly {
    type: string;
    text?: string;
  }[];
  const files = parts.filter((part) => part.type === 'file');
  if (files.length === 0) return { type, value: parts.map((part) => part.text).join('\n') };
  if (!reader.mediaInResults) {
    after.push(...lose('result-media', files));
    const texts = parts.filter((part) => part.type === 'text').map((part) => part.text);
    return { type, value: texts.length === 0 ? MEDIA_FOLLOWS_TEXT : texts.join('\n') };
  }
  return {
    type: 'content',
    value: isError ? lose('failed-media', [{ type: 'text', text: FAILED_TEXT }, ...parts]) : parts,
  };
}

/** The prompt in the same form: answers are read by the code that reads answers. */
function actual(prompt: readonly PromptMessage[]): Plain {
  return prompt.map((message) => {
    if (message.role === 'assistant') return [message.role, answerOf(message.content)];
    if (message.role !== 'tool') return [message.role, message.content];
    const outputs = message.content.map(({ output }) =>
      output.type === 'content' ? { ...output, value: output.value.map(plainPart) } : output,
    );
    return [message.role, outputs];
  });
}

function plainPart(part: object): unknown {
  const { type, data, mediaType, filename } = part as Readonly<Record<string, unknown>>;
  if (type !== 'image-data' && type !== 'file-data') return part;
  return { type: 'file', mediaType, data, ...(filename === undefined ? {} : { filename }) };
}

/** Ids are judged apart: each call and its result have the same one. */
function withoutIds(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key: string, member: unknown) =>
      key === 'id' || key === 'toolCallId' ? undefined : member,
    ),
  );
}

describe('history → prompt → parts → blocks', () => {
  it.each([true, false])('is the identity, or a loss of the table (media in results: %s)', (mediaInResults) => {
    const reader = { ...READER, mediaInResults };
    fc.assert(
      fc.property(histories([OWN, ...OTHERS]), (history) => {
        const prompt = messagesOf(history, reader);
        expect(withoutIds(actual(prompt))).toEqual(withoutIds(expected(history, reader)));
      }),
      { numRuns: 400 },
    );
  });

  it('every call has a result of the same id, which is unique and fits the wire', () => {
    const readers = ['vendor.responses', 'local.chat', 'mistral.chat'].map((wire) => ({ ...READER, wire }));
    fc.assert(
      fc.property(histories([OWN, ...OTHERS]), fc.constantFrom(...readers), (history, reader) => {
        const parts = messagesOf(history, reader).flatMap(({ content }): readonly object[] =>
          typeof content === 'string' ? [] : content,
        );
        const named = (type: string): readonly unknown[] =>
          parts.filter((part) => Reflect.get(part, 'type') === type).map((part) => Reflect.get(part, 'toolCallId'));
        const calls = named('tool-call');
        expect(new Set(calls).size).toBe(calls.length);
        expect(named('tool-result')).toEqual(calls);
        const pattern = reader.wire.startsWith('mistral')
          ? /^[a-zA-Z0-9]{9}$/
          : reader.wire.endsWith('.chat')
            ? /^.{1,40}$/
            : /^.{1,64}$/;
        for (const id of calls) expect(String(id)).toMatch(pattern);
        if (calls.some((id) => /^[0-9a-f]{9,64}$/.test(String(id)))) lose('call-id', undefined);
      }),
      { numRuns: 300 },
    );
  });

  it('a longer history begins with the prompt of the shorter one', () => {
    fc.assert(
      fc.property(histories([OWN, ...OTHERS]), (history) => {
        const prompt = JSON.stringify(messagesOf(history, READER));
        for (let length = 1; length < history.length; length += 1) {
          // Requests end with a message of the user; an answer follows it.
          if (history[length]?.role !== 'assistant') continue;
          const shorter = JSON.stringify(messagesOf(history.slice(0, length), READER));
          const joined = messagesOf(history.slice(0, length + 1), READER).length;
          const isJoined = joined <= messagesOf(history.slice(0, length), READER).length;
          if (!isJoined) expect(prompt.startsWith(shorter.slice(0, -1))).toBe(true);
        }
      }),
    );
  });

  it('meets every loss of the table', () => {
    const server: RequestMessage = {
      role: 'assistant',
      content: [
        { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
        { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
        { type: 'text', text: 'Found.' },
      ],
    };
    expect(actual(messagesOf([server], READER))[0]).toEqual(expected([server], READER)[0]);
    const cited = {
      type: 'text',
      text: 'x',
      citations: [{}],
      cache_control: { type: 'ephemeral' },
    } as unknown as ContentBlock;
    const [message] = messagesOf([{ role: 'assistant', content: [cited] }], READER);
    lose('citations', expect(message?.content).toEqual([{ type: 'text', text: 'x' }]));
    lose('source', expect(answerOf([{ type: 'source', id: '1' }, { type: 'tool-approval-request' }])).toEqual([]));
    expect([...met].sort()).toEqual(LOSSES.map(({ id }) => id).sort());
  });
});

describe('no wire refuses any history of other models', async () => {
  const { openAi, gemini, compatible } = await vendors();
  const wires = {
    'OpenAI Responses': () => {
      const fake = fakeOpenAi({ script: () => 'ok' });
      return { fake, model: openAi(fake.fetch, 'gpt-5.5') };
    },
    'Gemini 3': () => {
      const fake = fakeGemini({ script: () => 'ok' });
      return { fake, model: gemini(fake.fetch, 'gemini-3-pro') };
    },
    'Gemini 2.5': () => {
      const fake = fakeGemini({ script: () => 'ok' });
      return { fake, model: gemini(fake.fetch, 'gemini-2.5-flash') };
    },
    'chat completions': () => {
      const fake = fakeOpenAiCompatible({ script: () => 'ok' });
      return { fake, model: compatible(fake.fetch, 'qwen-4') };
    },
  };
  it.each(Object.entries(wires))('%s', async (_name, make) => {
    const { fake, model } = make();
    const provider = aiModel(model);
    const context = { signal: new AbortController().signal, onDelta: () => undefined, session: 's' };
    await fc.assert(
      fc.asyncProperty(histories(OTHERS), async (messages) => {
        const tools = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object', properties: {} } }];
        await provider.generate({ model: model.modelId, max_tokens: 100, tools, messages }, context);
        expect(fake.refusals).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  it('Messages API: neither thoughts, parts nor origins of other models reach Claude', () => {
    fc.assert(
      fc.property(histories([OWN, ...OTHERS]), (messages) => {
        const tools = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object', properties: {} } }];
        const text = encodeRequest({ model: 'claude-opus-5-5', max_tokens: 100, tools, messages });
        expect(text).not.toMatch(/"origin"|"provider_part"|"signature":""/);
        const broken = checkRequestText(text).filter(({ rule }) => !['R15', 'R12'].includes(rule));
        expect(broken).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
