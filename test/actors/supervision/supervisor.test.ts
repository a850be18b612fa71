/**
 * Goal: the rows S01 to S34 of supervision, one behaviour each; the property S35 is in supervision-property.test.ts.
 * Method: the pure decisions, fed by hand; time is a number.
 */
import { describe, expect, test } from 'vitest';
import { backoffMs } from '../../../actors/supervision/backoff.ts';
import type { ExitReason } from '../../../actors/supervision/state.ts';
import { supervisorState } from '../../../actors/supervision/supervisor.ts';
import type { ChildSpecInput } from '../../../actors/supervision/supervisor-options.ts';
import { childSpec, subAgentSpec, supervisorOptions } from '../../../actors/supervision/supervisor-options.ts';
import { SUPERVISOR_REQUESTS_MAX } from '../../../src/base/bounds.ts';
import { ConfigError } from '../../../src/base/errors.ts';
import { moves, SupervisionDriver, words } from './supervision-driver.ts';

const abc: readonly ChildSpecInput[] = [
  { id: 'a', shutdown: 'infinity' },
  { id: 'b', shutdown: 'infinity' },
  { id: 'c', shutdown: 'infinity' },
];
const patient = { intensity: 100, periodMs: 1_000 };
const noJitter = { backoff: { minMs: 100, maxMs: 1_000, factor: 2, jitter: 0 } };

describe('start and stop', () => {
  test('S01: children start left to right, each once the previous one runs', () => {
    const driver = new SupervisionDriver(abc);
    expect(words(driver.reports({ type: 'begin' }))).toEqual(['start a']);
    expect(words(driver.reports(driver.started('a')))).toEqual(['start b']);
    expect(words(driver.reports(driver.started('b')))).toEqual(['start c']);
    expect(words(driver.reports(driver.started('c')))).toEqual([]);
    expect(driver.state.phase.name).toBe('running');
  });

  test('S02: shutdown stops children right to left, each once the previous one has ended, and then reports', () => {
    const driver = new SupervisionDriver(abc).begin();
    expect(words(driver.reports({ type: 'shutdown' }))).toEqual(['stop c']);
    expect(words(driver.reports(driver.exit('c', 'shutdown')))).toEqual(['stop b']);
    expect(words(driver.reports(driver.exit('b', 'normal')))).toEqual(['stop a']);
    expect(words(driver.reports(driver.exit('a', 'shutdown')))).toEqual(['stopped']);
    expect(words(driver.reports({ type: 'shutdown' }))).toEqual([]);
  });

  test('S03: if the first start of a child fails, started children stop right to left, and the failure escalates', () => {
    const driver = new SupervisionDriver(abc);
    driver.reports({ type: 'begin' });
    driver.reports(driver.started('a'));
    driver.reports(driver.started('b'));
    const actions = driver.run(driver.startFailed('c'));
    expect(words(actions)).toEqual(['report startFailed c', 'stop b', 'stop a', 'escalate startFailed']);
    expect(actions.at(-1)).toMatchObject({ reason: { kind: 'shutdown' }, cause: { id: 'c' } });
  });
});

