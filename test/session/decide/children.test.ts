import { describe, expect, it } from 'vitest';
import { checkNickname } from '../../../src/base/ids.ts';
import { systemPrompt } from '../../../src/context/system-prompt.ts';
import { mentionedNames } from '../../../src/session/rules/mentions.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import {
  call,
  executingSession,
  FATAL,
  type Machine,
  startedSession,
  text,
  UNAUTHORIZED,
} from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

/** A tree of sessions; its root is in a round with one call that spawns. */
function spawningTree(): Tree {
  const tree = new Tree();
  tree.root.send('go');
  tree.answer(tree.root, [call('sp', 'spawn_subagent')]);
  return tree;
}

/** A child in a round that marks its goal, with a sibling call still running. */
function markingChild(tree: Tree, siblings: Readonly<Record<string, string>> = {}): Machine {
  const child = tree.spawn('dig');
  tree.answer(child, [
    call('m', 'mark_goal_completed'),
    ...Object.entries(siblings).map(([id, name]) => call(id, name)),
  ]);
  tree.input(child, { type: 'markGoal', callId: 'm', result: 'gold' });
  return child;
}

describe('spawning', () => {
  it('F105 A6: link and birth are one transition: the child has parent, goal, pinned task and an entry', () => {
    const tree = new Tree();
    const child = tree.spawn('dig here', { name: 'digger' });
    expect(tree.root.state.children.get('s:1')).toEqual({ id: 's:1', name: 'digger', replies: 'mailbox' });
    expect(child.state).toMatchObject({ id: 's:1', parent: 's', depth: 1, agent: 'main', name: 'digger' });
    expect(child.state.goal).toEqual({ description: 'dig here', completed: false });
    expect(child.state.messages[0]).toMatchObject({ type: 'user_message', content: 'dig here', pinned: true });
    expect(child.turns).toHaveLength(1);
    expect(tree.root.events('child.spawned')).toEqual([{ type: 'child.spawned', child: 's:1', name: 'digger' }]);
  });

  it('F113: the child starts by itself', () => {
    const child = new Tree().spawn('dig');
    expect(child.state.state).toBe('awaiting');
    expect(child.allOf('callModel')).toHaveLength(1);
  });

  it('F112 Δ28: the task is in the log once, and its entry is that message', () => {
    const child = new Tree().spawn('dig here');
    expect(child.log).toEqual(['user_message dig here']);
    expect(child.state.mailbox).toEqual([]);
    expect(child.state.receipts.get(1)).toEqual({ status: 'promoted', turn: 1, messageSeq: 1 });
  });

  it('F112: a failure never removes the task', () => {
    const tree = new Tree();
    const child = tree.spawn('dig here');
    tree.fail(child, FATAL);
    expect(child.log[0]).toBe('user_message dig here');
    expect(child.events('bounce_back')).toEqual([]);
  });

  it.each([
    ['a blank task', { task: ' ' }, 'Task cannot be blank'],
    ['an unknown tool', { task: 'dig', tools: ['read_file', 'shovel'] }, 'Unknown tool: shovel'],
    ['an unknown agent', { task: 'dig', agent: 'nobody' }, 'Unknown agent: nobody'],
    ['a bad name', { task: 'dig', name: 'No Good' }, 'Invalid format'],
  ])('F106 F109: %s is refused and creates nothing', (_what, request, message) => {
    const byProgram = new Tree();
    byProgram.root.spawn(request);
    expect(byProgram.root.effect('refused')?.error.message).toContain(message);
    const byModel = spawningTree();
    byModel.root.spawn({ ...request, callId: 'sp' });
    expect(byModel.root.log.at(-1)).toContain(message);
    expect(byModel.root.state.messages.at(-1)?.success).toBe(false);
    for (const tree of [byProgram, byModel]) {
      expect(tree.root.effect('born')).toBeUndefined();
      expect(tree.root.state.children.size).toBe(0);
    }
  });

  it('F107 F77: grants ignore case, hold each tool once, and only shrink', () => {
    const tree = new Tree({ limits: { depth: 2 } });
    const child = tree.spawn('dig', { tools: ['Read_File', 'read_file', 'BASH'] });
    expect(child.state.grants).toEqual(['read_file', 'bash']);
    tree.input(child, {
      type: 'spawn',
      request: { replies: 'mailbox', task: 'deeper', tools: ['read_file', 'charge'] },
    });
    expect(tree.at('s:1:1').state.grants).toEqual(['read_file']);
    tree.input(child, { type: 'spawn', request: { replies: 'mailbox', task: 'deeper' } });
    expect(tree.at('s:1:2').state.grants).toEqual(['read_file', 'bash']);
  });

  it('F107: without a list a child has all tools of the agent, with an empty list none', () => {
    const tree = new Tree();
    expect(tree.spawn('dig').state.grants).toBeUndefined();
    expect(tree.spawn('think', { tools: [] }).state.grants).toEqual([]);
  });

  it('F108: the confirmation has name and session, and no @name', () => {
    const tree = spawningTree();
    tree.input(tree.root, {
      type: 'spawn',
      request: { replies: 'mailbox', task: 'dig', name: 'digger', callId: 'sp' },
    });
    const confirmation = tree.root.state.messages.find(
      (message) => message.toolUseId === 'sp' && message.type === 'tool_response',
    );
    expect(confirmation?.content).toMatch(/^Sub-agent digger spawned \(session s:1\)/);
    expect(mentionedNames(String(confirmation?.content)).size).toBe(0);
    expect(tree.at('s:1').state.spawnCallId).toBe('sp');
    expect(tree.root.state.state).toBe('awaiting');
  });

  it('F109: a specialist is named by a model and created with its own agent', () => {
    const tree = spawningTree();
    const request = { replies: 'mailbox', task: 'dig', agent: 'researcher', specialist: true, callId: 'sp' } as const;
    tree.input(tree.root, { type: 'spawn', request });
    expect(tree.root.log.at(-1)).toContain('Specialist agent-1');
    expect(tree.at('s:1').state.agent).toBe('researcher');
  });

  it('F110: names are words joined by hyphens, at most 30 characters, and unique among the siblings', () => {
    const none = new Set<string>();
    for (const bad of [
      'two words',
      '-x',
      'x-',
      'a'.repeat(31),
      ' ',
      'ümlaut',
      '1st',
      'mneme',
      'melete',
      'melete-spy',
    ]) {
      expect(checkNickname(bad, none)).toHaveProperty('error');
    }
    expect(checkNickname(' Digger-2 ', none)).toEqual({ name: 'digger-2' });
    const tree = new Tree();
    tree.spawn('dig', { name: 'digger' });
    tree.root.spawn({ task: 'dig', name: 'Digger' });
    expect(tree.root.effect('refused')?.error).toMatchObject({ code: 'invalid_name' });
    const other = new Tree();
    expect(other.spawn('dig', { name: 'digger' }).state.name).toBe('digger');
  });

  it('Δ29 F111: without a name it is agent-N, unique, and the prompt names it without @', () => {
    const tree = new Tree();
    tree.spawn('one', { name: 'agent-2' });
    const second = tree.spawn('two');
    expect(second.state.name).toBe('agent-3');
    expect(systemPrompt(second.state, undefined)).toContain('You are agent-3, a sub-agent');
    expect(systemPrompt(second.state, undefined)).not.toContain('@');
  });

  it('F134: the prompt of a child has its task until the goal is done', () => {
    const tree = new Tree();
    const child = tree.spawn('dig here');
    expect(systemPrompt(child.state, 'Answer briefly.')).toMatch(
      /^Answer briefly\.\n\nYou are agent-1[\s\S]*Your Task\n=+\ndig here/,
    );
    tree.answer(child, [call('m', 'mark_goal_completed')]);
    tree.input(child, { type: 'markGoal', callId: 'm', result: 'gold' });
    expect(systemPrompt(child.state, 'Answer briefly.')).not.toContain('Your Task');
  });

  it('Δ27, G35: at most maxActive children work at once; later ones wait, by a model as by a program', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    tree.root.send('go');
    tree.answer(tree.root, [call('x', 'spawn_subagent'), call('y', 'spawn_subagent')]);
    for (const callId of ['x', 'y'])
      tree.input(tree.root, { type: 'spawn', request: { replies: 'mailbox', task: 'dig', callId } });
    const responses = tree.root.log.filter((line) => line.startsWith('tool_response'));
    expect(responses[0]).not.toContain('It starts when');
    expect(responses[1]).toContain('It starts when one of the others has finished.');
    const third = tree.spawn('by program');
    const [first, second] = [tree.at('s:1'), tree.at('s:2')];
    expect([first, second, third].map(({ state }) => state.state)).toEqual(['awaiting', 'idle', 'idle']);
    expect(third.state.queued).toBe(true);
    // In the order of their spawning, one for each that ends.
    tree.answer(first, 'done');
    expect([second, third].map(({ state }) => state.state)).toEqual(['awaiting', 'idle']);
    tree.answer(second, 'done');
    expect([second, third].map(({ state }) => state.state)).toEqual(['idle', 'awaiting']);
    expect(tree.root.state.childrenAtWork).toBe(1);
    expect(tree.root.state.childQueue.size).toBe(0);
  });

  it('G35: a child that waits for a place reads its messages after its task', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    const first = tree.spawn('dig');
    const second = tree.spawn('fill');
    second.send('with sand');
    second.input({ type: 'wake' });
    expect(second.log).toEqual(['user_message fill']);
    tree.answer(first, 'done');
    tree.answer(second, 'filled');
    expect(second.log.slice(0, 3)).toEqual(['user_message fill', 'agent_message filled', 'user_message with sand']);
  });

  it('G35: an interrupt cancels the children that wait for a place; none of them starts', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    tree.root.send('go');
    const first = tree.spawn('dig');
    const waiting = [tree.spawn('fill'), tree.spawn('rake')];
    tree.input(tree.root, { type: 'interrupt' });
    tree.input(first, { type: 'interrupt' });
    for (const child of waiting) {
      expect(child.state).toMatchObject({ queued: false, state: 'idle', mailbox: [], exit: { reason: 'cancelled' } });
      expect(child.allOf('callModel')).toEqual([]);
    }
    expect(tree.root.state.childrenAtWork).toBe(0);
  });

  it('G35: a child that is removed gives its place, or its turn in the line, to the next', () => {
    const tree = new Tree({ maxActiveChildren: 1 });
    const [, second, third] = [tree.spawn('a'), tree.spawn('b'), tree.spawn('c')];
    tree.input(tree.root, { type: 'childExited', child: 's:2', reason: 'cancelled' });
    expect([second?.state.state, third?.state.state]).toEqual(['idle', 'idle']);
    tree.input(tree.root, { type: 'childExited', child: 's:1', reason: 'cancelled' });
    expect([second?.state.state, third?.state.state]).toEqual(['idle', 'awaiting']);
  });

  it('A9, G35: limits.spawnsWaiting bounds the line; a refused spawn creates nothing', () => {
    const tree = new Tree({ maxActiveChildren: 1, limits: { spawnsWaiting: 1 } });
    tree.spawn('a');
    tree.spawn('b');
    tree.root.spawn({ task: 'c' });
    expect(tree.root.effect('refused')?.error).toMatchObject({
      code: 'limit',
      data: { limit: 'spawnsWaiting', value: 1 },
    });
    expect(tree.root.state.children.size).toBe(2);
  });

  it('G35: a snapshot knows who works and who waits', () => {
    const tree = new Tree({ maxActiveChildren: 2 });
    for (const task of ['a', 'b', 'c', 'd']) tree.spawn(task);
    tree.answer(tree.at('s:1'), 'done');
    const { childrenAtWork, childQueue } = restoreState(snapshotState(tree.root.state));
    expect([childrenAtWork, [...childQueue]]).toEqual([2, ['s:4']]);
  });

  it('decision 5: depth is bounded; by default children do not spawn', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    child.spawn({ task: 'deeper' });
    expect(child.effect('refused')?.error).toMatchObject({ code: 'limit', data: { limit: 'depth' } });
  });

  it('A9: limits.children bounds the children that a parent may ever have', () => {
    const tree = new Tree({ limits: { children: 1 } });
    tree.answer(tree.spawn('dig'), 'done');
    tree.root.spawn({ task: 'more' });
    expect(tree.root.effect('refused')?.error).toMatchObject({ code: 'limit', data: { limit: 'children' } });
  });

  it('a spawn with a known key re-attaches; with other content it is refused', () => {
    const tree = new Tree();
    tree.spawn('dig', { key: 'k', fingerprint: 'f' });
    tree.root.spawn({ task: 'dig', key: 'k', fingerprint: 'f' });
    expect(tree.root.last).toEqual([{ type: 'spawned', child: 's:1', name: 'agent-1', duplicate: true }]);
    tree.root.spawn({ task: 'dig', key: 'k', fingerprint: 'g' });
    expect(tree.root.effect('refused')?.error.code).toBe('key_reused');
    tree.spawn('fill', { key: 'bare' });
    tree.root.spawn({ task: 'fill', key: 'bare' });
    expect(tree.root.effect('spawned')).toMatchObject({ child: 's:2', duplicate: true });
  });

  it('an id already used by the embedder is skipped', () => {
    const tree = new Tree();
    tree.root.world.taken.add('s:1').add('s:2');
    expect(tree.spawn('dig').state.id).toBe('s:3');
    expect(tree.spawn('dig').state.id).toBe('s:4');
  });

  it('A5: a spawn for a call that was interrupted creates nothing', () => {
    const tree = spawningTree();
    tree.input(tree.root, { type: 'interrupt' });
    tree.root.spawn({ task: 'dig', callId: 'sp' });
    expect(tree.root.last).toEqual([{ type: 'stale', what: 'spawn call' }]);
    expect(tree.root.state.children.size).toBe(0);
  });
});

