/**
 * The crash loop in small, on every run of the tests; `npm run crash` is the long one. The second half shows that the checks
 * can fail: each is given a story that is not true.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import type { SessionRecord } from '../../src/session/records.ts';
import { Checker } from './checks.ts';
import { runCrashLoop } from './crash-loop.ts';
import { Ledger } from './ledger.ts';
import { contentOf, digestOf } from './protocol.ts';
import { describeReport } from './report.ts';
import { gatherFacts, type SessionFacts } from './session-facts.ts';

const SEED = 20_26_11;

describe('T3: a process is killed at work, at recovery and at closing, 15 times over one store', () => {
  test('I1 to I7: nothing acknowledged is lost or doubled, no request is illegal, all is finished in the end', async () => {
    const report = await runCrashLoop({ kills: 15, seed: SEED });
    const lines = describeReport(report).join('\n');
    expect(report.violations, lines).toEqual([]);
    expect(report.kills).toBe(15);
    expect(report.counts.acknowledged, lines).toBeGreaterThan(0);
    expect(report.counts.toolRuns, lines).toBeGreaterThan(0);
  }, 300_000);
});

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
const RESULT: SessionRecord = {
  type: 'accepted',
  id: 2,
  entry: {
    type: 'tool_response',
    content: 'result of once for s#2',
    source: { type: 'tool', name: 'once' },
    toolUseId: 'toolu_1',
    success: true,
  },
};
const ANSWER: readonly SessionRecord[] = [responded(2, [{ type: 'text', text: 'done' }])];
const WHOLE: readonly (readonly SessionRecord[])[] = [
  ASK,
  CALL,
  [RESULT, { type: 'claimed', halfStep: 2, entries: [2] }],
  ANSWER,
];

describe('the checks find what is wrong', () => {
  let ledger: Ledger;
  let facts: SessionFacts;

  function factsOf(...turns: (readonly SessionRecord[])[]): SessionFacts {
    return gatherFacts(
      's',
      turns.map((records, index) => ({ at: index, records })),
    );
  }

  /** Kinds of what the checks find in this one session after life 1. */
  function found(told: SessionFacts = facts): readonly string[] {
    const checker = new Checker(ledger);
    checker.check({ changed: new Set(['s']), sessions: new Map([['s', told]]) }, { number: 1, wasKilled: true });
    return ledger.violations.map(({ kind }) => kind);
  }

  function acknowledge(uid: string, pendingId: number): void {
    ledger.hear({ type: 'intent', message: { uid, session: 's' } });
    ledger.hear({ type: 'acknowledged', uid, pendingId, duplicate: false });
  }

  beforeEach(() => {
    facts = factsOf(...WHOLE);
    ledger = new Ledger();
    ledger.hearTools([{ type: 'started', tool: 'once', key: 's#2', life: 1 }]);
  });

  test('and nothing where nothing is', () => {
    acknowledge('m1-1', 1);
    ledger.hear({ type: 'answer', session: 's', pendingId: 1, outcome: { kind: 'text', text: 'done' } });
    expect(found()).toEqual([]);
  });

  test('I1: an acknowledged message that is not in the store', () => {
    acknowledge('m1-2', 7);
    expect(found()).toEqual(['lost']);
  });

  test('I1: an acknowledged message with other content', () => {
    acknowledge('m1-3', 1);
    expect(found()).toEqual(['changed', 'lost']);
  });

  test('I1: a key that stands for two messages', () => {
    const again: SessionRecord = {
      type: 'accepted',
      id: 3,
      entry: { type: 'user_message', content: 'm1-9', key: 'k', fingerprint: '' },
    };
    expect(found(factsOf(...WHOLE, [again]))).toEqual(['duplicated']);
  });

  test('I1: a later message acknowledged with an earlier place', () => {
    acknowledge('m1-1', 1);
    ledger.hear({ type: 'intent', message: { uid: 'm1-4', session: 's' } });
    ledger.hear({ type: 'acknowledged', uid: 'm1-4', pendingId: 1, duplicate: false });
    expect(ledger.violations.map(({ kind }) => kind)).toEqual(['reordered']);
  });

  test('I2: an event that the log does not have', () => {
    ledger.hear({ type: 'event', session: 's', seq: 1, digest: digestOf('another') });
    expect(found()).toEqual(['changed']);
  });

  test('I4: a tool of effect "once" that started twice', () => {
    ledger.hearTools([{ type: 'started', tool: 'once', key: 's#2', life: 1 }]);
    expect(found()).toEqual(['repeated', 'repeated']);
  });

  test('I4: a tool that ran for a call nobody made', () => {
    ledger.hearTools([{ type: 'started', tool: 'pure', key: 's#9', life: 1 }]);
    expect(found()).toEqual(['failed']);
  });

  test('I5: a call that was answered twice', () => {
    expect(found(factsOf(ASK, CALL, [RESULT, { ...RESULT, id: 3 }]))).toContain('duplicated');
  });

  test('I6: a child that nobody made', () => {
    const spawned: SessionRecord = { type: 'spawned', child: 's:1', name: 'agent-1', replies: 'mailbox' };
    expect(found(factsOf(...WHOLE, [spawned]))).toEqual(['unbalanced']);
  });

  test('I7: a session that never finished', () => {
    new Checker(ledger).checkFinished(new Map([['s', factsOf(ASK, CALL)]]));
    expect(new Set(ledger.violations.map(({ kind }) => kind))).toEqual(new Set(['stuck']));
  });

  test('A8: a request that was asked again with other bytes, or after its answer was there', () => {
    const [digest = ''] = [...facts.requests.keys()];
    const checker = new Checker(ledger);
    const reading = { changed: new Set(['s']), sessions: new Map([['s', facts]]) };
    const call = { session: 's', digest, illegal: [] };
    ledger.hearCalls([{ ...call, life: 1, whole: 'a' }]);
    checker.check(reading, { number: 1, wasKilled: true });
    expect(ledger.violations).toEqual([]);
    ledger.hearCalls([{ ...call, life: 2, whole: 'b' }]);
    checker.check(reading, { number: 2, wasKilled: true });
    expect(ledger.violations.map(({ kind }) => kind)).toEqual(['repeated', 'changed']);
  });

  test('an answer that changed', () => {
    ledger.hear({ type: 'answer', session: 's', pendingId: 1, outcome: { kind: 'text', text: 'else' } });
    expect(found()).toEqual(['changed']);
  });
});
