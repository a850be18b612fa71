/**
 * Answers the methods `search.…`, for the index of all messages. Answers are pieces of bounded size, copied from stored
 * bytes: no session is loaded into memory, and nothing is unpacked or folded here.
 */
import { SEARCH_PAGE_NAMES } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Handler, HandlersOf, ShardMethods } from '../protocol/protocol.ts';
import { decodeHead } from '../reading/head.ts';
import type { SearchMethod } from '../search/reader.ts';
import { answer, type ShardDoor, settle } from './shard-door.ts';

/** A handler for each question of the index. A handler answers synchronously from stored data. */
export type SearchAnswers = {
  readonly [M in SearchMethod]: (request: ShardMethods[M]['request']) => ShardMethods[M]['answer'];
};

/** Handlers that read a journal. They throw `StoreCorruptError` for unreadable data. */
export function searchAnswers(
  journal: Pick<Journal, 'stored' | 'starts' | 'keyOf' | 'nameOf' | 'head'>,
): SearchAnswers {
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
      return { key, ...defined({ base, start: journal.starts.of(key)?.base }) };
    },
  };
}

/**
 * Answers the methods `search.…`, each after the commit in flight. If the store refuses that commit, the answer has the
 * data that is durable.
 */
export function searchRequests({ shard }: ShardDoor): HandlersOf<'search'> {
  const durable = <T>(look: () => T): Promise<T> =>
    settle<T>((reply) =>
      shard.transitions.afterCommit(
        () => answer(reply, look),
        () => answer(reply, look),
      ),
    );
  const answers = searchAnswers(shard.parts.journal);
  const fromLog =
    <M extends SearchMethod>(method: M): Handler<M> =>
    (request) =>
      durable(() => answers[method](request));
  return {
    'search.log': fromLog('search.log'),
    'search.rows': fromLog('search.rows'),
    'search.chain': fromLog('search.chain'),
    'search.blob': fromLog('search.blob'),
    'search.names': fromLog('search.names'),
    'search.session': fromLog('search.session'),
    'search.floor': ({ session }) => durable(() => shard.residency.inMemory(session)?.state.floor),
  };
}