describe('strategies', () => {
  test('S04: oneForOne starts only the child that failed', () => {
    const driver = new SupervisionDriver(abc).begin();
    expect(moves(driver.run(driver.exit('b')))).toEqual(['restart b']);
    expect(driver.state.phase.name).toBe('running');
  });

  test('S05: oneForAll stops the others right to left and starts all left to right', () => {
    const driver = new SupervisionDriver(abc, { strategy: 'oneForAll' }).begin();
    expect(moves(driver.run(driver.exit('b')))).toEqual(['stop c', 'stop a', 'restart a', 'restart b', 'restart c']);
  });

  test('S06: restForOne stops and starts the child and those started after it', () => {
    const driver = new SupervisionDriver([...abc, { id: 'd', shutdown: 'infinity' }], {
      strategy: 'restForOne',
    }).begin();
    expect(moves(driver.run(driver.exit('b')))).toEqual(['stop d', 'stop c', 'restart b', 'restart c', 'restart d']);
    const last = new SupervisionDriver(abc, { strategy: 'restForOne' }).begin();
    expect(moves(last.run(last.exit('c')))).toEqual(['restart c']);
  });

  test('S07: a temporary child that is stopped with its group is forgotten and not started again', () => {
    const specs: ChildSpecInput[] = [{ id: 'a' }, { id: 'b', restart: 'temporary' }, { id: 'c' }];
    const driver = new SupervisionDriver(specs, { strategy: 'oneForAll' }).begin();
    expect(moves(driver.run(driver.exit('c')))).toEqual(['stop b', 'stop a', 'restart a', 'restart c']);
    expect(driver.ids()).toEqual(['a', 'c']);
  });

  test('S08: a transient child that ended normally is started again with its group', () => {
    const specs: ChildSpecInput[] = [{ id: 'a', restart: 'transient' }, { id: 'b' }];
    const driver = new SupervisionDriver(specs, { strategy: 'oneForAll' }).begin();
    expect(words(driver.run(driver.exit('a', 'normal')))).toEqual([]);
    expect(moves(driver.run(driver.exit('b')))).toEqual(['restart a', 'restart b']);
  });
});

describe('restart types', () => {
  const kinds: readonly ExitReason['kind'][] = ['normal', 'shutdown', 'error', 'killed'];

  test.each(kinds)('S09: a permanent child is started again after every end (%s)', (kind) => {
    const driver = new SupervisionDriver([{ id: 'a', restart: 'permanent' }]).begin();
    expect(words(driver.run(driver.exit('a', kind)))).toEqual(['report exited a', 'restart a']);
    expect(driver.state.restarts).toHaveLength(1);
  });

  test.each(kinds)('S10: a transient child is started again after a failure only (%s)', (kind) => {
    const driver = new SupervisionDriver([{ id: 'a', restart: 'transient' }]).begin();
    const failed = kind === 'error' || kind === 'killed';
    expect(words(driver.run(driver.exit('a', kind)))).toEqual(failed ? ['report exited a', 'restart a'] : []);
    expect(driver.state.restarts).toHaveLength(failed ? 1 : 0);
    expect(driver.ids()).toEqual(['a']);
  });

  test.each([...kinds, 'transientFault' as const])(
    'S11: a temporary child is never started again and is forgotten (%s)',
    (kind) => {
      const driver = new SupervisionDriver([{ id: 'a', restart: 'temporary' }, { id: 'b' }]).begin();
      const failed = kind !== 'normal' && kind !== 'shutdown';
      expect(words(driver.run(driver.exit('a', kind)))).toEqual(failed ? ['report exited a'] : []);
      expect(driver.ids()).toEqual(['b']);
      expect(driver.state.restarts).toEqual([]);
    },
  );
});

