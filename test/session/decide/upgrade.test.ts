/**
 * Goal: the move of a session to another version of its agent, as the pure core decides it (V1, V2 of
 * `src/session/rules/epoch.ts`). Method: the facts of the agent change between two inputs.
 */
import { describe, expect, test } from 'vitest';
import { MISSING_FINGERPRINT } from '../../../src/session/rules/epoch.ts';
import type { UpgradeStep } from '../../../src/session/state/version.ts';
import { foldedAcrossSnapshot, reopened } from '../../support/reopen.ts';
import { call, executingSession, type Machine, startedSession } from '../../support/session-kit.ts';

const V1 = { agent: { version: '1' }, fingerprint: 'header-1' } as const;

/** The agent is of another version from here on. */
function deploy({ world }: Machine, version: string | undefined, upgrades = false): void {
  world.agent = { ...(version === undefined ? {} : { version }), ...(upgrades ? { upgrades } : {}) };
  world.fingerprint = `header-${version}`;
}

/** A session that had one turn with version 1. */
function answered(): Machine {
  const machine = startedSession({ ...V1, sent: 'Go' });
  machine.answer('First.');
  return machine;
}

function types(machine: Machine): readonly string[] {
  return (machine.turns.at(-1)?.records ?? []).map(({ type }) => type);
}

/** The question of the last transition. */
function asked(machine: Machine): UpgradeStep {
  const effect = machine.effect('upgrade');
  if (effect === undefined) throw new Error('no upgrade was asked for');
  const { type: _type, ...step } = effect;
  return step;
}

describe('records', () => {
  test('the session begins with the version, and each turn names agent, version and hash', () => {
    const machine = answered();
    expect(machine.records[0]).toEqual({ type: 'created', agent: 'main', version: '1', depth: 0 });
    const agent = { name: 'main', version: '1', hash: 'header-1' };
    expect(machine.records.find(({ type }) => type === 'claimed')).toMatchObject({ turn: 1, agent });
    expect(machine.events('turn.finished')).toMatchObject([{ agent }]);
  });

  test('without a version nothing of it is recorded', () => {
    const machine = startedSession({ sent: 'Go' });
    machine.answer('First.');
    expect(JSON.stringify(machine.records)).not.toMatch(/version|hash/);
    expect(machine.events('turn.finished')[0]).not.toHaveProperty('agent');
  });
});

describe('an agent that is missing', () => {
  test('no call can be allowed, so that the decision waits; a denial is taken', () => {
    const named = { ...V1.agent, holdsCalls: true, approval: new Set(['bash']) };
    const machine = startedSession({ ...V1, agent: named, sent: 'Go' });
    machine.answer([call('a', 'bash')]);
    machine.world.agent = {};
    machine.world.fingerprint = MISSING_FINGERPRINT;
    machine.input({ type: 'approve', callId: 'a', allow: true });
    expect(machine.effect('refused')?.error).toMatchObject({
      code: 'agent_missing',
      data: { agent: 'main', version: '1' },
    });
    expect(machine.allOf('runTool')).toEqual([]);
    machine.world.agent = named;
    machine.world.fingerprint = 'header-1';
    machine.input({ type: 'approve', callId: 'a', allow: true });
    expect(machine.allOf('runTool')).toMatchObject([{ callId: 'a' }]);

    const denied = startedSession({ ...V1, agent: named, sent: 'Go' });
    denied.answer([call('a', 'bash')]);
    denied.world.fingerprint = MISSING_FINGERPRINT;
    denied.world.admits = false;
    denied.input({ type: 'approve', callId: 'a', allow: false });
    expect(denied.state.mailbox).toMatchObject([{ toolUseId: 'a', success: false }]);
  });
});

describe('moves', () => {
  test('without upgrade: one record before the claim, and an epoch because the requests differ', () => {
    const machine = answered();
    deploy(machine, '2');
    machine.send('Again');
    expect(types(machine)).toEqual(['accepted', 'upgraded', 'epoch', 'claimed']);
    expect(machine.events('agent.upgraded')).toEqual([
      { type: 'agent.upgraded', agent: 'main', from: '1', version: '2' },
    ]);
    expect(machine.state).toMatchObject({ version: '2', turn: { agent: { version: '2', hash: 'header-2' } } });
  });

  test('a version whose requests are the same opens no epoch', () => {
    const machine = answered();
    deploy(machine, '2');
    machine.world.fingerprint = 'header-1';
    machine.send('Again');
    expect(types(machine)).toEqual(['accepted', 'upgraded', 'claimed']);
  });

  test('V2: in a turn nothing moves; the next turn does', () => {
    const machine = executingSession({ a: 'read_file' }, V1);
    deploy(machine, '2', true);
    machine.send('Then this', { deliver: 'turn' });
    machine.finish('a');
    expect([machine.state.version, machine.allOf('upgrade')]).toEqual(['1', []]);
    machine.answer('First.');
    expect(asked(machine)).toMatchObject({ from: '1', to: '2' });
    expect(machine.state).toMatchObject({ state: 'idle', version: '1', mailbox: [{ content: 'Then this' }] });
  });

  test('an agent without a version has no upgrade, so the session moves to it at once', () => {
    const machine = answered();
    deploy(machine, undefined);
    machine.send('Again');
    expect(types(machine)).toContain('upgraded');
    expect([machine.state.version, machine.state.turn?.agent]).toEqual([undefined, undefined]);
  });

  test('a paused session moves when it continues', () => {
    const machine = answered();
    machine.input({ type: 'pause' });
    deploy(machine, '2', true);
    machine.send('Again');
    expect(machine.allOf('upgrade')).toEqual([]);
    machine.input({ type: 'resume' });
    expect(asked(machine)).toMatchObject({ to: '2' });
  });

  test('P1: while the move is held a wake-up decides nothing', () => {
    const machine = answered();
    deploy(machine, '2', true);
    machine.send('Again');
    asked(machine);
    machine.world.isUpgradeHeld = true;
    machine.input({ type: 'wake' });
    machine.send('More');
    expect([machine.lastOf('upgrade'), types(machine)]).toEqual([[], ['accepted']]);
  });

  test('a crash before the answer asks again, and both folds of the log agree', () => {
    const machine = answered();
    deploy(machine, '2', true);
    machine.send('Again');
    const again = reopened(machine);
    const step = asked(again);
    again.input({ type: 'upgraded', ...step, edits: [] });
    expect(types(again)).toEqual(['upgraded', 'epoch', 'claimed']);
    for (let place = 0; place <= again.turns.length; place += 1) {
      expect(foldedAcrossSnapshot(again, place).version).toBe('2');
    }
    expect(reopened(again).state).toMatchObject({ version: '2', turn: { agent: { version: '2' } } });
  });
});

