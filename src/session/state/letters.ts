/** Dead letters as a session's state holds them, and their public forms. Plain data. */
import { defined } from '../../base/defined.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { PendingType, Source } from '../../base/messages.ts';
import type { Content, FilledEntry, MailboxEntry } from './messages.ts';

/** An entry that left the mailbox because it could not be promoted. Its number is the entry's id. */
export interface DeadLetterEntry {
  readonly entry: MailboxEntry;
  readonly error: ErrorShape;
  /** Epoch ms at which the entry was set aside. */
  readonly at: number;
}

/** A dead letter that was sent again, with the entry that the letter became. */
export interface ResentLetter {
  readonly letter: number;
  readonly pendingId: number;
  /** The number of that entry's `pending.created` event. */
  readonly seq: number;
}

/** A dead letter in a list: a mailbox entry that could not become messages, and was set aside. */
export interface DeadLetterSummary {
  readonly session: string;
  /** The number of the letter in its session: the id that its entry had in the mailbox. */
  readonly id: number;
  readonly type: PendingType;
  readonly source: Source;
  /** Epoch ms at which the entry was accepted. */
  readonly at: number;
  /** Epoch ms at which the entry was set aside. */
  readonly setAsideAt: number;
  /** UTF-8 bytes of the content. */
  readonly bytes: number;
  /** Why the entry could not be promoted. */
  readonly error: ErrorShape;
}

/** A dead letter with its content. */
export interface DeadLetter extends DeadLetterSummary {
  readonly content: Content;
  readonly toolUseId?: string;
}

/** The form of a letter in lists. */
export function letterSummary(session: string, { entry, error, at }: DeadLetterEntry): DeadLetterSummary {
  const { id, type, source, bytes } = entry;
  return { session, id, type, source, at: entry.at, setAsideAt: at, bytes, error };
}

/** The whole letter. `filled`: its entry with the content. */
export function publicLetter(session: string, letter: DeadLetterEntry, filled: FilledEntry): DeadLetter {
  return { ...letterSummary(session, letter), content: filled.content, ...defined({ toolUseId: filled.toolUseId }) };
}
