/**
 * Keeps large contents of waiting entries in the log alone, because a full mailbox would otherwise fill the memory of
 * its thread. A large content leaves the state once its `accepted` record has a position in the log. When the entry is
 * claimed, the content is read from the log. Pure: the log's owner provides the positions of records and reads them.
 */

import type { Content, FilledEntry, MailboxEntry, ReadContent, StoredContent } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/** True when only the log has this content. */
export function isStored(content: Content | StoredContent): content is StoredContent {
  return typeof content === 'object' && 'storedAt' in content;
}

/**
 * The content of a waiting entry, read from the log if only the log has it. Throws if only the log has the content and
 * `read` is missing.
 */
export function contentOf(entry: Pick<MailboxEntry, 'id' | 'content'>, read: ReadContent | undefined): Content {
  const { id, content } = entry;
  if (!isStored(content)) return content;
  if (read === undefined) throw new Error(`nothing reads the content of entry ${id} back`);
  return read({ id, content });
}

/** The entry with its content, read from the log if only the log has it. */
export function withContent(entry: MailboxEntry, read: ReadContent | undefined): FilledEntry {
  const { content } = entry;
  return isStored(content) ? { ...entry, content: contentOf(entry, read) } : { ...entry, content };
}

/**
 * Drops contents of at least `bytesMin` bytes from entries that these records accepted and that still wait. `position`:
 * the position of the records in the log. The entry of a child's task keeps its content: it shares the text with the
 * task's message.
 */
export function storeContents(
  state: SessionState,
  records: readonly SessionRecord[],
  position: number,
  bytesMin: number,
): void {
  for (const record of records) {
    if (record.type !== 'accepted' || record.entry.seed !== undefined) continue;
    const { mailbox } = state;
    // The list ascends by id (S2), so the entry is among the last ones, unless it was claimed in the same transition.
    let index = mailbox.length - 1;
    while ((mailbox[index]?.id ?? 0) > record.id) index -= 1;
    const entry = mailbox[index];
    if (entry?.id !== record.id || entry.bytes < bytesMin) continue;
    mailbox[index] = { ...entry, content: { storedAt: position } };
  }
}

/** The content these records accepted for an entry; undefined when they accepted no such entry. */
export function acceptedContent(records: readonly SessionRecord[], id: number): Content | undefined {
  for (const record of records) if (record.type === 'accepted' && record.id === id) return record.entry.content;
  return undefined;
}
