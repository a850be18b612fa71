/** How an index follows the log of a shard: page by page, what was written, as it was written. Runs on the shard's thread. */
import { SEARCH_PAGE_CHARACTERS, SEARCH_PAGE_ENTRIES } from '../base/bounds.ts';
import type { Journal, SessionKey } from '../journal/journal.ts';

/** One page of the log. `keys`, `positions` and `turns` have one place for each entry. */
export interface LogPage {
  /** Where the next page begins: give it as `after`. */
  readonly position: number;
  /** The journal's number for the session that was written. */
  readonly keys: readonly number[];
  readonly positions: readonly number[];
  /** What was written, as the log has it. */
  readonly turns: readonly string[];
  /** The sessions of the page: another number under the same name is another session. */
  readonly sessions: readonly (readonly [key: number, name: string])[];
  /** Nothing was written after it. */
  readonly isComplete: boolean;
}

/** What was written after a position, in one page. */
export function logAfter(journal: Journal, after: number): LogPage {
  const keys: number[] = [];
  const positions: number[] = [];
  const turns: string[] = [];
  const names = new Map<SessionKey, string>();
  let position = after;
  let characters = 0;
  let isComplete = true;
  for (const entry of journal.tail(after)) {
    const isFull = keys.length >= SEARCH_PAGE_ENTRIES || characters + entry.data.length > SEARCH_PAGE_CHARACTERS;
    // The entries of one turn have one position: they are in one page. And a page has one at least.
    if (isFull && keys.length > 0 && entry.position !== position) {
      isComplete = false;
      break;
    }
    position = entry.position;
    if (!names.has(entry.key)) {
      const name = journal.nameOf(entry.key);
      if (name === undefined) continue;
      names.set(entry.key, name);
    }
    characters += entry.data.length;
    keys.push(entry.key);
    positions.push(entry.position);
    turns.push(entry.data);
  }
  return { position, keys, positions, turns, sessions: [...names], isComplete };
}
