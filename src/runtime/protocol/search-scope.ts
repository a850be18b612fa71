/** The sessions that a session may search and view: its own tree, unless the embedder allows more. Host thread. */
import { z } from 'zod';
import { SEARCH_SCOPE_TREES_MAX } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { rootOf } from '../../base/ids.ts';

/**
 * `tree`: the session's own tree. `all`: every session of the store. A list: the session's own tree, and the trees of
 * these sessions.
 */
export type SearchReach = 'tree' | 'all' | readonly string[];

/** The session on whose behalf a scope is asked for. */
export interface SearchScopeQuestion {
  /** The session that searches, or whose enricher recalls. */
  readonly session: string;
}

/**
 * The reach of `search_messages`, `view_messages` and Mneme's recall. A function is called for every search, on the
 * host thread. If the function throws or rejects, the model receives an error and nothing is found.
 */
export type SearchScope = 'tree' | 'all' | ((question: SearchScopeQuestion) => SearchReach | Promise<SearchReach>);

/** Options of the search. */
export interface SearchOptions {
  /**
   * The sessions that a search reaches. With the default `'tree'`, a session's messages are never found from another
   * tree.
   */
  readonly scope?: SearchScope;
}

/** The roots of the trees that a session may search; `undefined`: all. */
export type Trees = ReadonlySet<string> | undefined;

const reachSchema = z.union([z.enum(['tree', 'all']), z.array(z.string()).max(SEARCH_SCOPE_TREES_MAX)]);

/**
 * Evaluates the scope. Rejects with the error that the function throws, and with `ConfigError` if the returned value is
 * not a valid reach.
 */
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
