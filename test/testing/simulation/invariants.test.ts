/** What the simulator's checks accuse and what they let pass: alarms that were false once. Method: logs and ledgers by hand. */
import { expect, test } from 'vitest';
import { Invariants } from '../../../src/testing/simulation/invariants.ts';
import { type CallStory, Ledger } from '../../../src/testing/simulation/ledger.ts';
import { writeStory } from '../../../src/testing/simulation/session-story.ts';
import type { Reading } from '../../../src/testing/simulation/store-reading.ts';
import { call, type Machine, startedSession } from '../../support/session-kit.ts';

function readingOf(machine: Machine): Reading {
  const story = writeStory('s', machine.turns);
  return { stories: new Map([['s', story]]), changed: new Set(['s']), differing: [], names: ['s'] };
}

/** What the checks say, where the lives of the session ended as `readings` tell, with these calls made in each. */
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

test('I5: a call of a suspended run that is discarded has its result by the edit (seed 300132)', () => {
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
  const story = writeStory('s', machine.turns);
  expect(story.calls.get('s#2')?.results).toEqual([{ content: 'Interrupted.', success: false }]);
  expect(story.state.openCalls.size).toBe(0);
  expect(accused([{ reading: readingOf(machine), calls: [] }])).toEqual([]);
});

test('I5: a call of a suspended run whose branch was left needs no result; one that vanishes otherwise does (seed 312152)', () => {
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
  const call = reading.stories.get('s')?.calls.get('s#2');
  expect(call).toMatchObject({ results: [], isLeft: true });
  if (call !== undefined) call.isLeft = false;
  expect(accused([{ reading, calls: [] }])).toEqual(['lost: call s#2 has 0 results']);
});

test('A8: a half-step whose claim was lost may be asked again with other bytes, one whose claim is there may not (seed 300511)', () => {
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
