/**
 * Goal: the checks of the crash loop can fail. Method: true reports about one family of sessions, then the same reports
 * with one false fact in them. The checks must find each false fact and name it correctly.
 */
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import { openJournal } from '../../src/journal/open-journal.ts';
import { shardDirectory, writeManifest } from '../../src/journal/store/manifest.ts';
import type { RequestMessage } from '../../src/models/provider.ts';
import { encodeTransition, type SessionRecord } from '../../src/session/state/records.ts';
import { timeoutText } from '../../src/tools/tool-execution.ts';
import { scanCanaries } from './canaries.ts';
import { Checker } from './checks.ts';
import provider from './fixtures/model.ts';
import { Ledger, type ViolationKind } from './ledger.ts';
import { CALL_FILE, type CallLine, contentOf, digestOf, type Line, SIDE_VARIABLE } from './protocol.ts';
import type { PastLife } from './run-checks.ts';
import { gatherFacts, type SessionFacts } from './session-facts.ts';
import { appendLine, LineReader } from './side-file.ts';
import { type Reading, StoreFacts } from './store-facts.ts';

function responded(halfStep: number, content: readonly ContentBlock[]): SessionRecord {
  const calls = content.flatMap((block) => (block.type === 'tool_use' ? [{ id: block.id }] : []));
  const [stop, next] = calls.length > 0 ? (['tool_use', 'tools'] as const) : (['end_turn', 'end'] as const);
  const usage = { input_tokens: 1, output_tokens: 1 };
  // biome-ignore lint/suspicious/noThenProperty: the record's own field, never awaited
  return { type: 'responded', halfStep, content, calls, stop, usage, then: next };
}

const ASK: readonly SessionRecord[] = [
  { type: 'created', agent: 'wide', depth: 0 },
  { type: 'accepted', id: 1, entry: { type: 'user_message', content: contentOf('m1-1'), key: 'k', fingerprint: '' } },
  { type: 'claimed', halfStep: 1, entries: [1], turn: 1 },
];
const CALL: readonly SessionRecord[] = [responded(1, [{ type: 'tool_use', id: 'toolu_1', name: 'once', input: {} }])];
const RESULT = {
  type: 'accepted',
  id: 2,
  entry: {
    type: 'tool_response',
    content: 'result of once for s#2@0',
    source: { type: 'tool', name: 'once' },
    toolUseId: 'toolu_1',
    success: true,
  },
} as const satisfies SessionRecord;
const ANSWER: readonly SessionRecord[] = [responded(2, [{ type: 'text', text: 'done' }])];
const WHOLE: readonly (readonly SessionRecord[])[] = [
  ASK,
  CALL,
  [RESULT, { type: 'claimed', halfStep: 2, entries: [2] }],
  ANSWER,
];

const CHILD: readonly (readonly SessionRecord[])[] = [
  [
    {
      type: 'created',
      agent: 'wide',
      depth: 1,
      parent: 's',
      name: 'agent-1',
      prompt: '',
      replies: 'mailbox',
      task: 'find it',
    },
    { type: 'accepted', id: 1, entry: { type: 'user_message', content: 'find it', seed: 1 } },
    { type: 'claimed', halfStep: 1, entries: [1], turn: 1 },
  ],
  [responded(1, [{ type: 'text', text: 'found it' }]), { type: 'exited', reason: 'completed', reply: 'found it' }],
];
const SPAWNED: SessionRecord = { type: 'spawned', child: 's:1', name: 'agent-1', replies: 'mailbox', key: 'k-t1-1' };
const HEARD = {
  type: 'accepted',
  id: 3,
  entry: { type: 'subagent', content: 'found it', source: { type: 'subagent', name: 'agent-1' } },
} as const satisfies SessionRecord;
const EXITED: SessionRecord = { type: 'childExited', child: 's:1', reason: 'completed' };
const RECOVERED: SessionRecord = { type: 'recovered', redone: ['half-step 1'], synthesized: [] };
const PARENT: readonly (readonly SessionRecord[])[] = [...WHOLE, [SPAWNED], [HEARD, EXITED]];

