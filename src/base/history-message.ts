/**
 * A message in the form that `session.history` shows and accepts: one assistant message with its calls, one `tool`
 * message for each result. The log keeps the finer form of `messages.ts`; `src/session/history` translates both ways.
 * Types only.
 */
import type { Json } from './json.ts';
import type { ContentBlock, Usage } from './messages.ts';

/** One call of an assistant message. `arguments` is a JSON text, like the model's input. */
export interface HistoryCall {
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * One part of a model's reasoning. Parts are never reordered, merged or edited. Parts of `format` `anthropic` are sent
 * back to the model byte for byte; parts of other formats are kept and not sent.
 */
export interface ReasoningPart {
  readonly type: 'text' | 'summary' | 'encrypted';
  readonly format?: string;
  readonly [field: string]: Json | undefined;
}

/** The fields of every message of a history. Other fields are kept as given and never sent. */
export interface HistoryFields {
  /** Unique in the session; `m<n>` when none was given. */
  readonly id: string;
  /** Epoch ms. An imported message keeps its own `createdAt`. */
  readonly createdAt: number | string;
  /** The key that the message was sent with; missing: it had none. */
  readonly key?: string;
  /** The task (see `startTask`) that the message belongs to. A message without a task appears in every branch. */
  readonly taskId?: number;
  /** True for a message that is sent to the model and hidden from people, and that no user wrote. */
  readonly systemInjected?: boolean;
  readonly sessionContext?: boolean;
  readonly sessionDate?: string;
  readonly memoryUpdate?: boolean;
  readonly subagentInstructions?: boolean;
  readonly subagentResult?: boolean;
  readonly compressedSummary?: boolean;
  readonly chunkIndex?: boolean;
  readonly chunkCount?: number;
  readonly truncated?: boolean;
  /** True for a message that is shown to the model while this process lives, and never stored. */
  readonly transient?: boolean;
  readonly [field: string]: unknown;
}

/** One message of a history. */
export type HistoryMessage =
  | (HistoryFields & { readonly role: 'system'; readonly content: string })
  | (HistoryFields & { readonly role: 'user'; readonly content: string | readonly ContentBlock[] })
  | AssistantMessage
  | ToolMessage;

/** An answer of a model, with the calls it requested. */
export type AssistantMessage = HistoryFields & {
  readonly role: 'assistant';
  readonly content: string;
  readonly toolCalls?: readonly HistoryCall[];
  readonly tokenUsage?: Usage;
  readonly structuredOutput?: unknown;
  readonly reasoning?: readonly ReasoningPart[];
  readonly reasoningContent?: string | null;
  readonly finishReason?: string;
  readonly finishReasonRaw?: string;
  /**
   * All blocks of the answer, when content, calls and reasoning do not express everything (server tools, interleaved
   * reasoning).
   */
  readonly blocks?: readonly ContentBlock[];
};

/** The result of a call. It is an error exactly when `error` is neither missing nor null. */
export type ToolMessage = HistoryFields & {
  readonly role: 'tool';
  readonly content: string | readonly ContentBlock[];
  readonly toolCallId: string;
  readonly name: string;
  readonly error?: string | null;
  readonly errorType?: string | null;
};

/** A message from the embedder. A missing id or time is filled in. */
export interface HistoryDraft {
  readonly role: HistoryMessage['role'];
  readonly id?: string;
  readonly createdAt?: number | string;
  readonly [field: string]: unknown;
}

/**
 * Names one message of one session: by its id, and by the number of its first logged message (0: it is transient).
 * `incarnation` differs between a deleted session and a new one of the same id.
 */
export interface MessageHandle {
  readonly id: string;
  readonly seq: number;
  readonly session: string;
  readonly incarnation: number;
}
