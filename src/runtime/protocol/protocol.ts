/**
 * The messages between the host thread and a shard. Requests and answers are plain data; each request of a method has
 * one answer.
 */

import type { AgentPlan } from '../../../actors/agent-plan.ts';
import type { AnswerDraft } from '../../base/answer-draft.ts';
import type { Limits } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { Goal, GoalChange } from '../../base/goals.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Json } from '../../base/json.ts';
import type { ContentBlock, Deliver, Message, Pending, Usage } from '../../base/messages.ts';
import type { Settings } from '../../base/settings.ts';
import type { ShardPlace } from '../../cluster/cluster-journal.ts';
import type { ListedModel } from '../../context/model-traits.ts';
import type {
  LastError,
  LastOutcome,
  Phase,
  SessionEvent,
  SessionStateName,
  SessionStatus,
} from '../../events/event.ts';
import type { StoreEncryption } from '../../journal/encryption/master-keys.ts';
import type { Durability } from '../../journal/journal.ts';
import type { JournalCopy, SessionKey } from '../../journal/position.ts';
import type { BlobPiece, RowChain, RowPiece } from '../../journal/stored-log.ts';
import type { GovernorLimits } from '../../models/governor/limits.ts';
import type { ModelRequest, ProviderData, RequestMessage } from '../../models/provider.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import type { Explanation } from '../../session/explain.ts';
import type { HistoryQuery } from '../../session/history/history-query.ts';
import type { TaskSummary } from '../../session/history/task-view.ts';
import type { Notice } from '../../session/rules/notices.ts';
import type { AnswerForm } from '../../session/state/answer-form.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { EnricherFacts, ReplacedMessage, SpawnRequest } from '../../session/state/inputs.ts';
import type { SessionRecord } from '../../session/state/records.ts';
import type { RemovedHistory } from '../../session/state/retention.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { McpGrantData } from '../../tools/mcp/grants.ts';
import type { McpToolList } from '../../tools/mcp/protocol.ts';
import type { ServerToolEntry } from '../../tools/server-tool-entry.ts';
import type { ToolDescription } from '../../tools/tool.ts';
import type { ToolOrigin } from '../../tools/tool-origin.ts';
import type { OfSession, ReceiptName } from './addresses.ts';
import type { AuditMethods } from './audit.ts';
import type { LetterMethods } from './letters.ts';
import type { ListRequest } from './list-order.ts';
import type { NoticePageRequest, NoticeScan, NoticeScanRequest } from './notices.ts';
import type { PageBounds, PageKind, PageOf } from './pages.ts';
import type { Retention } from './retention.ts';
import type { WaitingMethods } from './waiting-order.ts';

/** The source of an agent's tool. */
export type ToolSource =
  | { readonly kind: 'module'; readonly url: string }
  /** A tool of another agent, by its name in lower case. */
  | { readonly kind: 'named'; readonly name: string }
  /** A tool that the provider runs. No tool thread sees it. */
  | { readonly kind: 'server'; readonly entry: ServerToolEntry }
  /** A tool value. With an origin it runs in the tool threads, otherwise on the host thread. */
  | { readonly kind: 'value'; readonly description: ToolDescription; readonly origin?: ToolOrigin }
  /** Tools of an MCP server. The list of these tools is known later, and can change. */
  | { readonly kind: 'mcp'; readonly grant: McpGrantData };

/** An agent whose tools are not loaded yet. */
export interface AgentSource {
  readonly plan: AgentPlan;
  readonly tools: readonly ToolSource[];
}

/** How model calls are made: from data on the model threads, or by a provider value on the host thread. */
export type ProviderPlan =
  | { readonly kind: 'data'; readonly data: ProviderData }
  | { readonly kind: 'host'; readonly name: string };

/** A provider as a shard uses it. */
export interface ShardProvider {
  /** The provider's name in the option `providers`; empty for the provider of the option `provider`. */
  readonly key: string;
  readonly plan: ProviderPlan;
  /** This shard's share of the limits of the provider's key. */
  readonly governor?: GovernorLimits;
  /** The rates that the provider reports, shared by all shards. */
  readonly rates: SharedArrayBuffer;
}

