/** What the host thread and a shard say to each other. Plain data both ways; one method, one request, one answer. */

import type { AgentPlan } from '../../../actors/agent-catalog.ts';
import type { MuseQuestion, MuseWord } from '../../../actors/enrichers/muse-sources.ts';
import type { Limits } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { Goal, GoalChange } from '../../base/goals.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { ContentBlock, Deliver, Message, Pending, Usage } from '../../base/messages.ts';
import type { Settings } from '../../base/settings.ts';
import type { Phase, SessionEvent, SessionStateName } from '../../events/event.ts';
import type { Durability } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { BlobPiece, RowChain, RowPiece } from '../../journal/stored-log.ts';
import type { GovernorLimits } from '../../models/governor/limits.ts';
import type { ModelRequest, ProviderData, RequestMessage } from '../../models/provider.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import type { Explanation } from '../../session/explain.ts';
import type { HistoryQuery } from '../../session/history/history-query.ts';
import type { TaskSummary } from '../../session/history/task-view.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { EnricherFacts, SpawnRequest } from '../../session/state/inputs.ts';
import type { SessionRecord } from '../../session/state/records.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { ToolDescription } from '../../tools/tool.ts';
import type { HostQuestion, HostWord } from './host-decisions.ts';
import type { PageBounds, PageKind, PageOf } from './pages.ts';

/** Where an agent's tool comes from. */
export type ToolSource =
  | { readonly kind: 'module'; readonly url: string }
  /** A tool of another agent, by its name in lower case. */
  | { readonly kind: 'named'; readonly name: string }
  | { readonly kind: 'value'; readonly description: ToolDescription };

/** An agent with its tools still to be found. */
export interface AgentSource {
  readonly plan: AgentPlan;
  readonly tools: readonly ToolSource[];
}

/** Where model calls are made. */
export type ProviderPlan =
  | { readonly kind: 'data'; readonly data: ProviderData }
  | { readonly kind: 'host'; readonly name: string };

/** Everything a shard is started with. */
export interface ShardPlan {
  readonly index: number;
  readonly count: number;
  /** Directory of this shard's journal; missing: memory. */
  readonly directory?: string;
  /** Directory of shortened results. */
  readonly shelf: string;
  readonly durability: Durability;
  readonly agents: readonly AgentSource[];
  /** What watches main sessions; missing: nothing does. */
  readonly enrichers?: EnricherFacts;
  readonly provider: ProviderPlan;
  readonly settings: Settings;
  readonly limits: Limits;
  /** This shard's share of what the provider key allows. */
  readonly governor?: GovernorLimits;
  readonly threads: { readonly models: number; readonly tools: number };
  /** Counters shared with the host; see `metrics.ts`. */
  readonly counters: SharedArrayBuffer;
}

/** What a shard thread is given when it starts, beside its plan. */
export interface ShardStart {
  /** Sessions whose listeners are still there. */
  readonly gated: readonly string[];
  /** Sessions a thread before it ran out of memory on; see `isolated-sessions.ts`. */
  readonly isolated: readonly SessionKey[];
}

/** A session as `state()` tells it. */
export interface SessionSnapshot {
  readonly state: SessionStateName;
  readonly phase?: Phase;
  readonly blocked?: ErrorShape;
  readonly mailbox: number;
  readonly seq: number;
  readonly children: readonly { readonly id: string; readonly name: string; readonly exited?: string }[];
  /** Skills and workflow that are active; left out where there are none. */
  readonly skills?: readonly string[];
  readonly workflow?: string;
  readonly usage: Usage;
  /** What it and everything it spawned may use in all, and used, in tokens; left out where it was given none. */
  readonly budget?: { readonly tokens: number; readonly used: number };
}

/** A session in a list. */
export interface SessionSummary {
  readonly id: string;
  readonly agent: string;
  readonly parent?: string;
  readonly name?: string;
  readonly state: SessionStateName;
  readonly mailbox: number;
  readonly updatedAt: number;
}

/** How a compression on demand ended. */
export type CompressionResult =
  | { readonly compressed: true; readonly level: number; readonly chunk?: number }
  | { readonly compressed: false; readonly reason: string };