describe('intensity', () => {
  test('S12: as many restarts as the intensity allows are made within the period', () => {
    const driver = new SupervisionDriver(abc, { intensity: 3, periodMs: 5_000 }).begin();
    for (const id of ['a', 'b', 'a']) expect(moves(driver.run(driver.exit(id)))).toEqual([`restart ${id}`]);
    expect(driver.state.phase.name).toBe('running');
  });

  test('S13: one restart above the intensity stops all children right to left and escalates with reason shutdown', () => {
    const driver = new SupervisionDriver(abc, { intensity: 3, periodMs: 5_000 }).begin();
    for (const id of ['a', 'b', 'a']) driver.run(driver.exit(id));
    const actions = driver.run(driver.exit('b'));
    expect(words(actions)).toEqual(['report exited b', 'stop c', 'stop a', 'escalate intensity']);
    expect(actions.at(-1)).toMatchObject({ reason: { kind: 'shutdown' }, cause: { kind: 'intensity', id: 'b' } });
    expect(driver.state.phase.name).toBe('stopped');
  });

  test('S14: the period slides; a restart exactly a period old counts, an older one does not', () => {
    const options = { intensity: 1, periodMs: 5_000 };
    const atEdge = new SupervisionDriver(abc, options).begin();
    atEdge.run(atEdge.exit('a'));
    atEdge.now += 5_000;
    expect(moves(atEdge.run(atEdge.exit('a')))).toContain('escalate intensity');

    const beyond = new SupervisionDriver(abc, options).begin();
    for (let round = 0; round < 5; round += 1) {
      expect(moves(beyond.run(beyond.exit('a')))).toEqual(['restart a']);
      beyond.now += 5_001;
    }
  });

  test('S15: the default is one restart in five seconds, and intensity 0 escalates the first failure', () => {
    const byDefault = new SupervisionDriver(abc).begin();
    expect(byDefault.state.options).toMatchObject({ intensity: 1, periodMs: 5_000, strategy: 'oneForOne' });
    expect(moves(byDefault.run(byDefault.exit('a')))).toEqual(['restart a']);
    byDefault.now += 4_999;
    expect(moves(byDefault.run(byDefault.exit('c')))).toEqual(['stop b', 'stop a', 'escalate intensity']);

    const none = new SupervisionDriver(abc, { intensity: 0 }).begin();
    expect(moves(none.run(none.exit('a')))).toEqual(['stop c', 'stop b', 'escalate intensity']);
  });
});

describe('transient faults', () => {
  test('S16: a transient fault is restarted after its back-off, without using intensity', () => {
    const driver = new SupervisionDriver([{ id: 'a', restart: 'transient' }], { ...noJitter, intensity: 0 }).begin();
    for (const delayMs of [100, 200, 400, 800, 1_000, 1_000]) {
      expect(words(driver.run(driver.exit('a', 'transientFault')))).toEqual([
        'report exited a',
        `scheduleRestart a ${delayMs}`,
      ]);
      driver.now += delayMs;
      expect(moves(driver.run(driver.timer('a')))).toEqual(['restart a']);
    }
    expect(driver.state.restarts).toEqual([]);
    expect(moves(driver.run(driver.exit('a', 'error')))).toEqual(['escalate intensity']);
  });

  test('S17: the back-off grows by its factor to its bound, and jitter only shortens it, differently for each child', () => {
    const backoff = { minMs: 1_000, maxMs: 60_000, factor: 3, jitter: 0.5 };
    const waits = Array.from({ length: 200 }, (_, index) => backoffMs(backoff, `child-${index}`, 1));
    for (const wait of waits) {
      expect(wait).toBeGreaterThanOrEqual(500);
      expect(wait).toBeLessThanOrEqual(1_000);
    }
    expect(new Set(waits).size).toBeGreaterThan(100);
    const still = { ...backoff, jitter: 0 };
    expect([1, 2, 3, 4, 5, 500].map((attempt) => backoffMs(still, 'a', attempt))).toEqual([
      1_000, 3_000, 9_000, 27_000, 60_000, 60_000,
    ]);
  });

  test('S18: the back-off of a child starts over once the child has run as long as the longest wait', () => {
    const driver = new SupervisionDriver([{ id: 'a' }], noJitter).begin();
    for (const expected of [100, 200]) {
      expect(words(driver.run(driver.exit('a', 'transientFault')))).toContain(`scheduleRestart a ${expected}`);
      driver.run(driver.timer('a'));
    }
    driver.now += 1_000;
    expect(words(driver.run(driver.exit('a', 'transientFault')))).toContain('scheduleRestart a 100');
  });
});

