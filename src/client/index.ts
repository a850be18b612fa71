/**
 * Subpath `troupe/client`: the sessions of a server, for browsers and Node. It needs only `fetch`.
 *
 * A service can export the type of its agents: `export type Agents = typeof agents`. Then `createClient<Agents>` knows
 * the names of the agents and the type of each agent's answers.
 */
import { type ClientOptions, Connection, type RequestOptions } from './connection.ts';
import { type AgentName, type AnswerFor, RemoteSession } from './session.ts';
import type {
  AuditEntry,
  AuditOptions,
  DeadLetterSummary,
  ListedSession,
  ListOptions,
  MessageSearchResult,
  QueuedCall,
  SessionEvent,
} from './types.ts';

export type { ClientOptions, RequestOptions } from './connection.ts';
export { ClientError, type ClientErrorCode } from './errors.ts';
export {
  type AgentName,
  type AnswerFor,
  type RemoteEventOptions,
  RemoteReceipt,
  type RemoteSendOptions,
  RemoteSession,
} from './session.ts';

/**
 * The client of a server. A method that returns a promise rejects with `ClientError`, or with the reason of its signal.
 * The generator of `events` throws the same errors while it is read.
 */
export class Client<Agents = unknown> {
  readonly #connection: Connection;

  constructor(options: ClientOptions) {
    this.#connection = new Connection(options);
  }

  /**
   * Returns the handle of a session, without a request. `agent`: if the session does not exist, `send` creates it with
   * this agent.
   */
  session(id: string): RemoteSession;
  session<Name extends AgentName<Agents>>(id: string, agent: Name): RemoteSession<AnswerFor<Agents, Name>>;
  session(id: string, agent?: string): RemoteSession<unknown> {
    return new RemoteSession<unknown>(this.#connection, id, agent);
  }

  /** A page of the sessions, with the filters of `runtime.sessions.list`. `after`: the `next` of the previous page. */
  sessions(
    options: RequestOptions & Omit<ListOptions, 'after'> & { readonly after?: string } = {},
  ): Promise<{ readonly sessions: readonly ListedSession[]; readonly next?: string }> {
    const { signal, parent, status, changedAfter, changedBefore, ...rest } = options;
    const query = {
      ...rest,
      parent: parent === null ? '' : parent,
      status: typeof status === 'object' ? status.join(',') : status,
      changedAfter: changedAfter?.valueOf(),
      changedBefore: changedBefore?.valueOf(),
    };
    return this.#connection.get('sessions', query, { signal });
  }

  /**
   * A page of the calls that wait for a person, oldest first. `session`: only calls of this session and its
   * descendants.
   */
  waiting(
    options: RequestOptions & { readonly after?: string; readonly limit?: number; readonly session?: string } = {},
  ): Promise<{ readonly waiting: readonly QueuedCall[]; readonly next?: string }> {
    const { after, limit, session, signal } = options;
    return this.#connection.get('waiting', { after, limit, session }, { signal });
  }

  /**
   * A page of the dead letters of all sessions, without their contents. A page may be empty and still have a `next`.
   * `session`: only letters of this session and its descendants.
   */
  deadLetters(
    options: RequestOptions & { readonly after?: string; readonly limit?: number; readonly session?: string } = {},
  ): Promise<{ readonly letters: readonly DeadLetterSummary[]; readonly next?: string }> {
    const { after, limit, session, signal } = options;
    return this.#connection.get('dead-letters', { after, limit, session }, { signal });
  }

  /**
   * A page of the audit log, oldest first. Needs a token with the role `admin`. A page may be empty and still have a
   * `next`. `session`: only entries of this session and its descendants, even if they are deleted.
   */
  audit(
    options: RequestOptions & AuditOptions = {},
  ): Promise<{ readonly entries: readonly AuditEntry[]; readonly next?: string }> {
    const { after, limit, session, action, signal } = options;
    return this.#connection.get('audit', { after, limit, session, action }, { signal });
  }

  /** The messages that fit a query best, best first. `session`: searches only the tree of this session. */
  search(
    query: string,
    options: RequestOptions & { readonly limit?: number; readonly session?: string } = {},
  ): Promise<MessageSearchResult> {
    const { limit, session, signal } = options;
    return this.#connection.get('search', { query, limit, session }, { signal });
  }

  /**
   * The live events of all sessions, with their content. Events that are published while the connection is lost are
   * missing.
   */
  events(
    options: RequestOptions & { readonly session?: string; readonly deltas?: boolean } = {},
  ): AsyncGenerator<SessionEvent> {
    const { session, deltas, signal } = options;
    return this.#connection.events<SessionEvent>('events', { session, deltas, mode: 'debug' }, undefined, { signal });
  }
}

/** A client of a server. `Agents`: the type of the service's agents, in a list or an object. */
export function createClient<Agents = unknown>(options: ClientOptions): Client<Agents> {
  return new Client<Agents>(options);
}
