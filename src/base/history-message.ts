/**
 * A message as the conversation handle and the history operations speak of it: one assistant message with its calls, one
 * `tool` message a result. The log keeps the finer shape of `messages.ts`; `src/session/history` translates both ways.
 * Types only.
 */
import type { Json } from './json.ts';
import type { ContentBlock, Usage } from './messages.ts';

/** One call of an assistant message. `arguments` is a JSON text, as the model's input was. */
export interface HistoryCall {
  readonly callId: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * One part of a model's reasoning; opaque: never reordered, merged or edited. Parts of `format` `anthropic` are replayed to the
 * model byte for byte, those of other formats are kept and not sent.
 */
export interface ReasoningPart {
  readonly type: 'text' | 'summary' | 'encrypted';
  readonly format?: string;
  readonly [field: string]: Json | undefined;
}

/** What every message of a history has. Fields beyond the named are kept as given and never sent. */
export interface HistoryFields {
  /** Unique in the session; `m<n>` where nobody gave one. */
  readonly id: string;
  /** Epoch ms, or what an imported message had. */
  readonly createdAt: number | string;
  /** The task (see `startTask`) it belongs to; missing: to none, it is shown on every branch. */
  readonly taskId?: number;
  /** Sent to the model, hidden from people, no user's own message. */
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
  /** Shown to the model while this process lives, and never stored. */
  readonly transient?: boolean;
  readonly [field: string]: unknown;
}

/** One message of a history. */
export type HistoryMessage =
  | (HistoryFields & { readonly role: 'system'; readonly content: string })
  | (HistoryFields & { readonly role: 'user'; readonly content: string | readonly ContentBlock[] })
  | AssistantMessage
  | ToolMessage;

/** What a model said, with the calls it asked for. */
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
  /** All blocks of the answer, where content, calls and reasoning do not say everything (server tools, interleaved thought). */
  readonly blocks?: readonly ContentBlock[];
};

/** The result of a call. An error exactly when `error` is neither missing nor null. */
export type ToolMessage = HistoryFields & {
  readonly role: 'tool';
  readonly content: string | readonly ContentBlock[];
  readonly toolCallId: string;
  readonly name: string;
  readonly error?: string | null;
  readonly errorType?: string | null;
};

/** A message as it is given: what it lacks of id and time is given to it. */
export interface HistoryDraft {
  readonly role: HistoryMessage['role'];
  readonly id?: string;
  readonly createdAt?: number | string;
  readonly [field: string]: unknown;
}

/**
 * Names one message of one session: by its id, and by the number of the first logged message of it (0: it is transient).
 * `incarnation` differs between a deleted session and a new one of the same id.
 */
export interface MessageHandle {
  readonly id: string;
  readonly seq: number;
  readonly session: string;
  readonly incarnation: number;
}
