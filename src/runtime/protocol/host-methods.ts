/** The protocol of a shard with its host. */
import type { EnricherQuestion, EnricherReply } from '../../../actors/enrichers/enricher-sources.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { EditRequest } from '../../session/state/edit-request.ts';
import type { HostVerdict } from './host-decisions.ts';
import type { HostQuestion } from './host-question.ts';
import type { UpgradeQuestion } from './upgrade.ts';

/** The requests of a shard to its host. Most of them call functions that the embedder gave. */
export interface HostMethods {
  /**
   * Calls a provider that was given as a value. The deltas of the call come before its response, as notes
   * (`model.delta`).
   */
  'host.generate': { request: HostModelCall; answer: unknown };
  /** The text of an agent's system function. */
  'host.evaluateSystem': { request: { readonly agent: string; readonly session: string }; answer: string };
  /** The verdict of listeners, guardrails and approval predicates. */
  'host.consult': { request: HostQuestion; answer: HostVerdict };
  /** The edits that an agent's `upgrade` function returns for a session. */
  'host.upgrade': { request: UpgradeQuestion; answer: readonly EditRequest[] };
  /** The answer to a question of an enricher. */
  'host.lookUp': { request: EnricherQuestion; answer: EnricherReply };
  /** Removes the messages of deleted sessions from the search index. Answers once no file of the index has them. */
  'host.eraseIndex': { request: { readonly sessions: readonly string[] }; answer: null };
  /**
   * Answers when no other shard runs a compaction. From then on the other shards wait, until `host.endCompaction` or
   * the end of this shard's thread.
   */
  'host.beginCompaction': { request: null; answer: null };
  'host.endCompaction': { request: null; answer: null };
}

/** Sends requests to the host: over the endpoint, or by a plain call if the shard runs on the host thread. */
export interface HostCaller {
  ask<M extends keyof HostMethods>(method: M, request: HostMethods[M]['request']): Promise<HostMethods[M]['answer']>;
}

/** One model call for the host. The note `host.abortModel` aborts it by its id; unknown ids are ignored. */
export interface HostModelCall {
  readonly id: number;
  /** The key of the provider. */
  readonly provider: string;
  readonly session: string;
  readonly request: ModelRequest;
}
