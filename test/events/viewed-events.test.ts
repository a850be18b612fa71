/**
 * Goal: an event of `basic` or `verbose` holds raw content only in `rendered` (F021). Method: one sample of every kind
 * of event, with a marker in each of its texts and a member that no table knows.
 */
import { describe, expect, test } from 'vitest';
import type { Message, Pending } from '../../src/base/messages.ts';
import type { EventBody, SessionEvent } from '../../src/events/event.ts';
import { viewEvent } from '../../src/events/viewed-event.ts';
import { holdsMarker, MARKER, outsideRendered } from '../support/markers.ts';

const AT = 1_700_000_000_000;
const SHORT_MODES = ['basic', 'verbose'] as const;

const thoughtful: Message = {
  seq: 2,
  type: 'agent_message',
  content: [
    { type: 'thinking', thinking: `${MARKER} thought`, signature: `${MARKER} signature` },
    { type: 'text', text: 'Plain.' },
  ],
  at: AT,
  tokens: 4,
  usage: { input_tokens: 1, output_tokens: 2 },
};
const result: Message = {
  seq: 3,
  type: 'tool_response',
  content: `one\ntwo\nthree\n${MARKER}`,
  at: AT,
  tokens: 4,
  toolUseId: 'c1',
  toolName: 'note',
  success: false,
};
const call: Message = {
  seq: 4,
  type: 'tool_call',
  content: '',
  input: { a: 1, b: 2, c: MARKER },
  at: AT,
  tokens: 4,
  toolUseId: 'c1',
  toolName: 'note',
};
const said: Message = { seq: 1, type: 'user_message', content: `${MARKER} said`, at: AT, tokens: 4 };
const entry: Pending = {
  id: 1,
  type: 'tool_response',
  kind: 'active',
  content: `one\ntwo\nthree\n${MARKER}`,
  at: AT,
  source: { type: 'tool', name: 'note' },
  toolUseId: 'c1',
  success: true,
};
const error = {
  name: 'TurnFailedError',
  code: 'turn_failed',
  message: 'no luck',
  retryable: true,
  data: { detail: MARKER },
} as const;
const TOLD_ERROR = { name: 'TurnFailedError', code: 'turn_failed', message: 'no luck', retryable: true };
const turnAgent = { name: 'main', version: '2', hash: 'h' };
const usage = { input_tokens: 1, output_tokens: 2 };
const { content: _said, ...saidIds } = said;
const { content: _thoughtful, ...thoughtfulIds } = thoughtful;
const { content: _result, ...resultIds } = result;
const { content: _call, input: _input, ...callIds } = call;
const { content: _entry, ...entryIds } = entry;

type Kind = EventBody['type'];
type BodyOf<Type extends Kind, Body = EventBody> = Body extends { readonly type: infer Types }
  ? Type extends Types
    ? Omit<Body, 'type'>
    : never
  : never;

/**
 * A sample of each kind with all its members, and the members that basic and verbose keep. Null: the mode leaves the
 * event out.
 */
