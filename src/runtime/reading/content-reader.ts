/** Reads contents of waiting entries that are only in the log. */
import { StoreCorruptError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { acceptedContent } from '../../session/rules/waiting-content.ts';
import type { ReadContent } from '../../session/state/messages.ts';
import { decodeTransition } from '../../session/state/records.ts';
import type { SharedMedia } from '../../session/state/shared-media.ts';

/**
 * Returns a function that reads contents of waiting entries back from a session's log. The function throws
 * `StoreCorruptError` when the log does not have the content. `media`: see `SharedMedia`.
 */
export function contentReader(journal: Pick<Journal, 'entry'>, key: SessionKey, media?: SharedMedia): ReadContent {
  return ({ id, content }) => {
    const entry = journal.entry(key, content.storedAt);
    const found = entry === undefined ? undefined : acceptedContent(decodeTransition(entry.data, media).records, id);
    if (found !== undefined) return found;
    const message = `the content of entry ${id} is not in the log at ${content.storedAt}`;
    throw new StoreCorruptError(message, { data: { key, position: content.storedAt } });
  };
}