function factsOf(turns: readonly (readonly SessionRecord[])[], id = 's'): SessionFacts {
  return gatherFacts(
    id,
    turns.map((records, index) => ({ at: index, records })),
  );
}

function readingOf(...facts: readonly SessionFacts[]): Reading {
  const sessions = new Map(facts.map((each) => [each.id, each]));
  const told = [...ledger.sessions.deletions].flatMap(([id, isTold]) => (isTold ? [id] : []));
  const none = { families: new Set<string>(), deletions: new Map(told.map((id) => [id, 1] as const)) };
  const nothing = { torn: [], checkpoints: 0, ...none, erasing: 0, removing: 0, removals: 0 };
  return { shards: 1, changed: new Set(sessions.keys()), sessions, ...nothing };
}

let ledger: Ledger;
let checker: Checker;
beforeEach(() => {
  ledger = new Ledger();
  checker = new Checker(ledger);
  ledger.hearTools([{ type: 'started', tool: 'once', key: 's#2@0', life: 1 }]);
});

/** The kinds of violation that the checks find after one life. */
function found(facts: readonly SessionFacts[], life: Partial<PastLife> = {}): readonly ViolationKind[] {
  checker.check(readingOf(...facts), { number: 1, wasKilled: true, ...life });
  return kinds();
}

function kinds(): readonly ViolationKind[] {
  return ledger.violations.map(({ kind }) => kind);
}

function tell(...lines: readonly Line[]): void {
  for (const line of lines) ledger.hear(line);
}

function acknowledge(uid: string, pendingId: number): void {
  tell({ type: 'intent', message: { uid, session: 's' } }, { type: 'acknowledged', uid, pendingId, duplicate: false });
}

const WHOLE_FACTS = (): SessionFacts => factsOf(WHOLE);
const FAMILY = (): readonly SessionFacts[] => [factsOf(PARENT), factsOf(CHILD, 's:1')];

test('a history without faults has no violation', () => {
  acknowledge('m1-1', 1);
  tell(
    { type: 'answer', session: 's', pendingId: 1, outcome: { kind: 'text', text: 'done' } },
    { type: 'spawning', wish: { uid: 't1-1', session: 's', key: 'k-t1-1', replies: 'mailbox' } },
    { type: 'spawned', uid: 't1-1', child: 's:1' },
    { type: 'reply', child: 's:1', outcome: { kind: 'text', text: 'found it' } },
  );
  expect(found(FAMILY())).toEqual([]);
});

