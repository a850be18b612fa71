/**
 * R62: a request continues a thread only if the thread holds exactly what precedes its new messages, and nothing that
 * the API keeps has changed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MESSAGE_THREAD_ID_BYTES_MAX, MESSAGE_THREAD_MS_MAX } from '../../../src/base/bounds.ts';
import type { ContentBlock } from '../../../src/base/messages.ts';
import {
  anchorAfter,
  decideThread,
  isThreadable,
  stepAfterRefusal,
  type ThreadAnchor,
} from '../../../src/models/message-threads/thread-rule.ts';
import type { ModelRequest, ModelResponse, RequestMessage, ThreadStep } from '../../../src/models/provider.ts';

const CREATE: ThreadStep = { kind: 'create' };
const CONTINUE: ThreadStep = { kind: 'continue', previousMessageId: 'msg_1', messagesFrom: 2 };
const HELLO: RequestMessage = { role: 'user', content: 'Hello' };
const HI: readonly ContentBlock[] = [{ type: 'text', text: 'Hi.' }];
const MORE: RequestMessage = { role: 'user', content: 'More' };
const MARK = { cache_control: { type: 'ephemeral' } } as const;

const FIRST: ModelRequest = {
  model: 'claude-opus-5-5',
  max_tokens: 100,
  system: 'Be brief.',
  tools: [{ name: 'add', description: 'Adds.', input_schema: { type: 'object' } }],
  messages: [HELLO],
  transport: { threads: true },
};
const SECOND: ModelRequest = { ...FIRST, messages: [HELLO, { role: 'assistant', content: HI }, MORE] };

function answer(changes: Partial<ModelResponse> = {}): ModelResponse {
  return {
    content: HI,
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
    id: 'msg_1',
    ...changes,
  };
}

function anchor(changes: Partial<ModelResponse> = {}, request: ModelRequest = FIRST): ThreadAnchor | undefined {
  return anchorAfter(request, answer(changes), 'key', 1_000);
}

function decide(request: ModelRequest, changes: Partial<ModelResponse> = {}, nowMs = 2_000): ThreadStep {
  return decideThread(anchor(changes), request, 'key', nowMs);
}

/** The request with other messages after the first answer. */
function holding(...messages: readonly RequestMessage[]): ModelRequest {
  return { ...SECOND, messages };
}

