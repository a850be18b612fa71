/**
 * Goal: messages that leave the window of a session with Mneme were summarised before. Every request is within the
 * budget, and one run happens at a time. After a failed run the window is cut as in a session without Mneme.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ErrorShape } from '../../../src/base/errors.ts';
import type { SettingsInput } from '../../../src/base/settings.ts';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { memoryText, uncovered } from '../../../src/session/rules/memory.ts';
import { firstBoundary, memoryZone } from '../../../src/session/rules/memory-zone.ts';
import type { Snapshot } from '../../../src/session/state/memory.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../../src/session/state/state.ts';
import {
  call,
  FATAL,
  Machine,
  startedSession,
  UNAUTHORIZED,
  USAGE,
  type WorldOptions,
} from '../../support/session-kit.ts';
import { Life } from '../../support/session-life.ts';
import { lifeOptions, steps } from '../../support/session-steps.ts';

const BUDGET = 900;
/** A text of this many tokens that repeats one letter. */
const words = (tokens: number, letter = 'x'): string => letter.repeat(tokens * 4);

const SETTINGS: SettingsInput = { mneme: { pinnedBudgetFraction: 0, l2SnapshotThreshold: 2 } };

function remembering(options: WorldOptions = {}): Machine {
  return startedSession({
    tokenBudget: BUDGET,
    settings: SETTINGS,
    agent: { enrichers: { mneme: { model: 'claude-haiku-4-5' } } },
    ...options,
  });
}

/** Turns of 200 tokens: 100 for the question, 100 for the answer. */
function talk(machine: Machine, turns: number): void {
  for (let turn = 0; turn < turns; turn += 1) {
    machine.send(words(100));
    machine.answer(words(100, 'y'));
  }
}

const runOf = (machine: Machine): number => machine.state.memory?.summarising?.run ?? 0;

function summarise(machine: Machine, text: string | undefined = 'what was said'): void {
  machine.input({ type: 'summarised', run: runOf(machine), ...(text === '' ? {} : { text }), usage: USAGE });
}

function failRun(machine: Machine, error: ErrorShape = FATAL): void {
  machine.input({ type: 'summarised', run: runOf(machine), error, usage: USAGE });
}

const texts = (machine: Machine): readonly string[] => (machine.state.memory?.snapshots ?? []).map((each) => each.text);

describe('when a summary is due', () => {
  it('F092: the first message triggers no summary, and neither do tools alone', () => {
    const machine = remembering();
    machine.send(words(10));
    expect(machine.state.memory).toBeUndefined();
    expect(machine.allOf('startEnricher')).toEqual([]);
  });

  it('F093: a summary is due above the window budget, not at the budget, and never in a child', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(50));
    machine.answer(words(50));
    expect(machine.state.tokens).toBe(BUDGET);
    expect(machine.state.memory).toBeUndefined();
    machine.send(words(1));
    expect(machine.allOf('startEnricher')).toEqual([{ type: 'startEnricher', enricher: 'mneme', run: 1 }]);
    const child = remembering({ agent: {} });
    talk(child, 20);
    expect(child.state.memory).toBeUndefined();
  });

  it('Δ23: the part reserved for pins counts as used', () => {
    const machine = remembering({ settings: { mneme: { pinnedBudgetFraction: 0.5 } } });
    talk(machine, 3);
    expect(machine.allOf('startEnricher')).toHaveLength(1);
  });

  it('a delivery counts as the pair it becomes', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.input({ type: 'goal', change: { action: 'create', description: 'x' } });
    const incoming = machine.state.mailbox.reduce(
      (sum, { content }) => sum + Math.ceil(String(content).length / 4),
      50,
    );
    machine.send(words(BUDGET - machine.state.tokens - incoming));
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.tokens).toBe(BUDGET);
    const other = remembering();
    talk(other, 4);
    other.input({ type: 'goal', change: { action: 'create', description: 'x' } });
    other.send(words(BUDGET - other.state.tokens - incoming + 1));
    expect(other.allOf('startEnricher')).toHaveLength(1);
  });

  it('F096: many messages above the threshold start one run', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send('go');
    machine.answer([call('a', 'read_file'), call('b', 'read_file'), call('c', 'read_file')]);
    for (const id of ['a', 'b', 'c']) machine.finish(id, words(60));
    expect(machine.state.state).toBe('executing');
    for (let each = 0; each < 10; each += 1) machine.send(words(10));
    expect(machine.allOf('startEnricher')).toHaveLength(1);
    expect(machine.records.filter((record) => record.type === 'summaryBegun')).toHaveLength(1);
  });

  it('none begins while the session is paused', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.input({ type: 'pause' });
    machine.send(words(200));
    expect(machine.allOf('startEnricher')).toEqual([]);
    machine.input({ type: 'resume' });
    expect(machine.allOf('startEnricher')).toHaveLength(1);
  });
});

