/**
 * Goal: invariant F1 holds for any events of a session. A follower applies the light fold, and folds the whole log
 * where the light fold gives up. After every transition it has the texts of the session's messages. Method: random
 * lives of one session; a failing one prints its seed.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SearchableText } from '../../src/search/searchable.ts';
import { searchableText } from '../../src/search/searchable.ts';
import { foldTexts, newTextFold, takesBack, textFoldOf, textFoldSchema } from '../../src/search/text-fold.ts';
import { applyAll } from '../../src/session/apply/apply.ts';
import { bySeq } from '../../src/session/history/branch.ts';
import type { TransitionRecords } from '../../src/session/state/records.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { Life } from '../support/session-life.ts';
import { type LifeOptions, lifeOptions, steps } from '../support/session-steps.ts';

const textsOf = (state: SessionState): readonly SearchableText[] =>
  bySeq(state.messages).flatMap((message) => searchableText(message) ?? []);

function foldOf(turns: readonly TransitionRecords[]): SessionState {
  const state = emptyState('s');
  state.keepsAll = true;
  for (const { records, at } of turns) applyAll(state, structuredClone(records), at);
  return state;
}

/** Checks after each transition that the follower's texts are those of the fold. Returns how often it gave up. */
function follow(turns: readonly TransitionRecords[]): number {
  let wholeReads = 0;
  let fold = newTextFold();
  let texts: SearchableText[] = [];
  for (const [index, turn] of turns.entries()) {
    const state = foldOf(turns.slice(0, index + 1));
    const found = foldTexts(fold, turn);
    if (found === undefined) {
      wholeReads += 1;
      fold = textFoldOf(state);
      texts = [...textsOf(state)];
    } else {
      texts.push(...found);
    }
    expect(texts).toEqual(textsOf(state));
    expect(fold.nextSeq).toBe(state.nextMessageSeq);
    expect(Object.keys(fold.mailbox).map(Number)).toEqual(state.mailbox.map(({ id }) => id));
    fold = textFoldSchema.parse(JSON.parse(JSON.stringify(fold)));
  }
  return wholeReads;
}

test('F1: sessions with sub-agents, restarts, bounces, tasks and evictions are followed exactly', () => {
  let wholeReads = 0;
  fc.assert(
    fc.property(lifeOptions, steps(), (options, all) => {
      wholeReads += follow(new Life(options).live(all).machine.turns);
    }),
    { numRuns: 25 },
  );
  expect(wholeReads).toBeGreaterThan(0);
});

test('F1: sessions with repeated compression are followed without reading them from the start', () => {
  const compressed: fc.Arbitrary<LifeOptions> = lifeOptions.map((options) => ({
    ...options,
    isChild: false,
    compression: { messages: 3, tokens: 40, targetTokens: 1, keepRecent: 1, idleMinMessages: 2, isAutomatic: true },
  }));
  let compactions = 0;
  fc.assert(
    fc.property(compressed, steps(), (options, all) => {
      const { turns } = new Life(options).live(all.filter((step) => step.do !== 'fail')).machine;
      const wholeReads = follow(turns);
      if (!turns.some(({ records }) => records.some(takesBack))) expect(wholeReads).toBe(0);
      compactions += turns.filter(({ records }) => records.some((record) => record.type === 'compacted')).length;
    }),
    { numRuns: 60 },
  );
  expect(compactions).toBeGreaterThan(20);
});
