/** Goal: the request for a model is legal, stripped, and the same every time. Method: the contract's examples. */
import { describe, expect, it } from 'vitest';
import { NotPlainError, sanitise } from '../../../src/base/json.ts';
import { estimateHistoryTokens, lastRealUserIndex, realUserMessages } from '../../../src/session/history/queries.ts';
import { padReasoning, toApi, withReasoningPad } from '../../../src/session/history/to-api.ts';
import { ask, result, said, user } from '../../support/history-kit.ts';

const MISSING = '{"error":"Tool result missing (interrupted)"}';

describe('the request form of a history', () => {
  it('H40: internal and unknown fields are not sent', () => {
    const flags = {
      taskId: 3,
      systemInjected: true,
      sessionContext: true,
      sessionDate: '2026-01-01',
      memoryUpdate: true,
      chunkIndex: true,
      chunkCount: 2,
      truncated: true,
      extEvents: [1],
      unheardOf: 'x',
    };
    const sent = toApi([
      { ...user('u'), ...flags },
      { ...ask('a', 'x'), ...flags, tokenUsage: { input_tokens: 1, output_tokens: 1 } },
      { ...result('x'), ...flags },
    ]);
    expect(sent).toEqual([
      { role: 'user', content: 'u' },
      { role: 'assistant', content: '', toolCalls: [{ callId: 'x', name: 'bash', arguments: '{}' }] },
      { role: 'tool', content: 'of x', toolCallId: 'x', name: 'bash' },
    ]);
  });

  it('H40: an image without its data is left out, and named if it was the only content', () => {
    const hole = { type: 'image', source: { type: 'base64', media_type: 'image/png' } } as const;
    const sent = toApi([
      { ...user('u'), content: [{ type: 'text', text: 'see' }, hole] },
      { ...user('v'), content: [hole] },
    ]);
    expect(sent.map(({ content }) => content)).toEqual([
      [{ type: 'text', text: 'see' }],
      '[image no longer available]',
    ]);
  });

  it('H41: a missing result is added after the existing ones', () => {
    const sent = toApi([ask('a', 'x', 'y'), result('y'), user('u')]);
    expect(sent.map(({ role, toolCallId }) => toolCallId ?? role)).toEqual(['assistant', 'y', 'x', 'user']);
    expect(sent[2]?.content).toBe(MISSING);
  });

  it('H41: a result found later is moved into position; stray and second results are left out', () => {
    const sent = toApi([result('x'), ask('a', 'x'), user('u'), result('x', 'late'), result('x', 'again')]);
    expect(sent.map(({ role, content }) => `${role} ${String(content)}`)).toEqual([
      'assistant ',
      'tool late',
      'user u',
    ]);
  });

  it('H42: two calls give the same bytes, and change nothing', () => {
    const messages = [user('u'), ask('a', 'x'), said('b')];
    const before = JSON.stringify(messages);
    expect(JSON.stringify(toApi(messages))).toBe(JSON.stringify(toApi(messages)));
    expect(JSON.stringify(messages)).toBe(before);
  });

  it('H49: messages of other tasks are left out with their results; task 0 is a task, null means all', () => {
    const messages = [
      user('untagged'),
      { ...user('root'), taskId: 0 },
      { ...ask('a', 'x'), taskId: 2 },
      { ...result('x'), taskId: 1 },
      { ...user('one'), taskId: 1 },
    ];
    const texts = (taskChain: readonly number[]): readonly unknown[] =>
      toApi(messages, { taskChain }).map(({ content }) => content);
    expect(texts([1])).toEqual(['untagged', 'one']);
    expect(texts([0])).toEqual(['untagged', 'root']);
    expect(toApi(messages, { taskChain: [2] }).at(-1)?.content).toBe(MISSING);
  });

  it('H44: the empty text is evidence of reasoning, null is not; only assistant messages are padded', () => {
    const plain = [user('u'), said('a'), { ...said('b'), reasoningContent: null }];
    expect(padReasoning(plain)).toBe(plain);
    const messages = [...plain, { ...said('c'), reasoningContent: '' }, result('x')];
    const padded = padReasoning(messages);
    expect(padded.map((message) => message.reasoningContent)).toEqual([undefined, '', null, '', undefined]);
    expect(messages[1]).toEqual(said('a'));
    expect(padReasoning(plain, true)[1]).toEqual({ ...said('a'), reasoningContent: '' });
  });

  it('H45: a refusal because reasoning is missing is retried once with padding, and a second refusal is final', async () => {
    const refusal = Object.assign(new Error('The reasoning_content in the thinking mode must be passed back'), {
      status: 400,
    });
    const sent: (readonly (string | null | undefined)[])[] = [];
    /**
     * A provider that accepts a request only with reasoning in every answer; with `strict` it also refuses such a
     * request.
     */
    const call = (strict: boolean) => async (forceReasoningPad: boolean) => {
      const messages = toApi([user('u'), said('a')], { forceReasoningPad });
      sent.push(messages.map((message) => message.reasoningContent));
      if (strict || messages[1]?.reasoningContent === undefined) throw refusal;
      return 'fine';
    };
    expect(await withReasoningPad(call(false))).toBe('fine');
    expect(sent.splice(0)).toEqual([
      [undefined, undefined],
      [undefined, ''],
    ]);
    await expect(withReasoningPad(call(true))).rejects.toBe(refusal);
    expect(sent).toHaveLength(2);
    const other = Object.assign(new Error('reasoning_content'), { status: 400 });
    await expect(withReasoningPad(() => Promise.reject(other))).rejects.toBe(other);
  });
});