/** The data from which a shard is built. If its thread dies, the next thread gets the same data. */
export interface ShardPlan {
  readonly index: number;
  readonly count: number;
  /** Directory of this shard's journal; missing: the journal is in memory. */
  readonly directory?: string;
  /** Directory of the result store. */
  readonly resultStore: string;
  readonly durability: Durability;
  /** Missing: the store is not encrypted. */
  readonly encryption?: StoreEncryption;
  /** The shard in its cluster; missing: the runtime is in no cluster. */
  readonly cluster?: ShardPlace;
  readonly agents: readonly AgentSource[];
  /** Enrichers of main sessions; missing: there are none. */
  readonly enrichers?: EnricherFacts;
  /** At least one provider. The first provider makes the calls of models whose name has no provider's prefix. */
  readonly providers: readonly ShardProvider[];
  readonly settings: Settings;
  readonly limits: Limits;
  /** How long data is kept; missing: as long as its session exists. */
  readonly retention?: Retention;
  /** See `StoreOptions`. */
  readonly eraseWithinMs: number;
  /** The URL of the module that redacts; missing: nothing is redacted, or the function was given as a value. */
  readonly redactModule?: string;
  readonly threads: { readonly models: number; readonly tools: number };
  /** True if the shard sends the notices of its sessions to the host, because there are webhooks. */
  readonly publishesNotices?: boolean;
  /** Counters shared with the host. */
  readonly counters: SharedArrayBuffer;
}

/** The request that starts a shard on its thread. The thread may have been started before its plan was known. */
export interface ShardStart {
  readonly plan: ShardPlan;
  /** Sessions whose runs wait for listeners on the host. */
  readonly gated: readonly string[];
  /** Sessions on which an earlier thread ran out of memory; see `isolated-sessions.ts`. */
  readonly isolated: readonly SessionKey[];
  readonly learned: Learned;
}

/**
 * The addresses of those parts of a session's beginning that are stored outside its log. `base`: the beginning of a
 * fork. `start`: the stored state that replaces the removed older part of the log.
 */
export interface StoredBeginning {
  readonly key: SessionKey;
  readonly base?: string;
  readonly start?: string;
}

/** External facts, sent to a shard when it starts and when they change. A session uses them from its next epoch on. */
export interface Learned {
  /** Rows of the vendor's list of models, for the models in use. */
  readonly models: readonly ListedModel[];
  /** The tools of the MCP servers. */
  readonly mcp: readonly McpToolList[];
}

/** A session as `state()` returns it. */
export interface SessionSnapshot {
  readonly state: SessionStateName;
  /** The state in one word, as lists show it. */
  readonly status: SessionStatus;
  readonly phase?: Phase;
  readonly blocked?: ErrorShape;
  /** How the last turn ended; missing before the first turn has ended. */
  readonly lastOutcome?: LastOutcome;
  /** The error of the last turn, if it failed. */
  readonly lastError?: LastError;
  /**
   * The text that the running model call has streamed so far, or the text of a lost answer. The last second of it may
   * be missing. The member is left out once the model has answered or the next half-step begins.
   */
  readonly draft?: AnswerDraft;
  /** The part of the history that was removed because of its age; missing: none. See the option `retention`. */
  readonly removed?: RemovedHistory;
  readonly mailbox: number;
  readonly seq: number;
  readonly children: readonly { readonly id: string; readonly name: string; readonly exited?: string }[];
  /** The active skills; left out when there are none. `workflow`: the active workflow, if there is one. */
  readonly skills?: readonly string[];
  readonly workflow?: string;
  readonly usage: Usage;
  /** The tokens that the session and all its descendants may use in total, and have used; missing without a budget. */
  readonly budget?: { readonly tokens: number; readonly used: number };
}

/** A session in a list. */
export interface SessionSummary {
  readonly id: string;
  readonly agent: string;
  /**
   * The version of the agent that the session has; missing: that agent has no version. A session moves to the current
   * version before its next turn.
   */
  readonly version?: string;
  readonly parent?: string;
  readonly name?: string;
  readonly state: SessionStateName;
  readonly status: SessionStatus;
  /** How the last turn ended; missing before the first turn has ended. */
  readonly lastOutcome?: LastOutcome;
  /** The error of the last turn, if it failed. */
  readonly lastError?: LastError;
  readonly mailbox: number;
  /** Number of dead letters; missing if there are none. */
  readonly deadLetters?: number;
  /** Number of users' and agent's messages, without tool calls; missing if an older troupe wrote the session. */
  readonly messageCount?: number;
  /** Epoch ms; missing like `messageCount`. */
  readonly createdAt?: number;
  /** Epoch ms of the last change. */
  readonly updatedAt: number;
}

