/**
 * Goal: a definition is active if its text is in the window or about to be. Readers are notified exactly when that
 * changes.
 */
import { describe, expect, it } from 'vitest';
import { renderMessages } from '../../../src/context/render.ts';
import type { RequestMessage } from '../../../src/models/provider.ts';
import { activeDefinitions } from '../../../src/session/rules/activation.ts';
import { snapshotState } from '../../../src/session/state/snapshot.ts';
import { call, executingSession, Machine, startedSession } from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

function activate(machine: Machine, kind: 'skill' | 'workflow', name: string, content = `How to ${name}.`): unknown {
  machine.input({ type: 'activate', kind, name, content });
  return machine.effect('result')?.value ?? machine.effect('refused')?.error.message;
}

function told(machine: Machine): readonly unknown[] {
  return machine.seen.events.flatMap(({ body }): unknown[] => {
    if (body.type === 'skills.updated') return [body.skills];
    return body.type === 'workflow.updated' ? [body.workflow] : [];
  });
}

/** The blocks of a request message in short form. */
function kinds({ content }: RequestMessage): readonly string[] {
  if (typeof content === 'string') return ['text'];
  return content.map((block) => {
    if (block.type === 'tool_use') return `${block.type} ${String(block['id'])}`;
    return block.type === 'tool_result' ? `${block.type} ${String(block['tool_use_id'])}` : block.type;
  });
}

describe('skills', () => {
  it('F126: a skill that is activated again adds nothing to the mailbox', () => {
    const machine = startedSession();
    expect(activate(machine, 'skill', 'baking')).toEqual({ activated: true });
    expect(activate(machine, 'skill', 'baking')).toEqual({ activated: false });
    machine.send('go');
    machine.answer('ok');
    expect(activate(machine, 'skill', 'baking')).toEqual({ activated: false });
    expect(machine.records.filter((record) => record.type === 'accepted')).toHaveLength(2);
  });

  it('F127: a skill is active, and published, before it reaches the log; it wakes no session', () => {
    const machine = startedSession();
    activate(machine, 'skill', 'baking');
    expect(machine.state.state).toBe('idle');
    expect(machine.log).toEqual([]);
    expect(told(machine)).toEqual([['baking']]);
  });

  it('a skill joins the next half-step as a delivery, and is published once', () => {
    const machine = startedSession();
    activate(machine, 'skill', 'baking');
    activate(machine, 'skill', 'frying');
    machine.send('go');
    expect(machine.log).toEqual([
      'tool_call [recalled skill: baking]',
      'tool_response How to baking.',
      'tool_call [recalled skill: frying]',
      'tool_response How to frying.',
      'user_message go',
    ]);
    expect(machine.state.messages[0]).toMatchObject({ toolName: 'from_melete_skill', input: { skill: 'baking' } });
    expect(told(machine)).toEqual([['baking'], ['baking', 'frying']]);
  });

  it('H62: a skill activated while tools run has its text after all results of the round', () => {
    const machine = executingSession({ a: 'bash', b: 'bash' });
    machine.finish('a', 'of a');
    activate(machine, 'skill', 'baking');
    expect(machine.state.state).toBe('executing');
    machine.finish('b', 'of b');
    expect(machine.log.slice(-4)).toEqual([
      'tool_response of a',
      'tool_response of b',
      'tool_call [recalled skill: baking]',
      'tool_response How to baking.',
    ]);
    expect(
      renderMessages(machine.state.messages, { timestamps: false, deliveriesAsText: false }).flatMap(kinds),
    ).toEqual([
      'text',
      'tool_use a',
      'tool_use b',
      'tool_result a',
      'tool_result b',
      'tool_use from_melete_skill_3',
      'tool_result from_melete_skill_3',
    ]);
  });

  it('H62: the same order holds when listeners see the results before the model does', () => {
    const machine = startedSession({ isGated: true, sent: 'go' });
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    machine.input({ type: 'verdict', on: 'boundary', at: 'answer', halfStep: 1, verdict: { approve: [] } });
    activate(machine, 'skill', 'baking');
    machine.finish('b', 'of b');
    machine.finish('a', 'of a');
    expect(machine.log.filter((line) => line.includes('baking'))).toEqual([]);
    machine.input({ type: 'verdict', on: 'boundary', at: 'results', halfStep: 1, verdict: { approve: [] } });
    expect(machine.state.state).toBe('awaiting');
    expect(machine.log.slice(-2)).toEqual(['tool_call [recalled skill: baking]', 'tool_response How to baking.']);
    expect(machine.log.slice(-4, -2).sort()).toEqual(['tool_response of a', 'tool_response of b']);
  });

  it('a skill whose text left the window is no longer active, and may be activated again', () => {
    const machine = startedSession({ tokenBudget: 1_000 });
    activate(machine, 'skill', 'baking');
    for (let count = 0; machine.state.floor === 1; count += 1) {
      expect(count).toBeLessThan(100);
      machine.send('x'.repeat(600));
      machine.answer('ok');
    }
    expect(told(machine)).toEqual([['baking'], []]);
    expect(machine.state.active).toBeUndefined();
    expect(activate(machine, 'skill', 'baking')).toEqual({ activated: true });
  });

  it('a child whose name merely begins like that of an enricher activates nothing', () => {
    const machine = startedSession();
    machine.send('hi', { type: 'subagent', source: { type: 'subagent', name: 'melete-spy' } });
    expect(machine.state.messages[0]).toMatchObject({ toolName: 'from_melete-spy' });
    expect(activeDefinitions(machine.state)).toEqual({ skills: [], workflow: null });
  });
});

describe('workflows', () => {
  it('F128: of several workflows the newest is active, waiting or not', () => {
    const machine = startedSession();
    activate(machine, 'workflow', 'plan');
    machine.send('go');
    machine.answer('ok');
    activate(machine, 'workflow', 'build');
    expect(activeDefinitions(machine.state).workflow).toBe('build');
    expect(activate(machine, 'workflow', 'build')).toEqual({ activated: false });
    expect(activate(machine, 'workflow', 'plan')).toEqual({ activated: true });
    expect(told(machine)).toEqual(['plan', 'build', 'plan']);
  });

  it('workflows are for main sessions', () => {
    const child = new Tree().spawn('dig');
    expect(activate(child, 'workflow', 'plan')).toContain('main sessions');
    expect(activate(child, 'skill', 'baking')).toEqual({ activated: true });
  });
});

describe('the log', () => {
  it('A10: a replay publishes the same events and restores the same skills', () => {
    const machine = startedSession({ tokenBudget: 1_000 });
    for (let count = 0; count < 12; count += 1) {
      activate(machine, count % 3 === 0 ? 'workflow' : 'skill', `d${count % 4}`);
      machine.send('y'.repeat(500));
      machine.answer('ok');
    }
    const replayed = Machine.replayed(machine.world, 's', machine.turns);
    expect(snapshotState(replayed.state)).toBe(snapshotState(machine.state));
    expect(told(replayed)).toEqual(told(machine));
    expect(machine.state.eventSeq).toBe(machine.seen.events.at(-1)?.seq);
  });

  it('a full mailbox refuses the activation, and nothing is stored', () => {
    const machine = startedSession({ limits: { mailbox: 1 } });
    activate(machine, 'skill', 'a');
    expect(activate(machine, 'skill', 'b')).toContain('limits.mailbox');
    expect(activeDefinitions(machine.state).skills).toEqual(['a']);
  });
});
