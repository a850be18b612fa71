/**
 * Goal: goals keep to two levels, cascade and release as specified. A pinned message is shown again once it has left
 * the window, and never before. A replay of the log gives the same goals.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Goal, GoalChange } from '../../../src/base/goals.ts';
import { checkRequest, fatalOf } from '../../../src/context/legality/legality.ts';
import { prefixOf, renderMessages } from '../../../src/context/render.ts';
import type { RenderedMessage } from '../../../src/context/request-draft.ts';
import { RequestWindow } from '../../../src/context/request-window.ts';
import { systemPrompt } from '../../../src/context/system-prompt.ts';
import { bookOf, goalsOf } from '../../../src/session/rules/goals.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { call, type Machine, Machine as SessionMachine, startedSession } from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

const PLAIN = { timestamps: false, deliveriesAsText: false };

function change(machine: Machine, asked: GoalChange): Goal {
  machine.input({ type: 'goal', change: asked });
  const refused = machine.effect('refused');
  if (refused !== undefined) throw new Error(refused.error.message);
  return machine.effect('result')?.value as Goal;
}

function create(machine: Machine, description: string, parentId?: number): number {
  return change(machine, { action: 'create', description, ...(parentId === undefined ? {} : { parentId }) }).id;
}

function refusal(machine: Machine, asked: GoalChange): string {
  const before = snapshotState(machine.state);
  machine.input({ type: 'goal', change: asked });
  expect(snapshotState(machine.state)).toBe(before);
  return machine.effect('refused')?.error.message ?? '';
}

function request(machine: Machine): readonly RenderedMessage[] {
  const { state } = machine;
  return renderMessages(state.messages, PLAIN, true, state.thoughtFloor, prefixOf(state));
}

/** The violations that the Messages API would find in the request with a user message added at the end. */
function illegal(machine: Machine): readonly unknown[] {
  const rendered = request(machine);
  const messages = rendered.at(-1)?.role === 'user' ? rendered : [...rendered, { role: 'user', content: 'next' }];
  return fatalOf(checkRequest({ model: 'claude-opus-4-6', max_tokens: 10, messages, tools: TOOL }));
}

/** The text of the context prefix in the request, if the request has one. */
function prefixText(machine: Machine): string | undefined {
  const [opening, call, answer] = request(machine);
  const [use] = Array.isArray(call?.content) ? call.content : [];
  if (opening?.role !== 'user' || use?.type !== 'tool_use' || !use.id.startsWith('goal_snapshot_')) return undefined;
  expect(use).toEqual({
    type: 'tool_use',
    id: `goal_snapshot_${machine.state.id.replace(':', '_')}`,
    name: 'from_melete_goal',
    input: {},
  });
  const [result] = Array.isArray(answer?.content) ? answer.content : [];
  return result?.type === 'tool_result' && result.tool_use_id === use.id ? String(result.content) : undefined;
}

/** Runs one turn: a message with this content and a short answer. */
function turn(machine: Machine, content: string, tree?: Tree): void {
  if (tree === undefined) machine.send(content);
  else tree.send(machine, content);
  if (tree === undefined) machine.answer('ok');
  else tree.answer(machine, 'ok');
}

/** Runs turns until a message has left the window. */
function evict(machine: Machine, tree?: Tree): void {
  const { floor } = machine.state;
  for (let count = 0; machine.state.floor === floor; count += 1) {
    if (count > 100) throw new Error('nothing leaves the window');
    turn(machine, `filler ${count} ${'x'.repeat(400)}`, tree);
  }
}

const SMALL = { tokenBudget: 1_000 } as const;

