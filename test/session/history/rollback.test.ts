/** Deferred rollback: a failed turn is shown as failed, and removed when the next turn starts. */
import { describe, expect, it } from 'vitest';
import { parseSettings } from '../../../src/base/settings.ts';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { refolded } from '../../support/reopen.ts';
import {
  FATAL,
  type Machine,
  startedSession,
  transientError,
  UNAUTHORIZED,
  type WorldOptions,
} from '../../support/session-kit.ts';

const ON: WorldOptions = { settings: { recovery: { rollbackFailed: true } } };

function failedSession(error: Parameters<Machine['fail']>[0], options: WorldOptions = ON): Machine {
  const machine = startedSession({ ...options, sent: 'one' });
  machine.answer('uno');
  machine.send('bad');
  machine.fail(error);
  return machine;
}

const CONNECTION = { ...transientError(), retryable: false };

describe('deferred rollback', () => {
  it('H59: a refused request is shown until the next turn starts, then removed with everything after it; the rollback is published once', () => {
    const machine = failedSession(FATAL);
    expect(machine.log.slice(0, 3)).toEqual(['user_message one', 'agent_message uno', 'user_message bad']);
    machine.send('good');
    expect(machine.log).toEqual(['user_message one', 'agent_message uno', 'user_message good']);
    expect(machine.events('session.rollback')).toEqual([{ type: 'session.rollback', reason: 'bad request', index: 2 }]);
    machine.answer('bueno');
    machine.send('more');
    expect(machine.events('session.rollback')).toHaveLength(1);
    expect(machine.log.slice(0, 4)).toEqual([
      'user_message one',
      'agent_message uno',
      'user_message good',
      'agent_message bueno',
    ]);
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('H59: in a session that was opened again, a failed turn is rolled back whatever its error', () => {
    const machine = failedSession(CONNECTION);
    machine.world.openedAt = machine.world.now + 1;
    machine.world.now += 2;
    machine.send('good');
    expect(machine.log).toEqual(['user_message one', 'agent_message uno', 'user_message good']);
    expect(machine.events('session.rollback')).toHaveLength(1);
  });

  it('a message stays while the process runs, if a retry may fix the failure of its turn', () => {
    const machine = failedSession(CONNECTION);
    machine.send('good');
    expect(machine.log).toContain('user_message bad');
    expect(machine.events('session.rollback')).toEqual([]);
    const refused = failedSession(UNAUTHORIZED);
    refused.input({ type: 'resume' });
    refused.send('good');
    expect(refused.log).toContain('user_message bad');
  });

  it('without a message of a user nothing is removed and nothing is published', () => {
    const machine = startedSession({ ...ON, sent: 'one' });
    machine.fail(FATAL);
    applyAll(machine.state, [{ type: 'edited', operation: 'remove', removed: [1] }], machine.world.now);
    machine.send('good');
    expect(machine.events('session.rollback')).toEqual([]);
    expect(machine.log.at(-1)).toBe('user_message good');
  });

  it('a bounced message is already removed: earlier messages stay', () => {
    const machine = startedSession({ ...ON, sent: 'one' });
    machine.answer('uno');
    machine.send('bad', { bounceBack: true });
    machine.fail(FATAL);
    machine.send('good');
    expect(machine.log).toEqual(['user_message one', 'agent_message uno', 'user_message good']);
    expect(machine.events('session.rollback')).toEqual([]);
  });

  it('F35: a session blocked by a refused request continues with the next message once the setting is on', () => {
    const machine = failedSession({ ...FATAL, data: { status: 400 } }, {});
    expect(machine.state.blocked).toMatchObject({ code: FATAL.code });
    machine.send('still blocked');
    expect(machine.state).toMatchObject({ state: 'idle', mailbox: [{ content: 'still blocked' }] });
    machine.world.settings = parseSettings(ON.settings ?? {});
    machine.input({ type: 'wake' });
    expect(machine.state).toMatchObject({ state: 'awaiting', blocked: undefined });
    expect(machine.log).toEqual(['user_message one', 'agent_message uno', 'user_message still blocked']);
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('by default nothing is removed', () => {
    const machine = failedSession(FATAL, {});
    machine.send('good');
    expect(machine.log).toContain('user_message bad');
    expect(machine.events('session.rollback')).toEqual([]);
  });
});