describe('a summary of messages', () => {
  it('is awaited by the half-step that would exceed the budget, an event says so, and afterwards the request fits', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    expect(machine.state.state).toBe('idle');
    expect(machine.waiting).toHaveLength(1);
    expect(machine.events('session.state').at(-1)).toEqual({
      type: 'session.state',
      state: 'idle',
      phase: 'preparing',
    });
    summarise(machine);
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.tokens).toBeLessThanOrEqual(BUDGET);
    // A third of the budget is 297 tokens: two messages of a hundred each.
    expect(machine.events('eviction')).toEqual([{ type: 'eviction', below: 3 }]);
    expect(machine.state.memory?.snapshots).toEqual([
      { level: 1, text: 'what was said', from: 1, to: 2, tokens: 4 } satisfies Snapshot,
    ]);
    expect(machine.state.memory?.shown).toBe('## Recent Memory\n\nwhat was said');
  });

  it('runs beside a turn, and is applied only at its message boundary', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(50));
    machine.answer([{ type: 'text', text: words(100) }, call('a', 'read_file')]);
    machine.finish('a', 'ok');
    expect(machine.state.tokens).toBeGreaterThan(BUDGET);
    expect(machine.state.state).toBe('executing');
    summarise(machine);
    expect(machine.state.state).toBe('awaiting');
    const { epoch } = machine.state;
    machine.answer(words(300));
    machine.send('more');
    const before = machine.state.messages.length;
    expect(machine.state.epoch).toBe(epoch);
    expect(runOf(machine)).toBe(2);
    summarise(machine, 'and then');
    expect(machine.state.messages.length).toBeLessThan(before);
    expect(texts(machine)).toEqual(['what was said', 'and then']);
  });

  it('that ends during a model call changes the conversation only after the answer', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(60));
    machine.world.tokenBudget = 100_000;
    machine.answer(words(60));
    machine.world.tokenBudget = BUDGET;
    machine.input({ type: 'wake' });
    expect(runOf(machine)).toBe(1);
    machine.world.tokenBudget = 100_000;
    machine.send('quick');
    expect(machine.state.state).toBe('awaiting');
    machine.world.tokenBudget = BUDGET;
    const { epoch } = machine.state;
    const log = [...machine.log];
    summarise(machine);
    expect(machine.state.epoch).toBe(epoch);
    expect(machine.log).toEqual(log);
    machine.answer('done');
    expect(machine.state.epoch).toBe(epoch + 1);
    expect(texts(machine)).toEqual(['what was said']);
  });

  it('with nothing to remember still moves the window', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    summarise(machine, '');
    expect(machine.state.state).toBe('awaiting');
    expect(machine.events('eviction')).toHaveLength(1);
    expect(texts(machine)).toEqual([]);
  });

  it('is followed by another at once while the request would still not fit', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(500));
    summarise(machine, 'one');
    expect(machine.state.state).toBe('idle');
    summarise(machine, 'two');
    // Two snapshots are summarised beside the turn, which no longer waits.
    expect(machine.state.state).toBe('awaiting');
    expect(machine.state.tokens).toBeLessThanOrEqual(BUDGET);
    expect(texts(machine)).toEqual(['one', 'two']);
  });

  it('removes all messages before a message that needs the whole budget', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(BUDGET));
    for (let run = 0; run < 10 && machine.state.state === 'idle'; run += 1) summarise(machine, `part ${run}`);
    expect(machine.log).toEqual([`user_message ${words(BUDGET)}`]);
    const gone = machine.records.flatMap((record) =>
      record.type === 'summaryBegun' && record.level === 1 ? [record.to] : [],
    );
    expect(gone.at(-1)).toBe(8);
  });

  it('of messages that changed meanwhile is dropped, and begins again', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    machine.input({ type: 'edit', request: { operation: 'remove', id: 'm1' } });
    expect(machine.log[0]).toBe(`agent_message ${words(100, 'y')}`);
    summarise(machine, 'of what is not there any more');
    expect(machine.records.some((record) => record.type === 'summaryDropped')).toBe(true);
    expect(texts(machine)).toEqual([]);
    // The remaining messages fit, so the turn begins.
    expect(machine.state.tokens).toBeLessThanOrEqual(BUDGET);
    expect(machine.state.state).toBe('awaiting');
  });

  it('of a replaced conversation is dropped, also while it runs', () => {
    const machine = remembering();
    for (const part of ['one', 'two']) {
      while (runOf(machine) === 0) talk(machine, 1);
      summarise(machine, part);
    }
    expect(machine.state.memory?.summarising?.level).toBe(2);
    expect(machine.state.memory?.shown).toContain('one');
    machine.input({ type: 'edit', request: { operation: 'unset' } });
    expect(machine.state.memory?.shown).toBeUndefined();
    summarise(machine, 'both');
    expect(machine.state.memory?.snapshots).toEqual([]);
    expect(machine.state.memory?.summarising).toBeUndefined();
    talk(machine, 1);
    expect(machine.state.memory?.shown).toBeUndefined();
  });

  it('counts its usage for the session', () => {
    const machine = remembering();
    talk(machine, 4);
    const before = machine.state.usage.input_tokens;
    machine.send(words(200));
    summarise(machine);
    expect(machine.state.usage.input_tokens).toBe(before + USAGE.input_tokens);
  });
});

