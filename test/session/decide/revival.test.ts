/** Goal: a child that has ended works again only in one of the places of `maxActive`, and ends again (G35). */
import { describe, expect, it } from 'vitest';
import { CONTINUE_TASK } from '../../../src/session/rules/child-texts.ts';
import { endOfChild } from '../../../src/session/state/child-link.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { FATAL, type Machine } from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

/** A tree whose children work one at a time; the first has ended as `reason`, and the second works. */
function endedAndWorking(reason: 'completed' | 'failed' | 'cancelled'): {
  readonly tree: Tree;
  readonly ended: Machine;
  readonly working: Machine;
} {
  const tree = new Tree({ maxActiveChildren: 1 });
  const ended = tree.spawn('dig', { key: 'dig', fingerprint: '' });
  if (reason === 'completed') tree.answer(ended, 'gold');
  else if (reason === 'failed') tree.fail(ended, FATAL);
  else tree.input(ended, { type: 'interrupt' });
  const working = tree.spawn('fill');
  expect([ended.state.exit?.reason, working.state.state]).toEqual([reason, 'awaiting']);
  return { tree, ended, working };
}

/** The spawner asks for the first child again, which is to take up its task. */
function continueDig(tree: Tree): void {
  const request = { replies: 'mailbox', task: 'dig', key: 'dig', fingerprint: '', continues: true } as const;
  tree.input(tree.root, { type: 'spawn', request });
}

describe('a place for a child that has ended', () => {
  it.each(['completed', 'failed', 'cancelled'] as const)('G35: %s, it waits in line with its message', (reason) => {
    const { tree, ended, working } = endedAndWorking(reason);
    const calls = ended.allOf('callModel').length;
    tree.send(ended, 'once more');
    expect(ended.state).toMatchObject({ state: 'idle', queued: true, revived: 'waiting' });
    const third = tree.spawn('rake');
    expect([tree.root.state.childrenAtWork, [...tree.root.state.childQueue]]).toEqual([1, ['s:1', 's:3']]);
    tree.answer(working, 'filled');
    expect(ended.allOf('callModel')).toHaveLength(calls + 1);
    expect(third.state.state).toBe('idle');
    tree.answer(ended, 'more gold');
    expect([ended.state.state, third.state.state]).toEqual(['idle', 'awaiting']);
    expect(tree.root.state.childrenAtWork).toBe(1);
  });

  it('G35: with a free place it works at once, and the place is free again afterwards', () => {
    const tree = new Tree({ maxActiveChildren: 2 });
    const child = tree.spawn('dig');
    tree.answer(child, 'gold');
    tree.send(child, 'once more');
    expect([child.state.state, tree.root.state.childrenAtWork]).toEqual(['awaiting', 1]);
    tree.answer(child, 'silver');
    expect(tree.root.state.childrenAtWork).toBe(0);
  });

  it('A10: a snapshot keeps the line in its order, and who works again', () => {
    const { tree, ended } = endedAndWorking('completed');
    tree.spawn('rake');
    tree.send(ended, 'once more');
    const root = restoreState(snapshotState(tree.root.state));
    expect([root.childrenAtWork, [...root.childQueue]]).toEqual([1, ['s:3', 's:1']]);
    expect(restoreState(snapshotState(ended.state))).toEqual(ended.state);
  });

  it('a message that is recalled leaves the line, and the end stays as it was', () => {
    const { tree, ended, working } = endedAndWorking('failed');
    tree.send(ended, 'once more');
    const before = ended.state.exit;
    tree.input(ended, { type: 'recall', pendingId: ended.state.mailbox[0]?.id ?? 0 });
    expect(ended.state).toMatchObject({ queued: false, revived: undefined, exit: before });
    expect([tree.root.state.childrenAtWork, tree.root.state.childQueue.size]).toEqual([1, 0]);
    tree.answer(working, 'filled');
    expect(tree.root.state.childrenAtWork).toBe(0);
  });

  it('an interrupt of the parent empties the line: the message that waits is dropped with its reason', () => {
    const { tree, ended } = endedAndWorking('cancelled');
    tree.send(ended, 'once more');
    const [entry] = ended.state.mailbox;
    tree.input(tree.root, { type: 'interrupt' });
    expect(ended.state).toMatchObject({ queued: false, mailbox: [], exit: { reason: 'cancelled' } });
    expect(ended.state.receipts.get(entry?.id ?? 0)).toEqual({ status: 'dropped', reason: 'cancelled' });
    expect(tree.root.state.childQueue.size).toBe(0);
  });

  it('a child that fails with a message waiting takes its turn in line for that message', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    const child = tree.spawn('dig');
    const other = tree.spawn('fill');
    child.send('and here');
    tree.fail(child, FATAL);
    expect([other.state.state, child.state.queued]).toEqual(['awaiting', true]);
    expect(endOfChild(child.state)).toBeUndefined();
    tree.answer(other, 'filled');
    tree.answer(child, 'gold after all');
    expect(endOfChild(child.state)).toEqual({ reason: 'completed', reply: 'gold after all' });
  });

  it('a suspended run that is resumed waits for a place, and continues without a message', () => {
    const { tree, ended, working } = endedAndWorking('completed');
    ended.state.suspended = { reason: 'max_steps' };
    tree.input(ended, { type: 'resume' });
    tree.input(ended, { type: 'resume' });
    expect(ended.state).toMatchObject({ queued: true, revived: 'resumed', state: 'idle' });
    const calls = ended.allOf('callModel').length;
    tree.answer(working, 'filled');
    expect([ended.state.suspended, ended.allOf('callModel').length]).toEqual([undefined, calls + 1]);
  });
});

