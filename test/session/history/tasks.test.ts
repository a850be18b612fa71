/**
 * Goal: tasks branch and are switched as specified, and hidden branches reach no model. Method: one session, no
 * threads.
 */
import { describe, expect, it } from 'vitest';
import { TASK_STARTS_SPARE } from '../../../src/base/bounds.ts';
import { renderMessages } from '../../../src/context/render.ts';
import type { TaskMove } from '../../../src/session/decide/tasks.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { taskHistory } from '../../../src/session/history/task-view.ts';
import { chainOf, childrenOf, shortTitle } from '../../../src/session/history/tasks.ts';
import type { SessionRecord } from '../../../src/session/state/records.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { noTasks } from '../../../src/session/state/tasks.ts';
import { refolded } from '../../support/reopen.ts';
import { call, executingSession, FATAL, type Machine, startedSession } from '../../support/session-kit.ts';

function start(machine: Machine, title?: string): unknown {
  machine.input({ type: 'startTask', ...(title === undefined ? {} : { title }) });
  return machine.effect('result')?.value;
}

function undo(machine: Machine): TaskMove {
  machine.input({ type: 'undo' });
  return machine.effect('result')?.value as TaskMove;
}

function switchTo(machine: Machine, id: number): TaskMove {
  machine.input({ type: 'switchTask', id });
  return machine.effect('result')?.value as TaskMove;
}

/** A whole turn without a call. */
function turn(machine: Machine, said: string, answer = `to ${said}`): void {
  machine.send(said);
  machine.answer(answer);
}

function sent(machine: Machine): string {
  return JSON.stringify(renderMessages(machine.state.messages, { timestamps: false, deliveriesAsText: false }));
}

