/** What a session may find and look at of other sessions: its own tree, unless the embedder opens more. Host thread. */
import { z } from 'zod';
import { SEARCH_SCOPE_TREES_MAX } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { rootOf } from '../../base/ids.ts';

/** `tree`: the session's own tree. `all`: every session of the store. A list: its own tree, and those these sessions belong to. */
export type SearchReach = 'tree' | 'all' | readonly string[];

/** Who asks. */
export interface SearchScopeQuestion {
  /** The session that searches, or that an enricher remembers for. */
  readonly session: string;
}

/**
 * What `search_messages`, `view_messages` and Mneme's recall reach. A function is asked for every search, on the host thread; where
 * it throws or rejects, the model is told of a failure and nothing is found.
 */
export type SearchScope = 'tree' | 'all' | ((question: SearchScopeQuestion) => SearchReach | Promise<SearchReach>);

/** Options of the search. */
export interface SearchOptions {
  /** Default `'tree'`: what one session says is never found from another tree. */
  readonly scope?: SearchScope;
}

/** The trees a session reaches, by their roots; `undefined`: all. */
export type Trees = ReadonlySet<string> | undefined;

const reachSchema = z.union([z.enum(['tree', 'all']), z.array(z.string()).max(SEARCH_SCOPE_TREES_MAX)]);

/** Asks the scope. Rejects with what it throws, and with `ConfigError` for an answer that is no reach. */
export async function treesOf(scope: SearchScope, session: string): Promise<Trees> {
  const given: unknown = typeof scope === 'function' ? await scope({ session }) : scope;
  const reach = reachSchema.safeParse(given);
  if (!reach.success) {
    throw new ConfigError(
      `option "search.scope" must answer 'tree', 'all' or at most ${SEARCH_SCOPE_TREES_MAX} session ids, got ${describeValue(given)}`,
      { data: { key: 'search.scope' } },
    );
  }
  if (reach.data === 'all') return undefined;
  const own = rootOf(session);
  return new Set(reach.data === 'tree' ? [own] : [own, ...reach.data.map(rootOf)]);
}

/** Whether a session is in reach. */
export function isWithin(trees: Trees, session: string): boolean {
  return trees === undefined || trees.has(rootOf(session));
}
