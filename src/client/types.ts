/** The shapes that the server answers with, as the runtime declares them. */

export type { Goal } from '../base/goals.ts';
export type { Deliver, Message, Pending, UserContent } from '../base/messages.ts';
export type { SessionEvent } from '../events/event.ts';
export type { ShortViewMode, ViewedEvent } from '../events/viewed-event.ts';
export type {
  Agent,
  ApprovalDecision,
  Explanation,
  ForkOptions,
  HistoryMessage,
  ListedSession,
  ListOptions,
  MessageSearchResult,
  QueuedCall,
  ReceiptStatus,
  SessionInfo,
  SessionSummary,
} from '../index.ts';
