/**
 * Questions of the model to a person and to a parent, and of a server in a call of its tool. One table has everything
 * that can happen to a call that waits: for an approval, for a person's answer, for a parent's answer.
 */
import { describe, expect, it } from 'vitest';
import { isRunning } from '../../../actors/session-actor.ts';
import { ELICITATIONS_MAX } from '../../../src/base/bounds.ts';
import { explain } from '../../../src/session/explain.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { callsAtWork } from '../../../src/session/rules/healing.ts';
import { approvalsExpireAt } from '../../../src/session/rules/run-loop.ts';
import { INTERRUPT_NOTICE, OUTCOME_UNKNOWN, outcomeUnknown } from '../../../src/session/rules/tool-texts.ts';
import { waitingCalls } from '../../../src/session/rules/waiting-calls.ts';
import type { AnswerForm } from '../../../src/session/state/answer-form.ts';
import type { ToolFacts } from '../../../src/session/state/inputs.ts';
import { refolded, reopened, throughSnapshot } from '../../support/reopen.ts';
import {
  call,
  environmentOf,
  type Machine,
  startedSession,
  TOOLS,
  type WorldOptions,
} from '../../support/session-kit.ts';
import { Tree } from '../../support/session-tree.ts';

const FORM: AnswerForm = {
  key: 'age',
  schema: { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] },
};
const asks = (asked: 'human' | 'parent', form?: AnswerForm): ToolFacts => ({
  effect: 'keyed',
  timeoutMs: 1_000,
  adjustableTimeout: false,
  isRuntimeTool: true,
  asks: form === undefined ? { asked } : { asked, form },
});
const ASK_TOOLS: Readonly<Record<string, ToolFacts>> = {
  ...TOOLS,
  ask_human: asks('human'),
  ask_age: asks('human', FORM),
  ask_parent: asks('parent'),
  ask_parent_age: asks('parent', FORM),
};
const WORLD: WorldOptions = {
  agent: {
    holdsCalls: true,
    approval: new Set(['bash']),
    tool: (name) => (Object.hasOwn(ASK_TOOLS, name) ? ASK_TOOLS[name] : undefined),
  },
};
const HUMAN: WorldOptions = { agent: { ...WORLD.agent, holdsCalls: false } };
const QUESTION = { question: 'How old?' };

function asking(name: string, options: WorldOptions = HUMAN): Machine {
  const machine = startedSession({ ...options, sent: 'go' });
  machine.answer([call('q', name, QUESTION)]);
  return machine;
}

/** A child that waits for its parent; the parent is idle. */
function askingChild(
  name = 'ask_parent',
  options: WorldOptions = HUMAN,
  replies?: 'handle',
): { tree: Tree; child: Machine } {
  const tree = new Tree(options);
  const child = tree.spawn('dig', { name: 'scout', ...(replies === undefined ? {} : { replies }) });
  tree.answer(child, [call('q', name, QUESTION)]);
  return { tree, child };
}

function reply(machine: Machine, value: unknown, callId = 'q', fingerprint = JSON.stringify(value)): unknown {
  machine.input({ type: 'answer', callId, reply: { value: value as string, fingerprint } });
  return machine.effect('result')?.value ?? machine.effect('refused')?.error;
}

/** The server asks in the call `q` of this tool, whose run ends with that. */
function elicit(machine: Machine, state = 'state 1'): void {
  const elicitation = { server: 's', key: 'age', state };
  machine.input({ type: 'ask', callId: 'q', asked: 'human', question: 'How old?', form: FORM, elicitation });
}

function elicited(name = 'charge'): Machine {
  const machine = startedSession({ ...HUMAN, sent: 'go' });
  machine.answer([call('q', name)]);
  elicit(machine);
  return machine;
}

function decline(machine: Machine, reason?: string): unknown {
  machine.input({
    type: 'answer',
    callId: 'q',
    reply: { declined: true, ...(reason === undefined ? {} : { reason }) },
  });
  return machine.effect('result')?.value;
}

const lastResult = (machine: Machine): unknown =>
  [...machine.state.mailbox, ...machine.state.messages].find(
    ({ toolUseId, type }) => toolUseId === 'q' && type === 'tool_response',
  )?.content;

