/** Handles of the sessions and receipts on a server. A handle is only an address: it keeps no state of its session. */
import { PAGE_ITEMS } from './bounds.ts';
import type { Connection, RequestOptions, StreamOptions } from './connection.ts';
import type {
  Agent,
  ApprovalDecision,
  DeadLetter,
  DeadLetterSummary,
  Deliver,
  Explanation,
  ForkOptions,
  Goal,
  HistoryMessage,
  Message,
  Pending,
  QueuedCall,
  ReceiptStatus,
  ResendOptions,
  SessionEvent,
  SessionInfo,
  SessionSummary,
  ShortViewMode,
  Usage,
  UsageOptions,
  UserContent,
  ViewedEvent,
} from './types.ts';

type AnyAgent = Agent<unknown, string>;
type OneOf<Agents> = Agents extends readonly (infer One)[]
  ? One
  : Agents extends Readonly<Record<string, infer One>>
    ? One
    : never;

/** The names of a service's agents; any text if the type of the agents is unknown. */
export type AgentName<Agents> = [OneOf<Agents>] extends [never]
  ? string
  : OneOf<Agents> extends AnyAgent
    ? OneOf<Agents>['name']
    : string;

/**
 * The type of the answers of the agent `Name`: text, or the JSON value that the agent's `output` describes. A client
 * does not run the transforms of a schema.
 */
export type AnswerFor<Agents, Name> =
  Extract<OneOf<Agents>, { readonly name: Name }> extends Agent<infer Answer, string> ? Answer : string;

/** Options of `send`. */
export interface RemoteSendOptions extends RequestOptions {
  /** Idempotency: a message with the same key and content is accepted once, so a failed request can be repeated. */
  readonly key?: string;
  readonly deliver?: Deliver;
  readonly bounceBack?: boolean;
  readonly from?: string;
  /**
   * Names the earlier message that this message replaces, by its key or by its id in the history. See `SendOptions` of
   * `troupe`.
   */
  readonly replaces?: { readonly key: string } | { readonly id: string };
}

/** Options of `events`. */
export interface RemoteEventOptions extends StreamOptions {
  /** Only events after this seq are read; default 0: all events. */
  readonly after?: number;
  /** Default true. False: no deltas of texts that are being written. */
  readonly deltas?: boolean;
}

interface Accepted {
  readonly id: string;
  readonly session: string;
  readonly seq: number;
  readonly pendingId: number;
  readonly duplicate: boolean;
}

/** The receipt of an accepted message. */
export class RemoteReceipt<Answer = string> {
  readonly id: string;
  readonly session: string;
  readonly seq: number;
  readonly pendingId: number;
  readonly duplicate: boolean;
  readonly #connection: Connection;

  constructor(connection: Connection, { id, session, seq, pendingId, duplicate }: Accepted) {
    this.#connection = connection;
    this.id = id;
    this.session = session;
    this.seq = seq;
    this.pendingId = pendingId;
    this.duplicate = duplicate;
  }

  /** The outcome of the message so far. */
  async status(options: RequestOptions = {}): Promise<ReceiptStatus> {
    const { status, reason, output } = await this.#connection.get<ReceiptStatus>(this.#path, {}, options);
    return { status, ...(reason === undefined ? {} : { reason }), ...(output === undefined ? {} : { output }) };
  }

  /**
   * Waits for the answer, even if the connection is lost meanwhile. Rejects with `ClientError`; its code is
   * `turn_failed`, `limit`, `cancelled`, a code that begins with `answer_`, or a code of the model's errors.
   */
  async answer(options: RequestOptions = {}): Promise<Answer> {
    const ended = await this.#connection.get<{ readonly answer?: string; readonly output?: unknown }>(
      this.#path,
      { wait: 'answer' },
      options,
    );
    return (ended.output === undefined ? ended.answer : ended.output) as Answer;
  }

  get #path(): string {
    return `sessions/${encodeURIComponent(this.session)}/receipts/${encodeURIComponent(this.id)}`;
  }
}

/** A session of a server. Every method rejects with `ClientError`, or with the reason of its signal. */
export class RemoteSession<Answer = string> {
  readonly id: string;
  readonly #connection: Connection;
  readonly #agent: string | undefined;
  #isCreated = false;

  constructor(connection: Connection, id: string, agent?: string) {
    this.#connection = connection;
    this.id = id;
    this.#agent = agent;
  }

