import { describe, expect, it } from 'vitest';
import { callsAtWork } from '../../../src/session/rules/healing.ts';
import { unknownToolText } from '../../../src/session/rules/tool-texts.ts';
import { call, environmentOf, executingSession, startedSession } from '../../support/session-kit.ts';

describe('results of calls', () => {
  it('F058: each call has one response, and a failure has its text', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a', '{"error":"RangeError: too far"}', false);
    machine.finish('a', 'again');
    machine.finish('b');
    const responses = machine.state.messages.filter((message) => message.type === 'tool_response');
    expect(responses.map(({ toolUseId, success }) => [toolUseId, success])).toEqual([
      ['a', false],
      ['b', true],
    ]);
    expect(responses[0]?.content).toBe('{"error":"RangeError: too far"}');
  });

  it('F059: a successful result is unchanged, and has the duration of the call', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'toolFinished', callId: 'a', content: '{"error":"no"}', success: false, ms: 12 });
    expect(machine.events('tool.finished')).toEqual([
      { type: 'tool.finished', toolUseId: 'a', toolName: 'bash', success: false, ms: 12 },
    ]);
  });

  it('F060 F28: an unknown tool is answered at once, with its name and the most similar ones', () => {
    const machine = executingSession({ a: 'bsh' });
    expect(machine.allOf('runTool')).toEqual([]);
    const response = machine.state.messages.at(-1);
    expect(response).toMatchObject({ type: 'tool_response', toolName: 'bsh', success: false });
    expect(response?.content).toMatch(/^Unknown tool: bsh\. Nearest tools: bash, /);
    expect(machine.state.state).toBe('awaiting');
  });

  it('F060: a name of Object.prototype is an unknown tool', () => {
    expect(executingSession({ a: 'constructor' }).log.at(-1)).toContain('Unknown tool: constructor');
  });

  it('F28: without any tool no similar name is suggested', () => {
    expect(unknownToolText('bash', [])).toBe('Unknown tool: bash');
    expect(unknownToolText('bash', ['bass', 'cash', 'stash', 'read_file'])).toBe(
      'Unknown tool: bash. Nearest tools: bass, cash, stash',
    );
  });

  it('F061 Δ19: a blank result becomes a placeholder and the round closes', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a', '');
    machine.finish('b', ' \n', false);
    expect(machine.log.slice(-2)).toEqual(['tool_response (no output)', 'tool_response (no output)']);
    expect(machine.state.state).toBe('awaiting');
  });

  it('F063 A5: a result for a call that has its response is dropped', () => {
    const machine = executingSession({ a: 'bash' });
    machine.finish('a', 'first');
    expect(machine.finish('a', 'second')).toEqual({ records: [], effects: [{ type: 'stale', what: 'tool result' }] });
    expect(machine.finish('nobody', 'x').effects).toEqual([{ type: 'stale', what: 'tool result' }]);
  });

  it('F063: a result after a heal is dropped', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'heal', callIds: ['a'] });
    machine.finish('a', 'late');
    expect(machine.last).toEqual([{ type: 'stale', what: 'tool result' }]);
    expect(machine.log).not.toContain('tool_response late');
  });

  it('S4: open calls are those of the running round; outside executing there are none', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    expect([...machine.state.openCalls.keys()]).toEqual(['a', 'b']);
    machine.finish('a');
    expect([...machine.state.openCalls.keys()]).toEqual(['b']);
    machine.finish('b');
    expect(machine.state.openCalls.size).toBe(0);
  });
});

describe('healing', () => {
  it('F065: a lost call is answered "timed out", as a failure, and its slot is released', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.input({ type: 'heal', callIds: ['a'] });
    expect(machine.last).toEqual([
      { type: 'cancelTool', callId: 'a', reason: expect.stringMatching(/timed out after 180 seconds/) },
    ]);
    expect(machine.events('tool.finished')).toEqual([
      { type: 'tool.finished', toolUseId: 'a', toolName: 'bash', success: false },
    ]);
    expect([...machine.state.openCalls.keys()]).toEqual(['b']);
  });

  it('F066: the timeout set by the model counts', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([call('a', 'slow', { timeout: 600 }), call('b', 'slow')]);
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toEqual([
      { id: 'a', timeoutMs: 600_000 },
      { id: 'b', timeoutMs: 180_000 },
    ]);
    machine.input({ type: 'heal', callIds: ['a'] });
    expect(machine.effect('cancelTool')?.reason).toContain('600 seconds');
  });

  it('F067: a second heal adds nothing', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.input({ type: 'heal', callIds: ['a', 'b', 'a'] });
    const { length } = machine.log;
    machine.input({ type: 'heal', callIds: ['a', 'b'] });
    expect(machine.log).toHaveLength(length);
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toEqual([]);
  });

  it('a round whose calls were all lost continues with the model, which learns of it', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('rider', { deliver: 'turn' });
    machine.input({ type: 'heal', callIds: ['a'] });
    expect(machine.log).toContainEqual(expect.stringMatching(/tool_response .*timed out/));
    expect(machine.last).toContainEqual({ type: 'callModel', halfStep: 2, attempt: 1 });
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: 1, halfSteps: 2 } });
  });

  it('a round with one lost call waits for the others', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.input({ type: 'heal', callIds: ['b'] });
    expect(machine.state.state).toBe('executing');
    machine.finish('a');
    expect(machine.state.state).toBe('awaiting');
  });

  it('without open calls a heal changes nothing', () => {
    const machine = startedSession({ sent: 'go' });
    expect(machine.input({ type: 'heal', callIds: ['a'] })).toEqual({ records: [], effects: [] });
  });
});