describe('goals', () => {
  it('F129: a part of a part is refused, and so is a parent goal of another session', () => {
    const machine = startedSession();
    const root = create(machine, 'ship it');
    const part = create(machine, 'test it', root);
    expect(refusal(machine, { action: 'create', description: 'deeper', parentId: part })).toBe(
      'Goals cannot nest deeper than two levels',
    );
    expect(refusal(machine, { action: 'create', description: 'elsewhere', parentId: 99 })).toContain(
      'must belong to the same session',
    );
    expect(goalsOf(machine.state)).toEqual([
      {
        id: root,
        description: 'ship it',
        status: 'active',
        subGoals: [{ id: part, description: 'test it', status: 'active' }],
      },
    ]);
  });

  it('F130: completing a goal completes its parts; parts completed earlier keep their time', () => {
    const machine = startedSession();
    const root = create(machine, 'ship it');
    const early = create(machine, 'write', root);
    const late = create(machine, 'test', root);
    const other = create(machine, 'rest');
    change(machine, { action: 'complete', id: early });
    const first = machine.world.now;
    machine.world.now += 60_000;
    expect(change(machine, { action: 'complete', id: root })).toEqual({
      id: root,
      description: 'ship it',
      status: 'completed',
      subGoals: [
        { id: early, description: 'write', status: 'completed' },
        { id: late, description: 'test', status: 'completed' },
      ],
    });
    const times = new Map(bookOf(machine.state).goals.map((goal) => [goal.id, goal.completedAt]));
    expect([times.get(early), times.get(late), times.get(root), times.get(other)]).toEqual([
      first,
      machine.world.now,
      machine.world.now,
      undefined,
    ]);
    expect(refusal(machine, { action: 'complete', id: root })).toBe(`Goal already completed: ${root}`);
    expect(refusal(machine, { action: 'update', id: late, description: 'no' })).toBe(`Goal already completed: ${late}`);
  });

  it('F131: a pin is kept as long as one of its goals is open', () => {
    const machine = startedSession({ sent: 'remember this' });
    machine.answer('I will');
    const a = create(machine, 'a');
    const b = create(machine, 'b');
    change(machine, { action: 'attach', messages: [1, 2], goals: [a] });
    change(machine, { action: 'attach', messages: [1], goals: [b] });
    change(machine, { action: 'complete', id: a });
    expect(bookOf(machine.state).pins.map(({ seq, text }) => ({ seq, text }))).toEqual([
      { seq: 1, text: 'remember this' },
    ]);
    expect(machine.waiting.at(-1)).toBe('Goal completed: a (id: 1) (released 1 orphaned pin)');
    change(machine, { action: 'complete', id: b });
    expect(bookOf(machine.state).pins).toEqual([]);
  });

  it('an attachment succeeds or fails as a whole, and the error names everything that is wrong', () => {
    const machine = startedSession({ sent: 'one' });
    const open = create(machine, 'open');
    const done = create(machine, 'done');
    change(machine, { action: 'complete', id: done });
    expect(refusal(machine, { action: 'attach', messages: [1, 77], goals: [open, done, 9] })).toBe(
      'Messages not found: 77; Goals already completed: 2; Goals not found: 9',
    );
    expect(refusal(machine, { action: 'attach', messages: [], goals: [] })).toBe(
      'messages cannot be empty; goals cannot be empty',
    );
    expect(change(machine, { action: 'attach', messages: [1], goals: [open] })).toEqual({ links: 1 });
    expect(change(machine, { action: 'attach', messages: [1], goals: [open] })).toEqual({ links: 1 });
    expect(bookOf(machine.state).pins).toHaveLength(1);
  });

  it('each change is published to readers, and reaches the model in an entry that rides the next half-step', () => {
    const machine = startedSession();
    const id = create(machine, 'ship it');
    change(machine, { action: 'update', id, description: 'ship it well' });
    expect(machine.events('goals.updated').map((event) => event.goals[0]?.description)).toEqual([
      'ship it',
      'ship it well',
    ]);
    expect(machine.waiting).toEqual(['Goal created: ship it (id: 1)', 'Goal updated: ship it well (id: 1)']);
    expect(machine.state.state).toBe('idle');
    machine.send('go');
    expect(machine.log).toContain('tool_response Goal created: ship it (id: 1)');
    expect(illegal(machine)).toEqual([]);
  });

  it('blank, long and too many descriptions are refused', () => {
    const machine = startedSession();
    expect(refusal(machine, { action: 'create', description: '  ' })).toContain('blank');
    expect(refusal(machine, { action: 'create', description: 'x'.repeat(1_001) })).toContain('1000');
    for (let count = 0; count < 64; count += 1) create(machine, `goal ${count}`);
    expect(refusal(machine, { action: 'create', description: 'one more' })).toContain('Too many open goals');
  });

  it('old completed goals are forgotten, open ones never', () => {
    const machine = startedSession({ limits: { mailbox: 10_000 } });
    const kept = create(machine, 'kept');
    for (let count = 0; count < 270; count += 1) {
      change(machine, { action: 'complete', id: create(machine, `short ${count}`) });
    }
    const known = goalsOf(machine.state);
    expect(known.length).toBeLessThanOrEqual(256);
    expect(known[0]?.id).toBe(kept);
    expect(known.at(-1)?.description).toBe('short 269');
  });

  it('F133: goals do not change the system prompt', () => {
    const machine = startedSession({ sent: 'go' });
    const before = systemPrompt(machine.state, 'Be brief.');
    const { epoch } = machine.state;
    change(machine, { action: 'complete', id: create(machine, 'ship it') });
    expect(systemPrompt(machine.state, 'Be brief.')).toBe(before);
    expect(machine.state.epoch).toBe(epoch);
  });
});

