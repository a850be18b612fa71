/**
 * Goal: the conversation holds each message once, even if it arrives twice, and each mode shows everything that the
 * previous mode shows.
 * Method: a real session, read by pages and by events, and messages of every kind made by hand.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type Message, type Pending, type Session, tool } from '../../src/index.ts';
import { Conversation } from '../../src/observer/model/conversation.ts';
import { previewOf, VIEW_MODES, viewMessage, viewPending } from '../../src/observer/model/message-view.ts';
import { type ObservedEvent, readDetail, readEvent } from '../../src/observer/wire.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { history, runtimeKit, uniqueName } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const clock = (at: number): string => `at ${at}`;

const message = (seq: number, change: Partial<Message> = {}): Message => ({
  seq,
  type: 'user_message',
  content: `text ${seq}`,
  at: seq,
  tokens: 3,
  ...change,
});
const created = (seq: number, number: number = seq): ObservedEvent => ({
  type: 'message.created',
  session: 's',
  at: seq,
  seq: number,
  message: message(seq),
});

test('C1: pages and events of a real session overlap, but each message is shown once', async () => {
  const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  const provider = scripted([{ text: 'Let me see.', toolUse: { name: 'look', input: {} } }, 'Done.']);
  const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [look] })] });
  const session = runtime.session(uniqueName());
  await session.ask('one');
  const messages = await session.messages();
  const events = await history(session);
  const conversation = new Conversation();
  conversation.addPage(messages.slice(0, 3));
  for (const event of [...events, ...events]) conversation.apply(event);
  expect(conversation.messages).toEqual(messages);
  expect(conversation.pending()).toEqual([]);
});

test('C1: earlier pages are inserted at the front, and the start of the log is recognised', () => {
  const conversation = new Conversation();
  conversation.addPage([message(5), message(6)]);
  expect(conversation.hasEarlier).toBe(true);
  conversation.addPage([1, 2, 3, 4, 5].map((seq) => message(seq)));
  expect([conversation.messages.map(({ seq }) => seq), conversation.hasEarlier]).toEqual([[1, 2, 3, 4, 5, 6], false]);
});

test('C2: beyond the bound the oldest messages are removed', () => {
  const conversation = new Conversation(100);
  for (let seq = 1; seq <= 500; seq += 1) conversation.apply(created(seq));
  expect(conversation.messages.length).toBeLessThanOrEqual(110);
  expect([conversation.messages.at(-1)?.seq, conversation.hasEarlier, conversation.hasRoom]).toEqual([
    500,
    true,
    false,
  ]);
});

test('C3: a streamed text is replaced by its final message', () => {
  const conversation = new Conversation();
  conversation.apply({ type: 'text.delta', session: 's', at: 1, text: 'Hel', turn: 't' });
  conversation.apply({ type: 'text.delta', session: 's', at: 1, text: 'lo', turn: 't' });
  expect(conversation.streamed.text).toBe('Hello');
  conversation.apply({
    ...created(1),
    message: message(1, { type: 'agent_message' }),
  } as ObservedEvent);
  expect(conversation.streamed.text).toBe('');
});

test('C5: a lost answer is shown until its model streams or answers again, or the next half-step begins', () => {
  const lost = { type: 'llm.lost', session: 's', at: 2, turn: 't', attempt: 1, text: 'Hel', thinking: 'hm' } as const;
  const state = { type: 'session.state', session: 's', at: 3, state: 'awaiting' } as const;
  const ends: readonly ObservedEvent[] = [
    { ...created(9), message: message(9, { type: 'agent_message' }) } as ObservedEvent,
    { ...state, seq: 9 },
  ];
  for (const end of ends) {
    const conversation = new Conversation();
    conversation.apply({ type: 'text.delta', session: 's', at: 1, text: 'He', turn: 't' });
    conversation.apply({ ...lost, seq: 1, reason: 'cancelled' });
    conversation.apply({ type: 'turn.finished', session: 's', at: 2, seq: 2, turn: 't', reason: 'cancelled' } as never);
    conversation.apply({ ...state, seq: 3, phase: 'retrying' });
    expect(conversation.streamed).toEqual({ text: 'Hel', thinking: 'hm', lost: 'cancelled' });
    conversation.apply(end);
    expect(conversation.streamed).toEqual({ text: '', thinking: '' });
  }
  const again = new Conversation();
  again.setDraft({ turn: 't', text: 'Hel', lost: 'restart' });
  expect(again.streamed).toMatchObject({ text: 'Hel', lost: 'restart' });
  again.apply({ type: 'text.delta', session: 's', at: 4, text: 'New', turn: 't' });
  expect(again.streamed).toEqual({ text: 'New', thinking: '' });
});

test('the detail of a session has its draft; a draft of another form is left out', () => {
  const listed = { id: 's', agent: 'a', state: 'awaiting', status: 'running', mailbox: 0, updatedAt: 1, seq: 4 };
  const draft = { turn: 'turn-1', text: 'Hel', thinking: 'hm', lost: 'restart' };
  expect(readDetail({ ...listed, draft }).draft).toEqual(draft);
  expect(readDetail({ ...listed, draft: { text: 5 } }).draft).toBeUndefined();
});

test('calls are shown as waiting for a person until they run, are answered, or their turn ends', () => {
  const conversation = new Conversation();
  const approval = {
    type: 'approval.required',
    session: 's',
    at: 1,
    seq: 1,
    toolUseId: 't',
    toolName: 'bash',
    input: {},
  } as const;
  const waits = { session: 's', callId: 't', toolName: 'bash', kind: 'approval', input: {}, at: 1 };
  conversation.apply(approval);
  expect(conversation.waiting()).toEqual([waits]);
  conversation.apply({
    type: 'tool.finished',
    session: 's',
    at: 2,
    seq: 2,
    toolUseId: 't',
    toolName: 'bash',
    success: true,
  });
  expect(conversation.waiting()).toEqual([]);
  conversation.apply(approval);
  conversation.apply({ type: 'tool.started', session: 's', at: 3, seq: 3, toolUseId: 't', toolName: 'bash' });
  expect(conversation.waiting()).toEqual([]);
  conversation.apply(approval);
  conversation.apply({ type: 'session.state', session: 's', at: 4, seq: 4, state: 'executing', phase: 'approval' });
  expect(conversation.waiting()).toEqual([waits]);
  conversation.apply({ type: 'session.state', session: 's', at: 5, seq: 5, state: 'idle' });
  expect(conversation.waiting()).toEqual([]);
});

test('a question is a waiting call with its text, schema and choices; one that was read before its events stays', () => {
  const schema = { type: 'object' };
  const asked = { session: 's', callId: 'q', toolName: 'ask', kind: 'question', input: {}, question: 'Why?', at: 1 };
  const event = { type: 'question.asked', session: 's', at: 1, toolUseId: 'q', toolName: 'ask' } as const;
  const conversation = new Conversation();
  conversation.setWaiting([{ ...asked, schema, server: 'files' }]);
  expect(conversation.waiting()).toEqual([{ ...asked, schema, server: 'files' }]);
  // The events of an earlier turn are replayed after the queue was read.
  conversation.apply({ type: 'session.state', session: 's', at: 0, seq: 1, state: 'idle' });
  conversation.apply({ ...event, seq: 2, asked: 'human', question: 'Why?', choices: ['a', 'b'] });
  expect(conversation.waiting()).toEqual([{ ...asked, choices: ['a', 'b'] }]);
  const finished = { type: 'tool.finished', toolUseId: 'q', toolName: 'ask', success: true } as const;
  conversation.apply({ ...finished, session: 's', at: 3, seq: 3 });
  expect(conversation.waiting()).toEqual([]);
});

describe('the modes', () => {
  const call = message(2, {
    type: 'tool_call',
    toolName: 'bash',
    toolUseId: 't',
    input: { command: 'ls' },
    content: '[bash]',
  });
  const answer = message(3, {
    type: 'tool_response',
    toolName: 'bash',
    toolUseId: 't',
    content: 'a\nb\nc\nd',
    success: false,
  });
  const cases: readonly Message[] = [
    message(1),
    call,
    answer,
    message(4, { type: 'agent_message', content: [{ type: 'thinking', thinking: 'hm', signature: 'x' }] }),
    message(5, { type: 'system_message', content: 'noted' }),
    message(6, { source: { type: 'subagent', name: 'ann' } }),
    message(7, { type: 'tool_call', toolName: 'think', input: { thoughts: 'aloud!', visibility: 'aloud' } }),
    message(8, { type: 'tool_call', toolName: 'think', input: { thoughts: 'within' } }),
  ];
  const shown = (mode: (typeof VIEW_MODES)[number]): readonly (string | undefined)[] =>
    cases.map((each) => viewMessage(each, mode, clock)?.body);

  test('show the messages, then the actions, then everything', () => {
    expect(shown('basic')).toEqual([
      ...['text 1', undefined, undefined, undefined],
      ...[undefined, 'text 6', 'aloud!', undefined],
    ]);
    expect(shown('verbose')).toEqual([
      ...['text 1', '$ ls', 'a\nb\nc\n…', '[thinking]\nhm'],
      ...['noted', 'text 6', 'aloud!', 'within'],
    ]);
    expect(shown('debug').slice(1, 3)).toEqual(['{\n  "command": "ls"\n}', 'a\nb\nc\nd']);
  });

  test('each mode shows everything of the mode before, at least in small print', () => {
    for (const each of cases) {
      const facts = VIEW_MODES.map((mode) => viewMessage(each, mode, clock)?.facts.length ?? -1);
      expect(facts).toEqual([...facts].sort((a, b) => a - b));
    }
    expect(viewMessage(answer, 'debug', clock)).toMatchObject({
      facts: ['at 3', '#3', '3 tokens', 't'],
      isFailed: true,
    });
  });

  test('entries of the mailbox are marked as waiting', () => {
    const entry: Pending = {
      id: 1,
      type: 'subagent',
      kind: 'active',
      content: 'a\nb\nc\nd',
      at: 1,
      source: { type: 'subagent', name: 'ann' },
    };
    expect(viewPending(entry, 'basic', clock)).toBeUndefined();
    expect(viewPending(entry, 'verbose', clock)).toMatchObject({
      speaker: 'sub-agent',
      title: 'ann',
      body: 'a\nb\nc\n…',
      isPending: true,
    });
    expect(viewPending({ ...entry, type: 'user_message', deliver: 'steer' }, 'basic', clock)?.facts).toEqual([
      'deliver steer',
    ]);
  });

  test('a call is described in one line', () => {
    expect(previewOf('web_get', { url: 'http://x' })).toBe('GET http://x');
    expect(previewOf('read_file', { path: 'a.ts', lines: 3 })).toBe('a.ts');
    expect(previewOf('add', { a: 1, b: [2] })).toBe('a: 1, b: [2]');
    expect(previewOf('add', {})).toBe('(no input)');
  });
});

describe('C4: a message removed from the history disappears, a hidden one stays and is marked', () => {
  /** A session of three turns, as a page that was open from the start shows it. */
  async function watched(change: (session: Session) => Promise<unknown>): Promise<{
    readonly conversation: Conversation;
    readonly messages: readonly Message[];
    readonly shown: ReadonlySet<number>;
  }> {
    const runtime = await kit.open({ provider: scripted(['eins', 'zwei', 'drei', 'vier']) });
    const session = runtime.session(uniqueName());
    for (const said of ['one', 'two', 'three']) await session.ask(said);
    await change(session);
    const conversation = new Conversation();
    // Parsed as on the wire: members that the page does not know are dropped.
    for (const event of await history(session)) {
      const read = readEvent(JSON.stringify(event));
      if (read !== undefined) conversation.apply(read);
    }
    const messages = await session.messages();
    const shown = new Set((await session.viewport()).map(({ seq }) => seq));
    return { conversation, messages, shown };
  }

  const visible = (conversation: Conversation): readonly number[] =>
    conversation.messages.map(({ seq }) => seq).filter((seq) => !conversation.isHidden(seq));

  test.each([
    ['an edit of several', (session: Session) => session.history.truncateFrom(2)],
    ['all of it replaced', (session: Session) => session.history.set([{ role: 'user', content: 'anew' }])],
    [
      'a message removed',
      async (session: Session) => session.history.remove({ id: (await session.history.messages())[0]?.id ?? '' }),
    ],
    ['a turn taken back', (session: Session) => session.history.undo()],
    [
      'a turn taken back and another begun',
      async (session: Session) => {
        await session.history.undo();
        await session.ask('instead');
      },
    ],
    [
      'a turn taken back and come to again',
      async (session: Session) => {
        await session.history.undo();
        await session.history.switchTo(3);
      },
    ],
  ])('%s', async (_what, change) => {
    const { conversation, messages, shown } = await watched(change);
    expect(conversation.messages).toEqual(messages);
    expect(visible(conversation)).toEqual(messages.map(({ seq }) => seq).filter((seq) => shown.has(seq)));
  });

  test('a summary replaces the messages it sums up', () => {
    const conversation = new Conversation();
    conversation.addPage([1, 2, 3, 4].map((seq) => message(seq)));
    const event = { type: 'compaction.applied', session: 's', at: 9, seq: 9, number: 1, level: 1 } as const;
    conversation.apply({ ...event, archived: [1, 2, 3], created: [message(5)] });
    expect(conversation.messages.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
    expect(visible(conversation)).toEqual([4, 5]);
  });

  test('events older than the pages add marks, but no messages', () => {
    const conversation = new Conversation();
    conversation.addPage([message(3), message(4)]);
    conversation.setSeen(20);
    const event = { type: 'history.changed', session: 's', at: 9, seq: 9, operation: 'undo', updated: [] } as const;
    conversation.apply({ ...event, removed: [4], created: [message(2)] });
    expect(conversation.messages.map(({ seq }) => seq)).toEqual([3, 4]);
    expect([conversation.isHidden(4), conversation.hasEarlier]).toEqual([true, true]);
  });

  test('an event with an invalid list of messages is dropped', () => {
    const event = {
      type: 'history.changed',
      session: 's',
      at: 1,
      operation: 'set',
      removed: [],
      created: [],
      updated: [],
    };
    expect(readEvent(JSON.stringify(event))).toEqual(event);
    expect(readEvent(JSON.stringify({ ...event, created: [{ seq: 1 }] }))).toBeUndefined();
    expect(readEvent(JSON.stringify({ ...event, removed: 3 }))).toBeUndefined();
  });
});
