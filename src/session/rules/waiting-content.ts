/**
 * Content of waiting entries that only the log keeps. A full mailbox would otherwise fill the memory of its thread: a large
 * content is dropped from the state once its `accepted` record has a place in the log, and is read back from there when the
 * entry is claimed. Pure: the owner of the log says where a record is and reads it back.
 */

import type { Content, FilledEntry, MailboxEntry, ReadContent, StoredContent } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/** True when only the log has this content. */
export function isStored(content: Content | StoredContent): content is StoredContent {
  return typeof content === 'object' && 'storedAt' in content;
}

/** The content of a waiting entry, from the log where only the log has it. Throws where `read` is missing then. */
export function contentOf(entry: Pick<MailboxEntry, 'id' | 'content'>, read: ReadContent | undefined): Content {
  const { id, content } = entry;
  if (!isStored(content)) return content;
  if (read === undefined) throw new Error(`nothing reads the content of entry ${id} back`);
  return read({ id, content });
}

/** The entry with its content, read back where only the log has it. */
export function withContent(entry: MailboxEntry, read: ReadContent | undefined): FilledEntry {
  const { content } = entry;
  return isStored(content) ? { ...entry, content: contentOf(entry, read) } : { ...entry, content };
}

/**
 * Drops the contents of entries that these records accepted and that still wait, from `bytesMin` bytes on. `position`: where the
 * log has the records. What shares its text with a message of the log keeps it.
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
    // Ascending by id (S2): the entry is among the last ones, or was claimed in the same turn.
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