describe('escalation', () => {
  test('S19: after a supervisor gives up, its own supervisor restarts it if it is permanent, not if it is transient', () => {
    const giveUp = (): ExitReason => {
      const inner = new SupervisionDriver(abc, { intensity: 0 }).begin();
      const last = inner.run(inner.exit('a')).at(-1);
      if (last?.type !== 'escalate') throw new Error('did not escalate');
      return last.reason;
    };
    for (const [restart, expected] of [
      ['permanent', ['restart inner']],
      ['transient', []],
    ] as const) {
      const outer = new SupervisionDriver([{ id: 'inner', type: 'supervisor', restart }]).begin();
      const { run } = outer.child('inner');
      expect(moves(outer.run({ type: 'childExited', id: 'inner', run, reason: giveUp() }))).toEqual(expected);
    }
    // A supervisor that repeatedly gives up uses up the intensity of the supervisor above it.
    const outer = new SupervisionDriver([{ id: 'inner', type: 'supervisor' }]).begin();
    outer.run({ type: 'childExited', id: 'inner', run: outer.child('inner').run, reason: giveUp() });
    const { run } = outer.child('inner');
    expect(moves(outer.run({ type: 'childExited', id: 'inner', run, reason: giveUp() }))).toEqual([
      'escalate intensity',
    ]);
  });
});

describe('shutdown of a child', () => {
  test('S20: a child that does not end in time is killed and reported once', () => {
    const driver = new SupervisionDriver([{ id: 'a', shutdown: 250 }]).begin();
    expect(words(driver.reports({ type: 'shutdown' }))).toEqual(['stop a', 'scheduleKill a 250']);
    expect(words(driver.reports(driver.timer('a', 'kill')))).toEqual(['kill a', 'report killed a']);
    expect(words(driver.reports(driver.timer('a', 'kill')))).toEqual([]);
    expect(words(driver.reports(driver.exit('a', 'killed')))).toEqual(['stopped']);

    const obedient = new SupervisionDriver([{ id: 'a', shutdown: 250 }]).begin();
    obedient.run({ type: 'shutdown' });
    expect(words(obedient.reports(obedient.timer('a', 'kill')))).toEqual([]);
  });

  test('S21: brutalKill kills without asking, infinity sets no timer, and the default times are those of OTP', () => {
    const specs: ChildSpecInput[] = [
      { id: 'worker' },
      { id: 'supervisor', type: 'supervisor' },
      { id: 'brutal', shutdown: 'brutalKill' },
    ];
    const driver = new SupervisionDriver(specs).begin();
    expect(words(driver.run({ type: 'shutdown' }))).toEqual([
      'kill brutal',
      'stop supervisor',
      'stop worker',
      'scheduleKill worker 5000',
      'stopped',
    ]);
  });
});

describe('a restart that fails', () => {
  test('S22: a failed restart re-enters by a timer of 0 ms, and each attempt counts', () => {
    const driver = new SupervisionDriver(abc, { intensity: 2 }).begin();
    driver.reports(driver.exit('b'));
    expect(words(driver.reports(driver.startFailed('b')))).toEqual(['report startFailed b', 'scheduleRestart b 0']);
    expect(driver.state.restarts).toHaveLength(1);
    expect(words(driver.reports(driver.timer('b')))).toEqual(['restart b']);
    expect(driver.state.restarts).toHaveLength(2);
    driver.reports(driver.startFailed('b'));
    expect(moves(driver.run(driver.timer('b')))).toEqual(['stop c', 'stop a', 'escalate intensity']);
  });

  test('S23: a shutdown between a failed restart and its next attempt is carried out, and nothing starts again', () => {
    const driver = new SupervisionDriver(abc, patient).begin();
    driver.reports(driver.exit('b'));
    driver.reports(driver.startFailed('b'));
    const retry = driver.timer('b');
    expect(words(driver.reports({ type: 'shutdown' }))).toEqual(['stop c']);
    expect(words(driver.reports(retry))).toEqual([]);
    driver.reports(driver.exit('c', 'shutdown'));
    expect(words(driver.run(driver.exit('a', 'shutdown')))).toEqual(['stopped']);
    expect(words(driver.reports(retry))).toEqual([]);
  });

  test('S24: if a start within a group fails, the rest stays stopped; the next attempt starts the group by its strategy', () => {
    const driver = new SupervisionDriver(abc, { ...patient, strategy: 'oneForAll' }).begin();
    driver.reports(driver.exit('c'));
    driver.reports(driver.exit('b', 'shutdown'));
    driver.reports(driver.exit('a', 'shutdown'));
    driver.reports(driver.started('a'));
    expect(words(driver.reports(driver.startFailed('b')))).toEqual(['report startFailed b', 'scheduleRestart b 0']);
    expect(driver.child('c').status.name).toBe('stopped');
    expect(moves(driver.run(driver.timer('b')))).toEqual(['stop a', 'restart a', 'restart b', 'restart c']);
    expect(driver.state.restarts).toHaveLength(2);

    const rest = new SupervisionDriver(abc, { ...patient, strategy: 'restForOne' }).begin();
    rest.reports(rest.exit('a'));
    rest.reports(rest.exit('c', 'shutdown'));
    rest.reports(rest.exit('b', 'shutdown'));
    rest.reports(rest.started('a'));
    rest.reports(rest.startFailed('b'));
    expect(moves(rest.run(rest.timer('b')))).toEqual(['restart b', 'restart c']);
  });
});

