/**
 * The violations that the simulator's checks report, and logs that they accept. Each accepted log once caused a false
 * alarm. Method: logs and ledgers by hand.
 */
import { expect, test } from 'vitest';
import { positionOf } from '../../../src/journal/rows/row-codec.ts';
import { Invariants } from '../../../src/testing/simulation/invariants.ts';
import { type CallStory, Ledger } from '../../../src/testing/simulation/ledger.ts';
import { type StoredTransition, writeStory } from '../../../src/testing/simulation/session-story.ts';
import type { Reading } from '../../../src/testing/simulation/store-reading.ts';
import { checkToolRuns } from '../../../src/testing/simulation/tool-invariants.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import { call, type Machine, startedSession } from '../../support/session-kit.ts';

/** The machine's log as a store with one transition in each row has it. */
function storedTurns(machine: Machine): readonly StoredTransition[] {
  return machine.turns.map((turn, index) => ({ ...turn, position: positionOf(index + 1, 0) }));
}

function readingOf(machine: Machine): Reading {
  const story = writeStory('s', storedTurns(machine));
  return { stories: new Map([['s', story]]), changed: new Set(['s']), differing: [], misstated: [], names: ['s'] };
}

/** The violations found if the lives of the session ended with these `readings` and made these calls. */
function accused(
  lives: readonly { readonly reading: Reading; readonly calls: readonly CallStory[] }[],
): readonly string[] {
  const ledger = new Ledger();
  let incarnation = 0;
  const invariants = new Invariants(ledger, () => incarnation);
  for (const { reading, calls } of lives) {
    ledger.calls.set('s', [...(ledger.calls.get('s') ?? []), ...calls]);
    invariants.check(reading);
    incarnation += 1;
  }
  return ledger.violations.map(({ kind, what }) => `${kind}: ${what}`);
}

test('I5: the edit that discards a call of a suspended run gives it its result (seed 300132)', () => {
  const machine = startedSession({ sent: 'go' });
  machine.answer([call('a', 'read_file')]);
  const open = accused([{ reading: readingOf(machine), calls: [] }]);
  expect(open).toEqual([]);
  const discarded = {
    type: 'edited',
    operation: 'discardPendingToolCalls',
    added: [
      {
        message: {
          role: 'tool',
          id: 'm3',
          createdAt: 1,
          toolCallId: 'a',
          name: 'read_file',
          content: 'Interrupted.',
          error: 'x',
        },
        after: 2,
      },
    ],
  } as const;
  machine.replay(discarded);
  const story = writeStory('s', storedTurns(machine));
  expect(story.calls.get('s#2@ltqzq4o0')?.results).toEqual([{ content: 'Interrupted.', success: false }]);
  expect(story.state.openCalls.size).toBe(0);
  expect(accused([{ reading: readingOf(machine), calls: [] }])).toEqual([]);
});

test('I5: a call of a suspended run needs no result after a branch switch; a call that vanishes otherwise does (seed 312152)', () => {
  const machine = startedSession({ sent: 'go' });
  machine.replay({
    type: 'responded',
    halfStep: 1,
    content: [{ type: 'tool_use', id: 'a', name: 'read_file', input: {} }],
    calls: [{ id: 'a' }],
    stop: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 },
    // biome-ignore lint/suspicious/noThenProperty: a member of the record, on no promise
    then: 'tools',
    held: true,
  });
  machine.replay({ type: 'suspended', reason: 'max_steps' });
  expect(machine.state.openCalls.size).toBe(1);
  machine.replay({ type: 'taskActivated', id: 0, cause: 'undo' });
  expect(machine.state.openCalls.size).toBe(0);
  const reading = readingOf(machine);
  expect(accused([{ reading, calls: [] }])).toEqual([]);
  const call = reading.stories.get('s')?.calls.get('s#2@ltqzq4o0');
  expect(call).toMatchObject({ results: [], isLeft: true });
  if (call !== undefined) call.isLeft = false;
  expect(accused([{ reading, calls: [] }])).toEqual(['lost: call s#2@ltqzq4o0 has 0 results']);
});