const SAMPLES: {
  readonly [Type in Kind]: {
    readonly raw: BodyOf<Type>;
    readonly basic: object | null;
    readonly verbose: object | null;
  };
} = {
  'message.created': {
    raw: { message: result },
    basic: { message: resultIds },
    verbose: {
      message: resultIds,
      rendered: { role: 'tool_response', tool: 'note', success: false, timestamp: AT, content: 'one\ntwo\nthree\n...' },
    },
  },
  'message.updated': {
    raw: { message: thoughtful },
    basic: { message: thoughtfulIds, rendered: { role: 'assistant', content: 'Plain.' } },
    verbose: { message: thoughtfulIds, rendered: { role: 'assistant', content: 'Plain.', timestamp: AT } },
  },
  'message.removed': same({ messageSeq: 3, reason: 'edit' }),
  'history.changed': {
    raw: { operation: 'replace', removed: [1], created: [said, call], updated: [thoughtful] },
    basic: {
      operation: 'replace',
      removed: [1],
      created: [{ ...saidIds, rendered: { role: 'user', content: `${MARKER} said` } }, callIds],
      updated: [{ ...thoughtfulIds, rendered: { role: 'assistant', content: 'Plain.' } }],
    },
    verbose: {
      operation: 'replace',
      removed: [1],
      created: [
        { ...saidIds, rendered: { role: 'user', content: `${MARKER} said`, timestamp: AT } },
        { ...callIds, rendered: { role: 'tool_call', tool: 'note', timestamp: AT, input: 'a: 1\nb: 2\n...' } },
      ],
      updated: [{ ...thoughtfulIds, rendered: { role: 'assistant', content: 'Plain.', timestamp: AT } }],
    },
  },
  'compaction.applied': {
    raw: { number: 1, level: 1, archived: [1, 2], created: [result], chunk: 1 },
    basic: { number: 1, level: 1, archived: [1, 2], created: [resultIds], chunk: 1 },
    verbose: {
      number: 1,
      level: 1,
      archived: [1, 2],
      created: [
        {
          ...resultIds,
          rendered: {
            role: 'tool_response',
            tool: 'note',
            success: false,
            timestamp: AT,
            content: 'one\ntwo\nthree\n...',
          },
        },
      ],
      chunk: 1,
    },
  },
  'compaction.failed': same({ reason: 'empty' }),
  'pending.created': {
    raw: { pending: entry },
    basic: { pending: entryIds },
    verbose: {
      pending: entryIds,
      rendered: {
        role: 'tool_response',
        tool: 'note',
        success: true,
        tool_use_id: 'c1',
        content: 'one\ntwo\nthree\n...',
        status: 'pending',
      },
    },
  },
  'pending.removed': same({ pendingId: 1, reason: 'promoted' }),
  'dead_letter.created': {
    raw: { letter: 4, error },
    basic: { letter: 4, error: TOLD_ERROR },
    verbose: { letter: 4, error: TOLD_ERROR },
  },
  'dead_letter.removed': same({ letter: 4, reason: 'resent', pendingId: 5 }),
  'session.state': same({ state: 'awaiting', phase: 'retrying' }),
  'text.delta': {
    raw: { text: `${MARKER} answer`, turn: 'turn-1' },
    basic: { turn: 'turn-1', rendered: { role: 'assistant', content: `${MARKER} answer` } },
    verbose: { turn: 'turn-1', rendered: { role: 'assistant', content: `${MARKER} answer`, timestamp: AT } },
  },
  'thinking.delta': { raw: { text: MARKER, turn: 'turn-1' }, basic: null, verbose: { turn: 'turn-1' } },
  'tool.started': same({ toolUseId: 'c1', toolName: 'note' }),
  'tool.finished': same({ toolUseId: 'c1', toolName: 'note', success: true, ms: 7 }),
  'tool.progress': { raw: { toolUseId: 'c1', data: { step: MARKER } }, basic: null, verbose: { toolUseId: 'c1' } },
  'turn.finished': same({
    turn: 'turn-1',
    reason: 'end_turn',
    usage,
    outcome: 'length',
    healedToolCallIds: ['c1'],
    agent: turnAgent,
  }),
  'approval.required': {
    raw: { toolUseId: 'c1', toolName: 'note', input: { a: 1, b: 2, c: MARKER } },
    basic: { toolUseId: 'c1', toolName: 'note' },
    verbose: {
      toolUseId: 'c1',
      toolName: 'note',
      rendered: { role: 'tool_call', tool: 'note', timestamp: AT, input: 'a: 1\nb: 2\n...' },
    },
  },
  'approval.decided': {
    raw: { toolUseId: 'c1', toolName: 'note', allow: true, by: 'ada' },
    basic: { toolUseId: 'c1', toolName: 'note', allow: true, by: 'ada' },
    verbose: { toolUseId: 'c1', toolName: 'note', allow: true, by: 'ada' },
  },
  'question.asked': {
    raw: {
      toolUseId: 'c1',
      toolName: 'ask_human',
      asked: 'human',
      question: `${MARKER} which?`,
      choices: [MARKER],
      schema: { title: MARKER },
    },
    basic: {
      toolUseId: 'c1',
      toolName: 'ask_human',
      asked: 'human',
      rendered: { role: 'assistant', content: `${MARKER} which?` },
    },
    verbose: {
      toolUseId: 'c1',
      toolName: 'ask_human',
      asked: 'human',
      rendered: { role: 'assistant', content: `${MARKER} which?`, timestamp: AT },
    },
  },
  'session.rollback': same({ reason: 'no luck', index: 2 }),
  'turn.failed': {
    raw: { turn: 'turn-1', error, agent: turnAgent },
    basic: { turn: 'turn-1', error: TOLD_ERROR, agent: turnAgent },
    verbose: { turn: 'turn-1', error: TOLD_ERROR, agent: turnAgent },
  },
  'agent.upgraded': {
    raw: { agent: 'main', from: '1', version: '2' },
    basic: { agent: 'main', from: '1', version: '2' },
    verbose: { agent: 'main', from: '1', version: '2' },
  },
  bounce_back: {
    raw: { content: `${MARKER} bounced`, error, messageSeq: 1 },
    basic: { error: TOLD_ERROR, messageSeq: 1, rendered: { role: 'user', content: `${MARKER} bounced` } },
    verbose: {
      error: TOLD_ERROR,
      messageSeq: 1,
      rendered: { role: 'user', content: `${MARKER} bounced`, timestamp: AT },
    },
  },
  authentication_required: { raw: { error }, basic: { error: TOLD_ERROR }, verbose: { error: TOLD_ERROR } },
  'tool.retry': same({ toolUseId: 'call_1', toolName: 'fetch', attempt: 1, waitMs: 500, reason: 'timeout' }),
  'llm.retry': {
    raw: { attempt: 1, waitMs: 10, code: 'model_overloaded', detail: MARKER, status: 529, repaired: 'R21' },
    basic: { attempt: 1, waitMs: 10, code: 'model_overloaded', status: 529, repaired: 'R21' },
    verbose: { attempt: 1, waitMs: 10, code: 'model_overloaded', status: 529, repaired: 'R21' },
  },
  'model.changed': same({ model: 'gpt/gpt-5.5', reason: 'model_overloaded' }),
  'llm.thread': same({ turn: 't1', thread: 'replayed', code: 'thread_not_found', bytes: 900 }),
  'llm.lost': {
    raw: {
      turn: 't1',
      attempt: 2,
      reason: 'cancelled',
      text: `${MARKER} part`,
      thinking: MARKER,
      truncated: true,
      usage: { input_tokens: 7, output_tokens: 2 },
    },
    basic: {
      turn: 't1',
      attempt: 2,
      reason: 'cancelled',
      truncated: true,
      usage: { input_tokens: 7, output_tokens: 2 },
      rendered: { role: 'assistant', content: `${MARKER} part` },
    },
    verbose: {
      turn: 't1',
      attempt: 2,
      reason: 'cancelled',
      truncated: true,
      usage: { input_tokens: 7, output_tokens: 2 },
      rendered: { role: 'assistant', content: `${MARKER} part`, timestamp: AT },
    },
  },
  'interrupt.acknowledged': same({ reason: 'enough' }),
  'child.spawned': same({ child: 's:1', name: 'sleuth' }),
  'child.state': same({ child: 's:1', name: 'sleuth', state: 'idle' }),
  'child.exited': same({ child: 's:1', name: 'sleuth', reason: 'completed' }),
  'children.updated': same({ children: [{ id: 's:1', name: 'sleuth', state: 'idle' }] }),
  'subagent.evicted': same({ child: 's:1' }),
  'goals.updated': {
    raw: {
      goals: [
        {
          id: 1,
          description: MARKER,
          status: 'active',
          subGoals: [{ id: 2, description: MARKER, status: 'completed' }],
        },
        { id: 3, description: MARKER, status: 'active', parentId: 1, subGoals: [] },
      ],
    },
    basic: {
      goals: [
        { id: 1, status: 'active', subGoals: [{ id: 2, status: 'completed' }] },
        { id: 3, status: 'active', parentId: 1, subGoals: [] },
      ],
    },
    verbose: {
      goals: [
        { id: 1, status: 'active', subGoals: [{ id: 2, status: 'completed' }] },
        { id: 3, status: 'active', parentId: 1, subGoals: [] },
      ],
    },
  },
  'skills.updated': same({ skills: ['review'] }),
  'workflow.updated': same({ workflow: null }),
  eviction: same({ below: 4 }),
  'session.name': same({ name: 'Talk' }),
  'session.recovered': same({ redone: ['c1'], synthesized: ['c2'] }),
  gap: same({ from: 1, to: 2 }),
};

