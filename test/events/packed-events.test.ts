/** Goal: events cross a thread unchanged (P1, P2). Method: events at random, of all kinds that are packed and of some that are not, cloned as a port would. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Message, Pending, Usage } from '../../src/base/messages.ts';
import type { SessionEvent } from '../../src/events/event.ts';
import { durableEvent } from '../../src/events/event-body.ts';
import { packEvents, unpackEvents } from '../../src/events/packed-events.ts';
import { delta, durable, progress } from './event-samples.ts';

function crossed(events: readonly SessionEvent[]): readonly SessionEvent[] {
  return unpackEvents(structuredClone(packEvents(events)));
}

const count = fc.nat(1_000);
const usage = fc.record(
  {
    input_tokens: count,
    output_tokens: count,
    cache_creation_input_tokens: count,
    cache_read_input_tokens: count,
  },
  { requiredKeys: ['input_tokens', 'output_tokens'] },
) as fc.Arbitrary<Usage>;
const source = fc.record(
  { type: fc.constantFrom('user', 'tool', 'subagent', 'goal'), name: fc.string() },
  { requiredKeys: ['type'] },
);
const content = fc.oneof(fc.string(), fc.array(fc.record({ type: fc.constant('text'), text: fc.string() })));
const message = fc.record(
  {
    seq: count,
    type: fc.constantFrom('user_message', 'agent_message', 'tool_call', 'tool_response', 'system_message'),
    content,
    at: fc.nat(2),
    tokens: count,
    toolUseId: fc.string(),
    toolName: fc.string(),
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
    type: fc.constantFrom(
      'user_message',
      'tool_response',
      'subagent',
      'from_mneme',
      'from_melete_skill',
      'from_melete_workflow',
      'from_melete_goal',
    ),
    kind: fc.constantFrom('active', 'background'),
    content,
    at: fc.nat(2),
    source,
    toolUseId: fc.string(),
    success: fc.boolean(),
    deliver: fc.constantFrom('ride', 'steer', 'turn'),
  },
  { requiredKeys: ['id', 'type', 'kind', 'content', 'at', 'source'] },
) as fc.Arbitrary<Pending>;
const words = fc.record({ toolUseId: fc.string(), toolName: fc.string() });
const body = fc.oneof(
  fc.record({ type: fc.constantFrom('message.created', 'message.updated'), message }),
  fc.record({ type: fc.constant('pending.created'), pending }),
  fc.record({
    type: fc.constant('pending.removed'),
    pendingId: count,
    reason: fc.constantFrom('promoted', 'recalled', 'dropped'),
  }),
  fc.record(
    {
      type: fc.constant('session.state'),
      state: fc.constantFrom('idle', 'awaiting', 'executing'),
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

test('P1: any events come out as they went in, in their order', () => {
  fc.assert(
    fc.property(fc.array(event), (events) => {
      expect(crossed(events)).toStrictEqual(structuredClone(events));
    }),
  );
});

test('P1: a turn of several sessions, with numbers that go on and numbers that do not', () => {
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

test('P2: what has no row crosses whole, between what has one', () => {
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

test('an event has all members of its body, and its place', () => {
  fc.assert(
    fc.property(body, (told) => {
      const made = durableEvent('s', 7, 3, told as Parameters<typeof durableEvent>[3]);
      expect(made).toStrictEqual({ session: 's', at: 7, seq: 3, ...told });
    }),
  );
});