describe('edits', () => {
  function moving(): Machine {
    const machine = answered();
    deploy(machine, '2', true);
    machine.send('Again');
    return machine;
  }

  test('edits, move and claim are one batch', () => {
    const machine = moving();
    const note = { role: 'user', content: 'A note.' } as const;
    machine.input({
      type: 'upgraded',
      ...asked(machine),
      edits: [
        { operation: 'remove', id: 'm1' },
        { operation: 'update', id: 'm2', attributes: { content: 'Changed.' } },
        { operation: 'add', message: note, silent: true },
      ],
    });
    expect(types(machine)).toEqual(['edited', 'upgraded', 'epoch', 'claimed']);
    expect(machine.turns.at(-1)?.records[0]).toMatchObject({ operation: 'upgrade', removed: [1] });
    expect(machine.log).toEqual(['agent_message Changed.', 'user_message A note.', 'user_message Again']);
  });

  test('one bad edit refuses all, and changes nothing', () => {
    const machine = moving();
    const [before, turns] = [machine.log, machine.turns.length];
    const step = asked(machine);
    machine.input({
      type: 'upgraded',
      ...step,
      edits: [
        { operation: 'remove', id: 'm1' },
        { operation: 'update', id: 'm9', attributes: { content: 'x' } },
      ],
    });
    expect(machine.effect('upgradeFailed')?.error).toMatchObject({
      code: 'upgrade_failed',
      data: { agent: 'main', from: '1', version: '2' },
    });
    expect([machine.log, machine.turns.length, machine.state.version]).toEqual([before, turns, '1']);
    machine.input({ type: 'wake' });
    expect(asked(machine)).toEqual(step);
  });

  test('two edits of one message are refused: both are planned on the history that was given', () => {
    const machine = moving();
    const update = (content: string) => ({ operation: 'update', id: 'm2', attributes: { content } }) as const;
    machine.input({ type: 'upgraded', ...asked(machine), edits: [update('a'), update('b')] });
    expect(machine.effect('upgradeFailed')?.error.message).toContain('message "m2" has more than one edit');
  });

  test('an answer for an earlier history, version or move is stale, and the move is decided again', () => {
    const machine = moving();
    const step = asked(machine);
    const add = { operation: 'add', message: { role: 'user', content: 'By the way.' }, silent: true } as const;
    machine.input({ type: 'edit', request: add });
    for (const stale of [step, { ...step, from: '0' }, { ...step, to: '3' }, { ...step, epoch: step.epoch + 1 }]) {
      machine.input({ type: 'upgraded', ...stale, edits: [{ operation: 'unset' }] });
      expect(machine.lastOf('stale')).toEqual([{ type: 'stale', what: 'upgrade' }]);
    }
    expect(asked(machine).nextMessageSeq).toBe(step.nextMessageSeq + 1);
    machine.input({ type: 'upgraded', ...asked(machine), edits: [] });
    expect(machine.state).toMatchObject({ state: 'awaiting', version: '2' });
  });

  test('an answer that comes in a turn moves nothing', () => {
    const machine = moving();
    const step = asked(machine);
    machine.input({ type: 'upgraded', ...step, edits: [] });
    machine.answer([call('a', 'read_file')]);
    machine.input({ type: 'upgraded', ...step, edits: [{ operation: 'unset' }] });
    expect([machine.records.filter(({ type }) => type === 'upgraded').length, machine.state.messages.length]).toEqual([
      1, 4,
    ]);
  });

  test('a suspended run belongs to its version', () => {
    const machine = executingSession({ a: 'read_file' }, V1);
    machine.replay({ type: 'gathered', entries: [] });
    machine.replay({ type: 'suspended', reason: 'max_steps' });
    deploy(machine, '2', true);
    machine.input({ type: 'wake' });
    expect(machine.allOf('upgrade')).toEqual([]);
  });
});