/** A kind of event without content: every mode shows all of it. */
function same<const Raw extends object>(raw: Raw): { readonly raw: Raw; readonly basic: Raw; readonly verbose: Raw } {
  return { raw, basic: raw, verbose: raw };
}

const eventOf = (type: string, body: object): SessionEvent =>
  ({ session: 's', at: AT, seq: 1, type, ...body }) as unknown as SessionEvent;

describe.each(Object.entries(SAMPLES))('F021: %s', (type, { raw, ...shown }) => {
  test.each(SHORT_MODES)('an event in %s has its ids, its cell and only the listed members', (mode) => {
    const event = eventOf(type, { ...raw, unheardOf: MARKER });
    const seen = viewEvent(event, mode);
    const expected = shown[mode];
    expect(seen).toEqual(expected === null ? undefined : eventOf(type, expected));
    expect(holdsMarker(outsideRendered(seen))).toBe(false);
    expect(holdsMarker(outsideRendered(event))).toBe(true);
  });

  test('an event in debug is unchanged', () => {
    const event = eventOf(type, raw);
    const { rendered: _rendered, ...seen } = { rendered: undefined, ...viewEvent(event, 'debug') };
    expect(seen).toEqual(event);
  });
});

test('F021: members of a message, entry or error that are not in a table are left out', () => {
  const extra = { unheardOf: MARKER };
  for (const event of [
    eventOf('message.created', { message: { ...said, content: 'x', ...extra } }),
    eventOf('pending.created', { pending: { ...entry, content: 'x', ...extra } }),
    eventOf('turn.failed', { turn: 't', error: { ...error, ...extra } }),
    eventOf('history.changed', {
      operation: 'o',
      removed: [],
      created: [{ ...said, content: 'x', ...extra }],
      updated: [],
    }),
  ]) {
    for (const mode of SHORT_MODES) expect(holdsMarker(viewEvent(event, mode))).toBe(false);
  }
});