describe('the rule of message threads', () => {
  it('R62: history, answer and new messages: the thread is continued with the new messages', () => {
    expect(decide(SECOND)).toEqual(CONTINUE);
    const result: RequestMessage = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: '3' }] };
    expect(decide(holding(...SECOND.messages.slice(0, 2), result, MORE))).toEqual(CONTINUE);
  });

  it('R62: without an anchor, or after the time of a thread, the request creates one', () => {
    expect(decideThread(undefined, SECOND, 'key', 2_000)).toEqual(CREATE);
    expect(decide(SECOND, {}, 1_000 + MESSAGE_THREAD_MS_MAX - 1)).toEqual(CONTINUE);
    expect(decide(SECOND, {}, 1_000 + MESSAGE_THREAD_MS_MAX)).toEqual(CREATE);
  });

  it.each<[string, Partial<ModelRequest>]>([
    ['model', { model: 'claude-sonnet-5-5' }],
    ['system', { system: 'Be long.' }],
    ['tools', { tools: [] }],
    ['thinking', { thinking: { type: 'adaptive' } }],
    ['output_config', { output_config: { effort: 'low' } }],
    ['tool_choice', { tool_choice: { type: 'none' } }],
    ['container', { container: 'c-1' }],
    ['service_tier', { service_tier: 'auto' }],
    ['speed', { speed: 'fast' }],
    ['betas', { transport: { threads: true, betas: ['b-2026-01-01'] } }],
    ['inference_geo', { inference_geo: 'us' } as Partial<ModelRequest>],
    ['mcp_servers', { mcp_servers: [] } as Partial<ModelRequest>],
    ['a field that nobody knows yet', { later: 1 } as Partial<ModelRequest>],
  ])('R62: %s is kept by the thread: a change creates another', (_name, changes) => {
    expect(decide({ ...SECOND, ...changes })).toEqual(CREATE);
  });

  it.each<[string, Partial<ModelRequest>]>([
    ['max_tokens', { max_tokens: 7 }],
    ['stop_sequences', { stop_sequences: ['x'] }],
    ['metadata', { metadata: { user_id: 'u' } } as Partial<ModelRequest>],
    ['cacheTtl', { transport: { threads: true, cacheTtl: '1h' } }],
  ])('R62: %s belongs to each request: a change keeps the thread', (_name, changes) => {
    expect(decide({ ...SECOND, ...changes })).toEqual(CONTINUE);
  });

  it('R62: another account has another thread', () => {
    expect(decideThread(anchor(), SECOND, 'another key', 2_000)).toEqual(CREATE);
  });

  it('R62: equal histories are continued whatever their marks, the order of keys and the form of a text', () => {
    const marked: RequestMessage = { role: 'user', content: [{ type: 'text', text: 'Hello', ...MARK }] };
    const call = { type: 'tool_use', id: 't', name: 'n', input: { a: 1, b: 2 } } as const;
    const other = { name: 'n', input: { b: 2, a: 1 }, id: 't', type: 'tool_use' } as const;
    const request = holding(marked, { role: 'assistant', content: [other] }, MORE);
    expect(decideThread(anchor({ content: [call] }), request, 'key', 2_000)).toEqual(CONTINUE);
  });

  it('R62: a key of an input that has the name of a mark is part of the history', () => {
    const call = { type: 'tool_use', id: 't', name: 'n', input: { cache_control: 1 } } as const;
    const request = holding(HELLO, { role: 'assistant', content: [{ ...call, input: { cache_control: 2 } }] }, MORE);
    expect(decideThread(anchor({ content: [call] }), request, 'key', 2_000)).toEqual(CREATE);
  });

  it('R62: an answer that the next request does not hold as it came is not continued', () => {
    const thought = { type: 'thinking', thinking: 'hm', signature: 's' } as const;
    expect(decide(SECOND, { content: [thought, ...HI] })).toEqual(CREATE);
    const phantom = { type: 'tool_use', id: 'from_1', name: 'from_scout', input: {} } as const;
    expect(decide(holding(HELLO, { role: 'assistant', content: [...HI, phantom] }, MORE))).toEqual(CREATE);
  });

  it('R38, R62: a paused answer is continued without a new message, another one is not', () => {
    const resumed = holding(HELLO, { role: 'assistant', content: HI });
    expect(decide(resumed, { stop_reason: 'pause_turn' })).toEqual(CONTINUE);
    expect(decide(resumed)).toEqual(CREATE);
    expect(decide(holding(HELLO), { stop_reason: 'pause_turn' })).toEqual(CREATE);
    const prefill = holding(HELLO, { role: 'assistant', content: HI }, { role: 'assistant', content: 'So' });
    expect(decide(prefill, { stop_reason: 'pause_turn' })).toEqual(CREATE);
  });

  it.each<[string, Partial<ModelResponse>]>([
    ['refused', { stop_reason: 'refusal' }],
    ['unended', { stop_reason: null }],
    ['empty', { content: [] }],
    ['made by a fallback', { content: [{ type: 'fallback' } as unknown as ContentBlock, ...HI] }],
    [
      'counted as a fallback',
      {
        usage: {
          input_tokens: 1,
          output_tokens: 1,
          iterations: [{ type: 'fallback_message', input_tokens: 1, output_tokens: 1 }],
        },
      },
    ],
    ['without a usable id', { id: 'x'.repeat(MESSAGE_THREAD_ID_BYTES_MAX + 1) }],
    ['nested without end', { content: [{ type: 'tool_use', id: 't', name: 'n', input: deep(5_000) }] }],
  ])('R62: an answer that is %s leaves nothing to continue', (_name, changes) => {
    expect(anchor()).toBeDefined();
    expect(anchor(changes)).toBeUndefined();
  });

  it('R62: only sessions that want threads, models that have them and requests without forbidden fields get one', () => {
    expect(isThreadable(FIRST)).toBe(true);
    expect(isThreadable({ ...FIRST, transport: {} })).toBe(false);
    for (const model of ['claude-fable-5-2', 'claude-opus-9', 'gpt-7']) {
      expect(isThreadable({ ...FIRST, model })).toBe(false);
    }
    expect(isThreadable({ ...FIRST, context_management: { edits: [] } } as ModelRequest)).toBe(false);
    expect(isThreadable({ ...FIRST, fallbacks: 'default' } as ModelRequest)).toBe(false);
  });

  it('R62: a refused request is replayed once, and without a thread if the API keeps none', () => {
    const codes = ['not_found', 'already_continued', 'continue_in_flight', 'fingerprint_mismatch'];
    for (const code of codes) {
      expect(stepAfterRefusal(CONTINUE, `thread_${code}`)).toEqual(CREATE);
      expect(stepAfterRefusal(CREATE, `thread_${code}`)).toBeUndefined();
    }
    expect(stepAfterRefusal(CONTINUE, 'thread_unsupported_request')).toBe('none');
    expect(stepAfterRefusal(CREATE, 'thread_unsupported_request')).toBe('none');
    expect(stepAfterRefusal(CONTINUE, 'overloaded')).toBeUndefined();
    expect(stepAfterRefusal(CONTINUE, undefined)).toBeUndefined();
  });

  it('R62: what the API has and what is sent are together the request, whatever was edited', () => {
    const text = fc.constantFrom('a', 'b', 'c');
    const texts = fc.array(text, { minLength: 1, maxLength: 5 });
    const edit = fc.option(fc.record({ at: fc.nat(9), to: text }), { nil: undefined });
    const outcomes = new Set<string>();
    fc.assert(
      fc.property(texts, text, fc.array(text, { maxLength: 4 }), edit, (asked, reply, more, change) => {
        const said = [{ type: 'text', text: reply }] as const;
        const end = anchor({ content: said }, { ...FIRST, messages: alternating(asked) });
        const next = [...asked, reply, ...more];
        if (change !== undefined && change.at < next.length) next[change.at] = change.to;
        const step = decideThread(end, { ...FIRST, messages: alternating(next) }, 'key', 2_000);
        const held = [...asked, reply];
        const isSame = held.every((each, index) => next[index] === each) && more.length > 0;
        // The answer is an assistant's, so the message before it is a user's.
        expect(step.kind).toBe(isSame && asked.length % 2 === 1 ? 'continue' : 'create');
        if (step.kind === 'continue') expect(step.messagesFrom).toBe(held.length);
        outcomes.add(step.kind);
      }),
      { numRuns: 1_000 },
    );
    expect(outcomes.size).toBe(2);
  });
});

/** Messages of user and assistant in turn. */
function alternating(texts: readonly string[]): readonly RequestMessage[] {
  return texts.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}
