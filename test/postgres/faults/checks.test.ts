/** Goal: the verdict of the loop of faults finds each broken promise, and nothing else. */
import { expect, test } from 'vitest';
import { judge, type Story } from './checks.ts';
import type { EffectLine, SessionFacts } from './protocol.ts';
import { Leases } from './register-book.ts';

const CALL = 's0#3@x';

/** A story in which every promise was kept. */
function goodStory(): Story {
  const begin: EffectLine = { kind: 'tool', name: 'once', key: CALL, node: 'n1', atMs: 100 };
  const sessions: readonly SessionFacts[] = [
    {
      id: 's0',
      state: 'idle',
      messages: [
        { type: 'user_message', key: 's0-1', text: 's0-1 once' },
        { type: 'tool_call', tool: 'once', text: '' },
        { type: 'tool_response', tool: 'once', text: `once ${CALL}` },
        { type: 'agent_message', text: 'one' },
        { type: 'user_message', key: 's0-2', text: 's0-2 spawn' },
        { type: 'agent_message', text: 'two' },
      ],
    },
    {
      id: 'child',
      parent: 's0',
      state: 'idle',
      messages: [{ type: 'user_message', text: 'Work for s0-2 with pure.' }],
    },
  ];
  return {
    acknowledged: new Map([['s0', ['s0-1', 's0-2']]]),
    answers: new Map([['s0-2', 'two']]),
    former: ['former-1'],
    wrong: [],
    sessions,
    effects: [begin],
    overMs: () => 0,
    thawed: new Map(),
  };
}

/** The story with other messages in its first session. */
function withMessages(change: (messages: SessionFacts['messages']) => SessionFacts['messages']): Story {
  const story = goodStory();
  const sessions = story.sessions.map((each) =>
    each.id === 's0' ? { ...each, messages: change(each.messages) } : each,
  );
  return { ...story, sessions };
}

const without = (key: string): Story => withMessages((messages) => messages.filter((each) => each.key !== key));

test('a story in which every promise was kept has no violation', () => {
  expect(judge(goodStory())).toEqual([]);
  // Its node had looked at the lease before it stood still.
  expect(judge({ ...goodStory(), overMs: () => 5, thawed: new Map([['n1', 90]]) })).toEqual([]);
});

test.each<[string, string, () => Story]>([
  ['an acknowledged message that is not there', 'lost', () => without('s0-1')],
  [
    'a key that is there twice',
    'duplicated',
    () => withMessages(([first, ...rest]) => [first, first, ...rest].flatMap((each) => each ?? [])),
  ],
  [
    'messages in another order',
    'reordered',
    () => ({ ...goodStory(), acknowledged: new Map([['s0', ['s0-2', 's0-1']]]) }),
  ],
  ['an answer that is not there', 'untrue', () => ({ ...goodStory(), answers: new Map([['s0-1', 'three']]) })],
  ['an answer from before its message', 'untrue', () => ({ ...goodStory(), answers: new Map([['s0-2', 'one']]) })],
  ['a message without its sub-agent', 'orphan', () => ({ ...goodStory(), sessions: goodStory().sessions.slice(0, 1) })],
  [
    'a message with two sub-agents',
    'orphan',
    () => ({ ...goodStory(), sessions: [...goodStory().sessions, ...goodStory().sessions.slice(1)] }),
  ],
  ['an acknowledgement of a former owner', 'former', () => ({ ...goodStory(), wrong: ['former-1'] })],
  [
    'a session that only a former owner was asked for',
    'former',
    () => ({ ...goodStory(), sessions: [...goodStory().sessions, { id: 'former-1', state: 'idle', messages: [] }] }),
  ],
  [
    'a tool that began twice',
    'once',
    () => ({ ...goodStory(), effects: [...goodStory().effects, ...goodStory().effects] }),
  ],
  ['a result without a beginning', 'once', () => ({ ...goodStory(), effects: [] })],
  ['a call after the end of a lease', 'lease', () => ({ ...goodStory(), overMs: () => 5 })],
  [
    'a call long after the end of a freeze',
    'lease',
    () => ({ ...goodStory(), overMs: () => 5, thawed: new Map([['n1', -500]]) }),
  ],
  [
    'a session that still works',
    'unfinished',
    () => ({ ...goodStory(), sessions: goodStory().sessions.map((each) => ({ ...each, state: 'tools' })) }),
  ],
])('%s is found', (_what, kind, story) => {
  expect(new Set(judge(story()).map((violation) => violation.kind))).toContain(kind);
});

test('a lease holds from its grant to its last end, also after it was renewed, and not after it was ended', () => {
  const leases = new Leases(
    new Map([
      [
        'n1',
        [
          { atMs: 1_000, expiresMs: 2_000 },
          { atMs: 1_500, expiresMs: 2_500 },
          { atMs: 3_000, expiresMs: undefined },
        ],
      ],
      [
        'n2',
        [
          { atMs: 1_000, expiresMs: 2_000 },
          { atMs: 1_200, expiresMs: undefined },
        ],
      ],
    ]),
  );
  expect([900, 1_000, 2_400, 2_600, 3_100].map((atMs) => leases.overMs('n1', atMs) > 0)).toEqual([
    ...[true, false, false, true, true],
  ]);
  expect([1_100, 1_300].map((atMs) => leases.overMs('n2', atMs))).toEqual([0, 100]);
  expect(leases.overMs('n3', 1_000)).toBe(Number.POSITIVE_INFINITY);
});