describe('a run', () => {
  it('that is obsolete changes nothing when it ends', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    machine.input({ type: 'summarised', run: 7, text: 'late' });
    expect(machine.last).toEqual([{ type: 'stale', what: 'summary' }]);
    summarise(machine);
    machine.input({ type: 'summarised', run: 1, text: 'twice' });
    expect(machine.last).toEqual([{ type: 'stale', what: 'summary' }]);
    expect(texts(machine)).toEqual(['what was said']);
  });

  it('Δ24: is tried three times; then a note is in the log, all messages stay, and the window is cut without a summary', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    failRun(machine);
    failRun(machine);
    expect(machine.allOf('startEnricher').map((each) => each.run)).toEqual([1, 2, 3]);
    expect(machine.state.messages[0]?.seq).toBe(1);
    expect(machine.state.state).toBe('idle');
    failRun(machine);
    expect(machine.state.state).toBe('awaiting');
    expect(machine.log.find((line) => line.startsWith('system_message'))).toContain(
      'could not be summed up: bad request',
    );
    expect(machine.state.tokens).toBeLessThanOrEqual(BUDGET);
    expect(texts(machine)).toEqual([]);
    // The next summary is tried again.
    machine.answer(words(300));
    expect(machine.allOf('startEnricher')).toHaveLength(4);
  });

  it.each([UNAUTHORIZED, { name: 'TimeoutError', code: 'timeout', message: 'late' }] as const)(
    'that failed with $code is not tried again',
    (error) => {
      const machine = remembering();
      talk(machine, 4);
      machine.send(words(200));
      failRun(machine, error);
      expect(machine.allOf('startEnricher')).toHaveLength(1);
      expect(machine.state.state).toBe('awaiting');
    },
  );

  it('interrupted while a turn waits for it ends the turn as cancelled, and continues', () => {
    const machine = remembering();
    talk(machine, 4);
    const id = machine.send(words(200));
    machine.input({ type: 'interrupt' });
    expect(machine.effect('result')).toEqual({ type: 'result', value: true });
    expect(machine.state.state).toBe('idle');
    expect(machine.seen.settled.at(-1)).toMatchObject({ id, receipt: { status: 'cancelled' } });
    expect(machine.events('interrupt.acknowledged')).toHaveLength(1);
    expect(machine.waiting).toEqual([]);
    summarise(machine);
    expect(texts(machine)).toEqual(['what was said']);
  });

  it('ends without a turn if its entry was recalled, which is published', () => {
    const machine = remembering();
    talk(machine, 4);
    const id = machine.send(words(200));
    machine.input({ type: 'recall', pendingId: Number(id) });
    summarise(machine);
    expect(machine.state.state).toBe('idle');
    expect(machine.events('session.state').at(-1)).toEqual({ type: 'session.state', state: 'idle' });
  });

  it('interrupted by a crash begins again under the next number, and its old completion is ignored', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    const again = Machine.replayed(machine.world, 's', machine.turns);
    expect(again.state).toEqual(machine.state);
    expect(restoreState(snapshotState(again.state))).toEqual(again.state);
    again.input({ type: 'recover' });
    expect(again.lastOf('startEnricher')).toEqual([{ type: 'startEnricher', enricher: 'mneme', run: 2 }]);
    again.input({ type: 'summarised', run: 1, text: 'from before' });
    expect(again.last).toEqual([{ type: 'stale', what: 'summary' }]);
    summarise(again, 'from after');
    expect(texts(again)).toEqual(['from after']);
    expect(again.state.state).toBe('awaiting');
    expect(again.records.filter((record) => record.type === 'remembered')).toHaveLength(1);
  });

  it('is dropped when the session is opened without Mneme', () => {
    const machine = remembering();
    talk(machine, 4);
    machine.send(words(200));
    machine.world.agent = {};
    const again = Machine.replayed(machine.world, 's', machine.turns);
    again.input({ type: 'recover' });
    expect(again.state.memory?.summarising).toBeUndefined();
    expect(again.state.state).toBe('awaiting');
  });
});