test('A8: a half-step whose claim was lost may be requested with other bytes; with a durable claim it may not (seed 300511)', () => {
  const machine = startedSession({});
  const before = readingOf(machine);
  machine.send('go');
  const claimed = readingOf(machine);
  const digest = [...(claimed.stories.get('s')?.requests.keys() ?? [])][0] ?? '';
  const first = { incarnation: 0, digest, whole: 'as it was' };
  const again = { incarnation: 1, digest, whole: 'otherwise' };
  const told = ['unstable: half-step 1 of s was asked again with other bytes'];
  expect(digest).not.toBe('');
  expect(
    accused([
      { reading: before, calls: [first] },
      { reading: claimed, calls: [again] },
    ]),
  ).toEqual([]);
  expect(
    accused([
      { reading: claimed, calls: [first] },
      { reading: claimed, calls: [again] },
    ]),
  ).toEqual(told);
  expect(accused([{ reading: claimed, calls: [first, { ...again, incarnation: 0 }] }])).toEqual(told);
});

test('I18: a call starts only once its answer is stored; one that needs approval, only once the decision is stored', () => {
  const machine = startedSession({ sent: 'go' });
  machine.replay({
    type: 'responded',
    halfStep: 1,
    content: [{ type: 'tool_use', id: 'a', name: 'save', input: {} }],
    calls: [{ id: 'a' }],
    stop: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 },
    // biome-ignore lint/suspicious/noThenProperty: a member of the record, on no promise
    then: 'tools',
    held: true,
  });
  machine.replay({ type: 'proceeded', approve: ['a'] });
  const answer = machine.turns.length;
  machine.replay({ type: 'decided', callId: 'a', allow: true });
  const decision = machine.turns.length;
  const found = (effect: 'keyed' | 'pure', storedRow: number): readonly string[] => {
    const ledger = new Ledger();
    const process = new SimulatedProcess('tool');
    ledger.tools.set('s#2@ltqzq4o0', {
      tool: 'save',
      effect,
      starts: [{ incarnation: 0, storedRow, process, attempt: 1, atMs: 0 }],
      effects: 0,
    });
    checkToolRuns(ledger, readingOf(machine).stories, new Map());
    return ledger.violations.map(({ what }) => what);
  };
  const early = ['save started for s#2@ltqzq4o0 before the store had what lets it start (I18)'];
  expect(decision).toBeGreaterThan(answer);
  expect(found('keyed', answer - 1)).toEqual(early);
  expect(found('keyed', answer)).toEqual(early);
  expect(found('keyed', decision)).toEqual([]);
  expect(found('pure', 0)).toEqual([]);
});

test('I3: a request that the log does not have is accepted only if the incarnation before may have sent it (seed 100914)', () => {
  const machine = startedSession({ sent: 'go' });
  const reading = readingOf(machine);
  const digest = [...(reading.stories.get('s')?.requests.keys() ?? [])][0] ?? '';
  const known = { incarnation: 1, digest, whole: 'known' };
  const unknown = { incarnation: 1, digest: 'unknown', whole: 'unknown' };
  expect(accused([{ reading, calls: [known, { ...unknown, isStraggler: true }, known] }])).toEqual([]);
  expect(accused([{ reading, calls: [unknown, known] }])).toEqual([]);
  expect(accused([{ reading, calls: [known, unknown, known] }])).toEqual([
    'illegal: s sent a request that its log does not have: unknown',
  ]);
});

test('I4: a half-step that is asked again has the same bytes; a summary with its messages is another call (seed 3292)', () => {
  const machine = startedSession({ sent: 'go' });
  const reading = readingOf(machine);
  const digest = [...(reading.stories.get('s')?.requests.keys() ?? [])][0] ?? '';
  const halfStep = { incarnation: 1, digest, whole: 'half-step', isSummary: false };
  const summary = { incarnation: 1, digest, whole: 'summary', isSummary: true };
  expect(accused([{ reading, calls: [halfStep, summary, halfStep] }])).toEqual([]);
  expect(accused([{ reading, calls: [halfStep, { ...summary, isSummary: false }] }])).toEqual([
    expect.stringMatching(/^unstable: half-step \d+ of s was asked again with other bytes$/),
  ]);
});
