/**
 * Goal: events cross a thread unchanged (P1, P2). Method: random events, of all packed kinds and of some others, cloned
 * as a port would.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  DELIVERIES,
  MESSAGE_TYPES,
  type Message,
  PENDING_TYPES,
  type Pending,
  SOURCE_TYPES,
  type Usage,
} from '../../../src/base/messages.ts';
import { type PublishedEvent, REMOVAL_REASONS, SESSION_STATES, type SessionEvent } from '../../../src/events/event.ts';
import { durableEvent } from '../../../src/events/event-body.ts';
import { WORD_MASK } from '../../../src/events/packing/packed-form.ts';
import { EventPacking } from '../../../src/events/packing/packing.ts';
import { unpackEvents } from '../../../src/events/packing/unpacking.ts';
import { delta, durable, progress } from './event-samples.ts';

function packed(events: readonly SessionEvent[]): readonly unknown[] {
  const packing = new EventPacking();
  for (const event of events) packing.add(event);
  return packing.values;
}

function crossed(events: readonly SessionEvent[]): readonly PublishedEvent[] {
  return unpackEvents(structuredClone(packed(events)));
}

const count = fc.nat(1_000);
const usage = fc.record(
  {
    input_tokens: count,
    output_tokens: count,
    cache_creation_input_tokens: count,
    cache_read_input_tokens: count,
    output_tokens_details: fc.record({ thinking_tokens: count }),
    server_tool_use: fc.record({ web_search_requests: count }),
    speed: fc.constant('fast'),
  },
  { requiredKeys: ['input_tokens', 'output_tokens'] },
) as fc.Arbitrary<Usage>;
const source = fc.record({ type: fc.constantFrom(...SOURCE_TYPES), name: fc.string() }, { requiredKeys: ['type'] });
/** Few different values, so that an event often repeats values of the previous event. */
const callId = fc.constantFrom('', 'a', 'b');
const toolName = fc.constantFrom('', 'add', 'look');
const content = fc.oneof(
  fc.constantFrom('', 'said'),
  fc.string(),
  fc.array(fc.record({ type: fc.constant('text'), text: fc.string() })),
);
const message = fc.record(
  {
    seq: count,
    type: fc.constantFrom(...MESSAGE_TYPES),
    content,
    at: fc.nat(2),
    tokens: count,
    toolUseId: callId,
    toolName,
    input: fc.jsonValue(),
    success: fc.boolean(),
    source,
    usage,
  },
  { requiredKeys: ['seq', 'type', 'content', 'at', 'tokens'] },
) as fc.Arbitrary<Message>;
const pending = fc.record(
  {
    id: count,
    type: fc.constantFrom(...PENDING_TYPES),
    kind: fc.constantFrom('active', 'background'),
    content,
    at: fc.nat(2),
    source,
    toolUseId: callId,
    success: fc.boolean(),
    deliver: fc.constantFrom(...DELIVERIES),
  },
  { requiredKeys: ['id', 'type', 'kind', 'content', 'at', 'source'] },
) as fc.Arbitrary<Pending>;
const words = fc.record({ toolUseId: callId, toolName });
const body = fc.oneof(
  fc.record({ type: fc.constantFrom('message.created', 'message.updated'), message }),
  fc.record({ type: fc.constant('pending.created'), pending }),
  fc.record({
    type: fc.constant('pending.removed'),
    pendingId: count,
    reason: fc.constantFrom(...REMOVAL_REASONS),
  }),
  fc.record(
    {
      type: fc.constant('session.state'),
      state: fc.constantFrom(...SESSION_STATES),
      phase: fc.constantFrom('paused', 'retrying'),
    },
    { requiredKeys: ['type', 'state'] },
  ),
  words.map((named) => ({ type: 'tool.started', ...named })),
  fc
    .tuple(words, fc.boolean(), fc.option(count))
    .map(([named, success, ms]) => ({ type: 'tool.finished', ...named, success, ...(ms === null ? {} : { ms }) })),
  fc.record(
    {
      type: fc.constant('turn.finished'),
      turn: fc.string(),
      reason: fc.string(),
      usage,
      outcome: fc.constantFrom('interrupted', 'length'),
      healedToolCallIds: fc.array(fc.string()),
    },
    { requiredKeys: ['type', 'turn', 'reason', 'usage'] },
  ),
  fc.record({ type: fc.constant('goals.updated'), goals: fc.constant([]) }),
);
const event = fc
  .tuple(
    fc.record({ session: fc.constantFrom('a', 'b'), at: fc.nat(2) }),
    fc.option(fc.integer({ min: 1, max: 5 })),
    fc.oneof(
      body,
      fc.record({ type: fc.constantFrom('text.delta', 'thinking.delta'), text: fc.string(), turn: fc.string() }),
    ),
  )
  .map(([place, seq, what]) => ({
    ...place,
    ...(seq === null ? {} : { seq }),
    ...what,
  })) as unknown as fc.Arbitrary<SessionEvent>;

