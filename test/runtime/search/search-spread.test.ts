/** Goal: a search over several nodes merges what each found, and says if one did not answer. No index is started. */
import { expect, test } from 'vitest';
import { MessageSearch, type OwnerSearch, type SearchSpread } from '../../../src/runtime/search/client.ts';
import type { FoundMessage, SearchAnswer } from '../../../src/runtime/search/service.ts';

/** A search whose shards are all at other nodes. */
function searchAt(...others: SearchSpread['others']): MessageSearch {
  const link = { call: () => Promise.reject(new Error('this node is not asked')) };
  return new MessageSearch({
    links: () => [],
    linkOf: () => link,
    spread: () => ({ own: [], others }),
    directory: 'none',
    now: () => 0,
    decay: 0,
  });
}

function message(session: string): FoundMessage {
  return { session, seq: 1, kind: 'human', snippet: session };
}

/** A node that finds messages with these scores. */
function node(shards: readonly number[], answer: Partial<SearchAnswer>, asked: OwnerSearch[] = []) {
  return {
    shards,
    ask: async (request: OwnerSearch) => {
      asked.push(request);
      return { answer: { found: [], scores: [], isComplete: true, messages: 3, ...answer } };
    },
  };
}

test('R4: each node is asked once, for its shards, and the best messages come first', async () => {
  const asked: OwnerSearch[] = [];
  const first = node([0, 2], { found: [message('a'), message('b')], scores: [5, 1] }, asked);
  const second = node([1], { found: [message('c')], scores: [3] }, asked);
  const answer = await searchAt(first, second).search('zebra', { limit: 2 });
  expect(answer).toMatchObject({ scores: [5, 3], isComplete: true, messages: 6 });
  expect(answer.found.map(({ session }) => session)).toEqual(['a', 'c']);
  expect(asked.map(({ shards }) => shards)).toEqual([[0, 2], [1]]);
});

test('R4: an answer without one of the nodes is not complete', async () => {
  const found = { found: [message('a')], scores: [1] };
  const silent = { shards: [1], ask: () => Promise.reject(new Error('no owner')) };
  expect(await searchAt(node([0], found), silent).search('zebra', { limit: 2 })).toMatchObject({
    scores: [1],
    isComplete: false,
  });
  expect(await searchAt(node([0], { ...found, isComplete: false })).search('zebra', { limit: 2 })).toMatchObject({
    isComplete: false,
  });
});