describe('I1: messages', () => {
  test('I1: an acknowledged message missing from the store is reported as lost', () => {
    acknowledge('m1-2', 7);
    expect(found([WHOLE_FACTS()])).toEqual(['lost']);
  });

  test('I1: an acknowledged message with other content is reported as changed', () => {
    acknowledge('m1-3', 1);
    expect(found([WHOLE_FACTS()])).toEqual(['changed', 'lost']);
  });

  test('I1: a key with two messages is reported as a duplicate', () => {
    const entry = { type: 'user_message', content: 'm1-9', key: 'k', fingerprint: '' } as const;
    expect(found([factsOf([...WHOLE, [{ type: 'accepted', id: 3, entry }]])])).toEqual(['duplicated']);
  });

  test('I1: a message that is in the log twice is reported as a duplicate', () => {
    const entry = { type: 'user_message', content: contentOf('m1-1') } as const;
    const again: readonly SessionRecord[] = [
      { type: 'accepted', id: 3, entry },
      { type: 'claimed', halfStep: 3, entries: [3], turn: 2 },
    ];
    expect(found([factsOf([...WHOLE, again])])).toEqual(['duplicated']);
  });

  test('I1: an acknowledged key that is accepted again is reported as a duplicate', () => {
    acknowledge('m1-1', 1);
    tell({ type: 'acknowledged', uid: 'm1-1', pendingId: 1, duplicate: false });
    expect(kinds()).toEqual(['duplicated']);
  });

  test('I1: a later message acknowledged with an earlier number is reported as reordered', () => {
    acknowledge('m1-1', 1);
    acknowledge('m1-4', 1);
    expect(kinds()).toEqual(['reordered']);
  });

  test('I1: a message that overtook an earlier one is reported as reordered', () => {
    const accepted = (id: number): SessionRecord => ({
      type: 'accepted',
      id,
      entry: { type: 'user_message', content: `m1-${id}` },
    });
    const late: readonly (readonly SessionRecord[])[] = [
      [accepted(3), accepted(4), { type: 'claimed', halfStep: 3, entries: [4], turn: 2 }],
      [responded(3, [{ type: 'text', text: 'four' }]), { type: 'claimed', halfStep: 4, entries: [3], turn: 3 }],
    ];
    expect(found([factsOf([...WHOLE, ...late])])).toEqual(['reordered']);
  });

  test('I1: an acknowledged recall missing from the store is reported as a change', () => {
    tell({ type: 'recalled', session: 's', pendingId: 1, won: true });
    expect(found([WHOLE_FACTS()])).toEqual(['changed']);
  });

  test('I1: an acknowledged pause missing from the store is reported as lost', () => {
    tell({ type: 'pausing', session: 's' }, { type: 'paused', session: 's' });
    expect(found([WHOLE_FACTS()])).toEqual(['lost']);
  });

  test('I1: a half-step that began while the session was paused is reported', () => {
    ledger.tools.clear();
    expect(found([factsOf([[...ASK.slice(0, 2), { type: 'paused' }, ...ASK.slice(2)]])])).toEqual(['failed']);
  });
});

describe('I2: reports', () => {
  test('I2: a reported event that the log does not have is found', () => {
    tell({ type: 'event', session: 's', seq: 1, digest: digestOf('another') });
    expect(found([WHOLE_FACTS()])).toEqual(['changed']);
  });

  test('I2: a gap in the reported events is found', () => {
    const { events } = WHOLE_FACTS();
    for (const seq of [1, 3]) tell({ type: 'event', session: 's', seq, digest: events[seq - 1] ?? '' });
    expect(found([WHOLE_FACTS()])).toEqual(['lost']);
  });

  test('I2: a gap that a reader was told, and that no removal of history explains, is found', () => {
    tell({ type: 'gap', session: 's', from: 1, to: 2 });
    expect(found([WHOLE_FACTS()])).toEqual([]);
    const { events } = WHOLE_FACTS();
    tell({ type: 'event', session: 's', seq: 3, digest: events[2] ?? '' });
    expect(found([WHOLE_FACTS()])).toEqual(['lost']);
  });

  test('I2: a reported answer that differs from the stored one is found', () => {
    tell({ type: 'answer', session: 's', pendingId: 1, outcome: { kind: 'text', text: 'else' } });
    expect(found([WHOLE_FACTS()])).toEqual(['changed']);
  });

  test('I2: an answer reported twice with different content is found', () => {
    const answer = { type: 'answer', session: 's', pendingId: 1 } as const;
    tell(
      { ...answer, outcome: { kind: 'text', text: 'done' } },
      { ...answer, outcome: { kind: 'cancelled', text: '' } },
    );
    expect(kinds()).toEqual(['changed']);
  });

  test('I2: a missing session that existed before is reported as lost', () => {
    found(FAMILY());
    expect(found([factsOf(CHILD, 'other')])).toContain('lost');
  });
});