/** The result of a compression on demand. */
export type CompressionResult =
  | { readonly compressed: true; readonly level: number; readonly chunk?: number }
  | { readonly compressed: false; readonly reason: string };

/** An archive: a part of the conversation that a compression took out of the window. */
export interface ChunkInfo {
  readonly session: string;
  /** The number of the archive: from 1, without gaps. */
  readonly number: number;
  /** The number of compressions so far, including the one that made this archive. */
  readonly level: number;
  /** Epoch ms at which the archive was made. */
  readonly archivedAt: number;
  readonly messageCount: number;
  readonly topics?: string;
}

/** One child to spawn. */
export type SpawnItem = Omit<SpawnRequest, 'callId'>;

/** The answer to one spawn. */
export type SpawnAnswer =
  | { readonly child: string; readonly name: string; readonly duplicate: boolean }
  | { readonly error: ErrorShape };

/** The result of a child. */
export interface ChildEnd {
  readonly reason: 'completed' | 'failed' | 'cancelled';
  readonly reply: string;
  /** The structured reply, if the spawn asked for one. `reply` is the text of the structured reply. */
  readonly output?: Json;
  readonly error?: ErrorShape;
  /** The child's name; missing when the child was deleted. */
  readonly name?: string;
}

/** The first record of a fork. */
export type ForkedRecord = Extract<SessionRecord, { type: 'forked' }>;

/**
 * Names the wanted receipt: by the number of its entry, by the key of its message, or as the receipt of the running
 * turn.
 */
export type WantedReceipt =
  | { readonly pendingId: number; readonly incarnation?: number }
  | { readonly key: string }
  | { readonly atWork: true };

