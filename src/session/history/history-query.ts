/** Runs queries of a history by name, so that other threads can send queries to the thread of the session. Pure. */
import type { HistoryMessage } from '../../base/history-message.ts';
import type { TransientMessage } from '../state/edit-request.ts';
import type { SessionState } from '../state/state.ts';
import { historyMessages } from './history-form.ts';
import * as queries from './queries.ts';
import { type ToApiOptions, toApi } from './to-api.ts';
import { visibleEntries } from './transient.ts';

/** One query. */
export type HistoryQuery =
  | { readonly name: QueryName | 'messages' | 'toArray' | 'snapshot' | 'size' }
  | { readonly name: 'toApi'; readonly options: ToApiOptions };

/** Queries without arguments. */
export type QueryName =
  | 'orphanedToolCallIds'
  | 'pendingToolCalls'
  | 'steps'
  | 'finalAssistantMessage'
  | 'hasSystemPrompt'
  | 'hasPendingToolCalls'
  | 'lastSessionContextDate'
  | 'lastInjectedChunkCount'
  | 'realUserMessages'
  | 'lastRealUserIndex'
  | 'subagentInstructionMessage'
  | 'estimateTokens';

/** The messages, with the session's epoch. A different epoch later shows that messages were changed. */
export interface HistorySnapshot {
  readonly epoch: number;
  readonly messages: readonly HistoryMessage[];
}

const PLAIN_QUERIES: Readonly<Record<QueryName, (messages: readonly HistoryMessage[]) => unknown>> = {
  orphanedToolCallIds: queries.orphanedToolCallIds,
  pendingToolCalls: queries.pendingToolCalls,
  steps: queries.steps,
  finalAssistantMessage: queries.finalAssistantMessage,
  hasSystemPrompt: queries.hasSystemPrompt,
  hasPendingToolCalls: queries.hasPendingToolCalls,
  lastSessionContextDate: queries.lastSessionContextDate,
  lastInjectedChunkCount: queries.lastInjectedChunkCount,
  realUserMessages: queries.realUserMessages,
  lastRealUserIndex: queries.lastRealUserIndex,
  subagentInstructionMessage: queries.subagentInstructionMessage,
  estimateTokens: queries.estimateHistoryTokens,
};

/** The answer to a query; plain data. */
export function answerQuery(
  state: SessionState,
  transients: readonly TransientMessage[] | undefined,
  query: HistoryQuery,
): unknown {
  if (query.name === 'toArray') return historyMessages(state);
  const messages = visibleEntries(state, transients).map((entry) => entry.message);
  switch (query.name) {
    case 'messages':
      return messages;
    case 'snapshot':
      return { epoch: state.epoch, messages } satisfies HistorySnapshot;
    case 'size':
      return messages.length;
    case 'toApi':
      return toApi(messages, query.options);
    default:
      return PLAIN_QUERIES[query.name](messages);
  }
}