test('P1: any events arrive unchanged and in order after packing', () => {
  fc.assert(
    fc.property(fc.array(event), (events) => {
      expect(crossed(events)).toStrictEqual(structuredClone(events));
    }),
  );
});

test('P1: events of several sessions arrive unchanged, with consecutive numbers and with others', () => {
  const state = (session: string, seq: number): SessionEvent => ({
    session,
    at: 5,
    seq,
    type: 'session.state',
    state: 'idle',
  });
  const events = [state('a', 1), state('a', 2), delta('text', 't', 'b'), state('a', 4), state('b', 5), state('b', 6)];
  expect(crossed(events)).toStrictEqual(events);
  expect(crossed([])).toEqual([]);
});

test('P1: values equal to those of the event before are sent once and arrive in both events', () => {
  const call = {
    seq: 1,
    type: 'tool_call',
    content: '',
    at: 5,
    tokens: 3,
    toolUseId: 'call-1',
    toolName: 'add',
  } as const;
  const answer = { id: 4, type: 'tool_response', kind: 'active', content: 'five', at: 5 } as const;
  const place = (seq: number) => ({ session: 's', at: 5, seq });
  const events: readonly SessionEvent[] = [
    { ...place(1), type: 'message.created', message: { ...call, input: { a: 2 } } },
    { ...place(2), type: 'tool.started', toolUseId: 'call-1', toolName: 'add' },
    { ...place(3), type: 'tool.finished', toolUseId: 'call-1', toolName: 'add', success: true },
    { ...place(4), type: 'pending.created', pending: { ...answer, source: { type: 'tool' }, toolUseId: 'call-1' } },
    { ...place(5), type: 'message.created', message: { ...call, seq: 2, type: 'tool_response', content: 'five' } },
    { ...place(6), type: 'tool.started', toolUseId: 'call-2', toolName: 'add' },
  ];
  const values = packed(events);
  for (const word of ['call-1', 'add', 'five']) expect(values.filter((value) => value === word)).toHaveLength(1);
  expect(crossed(events)).toStrictEqual(events);
});

test('a packed head has room for every value of the closed lists', () => {
  for (const list of [MESSAGE_TYPES, PENDING_TYPES, SOURCE_TYPES, SESSION_STATES, REMOVAL_REASONS]) {
    expect(list.length).toBeLessThanOrEqual(WORD_MASK);
  }
});

test('P2: events without a packed form are sent whole, between packed events', () => {
  const rendered = { session: 's', at: 1, seq: 3, type: 'session.state', state: 'idle', rendered: { role: 'user' } };
  const events = [
    durable(1),
    progress({ deep: [1, { date: new Date(0) }] }),
    { session: 's', at: 1, seq: 2, type: 'session.state', state: 'awaiting' },
    rendered as SessionEvent,
    { session: 's', at: 1, seq: 4, type: 'session.state', state: 'idle' },
  ] satisfies readonly SessionEvent[];
  expect(crossed(events)).toStrictEqual(events);
});

test('an event has all members of its body, its session, its time and its number', () => {
  fc.assert(
    fc.property(body, (told) => {
      const made = durableEvent('s', 7, 3, told as Parameters<typeof durableEvent>[3]);
      expect(made).toStrictEqual({ session: 's', at: 7, seq: 3, ...told });
    }),
  );
});
