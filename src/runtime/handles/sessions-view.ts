/**
 * `SessionsView`: the embedder's view of the sessions of a data directory. It shows all sessions, or the sessions of
 * one tenant. Host thread.
 *
 *  V1 A view of a tenant shows nothing of another tenant, and nothing of a session without a tenant. The tenant of a
 *     session is a part of its id, so each method decides from the id alone.
 *  V2 A request for a session of another tenant gets the answer for a session that does not exist, even if it exists.
 */

import { z } from 'zod';
import type { AuditEntry } from '../../base/audit/audit-entry.ts';
import { SEARCH_QUERY_CHARACTERS_MAX, SEARCH_RESULTS_DEFAULT, SEARCH_RESULTS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, ConfigError, describeValue, TroupeError } from '../../base/errors.ts';
import { checkSessionId, filterId, idWithin, rootOf, shardOf } from '../../base/ids.ts';
import { namesHint } from '../../base/near-names.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { DefinitionSource } from '../../definitions/definition.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { ViewedEvent } from '../../events/viewed-event.ts';
import type { QueuedCall } from '../../session/rules/queued-calls.ts';
import type { DeadLetterSummary } from '../../session/state/letters.ts';
import type { Diagnostics } from '../events/diagnostics.ts';
import type { EventHub } from '../events/event-hub.ts';
import type { MessageCallbacks } from '../events/message-callbacks.ts';
import type { ShardLink } from '../host/shard-link.ts';
import { type Agent, isAgent } from '../protocol/agent.ts';
import type { AuditRequest } from '../protocol/audit.ts';
import type { Page } from '../protocol/pages.ts';
import type { SessionSummary } from '../protocol/protocol.ts';
import type { MessageSearch } from '../search/client.ts';
import type { FoundMessage } from '../search/service.ts';
import { type AuditOptions, auditPage } from './audit.ts';
import { Child } from './child.ts';
import { type DeadLetterOptions, deadLetterPage } from './dead-letters.ts';
import { type AllEventOptions, allReading } from './event-options.ts';
import { Family } from './family.ts';
import { Session } from './session.ts';
import { type ListedSession, type ListOptions, listSessions } from './session-list.ts';
import { checkDeleteOptions, type DeleteOptions } from './session-options.ts';
import type { SessionParts } from './session-parts.ts';
import { type WaitingOptions, waitingPage } from './waiting.ts';

/** The parts of a view of sessions. */
export interface ViewParts {
  readonly links: readonly ShardLink[];
  readonly hub: EventHub;
  readonly callbacks: MessageCallbacks;
  readonly diagnostics: Diagnostics;
  readonly agentNames: ReadonlySet<string>;
  /** The agent of a session whose caller gives no agent; empty: several agents are defined. */
  readonly onlyAgent: string;
  /** Skills and workflows, if directories of them were given. */
  readonly definitions?: DefinitionSource | undefined;
  /** The search over all sessions. The view notifies it of deletions. */
  readonly search: MessageSearch;
}

/** Options of `search`. */
export interface MessageSearchOptions {
  readonly limit?: number;
  readonly session?: string;
}

/**
 * The outcome of a search. `isComplete`: false if the index may lack messages that were written before the search
 * began.
 */
export interface MessageSearchResult {
  readonly found: readonly FoundMessage[];
  readonly isComplete: boolean;
}

const querySchema = z.string().max(SEARCH_QUERY_CHARACTERS_MAX);
const searchSchema = z.strictObject({
  limit: z.number().int().min(1).max(SEARCH_RESULTS_MAX).optional(),
  session: z.string().optional(),
});

const KIN: SessionParts['kin'] = {
  child: (parts, of) => new Child(parts, of),
  family: (children, ended) => new Family(children, ended),
};

/**
 * The full id of a session in a filter of this view: an id without a tenant gets the view's tenant. Throws
 * `InvalidNameError`.
 */
export let sessionIdIn: (view: SessionsView, id: string) => string;

