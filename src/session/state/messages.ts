/** Messages, waiting entries and calls as a session's state has them, and their public forms. Plain data. */
import type { Draft } from '../../base/draft.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { ContentBlock, Message, Pending } from '../../base/messages.ts';

/** A content as an embedder gave it. */
export type Content = string | readonly ContentBlock[];

/** Stands for a content that only the log has. */
export interface StoredContent {
  /** Position of the turn that accepted the entry, in the log of its session. */
  readonly storedAt: number;
}

/** Reads the content of a waiting entry back. Throws when the log does not have it. */
export type ReadContent = (entry: { readonly id: number; readonly content: StoredContent }) => Content;

/** A waiting entry with its content. */
export type FilledEntry = MailboxEntry & { readonly content: Content };

/** A message with what rendering needs beside the public fields. */
export interface LoggedMessage extends Message {
  /** First message of a model answer: all blocks of the answer, replayed as they came (R20). */
  readonly blocks?: readonly ContentBlock[];
  /** A later message of the same answer: contained in `blocks` of the first. */
  readonly inAnswer?: true;
  /**
   * First message after an answered request: it starts a request message of its own even if the role is the same, so that
   * what was sent stays a prefix of what is sent next (A8).
   */
  readonly opens?: true;
  /** Half of a phantom pair. */
  readonly phantom?: true;
  /** The child's task: shown again by the context prefix once it has left the window. */
  readonly pinned?: true;
  /** `tool_call` only: the call's own timeout (Δ1), ms. */
  readonly timeoutMs?: number;
  /** Put there by the embedder: the message in the form it was given; on the first of its parts. */
  readonly history?: HistoryMessage;
  /** A system message of the history: part of the system prompt, not of the conversation. */
  readonly prompt?: true;
  /** Where it stands in the conversation, for what was put between others; missing: at its seq. */
  readonly place?: number;
  /** Numbers of the compactions that took it out of the conversation; see `branch.ts`. */
  readonly archivedBy?: readonly number[];
  /** The short form of a result: the seq of the whole one. */
  readonly shortens?: number;
}

/** A waiting entry with what its promotion and its sender need. */
export interface MailboxEntry extends Omit<Pending, 'content'> {
  readonly content: Content | StoredContent;
  /** UTF-8 bytes of the content, wherever it is. */
  readonly bytes: number;
  readonly bounceBack?: boolean;
  readonly seed?: number;
}

/** A call without a response. */
export interface OpenCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** Message seq of the call: with the session's id the call's idempotency key. */
  readonly seq: number;
  /** Epoch ms of the answer that asked for it. */
  readonly at: number;
  readonly timeoutMs?: number;
}

/** The public form of a message: without what only rendering needs. */
export function publicMessage(message: LoggedMessage): Message {
  const { seq, type, content, at, tokens, toolUseId, toolName, input, success, source, usage } = message;
  const shown: Draft<Message> = { seq, type, content, at, tokens };
  if (toolUseId !== undefined) shown.toolUseId = toolUseId;
  if (toolName !== undefined) shown.toolName = toolName;
  if (input !== undefined) shown.input = input;
  if (success !== undefined) shown.success = success;
  if (source !== undefined) shown.source = source;
  if (usage !== undefined) shown.usage = usage;
  return shown;
}

/** The public form of a mailbox entry. */
export function publicEntry(entry: FilledEntry): Pending {
  const { id, type, kind, content, at, source, toolUseId, success, deliver } = entry;
  const shown: Draft<Pending> = { id, type, kind, content, at, source };
  if (toolUseId !== undefined) shown.toolUseId = toolUseId;
  if (success !== undefined) shown.success = success;
  if (deliver !== undefined) shown.deliver = deliver;
  return shown;
}

/** A call of the model, as it was dispatched. */
export interface DispatchedCall {
  readonly id: string;
  /** Why the call is not run but answered with a failure: cut off by the token limit, or unreadable. */
  readonly refused?: string;
  /** Timeout the model asked for, where the tool allows it; ms. */
  readonly timeoutMs?: number;
}

/** What happens after an answer. */
export type Continuation = 'tools' | 'pause' | 'end';