describe('events during a walk', () => {
  test('S25: a child that ends by itself before the walk reaches it is not asked to stop, and does not count', () => {
    const driver = new SupervisionDriver(abc, { strategy: 'oneForAll' }).begin();
    expect(moves(driver.reports(driver.exit('b')))).toEqual(['stop c']);
    expect(words(driver.reports(driver.exit('a')))).toEqual([]);
    expect(words(driver.run(driver.exit('c', 'shutdown')))).toEqual([
      'report exited a',
      'restart a',
      'restart b',
      'restart c',
    ]);
    expect(driver.state.restarts).toHaveLength(1);
    expect(driver.state.stale).toBe(0);
  });

  test('S26: the end of a child outside the group is decided after the walk', () => {
    const driver = new SupervisionDriver(abc, { ...patient, strategy: 'restForOne' }).begin();
    driver.reports(driver.exit('b'));
    expect(words(driver.reports(driver.exit('a')))).toEqual([]);
    expect(moves(driver.run(driver.exit('c', 'shutdown')))).toEqual([
      'restart b',
      'restart c',
      'stop c',
      'stop b',
      'restart a',
      'restart b',
      'restart c',
    ]);
    expect(driver.state.restarts).toHaveLength(2);
  });

  test('S34: a shutdown during a walk stops each running child exactly once, right to left', () => {
    const first = new SupervisionDriver(abc);
    first.reports({ type: 'begin' });
    first.reports(first.started('a'));
    // `b` is still starting when the supervisor asks it to end. `b` reports its start before its end.
    expect(words(first.reports({ type: 'shutdown' }))).toEqual(['stop b']);
    expect(words(first.reports(first.started('b')))).toEqual([]);
    expect(words(first.run(first.exit('b', 'shutdown')))).toEqual(['stop a', 'stopped']);

    const group = new SupervisionDriver(abc, { strategy: 'oneForAll' }).begin();
    expect(moves(group.reports(group.exit('a')))).toEqual(['stop c']);
    expect(words(group.reports({ type: 'shutdown' }))).toEqual([]);
    expect(words(group.run(group.exit('c', 'shutdown')))).toEqual(['stop b', 'stopped']);

    const givingUp = new SupervisionDriver(abc, { intensity: 0 }).begin();
    expect(moves(givingUp.reports(givingUp.exit('a')))).toEqual(['stop c']);
    givingUp.reports({ type: 'shutdown' });
    expect(moves(givingUp.run(givingUp.exit('c', 'shutdown')))).toEqual(['stop b', 'stopped']);
  });
});