  #path(rest = ''): string {
    return `sessions/${encodeURIComponent(this.id)}${rest}`;
  }

  /**
   * Puts a message into the mailbox. Resolves once the message is on the server's disk. If the session does not exist,
   * it is created.
   */
  async send(content: UserContent, options: RemoteSendOptions = {}): Promise<RemoteReceipt<Answer>> {
    const { signal, ...given } = options;
    if (this.#agent !== undefined && !this.#isCreated) {
      await this.#connection.post('sessions', { id: this.id, agent: this.#agent }, { signal });
      this.#isCreated = true;
    }
    const accepted = await this.#connection.post<Accepted>(this.#path('/messages'), { content, ...given }, { signal });
    return new RemoteReceipt<Answer>(this.#connection, accepted);
  }

  /** Calls `send`, then waits for the answer. */
  async ask(content: UserContent, options: RemoteSendOptions = {}): Promise<Answer> {
    return (await this.send(content, options)).answer(options);
  }

  /** Finds a receipt by its id. */
  async receipt(id: string, options: RequestOptions = {}): Promise<RemoteReceipt<Answer>> {
    const path = this.#path(`/receipts/${encodeURIComponent(id)}`);
    const found = await this.#connection.get<Accepted>(path, {}, options);
    return new RemoteReceipt<Answer>(this.#connection, { ...found, duplicate: true });
  }

  /**
   * The events of the session: first the existing events, then new ones, without a gap or a duplicate, even over a lost
   * connection. `break` ends the stream. In the modes `basic` and `verbose` events carry no raw content.
   */
  events(options?: RemoteEventOptions & { readonly mode?: 'debug' }): AsyncGenerator<SessionEvent>;
  events(options: RemoteEventOptions & { readonly mode: ShortViewMode }): AsyncGenerator<ViewedEvent>;
  events(
    options: RemoteEventOptions & { readonly mode?: ShortViewMode | 'debug' } = {},
  ): AsyncGenerator<SessionEvent | ViewedEvent> {
    const { after = 0, mode = 'debug', deltas, ...others } = options;
    return this.#connection.events<SessionEvent>(this.#path('/events'), { mode, deltas }, after, others);
  }

  /** The session and its state. Rejects with `unknown_session` if the session does not exist. */
  state(options: RequestOptions = {}): Promise<SessionSummary & SessionInfo> {
    return this.#connection.get(this.#path(), {}, options);
  }

  /** Why the session is not running: exactly one reason. */
  explain(options: RequestOptions = {}): Promise<Explanation> {
    return this.#connection.get(this.#path('/explain'), {}, options);
  }

  /** The log's messages after the seq `after`, oldest first; all messages by default. */
  messages(options: RequestOptions & { readonly after?: number } = {}): Promise<readonly Message[]> {
    return this.#all<Message>(this.#path('/messages'), 'messages', options);
  }

  /** The mailbox in drain order. */
  pending(options: RequestOptions = {}): Promise<readonly Pending[]> {
    return this.#all<Pending>(this.#path('/pending'), 'pending', options);
  }

  /**
   * The calls of this session that wait for a person, oldest first. Reads only the first page of the waiting calls of
   * this session and its descendants.
   */
  async waiting(options: RequestOptions = {}): Promise<readonly QueuedCall[]> {
    const query = { session: this.id, limit: PAGE_ITEMS };
    const { waiting } = await this.#connection.get<{ waiting: readonly QueuedCall[] }>('waiting', query, options);
    // A caller with the token of a tenant may leave out the tenant in a session's id. The server returns the full id.
    return waiting.filter(({ session }) => session === this.id || session.endsWith(`~${this.id}`));
  }

  /** The conversation in the form of the history operations. */
  history(options: RequestOptions = {}): Promise<readonly HistoryMessage[]> {
    return this.#all<HistoryMessage>(this.#path('/history'), 'messages', options);
  }

  /** Does one operation on the history, such as `{ operation: 'popLast' }`. Resolves to its outcome, or null. */
  async edit(
    operation: { readonly operation: string; readonly key?: string } & Readonly<Record<string, unknown>>,
    options: RequestOptions = {},
  ): Promise<unknown> {
    return (await this.#connection.post<{ readonly outcome: unknown }>(this.#path('/history'), operation, options))
      .outcome;
  }

  /** The tokens that the session has used; with `tree`, the tokens of all its descendants are added. */
  async usage({ tree, ...options }: UsageOptions & RequestOptions = {}): Promise<Usage> {
    const query = tree === undefined ? {} : { tree: String(tree) };
    return (await this.#connection.get<{ usage: Usage }>(this.#path('/usage'), query, options)).usage;
  }

  /** Sets the tokens that the session and all its descendants may use in total; `null`: no limit. */
  async setBudget(tokens: number | null, options: RequestOptions = {}): Promise<void> {
    await this.#connection.post(this.#path('/budget'), { tokens }, options);
  }

  /** Cancels the model call, the tools and the working children; true if the session or a child of it was at work. */
  async interrupt(reason?: string, options: RequestOptions = {}): Promise<boolean> {
    const body = reason === undefined ? {} : { reason };
    const { interrupted } = await this.#connection.post<{ interrupted: boolean }>(
      this.#path('/interrupt'),
      body,
      options,
    );
    return interrupted;
  }

  /** Decides about a call that waits for a person. False if the call does not wait, or was decided differently. */
  async approve(callId: string, decision: ApprovalDecision, options: RequestOptions = {}): Promise<boolean> {
    const body = { callId, ...decision };
    return (await this.#connection.post<{ decided: boolean }>(this.#path('/approve'), body, options)).decided;
  }

  /** Answers a question. False if the call asks nothing, or was answered differently. */
  async answer(callId: string, value: unknown, options: RequestOptions = {}): Promise<boolean> {
    return (await this.#connection.post<{ answered: boolean }>(this.#path('/answer'), { callId, value }, options))
      .answered;
  }

  /** Declines to answer a question. Resolves as `answer` does. */
  async decline(callId: string, reason?: string, options: RequestOptions = {}): Promise<boolean> {
    const body = { callId, decline: true, ...(reason === undefined ? {} : { reason }) };
    return (await this.#connection.post<{ answered: boolean }>(this.#path('/answer'), body, options)).answered;
  }

  /** Withdraws a message that was not promoted yet; true if the message was withdrawn. */
  async recall(pendingId: number, options: RequestOptions = {}): Promise<boolean> {
    return (await this.#connection.post<{ recalled: boolean }>(this.#path('/recall'), { pendingId }, options)).recalled;
  }

  /** The dead letters of this session and its descendants, without their contents. */
  async deadLetters(options: RequestOptions = {}): Promise<readonly DeadLetterSummary[]> {
    return this.#all<DeadLetterSummary>('dead-letters', 'letters', { ...options, session: this.id });
  }

  /** A dead letter with its content. Rejects with `not_found` if there is no such letter. */
  deadLetter(id: number, options: RequestOptions = {}): Promise<DeadLetter> {
    return this.#connection.get(this.#path(`/dead-letters/${id}`), {}, options);
  }

  /**
   * Sends a dead letter again: with `as: 'user'` as a user's message, otherwise in its own form. Repeating the call
   * returns the same receipt.
   */
  async resendDeadLetter(id: number, { as, signal }: ResendOptions & RequestOptions = {}): Promise<RemoteReceipt> {
    const body = as === undefined ? {} : { as };
    const sent = await this.#connection.post<Accepted>(this.#path(`/dead-letters/${id}/resend`), body, { signal });
    return new RemoteReceipt(this.#connection, sent);
  }

  /** Drops a dead letter; false if there is no such letter. */
  async dropDeadLetter(id: number, options: RequestOptions = {}): Promise<boolean> {
    const path = this.#path(`/dead-letters/${id}`);
    return (await this.#connection.remove<{ dropped: boolean }>(path, options)).dropped;
  }

  /** Pauses the session: it starts no half-step until `resume`. */
  async pause(options: RequestOptions = {}): Promise<void> {
    await this.#connection.post(this.#path('/pause'), {}, options);
  }

  /** Ends a pause, and the block after refused credentials; continues a suspended run. */
  async resume(options: RequestOptions = {}): Promise<void> {
    await this.#connection.post(this.#path('/resume'), {}, options);
  }

  /** The goals, each with its parts. */
  async goals(options: RequestOptions = {}): Promise<readonly Goal[]> {
    return (await this.#connection.get<{ goals: readonly Goal[] }>(this.#path('/goals'), {}, options)).goals;
  }

  /**
   * Creates a session that continues from this session: from its present state, or from its state after message `at`.
   */
  async fork(given: ForkOptions = {}, options: RequestOptions = {}): Promise<RemoteSession<Answer>> {
    const { id } = await this.#connection.post<{ readonly id: string }>(this.#path('/fork'), given, options);
    return new RemoteSession<Answer>(this.#connection, id);
  }

  /** Deletes the session and its descendants. */
  async delete(options: RequestOptions = {}): Promise<void> {
    await this.#connection.remove(this.#path(), options);
  }

  async #all<Item>(
    path: string,
    list: string,
    { after, signal, session }: RequestOptions & { readonly after?: number; readonly session?: string },
  ): Promise<readonly Item[]> {
    const items: Item[] = [];
    let next: string | number | undefined = after;
    do {
      const query = { limit: PAGE_ITEMS, after: next, session };
      const page: Readonly<Record<string, unknown>> = await this.#connection.get(path, query, { signal });
      items.push(...(page[list] as readonly Item[]));
      next = page['next'] as string | number | undefined;
    } while (next !== undefined);
    return items;
  }
}
