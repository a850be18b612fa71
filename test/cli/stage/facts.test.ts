/**
 * Goal: the end of a staged review counts what its log holds, so a loss is seen. Method: the log of a review with one
 * reader, written by hand, whole and then with one thing missing or there twice.
 */
import { expect, test } from 'vitest';
import type { Message } from '../../../src/base/messages.ts';
import type { StoredSessions } from '../../../src/cli/places/stored-sessions.ts';
import { INDEX_REQUEST, planMessage, type ReviewPlan, STEER_REQUEST, taskOf } from '../../../src/cli/review/plan.ts';
import { factsOf } from '../../../src/cli/stage/facts.ts';
import { type StageReport, stageText } from '../../../src/cli/stage/report.ts';
import { paintFor } from '../../../src/cli/surroundings.ts';
import type { SessionEvent } from '../../../src/index.ts';
import type { SessionSummary } from '../../../src/runtime/protocol/protocol.ts';
import { keptOutput, testSurroundings } from '../support/surroundings.ts';

const file = { path: 'src/a.ts', reader: 'src-a', bytes: 10 };
const plan: ReviewPlan = { directory: '/d', model: 'scripted', files: [file], leftOut: 0 };
const usage = { input_tokens: 10, output_tokens: 2 };
type Part = Omit<Message, 'seq' | 'at' | 'tokens'>;
type Log = readonly (Part | 'turn.finished' | 'report' | 'recovered')[];

const call = (id: string, input: unknown = {}): Part => ({
  type: 'tool_call',
  content: 'Calling',
  toolUseId: id,
  input,
  usage,
});
const result = (id: string): Part => ({ type: 'tool_response', content: 'text', toolUseId: id });
const user = (content: Message['content']): Part => ({ type: 'user_message', content });

const REVIEWER: Log = [
  user(planMessage(plan)),
  'report',
  user(INDEX_REQUEST),
  { type: 'agent_message', content: 'The index', usage },
  'turn.finished',
];
const READER: Log = [
  user(taskOf(file)),
  call('c1'),
  'recovered',
  result('c1'),
  user(STEER_REQUEST),
  call('c2'),
  result('c2'),
  call('c3', { result: 'file: src/a.ts\nlongest line: 12 characters, line 3' }),
  result('c3'),
  'turn.finished',
];

function eventsOf(session: string, log: Log): readonly SessionEvent[] {
  return log.map((part, index): SessionEvent => {
    const head = { session, at: 1, seq: index + 1 };
    if (part === 'turn.finished') return { ...head, type: part, turn: 't', reason: 'completed', usage };
    if (part === 'recovered')
      return { ...head, type: 'session.recovered', redone: ['half-step 1', 'c0'], synthesized: [] };
    if (part !== 'report')
      return { ...head, type: 'message.created', message: { ...part, seq: index + 1, at: 1, tokens: 1 } };
    const source = { type: 'subagent', name: 'src-a' } as const;
    const pending = { id: index, type: 'subagent', kind: 'active', content: 'file: src/a.ts', at: 1, source } as const;
    return { ...head, type: 'pending.created', pending };
  });
}

function storeOf(reviewer: Log, readers: readonly Log[]): StoredSessions {
  const logs = new Map([
    ['r', eventsOf('r', reviewer)],
    ...readers.map((log, index) => [`r:${index + 1}`, eventsOf(`r:${index + 1}`, log)] as const),
  ]);
  const summary = (id: string): SessionSummary => ({
    id,
    agent: 'a',
    state: 'idle',
    status: 'idle',
    mailbox: 0,
    updatedAt: 1,
    ...(id === 'r' ? {} : { parent: 'r', name: id === 'r:1' ? 'src-a' : 'other' }),
  });
  return {
    list: () => [...logs.keys()].map(summary),
    waiting: () => [],
    deadLetters: () => [],
    deadLetter: () => undefined,
    audit: async () => ({ items: [] }),
    session: () => undefined,
    history: () => undefined,
    treeUsage: () => ({ input_tokens: 0, output_tokens: 0 }),
    // Two events at a time, so that several pages are read.
    events: (id, { after }) => (logs.get(id) ?? []).filter(({ seq = 0 }) => seq > after).slice(0, 2),
  };
}