describe('readings of a history', () => {
  it('H38: injected messages and messages that carry results are not user messages', () => {
    const carrier = { ...user('c'), content: [{ type: 'tool_result' as const, tool_use_id: 'x' }] };
    const messages = [user('u'), { ...user('i'), systemInjected: true }, said('a'), carrier];
    expect(realUserMessages(messages)).toEqual([user('u')]);
    expect(lastRealUserIndex(messages)).toBe(0);
    expect(lastRealUserIndex([])).toBeNull();
  });

  it('H39: the reference values of the estimate', () => {
    const of = (content: string): number => estimateHistoryTokens([user('u', content)]);
    expect(of('a'.repeat(40))).toBe(14);
    expect(of('漢字漢字')).toBe(7);
    expect(of('ab漢')).toBe(6);
    expect(of('😀')).toBe(5);
    expect(of('')).toBe(4);
    const call = { callId: 'x', name: 'bash', arguments: '{"command":"ls -la"}' };
    expect(estimateHistoryTokens([{ ...said('a', ''), toolCalls: [call] }])).toBe(10);
  });

  it('H39: results inside a message and inputs of calls count', () => {
    const carried = { type: 'tool_result' as const, tool_use_id: 'x', content: 'a'.repeat(40) };
    expect(estimateHistoryTokens([{ ...user('u'), content: [carried] }])).toBe(14);
    const use = { type: 'tool_use' as const, id: 'x', name: 'n', input: { a: 'b' } };
    expect(estimateHistoryTokens([{ ...user('u'), content: [use] }])).toBe(7);
  });
});

describe('cleaning', () => {
  it('H48: a clean value is returned as it is', () => {
    const clean = {
      text: 'a😀\u0000\uFEFF\uFFFD',
      list: [1, null, true, { at: new Date(0) }],
      bytes: new Uint8Array(2),
    };
    expect(sanitise(clean)).toBe(clean);
    expect(sanitise('x')).toBe('x');
  });

  it('H46, H48: an unclean value is copied along the path to it, and never changed', () => {
    const kept = { ok: 'fine' };
    const dirty = { 'k\uD83D': 1, deep: [{ text: 'a\uDE00b' }], kept };
    const cleaned = sanitise(dirty);
    expect(cleaned).toEqual({ 'k\uFFFD': 1, deep: [{ text: 'a\uFFFDb' }], kept });
    expect((cleaned as typeof dirty).kept).toBe(kept);
    expect(dirty.deep[0]?.text).toBe('a\uDE00b');
    expect(sanitise({ 'a\uD83D': 1, 'a\uD83E': 2 })).toEqual({ 'a\uFFFD': 2 });
  });

  it('H48: a circular value is refused, and a member named like one of a prototype stays data', () => {
    const loop: { self?: unknown } = {};
    loop.self = loop;
    expect(() => sanitise(loop)).toThrow(NotPlainError);
    const named = sanitise(JSON.parse('{"__proto__":"\\ud83d"}') as object);
    expect(Object.getPrototypeOf(named)).toBe(Object.prototype);
    expect(Object.getOwnPropertyDescriptor(named, '__proto__')?.value).toBe('\uFFFD');
  });
});
