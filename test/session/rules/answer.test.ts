import { describe, expect, it } from 'vitest';
import { CALLS_PER_ANSWER_MAX, PAUSE_CONTINUATIONS_MAX, TOOL_TIMEOUT_MS_MAX } from '../../../src/base/bounds.ts';
import { answerText, storableAnswer } from '../../../src/session/rules/answer.ts';
import { call, executingSession, type Machine, startedSession, text, USAGE } from '../../support/session-kit.ts';

function answered(content: unknown, stop?: string): Machine {
  const machine = startedSession({ sent: 'hello' });
  machine.answer(content, stop === undefined ? {} : { stop });
  return machine;
}

const SIGNED = { type: 'thinking', thinking: 'hm', signature: 'sig' } as const;

describe('an answer', () => {
  it('F049: text becomes one agent message with the usage, and the session is idle', () => {
    const machine = answered([text('one '), text('two')]);
    expect(machine.state.state).toBe('idle');
    expect(machine.state.messages.at(-1)).toMatchObject({ type: 'agent_message', content: 'one two', usage: USAGE });
    expect(machine.state.usage).toEqual(USAGE);
    expect(machine.events('turn.finished')).toEqual([
      { type: 'turn.finished', turn: 'turn-1', reason: 'end_turn', usage: USAGE },
    ]);
    expect(machine.state.receipts.get(1)).toEqual({ status: 'answered', turn: 1, text: 'one two' });
  });

  it('F050: calls are logged with their label and run, once per call, in order', () => {
    const machine = answered([call('a', 'bash', { command: 'ls' }), call('b', 'read_file')]);
    expect(machine.log.slice(1)).toEqual(['tool_call Calling bash', 'tool_call Calling read_file']);
    expect(machine.state.state).toBe('executing');
    expect(machine.last).toMatchObject([
      {
        type: 'runTool',
        callId: 'a',
        name: 'bash',
        input: { command: 'ls' },
        key: 's#2@ltqzq4o0',
        mode: 'run',
        timeoutMs: 180_000,
      },
      { type: 'runTool', callId: 'b', name: 'read_file', key: 's#3@ltqzq4o0' },
    ]);
    expect(machine.events('tool.started').map((event) => event.toolName)).toEqual(['bash', 'read_file']);
  });

  it('F051: text in an answer with calls comes before the calls', () => {
    const machine = answered([call('a', 'bash'), text('looking')]);
    expect(machine.log.slice(1)).toEqual(['agent_message looking', 'tool_call Calling bash']);
    expect(machine.state.state).toBe('executing');
  });

  it('Δ17: the usage of an answer without text is on its first call, once', () => {
    const machine = answered([call('a', 'bash'), call('b', 'bash')]);
    expect(machine.state.messages.slice(1).map((message) => message.usage)).toEqual([USAGE, undefined]);
  });

  it('F052: a call without an id is given one, the same in the log and for its run', () => {
    const machine = answered([{ type: 'tool_use', name: 'bash', input: {} }]);
    const logged = machine.state.messages.at(-1)?.toolUseId;
    expect(logged).toMatch(/^[a-zA-Z0-9_-]+$/);
    expect(machine.effect('runTool')?.callId).toBe(logged);
    expect(machine.state.messages.at(-1)?.blocks).toMatchObject([{ type: 'tool_use', id: logged }]);
  });

  it('F052: a call without an input has an empty one', () => {
    expect(answered([{ type: 'tool_use', id: 'a', name: 'bash' }]).effect('runTool')?.input).toEqual({});
  });

  it.each([
    ['no blocks', []],
    ['no content', undefined],
    ['null', null],
    ['a string', 'nonsense' as unknown],
    ['blank text only', [text(' \n')]],
    ['things that are no blocks', [null, 7, 'x', {}]],
  ])('F053: %s leaves no message and an idle session', (_what, content) => {
    const machine = startedSession({ sent: 'hello' });
    machine.input({ type: 'answered', halfStep: 1, content, stop: 'end_turn', usage: USAGE });
    expect(machine.log).toEqual(['user_message hello']);
    expect(machine.state).toMatchObject({ state: 'idle', usage: USAGE });
    expect(machine.state.receipts.get(1)).toEqual({ status: 'answered', turn: 1, text: '' });
  });

  it('F054: an answer with calls of reserved names only ends the turn', () => {
    const machine = answered([call('a', 'from_sleuth'), call('b', 'from_')]);
    expect(machine.log).toEqual(['user_message hello']);
    expect(machine.allOf('runTool')).toEqual([]);
    expect(machine.state.state).toBe('idle');
  });

  it('F055: a reserved call beside a real one is left out', () => {
    const machine = answered([call('a', 'from_sleuth'), call('b', 'bash')]);
    expect(machine.allOf('runTool').map((effect) => effect.callId)).toEqual(['b']);
    expect(machine.state.messages.at(-1)?.blocks).toEqual([call('b', 'bash')]);
  });

  it('F056: text beside a reserved call is kept and ends the turn', () => {
    const machine = answered([text('waiting'), call('a', 'from_sleuth')]);
    expect(machine.log.at(-1)).toBe('agent_message waiting');
    expect(machine.state.state).toBe('idle');
  });

  it('F057 Δ16: a call cut off by the token limit is not run but answered with a failure', () => {
    const machine = answered([call('a', 'bash'), call('b', 'bash')], 'max_tokens');
    expect(machine.allOf('runTool').map((effect) => effect.callId)).toEqual(['a']);
    expect(machine.state.mailbox).toMatchObject([
      { toolUseId: 'b', success: false, content: expect.stringContaining('truncated') },
    ]);
    machine.finish('a');
    expect(machine.state.state).toBe('awaiting');
  });

  it('F057: a complete call before cut-off text is run', () => {
    const machine = answered([call('a', 'bash'), text('and th')], 'max_tokens');
    expect(machine.allOf('runTool').map((effect) => effect.callId)).toEqual(['a']);
  });

  it('Δ16: the calls of a refused answer are neither stored nor run', () => {
    const machine = answered([text('I cannot.'), call('a', 'bash')], 'refusal');
    expect(machine.state.state).toBe('idle');
    expect(machine.state.openCalls.size).toBe(0);
    expect(machine.events('turn.finished')[0]?.reason).toBe('refusal');
    expect(machine.state.messages.at(-1)?.blocks).toEqual([text('I cannot.')]);
  });
});

