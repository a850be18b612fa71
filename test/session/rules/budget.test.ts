/**
 * Goal: a budget of tokens stops a session before a call that would begin beyond the budget. Each use of tokens is
 * counted once, by the budget it belongs to.
 */
import { describe, expect, it } from 'vitest';
import { BUDGET_JOINS_MAX } from '../../../src/base/bounds.ts';
import type { Usage } from '../../../src/base/messages.ts';
import { tokensOf } from '../../../src/base/messages.ts';
import { budgetError, usedOf } from '../../../src/session/rules/budget.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../../src/session/state/state.ts';
import { environmentOf, Machine, makeWorld } from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

const USAGE: Usage = { input_tokens: 60, output_tokens: 40 };
const calls = (id: string): readonly unknown[] => [{ type: 'tool_use', id, name: 'bash', input: {} }];

function child(budget: number): { readonly tree: Tree; readonly machine: Machine } {
  const tree = new Tree({ limits: { depth: 3 } });
  return { tree, machine: tree.spawn('dig', { budget }) };
}

describe('a budget', () => {
  it('is in the records of the spawn and of the birth, and absent if not given', () => {
    const { tree, machine } = child(150);
    expect(tree.root.records.find(({ type }) => type === 'spawned')).toMatchObject({ budget: 150 });
    expect(machine.records[0]).toMatchObject({ type: 'created', budget: { tokens: 150 } });
    const free = tree.spawn('dig freely');
    expect(free.records[0]).not.toHaveProperty('budget');
    expect(free.state.budget).toBeUndefined();
  });

  it('closes the round before a call that exceeds it: noted, failed with a limit, reported to the parent', () => {
    const { tree, machine } = child(150);
    machine.answer(calls('a'), { stop: 'tool_use', usage: USAGE });
    machine.finish('a', 'one');
    expect(machine.state.state).toBe('awaiting');
    machine.answer(calls('b'), { stop: 'tool_use', usage: USAGE });
    const before = machine.effects.length;
    machine.finish('b', 'two');
    tree.settle(machine, before);
    expect(machine.state.state).toBe('idle');
    expect(machine.log).toContain('tool_response two');
    expect(machine.events('turn.failed')[0]?.error).toMatchObject({
      name: 'LimitError',
      code: 'limit',
      data: { limit: 'budget', value: 200, budget: 150, session: 's:1' },
    });
    expect(machine.state.exit).toMatchObject({ reason: 'failed' });
    expect(tree.root.state.children.get('s:1')?.exited).toBe('failed');
    expect(tree.root.log.join()).toContain('200 of the 150 tokens of its budget are used');
  });

  it('once used up, lets no further turn begin: the message is in the log, and its turn fails', () => {
    const { tree, machine } = child(100);
    const before = machine.effects.length;
    machine.answer('done', { usage: USAGE });
    tree.settle(machine, before);
    expect(machine.events('turn.failed')).toEqual([]);
    const called = machine.effects.filter(({ type }) => type === 'callModel').length;
    tree.send(machine, 'more');
    expect(machine.state).toMatchObject({ state: 'idle', mailbox: [] });
    expect(machine.log).toContain('user_message more');
    expect(machine.events('turn.failed')[0]?.error).toMatchObject({ code: 'limit', data: { limit: 'budget' } });
    expect(machine.effects.filter(({ type }) => type === 'callModel').length).toBe(called);
  });

  it('once used up, a call that spawns is answered with the reason, and creates nothing', () => {
    const { tree, machine } = child(100);
    machine.answer([{ type: 'tool_use', id: 'sp', name: 'spawn_subagent', input: {} }], {
      stop: 'tool_use',
      usage: USAGE,
    });
    tree.input(machine, { type: 'spawn', request: { replies: 'mailbox', task: 'deeper', callId: 'sp' } });
    expect(machine.log.join()).toContain('100 of the 100 tokens of its budget are used');
    expect(machine.state.children.size).toBe(0);
  });

  it('is passed on to descendants: shared, or narrower if a part of it is given', () => {
    const { tree, machine } = child(150);
    tree.input(machine, { type: 'spawn', request: { replies: 'mailbox', task: 'deeper' } });
    tree.input(machine, { type: 'spawn', request: { replies: 'mailbox', task: 'deeper', budget: 50 } });
    expect(tree.at('s:1:1').state.budget).toEqual({ isShared: true, below: 0 });
    expect(tree.at('s:1:2').state.budget).toEqual({ tokens: 50, isShared: true, below: 0 });
  });

  it('is in a snapshot of the state, with the tokens used', () => {
    const { machine } = child(150);
    machine.input({ type: 'childSpent', tokens: 30 });
    expect(usedOf(machine.state)).toBe(30);
    expect(restoreState(snapshotState(machine.state)).budget).toEqual({ tokens: 150, below: 30 });
  });

  it('that is the first of a session above others makes each of them join, once; more than may join are refused', () => {
    const { tree, machine } = child(150);
    tree.input(machine, { type: 'spawn', request: { replies: 'mailbox', task: 'deeper' } });
    const free = tree.spawn('dig freely');
    for (const tokens of [1_000, 500]) tree.input(tree.root, { type: 'setBudget', tokens });
    expect(tree.root.state.budget).toEqual({ tokens: 500, below: 0 });
    expect(free.state.budget).toEqual({ isShared: true, below: 0 });
    expect(machine.state.budget).toEqual({ tokens: 150, isShared: true, below: 0 });
    expect(tree.at('s:1:1').state.budget).toEqual({ isShared: true, below: 0 });
    for (const each of [free, machine]) {
      expect(each.records.filter(({ type }) => type === 'budgetShared').length).toBe(1);
    }
    // Without a limit the use is still counted, so that a later limit is as exact.
    tree.input(tree.root, { type: 'setBudget' });
    expect(tree.root.state.budget).toEqual({ below: 0 });
    const large = new Tree();
    for (let count = 0; count <= BUDGET_JOINS_MAX; count += 1) large.spawn('dig');
    large.input(large.root, { type: 'setBudget', tokens: 5 });
    expect(large.root.effect('refused')?.error).toMatchObject({ code: 'limit', data: { limit: 'budget' } });
    expect(large.root.state.budget).toBeUndefined();
  });

  it('does not affect a session without one', () => {
    const machine = new Machine(makeWorld(), 'x');
    machine.input({ type: 'childSpent', tokens: 30 });
    expect(machine.records).toEqual([]);
    expect(usedOf(machine.state)).toBe(0);
  });
});

it('every token counts: read from a cache, written to it, or neither', () => {
  expect(tokensOf({ ...USAGE, cache_creation_input_tokens: 7, cache_read_input_tokens: 5 })).toBe(112);
});

it("an ancestor's budget is checked as far as use is shared", () => {
  const states = new Map<string, SessionState>();
  const state = (id: string, parent: string | undefined, budget: SessionState['budget']): SessionState => {
    const made = { ...emptyState(id), parent, budget };
    states.set(id, made);
    return made;
  };
  state('r', undefined, { tokens: 10, below: 90 });
  state('r:1', 'r', { isShared: true, below: 0 });
  const shared = state('r:1:1', 'r:1', { tokens: 5, isShared: true, below: 0 });
  const own = state('r:1:2', 'r:1', { tokens: 5, below: 0 });
  const environment = { ...environmentOf(makeWorld()), stateOf: (id: string) => states.get(id) };
  expect(budgetError(shared, environment)?.data).toMatchObject({ session: 'r', value: 90, budget: 10 });
  expect(budgetError(own, environment)).toBeUndefined();
});