describe('the end of a child that works again', () => {
  it.each(['failed', 'cancelled'] as const)('%s, then completed: the later end counts', (reason) => {
    const { tree, ended, working } = endedAndWorking(reason);
    tree.answer(working, 'filled');
    tree.send(ended, 'once more');
    expect(endOfChild(ended.state)).toBeUndefined();
    tree.answer(ended, 'gold');
    expect(endOfChild(ended.state)).toEqual({ reason: 'completed', reply: 'gold' });
    expect(tree.root.state.children.get('s:1')?.exited).toBe('completed');
    const ends = tree.root.events('child.exited').filter((event) => event.child === 's:1');
    expect(ends.map((event) => event.reason)).toEqual([reason, 'completed']);
  });

  it('completed stands, and is known while the child works again', () => {
    const { tree, ended, working } = endedAndWorking('completed');
    tree.answer(working, 'filled');
    tree.send(ended, 'once more');
    expect(endOfChild(ended.state)).toMatchObject({ reply: 'gold' });
    tree.fail(ended, FATAL);
    expect(endOfChild(ended.state)).toEqual({ reason: 'completed', reply: 'gold' });
    expect(tree.root.events('child.exited').filter((event) => event.child === 's:1')).toHaveLength(1);
  });
});

describe('a spawner that continues a task', () => {
  it('gives a cancelled child one message, however often it asks while the child waits or works', () => {
    const { tree, ended, working } = endedAndWorking('cancelled');
    continueDig(tree);
    continueDig(tree);
    tree.answer(working, 'filled');
    continueDig(tree);
    expect(ended.log.filter((line) => line === `user_message ${CONTINUE_TASK}`)).toHaveLength(1);
    tree.answer(ended, 'gold');
    continueDig(tree);
    expect([ended.state.state, ended.state.mailbox]).toEqual(['idle', []]);
  });

  it('continues a child again that failed again', () => {
    const { tree, ended, working } = endedAndWorking('failed');
    tree.answer(working, 'filled');
    for (let time = 1; time <= 2; time += 1) {
      continueDig(tree);
      tree.fail(ended, FATAL);
    }
    expect(ended.log.filter((line) => line === `user_message ${CONTINUE_TASK}`)).toHaveLength(2);
    expect(tree.root.state.childrenAtWork).toBe(0);
  });

  it('leaves a child alone that has not ended', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    tree.spawn('fill');
    const waiting = tree.spawn('dig', { key: 'dig', fingerprint: '' });
    continueDig(tree);
    expect(waiting.state.mailbox).toHaveLength(1);
  });
});