describe('a paused answer', () => {
  it('Δ16 F31: is continued without promotion, and its parts form one answer', () => {
    const machine = answered([text('part one, ')], 'pause_turn');
    machine.send('waits');
    expect(machine.state).toMatchObject({ state: 'awaiting', current: { halfStep: 2, attempt: 1 } });
    machine.answer([text('part two')]);
    expect(machine.state.receipts.get(1)).toEqual({ status: 'answered', turn: 1, text: 'part one, part two' });
    expect(machine.state.messages.at(-1)?.content).toBe('waits');
  });

  it('F31: is continued at most six times', () => {
    const machine = startedSession({ sent: 'hello' });
    for (let part = 0; part < PAUSE_CONTINUATIONS_MAX; part += 1) machine.answer([text('x')], { stop: 'pause_turn' });
    expect(machine.state.state).toBe('awaiting');
    machine.answer([text('x')], { stop: 'pause_turn' });
    expect(machine.state.state).toBe('idle');
    expect(machine.allOf('callModel')).toHaveLength(1 + PAUSE_CONTINUATIONS_MAX);
    expect(machine.state.usage.output_tokens).toBe(USAGE.output_tokens * (1 + PAUSE_CONTINUATIONS_MAX));
  });

  it('the parts are not joined with the text of an earlier half-step', () => {
    const machine = answered([text('let me look'), call('a', 'bash')]);
    machine.finish('a');
    machine.answer([{ type: 'server_tool_use', id: 'w', name: 'web_search', input: {} }], { stop: 'pause_turn' });
    machine.answer([text('the answer')]);
    expect(machine.state.receipts.get(1)).toMatchObject({ text: 'the answer' });
  });

  it('calls in its last part run', () => {
    const machine = answered([text('thinking about it')], 'pause_turn');
    machine.answer([call('a', 'bash')]);
    expect(machine.state.state).toBe('executing');
    expect(machine.effect('runTool')?.callId).toBe('a');
  });
});