describe('I3, A8: requests', () => {
  test('I3: a request that breaks a rule is reported by the model', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'troupe-checker-'));
    vi.stubEnv(SIDE_VARIABLE, directory);
    try {
      const messages: readonly RequestMessage[] = [
        { role: 'user', content: 'go' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'pure', input: {} }] },
        { role: 'user', content: 'on' },
      ];
      const context = { signal: new AbortController().signal, onDelta: () => undefined, session: 's' };
      await provider.generate({ model: 'm', max_tokens: 1, messages }, context);
      ledger.hearCalls(new LineReader<CallLine>(join(directory, CALL_FILE)).next());
    } finally {
      vi.unstubAllEnvs();
      await rm(directory, { recursive: true });
    }
    expect(kinds()).toEqual(['illegal']);
  });

  test('I3: a request without a claim in the log is illegal; only outside `strict` may a kill lose the claim', () => {
    const call = { session: 's', digest: 'nowhere', illegal: [], whole: 'a', life: 1 };
    ledger.hearCalls([call]);
    expect(found([WHOLE_FACTS()])).toEqual([]);
    ledger.hearCalls([{ ...call, life: 2 }]);
    expect(found([WHOLE_FACTS()], { number: 2, isStrict: true })).toEqual(['illegal']);
    ledger.hearCalls([{ ...call, life: 3 }]);
    expect(found([WHOLE_FACTS()], { number: 3, wasKilled: false })).toEqual(['illegal', 'illegal']);
  });

  test('A8: a request made again with other bytes, or after its answer was stored, is found', () => {
    const [digest = ''] = [...WHOLE_FACTS().requests.keys()];
    const call = { session: 's', digest, illegal: [] };
    ledger.hearCalls([{ ...call, life: 1, whole: 'a' }]);
    expect(found([WHOLE_FACTS()])).toEqual([]);
    ledger.hearCalls([{ ...call, life: 2, whole: 'b' }]);
    expect(found([WHOLE_FACTS()], { number: 2 })).toEqual(['repeated', 'changed']);
  });

  test('A8: a request made twice in one life is reported; one repetition is allowed after a timeout', () => {
    const [digest = ''] = [...WHOLE_FACTS().requests.keys()];
    const call = { session: 's', digest, illegal: [], whole: 'a', life: 1 };
    ledger.hearCalls([call, call]);
    expect(found([WHOLE_FACTS()], { toolTimeoutMs: 300 })).toEqual([]);
    const second = { ...call, life: 2 };
    ledger.hearCalls([second, second, second]);
    expect(found([factsOf([ASK])], { number: 2, toolTimeoutMs: 300 })).toContain('repeated');
  });
});

describe('I4: runs of tools', () => {
  test('I4: a tool of effect "once" that started twice is found', () => {
    ledger.hearTools([{ type: 'started', tool: 'once', key: 's#2@0', life: 1 }]);
    expect(found([WHOLE_FACTS()])).toEqual(['repeated', 'repeated']);
  });

  test('I4: a tool of effect "probe" that ran again without a probe is found', () => {
    const run = { type: 'started', tool: 'probe', key: 's#3@0' } as const;
    ledger.hearTools([{ ...run, life: 1 }]);
    const probing = (): SessionFacts => factsOf([ASK, CALL]);
    found([probing()]);
    ledger.violations.length = 0;
    ledger.hearTools([{ ...run, life: 2 }]);
    expect(found([probing()], { number: 2 })).toContain('repeated');
    ledger.violations.length = 0;
    ledger.hearTools([
      { ...run, type: 'asked', life: 3 },
      { ...run, life: 3 },
    ]);
    expect(found([probing()], { number: 3 })).not.toContain('repeated');
  });

  test('I4: a run after its result was stored is found', () => {
    found([WHOLE_FACTS()]);
    ledger.hearTools([{ type: 'started', tool: 'once', key: 's#2@0', life: 2 }]);
    expect(found([WHOLE_FACTS()], { number: 2 })).toEqual(['repeated', 'repeated']);
  });

  test('I4: a tool run without a call is found', () => {
    ledger.hearTools([{ type: 'started', tool: 'keyed', key: 's#9@0', life: 1 }]);
    expect(found([WHOLE_FACTS()])).toEqual(['failed']);
  });

  test('A2: the intent of a pure call may be lost with a killed process', () => {
    ledger.hearTools([{ type: 'started', tool: 'pure', key: 's#9@0', life: 1 }]);
    expect(found([WHOLE_FACTS()])).toEqual([]);
  });
});

