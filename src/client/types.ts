/** The types of the server's answers, as the runtime declares them. */

export type { Goal } from '../base/goals.ts';
export type { Deliver, Message, Pending, Usage, UserContent } from '../base/messages.ts';
export type { SessionEvent } from '../events/event.ts';
export type { ShortViewMode, ViewedEvent } from '../events/viewed-event.ts';
export type {
  Agent,
  ApprovalDecision,
  AuditEntry,
  AuditOptions,
  DeadLetter,
  DeadLetterSummary,
  Explanation,
  ForkOptions,
  HistoryMessage,
  ListedSession,
  ListOptions,
  MessageSearchResult,
  QueuedCall,
  ReceiptStatus,
  ResendOptions,
  SessionInfo,
  SessionSummary,
  UsageOptions,
} from '../index.ts';