describe('children added and removed', () => {
  test('S27: a child is added at the right end; duplicates, invalid specs, excess children and late ones are refused', () => {
    const driver = new SupervisionDriver(abc, { childrenMax: 4 }).begin();
    expect(words(driver.run({ type: 'addChild', spec: { id: 'd', shutdown: 'infinity' } }))).toEqual(['start d']);
    expect(words(driver.run({ type: 'addChild', spec: { id: 'b' } }))).toEqual(['refuse duplicate b']);
    expect(words(driver.run({ type: 'addChild', spec: { id: 'e' } }))).toEqual(['refuse limit e']);
    const bad = { id: 'f', shutdown: -1 };
    const [refusal] = driver.run({ type: 'addChild', spec: bad });
    expect(refusal).toMatchObject({ type: 'refuse', refusal: 'invalid', message: expect.stringContaining('shutdown') });
    expect(driver.ids()).toEqual(['a', 'b', 'c', 'd']);
    expect(moves(driver.reports({ type: 'shutdown' }))).toEqual(['stop d']);
    expect(words(driver.reports({ type: 'addChild', spec: { id: 'g' } }))).toEqual(['refuse stopping g']);
    expect(words(driver.reports({ type: 'removeChild', id: 'a' }))).toEqual(['refuse stopping a']);
  });

  test('S28: an added child that cannot be started is forgotten and does not count', () => {
    const driver = new SupervisionDriver(abc).begin();
    driver.reports({ type: 'addChild', spec: { id: 'd' } });
    expect(words(driver.reports(driver.startFailed('d')))).toEqual(['report startFailed d']);
    expect(driver.ids()).toEqual(['a', 'b', 'c']);
    expect(driver.state.restarts).toEqual([]);
    expect(words(driver.run({ type: 'addChild', spec: { id: 'd' } }))).toEqual(['start d']);
  });

  test('S29: a removed child is stopped and forgotten; a waiting child is forgotten at once, and its timer does nothing', () => {
    const driver = new SupervisionDriver(abc, noJitter).begin();
    expect(words(driver.run({ type: 'removeChild', id: 'b' }))).toEqual(['stop b', 'report removed b']);
    expect(words(driver.run({ type: 'removeChild', id: 'b' }))).toEqual(['refuse unknown b']);
    driver.run(driver.exit('c', 'transientFault'));
    const timer = driver.timer('c');
    expect(words(driver.run({ type: 'removeChild', id: 'c' }))).toEqual(['report removed c']);
    expect(words(driver.run(timer))).toEqual([]);
    expect(driver.ids()).toEqual(['a']);
    driver.reports({ type: 'removeChild', id: 'a' });
    expect(words(driver.reports({ type: 'removeChild', id: 'a' }))).toEqual([]);
    expect(words(driver.reports(driver.exit('a')))).toEqual(['report exited a', 'report removed a']);
  });

  test('S30: requests wait while a group is restarted, and too many of them are refused', () => {
    const driver = new SupervisionDriver(abc, { strategy: 'oneForAll' }).begin();
    driver.reports(driver.exit('a'));
    expect(words(driver.reports({ type: 'addChild', spec: { id: 'd' } }))).toEqual([]);
    expect(words(driver.reports({ type: 'removeChild', id: 'a' }))).toEqual([]);
    for (let count = 2; count < SUPERVISOR_REQUESTS_MAX; count += 1)
      driver.reports({ type: 'removeChild', id: 'nobody' });
    expect(words(driver.reports({ type: 'addChild', spec: { id: 'e' } }))).toEqual(['refuse limit e']);
    const done = words(driver.run(driver.exit('c', 'shutdown')));
    expect(done.slice(0, 6)).toEqual(['stop b', 'restart a', 'restart b', 'restart c', 'start d', 'stop a']);
    expect(driver.ids()).toEqual(['b', 'c', 'd']);

    const stopped = new SupervisionDriver(abc, { strategy: 'oneForAll' }).begin();
    stopped.reports(stopped.exit('a'));
    stopped.reports({ type: 'addChild', spec: { id: 'd' } });
    expect(words(stopped.reports({ type: 'shutdown' }))).toEqual(['refuse stopping d']);
  });

  test('S31: an answer from a run that has ended is dropped and counted', () => {
    const driver = new SupervisionDriver(abc, patient).begin();
    const late = driver.exit('a');
    driver.run(late);
    expect(driver.state.stale).toBe(0);
    for (const input of [late, driver.startFailed('a'), driver.timer('a'), driver.timer('b', 'kill')]) {
      expect(words(driver.reports(input))).toEqual([]);
    }
    expect(words(driver.reports({ type: 'childStarted', id: 'nobody', run: 1 }))).toEqual([]);
    expect(driver.state.stale).toBe(5);
    expect(driver.child('a').status.name).toBe('running');

    const walking = new SupervisionDriver(abc, { ...patient, strategy: 'restForOne' }).begin();
    walking.reports(walking.exit('b'));
    const end = walking.exit('a');
    walking.reports(end);
    walking.reports(end);
    expect(walking.state.stale).toBe(1);
  });
});