/** See the head of the file. */
export abstract class SessionsView {
  static {
    sessionIdIn = (view, id) => filterId(view.#tenant, id);
  }

  readonly #parts: ViewParts;
  /** Undefined: the view shows all sessions. */
  readonly #tenant: string | undefined;

  constructor(parts: ViewParts, tenant?: string) {
    this.#parts = parts;
    this.#tenant = tenant;
  }

  /**
   * The handle of a session, by its id. If the session does not exist, the first request creates it. Synchronous,
   * without a lock. Throws `InvalidNameError`, and `ConfigError` (`unknown_agent`) for an undefined agent. Without
   * `agent`, an existing session keeps its agent, and a new session gets the only agent. If several agents are defined,
   * the request that would create the session rejects with `ConfigError`. If the session exists and has another agent,
   * requests reject with `ConfigError` (`agent_mismatch`). With an `Agent` object, answers have the type of its
   * `output`; with the name of an agent, answers are text. In a view of a tenant, an id without a tenant gets that
   * tenant, and an id of another tenant throws `TroupeError` (`unknown_session`).
   */
  session<Answer>(id: string, agent: Agent<Answer>): Session<Answer>;
  session(id: string, agent?: string): Session;
  session(given: string, of?: string | Agent<unknown>): Session<unknown> {
    const id = this.#reached(given);
    if (id === undefined) throw unknownSession(given);
    this.#parts.diagnostics.look();
    const isWhole = isAgent(of);
    const agent: unknown = isWhole ? of.name : of;
    const output = isWhole ? of.output : undefined;
    if (agent !== undefined && !(typeof agent === 'string' && this.#parts.agentNames.has(agent))) {
      const hint = typeof agent === 'string' ? namesHint(agent, this.#parts.agentNames, 'agents') : '';
      throw new ConfigError(`no agent is named ${describeValue(agent)}${hint}`, {
        code: 'unknown_agent',
        data: { agent },
      });
    }
    if (agent !== undefined) return new Session({ ...this.#partsOf(id, { agent, isNamed: true }), output });
    return new Session({ ...this.#partsOf(id, { agent: this.#parts.onlyAgent }), output });
  }

  /** The full id of a session; undefined: the session belongs to another tenant (V2). Throws `InvalidNameError`. */
  #reached(id: string): string | undefined {
    return idWithin(this.#tenant, checkSessionId(id));
  }

  #partsOf(id: string, named: SessionParts['named']): SessionParts {
    return {
      id,
      named,
      link: this.#linkOf(id),
      hub: this.#parts.hub,
      callbacks: this.#parts.callbacks,
      remove: (session, options) => this.sessions.delete(session, options),
      sibling: (other) => this.#partsOf(other, {}),
      kin: KIN,
      definitions: this.#parts.definitions,
    };
  }

  /** The sessions of the directory; in a view of a tenant, only its sessions. */
  readonly sessions: {
    /** Sessions, by default the last changed session first. Rejects with `ConfigError` for bad options. */
    readonly list: (options?: ListOptions) => Promise<readonly ListedSession[]>;
    /** One session by its id; `undefined` when there is none. */
    readonly get: (id: string) => Promise<SessionSummary | undefined>;
    /**
     * Deletes a session and its descendants; false when there was none. The audit log keeps their ids. Rejects with
     * `ConfigError` for bad options, and the errors of the store.
     */
    readonly delete: (id: string, options?: DeleteOptions) => Promise<boolean>;
  } = {
    list: async (options = {}) => listSessions(this.#parts.links, (id) => this.#linkOf(id), options, this.#tenant),
    get: async (given) => {
      const id = this.#reached(given);
      return id === undefined ? undefined : this.#linkOf(id).call('sessions.get', { session: id }, true);
    },
    delete: async (given, options = {}) => {
      const author = checkDeleteOptions(options);
      const id = this.#reached(given);
      if (id === undefined) return false;
      const deleted = await this.#linkOf(id).call('sessions.delete', { session: id, ...author }, true);
      for (const session of deleted) {
        this.#parts.hub.end(session);
        this.#parts.callbacks.forget(session);
      }
      this.#parts.search.forget(deleted);
      return deleted.length > 0;
    },
  };

  /**
   * The messages that fit a query best, best first; none for a query without terms. `limit`: 1 to 100, default 20.
   * `session`: searches only the tree of this session. The first search of a store reads all its logs; a later search
   * reads what is new. Rejects with `ConfigError`, `InvalidNameError`, `CancelledError` (closed), and a retryable error
   * if the search thread died.
   */
  async search(query: string, options: MessageSearchOptions = {}): Promise<MessageSearchResult> {
    const text = parseOption(querySchema, 'search.query', query);
    const { limit = SEARCH_RESULTS_DEFAULT, session } = parseOption(searchSchema, 'search', options);
    const trees = session === undefined ? undefined : new Set([rootOf(filterId(this.#tenant, session))]);
    const reach = { trees, tenant: this.#tenant };
    const { found, isComplete } = await this.#parts.search.search(text, { limit, ...defined(reach) });
    return { found, isComplete };
  }

  /**
   * Live events of all sessions. Events of the sessions in `after` are first replayed from the log. In `basic` or
   * `verbose` the events carry no raw content.
   */
  events(options?: AllEventOptions & { readonly mode?: 'debug' }): AsyncIterableIterator<SessionEvent>;
  events(options: AllEventOptions): AsyncIterableIterator<ViewedEvent>;
  events(options: AllEventOptions = {}): AsyncIterableIterator<SessionEvent> {
    return this.#parts.hub.all(allReading(options, this.#tenant));
  }

  /**
   * A page of the tool calls that wait for a person, oldest first, over all sessions, also those not in memory.
   * `session.approve` decides a call. Rejects with `ConfigError` for bad options, `InvalidNameError` for a `session`
   * that is not an id.
   */
  waiting(options: WaitingOptions = {}): Promise<Page<QueuedCall>> {
    return waitingPage((session) => this.#linksOf(session), options, this.#tenant);
  }

  /**
   * A page of the dead letters of all sessions, without their contents, by session and age. A page may be empty and
   * still have a `next`, because each page looks at a bounded number of sessions. `session.deadLetters` reads, sends
   * and drops a letter. Rejects with `ConfigError` for bad options, `InvalidNameError` for a `session` that is not an
   * id.
   */
  deadLetters(options: DeadLetterOptions = {}): Promise<Page<DeadLetterSummary>> {
    return deadLetterPage((session) => this.#linksOf(session), options, this.#tenant);
  }

  /**
   * A page of the audit log, oldest first. The log has decisions about calls, answers to questions, deletions of
   * sessions, edits of histories, actions on dead letters, replaced keys, and removals by `retention`. An entry stays
   * when its session is deleted. A page may be empty and still have a `next`, because each page looks at a bounded
   * number of entries. A view of a tenant shows only entries of its sessions. Rejects with `ConfigError` for bad
   * options, `InvalidNameError` for a `session` that is not an id, `StoreCorruptError` for an entry that cannot be
   * read.
   */
  audit(options: AuditOptions = {}): Promise<Page<AuditEntry>> {
    const shards = this.#parts.links.map((link) => (request: AuditRequest) => link.call('audit.page', request, true));
    return auditPage(shards, options, this.#tenant);
  }

  #linksOf(session: string | undefined): readonly ShardLink[] {
    return session === undefined ? this.#parts.links : [this.#linkOf(session)];
  }

  #linkOf(id: string): ShardLink {
    const link = this.#parts.links[shardOf(id, this.#parts.links.length)];
    if (link === undefined) throw new CancelledError('the runtime is closed');
    return link;
  }
}

/** The view of one tenant's sessions that `runtime.tenant` returns. `Runtime` has the same methods for all sessions. */
export class Tenant extends SessionsView {
  /** The tenant's name. The ids of its sessions begin with this name and a `~`. */
  readonly name: string;

  constructor(parts: ViewParts, name: string) {
    super(parts, name);
    this.name = name;
  }
}

function unknownSession(id: string): TroupeError {
  return new TroupeError('unknown_session', `there is no session ${JSON.stringify(id)}`, { data: { session: id } });
}
