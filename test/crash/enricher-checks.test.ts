/** Goal: the checks of enrichers can fail. Method: true reports, then the same reports with one false fact in them. */
import { expect, test } from 'vitest';
import type { SessionRecord } from '../../src/session/state/records.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { checkEnrichers, checkEnrichersFinished, noEnricherFacts, noteEnrichers } from './enricher-checks.ts';
import { Ledger } from './ledger.ts';

const BEGUN: SessionRecord = { type: 'summaryBegun', run: 3, level: 1, from: 1, to: 4, attempt: 1 };
const SETTLED: readonly SessionRecord[] = [
  { type: 'remembered', budgets: { one: 10, two: 10 } as never },
  { type: 'evicted', below: 5 },
];
const TRUE_STORY: readonly (readonly SessionRecord[])[] = [
  [{ type: 'preparing', run: 1, entry: 1 }],
  [{ type: 'recalling', run: 2 }],
  [{ type: 'prepared', run: 2, entry: 1 }],
  [BEGUN],
  [{ type: 'summaryEnded', run: 3, text: 'summary' }],
  SETTLED,
];
const SNAPSHOT = { level: 1, text: 'summary', from: 1, to: 4, tokens: 2 } as const;

const MESSAGES = [
  { seq: 1, type: 'user_message', content: 'hello', tokens: 2 },
  { seq: 2, type: 'agent_message', content: 'hello', tokens: 2 },
] as const;

/** The violations found. `snapshots`: the snapshots of the final state. */
function findingsOf(turns: readonly (readonly SessionRecord[])[], snapshots: readonly object[] = [SNAPSHOT]): string {
  const state = emptyState('s');
  state.messages = MESSAGES as unknown as SessionState['messages'];
  const enrichers = noEnricherFacts();
  for (const records of turns) {
    noteEnrichers(enrichers, state, records, (record) => {
      // The part of the session's state that the notes read.
      if (record.type === 'summaryBegun') state.memory = { summarising: record } as unknown as SessionState['memory'];
    });
  }
  state.memory = { snapshots } as unknown as SessionState['memory'];
  const ledger = new Ledger();
  checkEnrichers({ state, enrichers }, ledger, true);
  checkEnrichersFinished(state, ledger);
  return ledger.violations.map(({ kind, what }) => `${kind}: ${what}`).join('\n');
}

test('a true story has no findings', () => {
  expect(findingsOf(TRUE_STORY)).toBe('');
});

test.each([
  ['a preparation that ends twice', [...TRUE_STORY, [{ type: 'prepared', run: 2 }]], 'preparation 2 of s ended'],
  ['a turn that is prepared twice', [...TRUE_STORY, [{ type: 'prepared', run: 4, entry: 1 }]], 'prepared twice: 1, 1'],
  ['a summary that begins twice', [...TRUE_STORY, [BEGUN]], 'summary 3 of s was begun more than once'],
  ['one that ends twice', [...TRUE_STORY, [{ type: 'summaryEnded', run: 3 }]], 'was ended more than once'],
  ['one that is settled twice', [...TRUE_STORY, SETTLED], 'was settled more than once'],
  ['messages that leave and were not summed up', [[{ type: 'evicted', below: 9 }]], 'lost: what is below 9 left'],
] as const)('%s', (_what, turns, found) => {
  expect(findingsOf(turns as readonly (readonly SessionRecord[])[])).toContain(found);
});

test('a message summarised twice is found', () => {
  expect(findingsOf(TRUE_STORY, [SNAPSHOT, { ...SNAPSHOT, from: 4, to: 8 }])).toContain(
    '4 to 8 of s is summed up twice',
  );
  // A summary of summaries covers the same messages.
  expect(findingsOf(TRUE_STORY, [SNAPSHOT, { ...SNAPSHOT, level: 2 }])).toBe('');
});

test('a preparation still open after everything finished is found', () => {
  const state = emptyState('s');
  state.enrichment = { run: 1, stage: 'preparing', entry: 1, at: 0, goalsChanged: false };
  const ledger = new Ledger();
  checkEnrichersFinished(state, ledger);
  expect(ledger.violations).toEqual([{ kind: 'stuck', what: 's is still preparing in run 1' }]);
});