describe('options', () => {
  test('S32: onChildFailure reports, ignores or escalates a failure instead of restarting the child', () => {
    const answerToEnd = (onChildFailure: string, kind: ExitReason['kind']): string[] => {
      const driver = new SupervisionDriver(abc, { onChildFailure, ...noJitter }).begin();
      return words(driver.run(driver.exit('c', kind)));
    };
    for (const kind of ['error', 'killed', 'transientFault'] as const) {
      expect(answerToEnd('report', kind)).toEqual(['report exited c']);
      expect(answerToEnd('ignore', kind)).toEqual([]);
      expect(answerToEnd('escalate', kind)).toEqual(['report exited c', 'stop b', 'stop a', 'escalate childFailure']);
    }
    expect(answerToEnd('restart', 'error')).toEqual(['report exited c', 'restart c']);
    // An end that is not a failure does not concern the supervisor.
    for (const each of ['report', 'ignore', 'escalate']) expect(answerToEnd(each, 'normal')).toContain('restart c');
    expect(subAgentSpec('x', 'restart').restart).toBe('transient');
    for (const each of ['report', 'ignore', 'escalate'] as const)
      expect(subAgentSpec('x', each).restart).toBe('temporary');
  });

  test.each([
    [{ strategy: 'oneForTwo' }, 'supervision.strategy'],
    [{ intensity: -1 }, 'supervision.intensity'],
    [{ intensity: 1.5 }, 'supervision.intensity'],
    [{ periodMs: 0 }, 'supervision.periodMs'],
    [{ periodMs: Number.NaN }, 'supervision.periodMs'],
    [{ onChildFailure: 'panic' }, 'supervision.onChildFailure'],
    [{ childrenMax: 0 }, 'supervision.childrenMax'],
    [{ backoff: { minMs: 10, maxMs: 5 } }, 'supervision.backoff.maxMs'],
    [{ backoff: { factor: 0.5 } }, 'supervision.backoff.factor'],
    [{ backoff: { jitter: 2 } }, 'supervision.backoff.jitter'],
    [{ backoff: 5 }, 'supervision.backoff'],
    [{ intensty: 3 }, 'intensty'],
    ['oneForOne', 'supervision'],
  ])('S33: bad options are refused with the key named (%j)', (options, key) => {
    expect(() => supervisorOptions(options)).toThrow(ConfigError);
    expect(() => supervisorOptions(options)).toThrow(key);
  });

  test.each([
    [{}, 'id'],
    [{ id: '' }, 'id'],
    [{ id: 'a', restart: 'always' }, 'restart'],
    [{ id: 'a', shutdown: Number.POSITIVE_INFINITY }, 'shutdown'],
    [{ id: 'a', type: 'manager' }, 'type'],
    [{ id: 'a', start: 'now' }, 'start'],
    [null, 'child spec'],
  ])('S33: a bad child spec is refused with the key named (%j)', (spec, key) => {
    expect(() => childSpec(spec)).toThrow(ConfigError);
    expect(() => childSpec(spec)).toThrow(key);
  });

  test('S33: two children with one id, and children beyond the bound, are refused', () => {
    expect(() => supervisorState([{ id: 'a' }, { id: 'a' }])).toThrow(/two children have the id "a"/u);
    expect(() => supervisorState(abc, { childrenMax: 2 })).toThrow(ConfigError);
  });
});
