import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import { checkRequestText } from '../../src/context/legality/legality.ts';
import type { RequestMessage } from '../../src/models/provider.ts';
import { encodeRequest } from '../../src/models/request-body.ts';
import { ask } from './calls.ts';

const MARK = { type: 'ephemeral' };

function last(content: RequestMessage['content']): unknown {
  const body = JSON.parse(encodeRequest(ask('x', { messages: [{ role: 'user', content }] })));
  return body.messages[0].content;
}

describe('encodeRequest', () => {
  it('R17, R43: the cache mark goes to the last block that can carry one', () => {
    const thinking: ContentBlock = { type: 'thinking', thinking: 'a', signature: 'b' };
    expect(last([{ type: 'text', text: 'a' }, thinking, { type: 'text', text: '' }])).toEqual([
      { type: 'text', text: 'a', cache_control: MARK },
      thinking,
      { type: 'text', text: '' },
    ]);
    expect(last([thinking])).toEqual([thinking]);
  });

  it('R16, R18: the newest of the given marks stays, and an input keeps its own keys', () => {
    const text = encodeRequest(
      ask('x', {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'n', input: { cache_control: 'mine' } }] },
          {
            role: 'user',
            content: [
              {
                type: 'tool_result',
                tool_use_id: 't',
                content: [{ type: 'text', text: 'b', cache_control: { type: 'ephemeral' } }],
              },
            ],
          },
        ],
      }),
    );
    expect(text).toContain('"input":{"cache_control":"mine"}');
    expect(text.split('"cache_control":{"type":"ephemeral"')).toHaveLength(3);
    expect(text).not.toContain('1h');
  });

  it('R16, R18: if the mark that stays lasts an hour, the marks before it last an hour too', () => {
    const hour = { type: 'ephemeral', ttl: '1h' } as const;
    const given = Array.from({ length: 6 }, (_, index) => ({
      role: index % 2 === 0 ? ('user' as const) : ('assistant' as const),
      content: [{ type: 'text' as const, text: `t${index}`, cache_control: hour }],
    }));
    const tools = [{ name: 'n', description: 'd', input_schema: { type: 'object' } }];
    const messages = [...given, { role: 'user' as const, content: 'end' }];
    const text = encodeRequest(ask('x', { system: 's', tools, messages }));
    expect(checkRequestText(text)).toEqual([]);
    expect(text.split('"ttl":"1h"')).toHaveLength(4);
    expect(text).toContain('"text":"t5","cache_control"');
  });

  it('R16: the part of the system prompt that the agent shares has a mark of its own, in place of the tools', () => {
    const tools = [{ name: 'n', description: 'd', input_schema: { type: 'object' } }];
    const given = { type: 'text' as const, text: 'given', cache_control: { type: 'ephemeral' } as const };
    const request = ask('x', {
      system: 'All. Yours.',
      tools,
      messages: [
        { role: 'user', content: [given] },
        { role: 'assistant', content: 'a' },
        { role: 'user', content: 'end' },
      ],
    });
    const text = encodeRequest({ ...request, transport: { sharedSystem: 5 } });
    const body = JSON.parse(text);
    expect(body.system).toEqual([
      { type: 'text', text: 'All. ', cache_control: MARK },
      { type: 'text', text: 'Yours.', cache_control: MARK },
    ]);
    expect(body.tools).toEqual(tools);
    expect(text.split('"cache_control"')).toHaveLength(1 + 4);
    expect(checkRequestText(text)).toEqual([]);
    // A prompt that is shared whole is one block, and the tools have the mark.
    for (const sharedSystem of [11, 12]) {
      expect(encodeRequest({ ...request, transport: { sharedSystem } })).toBe(encodeRequest(request));
    }
  });

  it('A8, I10: a longer history begins with the same bytes, except for the mark that moved', () => {
    const part = fc.oneof(
      fc.string().map((text): RequestMessage['content'] => `${text}.`),
      fc.array(
        fc.string().map((text): ContentBlock => ({ type: 'text', text: `${text}.` })),
        { minLength: 1, maxLength: 3 },
      ),
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 2, maxLength: 12 }), fc.nat(), (contents, cut) => {
        const messages = contents.map(
          (content, index): RequestMessage => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }),
        );
        const keep = 1 + (cut % (messages.length - 1));
        const short = encodeRequest(ask('x', { system: 's', messages: messages.slice(0, keep) }));
        const long = encodeRequest(ask('x', { system: 's', messages }));
        const again = encodeRequest(ask('x', { system: 's', messages: structuredClone(messages) }));
        expect(long).toBe(again);
        const before = messages.slice(0, keep - 1).map((message) => `${JSON.stringify(message)},`);
        const prefix = short.slice(0, short.indexOf('"messages":[') + 12) + before.join('');
        expect(short.startsWith(prefix)).toBe(true);
        expect(long.startsWith(prefix)).toBe(true);
      }),
    );
  });

  it('the text is legal and asks for a stream', () => {
    const text = encodeRequest(
      ask('Hi', { system: 'Be brief.', tools: [{ name: 'a', description: 'b', input_schema: { type: 'object' } }] }),
    );
    expect(checkRequestText(text)).toEqual([]);
    expect(JSON.parse(text)).toMatchObject({ stream: true, model: 'claude-opus-4-6', max_tokens: 1_000 });
  });
});
