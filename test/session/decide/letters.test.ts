/** Goal: dead letters in the core: their bounds, their order of events, sending one again, dropping one. */
import { describe, expect, it } from 'vitest';
import { DEAD_LETTER_BYTES_MAX, DEAD_LETTERS_MAX } from '../../../src/base/bounds.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { reopened, throughSnapshot } from '../../support/reopen.ts';
import { type Machine, startedSession } from '../../support/session-kit.ts';

const UNFIT = { type: 'subagent', source: { type: 'user' } } as const;

const letters = (machine: Machine): readonly number[] => machine.state.deadLetters.map(({ entry }) => entry.id);

/** The number of the letter that this content becomes. */
function letterOf(machine: Machine, content: string): number {
  const id = machine.state.nextPendingId;
  machine.send(content, UNFIT);
  return id;
}

describe('dead letters', () => {
  it('F046, A7, S9: a letter sent again is a new entry with its content, and has left the list in the same transition', () => {
    const machine = startedSession();
    const letter = letterOf(machine, 'bad reply');
    machine.world.now += 5;
    machine.input({ type: 'resendLetter', letter, as: 'user' });
    const accepted = machine.effect('accepted');
    expect(accepted).toMatchObject({ pendingId: letter + 1, duplicate: false });
    expect(letters(machine)).toEqual([]);
    expect(machine.log).toEqual(['user_message bad reply']);
    const [removed] = machine.events('dead_letter.removed');
    expect(removed).toMatchObject({ letter, reason: 'resent', pendingId: letter + 1 });
    expect(machine.events('dead_letter.created')).toMatchObject([{ letter, error: { code: 'internal' } }]);
    machine.answer('Thanks.');
    expect(machine.state.receipts.get(letter + 1)).toMatchObject({ status: 'answered', text: 'Thanks.' });
  });

  it('S9: a letter that was sent again names the entry that it became, also after a restart', () => {
    const machine = startedSession();
    const letter = letterOf(machine, 'bad reply');
    machine.input({ type: 'resendLetter', letter, as: 'user' });
    const first = machine.effect('accepted');
    const again = reopened(machine);
    expect(throughSnapshot(again).resentLetters).toEqual(again.state.resentLetters);
    again.input({ type: 'resendLetter', letter });
    expect(again.effect('accepted')).toEqual({ ...first, duplicate: true });
    again.input({ type: 'dropLetter', letter });
    expect(again.effect('result')?.value).toBe(false);
  });

  it('Δ13: in its own form it is refused as long as it cannot be promoted, and nothing changes', () => {
    const machine = startedSession();
    const letter = letterOf(machine, 'bad reply');
    const records = machine.records.length;
    machine.input({ type: 'resendLetter', letter });
    expect(machine.effect('refused')?.error).toMatchObject({ code: 'content' });
    machine.input({ type: 'resendLetter', letter: 99, as: 'user' });
    expect(machine.effect('refused')?.error).toMatchObject({ code: 'letter_not_found', data: { id: 99 } });
    expect([machine.records.length, letters(machine)]).toEqual([records, [letter]]);
  });

  it('I5: the result of a closed call is not sent in its own form, since its call has no place for a second result', () => {
    const machine = startedSession();
    const letter = machine.state.nextPendingId;
    const source = { type: 'tool', name: 'bash' } as const;
    const entry = { type: 'tool_response', content: 'late', source, toolUseId: 'toolu_9' } as const;
    machine.replay({ type: 'accepted', id: letter, entry });
    machine.replay({ type: 'poisoned', id: letter, error: { name: 'Error', code: 'internal', message: 'no' } });
    machine.input({ type: 'resendLetter', letter });
    expect(machine.effect('refused')?.error).toMatchObject({ code: 'content' });
    expect(letters(machine)).toEqual([letter]);
    machine.input({ type: 'resendLetter', letter, as: 'user' });
    expect(machine.log).toEqual(['user_message late']);
  });

  it('A9: a full mailbox refuses a letter, which stays', () => {
    const machine = startedSession();
    machine.world.limits = { ...machine.world.limits, mailbox: 1 };
    const letter = letterOf(machine, 'bad reply');
    machine.input({ type: 'pause' });
    machine.send('waits');
    machine.input({ type: 'resendLetter', letter, as: 'user' });
    expect(machine.effect('refused')?.error.code).toBe('mailbox_full');
    expect(letters(machine)).toEqual([letter]);
  });

  it('S9: a letter is dropped once', () => {
    const machine = startedSession();
    const letter = letterOf(machine, 'bad reply');
    machine.input({ type: 'dropLetter', letter });
    expect(machine.effect('result')?.value).toBe(true);
    machine.input({ type: 'dropLetter', letter });
    expect(machine.effect('result')?.value).toBe(false);
    expect(machine.events('dead_letter.removed')).toMatchObject([{ letter, reason: 'dropped' }]);
    machine.input({ type: 'resendLetter', letter, as: 'user' });
    expect(machine.effect('refused')?.error.code).toBe('letter_not_found');
  });

  it('A9: beyond the bounds, in letters and in bytes, the oldest are dropped; the newest stays', () => {
    const machine = startedSession();
    const first = letterOf(machine, 'first');
    for (let more = 0; more < DEAD_LETTERS_MAX; more += 1) letterOf(machine, `more ${more}`);
    expect(machine.state.deadLetters).toHaveLength(DEAD_LETTERS_MAX);
    expect(machine.events('dead_letter.removed')).toMatchObject([{ letter: first, reason: 'evicted' }]);
    machine.world.limits = {
      ...machine.world.limits,
      messageBytes: 2 * DEAD_LETTER_BYTES_MAX,
      mailboxBytes: 2 * DEAD_LETTER_BYTES_MAX,
    };
    const half = 'x'.repeat(DEAD_LETTER_BYTES_MAX / 2);
    const large = [letterOf(machine, half), letterOf(machine, half)];
    expect(letters(machine)).toEqual(large);
    const over = letterOf(machine, `${half}${half}!`);
    expect(letters(machine)).toEqual([over]);
  });

  it('a head of an earlier version has letters without a time and a size', () => {
    const machine = startedSession();
    letterOf(machine, 'bad reply');
    const plain = JSON.parse(snapshotState(machine.state)) as { deadLetters: { entry: object; error: object }[] };
    const [{ entry, error }] = plain.deadLetters as [{ entry: { bytes?: number; at: number }; error: object }];
    const { bytes, ...rest } = entry;
    const restored = restoreState(JSON.stringify({ ...plain, deadLetters: [{ entry: rest, error }] }));
    expect(restored.deadLetters).toMatchObject([{ entry: { bytes }, error, at: entry.at }]);
  });

  it('events of a log in which an earlier version set an entry aside keep their numbers', () => {
    const machine = startedSession();
    letterOf(machine, 'bad reply');
    const before = machine.state.eventSeq;
    const older = machine.turns.map((turn) => ({
      ...turn,
      records: turn.records.map((record) => {
        if (record.type !== 'poisoned') return record;
        const { announced: _announced, ...rest } = record;
        return rest;
      }),
    }));
    machine.turns.splice(0, machine.turns.length, ...older);
    expect(reopened(machine).state.eventSeq).toBe(before - 1);
  });
});
