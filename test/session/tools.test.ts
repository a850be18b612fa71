import { describe, expect, it } from 'vitest';
import { healExpired } from '../../src/session/healing.ts';
import { unknownToolText } from '../../src/session/tool-texts.ts';
import { call, executingSession, startedSession } from '../support/session-kit.ts';

describe('results of calls', () => {
  it('F058: each call has one response, failures with their text', () => {
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

  it('F059: success is told as it came, with the time the call took', () => {
    const machine = executingSession({ a: 'bash' });
    machine.input({ type: 'toolFinished', callId: 'a', content: '{"error":"no"}', success: false, ms: 12 });
    expect(machine.events('tool.finished')).toEqual([
      { type: 'tool.finished', toolUseId: 'a', toolName: 'bash', success: false, ms: 12 },
    ]);
  });

  it('F060 F28: an unknown tool is answered at once, naming it and the nearest', () => {
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

  it('F28: without any tool there is nothing nearest', () => {
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

  it('F063: a result after healing is dropped', () => {
    const machine = executingSession({ a: 'bash' });
    machine.world.now += 180_000;
    machine.input({ type: 'heal' });
    machine.finish('a', 'late');
    expect(machine.last).toEqual([{ type: 'stale', what: 'tool result' }]);
    expect(machine.log).not.toContain('tool_response late');
  });

  it('S4: open calls are those of the running round; none outside executing', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    expect([...machine.state.openCalls.keys()]).toEqual(['a', 'b']);
    machine.finish('a');
    expect([...machine.state.openCalls.keys()]).toEqual(['b']);
    machine.finish('b');
    expect(machine.state.openCalls.size).toBe(0);
  });
});

describe('healing', () => {
  const limit = (): number => 180_000;

  it('F065: a call older than its timeout is answered "timed out"', () => {
    const machine = executingSession({ a: 'bash' });
    expect(healExpired(machine.state, machine.world.now + 179_999, limit)).toEqual([]);
    const healed = healExpired(machine.state, machine.world.now + 200_000, limit);
    expect(healed).toMatchObject([
      { type: 'healed', toolUseId: 'a', content: expect.stringMatching(/timed out.*180 seconds/) },
    ]);
  });

  it('F066: the timeout the model asked for counts', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([call('a', 'slow', { timeout: 600 })]);
    expect(healExpired(machine.state, machine.world.now + 300_000, limit)).toEqual([]);
    expect(healExpired(machine.state, machine.world.now + 600_000, limit)).toHaveLength(1);
  });

  it('F067: a second pass adds nothing', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.world.now += 200_000;
    machine.input({ type: 'heal' });
    const length = machine.log.length;
    machine.input({ type: 'heal' });
    expect(machine.log).toHaveLength(length);
    expect(healExpired(machine.state, machine.world.now, limit)).toEqual([]);
  });

  it('a round whose calls were all healed goes back to the model, which learns of it', () => {
    const machine = executingSession({ a: 'bash' });
    machine.send('rider', { deliver: 'turn' });
    machine.world.now += 200_000;
    machine.input({ type: 'heal' });
    expect(machine.log.at(-1)).toContain('timed out');
    expect(machine.last).toEqual([{ type: 'callModel', halfStep: 2, attempt: 1 }]);
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: 1, halfSteps: 2 } });
  });

  it('a round of which one call was healed waits for the others', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([call('a', 'slow', { timeout: 600 }), call('b', 'slow')]);
    machine.world.now += 200_000;
    machine.input({ type: 'heal' });
    expect(machine.state.state).toBe('executing');
    machine.finish('a');
    expect(machine.state.state).toBe('awaiting');
  });

  it('heals nothing where nothing is open', () => {
    const machine = startedSession({ sent: 'go' });
    expect(machine.input({ type: 'heal' })).toEqual({ records: [], effects: [] });
  });
});