describe('tasks', () => {
  it('H49: a request leaves out turns of a sibling branch and keeps messages without a task; 0 is a valid task', () => {
    const machine = startedSession();
    const edit: SessionRecord = {
      type: 'edited',
      operation: 'seed',
      added: [
        { message: { role: 'user', id: 'a', createdAt: 1, content: 'untagged' } },
        { message: { role: 'user', id: 'b', createdAt: 1, content: 'of the root', taskId: 0 } },
      ],
    };
    machine.replay(edit);
    turn(machine, 'first');
    turn(machine, 'second');
    expect(undo(machine)).toEqual({ success: true, taskId: 1 });
    turn(machine, 'other second');
    const request = sent(machine);
    expect(request).toContain('untagged');
    expect(request).toContain('of the root');
    expect(request).toContain('to other second');
    expect(request).not.toContain('"second');
    expect(request).not.toContain('to second');
    expect(switchTo(machine, 2)).toEqual({ success: true, taskId: 2 });
    expect(sent(machine)).toContain('to second');
    expect(sent(machine)).not.toContain('other second');
    expect(undo(machine)).toEqual({ success: true, taskId: 1 });
    expect(undo(machine)).toEqual({ success: true, taskId: 0 });
    expect(machine.log).toEqual(['user_message untagged', 'user_message of the root']);
  });

  it('H50: an undo from 1 reaches 0; an undo at 0 and a switch to an unknown task fail and write nothing', () => {
    const machine = startedSession();
    expect(undo(machine)).toEqual({ success: false, message: 'Already at root task' });
    expect(start(machine)).toBe(1);
    expect(undo(machine)).toEqual({ success: true, taskId: 0 });
    const before = machine.turns.length;
    expect(undo(machine)).toEqual({ success: false, message: 'Already at root task' });
    for (const id of [0, -1, 2, 1.5, Number.NaN]) {
      expect(switchTo(machine, id)).toEqual({ success: false, message: `Invalid task ID: ${id}` });
    }
    expect(machine.turns).toHaveLength(before);
    expect(switchTo(machine, 1)).toEqual({ success: true, taskId: 1 });
    const moved = machine.turns.length;
    expect(switchTo(machine, 1)).toEqual({ success: true, taskId: 1 });
    expect(machine.turns).toHaveLength(moved);
  });

  it('H51: the statuses current, past and undone depend on the chain, not on the number', () => {
    const machine = startedSession();
    expect(taskHistory(machine.state, 10)).toEqual([]);
    expect([start(machine, '  one \n two '), start(machine)]).toEqual([1, 2]);
    switchTo(machine, 1);
    expect(start(machine)).toBe(3);
    turn(machine, 'said in three');
    const told = taskHistory(machine.state, 10);
    expect(
      told.map(({ taskId, parentTaskId, status, hasBranches, summary }) => [
        taskId,
        parentTaskId,
        status,
        hasBranches,
        summary,
      ]),
    ).toEqual([
      [1, 0, 'past', true, 'one two'],
      [2, 1, 'undone', false, 'Task 2'],
      [3, 1, 'current', false, 'said in three'],
    ]);
    expect(told.map(({ startedAt, endedAt }) => [typeof startedAt, endedAt === null])).toEqual([
      ['number', false],
      ['number', false],
      ['number', true],
    ]);
    expect(childrenOf(machine.state.tasks, 1)).toEqual([2, 3]);
    expect(childrenOf(machine.state.tasks, 0)).toEqual([1]);
    expect(taskHistory(machine.state, 2).map(({ taskId }) => taskId)).toEqual([2, 3]);
    switchTo(machine, 2);
    expect(taskHistory(machine.state, 3).map(({ status }) => status)).toEqual(['past', 'current', 'undone']);
  });

  it('a turn begins a separate task, unless a task was just begun for it', () => {
    const machine = startedSession();
    turn(machine, 'one');
    expect(start(machine, 'Two')).toBe(2);
    turn(machine, 'two');
    turn(machine, 'three');
    expect(machine.state.tasks).toMatchObject({ current: 3, active: 3 });
    expect(historyMessages(machine.state).map(({ content, taskId }) => [content, taskId])).toEqual([
      ['one', 1],
      ['to one', 1],
      ['two', 2],
      ['to two', 2],
      ['three', 3],
      ['to three', 3],
    ]);
  });

  it('all messages of a turn, calls and results included, belong to the task it began', () => {
    const machine = startedSession();
    turn(machine, 'one');
    machine.send('two');
    machine.answer([call('a', 'read_file')]);
    machine.finish('a', 'found');
    machine.answer('done');
    undo(machine);
    expect(machine.log).toEqual(['user_message one', 'agent_message to one']);
    expect([...machine.state.callIds]).toEqual(['a']);
    switchTo(machine, 2);
    expect(machine.log.slice(2)).toEqual([
      'user_message two',
      'tool_call Calling read_file',
      'tool_response found',
      'agent_message done',
    ]);
    expect([...machine.state.callIds]).toEqual(['a']);
  });

  it('an undo during a turn takes effect after its end, and is published as one event', () => {
    const machine = startedSession();
    turn(machine, 'one');
    machine.send('two');
    machine.answer([call('a', 'read_file')]);
    expect(undo(machine)).toEqual({ success: true, taskId: 1 });
    expect(undo(machine)).toEqual({ success: true, taskId: 0 });
    expect(switchTo(machine, 1)).toEqual({ success: true, taskId: 1 });
    expect(machine.state.tasks.active).toBe(2);
    machine.finish('a', 'found');
    expect(sent(machine)).toContain('found');
    expect(machine.events('history.changed')).toEqual([]);
    machine.answer('done');
    expect(machine.state.tasks).toMatchObject({ active: 1, wished: undefined });
    expect(machine.log).toEqual(['user_message one', 'agent_message to one']);
    expect(machine.events('history.changed')).toEqual([
      { type: 'history.changed', operation: 'switch', removed: [3, 4, 5, 6], created: [], updated: [] },
    ]);
  });

  it.each([
    ['fails', (machine: Machine) => machine.fail(FATAL)],
    ['is interrupted', (machine: Machine) => machine.input({ type: 'interrupt' })],
  ])('a move requested during a turn that %s still happens', (_how, end) => {
    const machine = startedSession();
    turn(machine, 'one');
    machine.send('two');
    undo(machine);
    end(machine);
    expect(machine.state.tasks.active).toBe(1);
    expect(machine.log.slice(0, 2)).toEqual(['user_message one', 'agent_message to one']);
    expect(machine.log).not.toContain('user_message two');
  });

  it('a task started during a turn belongs to the next turn', () => {
    const machine = startedSession();
    machine.send('one');
    expect(start(machine, 'Later')).toBe(2);
    machine.answer('to one');
    turn(machine, 'two');
    expect(machine.state.tasks).toMatchObject({ current: 2, active: 2 });
    expect(historyMessages(machine.state).map(({ taskId }) => taskId)).toEqual([1, 1, 2, 2]);
  });

  it('a change of branch opens an epoch only if it changes the shown messages', () => {
    const machine = startedSession();
    turn(machine, 'one');
    const { epoch } = machine.state;
    start(machine);
    undo(machine);
    expect(machine.state.epoch).toBe(epoch);
    undo(machine);
    expect(machine.state.epoch).toBe(epoch + 1);
    expect(machine.state.tokens).toBe(0);
  });

  it('a seeded history with tasks becomes one line of tasks, and the next turn follows its last task', () => {
    const machine = startedSession();
    machine.replay({
      type: 'edited',
      operation: 'seed',
      added: [
        { message: { role: 'user', id: 'a', createdAt: 1, content: 'one', taskId: 1 } },
        { message: { role: 'user', id: 'b', createdAt: 1, content: 'three', taskId: 3 } },
      ],
    });
    expect(machine.state.tasks).toMatchObject({ current: 3, active: 3 });
    turn(machine, 'four');
    expect(machine.state.tasks.current).toBe(4);
    switchTo(machine, 2);
    expect(machine.log).toEqual(['user_message one']);
  });

  it('titles are cut at 60 characters, never inside one', () => {
    expect(shortTitle(` ${'x'.repeat(60)} `)).toBe('x'.repeat(60));
    expect(shortTitle('x'.repeat(61))).toBe(`${'x'.repeat(57)}...`);
    expect(shortTitle('😀'.repeat(61))).toBe(`${'😀'.repeat(57)}...`);
    expect(shortTitle('a\n\t b')).toBe('a b');
  });

  it('a cycle of parents ends the search for the root', () => {
    const tasks = noTasks();
    tasks.current = 3;
    tasks.parents.set(2, 3);
    const chain = chainOf(tasks, 3);
    expect([0, 1, 2, 3].filter((task) => chain.has(task))).toEqual([0, 2, 3]);
    tasks.current = Number.MAX_SAFE_INTEGER;
    expect(chainOf(tasks, tasks.current).has(tasks.current - 1)).toBe(true);
  });

  it('turns without a message leave no growing data either', () => {
    const machine = startedSession();
    const turns = 3 * TASK_STARTS_SPARE;
    for (let number = 0; number < turns; number += 1) {
      machine.send('gone', { bounceBack: true });
      machine.fail(FATAL);
    }
    expect(machine.state.tasks.current).toBe(turns);
    expect(machine.state.tasks.starts.length).toBeLessThanOrEqual(3 * 2 * (TASK_STARTS_SPARE + 1));
    expect(taskHistory(machine.state, 1)[0]).toMatchObject({ taskId: turns, status: 'current' });
  });

  it('a call that an embedder adds gets no id of a call on a hidden branch', () => {
    const machine = executingSession({ a: 'read_file' });
    machine.finish('a');
    machine.answer('done');
    undo(machine);
    machine.replay({
      type: 'edited',
      operation: 'append',
      added: [
        {
          message: {
            role: 'assistant',
            id: 'x',
            createdAt: 1,
            content: '',
            toolCalls: [{ callId: 'a', name: 'read_file', arguments: '{}' }],
          },
        },
      ],
    });
    expect([...machine.state.callIds]).toEqual(['a', 'a_2']);
  });

  it('a call that a model repeats gets a new id, so that no id is there twice when its branch returns', () => {
    const machine = executingSession({ a: 'read_file' });
    machine.finish('a', 'first');
    machine.answer('done');
    undo(machine);
    machine.send('again');
    machine.answer([call('a', 'read_file')]);
    const [other] = machine.state.openCalls.keys();
    expect(other).not.toBe('a');
    machine.finish(other ?? '', 'second');
    machine.answer('done again');
    expect(machine.log).toContain('tool_response second');
    switchTo(machine, 1);
    expect(machine.log).toContain('tool_response first');
    // The result is the same after a crash, and from a snapshot that was written before hidden ids were kept.
    const again = refolded(machine).state;
    expect(again).toEqual(machine.state);
    const old = JSON.parse(snapshotState(again)) as { callIds: string[] };
    const restored = restoreState(JSON.stringify({ ...old, callIds: ['a'] }));
    expect([...restored.callIds].sort()).toEqual(['a', other].sort());
  });
});
