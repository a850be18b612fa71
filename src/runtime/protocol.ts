/** What the host thread and a shard say to each other. Plain data both ways; one method, one request, one answer. */

import type { AgentPlan } from '../../actors/agent-catalog.ts';
import type { Limits } from '../base/bounds.ts';
import type { ErrorShape } from '../base/errors.ts';
import type { ContentBlock, Deliver, Message, Pending, Usage } from '../base/messages.ts';
import type { Settings } from '../base/settings.ts';
import type { Phase, SessionEvent, SessionStateName } from '../events/event.ts';
import type { Durability } from '../journal/journal.ts';
import type { GovernorLimits } from '../models/governor-limits.ts';
import type { ModelRequest, ProviderData } from '../models/provider.ts';
import type { Explanation } from '../session/explain.ts';
import type { SpawnRequest } from '../session/inputs.ts';
import type { ReceiptState } from '../session/state.ts';
import type { HostRunner } from '../tools/host-tools.ts';
import type { ToolDescription } from '../tools/tool.ts';

/** Where an agent's tool comes from. */
export type ToolSource =
  | { readonly kind: 'module'; readonly url: string }
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
  readonly provider: ProviderPlan;
  readonly settings: Settings;
  readonly limits: Limits;
  /** This shard's share of what the provider key allows. */
  readonly governor?: GovernorLimits;
  readonly threads: { readonly models: number; readonly tools: number };
  /** Counters shared with the host; see `metrics.ts`. */
  readonly counters: SharedArrayBuffer;
}

/** A session as `state()` tells it. */
export interface SessionSnapshot {
  readonly state: SessionStateName;
  readonly phase?: Phase;
  readonly blocked?: ErrorShape;
  readonly mailbox: number;
  readonly seq: number;
  readonly children: readonly { readonly id: string; readonly name: string; readonly exited?: string }[];
  readonly usage: Usage;
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
    answer: { readonly pendingId: number; readonly seq: number; readonly duplicate: boolean };
  };
  'session.state': { request: OfSession; answer: SessionSnapshot };
  'session.explain': { request: OfSession; answer: Explanation };
  'session.messages': {
    request: OfSession & { readonly after?: number; readonly limit?: number };
    answer: readonly Message[];
  };
  'session.pending': { request: OfSession; answer: readonly Pending[] };
  'session.recall': { request: OfSession & { readonly pendingId: number }; answer: boolean };
  'session.interrupt': { request: OfSession & { readonly reason?: string }; answer: boolean };
  'session.spawn': { request: OfSession & { readonly items: readonly SpawnItem[] }; answer: readonly SpawnAnswer[] };
  'session.viewport': { request: OfSession; answer: readonly Message[] };
  'session.request': { request: OfSession; answer: ModelRequest };
  'session.pause': { request: OfSession; answer: undefined };
  'session.resume': { request: OfSession; answer: undefined };
  'session.events': {
    request: OfSession & { readonly after: number; readonly limit: number };
    answer: { readonly events: readonly SessionEvent[]; readonly isComplete: boolean };
  };
  /** Without a session: all of them. */
  'session.watch': { request: { readonly session?: string; readonly on: boolean }; answer: undefined };
  'receipt.status': { request: OfSession & { readonly pendingId: number }; answer: ReceiptState | undefined };
  'receipt.find': {
    request: OfSession & { readonly pendingId: number };
    answer: { readonly seq: number } | undefined;
  };
  'receipt.wait': {
    request: OfSession & { readonly pendingId: number; readonly until: 'promoted' | 'settled' };
    answer: ReceiptState;
  };
  'child.wait': { request: OfSession; answer: ChildEnd };
  'child.link': { request: OfSession; answer: { readonly parent?: string; readonly name?: string } };
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

/** Notes a shard sends to the host. */
export interface ShardNotes {
  events: readonly SessionEvent[];
  degraded: { readonly error: ErrorShape } | { readonly error?: undefined };
  log: LogLine;
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

/** What a shard asks of the host thread: the closures an embedder gave. Called in place, or through a bridge. */
export interface HostServices extends HostRunner {
  /** One call of a provider given by value; its deltas come as notes (`model.delta`). */
  generate(call: HostModelCall): Promise<HostModelAnswer>;
  /** Aborts a running `generate`; unknown ids are ignored. */
  abortModel(id: number): void;
  /** The text of an agent's system function. */
  evaluateSystem(agent: string, session: string): Promise<string>;
}

/** One model call for the host. */
export interface HostModelCall {
  readonly id: number;
  readonly session: string;
  readonly request: ModelRequest;
}

/** How it was answered. */
export interface HostModelAnswer {
  readonly response: unknown;
  /** Deltas told: they come another way, and none may be outrun by the answer. */
  readonly deltas: number;
}

/** A host service as the shard sees it: every answer a promise. */
export type RemoteServices = {
  readonly [Key in keyof HostServices]: (
    ...args: Parameters<HostServices[Key]>
  ) => Promise<Awaited<ReturnType<HostServices[Key]>>>;
};