describe('I5: calls and results', () => {
  test('I5: a call with two results is a duplicate', () => {
    expect(found([factsOf([ASK, CALL, [RESULT, { ...RESULT, id: 3 }]])])).toContain('duplicated');
  });

  test('I5: a result that its tool did not return is found', () => {
    const forged = { ...RESULT, entry: { ...RESULT.entry, content: 'result of once for another' } };
    expect(found([factsOf([ASK, CALL, [forged]])])).toEqual(['failed']);
  });

  test('I5: a timeout in a life that was not stopped is found', () => {
    const late = { ...RESULT, entry: { ...RESULT.entry, content: timeoutText('once', 300), success: false } };
    const story = (): SessionFacts => factsOf([ASK, CALL, [late]]);
    expect(found([story()])).toEqual(['failed']);
    ledger.violations.length = 0;
    expect(found([story()], { toolTimeoutMs: 300 })).toEqual([]);
  });
});

describe('I6: families', () => {
  test('I6: a child that was never created is found', () => {
    expect(found([factsOf(PARENT)])).toContain('unbalanced');
  });

  test('I6: a child whose parent is missing is an orphan', () => {
    ledger.tools.clear();
    expect(found([factsOf(CHILD, 's:1')])).toEqual(['orphan']);
  });

  test('I6: a child that its parent does not know is an orphan', () => {
    expect(found([WHOLE_FACTS(), factsOf(CHILD, 's:1')])).toEqual(['orphan']);
  });

  test('I6: a child that outlives the deletion of its parent is an orphan', () => {
    tell({ type: 'deleting', session: 's' }, { type: 'deleted', session: 's', wasThere: true });
    expect(found(FAMILY())).toEqual(['resurrected', 'resurrected']);
    expect(found([factsOf(CHILD, 's:1')])).toContain('orphan');
  });

  test('I6: a deleted session that was gone is found when it is there again', () => {
    tell({ type: 'deleting', session: 's' });
    found(FAMILY());
    found([]);
    ledger.violations.length = 0;
    expect(found(FAMILY())).toEqual(['resurrected', 'resurrected']);
  });

  test('I39: a deletion without an entry in the audit log, and one with two, are found', () => {
    tell({ type: 'deleting', session: 's' }, { type: 'deleted', session: 's', wasThere: true });
    const reading = readingOf();
    for (const [entries, kind] of [
      [[], 'lost'],
      [[['s', 2]], 'duplicated'],
    ] as const) {
      ledger.violations.length = 0;
      checker.check({ ...reading, deletions: new Map<string, number>(entries) }, { number: 1, wasKilled: true });
      expect(kinds()).toContain(kind);
    }
    ledger.violations.length = 0;
    checker.check(reading, { number: 1, wasKilled: true });
    expect(kinds()).not.toContain('lost');
    const other = factsOf(WHOLE);
    const undone = {
      ...readingOf({ ...other, id: 't' }),
      deletions: new Map([
        ['s', 1],
        ['t', 1],
      ]),
    };
    checker.check(undone, { number: 1, wasKilled: true });
    expect(kinds()).toContain('resurrected');
  });

  test('I6: a deletion that took the child and left the parent is found', () => {
    tell({ type: 'deleting', session: 's' });
    expect(found([factsOf(PARENT)])).toEqual(['unbalanced']);
  });

  test("I6: a child deleted without its parent's knowledge is found", () => {
    tell({ type: 'deleting', session: 's:1' });
    expect(found([factsOf([...WHOLE, [SPAWNED]])])).toEqual(['unbalanced']);
  });

  test("I6: a child's end that its parent missed, or received twice, is found", () => {
    expect(found([factsOf([...WHOLE, [SPAWNED], [HEARD]]), factsOf(CHILD, 's:1')])).toContain('unbalanced');
    ledger.violations.length = 0;
    expect(found([factsOf([...PARENT, [EXITED]]), factsOf(CHILD, 's:1')])).toContain('unbalanced');
  });

  test('I6: a message of a child that its parent missed, or received twice, is reported', () => {
    expect(found([factsOf([...WHOLE, [SPAWNED], [EXITED]]), factsOf(CHILD, 's:1')])).toContain('lost');
    ledger.violations.length = 0;
    expect(found([factsOf([...PARENT, [{ ...HEARD, id: 4 }]]), factsOf(CHILD, 's:1')])).toContain('duplicated');
  });
});

