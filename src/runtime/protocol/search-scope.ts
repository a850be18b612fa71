/**
 * The sessions that a session may search and view: its own tree, unless the embedder allows more. No scope includes
 * sessions of another tenant. Host thread.
 */
import { z } from 'zod';
import { SEARCH_SCOPE_TREES_MAX } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { rootOf, tenantOf } from '../../base/ids.ts';

/**
 * The sessions that one search reaches. `tree`: the session's own tree. `all`: every session of its tenant. A list of
 * ids: the session's own tree, and the trees of the listed sessions that belong to its tenant.
 */
export type SearchReach = 'tree' | 'all' | readonly string[];

/** The argument of a scope function. */
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

/** The part of the store that a session may search. */
export interface Reach {
  /** The tenant of the session; empty: the session has no tenant, and reaches only sessions without a tenant. */
  readonly tenant: string;
  /** The roots of the trees; missing: all trees of the tenant. */
  readonly trees?: ReadonlySet<string>;
}

const reachSchema = z.union([z.enum(['tree', 'all']), z.array(z.string()).max(SEARCH_SCOPE_TREES_MAX)]);

/**
 * Evaluates the scope. Rejects with the error that the function throws, and with `ConfigError` if the returned value is
 * not a valid reach.
 */
export async function reachOf(scope: SearchScope, session: string): Promise<Reach> {
  const given: unknown = typeof scope === 'function' ? await scope({ session }) : scope;
  const reach = reachSchema.safeParse(given);
  if (!reach.success) {
    throw new ConfigError(
      `option "search.scope" must answer 'tree', 'all' or at most ${SEARCH_SCOPE_TREES_MAX} session ids, got ${describeValue(given)}`,
      { data: { key: 'search.scope' } },
    );
  }
  const tenant = tenantOf(session) ?? '';
  if (reach.data === 'all') return { tenant };
  const own = rootOf(session);
  return { tenant, trees: new Set(reach.data === 'tree' ? [own] : [own, ...reach.data.map(rootOf)]) };
}

/** True if a session is in reach. */
export function isWithin({ tenant, trees }: Reach, session: string): boolean {
  return (tenantOf(session) ?? '') === tenant && (trees === undefined || trees.has(rootOf(session)));
}