/** An archived part of a conversation. */
export interface ChunkInfo {
  readonly session: string;
  /** From 1, without gaps. */
  readonly number: number;
  /** Compressions there were, this one included, when it was made. */
  readonly level: number;
  /** Epoch ms. */
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

/** How a child ended. */
export interface ChildEnd {
  readonly reason: 'completed' | 'failed' | 'cancelled';
  readonly reply: string;
  readonly error?: ErrorShape;
  /** What it is called; missing: it was deleted. */
  readonly name?: string;
}

/** The first record of a fork. */
export type ForkedRecord = Extract<SessionRecord, { type: 'forked' }>;

/** An accepted message of one incarnation of a session. */
export interface ReceiptName {
  readonly pendingId: number;
  /** The journal's key of the session: kept over restarts, given once. */
  readonly incarnation: SessionKey;
}

interface OfSession {
  readonly session: string;
  /** The agent a session is made of if it does not exist yet. */
  readonly agent?: string;
}

/** Methods of a shard: request and answer. */
export interface ShardMethods {
  'session.send': {
    request: OfSession & {
      readonly content: string | readonly ContentBlock[];
      readonly deliver?: Deliver;
      readonly key?: string;
      readonly fingerprint?: string;
      readonly bounceBack?: boolean;
      readonly from?: string;
      /** Nobody waits for the acceptance alone: the end of the receipt is told, once, under this number. */
      readonly follow?: number;
    };
    answer: ReceiptName & { readonly seq: number; readonly duplicate: boolean };
  };
  /** A message as bytes of JSON, which the thread reads and checks. */
  'session.post': {
    request: OfSession & { readonly json: Uint8Array };
    answer: ShardMethods['session.send']['answer'];
  };
  'session.state': { request: OfSession; answer: SessionSnapshot };
  'session.explain': { request: OfSession; answer: Explanation };
  'session.messages': {
    request: OfSession & { readonly after?: number; readonly limit?: number };
    answer: readonly Message[];
  };
  /** A page of what a session holds, bounded in bytes. */
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
    };
    answer: boolean;
  };
  /** Listeners on the host are waited for at the session's message boundaries, or not any more. */
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
  'tasks.start': { request: OfSession & { readonly title?: string }; answer: number };
  'tasks.undo': { request: OfSession; answer: TaskMove };
  'tasks.switch': { request: OfSession & { readonly id: number }; answer: TaskMove };
  'tasks.children': { request: OfSession & { readonly id: number }; answer: readonly number[] };
  'tasks.history': { request: OfSession & { readonly limit: number }; answer: readonly TaskSummary[] };
  'tasks.ids': { request: OfSession; answer: { readonly current: number; readonly active: number } };
  'tasks.messages': { request: OfSession; answer: readonly RequestMessage[] };
  'session.fork': {
    request: OfSession & { readonly id?: string; readonly at?: number };
    answer: { readonly id: string };
  };
  /** What a fork on another shard begins with, as its first record. */
  'session.copy': { request: OfSession & { readonly at?: number }; answer: ForkedRecord };
  'session.plant': { request: OfSession & { readonly record: ForkedRecord }; answer: { readonly id: string } };
  'session.compress': { request: OfSession & { readonly force: boolean }; answer: CompressionResult };
  /** Archived parts of the conversation, oldest first. */
  'session.chunks': { request: OfSession; answer: readonly ChunkInfo[] };
  'session.chunk': { request: OfSession & { readonly number: number }; answer: readonly HistoryMessage[] | undefined };
  'session.events': {
    request: OfSession & { readonly after: number; readonly limit: number; readonly bytesMax: number };
    answer: { readonly events: readonly SessionEvent[]; readonly isComplete: boolean };
  };
  /** Without a session: all of them. */
  'session.watch': { request: { readonly session?: string; readonly on: boolean }; answer: undefined };
  /** Of what is watched: each session is introduced with what it tells first (`EventsNote`), or not any more. */
  'sessions.introduce': { request: { readonly on: boolean }; answer: undefined };
  'history.edit': {
    request: OfSession & {
      readonly edit: EditRequest;
      readonly key?: string;
      readonly fingerprint?: string;
      /** Of the handle the operation is given: one of an earlier session of this id is refused. */
      readonly incarnation?: number;
    };
    answer: unknown;
  };
  /** The answer of a query, all of it of one moment. */
  'history.read': { request: OfSession & { readonly query: HistoryQuery }; answer: unknown };
  /** Starts or stops the telling of what is said in a session (`history.said`). */
  'history.watch': { request: { readonly session: string; readonly on: boolean }; answer: undefined };
  'receipt.status': { request: OfSession & ReceiptName; answer: ReceiptState | undefined };
  /** Without an incarnation: of the session there is now. */
  'receipt.find': {
    request: OfSession & { readonly pendingId: number; readonly incarnation?: number };
    answer: { readonly seq: number; readonly incarnation: number } | undefined;
  };
  'receipt.wait': {
    request: OfSession & ReceiptName & { readonly until: 'promoted' | 'settled' };
    answer: ReceiptState;
  };
  'child.wait': { request: OfSession; answer: ChildEnd };
  /** Those of these children that have ended, in the order of the parent's log. */
  'children.ended': {
    request: { readonly session: string; readonly children: readonly string[] };
    answer: readonly string[];
  };
  'child.link': { request: OfSession; answer: { readonly parent?: string; readonly name?: string } };
  /** For an index of all messages, each in bounded pieces: what was written since, in order of the log. */
  'search.log': { request: { readonly from: number; readonly offset: number }; answer: RowPiece };
  /** Where one session was written, from new to old, and those rows. */
  'search.chain': {
    request: { readonly key: number; readonly until: number; readonly from?: number };
    answer: RowChain;
  };
  'search.rows': { request: { readonly rows: readonly number[]; readonly offset: number }; answer: RowPiece };
  /** The names of sessions by their keys, at most `SEARCH_PAGE_NAMES`; `null`: deleted. */
  'search.names': { request: { readonly keys: readonly number[] }; answer: readonly (string | null)[] };
  /** What has a name now. `base`: address of what a fork begins with, where that is stored by itself. */
  'search.session': { request: OfSession; answer: { readonly key: number; readonly base?: string } | undefined };
  'search.blob': { request: { readonly address: string; readonly offset: number }; answer: BlobPiece | undefined };
  /** Where a session's window begins; `undefined`: it is not in memory. */
  'search.floor': { request: OfSession; answer: number | undefined };
  'sessions.list': {
    request: {
      readonly parent?: string | null;
      readonly state?: SessionStateName;
      readonly after?: string;
      readonly limit: number;
    };
    answer: readonly SessionSummary[];
  };
  'sessions.get': { request: OfSession; answer: SessionSummary | undefined };
  /** Ids of what was deleted. */
  'sessions.delete': { request: OfSession; answer: readonly string[] };
  'runtime.drain': { request: { readonly id: number }; answer: undefined };
  'runtime.resume': { request: Record<never, never>; answer: undefined };
  'runtime.close': { request: { readonly deadlineMs: number }; answer: undefined };
}