describe('I7, F13: ends', () => {
  test('I7: a session that never finished is stuck', () => {
    checker.checkFinished(readingOf(factsOf([ASK, CALL])).sessions);
    expect(new Set(kinds())).toEqual(new Set(['stuck']));
  });

  test('F13: an orderly end that leaves a call open is reported', () => {
    expect(found([factsOf([ASK, CALL])], { wasKilled: false })).toEqual(['redone']);
  });

  test('F13: recovery work at the start after an orderly end is reported', () => {
    expect(found([WHOLE_FACTS()], { wasKilled: false })).toEqual([]);
    expect(found([factsOf([...WHOLE, [RECOVERED]])], { number: 2 })).toEqual(['redone']);
  });
});

test('T3: a line of a side file that a kill cut off is skipped and does not spoil the next', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-checker-'));
  const path = join(directory, 'lines');
  try {
    appendLine(path, { life: 1 });
    await appendFile(path, '\n{"life":2,"ses');
    appendLine(path, { life: 3 });
    const reader = new LineReader(path);
    expect(reader.next()).toEqual([{ life: 1 }, { life: 3 }]);
    appendLine(path, { life: 4 });
    expect(reader.next()).toEqual([{ life: 4 }]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

describe('F01: the store', () => {
  /** A store with these texts as the transitions of one session. */
  async function storeOf(
    turns: readonly string[],
    session = 's',
  ): Promise<{ readonly directory: string; readonly facts: StoreFacts }> {
    const directory = await mkdtemp(join(tmpdir(), 'troupe-checker-'));
    await writeManifest(directory, 1);
    const journal = await openJournal({ directory: shardDirectory(directory, 0), durability: 'flush' });
    const key = journal.intern(session);
    for (const data of turns) journal.append([{ key, data }]);
    await journal.flushed();
    await journal.close();
    return { directory, facts: new StoreFacts(directory) };
  }

  test('F6: a deleted session that is named in the store is found, and one that may be named is not', async () => {
    const { directory } = await storeOf([encodeTransition({ at: 0, records: ASK })], 'mortal-1-2x:1');
    try {
      expect(await scanCanaries(directory, new Set(['mortal-1-2x']), true)).toMatchObject({ left: [] });
      const { left, places } = await scanCanaries(directory, new Set(['mortal-1-3x']), true);
      expect(left).toContain('mortal-1-2x is gone, and bytes names it');
      expect(left).toContain('mortal-1-2x is gone, and shard-0/data.mdb names names it');
      expect([...places].sort()).toEqual(['bytes', 'names']);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test.each([
    ['whole', WHOLE.map((records) => encodeTransition({ at: 0, records })), []],
    ['cut off in the middle', [encodeTransition({ at: 0, records: ASK }).slice(0, 40)], ['torn']],
    [
      'not following from what is before it',
      [ASK, ANSWER].map((records) => encodeTransition({ at: 0, records })),
      ['torn'],
    ],
  ] as const)('F01: a turn that is %s', async (_what, turns, expected) => {
    const { directory, facts } = await storeOf(turns);
    try {
      const reading = await facts.read(true);
      if (expected.length > 0) ledger.tools.clear();
      checker.check(reading, { number: 1, wasKilled: true });
      expect(kinds()).toEqual(expected);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