/** Methods of a shard: request and answer. */
export interface ShardMethods extends AuditMethods, WaitingMethods, LetterMethods {
  'session.send': {
    request: OfSession & {
      readonly content: string | readonly ContentBlock[];
      readonly deliver?: Deliver;
      readonly key?: string;
      readonly fingerprint?: string;
      readonly bounceBack?: boolean;
      readonly from?: string;
      readonly replaces?: ReplacedMessage;
      /** The form of the answer that the message asks for. */
      readonly output?: AnswerForm;
      /**
       * A number, set if the sender waits for the receipt's final state. The shard sends that state once, under this
       * number.
       */
      readonly follow?: number;
    };
    answer: ReceiptName & { readonly seq: number; readonly duplicate: boolean };
  };
  /** A message as bytes of JSON, which the session thread reads and checks. */
  'session.post': {
    request: OfSession & { readonly json: Uint8Array };
    answer: ShardMethods['session.send']['answer'];
  };
  'session.state': { request: OfSession; answer: SessionSnapshot };
  /** The tokens of the session; with `tree`, those of all its descendants are added. */
  'session.usage': { request: OfSession & { readonly tree: boolean }; answer: Usage };
  'session.budget': { request: OfSession & { readonly tokens?: number }; answer: undefined };
  'session.explain': { request: OfSession; answer: Explanation };
  'session.messages': {
    request: OfSession & { readonly after?: number; readonly limit?: number };
    answer: readonly Message[];
  };
  /** A page of a session's contents, bounded in bytes. */
  'session.page': {
    request: OfSession & PageBounds & { readonly of: PageKind };
    answer: PageOf[PageKind];
  };
  'session.pending': { request: OfSession; answer: readonly Pending[] };
  'session.recall': { request: OfSession & { readonly pendingId: number }; answer: boolean };
  'session.interrupt': { request: OfSession & { readonly reason?: string }; answer: boolean };
  'session.approve': {
    request: OfSession & {
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
      readonly by?: string;
    };
    answer: boolean;
  };
  /** Answers or declines a question. `fingerprint`: the fingerprint of the value. */
  'session.answer': {
    request: OfSession & {
      readonly callId: string;
      readonly reply:
        | { readonly value: Json; readonly fingerprint: string }
        | { readonly declined: true; readonly reason?: string };
      readonly by?: string;
    };
    answer: boolean;
  };
  /** With `on`, the session's runs wait for listeners on the host at their message boundaries; otherwise not. */
  'history.gate': { request: { readonly session: string; readonly on: boolean }; answer: undefined };
  'session.spawn': { request: OfSession & { readonly items: readonly SpawnItem[] }; answer: readonly SpawnAnswer[] };
  'session.viewport': { request: OfSession; answer: readonly Message[] };
  'session.request': { request: OfSession; answer: ModelRequest };
  'session.goals': { request: OfSession; answer: readonly Goal[] };
  'session.goal': {
    request: OfSession & { readonly change: Exclude<GoalChange, { action: 'attach' }> };
    answer: Goal;
  };
  'session.attach': { request: OfSession & { readonly change: GoalChange }; answer: { readonly links: number } };
  'session.activate': {
    request: OfSession & { readonly kind: 'skill' | 'workflow'; readonly name: string; readonly content: string };
    answer: { readonly activated: boolean };
  };
  'session.pause': { request: OfSession; answer: undefined };
  'session.resume': { request: OfSession; answer: undefined };
  'tasks.start': { request: OfSession & { readonly title?: string; readonly by?: string }; answer: number };
  'tasks.undo': { request: OfSession & { readonly by?: string }; answer: TaskMove };
  'tasks.switch': { request: OfSession & { readonly id: number; readonly by?: string }; answer: TaskMove };
  'tasks.children': { request: OfSession & { readonly id: number }; answer: readonly number[] };
  'tasks.history': { request: OfSession & { readonly limit: number }; answer: readonly TaskSummary[] };
  'tasks.ids': { request: OfSession; answer: { readonly current: number; readonly active: number } };
  'tasks.messages': { request: OfSession; answer: readonly RequestMessage[] };
  'session.fork': {
    request: OfSession & { readonly id?: string; readonly at?: number; readonly by?: string };
    answer: { readonly id: string };
  };
  /** The first record of a fork that another shard will hold. */
  'session.copy': { request: OfSession & { readonly at?: number }; answer: ForkedRecord };
  'session.plant': {
    request: OfSession & { readonly record: ForkedRecord; readonly by?: string };
    answer: { readonly id: string };
  };
  'session.compress': { request: OfSession & { readonly force: boolean }; answer: CompressionResult };
  /** Archives of the conversation, oldest first. */
  'session.chunks': { request: OfSession; answer: readonly ChunkInfo[] };
  'session.chunk': { request: OfSession & { readonly number: number }; answer: readonly HistoryMessage[] | undefined };
  'session.events': {
    request: OfSession & { readonly after: number; readonly limit: number; readonly bytesMax: number };
    answer: { readonly events: readonly SessionEvent[]; readonly isComplete: boolean };
  };
  /** Starts or stops the publication of a session's events. Without a session: of the events of all sessions. */
  'session.watch': { request: { readonly session?: string; readonly on: boolean }; answer: undefined };
  /**
   * Turns on or off the introduction of watched sessions: the first note with events of a session then has its facts
   * (`EventsNote`).
   */
  'sessions.introduce': { request: { readonly on: boolean }; answer: undefined };
  'history.edit': {
    request: OfSession & {
      readonly edit: EditRequest;
      readonly key?: string;
      readonly fingerprint?: string;
      /**
       * The incarnation of the session in the message handle that names the edited message. The edit is refused if the
       * id belongs to a later session now.
       */
      readonly incarnation?: number;
      readonly by?: string;
    };
    answer: unknown;
  };
  /** Answers a query of the history from a single state of the session. */
  'history.read': { request: OfSession & { readonly query: HistoryQuery }; answer: unknown };
  /** Starts or stops publishing the messages of a session (`history.said`). */
  'history.watch': { request: { readonly session: string; readonly on: boolean }; answer: undefined };
  'receipt.status': { request: OfSession & ReceiptName; answer: ReceiptState | undefined };
  /** Finds a receipt. Without an incarnation, the shard looks in the present session of this id. */
  'receipt.find': {
    request: OfSession & { readonly wanted: WantedReceipt };
    answer: (ReceiptName & { readonly seq: number }) | undefined;
  };
  'receipt.wait': {
    request: OfSession & ReceiptName & { readonly until: 'promoted' | 'settled' };
    answer: ReceiptState;
  };
  'child.wait': { request: OfSession; answer: ChildEnd };
  /** The given children that have ended, in the order of the parent's log. */
  'children.ended': {
    request: { readonly session: string; readonly children: readonly string[] };
    answer: readonly string[];
  };
  'child.link': { request: OfSession; answer: { readonly parent?: string; readonly name?: string } };
  /** The rows from a position on, in log order, in bounded pieces. The index of all messages reads them. */
  'search.log': { request: { readonly from: number; readonly offset: number }; answer: RowPiece };
  /** The rows that contain transitions of one session, newest first, with their contents. */
  'search.chain': {
    request: { readonly key: number; readonly until: number; readonly from?: number };
    answer: RowChain;
  };
  'search.rows': { request: { readonly rows: readonly number[]; readonly offset: number }; answer: RowPiece };
  /** The ids of sessions by their journal keys, at most `SEARCH_PAGE_NAMES`; `null`: the session is deleted. */
  'search.names': { request: { readonly keys: readonly number[] }; answer: readonly (string | null)[] };
  /** The key and the stored beginning of the session that has an id now. */
  'search.session': { request: OfSession; answer: StoredBeginning | undefined };
  'search.blob': { request: { readonly address: string; readonly offset: number }; answer: BlobPiece | undefined };
  /** The first seq of a session's window; `undefined`: the session is not resident. */
  'search.floor': { request: OfSession; answer: number | undefined };
  'sessions.list': {
    request: ListRequest;
    answer: readonly SessionSummary[];
  };
  'sessions.get': { request: OfSession; answer: SessionSummary | undefined };
  /** Deletes a session and its descendants. Answers with the ids of the deleted sessions. */
  'sessions.delete': { request: OfSession & { readonly by?: string }; answer: readonly string[] };
  /** The sessions with wanted notices in the part of the log that begins at a position. */
  'notices.scan': { request: NoticeScanRequest; answer: NoticeScan };
  /** Wanted notices of one session, oldest first; none if the session was deleted. */
  'notices.page': { request: NoticePageRequest; answer: readonly Notice[] };
  'runtime.drain': { request: { readonly id: number }; answer: undefined };
  'runtime.resume': { request: Record<never, never>; answer: undefined };
  'runtime.copy': { request: { readonly directory: string; readonly known?: string }; answer: JournalCopy };
  'runtime.learn': { request: Learned; answer: undefined };
  /** `pid`: the process that takes the store over. */
  'runtime.standStill': { request: { readonly deadlineMs: number; readonly pid?: number }; answer: undefined };
  'runtime.close': { request: { readonly deadlineMs: number }; answer: undefined };
}

