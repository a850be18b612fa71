/** Lists names: the stored names, with the changes that are not yet durable applied to them. */
import { SCAN_NAMES } from '../../base/bounds.ts';
import type { SessionKey } from '../position.ts';

/** The options of `Journal.names`. */
export interface NameQuery {
  readonly after?: string;
  readonly prefix?: string;
  readonly limit?: number;
}

/** Lists stored names starting at `from`, or after `from` if `exclusive` is true; ascending, at most `limit`. */
export type NameScan = (from: string, exclusive: boolean, limit: number) => readonly (readonly [string, SessionKey])[];

/**
 * Names that match `query`, ascending, with their keys. `changes`: names added (a key) or removed (`undefined`) that
 * `scan` does not see yet.
 */
export function listNames(
  query: NameQuery,
  changes: ReadonlyMap<string, SessionKey | undefined>,
  scan: NameScan,
): readonly (readonly [string, SessionKey])[] {
  const prefix = query.prefix ?? '';
  const limit = query.limit ?? Number.POSITIVE_INFINITY;
  const added = addedNames(query, changes);
  const found: (readonly [string, SessionKey])[] = [];
  let nextAdded = 0;
  for (const pair of storedNames(query, scan)) {
    for (let name = added[nextAdded]; name !== undefined && name[0] < pair[0]; name = added[nextAdded]) {
      if (found.length >= limit) return found;
      found.push(name);
      nextAdded += 1;
    }
    if (found.length >= limit || !pair[0].startsWith(prefix)) break;
    if (!changes.has(pair[0])) found.push(pair);
  }
  for (const name of added.slice(nextAdded)) {
    if (found.length >= limit) break;
    found.push(name);
  }
  return found;
}

function addedNames(
  query: NameQuery,
  changes: ReadonlyMap<string, SessionKey | undefined>,
): readonly (readonly [string, SessionKey])[] {
  const added: (readonly [string, SessionKey])[] = [];
  for (const [name, key] of changes) {
    const wanted = name.startsWith(query.prefix ?? '') && (query.after === undefined || name > query.after);
    if (key !== undefined && wanted) added.push([name, key]);
  }
  return added.sort(([a], [b]) => (a < b ? -1 : 1));
}

function* storedNames(query: NameQuery, scan: NameScan): Iterable<readonly [string, SessionKey]> {
  const prefix = query.prefix ?? '';
  let exclusive = query.after !== undefined && query.after >= prefix;
  let from = exclusive ? (query.after ?? '') : prefix;
  for (;;) {
    const page = scan(from, exclusive, SCAN_NAMES);
    for (const pair of page) {
      yield pair;
      from = pair[0];
    }
    if (page.length < SCAN_NAMES) return;
    exclusive = true;
  }
}