describe('the stored form of an answer', () => {
  const OPTIONS = { stop: 'tool_use', halfStep: 3, taken: new Set<string>(), timeoutMsOf: () => undefined };

  it('F29 R05: ids repeated in one answer or already used are rewritten, and stay legal', () => {
    const content = [
      call('a', 'bash'),
      call('a', 'bash'),
      call('b', 'bash'),
      call('no good!', 'bash'),
      call('', 'bash'),
    ];
    const { calls } = storableAnswer(content, { ...OPTIONS, taken: new Set(['b', 'call_3_3']) });
    expect(calls.map(({ id }) => id)).toEqual(['a', 'a_2', 'b_2', 'call_3_3_2', 'call_3_4']);
  });

  it('R05: an id with the reserved prefix, which a later delivery could have, is rewritten', () => {
    const { calls } = storableAnswer([call('from_sleuth_7', 'bash')], OPTIONS);
    expect(calls).toEqual([{ id: 'call_3_0' }]);
  });

  it('F29: an id used in an earlier turn is rewritten', () => {
    const machine = executingSession({ a: 'bash' });
    machine.finish('a');
    machine.answer([call('a', 'bash')]);
    expect(machine.effect('runTool')?.callId).toBe('a_2');
    expect(machine.state.messages.at(-1)?.toolUseId).toBe('a_2');
  });

  it('F27: an input that is not an object is not run', () => {
    const machine = answered([call('a', 'bash', 'ls'), call('b', 'bash', ['ls'])]);
    expect(machine.allOf('runTool')).toEqual([]);
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.messages.filter((message) => message.success === false)).toHaveLength(2);
    expect(machine.state.messages.at(1)?.input).toEqual({});
  });

  it('A9: calls beyond the bound of one answer are refused, each with a result', () => {
    const calls = Array.from({ length: CALLS_PER_ANSWER_MAX + 2 }, (_, index) => call(`c${index}`, 'bash'));
    const machine = answered(calls);
    expect(machine.allOf('runTool')).toHaveLength(CALLS_PER_ANSWER_MAX);
    expect(machine.state.mailbox).toHaveLength(2);
    expect(machine.state.mailbox[0]?.success).toBe(false);
  });

  it('R20: all blocks are kept unchanged and in order, with the messages split from them', () => {
    const content = [SIGNED, text('so'), call('a', 'bash')];
    const machine = answered(content);
    expect(machine.state.messages[1]).toMatchObject({ type: 'agent_message', content: 'so', blocks: content });
    expect(machine.state.messages[2]).toMatchObject({ type: 'tool_call', inAnswer: true });
  });

  it('blocks without text or call still become a message', () => {
    const machine = answered([SIGNED]);
    expect(machine.state.messages.at(-1)).toMatchObject({ type: 'agent_message', content: [SIGNED], blocks: [SIGNED] });
  });

  it('R08 R09: blank text blocks are dropped, surrogates repaired', () => {
    const { content } = storableAnswer([text(''), text(' '), text('a\uD800')], { ...OPTIONS, stop: 'end_turn' });
    expect(content).toEqual([text('a\uFFFD')]);
  });

  it('R38: a paused answer is kept unchanged, citations and blanks at its end included', () => {
    const cited = {
      type: 'text',
      text: 'so far \n',
      citations: [{ type: 'web_search_result_location', url: 'https://a.example' }],
    };
    const called = { ...call('a', 'bash'), caller: { type: 'direct' }, toolset_name: 'computer' };
    expect(storableAnswer([cited], { ...OPTIONS, stop: 'pause_turn' }).content).toEqual([cited]);
    const marked = { ...called, cache_control: { type: 'ephemeral' }, later: null };
    expect(storableAnswer([marked], OPTIONS).content).toEqual([called]);
    expect(storableAnswer([called, { ...text('x'), citations: null }], OPTIONS).content).toEqual([called, text('x')]);
  });

  it('R04 R21: blocks that only a user may send, and thinking cut off before its signature, are dropped', () => {
    const result = { type: 'tool_result', tool_use_id: 'x', content: 'y' };
    const unsigned = { type: 'thinking', thinking: 'hm' };
    const { content } = storableAnswer([result, unsigned, { ...unsigned, signature: '' }, SIGNED, text('ok')], OPTIONS);
    expect(content).toEqual([SIGNED, text('ok')]);
  });

  it('the text of an answer is all its text joined without a separator', () => {
    expect(answerText([text('a'), SIGNED, text('b')])).toBe('ab');
  });

  it('Δ1: the timeout set by a model is kept with the call, if the tool allows it, within the bound', () => {
    const machine = answered([
      ...[call('a', 'slow', { timeout: 600 }), call('b', 'bash', { timeout: 600 })],
      ...[
        call('c', 'slow', { timeout: 1e308 }),
        call('d', 'slow', { timeout: -1 }),
        call('e', 'slow', { timeout: '9' }),
      ],
    ]);
    const timeouts = Object.fromEntries(machine.allOf('runTool').map((effect) => [effect.callId, effect.timeoutMs]));
    expect(timeouts).toEqual({ a: 600_000, b: 180_000, c: TOOL_TIMEOUT_MS_MAX, d: 180_000, e: 180_000 });
    expect(machine.state.openCalls.get('a')?.timeoutMs).toBe(600_000);
    expect(machine.state.messages.find((message) => message.toolUseId === 'a')?.timeoutMs).toBe(600_000);
  });
});