test('a whole log has no faults, and every figure is counted', () => {
  expect(factsOf(storeOf(REVIEWER, [READER]), 'r', plan)).toEqual({
    log: { messages: 11, inputTokens: 40, outputTokens: 8 },
    reports: 1,
    calls: 3,
    results: 3,
    halfSteps: 4,
    begunAgain: 2,
    faults: [],
    steered: { session: 'r:1', path: 'src/a.ts', isWithinTurn: true, line: 'longest line: 12 characters, line 3' },
  });
});

const without = (log: Log, index: number): Log => log.toSpliced(index, 1);
const twice = (log: Log, index: number): Log => log.toSpliced(index, 0, log[index] ?? 'report');

test.each([
  ['a report is missing', without(REVIEWER, 1), [READER], 'the report on src/a.ts is in the log not at all'],
  ['a report came twice', twice(REVIEWER, 1), [READER], 'the report on src/a.ts is in the log 2 times'],
  ['the plan came twice', twice(REVIEWER, 0), [READER], 'the plan is in the log 2 times'],
  ['the index was asked for twice', twice(REVIEWER, 2), [READER], 'the request for the index is in the log 2 times'],
  ['a reader is missing', REVIEWER, [], 'the reader of src/a.ts is in the log not at all'],
  ['a file has two readers', REVIEWER, [READER, READER], 'the reader of src/a.ts is in the log 2 times'],
  ['a result is missing', REVIEWER, [without(READER, 3)], 'the result of call c1 is in the log not at all'],
  ['a result came twice', REVIEWER, [twice(READER, 6)], 'the result of call c2 is in the log 2 times'],
  ['a call was made twice', REVIEWER, [twice(READER, 5)], 'the call c2 is in the log 2 times'],
  ['the steer came twice', REVIEWER, [twice(READER, 4)], 'the message that steers r:1 is in the log 2 times'],
] as const)('%s: it is a fault', (_what, reviewer, readers, fault) => {
  expect(factsOf(storeOf(reviewer, readers), 'r', plan).faults).toContain(fault);
});

test('a message that came after the turn is not one within it, and a report without its line says nothing', () => {
  const late: Log = [...without(READER, 4), user(STEER_REQUEST), call('c4'), result('c4')];
  expect(factsOf(storeOf(REVIEWER, [late]), 'r', plan).steered).toMatchObject({ isWithinTurn: false });
  const silent: Log = READER.map((part) =>
    typeof part === 'object' && part.toolUseId === 'c3' && part.type === 'tool_call' ? call('c3') : part,
  );
  expect(factsOf(storeOf(REVIEWER, [silent]), 'r', plan).steered).not.toHaveProperty('line');
});

test('the last screen has at most 15 lines, and says what was lost', () => {
  const stdout = keptOutput(true);
  const surroundings = testSurroundings('/', { stdout });
  const textOf = (reviewer: Log): string => {
    const report: StageReport = {
      id: 'r',
      data: '/data',
      plan,
      standing: 'new',
      index: 'a\nb',
      indexFile: `/data/${'deep/'.repeat(30)}r.txt`,
      failed: 1,
      seconds: 14.96,
      sends: { sends: 3, sendToReceiptMs: { p50: 1, p99: 2 } },
      kill: { pid: 11, next: 12, working: 64, ended: 300, recoverySeconds: 0.61 },
      notKilled: '',
      facts: factsOf(storeOf(reviewer, [READER]), 'r', plan),
    };
    return stageText(report, surroundings, paintFor(keptOutput(), {}));
  };
  const sound = textOf(REVIEWER);
  expect(sound).toContain('Nothing was lost.');
  expect(sound).toContain('process 12 read the log in 0.6 s, and 2 calls began again');
  const lost = textOf(without(REVIEWER, 1));
  expect(lost).toContain('Something was lost');
  expect(lost).toContain('lost       1 fault: the report on src/a.ts is in the log not at all');
  for (const screen of [sound, lost]) {
    const lines = screen.trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(15);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  }
});