describe('messages between parent and child', () => {
  it('F114: the text of a child becomes a delivery at its parent, unchanged, and wakes the parent', () => {
    const tree = new Tree();
    const child = tree.spawn('dig', { name: 'digger' });
    tree.answer(child, [text('found @gold'), call('a', 'bash')]);
    expect(tree.root.state.messages).toMatchObject([
      { type: 'tool_call', toolName: 'from_digger', toolUseId: 'from_digger_1', input: { from: 'digger' } },
      { type: 'tool_response', content: 'found @gold', source: { type: 'subagent', name: 'digger' } },
    ]);
    expect(tree.root.state.state).toBe('awaiting');
    tree.input(child, { type: 'toolFinished', callId: 'a', content: 'x', success: true });
    tree.answer(child, 'all done');
    expect(tree.root.waiting).toEqual(['all done']);
  });

  it('F114: blank text is not delivered', () => {
    const tree = new Tree();
    tree.answer(tree.spawn('dig'), [call('a', 'bash')]);
    expect(tree.root.state.nextPendingId).toBe(1);
  });

  it('F116: a reply to a busy parent rides with the closing half-step, after the responses', () => {
    const tree = new Tree();
    const child = tree.spawn('dig', { name: 'digger' });
    tree.root.send('go');
    tree.answer(tree.root, [call('a', 'bash'), call('b', 'bash')]);
    tree.input(tree.root, { type: 'toolFinished', callId: 'a', content: 'of a', success: true });
    tree.answer(child, 'found');
    expect(tree.root.state.state).toBe('executing');
    tree.input(tree.root, { type: 'toolFinished', callId: 'b', content: 'of b', success: true });
    expect(tree.root.log.slice(-4)).toEqual([
      ...['tool_response of a', 'tool_response of b'],
      ...['tool_call [sub-agent digger]: found', 'tool_response found'],
    ]);
  });

  it('F115: a text that mentions children with @ reaches each of them, attributed; unknown names reach none', () => {
    const tree = new Tree();
    const children = ['one', 'two', 'three'].map((name) => tree.spawn('dig', { name }));
    for (const child of children) tree.answer(child, 'ready');
    while (tree.root.state.state === 'awaiting') tree.answer(tree.root, 'ok');
    tree.root.send('go');
    tree.answer(tree.root, '@one and @two, not @four: stop, @one');
    expect(children.map((child) => child.log.at(-1))).toEqual([
      ...['user_message [from parent]: @one and @two, not @four: stop, @one'],
      ...['user_message [from parent]: @one and @two, not @four: stop, @one', 'agent_message ready'],
    ]);
    expect(children[0]?.state.state).toBe('awaiting');
  });

  it('Δ31: names inside code and addresses are not mentions', () => {
    const prose =
      'mail me@one or a.b+c@two; `@three`, ``x ` @four``\n```\n@five\n```\n~~~ts\n@six\n~~~\n(@seven) @eight-x.';
    expect([...mentionedNames(prose)]).toEqual(['seven', 'eight-x']);
    expect([...mentionedNames('```\n@one')]).toEqual([]);
    expect([...mentionedNames('one ` tick and @two')]).toEqual(['two']);
  });

  it('Δ31: a long run of backticks is read in linear time', () => {
    const runs = `a ${'`'.repeat(200_000)} @one`;
    expect([...mentionedNames(runs)]).toEqual(['one']);
  });

  it("a child whose replies go to the handle puts nothing into its parent's mailbox", () => {
    const tree = new Tree();
    tree.answer(tree.spawn('dig', { replies: 'handle' }), 'found');
    expect(tree.root.state.nextPendingId).toBe(1);
    expect(tree.root.events('child.exited')).toEqual([
      { type: 'child.exited', child: 's:1', name: 'agent-1', reason: 'completed' },
    ]);
  });

  it('R23: a message from a session that is not a child is dropped', () => {
    const machine = startedSession();
    expect(machine.input({ type: 'subagentSaid', child: 'x:9', content: 'hi' })).toEqual({ records: [], effects: [] });
    expect(machine.input({ type: 'childExited', child: 'x:9', reason: 'failed' })).toEqual({
      records: [],
      effects: [],
    });
  });

  it('Δ33: replies that waited are delivered in one half-step', () => {
    const tree = new Tree();
    const children = ['one', 'two', 'three'].map((name) => tree.spawn('dig', { name }));
    tree.root.send('go');
    for (const child of children) tree.answer(child, `from ${child.state.name}`);
    tree.answer(tree.root, 'ok');
    expect(tree.root.log.filter((line) => line.startsWith('tool_response'))).toEqual([
      ...['tool_response from one', 'tool_response from two', 'tool_response from three'],
    ]);
    expect(tree.root.allOf('callModel')).toHaveLength(2);
  });
});

