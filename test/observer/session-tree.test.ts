/**
 * Goal: the tree of sessions is right in any order of arrival, and its counts are those of its nodes. Method: lists and
 * events made by hand, then random histories. After each history the counts are compared with a fresh count.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { viewEvent } from '../../src/events/viewed-event.ts';
import { OVERVIEW_MAX, overviewOf } from '../../src/observer/model/overview.ts';
import { type SessionNode, SessionTree } from '../../src/observer/model/session-tree.ts';
import { arrange, type TreeView } from '../../src/observer/model/tree-rows.ts';
import { markOf } from '../../src/observer/model/wording.ts';
import { type ListedSession, type ObservedEvent, readViewedEvent } from '../../src/observer/wire.ts';

const listed = (id: string, change: Partial<ListedSession> = {}): ListedSession => ({
  id,
  agent: 'writer',
  state: 'idle',
  mailbox: 0,
  updatedAt: 100,
  ...(id.includes(':') ? { parent: id.slice(0, id.lastIndexOf(':')) } : {}),
  ...change,
});

const VIEW: TreeView = { order: 'id', isReversed: false, filter: '', subset: 'all', open: new Set() };

const pending = (id: number): ObservedEvent & { type: 'pending.created' } => ({
  type: 'pending.created',
  session: 'a',
  at: 200,
  pending: { id, type: 'user_message', kind: 'active', content: 'hi', at: 200, source: { type: 'user' } },
});

const ids = (tree: SessionTree, view: Partial<TreeView> = {}): readonly string[] =>
  arrange(tree.roots, { ...VIEW, ...view }).map((row) => `${'  '.repeat(row.level - 1)}${row.node.id}`);

test('a child that waits for a place is shown as queued until it starts', () => {
  const tree = new SessionTree();
  const mark = (): string | undefined => {
    const node = tree.get('a:2');
    return node === undefined ? undefined : markOf(node);
  };
  for (const each of [listed('a'), listed('a:2', { status: 'queued' })]) tree.put(each);
  expect(mark()).toBe('queued');
  tree.apply({ type: 'session.state', session: 'a:2', at: 200, seq: 3, state: 'awaiting' });
  expect(mark()).toBe('model');
  tree.apply({ type: 'session.state', session: 'a:2', at: 300, seq: 5, state: 'idle' });
  expect(mark()).toBe('idle');
});

describe('T1: every session appears once in the tree', () => {
  test('children that arrive before their parent are moved below it', () => {
    const tree = new SessionTree();
    for (const id of ['a:2:1', 'a:2', 'b', 'a:1', 'a']) tree.put(listed(id));
    expect(ids(tree, { open: new Set(['a', 'a:2']) })).toEqual(['a', '  a:1', '  a:2', '    a:2:1', 'b']);
    expect(tree.get('a')?.below).toBe(3);
  });

  test('a child is in the tree from the first event of its parent that names it', () => {
    const tree = new SessionTree();
    tree.put(listed('a'));
    tree.apply({ type: 'child.spawned', session: 'a', at: 200, seq: 9, child: 'a:1', name: 'reader' });
    const child = tree.get('a')?.children[0];
    expect([child?.name, child?.agent]).toEqual(['reader', 'writer']);
  });

  test('a session missing from a complete list is removed, one created meanwhile stays', () => {
    const tree = new SessionTree();
    for (const id of ['a', 'a:1', 'b']) tree.put(listed(id));
    tree.beginListing();
    tree.put(listed('b'));
    tree.apply({ type: 'session.state', session: 'c', at: 900, seq: 1, state: 'awaiting' });
    tree.endListing();
    expect(ids(tree)).toEqual(['b', 'c']);
  });
});

test('T2, T5: counts and version match the nodes, after any events', () => {
  const names = ['a', 'a:1', 'a:2', 'a:1:1', 'b', 'b:1'];
  const step = fc.record({
    id: fc.constantFrom(...names),
    what: fc.constantFrom('put', 'awaiting', 'executing', 'idle', 'remove'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const tree = new SessionTree();
      for (const [index, { id, what }] of steps.entries()) {
        if (what === 'remove') tree.remove(id);
        else if (what === 'put') tree.put(listed(id, { updatedAt: index }));
        else {
          const state = what as 'awaiting' | 'executing' | 'idle';
          tree.apply({ type: 'session.state', session: id, at: index + 1_000, seq: index + 1, state });
        }
      }
      const all: SessionNode[] = [];
      const visit = (node: SessionNode): { below: number; busy: number } => {
        all.push(node);
        const sums = { below: 0, busy: 0 };
        for (const child of node.children) {
          expect(child.parent).toBe(node);
          const { below, busy } = visit(child);
          sums.below += below + 1;
          sums.busy += busy + (child.state === 'idle' ? 0 : 1);
        }
        expect([node.below, node.busyBelow]).toEqual([sums.below, sums.busy]);
        return sums;
      };
      tree.roots.forEach(visit);
      expect(all.length).toBe(tree.size);
      const of = (state: string): number => all.filter((node) => node.state === state).length;
      expect(tree.counts()).toEqual({
        all: all.length,
        idle: of('idle'),
        awaiting: of('awaiting'),
        executing: of('executing'),
      });
    }),
  );
});

test('T3: an event already contained in a list changes no mailbox depth', () => {
  const tree = new SessionTree();
  tree.put(listed('a', { mailbox: 1, updatedAt: 200 }));
  tree.apply(pending(1));
  expect(tree.get('a')?.mailbox).toBe(1);
  tree.apply({ ...pending(2), at: 201 });
  expect(tree.get('a')?.mailbox).toBe(2);
  tree.apply({ type: 'pending.removed', session: 'a', at: 202, seq: 3, pendingId: 1, reason: 'promoted' });
  expect(tree.get('a')?.mailbox).toBe(1);
});

test('T4: beyond the bound sessions are left out, and the tree says so', () => {
  const tree = new SessionTree(3);
  for (const id of ['a', 'b', 'c', 'd']) tree.put(listed(id));
  expect([tree.size, tree.isFull, tree.get('d')]).toEqual([3, true, undefined]);
});

describe('the rows', () => {
  const tree = new SessionTree();
  for (const id of ['a', 'a:1', 'a:2', 'a:10', 'b', 'c']) tree.put(listed(id));
  tree.put(listed('a:10', { mailbox: 7, name: 'late', state: 'executing' }));
  tree.put(listed('c', { mailbox: 3, updatedAt: 300, agent: 'reader' }));

  test('children are hidden until their parent is opened, and ordered by number', () => {
    expect(ids(tree)).toEqual(['a', 'b', 'c']);
    expect(ids(tree, { open: new Set(['a']) })).toEqual(['a', '  a:1', '  a:2', '  a:10', 'b', 'c']);
  });

  test('ordered by mailbox, a parent ranks by the deepest mailbox in its tree', () => {
    expect(ids(tree, { order: 'mailbox', open: new Set(['a']) })).toEqual([
      ...['a', '  a:10', '  a:1', '  a:2'],
      ...['c', 'b'],
    ]);
    expect(ids(tree, { order: 'mailbox', isReversed: true })).toEqual(['b', 'c', 'a']);
    expect(ids(tree, { order: 'age' })[0]).toBe('c');
  });

  test('a filter shows the matching sessions with all their ancestors', () => {
    expect(ids(tree, { filter: 'LATE' })).toEqual(['a', '  a:10']);
    expect(ids(tree, { filter: 'reader' })).toEqual(['c']);
    expect(ids(tree, { subset: 'busy' })).toEqual(['a', '  a:10']);
    expect(ids(tree, { subset: 'waiting', filter: 'c' })).toEqual(['c']);
    expect(ids(tree, { filter: 'nobody' })).toEqual([]);
  });

  test('positions and siblings are those of the visible rows', () => {
    const rows = arrange(tree.roots, { ...VIEW, open: new Set(['a']) });
    expect(rows.map(({ place, siblings, isOpen }) => [place, siblings, isOpen])).toEqual([
      ...[
        [1, 3, true],
        [1, 3, undefined],
        [2, 3, undefined],
        [3, 3, undefined],
      ],
      ...[
        [2, 3, undefined],
        [3, 3, undefined],
      ],
    ]);
  });
});

test('the overview names sessions that stopped and the deepest mailboxes, a few of each', () => {
  const tree = new SessionTree();
  for (let index = 1; index <= 20; index += 1) tree.put(listed(`m-${index}`, { mailbox: index }));
  for (const id of ['asks', 'broken', 'held']) tree.put(listed(id));
  tree.apply({ type: 'approval.required', session: 'asks', at: 300, toolUseId: 't', toolName: 'bash' });
  tree.apply({ type: 'session.state', session: 'held', at: 200, seq: 1, state: 'idle', phase: 'paused' });
  tree.setTrouble('broken', 'no such model');
  const { troubled, waiting } = overviewOf(tree.nodes());
  expect(troubled.first.map(({ id }) => id)).toEqual(['held', 'broken']);
  expect([waiting.count, waiting.first.length, waiting.first[0]?.id]).toEqual([20, OVERVIEW_MAX, 'm-20']);
});

test('a list alone says what needs a person, so that it is right after a reload', () => {
  const tree = new SessionTree();
  tree.put(listed('a', { status: 'failed', lastError: 'overloaded' }));
  tree.put(listed('b', { status: 'blocked' }));
  tree.put(listed('c', { status: 'paused' }));
  tree.put(listed('d', { state: 'executing', status: 'waiting' }));
  tree.put(listed('e', { status: 'idle' }));
  const { first } = overviewOf(tree.nodes()).troubled;
  expect(first.map(({ id, trouble }) => [id, trouble])).toEqual([
    ['a', 'overloaded'],
    ['b', 'blocked'],
    ['c', undefined],
  ]);
  expect(tree.get('d')).toMatchObject({ phase: 'approval' });
  // The next list finds them well again.
  for (const id of ['a', 'b', 'c']) tree.put(listed(id, { status: 'idle', updatedAt: 200 }));
  expect(overviewOf(tree.nodes()).troubled.count).toBe(0);
});

test('a session with dead letters is listed under Trouble, until they have left', () => {
  const tree = new SessionTree();
  tree.put(listed('a', { deadLetters: 1 }));
  tree.put(listed('b'));
  const troubled = (): readonly string[] => ids(tree, { subset: 'trouble' });
  expect(troubled()).toEqual(['a']);
  const error = { name: 'Error', code: 'internal', message: 'no' } as const;
  tree.apply({ type: 'dead_letter.created', session: 'b', at: 300, seq: 1, letter: 4, error });
  tree.apply({ type: 'dead_letter.removed', session: 'a', at: 300, seq: 1, letter: 3, reason: 'dropped' });
  expect(troubled()).toEqual(['b']);
  tree.put(listed('b', { updatedAt: 400 }));
  expect(troubled()).toEqual([]);
});

test('a session that asks is shown so, and an approval is shown before a question', () => {
  const tree = new SessionTree();
  tree.put(listed('a'));
  const call = { session: 'a', at: 300, toolUseId: 't', toolName: 'ask' } as const;
  tree.apply({ ...call, type: 'question.asked', asked: 'human' });
  expect(tree.get('a')?.phase).toBe('question');
  tree.apply({ ...call, type: 'approval.required' });
  tree.apply({ ...call, type: 'question.asked', asked: 'human' });
  expect(tree.get('a')?.phase).toBe('approval');
});

describe('T3: an event changes the depth of a list that was read before it', () => {
  const idle = (session: string, at: number): ObservedEvent => ({
    type: 'session.state',
    session,
    at,
    seq: at,
    state: 'idle',
  });

  test('a late list does not set a session back to working', () => {
    const tree = new SessionTree();
    tree.put(listed('a', { state: 'awaiting', mailbox: 1 }));
    tree.apply({ type: 'pending.removed', session: 'a', at: 190, seq: 6, pendingId: 1, reason: 'promoted' });
    tree.apply(idle('a', 200));
    tree.put(listed('a', { state: 'awaiting', mailbox: 1, updatedAt: 150 }));
    tree.describe({ ...listed('a', { state: 'awaiting', updatedAt: 150 }), seq: 3, children: [], phase: 'retrying' });
    expect(tree.get('a')).toMatchObject({ state: 'idle', mailbox: 0, phase: undefined, updatedAt: 200 });
    expect(tree.counts()).toMatchObject({ awaiting: 0, idle: 1 });
    // A newer list replaces what the events said, as after a gap.
    tree.put(listed('a', { state: 'executing', mailbox: 2, updatedAt: 201 }));
    expect(tree.get('a')).toMatchObject({ state: 'executing', mailbox: 2 });
  });

  test('nor does a late list set back a child that was created while it was read', () => {
    const tree = new SessionTree();
    tree.put(listed('a'));
    tree.apply({ type: 'child.spawned', session: 'a', at: 200, seq: 9, child: 'a:1', name: 'reader' });
    tree.apply({ ...pending(1), session: 'a:1', seq: 1 });
    tree.apply({ type: 'pending.removed', session: 'a:1', at: 210, seq: 3, pendingId: 1, reason: 'promoted' });
    tree.apply(idle('a:1', 300));
    tree.put(listed('a:1', { state: 'awaiting', mailbox: 1, updatedAt: 200 }));
    expect(tree.get('a:1')).toMatchObject({ state: 'idle', mailbox: 0 });
    expect(tree.get('a')?.busyBelow).toBe(0);
  });

  test('events alone do not complete the tree: the first list is trusted', () => {
    const tree = new SessionTree();
    tree.apply(idle('a', 200));
    tree.put(listed('a', { mailbox: 3, updatedAt: 150 }));
    expect(tree.get('a')?.mailbox).toBe(3);
  });
});

test('F021: a basic stream, which has no content, gives the same tree as whole events', () => {
  const usage = { input_tokens: 3, output_tokens: 4 };
  const error = { name: 'ModelError', code: 'model_overloaded', message: 'no room', data: { status: 529 } } as const;
  const events: readonly ObservedEvent[] = [
    pending(1),
    pending(2),
    { type: 'session.state', session: 'a', at: 201, seq: 3, state: 'awaiting' },
    { type: 'pending.removed', session: 'a', at: 202, seq: 4, pendingId: 1, reason: 'promoted' },
    { type: 'session.name', session: 'a', at: 203, seq: 5, name: 'Talk' },
    { type: 'turn.finished', session: 'a', at: 204, seq: 6, turn: 'turn-1', reason: 'end_turn', usage },
    { type: 'turn.failed', session: 'a', at: 205, seq: 7, turn: 'turn-2', error },
    { type: 'child.spawned', session: 'a', at: 206, seq: 8, child: 'a:1', name: 'reader' },
    { type: 'child.exited', session: 'a', at: 207, seq: 9, child: 'a:1', name: 'reader', reason: 'failed' },
    { type: 'approval.required', session: 'a', at: 208, seq: 10, toolUseId: 't', toolName: 'bash', input: { a: 1 } },
  ];
  const [viewed, whole] = [new SessionTree(), new SessionTree()];
  for (const tree of [viewed, whole]) tree.put(listed('a'));
  for (const event of events) {
    whole.apply(event);
    const read = readViewedEvent(JSON.stringify(viewEvent(event, 'basic')));
    if (read !== undefined) viewed.apply(read);
  }
  for (const id of ['a', 'a:1']) {
    const facts = ({ mailbox, name, state, phase, trouble, ended, updatedAt }: SessionNode): object => ({
      ...{ mailbox, name, state, phase, trouble, ended, updatedAt },
    });
    expect([viewed.get(id)].flatMap((node) => (node === undefined ? [] : [facts(node)]))).toEqual(
      [whole.get(id)].flatMap((node) => (node === undefined ? [] : [facts(node)])),
    );
  }
  expect(viewed.get('a')).toMatchObject({ mailbox: 1, name: 'Talk', trouble: 'no room', phase: 'approval' });
  expect(viewed.get('a:1')?.ended).toBe('failed');
});
