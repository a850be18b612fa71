/**
 * Goal: the crash loop's checks of histories can fail. Method: reports are compared with a session folded from records
 * that agree or disagree.
 */
import { describe, expect, test } from 'vitest';
import type { SessionRecord } from '../../src/session/state/records.ts';
import { HistoryStories } from './history-stories.ts';
import type { Line } from './protocol.ts';
import { FactsGatherer, type SessionFacts } from './session-facts.ts';

const CREATED: SessionRecord = { type: 'created', agent: 'brief', depth: 0 };
const ADDED: SessionRecord = {
  type: 'edited',
  operation: 'add',
  added: [{ message: { id: 'n1-1', role: 'user', content: 'note n1-1', createdAt: 1 } }],
};
const REMOVED: SessionRecord = { type: 'edited', operation: 'remove', removed: [1] };

function stored(...records: readonly SessionRecord[]): ReadonlyMap<string, SessionFacts> {
  const gatherer = new FactsGatherer('s');
  gatherer.turn({ at: 1, records: [CREATED, ...records] });
  return new Map([['s', gatherer.facts()]]);
}

function told(...lines: readonly Line[]): HistoryStories {
  const stories = new HistoryStories();
  for (const line of lines) stories.hear(line);
  return stories;
}

function note(type: 'noting' | 'noted', text: string | null): Line {
  return { type, uid: 'n1-1', session: 's', text };
}

describe('reports about histories', () => {
  test('T2: an acknowledged note is in the history, with its whole text', () => {
    const stories = told(note('noting', 'note n1-1'), note('noted', 'note n1-1'));
    expect(stories.contradictions(stored(ADDED))).toEqual([]);
    expect(stories.contradictions(stored())).toHaveLength(1);
    expect(stories.contradictions(stored(ADDED, REMOVED))).toHaveLength(1);
  });

  test('T2: a note that was not acknowledged is either in the history unchanged or not at all', () => {
    const stories = told(note('noting', 'note n1-1'));
    expect(stories.contradictions(stored(ADDED))).toEqual([]);
    expect(stories.contradictions(stored())).toEqual([]);
    const other = told(note('noting', 'note n1-1 changed'));
    expect(other.contradictions(stored(ADDED))).toHaveLength(1);
  });

  test('T2: an acknowledged removal stays', () => {
    const stories = told(note('noted', 'note n1-1'), note('noting', null), note('noted', null));
    expect(stories.contradictions(stored(ADDED, REMOVED))).toEqual([]);
    expect(stories.contradictions(stored(ADDED))).toHaveLength(1);
  });

  test('T2: an acknowledged fork and an acknowledged task exist', () => {
    const fork = told({ type: 'forked', session: 's', fork: 's:fork-1', digest: 'x' });
    expect(fork.contradictions(stored())).toHaveLength(1);
    const task = told({ type: 'tasked', session: 's', task: 1 });
    expect(task.contradictions(stored())).toHaveLength(1);
    expect(task.contradictions(stored({ type: 'taskStarted', id: 1, parent: 0 }))).toEqual([]);
  });
});