describe('a question to a person', () => {
  it('waits in the transition of the answer that asks it, and is published with its form', () => {
    const machine = asking('ask_age');
    expect(machine.turns.at(-1)?.records.map(({ type }) => type)).toEqual(['responded', 'asked']);
    expect(machine.events('question.asked')).toEqual([
      {
        type: 'question.asked',
        toolUseId: 'q',
        toolName: 'ask_age',
        asked: 'human',
        question: 'How old?',
        schema: FORM.schema,
      },
    ]);
    expect(machine.events('session.state').at(-1)).toMatchObject({ state: 'executing', phase: 'question' });
    expect(waitingCalls(machine.state)).toEqual([
      {
        callId: 'q',
        toolName: 'ask_age',
        kind: 'question',
        input: QUESTION,
        question: 'How old?',
        schema: FORM.schema,
        asked: 'human',
        at: machine.world.now,
      },
    ]);
    expect(machine.allOf('runTool')).toEqual([]);
    expect(isRunning(machine.state)).toBe(false);
    expect(explain(machine.state, { now: 0, isQueued: false })).toEqual({
      reason: 'waiting_for_answer',
      detail: 'answer() answers: ask_age (q)',
    });
  });

  it('a text is the result as it is, a value as JSON; the run continues', () => {
    const texts = asking('ask_human');
    expect(reply(texts, 'forty')).toBe(true);
    expect(texts.log.at(-1)).toBe('tool_response forty');
    expect(texts.state.state).toBe('awaiting');
    const values = asking('ask_age');
    expect(reply(values, { age: 40 })).toBe(true);
    expect(values.log.at(-1)).toBe('tool_response {"age":40}');
  });

  it.each([
    ['ask_age', { age: 'forty' }, '$.age'],
    ['ask_age', 'forty', '$'],
    ['ask_human', { age: 40 }, '$'],
    ['ask_human', '  ', '$'],
  ])('%s refuses %j: the error names where and what to do, and the question still waits', (name, value, path) => {
    const machine = asking(name);
    const { eventSeq } = machine.state;
    expect(reply(machine, value)).toMatchObject({
      name: 'ContentError',
      code: 'content',
      data: { issues: [{ path }] },
    });
    expect(machine.effect('refused')?.error.message).toMatch(/decline\(\); the question still waits/);
    expect(machine.state.eventSeq).toBe(eventSeq);
    expect(waitingCalls(machine.state)).toHaveLength(1);
  });

  it('a repeated answer gets the same reply, another one false; a declined question is a failure of the call', () => {
    const machine = asking('ask_human');
    expect(reply(machine, 'forty')).toBe(true);
    expect([reply(machine, 'forty'), reply(machine, 'fifty'), decline(machine)]).toEqual([true, false, false]);
    const other = asking('ask_human');
    expect(decline(other, 'private')).toBe(true);
    expect(other.log.at(-1)).toBe('tool_response Not answered: your human declined to answer: private.');
    expect([decline(other), reply(other, 'forty')]).toEqual([true, false]);
  });

  it('approve on a question and an answer to an approval name the right method, before and after the decision', () => {
    const machine = asking('ask_human');
    const approve = (): unknown => {
      machine.input({ type: 'approve', callId: 'q', allow: true });
      return machine.effect('refused')?.error;
    };
    const wrong = { code: 'invalid_argument', message: expect.stringContaining('session.answer(callId, value)') };
    expect(approve()).toMatchObject(wrong);
    reply(machine, 'forty');
    expect(approve()).toMatchObject(wrong);
    const held = asking('bash', WORLD);
    const toApprove = { code: 'invalid_argument', message: expect.stringContaining('session.approve(callId') };
    expect(reply(held, 'yes')).toMatchObject(toApprove);
    held.input({ type: 'approve', callId: 'q', allow: true });
    expect(reply(held, 'yes')).toMatchObject(toApprove);
  });

  it.each([
    [{}, 'question cannot be blank'],
    [{ question: ' ' }, 'question cannot be blank'],
    [{ question: 'x', choices: [1] }, 'choices must be an array of strings'],
    [{ question: 'x'.repeat(20_001) }, 'at most 20000 characters'],
    [{ question: 'x', choices: Array.from({ length: 51 }, () => 'y') }, 'at most 50 choices'],
  ])('input %# that asks nothing is answered at once', (input, why) => {
    const machine = startedSession({ ...HUMAN, sent: 'go' });
    machine.answer([call('q', 'ask_human', input)]);
    expect(machine.log.at(-1)).toContain(why);
    expect(waitingCalls(machine.state)).toEqual([]);
  });

  it('the form of the record decides, whatever the agent asks for after a restart', () => {
    const machine = asking('ask_age');
    machine.world.agent = { tool: () => undefined };
    const again = reopened(machine);
    expect(again.events('question.asked')).toHaveLength(1);
    expect(reply(again, { age: 'old' })).toMatchObject({ code: 'content' });
    expect(reply(again, { age: 4 })).toBe(true);
  });

  it('a question that needs an approval is asked once it is allowed; both kinds wait side by side', () => {
    const machine = startedSession({
      agent: { ...WORLD.agent, approval: new Set(['bash', 'ask_human']) },
      sent: 'go',
    });
    machine.answer([call('q', 'ask_human', QUESTION), call('b', 'bash'), call('p', 'ask_age', QUESTION)]);
    expect(waitingCalls(machine.state).map(({ callId, kind }) => [callId, kind])).toEqual([
      ['q', 'approval'],
      ['b', 'approval'],
      ['p', 'question'],
    ]);
    machine.input({ type: 'approve', callId: 'q', allow: true });
    expect(machine.events('question.asked').map(({ toolUseId }) => toolUseId)).toEqual(['p', 'q']);
    machine.input({ type: 'approve', callId: 'b', allow: true });
    expect(machine.events('session.state').at(-1)).toMatchObject({ phase: 'question' });
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('a denial ends the questions of the round as well', () => {
    const machine = startedSession({ ...WORLD, sent: 'go' });
    machine.answer([call('q', 'ask_human', QUESTION), call('b', 'bash')]);
    machine.input({ type: 'approve', callId: 'b', allow: false });
    expect(lastResult(machine)).toBe('Not answered: your human denied another call of this answer.');
    expect(machine.state.state).toBe('awaiting');
  });

  it('one that is asked later expires later', () => {
    const machine = startedSession({
      agent: {
        ...WORLD.agent,
        approvals: { expiresMs: 10_000, onInput: 'wait' },
        approval: new Set(['bash', 'ask_human']),
      },
      sent: 'go',
    });
    machine.answer([call('q', 'ask_human', QUESTION), call('b', 'bash')]);
    machine.world.now += 6_000;
    machine.input({ type: 'approve', callId: 'q', allow: true });
    machine.world.now += 6_000;
    machine.input({ type: 'approvalsExpired' });
    expect(waitingCalls(machine.state).map(({ callId }) => callId)).toEqual(['q']);
    expect(approvalsExpireAt(machine.state, 10_000)).toBe(machine.world.now + 4_000);
  });
});

describe('a question of a child to its parent', () => {
  it('reaches the parent as a subagent entry, and the next text with its name answers it', () => {
    const { tree, child } = askingChild();
    expect(tree.root.log.at(-1)).toContain('[question from scout] How old?');
    tree.answer(tree.root, 'I think @scout should know: forty.');
    expect(lastResult(child)).toBe('I think @scout should know: forty.');
    expect(child.log.some((line) => line.includes('[from parent]'))).toBe(false);
    expect(child.state.state).toBe('awaiting');
    tree.answer(tree.root, 'x');
    child.answer('thanks');
    tree.input(tree.root, { type: 'send', entry: { type: 'user_message', content: 'and' }, bytes: 3 });
    tree.answer(tree.root, '@scout more');
    expect(child.log.at(-1)).toBe('user_message [from parent]: @scout more');
  });

  it('with a form, a text that does not fit returns to the parent, a bounded number of times', () => {
    const { tree, child } = askingChild('ask_parent_age', { ...HUMAN, limits: { answerCorrections: 1 } });
    expect(tree.root.log.at(-1)).toContain(JSON.stringify(FORM.schema));
    tree.answer(tree.root, '@scout forty');
    expect(tree.root.log.at(-1)).toContain('Your answer does not fit its schema:\n$: the message has no JSON object');
    expect(waitingCalls(child.state)).toHaveLength(1);
    tree.answer(tree.root, '@scout {"age":"old"}');
    expect(lastResult(child)).toMatch(
      /^Not answered: the answers of the agent that gave you your task do not fit: \$\.age/,
    );
    expect(refolded(child).state).toEqual(child.state);
  });

  it('a JSON object in the text of the parent fits', () => {
    const { tree, child } = askingChild('ask_parent_age');
    tree.answer(tree.root, 'Yes @scout:\n```json\n{ "age": 40 }\n```\nGood luck.');
    expect(lastResult(child)).toBe('{"age":40}');
  });

  it('with replies to the handle, only the program is asked', () => {
    const { tree, child } = askingChild('ask_parent', HUMAN, 'handle');
    expect(tree.root.log).toEqual([]);
    expect(reply(child, 'forty')).toBe(true);
  });

  it('a session without a parent is answered at once', () => {
    const machine = asking('ask_parent');
    expect(machine.log.at(-1)).toContain('Not answered: there is no agent that gave you a task');
  });
});

describe('a question of a server in a call', () => {
  const OLD = { age: 40 };
  /** The runs of the call that have begun since the machine was made. */
  const runs = (machine: Machine): readonly unknown[] =>
    machine.allOf('runTool').map(({ callId, key, elicited: continued }) => [callId, key, continued?.response]);

  it('ends the run of the call, which waits; what the server needs to continue is not published', () => {
    const machine = elicited();
    expect(machine.turns.at(-1)?.records.map(({ type }) => type)).toEqual(['asked']);
    expect(machine.events('question.asked')).toEqual([
      {
        type: 'question.asked',
        toolUseId: 'q',
        toolName: 'charge',
        asked: 'human',
        question: 'How old?',
        schema: FORM.schema,
        server: 's',
      },
    ]);
    expect(machine.events('session.state').at(-1)).toMatchObject({ state: 'executing', phase: 'question' });
    expect(waitingCalls(machine.state)).toMatchObject([{ callId: 'q', kind: 'elicitation', server: 's' }]);
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toEqual([]);
    expect(isRunning(machine.state)).toBe(false);
    expect(explain(machine.state, { now: 0, isQueued: false })).toMatchObject({
      reason: 'waiting_for_answer',
      detail: 'answer() answers: charge (q)',
    });
  });

  it.each([
    ['answered', (machine: Machine) => reply(machine, OLD), { action: 'accept', content: OLD }],
    ['declined', (machine: Machine) => decline(machine, 'private'), { action: 'decline' }],
  ])('%s, the same call continues with its key, and its next result is that of the call', (_how, give, response) => {
    const machine = elicited();
    const [first] = runs(machine) as [string, string][];
    expect(give(machine)).toBe(true);
    const last = machine.allOf('runTool').at(-1);
    expect(last).toMatchObject({
      callId: 'q',
      key: first?.[1],
      mode: 'run',
      elicited: { server: 's', key: 'age', state: 'state 1', response, round: 1 },
    });
    expect(lastResult(machine)).toBeUndefined();
    expect(callsAtWork(machine.state, environmentOf(machine.world).agent)).toHaveLength(1);
    expect(give(machine)).toBe(true);
    expect(runs(machine)).toHaveLength(2);
    expect(refolded(machine).state).toEqual(machine.state);
    expect(throughSnapshot(machine)).toEqual(machine.state);
    machine.input({ type: 'toolFinished', callId: 'q', content: 'charged', success: true });
    expect(machine.log.at(-1)).toBe('tool_response charged');
    expect(machine.state.state).toBe('awaiting');
  });

  it('an answer that does not fit changes nothing', () => {
    const machine = elicited();
    expect(reply(machine, { age: 'old' })).toMatchObject({ code: 'content', data: { callId: 'q' } });
    expect(runs(machine)).toHaveLength(1);
    expect(waitingCalls(machine.state)).toHaveLength(1);
  });

  it('a further question has its number, so that an answer that is sent again does not answer it', () => {
    const machine = elicited();
    reply(machine, OLD);
    elicit(machine, 'state 2');
    expect(waitingCalls(machine.state)).toMatchObject([{ callId: 'q#2', kind: 'elicitation' }]);
    expect(machine.events('question.asked').at(-1)).toMatchObject({ toolUseId: 'q#2' });
    expect([reply(machine, OLD), reply(machine, { age: 41 }), decline(machine)]).toEqual([true, false, false]);
    expect(waitingCalls(machine.state)).toHaveLength(1);
    expect(reply(machine, { age: 'old' }, 'q#2')).toMatchObject({ data: { callId: 'q#2' } });
    expect(reply(machine, OLD, 'q#2')).toBe(true);
    expect(machine.allOf('runTool').at(-1)?.elicited).toMatchObject({ state: 'state 2', round: 2 });
    expect([reply(machine, OLD, 'q#2'), reply(machine, OLD, 'q#3')]).toEqual([true, false]);
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('a further question ends as the first does', () => {
    const machine = elicited();
    reply(machine, OLD);
    elicit(machine);
    machine.world.settings = { ...machine.world.settings, approvals: { expiresMs: 1, onInput: 'wait' } };
    machine.world.now += 1;
    machine.input({ type: 'approvalsExpired' });
    expect(lastResult(machine)).toMatch(/^Not answered: /);
    expect(reply(machine, OLD, 'q#2')).toBe(false);
    expect(refolded(machine).state).toEqual(machine.state);
  });

  it('the questions of one call are bounded', () => {
    const machine = elicited();
    for (let round = 1; round <= ELICITATIONS_MAX; round += 1) {
      expect(reply(machine, OLD, round === 1 ? 'q' : `q#${round}`)).toBe(true);
      elicit(machine);
    }
    expect(machine.events('question.asked')).toHaveLength(ELICITATIONS_MAX);
    expect(lastResult(machine)).toBe('the server has asked 10 questions in this call; it may ask no more');
  });

  it.each([
    ['charge', 'keyed'],
    ['read_file', 'pure'],
  ])('a crash after the answer: %s (%s) continues once more', (name) => {
    const machine = elicited(name);
    reply(machine, OLD);
    const again = reopened(machine);
    const continued = { response: { content: OLD }, state: 'state 1' };
    expect(again.last).toMatchObject([{ type: 'runTool', elicited: continued }]);
  });

  it('a crash after the answer: the outcome of a `once` call is unknown; before the answer it still waits', () => {
    const machine = reopened(elicited('bash'));
    expect(waitingCalls(machine.state)).toHaveLength(1);
    expect(reply(machine, OLD)).toBe(true);
    expect(lastResult(reopened(machine))).toBe(OUTCOME_UNKNOWN);
  });

  it('the answer starts nothing if the agent no longer has the tool', () => {
    const machine = elicited();
    machine.world.agent = { ...machine.world.agent, tool: () => undefined };
    expect(reply(machine, OLD)).toBe(true);
    expect(lastResult(machine)).toContain('Unknown tool: charge');
  });
});

const KINDS = {
  approval: () => asking('bash', WORLD),
  'question to a person': () => asking('ask_human'),
  'question of a server': () => elicited(),
  'question to a parent': () => askingChild().child,
} as const;
type Kind = keyof typeof KINDS;
const each = Object.keys(KINDS) as Kind[];
const isParents = (kind: Kind): boolean => kind === 'question to a parent';

describe.each(each)('whatever happens to a call that waits: %s', (kind) => {
  const made = (): Machine => KINDS[kind]();
  const isWaiting = (machine: Machine): boolean => waitingCalls(machine.state).length === 1;
  const late = (machine: Machine): unknown => {
    if (kind !== 'approval') return reply(machine, kind === 'question of a server' ? { age: 4 } : 'late');
    machine.input({ type: 'approve', callId: 'q', allow: true });
    return machine.effect('result')?.value;
  };
  const isFolded = (machine: Machine): void => {
    expect(refolded(machine).state).toEqual(machine.state);
    expect(throughSnapshot(machine)).toEqual(machine.state);
  };

  it('an interrupt answers it, and a late decision has no effect', () => {
    const machine = made();
    machine.input({ type: 'interrupt' });
    // A server asks in a call that has started.
    expect(lastResult(machine)).toBe(
      kind === 'question of a server' ? outcomeUnknown(INTERRUPT_NOTICE) : INTERRUPT_NOTICE,
    );
    expect(late(machine)).toBe(false);
    expect(machine.state.approvals).toMatchObject({ waiting: [] });
    expect(machine.state.approvals?.questions).toBeUndefined();
    isFolded(machine);
  });

  it('it expires at its time, not before, and is answered', () => {
    const machine = made();
    machine.world.settings = { ...machine.world.settings, approvals: { expiresMs: 60_000, onInput: 'wait' } };
    machine.world.now += 59_999;
    machine.input({ type: 'approvalsExpired' });
    expect(isWaiting(machine)).toBe(true);
    machine.world.now += 1;
    machine.input({ type: 'approvalsExpired' });
    expect(lastResult(machine)).toMatch(/^(Denied|Not answered): .*within 60 seconds\.$/);
    expect(machine.state.state).toBe('awaiting');
    expect(late(machine)).toBe(false);
    isFolded(machine);
  });

  it('the policy of the agent overrides the settings', () => {
    const machine = made();
    machine.world.settings = { ...machine.world.settings, approvals: { expiresMs: 1, onInput: 'wait' } };
    machine.world.agent = { ...machine.world.agent, approvals: { expiresMs: null, onInput: 'deny' } };
    machine.world.now += 1e9;
    machine.input({ type: 'approvalsExpired' });
    expect(isWaiting(machine)).toBe(true);
    machine.send('never mind');
    expect(isWaiting(machine)).toBe(false);
    expect(machine.state.state).toBe('awaiting');
  });

  it('a message of the user waits for it; a question to a parent ends', () => {
    const machine = made();
    machine.send('hello');
    expect(isWaiting(machine)).toBe(!isParents(kind));
    if (isParents(kind))
      expect(lastResult(machine)).toBe('Not answered: your human sent a message instead of answering.');
    isFolded(machine);
  });

  it('after a restart it waits without a new event, has no deadline, and is decided as before', () => {
    const machine = made();
    const events = machine.state.eventSeq;
    const again = reopened(machine);
    expect(again.last).toEqual([]);
    expect(again.state.eventSeq).toBe(events);
    expect(callsAtWork(again.state, environmentOf(again.world).agent)).toEqual([]);
    expect(again.input({ type: 'heal', callIds: ['q'] }).effects).toEqual([]);
    expect(late(again)).toBe(true);
    expect(reopened(again).events('question.asked').length).toBe(kind === 'approval' ? 0 : 1);
    isFolded(again);
  });

  it('an edit of the history that removes or changes the call ends it', () => {
    for (const change of ['remove', 'update'] as const) {
      const machine = made();
      const id = historyMessages(machine.state).at(-1)?.id ?? '';
      const name = machine.state.openCalls.get('q')?.name ?? '';
      const toolCalls = [{ callId: 'q', name, arguments: '{"question":"other"}' }];
      const request =
        change === 'remove' ? { operation: change, id } : { operation: change, id, attributes: { toolCalls } };
      machine.input({ type: 'edit', request });
      expect(late(machine)).toBe(false);
      expect(machine.state.approvals?.questions).toBeUndefined();
      isFolded(machine);
    }
  });

  it('a failure of the session above, or a restart of a child, ends it', () => {
    const machine = made();
    if (isParents(kind)) machine.input({ type: 'restart', reason: 'test' });
    else machine.input({ type: 'escalated', child: 's:9', error: { name: 'E', code: 'internal', message: 'x' } });
    expect(waitingCalls(machine.state)).toEqual([]);
    expect(late(machine)).toBe(false);
    isFolded(machine);
  });

  it('a fork does not have it', () => {
    const machine = made();
    machine.input({ type: 'fork', id: 'f' });
    const fork = machine.effect('forkBorn');
    expect(fork?.seed).not.toHaveProperty('approvals');
    expect(isWaiting(machine)).toBe(true);
  });

  it('it ends when the parent has ended, if it is a question to the parent', () => {
    const machine = made();
    machine.input({ type: 'parentEnded' });
    expect(isWaiting(machine)).toBe(!isParents(kind));
    if (isParents(kind))
      expect(lastResult(machine)).toContain('Not answered: the agent that gave you your task has ended');
    isFolded(machine);
  });
});
