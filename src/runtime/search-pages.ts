/** How an index follows the log of a shard: page by page, which sessions were written to. Runs on the shard's thread. */
import { SEARCH_PAGE_ENTRIES } from '../base/bounds.ts';
import type { Journal } from '../journal/journal.ts';

/** A session that was written to. */
export interface WrittenSession {
  readonly session: string;
  /** The journal's number for it: another one under the same name is another session. */
  readonly key: number;
  /** Messages may have changed or left: what is known of it is to be read anew. */
  readonly isEdited: boolean;
}

/** One page of the log. */
export interface WrittenPage {
  readonly position: number;
  readonly sessions: readonly WrittenSession[];
  /** Nothing was written after it. */
  readonly isComplete: boolean;
}

/** Records after which a message may be gone or read otherwise, by their text: a text that quotes them costs a reading. */
const EDITS: readonly string[] = ['"type":"edited"', '"bounced":', '"type":"restarted"'];

/** The sessions written to after a position, in one page. */
export function writtenAfter(journal: Journal, after: number): WrittenPage {
  const edited = new Map<number, boolean>();
  let position = after;
  let entries = 0;
  let isComplete = true;
  for (const entry of journal.tail(after)) {
    // The entries of one turn have one position: they are in one page.
    if (entries >= SEARCH_PAGE_ENTRIES && entry.position !== position) {
      isComplete = false;
      break;
    }
    position = entry.position;
    entries += 1;
    const isEdit = EDITS.some((mark) => entry.data.includes(mark));
    edited.set(entry.key, isEdit || edited.get(entry.key) === true);
  }
  const sessions: WrittenSession[] = [];
  for (const [key, isEdited] of edited) {
    const session = journal.nameOf(key);
    if (session !== undefined) sessions.push({ session, key, isEdited });
  }
  return { position, sessions, isComplete };
}
