/** Messages, waiting entries and calls as a session's state holds them, and their public forms. Plain data. */
import type { Draft } from '../../base/draft.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import {
  type ContentBlock,
  isServerResult,
  isServerUse,
  isThought,
  type Message,
  type Pending,
} from '../../base/messages.ts';
import type { AnswerForm } from './answer-form.ts';
import type { AnsweredElicitation } from './elicitation.ts';

/** A content in the form the embedder gave it. */
export type Content = string | readonly ContentBlock[];

/** A placeholder for content that is only in the log. */
export interface StoredContent {
  /** Position of the transition that accepted the entry, in its session's log. */
  readonly storedAt: number;
}

/** Reads the content of a waiting entry from the log. Throws when the log does not have it. */
export type ReadContent = (entry: { readonly id: number; readonly content: StoredContent }) => Content;

/** A waiting entry with its content. */
export type FilledEntry = MailboxEntry & { readonly content: Content };

/** A message with the members that only the runtime needs, most of them for rendering requests. */
export interface LoggedMessage extends Message {
  /** On the first message of a model answer: all blocks of the answer, replayed unchanged. */
  readonly blocks?: readonly ContentBlock[];
  /** True for each later message of an answer. The `blocks` of the answer's first message contain this message. */
  readonly inAnswer?: true;
  /**
   * True for the first message after an answered request. It starts a separate request message even if the role is the
   * same, so that each request is a prefix of the next.
   */
  readonly opens?: true;
  /** True for both messages of a phantom pair: a call that the runtime added to show the model a text as its result. */
  readonly phantom?: true;
  /** True for the message of a child's task. Once it has left the window, the text before the window shows the task. */
  readonly pinned?: true;
  /** `tool_call` only: the call's own timeout, ms. */
  readonly timeoutMs?: number;
  /** The form in which the embedder gave the message. Only the first logged message of several has this member. */
  readonly history?: HistoryMessage;
  /** True for a system message of the history. It belongs to the system prompt, not to the conversation. */
  readonly prompt?: true;
  /** Position in the conversation, for a message that was inserted between others; missing: the seq is the position. */
  readonly place?: number;
  /** Numbers of the compressions that removed the message from the conversation. */
  readonly archivedBy?: readonly number[];
  /** For a shortened result: the seq of the whole result. */
  readonly shortens?: number;
}

/** The number of images in a content, and the longest side of any of them in pixels; 0 if that is unknown. */
export interface ImageTally {
  readonly count: number;
  readonly side: number;
}

/** A waiting entry, with the members that its promotion and the reply to its sender need. */
export interface MailboxEntry extends Omit<Pending, 'content'> {
  readonly content: Content | StoredContent;
  /** UTF-8 bytes of the content, wherever it is stored, and of the answer's form. */
  readonly bytes: number;
  /** The images of the content, wherever it is stored; missing: it has none. */
  readonly images?: ImageTally;
  readonly bounceBack?: boolean;
  readonly seed?: number;
  /** The form of the answer that the sender asks for. The entry then has a separate turn. */
  readonly output?: AnswerForm;
  /** The number of the dead letter that this entry sends again. */
  readonly letter?: number;
}

/** A call without a response. */
export interface OpenCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** Message seq of the call. The call's idempotency key is made of it and the session's id and creation time. */
  readonly seq: number;
  /** Epoch ms of the answer that asked for this call. */
  readonly at: number;
  readonly timeoutMs?: number;
  /**
   * The last answered question of the call's MCP server. The call continues with that answer. Missing: there is none.
   */
  readonly elicited?: AnsweredElicitation;
}

/** True for an entry whose sender has a receipt: a user's message, or a dead letter that was sent again. */
export function hasReceipt({ type, letter }: Pick<MailboxEntry, 'type' | 'letter'>): boolean {
  return type === 'user_message' || letter !== undefined;
}

/** True for a message of a user or an agent: not a call, a result or a note of the runtime. */
export function isSpoken({ type }: Pick<Message, 'type'>): boolean {
  return type === 'user_message' || type === 'agent_message';
}

/** The public form of a message, without the members that only the runtime needs. */
export function publicMessage(message: LoggedMessage): Message {
  const { seq, type, content, at, tokens, toolUseId, toolName, input, success, source, usage } = message;
  const key = messageKey(message);
  const shown: Draft<Message> = { seq, type, content, at, tokens };
  if (toolUseId !== undefined) shown.toolUseId = toolUseId;
  if (toolName !== undefined) shown.toolName = toolName;
  if (input !== undefined) shown.input = input;
  if (success !== undefined) shown.success = success;
  if (source !== undefined) shown.source = source;
  if (usage !== undefined) shown.usage = usage;
  if (key !== undefined) shown.key = key;
  const { blocks } = message;
  if (blocks?.some(isShownBlock)) shown.blocks = blocks.filter((block) => !isThought(block));
  return shown;
}

/** The key that a message was sent with. For an imported or changed message, the key in its `history` form wins. */
export function messageKey({ key, history }: Pick<LoggedMessage, 'key' | 'history'>): string | undefined {
  const kept = history?.key;
  return typeof kept === 'string' ? kept : key;
}

/** True for a block that no other member of a message shows. */
function isShownBlock(block: ContentBlock): boolean {
  return isServerUse(block) || isServerResult(block) || block.type === 'provider_part';
}

/** The public form of a mailbox entry. */
export function publicEntry(entry: FilledEntry): Pending {
  const { id, type, kind, content, at, source, toolUseId, success, deliver, key } = entry;
  const shown: Draft<Pending> = { id, type, kind, content, at, source };
  if (toolUseId !== undefined) shown.toolUseId = toolUseId;
  if (success !== undefined) shown.success = success;
  if (deliver !== undefined) shown.deliver = deliver;
  if (key !== undefined) shown.key = key;
  return shown;
}

/** A call of the model, as it was dispatched. */
export interface DispatchedCall {
  readonly id: string;
  /**
   * Why the call is answered with a failure instead of being run, for example because the token limit cut it off.
   */
  readonly refused?: string;
  /** The timeout the model asked for, if the tool allows that; ms. */
  readonly timeoutMs?: number;
}

/** The next step after an answer. `form`: judge the structured answer, then end the turn or ask for a correction. */
export type Continuation = 'tools' | 'pause' | 'end' | 'form';