/** Answers one method, at once or with a promise. */
export type Handler<M extends keyof ShardMethods> = (
  request: ShardMethods[M]['request'],
) => ShardMethods[M]['answer'] | Promise<ShardMethods[M]['answer']>;

/** The table of handlers: one for each method. A table that lacks a handler does not compile. */
export type ShardHandlers = { readonly [M in keyof ShardMethods]: Handler<M> };

/** The handlers of all methods named `<Topic>.…`. */
export type HandlersOf<Topic extends string> = Pick<ShardHandlers, Extract<keyof ShardMethods, `${Topic}.${string}`>>;

/**
 * Sends requests to a shard on any thread. `repeatable`: the request may be sent again to the thread that replaces a
 * dead one.
 */
export interface ShardCaller {
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']>;
}

/**
 * The facts of a session that never change. They are sent because the id alone does not identify a session: the id of a
 * deleted session can be reused.
 */
export interface SessionIntroduction {
  readonly session: string;
  readonly agent: string;
  readonly parent?: string;
}

/** The contents of one note of events. */
export interface EventsNote<Events> {
  readonly events: Events;
  /** Sessions that publish for the first time in this note. */
  readonly introduced?: readonly SessionIntroduction[] | undefined;
}

/** New messages of a session, sent once they are durable. */
export interface SaidNote {
  readonly session: string;
  readonly messages: readonly HistoryMessage[];
}

/** One line for the embedder's logger. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly session?: string;
  /** Agent of the session, if it is known. */
  readonly agent?: string;
  readonly error?: ErrorShape;
  /** The name of the provider that the line is about, if it has one. */
  readonly provider?: string;
  /** The stack of an error that a tool or a provider threw. */
  readonly stack?: string;
  /** Duration in milliseconds of the event that the line describes. */
  readonly ms?: number;
}
