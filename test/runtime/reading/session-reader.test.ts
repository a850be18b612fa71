/**
 * Goal: a log with much waiting content is read in little memory. Method: a log written by the pure core, and the state after each of
 * its transitions.
 */
import { expect, test } from 'vitest';
import { STORED_CONTENT_BYTES_MIN } from '../../../src/base/bounds.ts';
import { openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import { foldLog, readActor } from '../../../src/runtime/reading/session-reader.ts';
import { isStored } from '../../../src/session/rules/waiting-content.ts';
import { encodeTransition } from '../../../src/session/state/records.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { heapBytes } from '../../support/heap.ts';
import { imageBlock, png } from '../../support/images.ts';
import { Machine, makeWorld, startedSession } from '../../support/session-kit.ts';

const MESSAGES = 50;

function waitingLog() {
  const machine = new Machine(makeWorld());
  machine.input({ type: 'create', agent: 'main' });
  machine.input({ type: 'pause' });
  for (let n = 0; n < MESSAGES; n += 1) machine.send(`${n} ${'x'.repeat(STORED_CONTENT_BYTES_MIN)}`);
  const journal = openMemoryJournal();
  const key = journal.intern('s');
  for (const turn of machine.turns) journal.append([{ key, data: encodeTransition(turn) }]);
  return { journal, key };
}

test('the content of each waiting entry is dropped before the next transition is read', () => {
  const { journal, key } = waitingLog();
  const state = emptyState('s');
  let held = 0;
  foldLog(journal, key, state, 0, {
    turn: () => {
      held = Math.max(held, state.mailbox.filter(({ content }) => !isStored(content)).length);
    },
  });
  expect(held).toBe(0);
  expect(state.mailbox).toHaveLength(MESSAGES);
  expect(readActor(journal, 's', key).state.mailbox.every(({ content }) => isStored(content))).toBe(true);
});

test('messages with the same image share it, read from the log or from a snapshot', () => {
  const bytes = 400_000;
  const machine = startedSession({ tokenBudget: 100_000_000 });
  const photos = 20;
  const photo = png(bytes);
  for (let n = 0; n < photos; n += 1) {
    machine.send([{ type: 'text', text: `photo ${n}` }, imageBlock(photo)]);
    machine.answer('seen');
  }
  const journal = openMemoryJournal();
  const key = journal.intern('s');
  for (const turn of machine.turns) journal.append([{ key, data: encodeTransition(turn) }]);
  const readings = [() => readActor(journal, 's', key).state, () => restoreState(snapshotState(machine.state))];
  for (const read of readings) {
    const before = heapBytes();
    const state = read();
    expect(heapBytes() - before).toBeLessThan(5 * bytes);
    expect(JSON.stringify(state.messages)).toBe(JSON.stringify(machine.state.messages));
    expect(state.messages.filter(({ type }) => type === 'user_message').length).toBeGreaterThan(photos / 2);
  }
});