const TOOL = [{ name: 'bash', description: 'b', input_schema: { type: 'object' as const } }];

describe('the context prefix', () => {
  it('F088: there is no prefix while everything is in the window', () => {
    const machine = startedSession(SMALL);
    create(machine, 'ship it');
    turn(machine, 'hello');
    expect(prefixText(machine)).toBeUndefined();
  });

  it('F088: there is no prefix if no goal is open', () => {
    const machine = startedSession(SMALL);
    change(machine, { action: 'complete', id: create(machine, 'ship it') });
    evict(machine);
    expect(prefixText(machine)).toBeUndefined();
  });

  it('F089: once a message has left the window, the open goals stand before the window', () => {
    const machine = startedSession(SMALL);
    const root = create(machine, 'ship it');
    change(machine, { action: 'complete', id: create(machine, 'write', root) });
    create(machine, 'test', root);
    change(machine, { action: 'complete', id: create(machine, 'gone') });
    evict(machine);
    expect(prefixText(machine)).toBe('Current Goals\n=============\n\n### ship it\n- [x] write\n- [ ] test');
    expect(illegal(machine)).toEqual([]);
  });

  it('F089: a first goal added after an eviction is shown as well, and completing the last goal removes the prefix', () => {
    const machine = startedSession(SMALL);
    evict(machine);
    expect(prefixText(machine)).toBeUndefined();
    const id = create(machine, 'late');
    expect(prefixText(machine)).toContain('### late');
    change(machine, { action: 'complete', id });
    expect(prefixText(machine)).toBeUndefined();
  });

  it('F090: a pin under a second goal is shown as its number only', () => {
    const machine = startedSession(SMALL);
    turn(machine, 'the key is under the mat');
    const a = create(machine, 'a');
    const b = create(machine, 'b');
    change(machine, { action: 'attach', messages: [1], goals: [a, b] });
    evict(machine);
    expect(prefixText(machine)).toBe(
      'Current Goals\n=============\n\n### a\n\n  📌 message 1: the key is under the mat\n\n### b\n\n  📌 message 1',
    );
  });

  it('Δ26: pins of a part are shown under its goal; above the budget the newest stay', () => {
    const machine = startedSession(SMALL);
    turn(machine, `old ${'a'.repeat(190)}`);
    turn(machine, `new ${'b'.repeat(190)}`);
    const root = create(machine, 'root');
    const part = create(machine, 'part', root);
    change(machine, { action: 'attach', messages: [1, 3], goals: [part] });
    evict(machine);
    // 5 % of 1,000 tokens have room for one pin of 49.
    expect(prefixText(machine)).toContain('message 3: new');
    expect(prefixText(machine)).not.toContain('message 1');
  });

  it('F091: a child is shown its task again once the task has left the window', () => {
    const tree = new Tree();
    const child = tree.spawn('dig here');
    child.world.tokenBudget = 1_000;
    tree.answer(child, 'starting');
    evict(child, tree);
    expect(child.log).not.toContain('user_message dig here');
    expect(prefixText(child)).toBe('Current Goals\n=============\n\n### dig here\n\n  📌 message 1: dig here');
    expect(child.state.goal).toEqual({ description: 'dig here', completed: false });
  });

  it('F091: a child that starts again has its task once', () => {
    const tree = new Tree();
    const child = tree.spawn('dig here');
    child.world.tokenBudget = 1_000;
    for (let round = 1; child.state.floor === 1; round += 1) {
      expect(round).toBeLessThan(100);
      child.answer([call(`c${round}`, 'bash')]);
      child.finish(`c${round}`, 'x'.repeat(400));
    }
    expect(prefixText(child)).toContain('message 1: dig here');
    child.input({ type: 'restart', reason: 'test' });
    expect(JSON.stringify(request(child)).split('dig here').length - 1).toBe(2);
    expect(prefixText(child)).toBe('Current Goals\n=============\n\n### dig here');
  });

  it('A8: within an epoch an earlier request stays a prefix of the next, however goals change', () => {
    const machine = startedSession(SMALL);
    create(machine, 'ship it');
    evict(machine);
    const window = new RequestWindow(PLAIN);
    machine.send('next');
    const before = window.next(machine.state);
    machine.answer('ok');
    const { epoch } = machine.state;
    create(machine, 'another');
    machine.send('and next');
    const after = window.next(machine.state);
    expect(machine.state.epoch).toBe(epoch);
    expect(after.all().slice(0, before.all().length)).toEqual(before.all());
    expect(after.all()).toEqual(request(machine));
  });
});