/** Answers one method, at once or with a promise. */
export type Handler<M extends keyof ShardMethods> = (
  request: ShardMethods[M]['request'],
) => ShardMethods[M]['answer'] | Promise<ShardMethods[M]['answer']>;

/** One handler for each method: a table that lacks one does not compile. */
export type ShardHandlers = { readonly [M in keyof ShardMethods]: Handler<M> };

/** The handlers of all methods named `<Topic>.…`. */
export type HandlersOf<Topic extends string> = Pick<ShardHandlers, Extract<keyof ShardMethods, `${Topic}.${string}`>>;

/** Asks a shard, wherever it runs. `repeatable`: the question may be asked again of the thread that replaces a dead one. */
export interface ShardCaller {
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']>;
}

/** Who a session is. Neither ever changes; another session may bear its name once it is deleted. */
export interface SessionIntroduction {
  readonly session: string;
  readonly agent: string;
  readonly parent?: string;
}

/** What a shard tells with one note. */
export interface EventsNote<Events> {
  readonly events: Events;
  /** Sessions that tell something for the first time, with these events. */
  readonly introduced?: readonly SessionIntroduction[] | undefined;
}

/** Something was said in a session, and is durable. */
export interface SaidNote {
  readonly session: string;
  readonly messages: readonly HistoryMessage[];
}

/** One line for the embedder's logger. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly session?: string;
  /** Agent of the session, where it is known. */
  readonly agent?: string;
  readonly error?: ErrorShape;
  /** Milliseconds of what the line is about. */
  readonly ms?: number;
}

/** What a shard asks of its host: the functions an embedder gave. Request and answer. */
export interface HostMethods {
  /** A call of a provider given by value. Answers with its response; its deltas come before the answer, as notes (`model.delta`). */
  'host.generate': { request: HostModelCall; answer: unknown };
  /** The text of an agent's system function. */
  'host.evaluateSystem': { request: { readonly agent: string; readonly session: string }; answer: string };
  /** The verdict of listeners, guardrails and approval predicates. */
  'host.consult': { request: HostQuestion; answer: HostWord };
  /** The answer to a question of an enricher. */
  'host.lookUp': { request: MuseQuestion; answer: MuseWord };
}

/** Asks the host: over the endpoint, or on the host thread by a plain call. */
export interface HostCaller {
  ask<M extends keyof HostMethods>(method: M, request: HostMethods[M]['request']): Promise<HostMethods[M]['answer']>;
}

/** One model call for the host. The note `host.abortModel` aborts it by its id; unknown ids are ignored. */
export interface HostModelCall {
  readonly id: number;
  readonly session: string;
  readonly request: ModelRequest;
}