describe('the end of a child', () => {
  it('a child that becomes idle without waiting entries has finished, and its last text is its reply', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    tree.answer(child, 'found');
    expect(child.state.exit).toEqual({ reason: 'completed', reply: 'found' });
    expect(tree.root.state.children.get('s:1')?.exited).toBe('completed');
  });

  it('a child with waiting entries has not finished', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    child.send('also here');
    tree.answer(child, 'found');
    expect(child.state.exit).toBeUndefined();
    tree.answer(child, 'nothing there');
    expect(child.state.exit).toMatchObject({ reply: 'nothing there' });
  });

  it('the first end counts, and the child can still be addressed', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    tree.answer(child, 'first');
    tree.send(child, 'once more');
    tree.answer(child, 'second');
    expect(child.state.exit).toMatchObject({ reply: 'first' });
    expect(tree.root.events('child.exited')).toHaveLength(1);
    expect(tree.root.waiting).toEqual(['second']);
  });

  it('F117: marking completes the goal, releases the pin and delivers the result', () => {
    const tree = new Tree();
    const child = markingChild(tree);
    expect(child.state.goal).toEqual({ description: 'dig', completed: true });
    expect(child.state.messages.some((message) => message.pinned === true)).toBe(false);
    expect(tree.root.log.at(-1)).toBe('tool_response gold');
    expect(child.state.exit).toEqual({ reason: 'completed', reply: 'gold' });
  });

  it('F118 Δ32: after marking, no further model call is made for that round', () => {
    const tree = new Tree();
    const child = markingChild(tree, { b: 'bash' });
    child.send('while you are there');
    expect(child.state.state).toBe('executing');
    tree.input(child, { type: 'toolFinished', callId: 'b', content: 'x', success: true });
    expect(child.events('turn.finished')[0]).toMatchObject({ turn: 'turn-1', reason: 'completed' });
    expect(child.log.slice(-2)).toEqual(['tool_response x', 'user_message while you are there']);
    expect(child.state.turn).toMatchObject({ id: 2, marked: false });
  });

  it('F118: after marking, a child without waiting entries is idle, and its round is closed', () => {
    const child = markingChild(new Tree());
    expect(child.state).toMatchObject({ state: 'idle', mailbox: [] });
    expect(child.allOf('callModel')).toHaveLength(1);
    expect(child.state.messages.at(-1)).toMatchObject({ type: 'tool_response', toolUseId: 'm', success: true });
  });

  it('Δ32: a child that marks its goal with the last call it may make has completed, not failed', () => {
    const tree = new Tree();
    tree.root.world.toolRounds = 1;
    const child = markingChild(tree);
    expect(child.events('turn.finished')).toMatchObject([{ reason: 'completed' }]);
    expect(child.events('turn.failed')).toEqual([]);
  });

  it('F117: a blank result and a second mark are refused, and the model continues', () => {
    const tree = new Tree();
    const child = tree.spawn('dig');
    tree.answer(child, [call('m', 'mark_goal_completed')]);
    tree.input(child, { type: 'markGoal', callId: 'm', result: ' ' });
    expect(child.log.at(-1)).toContain('Result cannot be blank');
    expect(child.state.state).toBe('awaiting');
    tree.answer(child, [call('n', 'mark_goal_completed'), call('o', 'mark_goal_completed')]);
    tree.input(child, { type: 'markGoal', callId: 'n', result: 'gold' });
    tree.input(child, { type: 'markGoal', callId: 'o', result: 'gold' });
    expect(child.log.at(-1)).toContain('No active goal found');
  });

  it('F117: a session without a goal cannot mark one', () => {
    const machine = executingSession({ m: 'mark_goal_completed' });
    machine.input({ type: 'markGoal', callId: 'm', result: 'gold' });
    expect(machine.log.at(-1)).toContain('No active goal found');
    machine.input({ type: 'markGoal', callId: 'm', result: 'gold' });
    expect(machine.last).toEqual([{ type: 'stale', what: 'mark call' }]);
  });

  it.each([FATAL, UNAUTHORIZED])(
    'F120 Δ11: the failure of a child reaches its parent as an entry and as the end of the child (%o)',
    (error) => {
      const tree = new Tree();
      const child = tree.spawn('dig', { name: 'digger' });
      tree.fail(child, error);
      expect(tree.root.log.at(-1)).toContain(error.message);
      expect(tree.root.state.messages[0]?.toolName).toBe('from_digger');
      expect(child.state.exit).toEqual({ reason: 'failed', reply: '', error });
      expect(tree.root.state.children.get('s:1')?.exited).toBe('failed');
    },
  );

  it('I6: spawned children are done, failed, cancelled or working', () => {
    const tree = new Tree();
    const [done, failed, cancelled] = [tree.spawn('a'), tree.spawn('b'), tree.spawn('c')];
    tree.spawn('d');
    tree.answer(done, 'ok');
    tree.fail(failed, FATAL);
    tree.input(cancelled, { type: 'interrupt' });
    const ends = [...tree.root.state.children.values()].map((child) => child.exited);
    expect(ends).toEqual(['completed', 'failed', 'cancelled', undefined]);
  });
});