describe('a summary of snapshots', () => {
  const twice = (machine: Machine): void => {
    for (const text of ['one', 'two']) {
      while (runOf(machine) === 0) talk(machine, 1);
      summarise(machine, text);
    }
  };

  it('F099: below the threshold there is none; at the threshold there is one, of the range of all of them', () => {
    const machine = remembering();
    while (runOf(machine) === 0) talk(machine, 1);
    summarise(machine, 'one');
    expect(runOf(machine)).toBe(0);
    while (runOf(machine) === 0) talk(machine, 1);
    summarise(machine, 'two');
    const [one, two] = machine.state.memory?.snapshots ?? [];
    if (one === undefined || two === undefined) throw new Error('no two snapshots');
    expect(machine.state.memory?.summarising).toEqual({ run: 3, level: 2, from: one.from, to: two.to, attempt: 1 });
    const { epoch } = machine.state;
    summarise(machine, 'both');
    expect(machine.state.memory?.snapshots).toEqual([
      { level: 2, text: 'both', from: one.from, to: two.to, tokens: 1 } satisfies Snapshot,
    ]);
    expect(machine.state.epoch).toBe(epoch + 1);
    expect(machine.state.memory?.shown).toBe('## Long-term Memory\n\nboth');
  });

  it('a failed one leaves the snapshots unchanged, and is tried again when there are more', () => {
    const machine = remembering();
    twice(machine);
    for (let attempt = 0; attempt < 3; attempt += 1) failRun(machine);
    expect(texts(machine)).toEqual(['one', 'two']);
    expect(machine.log.some((line) => line.startsWith('system_message'))).toBe(false);
    machine.send('short');
    expect(runOf(machine)).toBe(0);
    machine.answer('short');
    while (runOf(machine) === 0) talk(machine, 1);
    expect(machine.state.memory?.summarising?.level).toBe(1);
    summarise(machine, 'three');
    expect(machine.state.memory?.summarising?.level).toBe(2);
  });
});

describe('shown memory', () => {
  const snapshot = (level: 1 | 2, from: number, to: number, text = `${level}:${from}-${to}`): Snapshot => ({
    level,
    text,
    from,
    to,
    tokens: 10,
  });

  it('F098: a snapshot is hidden only when a higher one covers it completely', () => {
    const l1 = [snapshot(1, 1, 5), snapshot(1, 6, 9), snapshot(1, 10, 12)];
    expect(uncovered([...l1, snapshot(2, 1, 9)])).toEqual([l1[2]]);
    expect(uncovered([...l1, snapshot(2, 1, 8)])).toEqual([l1[1], l1[2]]);
    expect(uncovered(l1)).toEqual(l1);
  });

  it('F100: long-term memory stands before recent memory, each oldest first, the newest within its budget', () => {
    const snapshots = [
      snapshot(2, 1, 9),
      snapshot(2, 10, 19),
      snapshot(1, 20, 29),
      snapshot(1, 30, 39),
      snapshot(1, 40, 49),
    ];
    const shown = memoryText({ snapshots, budgets: { 1: 20, 2: 5 } });
    expect(shown).toBe('## Long-term Memory\n\n2:10-19\n\n## Recent Memory\n\n1:30-39\n\n1:40-49');
    expect(memoryText({ snapshots: [], budgets: { 1: 20, 2: 5 } })).toBeUndefined();
    expect(memoryText({ snapshots: [snapshot(1, 1, 2)], budgets: { 1: 0, 2: 0 } })).toBe('## Recent Memory\n\n1:1-2');
  });
});

describe('any session', () => {
  const options = lifeOptions.map((each) => ({ ...each, remembers: true, isChild: false, tokenBudget: 60 }));
  const lives = steps().map((all) =>
    all.map((step) => (step.do === 'summary' ? { ...step, how: 'text' as const } : step)),
  );

  it('Z1: only summarised messages leave, or messages too large for any summary (property)', () => {
    let summed = 0;
    fc.assert(
      fc.property(options, lives, (given, all) => {
        const { machine } = new Life(given).live(all);
        const state = emptyState('s');
        for (const { records, at } of machine.turns) {
          for (const [index, record] of records.entries()) {
            if (record.type === 'evicted' && records[index - 1]?.type === 'remembered') summed += 1;
            else if (record.type === 'evicted') expect(mayLeave(state)).toBe(false);
            applyAll(state, [record], at);
          }
        }
      }),
      { numRuns: 300 },
    );
    expect(summed).toBeGreaterThan(0);
  });

  /** True if a run could have removed the oldest messages, even if only all of them. */
  function mayLeave(state: SessionState): boolean {
    const boundary = firstBoundary(state.messages);
    return boundary !== undefined && memoryZone(state.messages, boundary, 0, state.nextMessageSeq) !== undefined;
  }
});