describe('the log', () => {
  it('A10: any sequence of goal changes folds to the same state, from log and snapshot, and renders legally (property)', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('create' as const),
        text: fc.string({ maxLength: 20 }),
        parent: fc.option(fc.nat(8)),
      }),
      fc.record({ do: fc.constant('complete' as const), id: fc.nat(8) }),
      fc.record({ do: fc.constant('update' as const), id: fc.nat(8), text: fc.string({ maxLength: 20 }) }),
      fc.record({ do: fc.constant('attach' as const), message: fc.nat(12), id: fc.nat(8) }),
      fc.record({ do: fc.constant('turn' as const), length: fc.nat(2_000) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const machine = startedSession(SMALL);
        for (const each of steps) {
          if (each.do === 'turn') turn(machine, `t ${'y'.repeat(each.length)}`);
          else machine.input({ type: 'goal', change: asked(each) });
          const book = bookOf(machine.state);
          const open = new Set(book.goals.filter((goal) => goal.completedAt === undefined).map((goal) => goal.id));
          for (const goal of book.goals) {
            if (goal.parentId !== undefined && open.has(goal.id)) expect(open.has(goal.parentId)).toBe(true);
          }
          for (const pin of book.pins) expect(pin.goals.some((id) => open.has(id))).toBe(true);
          expect(illegal(machine)).toEqual([]);
        }
        const replayed = SessionMachine.replayed(machine.world, machine.state.id, machine.turns);
        expect(snapshotState(replayed.state)).toBe(snapshotState(machine.state));
        expect(replayed.seen.events).toEqual(machine.seen.events);
        expect(snapshotState(restoreState(snapshotState(machine.state)))).toBe(snapshotState(machine.state));
      }),
      { numRuns: 60 },
    );
  });
});

type Step =
  | { readonly do: 'create'; readonly text: string; readonly parent: number | null }
  | { readonly do: 'complete'; readonly id: number }
  | { readonly do: 'update'; readonly id: number; readonly text: string }
  | { readonly do: 'attach'; readonly message: number; readonly id: number };

function asked(step: Step): GoalChange {
  switch (step.do) {
    case 'create':
      return { action: 'create', description: step.text, ...(step.parent === null ? {} : { parentId: step.parent }) };
    case 'complete':
      return { action: 'complete', id: step.id };
    case 'update':
      return { action: 'update', id: step.id, description: step.text };
    case 'attach':
      return { action: 'attach', messages: [step.message], goals: [step.id] };
  }
}
