/**
 * The shard's door for the index of all messages. What is asked is answered in pieces of bounded size, by copying stored bytes: no
 * session is brought into memory, nothing is unpacked and nothing folded here.
 */
import { SEARCH_PAGE_NAMES } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { ShardMethods } from '../protocol/protocol.ts';
import { decodeHead } from '../reading/head.ts';
import type { SearchMethod } from '../search/reader.ts';
import type { Shard } from '../shard/shard.ts';
import { type Handle, settle } from './shard-door.ts';

/** What answers each question of the index, at once and from what is durable. */
export type SearchAnswers = {
  readonly [M in SearchMethod]: (request: ShardMethods[M]['request']) => ShardMethods[M]['answer'];
};

/** Answers from a journal. They throw `StoreCorruptError` for what cannot be read. */
export function searchAnswers(journal: Pick<Journal, 'stored' | 'keyOf' | 'nameOf' | 'head'>): SearchAnswers {
  const { stored } = journal;
  return {
    'search.log': ({ from, offset }) => stored.rowsFrom(from, offset),
    'search.rows': ({ rows, offset }) => stored.rowsAt(rows, offset),
    'search.chain': ({ key, until, from }) => stored.chain(key, until, from),
    'search.blob': ({ address, offset }) => stored.blob(address, offset),
    'search.names': ({ keys }) => keys.slice(0, SEARCH_PAGE_NAMES).map((key) => journal.nameOf(key) ?? null),
    'search.session': ({ session }) => {
      const key = journal.keyOf(session);
      if (key === undefined) return undefined;
      const head = journal.head(key);
      const base = head === undefined ? undefined : decodeHead(head.data).base;
      return base === undefined ? { key } : { key, base };
    },
  };
}

/** Answers the methods `search.*`, each behind what is being committed; where the store refuses that, from what is durable. */
export function serveSearch(shard: Shard, handle: Handle): void {
  const told = <T>(look: () => T): Promise<T> =>
    settle<T>((reply) => {
      const answer = (): void => {
        try {
          reply.resolve(look());
        } catch (error) {
          reply.reject(asError(error));
        }
      };
      shard.transitions.afterCommit(answer, answer);
    });
  const answers = searchAnswers(shard.parts.journal);
  const serve = <M extends SearchMethod>(method: M): void =>
    handle(method, (request) => told(() => answers[method](request)));
  serve('search.log');
  serve('search.rows');
  serve('search.chain');
  serve('search.blob');
  serve('search.names');
  serve('search.session');
  handle('search.floor', ({ session }) => told(() => shard.residency.inMemory(session)?.state.floor));
}
