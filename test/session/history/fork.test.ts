/**
 * Goal: a fork begins with its parent's history, in whole rounds, and shares nothing that changes. Method: states, no
 * threads.
 */
import { describe, expect, it } from 'vitest';
import { FORK_DEPTH_MAX, FORKS_SHARED_MAX } from '../../../src/base/bounds.ts';
import { checkRequest, fatalOf } from '../../../src/context/legality/legality.ts';
import { renderMessages, renderSession } from '../../../src/context/render.ts';
import { RequestWindow } from '../../../src/context/request-window.ts';
import { forkSeed, plantSeed } from '../../../src/session/history/fork-seed.ts';
import type { ForkSeed } from '../../../src/session/state/fork-seed.ts';
import { snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../../src/session/state/state.ts';
import { brief, call, executingSession, Machine, makeWorld, startedSession, text } from '../../support/session-kit.ts';

function planted(seed: ForkSeed, id = 'f'): SessionState {
  const state = emptyState(id);
  plantSeed(state, seed);
  return state;
}

/** Seqs: 1 go, 2 text, 3 and 4 calls, 5 and 6 results, 7 answer, 8 more, 9 answer. */
function talk(): Machine {
  const machine = startedSession({ sent: 'go' });
  machine.answer([text('I look.'), call('a', 'read_file'), call('b', 'read_file')]);
  machine.finish('a', 'found a');
  machine.finish('b', 'found b');
  machine.answer('done');
  machine.send('more');
  machine.answer('to more');
  return machine;
}

function kept(machine: Machine, at?: number): readonly number[] {
  return planted(forkSeed(machine.state, at)).messages.map(({ seq }) => seq);
}

describe('the initial state of a fork', () => {
  it('H52: a fork has the same messages, and later changes in either session do not reach the other', () => {
    const machine = talk();
    const seed = forkSeed(machine.state);
    const before = planted(seed).messages.map(brief);
    expect(before).toEqual(machine.log);
    const fork = new Machine(makeWorld(), 'f');
    plantSeed(fork.state, seed);
    fork.state.createdAt = 1;
    machine.replay({
      type: 'edited',
      operation: 'update',
      updated: [{ seq: 1, message: { role: 'user', id: 'm1', createdAt: 1, content: 'changed' } }],
      removed: [7],
    });
    expect(machine.log[0]).toBe('user_message changed');
    machine.input({ type: 'undo' });
    machine.send('only here');
    fork.send('only there');
    fork.answer('to there');
    fork.input({ type: 'undo' });
    expect(machine.log).not.toContain('user_message only there');
    expect(machine.log.at(-1)).toBe('user_message only here');
    expect(fork.log).toEqual(before);
    expect(planted(seed).messages.map(brief)).toEqual(before);
  });

  it('a cut inside a round moves to its end', () => {
    const machine = talk();
    expect(kept(machine, 1)).toEqual([1]);
    for (const at of [2, 3, 4, 5, 6]) expect(kept(machine, at), `at ${at}`).toEqual([1, 2, 3, 4, 5, 6]);
    expect(kept(machine, 7)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(kept(machine, 9)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(() => forkSeed(machine.state, 10)).toThrow(expect.objectContaining({ code: 'message_not_found' }));
  });

  it('W1, R52: the requests of a fork behind an answer are those of its log, also if a call of the provider is left out', () => {
    const machine = startedSession({ sent: 'go' });
    const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} } as const;
    machine.answer([text('I search.'), use]);
    machine.send('more');
    machine.answer('to more');
    const fork = planted(forkSeed(machine.state, 2));
    expect(fork.messages.map(({ seq }) => seq)).toEqual([1, 2]);
    fork.thoughtFloor = 3;
    const options = { timestamps: false, deliveriesAsText: false };
    fork.messages.push({ type: 'user_message', seq: 3, at: 1, content: 'only there', tokens: 1 });
    fork.nextMessageSeq = 4;
    expect(new RequestWindow(options).next(fork).all()).toEqual(renderSession(fork, options));
  });

  it('tasks begun after the cut are not copied, and the next one gets their number', () => {
    const machine = talk();
    const fork = planted(forkSeed(machine.state, 7));
    expect(fork.tasks).toMatchObject({ current: 1, active: 1 });
    machine.input({ type: 'undo' });
    machine.send('another');
    machine.answer('to another');
    expect(planted(forkSeed(machine.state, 11)).tasks).toMatchObject({ current: 3, active: 3 });
  });

  it('a late system prompt does not move the cut, because the messages determine the branch (seed 300804)', () => {
    const machine = talk();
    machine.input({ type: 'undo' });
    machine.send('beside');
    machine.answer('to beside');
    machine.replay({
      type: 'edited',
      operation: 'replaceSystemPrompt',
      added: [{ message: { role: 'system', id: 'm20', createdAt: 1, content: 'You are late.' }, after: 0 }],
    });
    machine.input({ type: 'switchTask', id: 2 });
    machine.send('further');
    expect(machine.state.tasks).toMatchObject({ current: 4, active: 4 });
    const fork = new Machine(makeWorld(), 'f');
    plantSeed(fork.state, forkSeed(machine.state, 9));
    expect(fork.log.slice(-2)).toEqual(['user_message more', 'agent_message to more']);
    expect(fork.state.tasks).toMatchObject({ current: 2, active: 2 });
    expect(fork.state.hidden).toEqual([]);
    const before = fork.log;
    fork.state.createdAt = 1;
    fork.send('on');
    fork.answer('to on');
    expect(fork.state.tasks).toMatchObject({ current: 3, active: 3 });
    expect(fork.log).toEqual([...before, 'user_message on', 'agent_message to on']);
    fork.input({ type: 'undo' });
    expect(fork.log).toEqual(before);
  });

  it('a message inserted far above belongs to the task of its creation, which is on the branch', () => {
    const machine = startedSession({ sent: 'go' });
    machine.answer([call('a', 'read_file')]);
    machine.finish('a', 'found a');
    machine.answer('done');
    machine.send('more');
    machine.answer('to more');
    const highest = machine.state.nextMessageSeq;
    machine.replay({
      type: 'edited',
      operation: 'append',
      added: [{ message: { role: 'user', id: `m${highest}`, createdAt: 1, content: 'a remark' }, after: 1 }],
    });
    const fork = new Machine(makeWorld(), 'f');
    plantSeed(fork.state, forkSeed(machine.state, 4));
    expect(fork.state.tasks).toMatchObject({ current: 2, active: 2 });
    const before = fork.log;
    expect(before).toContain('user_message a remark');
    fork.state.createdAt = 1;
    fork.send('on');
    fork.answer('to on');
    expect(fork.log).toEqual([...before, 'user_message on', 'agent_message to on']);
  });

  it('hidden branches are copied, and the fork can return to them', () => {
    const machine = talk();
    machine.input({ type: 'undo' });
    const fork = new Machine(makeWorld(), 'f');
    plantSeed(fork.state, forkSeed(machine.state));
    fork.input({ type: 'switchTask', id: 2 });
    expect(fork.log.slice(-2)).toEqual(['user_message more', 'agent_message to more']);
    expect(machine.log).not.toContain('user_message more');
  });

  it('a fork of a working session answers its running calls as lost and is at rest', () => {
    const machine = executingSession({ a: 'read_file', b: 'read_file' });
    machine.finish('a', 'found a');
    machine.send('waits');
    const fork = planted(forkSeed(machine.state));
    expect(fork).toMatchObject({ state: 'idle', current: undefined, turn: undefined, mailbox: [] });
    expect(fork.openCalls.size).toBe(0);
    const messages = renderMessages(fork.messages, { timestamps: false, deliveriesAsText: false });
    expect(JSON.stringify(messages)).toContain('Tool result missing');
    const tools = [{ name: 'read_file', description: 'Reads.', input_schema: { type: 'object' } }];
    const body = { model: 'claude-opus-4-6', max_tokens: 64, tools, messages };
    expect(fatalOf(checkRequest(JSON.parse(JSON.stringify(body))))).toEqual([]);
  });

  it('message numbers continue, so that none is used twice', () => {
    const machine = talk();
    const fork = planted(forkSeed(machine.state));
    const { nextMessageSeq, nextPendingId, epoch } = machine.state;
    expect(fork).toMatchObject({ nextMessageSeq, nextPendingId, epoch, eventSeq: 0, nextChild: 1 });
    expect([...fork.callIds].sort()).toEqual(['a', 'b']);
    expect(fork.tokens).toBe(machine.state.tokens);
  });

  it('a copy read from its JSON text is the same', () => {
    const machine = talk();
    machine.input({ type: 'undo' });
    const seed = forkSeed(machine.state, 5);
    expect(snapshotState(planted(JSON.parse(JSON.stringify(seed)) as ForkSeed))).toBe(snapshotState(planted(seed)));
  });
});

describe('the records of a fork', () => {
  it('a fork shares the log through a marker, by default under a free id of the same shard', () => {
    const machine = talk();
    machine.world.taken.add('s:fork-1');
    const told = machine.seen.events.length;
    const { records } = machine.input({ type: 'fork' });
    expect(records).toEqual([{ type: 'forkMade', fork: 1, child: 's:fork-2' }]);
    expect(machine.effect('result')?.value).toEqual({ id: 's:fork-2' });
    expect(machine.effect('forkBorn')?.record).toEqual({
      type: 'forked',
      origin: { session: 's', fork: 1, depth: 1, createdAt: machine.state.createdAt },
    });
    expect(machine.state.forks).toEqual(['s:fork-2']);
    expect(machine.seen.events).toHaveLength(told);
  });

  it('beyond the bounds of a shared log, and far down a chain of forks, the record holds a copy', () => {
    const machine = talk();
    machine.state.forks = Array.from({ length: FORKS_SHARED_MAX }, (_, index) => `f${index}`);
    machine.input({ type: 'fork' });
    expect(machine.effect('forkBorn')?.record.seed?.messages).toHaveLength(9);
    expect(machine.state.forks).toHaveLength(FORKS_SHARED_MAX);
    const deep = talk();
    deep.state.origin = { session: 'p', fork: 1, createdAt: 1, depth: FORK_DEPTH_MAX };
    deep.input({ type: 'fork' });
    expect(deep.effect('forkBorn')?.record).toMatchObject({ origin: { depth: 0 } });
    expect(deep.effect('forkBorn')?.record.seed).toBeDefined();
  });

  it('a taken id, an id that becomes too long, and a missing message are refused; nothing is written', () => {
    const machine = talk();
    const before = machine.turns.length;
    machine.world.taken.add('other');
    machine.input({ type: 'fork', id: 'other' });
    expect(machine.effect('refused')?.error.code).toBe('invalid_name');
    machine.input({ type: 'fork', at: 99 });
    expect(machine.effect('refused')?.error.code).toBe('message_not_found');
    const long = new Machine(makeWorld(), 'x'.repeat(125));
    long.input({ type: 'create', agent: 'main' });
    long.input({ type: 'fork' });
    expect(long.effect('refused')?.error.code).toBe('invalid_name');
    expect(machine.turns).toHaveLength(before);
  });
});
