/** The public API of troupe. */

export type { AnswerDraft, LossReason } from './base/answer-draft.ts';
export type { AuditAct, AuditAction, AuditDetails, AuditEntry } from './base/audit/audit-entry.ts';
export type { Limits } from './base/bounds.ts';
export type { Clock, Random } from './base/clock.ts';
export {
  AgentMissingError,
  type AnswerErrorCode,
  CancelledError,
  ConfigError,
  ContentError,
  type ErrorCode,
  type ErrorShape,
  type InvalidArgumentCode,
  InvalidArgumentError,
  InvalidNameError,
  KeyReusedError,
  LimitError,
  MailboxFullError,
  ModelAuthenticationError,
  ModelError,
  ModelInvalidRequestError,
  RedactionError,
  SessionBusyError,
  StoreCorruptError,
  StoreFullError,
  StoreKeyError,
  StoreLockedError,
  StoreLostError,
  StoreNotWritableError,
  StoreVersionError,
  TimeoutError,
  TroupeError,
  TurnFailedError,
  UpgradeError,
} from './base/errors.ts';
export type { Goal, GoalStatus, SubGoal } from './base/goals.ts';
export type {
  AssistantMessage,
  HistoryCall,
  HistoryDraft,
  HistoryMessage,
  MessageHandle,
  ReasoningPart,
  ToolMessage,
} from './base/history-message.ts';
export { sanitise } from './base/json.ts';
export type {
  CacheCreation,
  ContentBlock,
  Deliver,
  Message,
  Pending,
  ResultBlock,
  SearchResultBlock,
  Source,
  TurnAgent,
  Usage,
  UsageIteration,
  UserContent,
} from './base/messages.ts';
export type { Settings, SettingsInput } from './base/settings.ts';
export {
  checkRequest,
  type LegalityOptions,
  type PausedTurnTest,
  type RuleId,
  type Violation,
} from './context/legality/legality.ts';
export type { Effort, ListedModel, ThinkingType } from './context/model-traits.ts';
export type { Definition } from './definitions/definition.ts';
export type { EventBody, LastError, LastOutcome, SessionEvent, SessionStatus } from './events/event.ts';
export type { Rendered, RenderedRole, ViewMode } from './events/rendered.ts';
export type {
  ViewedError,
  ViewedEvent,
  ViewedGoal,
  ViewedMessage,
  ViewedPending,
  ViewedSubGoal,
} from './events/viewed-event.ts';
export type { Durability } from './journal/journal.ts';
export type { BackupReport } from './journal/store/backup.ts';
export { type CompactionReport, compact } from './journal/store/compaction.ts';
export { type RestoreReport, restore } from './journal/store/restore.ts';
export { type AnthropicOptions, anthropic } from './models/anthropic/anthropic.ts';
export type { ModelList, ModelListing } from './models/model-list.ts';
export type { ModelOptions, ToolChoice } from './models/model-options.ts';
export type {
  GenerateContext,
  ModelDelta,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  OutputConfig,
  ProviderData,
  RateLimit,
  RateLimits,
  RequestMessage,
  RequestTool,
  RequestTransport,
  ServerToolSchema,
  Thinking,
  ToolChoiceField,
  ToolSchema,
} from './models/provider.ts';
export { retryAfter } from './models/retry-after.ts';
export type { MessageCallback } from './runtime/events/message-callbacks.ts';
export type { AuditOptions } from './runtime/handles/audit.ts';
export { Child, type ChildExit } from './runtime/handles/child.ts';
export {
  type DeadLetterOptions,
  DeadLetters,
  type DropOptions,
  type ResendOptions,
} from './runtime/handles/dead-letters.ts';
export type { AllEventOptions, EventOptions } from './runtime/handles/event-options.ts';
export { type ChildResult, type CompletedChild, type FailedChild, Family } from './runtime/handles/family.ts';
export { Goals } from './runtime/handles/goals.ts';
export { History } from './runtime/handles/history.ts';
export type { CompressOptions, EditOptions } from './runtime/handles/history-options.ts';
export { open } from './runtime/handles/open.ts';
export { Receipt, type ReceiptStatus } from './runtime/handles/receipt.ts';
export { Runtime, type RuntimeEnd, type RuntimeInfo, type RuntimeMetrics } from './runtime/handles/runtime.ts';
export { Session } from './runtime/handles/session.ts';
export type { ListedSession, ListOptions } from './runtime/handles/session-list.ts';
export type {
  ApprovalDecision,
  DeleteOptions,
  ForkOptions,
  PageOptions,
  ReplyOptions,
  SendOptions,
  StructuredSendOptions,
  UsageOptions,
} from './runtime/handles/session-options.ts';
export {
  type MessageSearchOptions,
  type MessageSearchResult,
  SessionsView,
  Tenant,
} from './runtime/handles/sessions-view.ts';
export type {
  SpawnAllOptions,
  SpawnExtra,
  SpawnOptions,
  StructuredSpawnOptions,
} from './runtime/handles/spawn-options.ts';
export type { WaitingOptions } from './runtime/handles/waiting.ts';
export {
  type Agent,
  type AgentOptions,
  agent,
  type StructuredAgentOptions,
  type SubagentOptions,
  type SupervisionOptions,
} from './runtime/protocol/agent.ts';
export type { EncryptionKey, EncryptionOptions } from './runtime/protocol/encryption-option.ts';
export type {
  AfterGuardrail,
  ApprovalCall,
  ApprovalPredicate,
  BeforeGuardrail,
  Guardrails,
  GuardrailVerdict,
} from './runtime/protocol/guardrails.ts';
export type { ListOrder, ListPlace } from './runtime/protocol/list-order.ts';
export type { ProviderMetrics } from './runtime/protocol/metrics.ts';
export type {
  EnricherOptions,
  GovernorOptions,
  Logger,
  OpenOptions,
  ThreadOptions,
} from './runtime/protocol/options.ts';
export type { AnswerOf, ObjectSchema, OutputSchema } from './runtime/protocol/output-option.ts';
export type { Page, PageKind, PageOf, RequestPage } from './runtime/protocol/pages.ts';
export type {
  ChunkInfo,
  CompressionResult,
  SessionSnapshot as SessionInfo,
  SessionSummary,
} from './runtime/protocol/protocol.ts';
export type {
  RedactFunction,
  RedactionKind,
  RedactionSource,
  RedactOption,
} from './runtime/protocol/redact-option.ts';
export type { SearchOptions, SearchReach, SearchScope, SearchScopeQuestion } from './runtime/protocol/search-scope.ts';
export type { HistoryEdit, HistoryEdits, UpgradeFunction, UpgradeState } from './runtime/protocol/upgrade.ts';
export type { BoundaryControl, WaitingListener } from './runtime/protocol/waiting-listeners.ts';
export type { WebhookOptions } from './runtime/protocol/webhook-options.ts';
export type { FoundMessage } from './runtime/search/service.ts';
export type { TaskMove } from './session/decide/tasks.ts';
export type { Explanation } from './session/explain.ts';
export { fillOrphans, pruneOrphans } from './session/history/repair.ts';
export type { TaskSummary } from './session/history/task-view.ts';
export {
  type ApiMessage,
  padReasoning,
  type ToApiOptions,
  toApi,
  wantsReasoningPad,
  withReasoningPad,
} from './session/history/to-api.ts';
export type { QueuedCall } from './session/rules/queued-calls.ts';
export { INTERRUPT_NOTICE } from './session/rules/tool-texts.ts';
export type { DeadLetter, DeadLetterSummary } from './session/state/letters.ts';
export type { McpToolsOptions } from './tools/mcp/grants.ts';
export { type McpTools, mcpTools } from './tools/mcp/mcp-tools.ts';
export type { McpAddress, McpEffect, McpProcess, McpServer, McpServerMap } from './tools/mcp/protocol.ts';
export {
  type ResponseInclusion,
  type ServerTool,
  type ServerToolCaller,
  type ServerToolOptions,
  type ServerToolSettings,
  type ServerToolTypes,
  serverTool,
  type UrlSource,
  type UserLocation,
  type WebFetchSettings,
  type WebSearchSettings,
  type WebToolSettings,
} from './tools/server-tool.ts';
export type { ServerToolEntry } from './tools/server-tool-entry.ts';
export {
  type Effect,
  type JsonSchema,
  type StandardSchema,
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolOptions,
  type ToolRetry,
  tool,
} from './tools/tool.ts';
export { content, type ToolContent } from './tools/tool-content.ts';
