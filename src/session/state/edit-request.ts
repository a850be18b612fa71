/** Requests for operations on a history, as plain data. `message-check.ts` has checked them before. */
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import type { Json } from '../../base/json.ts';

/** One operation. A predicate of the caller was evaluated before: the request names the messages that matched it. */
export type EditRequest =
  | { readonly operation: 'add' | 'append'; readonly message: HistoryDraft; readonly silent: boolean }
  | { readonly operation: 'set' | 'replaceAll' | 'seed'; readonly messages: readonly HistoryDraft[] }
  | { readonly operation: 'unset' | 'discardPendingToolCalls' | 'popLast' }
  | { readonly operation: 'remove' | 'rollbackBefore'; readonly id: string }
  | {
      readonly operation: 'update';
      readonly id?: string;
      readonly toolCallId?: string;
      readonly attributes: Readonly<Record<string, Json>>;
    }
  | {
      readonly operation: 'replaceSystemPrompt';
      readonly text: string;
      readonly extra: Readonly<Record<string, Json>>;
    }
  /**
   * `epoch`: the session's epoch when the messages were found. In another epoch the history has changed since then.
   */
  | { readonly operation: 'deleteWhere'; readonly ids: readonly string[]; readonly epoch: number }
  | {
      readonly operation: 'mutateLastMatching';
      readonly id: string;
      readonly message: HistoryDraft;
      readonly epoch: number;
    }
  | { readonly operation: 'truncateFrom'; readonly index: number }
  | { readonly operation: 'truncateFromCreatedAt'; readonly createdAt: string }
  | {
      readonly operation: 'attachToToolResult';
      readonly callId: string;
      readonly key: string;
      readonly value: Json;
    }
  | { readonly operation: 'settleInterrupted'; readonly trails: Readonly<Record<string, Json>> }
  | { readonly operation: 'addExtensionEvent'; readonly event: Json };

/** A message that is shown and never stored. */
export interface TransientMessage {
  readonly message: HistoryMessage;
  /** Seq of the logged message that this message follows; 0: this message precedes all logged messages. */
  readonly anchor: number;
}
