/**
 * A session as its embedder holds it: an address, nothing more. Making one costs nothing and touches no disk; many handles
 * of one id are the same session.
 */
import { z } from 'zod';
import {
  APPROVAL_REASON_CHARACTERS_MAX,
  BUDGET_TOKENS_MAX,
  KEY_CHARACTERS_MAX,
  PAGE_BYTES_MAX,
  SERVER_PAGE_DEFAULT,
  SERVER_PAGE_MAX,
} from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import {
  CancelledError,
  ConfigError,
  ContentError,
  describeValue,
  errorFromShape,
  InvalidArgumentError,
  TroupeError,
} from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import { NotPlainError, toPlainJson, wellFormed } from '../../base/json.ts';
import type { Deliver, Message, Pending, UserContent } from '../../base/messages.ts';
import { parseOption } from '../../base/settings.ts';
import type { Definition, DefinitionSource } from '../../definitions/definition.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { ViewedEvent } from '../../events/viewed-event.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { Explanation } from '../../session/explain.ts';
import type { EventHub } from '../events/event-hub.ts';
import type { MessageCallback, MessageCallbacks } from '../events/message-callbacks.ts';
import type { Follower } from '../host/followed-receipts.ts';
import type { ShardLink } from '../host/shard-link.ts';
import type { PageKind, PageOf } from '../protocol/pages.ts';
import type { SessionSnapshot, ShardMethods, SpawnItem } from '../protocol/protocol.ts';
import { checkContent, fingerprintOf, postedKey, putOptions, sendSchema } from '../protocol/sent-message.ts';
import type { WaitingListener } from '../protocol/waiting-listeners.ts';
import type { Child } from './child.ts';
import { type EventOptions, sessionReading } from './event-options.ts';
import type { Family } from './family.ts';
import { type ForkOptions, makeFork } from './fork.ts';
import { Goals } from './goals.ts';
import { History } from './history.ts';
import { parseReceiptId, Receipt } from './receipt.ts';

/** How to send. */
export interface SendOptions {
  /** Idempotency: the same key and content gives the same receipt. */
  readonly key?: string;
  /** How the message meets a busy session; see the table in the README. Default `ride`. */
  readonly deliver?: Deliver;
  /** On failure the message leaves the log again and comes back in a `bounce_back` event. Default false. */
  readonly bounceBack?: boolean;
  /** Gives up waiting for the acceptance. The message may still be accepted: send again with a key to learn. */
  readonly signal?: AbortSignal;
  /** Who sends, for the record. */
  readonly from?: string;
}

/** What to spawn. */
export interface SpawnOptions {
  /** What the child is made of; default: its parent's agent. */
  readonly agent?: string;
  /** The same, by the name other agents know it under. */
  readonly specialist?: string;
  readonly task: string;
  /** A nickname, unique among the siblings; default `agent-N`. */
  readonly name?: string;
  /** Narrows the agent's tools by name; never widens. */
  readonly tools?: readonly string[];
  /** `mailbox` (default): replies enter the parent's mailbox; `handle`: they go to the child's handle only. */
  readonly replies?: 'mailbox' | 'handle';
  /**
   * Tokens the child and everything it spawns may use in all, input and output; at least 1. Before a model call that would begin
   * beyond it the turn fails with `LimitError` (`data.limit` is `budget`), and the parent is told; calls that are out still end.
   */
  readonly budget?: number;
  /** In `spawnAll`: idempotency of this item. */
  readonly key?: string;
}

/** Which page to read. */
export interface PageOptions {
  /** The `next` of the page before; default: the first page. */
  readonly after?: string;
  /** Items at most: 1 to 1,000, 100 by default. */
  readonly limit?: number;
  /** Approximate bytes beside the first item; default 1 MB. */
  readonly bytesMax?: number;
}

/** What a person says of a call. */
export interface ApprovalDecision {
  readonly allow: boolean;
  /** Of a denial, for the model. */
  readonly reason?: string;
  /** Of an allowed call: what it is run with instead. Checked against the tool's schema as any input. */
  readonly input?: Readonly<Record<string, unknown>>;
}

/** A session's state as its embedder sees it. */
export type SessionInfo = SessionSnapshot;

/** What a handle is made of. */
export interface SessionParts {
  readonly id: string;
  /** The agent the session is made of if it does not exist; undefined: it must exist. */
  readonly agent: string | undefined;
  readonly link: ShardLink;
  readonly hub: EventHub;
  readonly callbacks: MessageCallbacks;
  readonly remove: (id: string) => Promise<boolean>;
  /** What the handle of another session is made of, which must exist when it is used. */
  readonly sibling: (id: string) => SessionParts;
  /** Skills and workflows; missing: no directory of them was given. */
  readonly definitions?: DefinitionSource | undefined;
  /** Makes the handles that are more than a session; injected, since they are built on this file. */
  readonly kin: {
    readonly child: (parts: SessionParts, of: { readonly name: string; readonly parent: Session }) => Child;
    /** `ended`: ids of those that have ended, in that order. */
    readonly family: (children: readonly Child[], ended: () => Promise<readonly string[]>) => Family;
  };
}

type SendRequest = ShardMethods['session.send']['request'];

const NO_OPTIONS: SendOptions = Object.freeze({});

const number = z.number().int().min(0);
const messagesSchema = z.strictObject({ after: number.optional(), limit: number.optional() });
const onMessageSchema = z.strictObject({
  wait: z.boolean().optional(),
  signal: z.instanceof(AbortSignal).optional(),
});
const spawnKeySchema = z.strictObject({ key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional() });

const pageKindSchema = z.enum(['messages', 'pending', 'viewport', 'request']);
const pageSchema = z.strictObject({
  after: z.string().optional(),
  limit: z.number().int().min(1).max(SERVER_PAGE_MAX).optional(),
  bytesMax: z.number().int().min(1).optional(),
});
const PLACE = /^\d{1,15}$/;
/** Kind of delivery and number of an entry. */
const PENDING_PLACE = /^[0-4]-\d{1,15}$/;

const approvalSchema = z.strictObject({
  allow: z.boolean(),
  reason: z.string().max(APPROVAL_REASON_CHARACTERS_MAX).transform(wellFormed).optional(),
  input: z.record(z.string(), z.unknown()).optional(),
});

const spawnSchema = z.strictObject({
  agent: z.string().optional(),
  specialist: z.string().optional(),
  task: z.string(),
  name: z.string().optional(),
  tools: z.array(z.string()).optional(),
  replies: z.enum(['mailbox', 'handle']).optional(),
  key: z.string().min(1).max(KEY_CHARACTERS_MAX).optional(),
  budget: z.number().int().min(1).max(BUDGET_TOKENS_MAX).optional(),
});

/**
 * `send` for the HTTP interface: a message as bytes of the JSON of `{ content, key, deliver, bounceBack, from }`, which the session's
 * thread reads. Rejects as `send`, with `ConfigError` for other members and `InvalidArgumentError` for what is no JSON.
 */
export let postMessage: (session: Session, json: Uint8Array) => Promise<Receipt>;

/** See the head of the file. All methods but `events` return promises. */
export class Session {
  static {
    postMessage = (session, json) => session.#post(json);
  }

  readonly id: string;
  readonly #parts: SessionParts;
  #history: History | undefined;
  #goals: Goals | undefined;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.#parts = parts;
  }

  /** What every request names. */
  protected get address(): { readonly session: string; readonly agent?: string } {
    const { id, agent } = this.#parts;
    return { session: id, ...(agent === undefined ? {} : { agent }) };
  }

  /**
   * Puts a message into the mailbox; resolves once it is durable. Rejects with `ContentError` (blank or not storable),
   * `KeyReusedError`, `MailboxFullError`, `LimitError` (too large), `SessionBusyError` (`deliver: 'reject'`), `ConfigError`
   * (bad option), `StoreFullError`, `CancelledError` (signal, closed).
   */
  async send(content: UserContent, options: SendOptions = NO_OPTIONS): Promise<Receipt> {
    return this.#send(content, options);
  }

  async #send(content: UserContent, options: SendOptions, follower?: Follower): Promise<Receipt> {
    const sent = options === NO_OPTIONS ? NO_OPTIONS : parseOption(sendSchema, 'send', options);
    const { signal } = sent;
    if (signal?.aborted === true) throw new CancelledError('aborted by the signal', { cause: signal.reason });
    const { id, agent, link } = this.#parts;
    const request: Draft<SendRequest> = { session: id, content: checkContent(content) };
    putOptions(request, sent);
    if (agent !== undefined) request.agent = agent;
    if (follower !== undefined) request.follow = follower.id;
    const accepted = link.call('session.send', request, request.key !== undefined);
    const answer = await orAborted(accepted, signal);
    return new Receipt(this.#parts.link, { session: this.id, ...answer }, follower?.settled);
  }

  async #post(json: Uint8Array): Promise<Receipt> {
    const { link } = this.#parts;
    const request = { ...this.address, json };
    const answer = await link.call('session.post', request, false).catch((error: unknown) => {
      // The thread may have died of another session: with a key the message can be put again.
      const isRepeatable = error instanceof TroupeError && error.code === 'internal' && postedKey(json) !== undefined;
      if (!isRepeatable) throw error;
      return link.call('session.post', request, true);
    });
    return new Receipt(link, { session: this.id, ...answer });
  }

  /** `send`, then the answer. */
  async ask(content: UserContent, options: SendOptions = NO_OPTIONS): Promise<string> {
    const { receipts } = this.#parts.link;
    const follower = receipts.follow();
    try {
      const receipt = await this.#send(content, options, follower);
      // A message that was accepted before is not followed: its end may be long past.
      if (receipt.duplicate) receipts.tell(follower.id, undefined);
      return await orAborted(receipt.answer(), options.signal);
    } finally {
      receipts.tell(follower.id, undefined);
    }
  }

  /**
   * Replays durable events, then follows live ones: no gap, no duplicate. `break` unsubscribes. Read in `basic` or `verbose` they carry
   * no raw content.
   */
  events(options?: EventOptions & { readonly mode?: 'debug' }): AsyncIterableIterator<SessionEvent>;
  events(options: EventOptions): AsyncIterableIterator<ViewedEvent>;
  events(options: EventOptions = {}): AsyncIterableIterator<SessionEvent> {
    return this.#parts.hub.session(this.id, sessionReading(this.id, options));
  }

  state(): Promise<SessionInfo> {
    return this.#parts.link.call('session.state', this.address, true);
  }

  /** Why the session is not running now: exactly one reason. */
  explain(): Promise<Explanation> {
    return this.#parts.link.call('session.explain', this.address, true);
  }

  /** The log's messages after a sequence number, oldest first; all of them by default. */
  async messages(options: { readonly after?: number; readonly limit?: number } = {}): Promise<readonly Message[]> {
    const { after, limit } = parseOption(messagesSchema, 'messages', options);
    const wanted = { ...(after === undefined ? {} : { after }), ...(limit === undefined ? {} : { limit }) };
    return this.#parts.link.call('session.messages', { ...this.address, ...wanted }, true);
  }

  /**
   * A page of what the session holds: `messages` of the log, the mailbox in drain order (`pending`), the messages a model is shown
   * (`viewport`), the messages of the request (`request`; the first page has the rest of it in `head`). Bounded in bytes while it is
   * read, with at least one item where there is one. `next` is the `after` of the page that follows. Rejects with `ConfigError`.
   */
  async page<Kind extends PageKind>(of: Kind, options: PageOptions = {}): Promise<PageOf[Kind]> {
    const kind = parseOption(pageKindSchema, 'page.of', of);
    const { after, limit = SERVER_PAGE_DEFAULT, bytesMax = PAGE_BYTES_MAX } = parseOption(pageSchema, 'page', options);
    const form = kind === 'pending' ? PENDING_PLACE : PLACE;
    if (after !== undefined && !form.test(after)) {
      throw new ConfigError(`option "page.after" must be the next of a page of ${kind}, got ${describeValue(after)}`, {
        data: { key: 'page.after' },
      });
    }
    const bounds = { limit, bytesMax, ...(after === undefined ? {} : { after }) };
    const page = await this.#parts.link.call('session.page', { ...this.address, of: kind, ...bounds }, true);
    // The shard answers with a page of the kind it was asked for.
    return page as PageOf[Kind];
  }

  /** The mailbox in drain order. */
  pending(): Promise<readonly Pending[]> {
    return this.#parts.link.call('session.pending', this.address, true);
  }

  /** Withdraws a user's entry that was not promoted yet; true iff it won. Anything else is left alone. */
  async recall(pendingId: number): Promise<boolean> {
    const entry = parseOption(number, 'recall.pendingId', pendingId);
    return this.#parts.link.call('session.recall', { ...this.address, pendingId: entry }, false);
  }

  /** Cancels the model call, the running tools and the working children; true if this session was running. */
  async interrupt(reason?: string): Promise<boolean> {
    parseOption(z.string().optional(), 'interrupt.reason', reason);
    return this.#parts.link.call(
      'session.interrupt',
      { ...this.address, ...(reason === undefined ? {} : { reason }) },
      false,
    );
  }

  /**
   * Decides a call that waits for a person (`approval.required`); durable when it resolves. True when the decision holds: also
   * when the same one was told before. False when the call does not wait, or was decided otherwise. `input` runs an allowed
   * call with another input; `reason` of a denial is told to the model. Rejects with `ContentError` for an input that cannot
   * be stored, `ConfigError` for a bad option.
   */
  async approve(callId: string, decision: ApprovalDecision): Promise<boolean> {
    const { allow, reason, input } = parseOption(approvalSchema, 'approve', decision);
    const request = {
      ...this.address,
      callId: parseOption(z.string(), 'approve.callId', callId),
      allow,
      ...(reason === undefined ? {} : { reason }),
      ...(input === undefined ? {} : { input: plainInput(input) }),
    };
    return this.#parts.link.call('session.approve', request, true);
  }

  /**
   * Starts a child; resolves once child, first message and link are durable. The same key re-attaches. Rejects with
   * `ConfigError` (blank task, unknown tool or agent), `InvalidNameError` (nickname), `LimitError` (depth, children).
   */
  async spawn(options: SpawnOptions, extra: { readonly key?: string } = {}): Promise<Child> {
    const { key } = parseOption(spawnKeySchema, 'spawn', extra);
    const [child] = await this.#spawn([
      key === undefined ? options : { ...parseOption(spawnSchema, 'spawn.0', options), key },
    ]);
    if (child === undefined) throw new TroupeError('internal', 'a spawn was not answered');
    return child;
  }

  /** Starts many children; those beyond `limits.liveSessions` wait their turn. Rejects if one of them is refused. */
  async spawnAll(list: readonly SpawnOptions[]): Promise<Family> {
    const children = await this.#spawn(list);
    const ids = children.map(({ id }) => id);
    const { link, kin } = this.#parts;
    return kin.family(children, () => link.call('children.ended', { session: this.id, children: ids }, true));
  }

  async #spawn(list: unknown): Promise<readonly Child[]> {
    const items = parseOption(z.array(z.unknown()), 'spawnAll', list).map((item, index) => spawnItem(item, index));
    const repeatable = items.every((item) => item.key !== undefined);
    const answers = await this.#parts.link.call('session.spawn', { ...this.address, items }, repeatable);
    return answers.map((answer) => {
      if ('error' in answer) throw errorFromShape(answer.error);
      return this.#parts.kin.child(
        { ...this.#parts, id: answer.child, agent: undefined },
        { name: answer.name, parent: this },
      );
    });
  }

  /** A child of this session by its id, re-attached. */
  async child(id: string): Promise<Child> {
    const session = checkSessionId(id);
    const link = await this.#parts.link.call('child.link', { session }, true);
    if (link.parent !== this.id) {
      throw new TroupeError('unknown_session', `${JSON.stringify(id)} is not a child of ${JSON.stringify(this.id)}`);
    }
    return this.#parts.kin.child({ ...this.#parts, id, agent: undefined }, { name: link.name ?? '', parent: this });
  }

  /** The conversation as it can be read, changed and repaired. */
  get history(): History {
    const { link, callbacks } = this.#parts;
    this.#history ??= new History({ address: this.address, link, callbacks });
    return this.#history;
  }

  /**
   * Calls `callback` with each message that is said from now on, in order, once it is durable: answers, results of tools, what
   * is added to the history and not silent. Throws `InvalidArgumentError` (`callback_required`), `LimitError`.
   */
  onMessage(callback: MessageCallback): this;
  /**
   * Registers a listener that the session's runs wait for, and returns the session: it is told of each message a run stores,
   * in order, once that is durable, and may stop the run there. Not kept with the session: who opens the store again
   * registers again. `signal` ends it. Throws `InvalidArgumentError` (`callback_required`) for
   * what is no function, `LimitError` for too many.
   */
  onMessage(listener: WaitingListener, options: { readonly wait: true; readonly signal?: AbortSignal }): this;
  onMessage(
    listener: MessageCallback | WaitingListener,
    options?: { readonly wait: true; readonly signal?: AbortSignal },
  ): this {
    const waits = parseOption(onMessageSchema.optional(), 'onMessage', options)?.wait === true;
    if (waits) this.#waitFor(listener as WaitingListener, options?.signal);
    else this.#parts.callbacks.add(this.id, listener as MessageCallback);
    return this;
  }

  #waitFor(listener: WaitingListener, signal: AbortSignal | undefined): void {
    if (typeof listener !== 'function') {
      throw new InvalidArgumentError('callback_required', `onMessage needs a function, got ${describeValue(listener)}`);
    }
    const { id } = this;
    const { link } = this.#parts;
    if (signal?.aborted === true) return;
    const remove = link.listeners.add(id, listener);
    link.gate(id, true);
    signal?.addEventListener(
      'abort',
      () => {
        remove();
        if (!link.listeners.has(id)) link.gate(id, false);
      },
      { once: true },
    );
  }

  /** What the session works towards. */
  get goals(): Goals {
    this.#goals ??= new Goals(this.#parts.link, this.address);
    return this.#goals;
  }

  /**
   * Puts a skill before the model with the next half-step, unless it is active: as long as its text stands in the window. Rejects
   * with `ConfigError` for a name nobody defined, `MailboxFullError`, `LimitError`.
   */
  activateSkill(name: string): Promise<Definition> {
    return this.#activate('skill', name);
  }

  /** The same for a workflow; the newest is the active one. Main sessions only. */
  activateWorkflow(name: string): Promise<Definition> {
    return this.#activate('workflow', name);
  }

  async #activate(kind: 'skill' | 'workflow', name: string): Promise<Definition> {
    const definition = this.#parts.definitions?.[kind](parseOption(z.string(), kind, name));
    if (definition === undefined) {
      throw new ConfigError(`Unknown ${kind}: ${typeof name === 'string' ? name : describeValue(name)}`, {
        data: { key: kind },
      });
    }
    const { content } = definition;
    // Made again it changes nothing: what is active stays so.
    await this.#parts.link.call('session.activate', { ...this.address, kind, name: definition.name, content }, true);
    return definition;
  }

  /** The messages a model is shown now. */
  viewport(): Promise<readonly Message[]> {
    return this.#parts.link.call('session.viewport', this.address, true);
  }

  /** The whole request body as the log stands, without cache marks; byte-stable under `JSON.stringify`. */
  request(): Promise<ModelRequest> {
    return this.#parts.link.call('session.request', this.address, true);
  }

  /** A receipt again, by its id; also after a restart. */
  async receipt(id: string): Promise<Receipt> {
    const named = parseReceiptId(id);
    const found = named.session === this.id ? await this.#parts.link.call('receipt.find', named, true) : undefined;
    if (found === undefined)
      throw new TroupeError('unknown_session', `no receipt ${JSON.stringify(id)} in ${JSON.stringify(this.id)}`);
    return new Receipt(this.#parts.link, { ...named, ...found, duplicate: true });
  }

  /**
   * A new session that goes on from this one as it stands, or as it stood behind message `at`. The log so far is shared, not
   * copied; what either does afterwards the other does not see. Messages, tasks and the system text of the epoch go along;
   * the mailbox, receipts, children and running calls stay. Its events begin with its own, `messages()` has all. Resolves once
   * it is durable. Rejects with `TroupeError` (`unknown_session`), `InvalidArgumentError` (`message_not_found`: no such message
   * in the conversation now), `InvalidNameError` (an id that is taken, or too long), `ConfigError`.
   */
  async fork(options: ForkOptions = {}): Promise<Session> {
    return new Session(await makeFork(this.#parts, options));
  }

  /** No half-step starts until `resume`; durable. What runs goes on. */
  async pause(): Promise<void> {
    await this.#parts.link.call('session.pause', this.address, true);
  }

  /**
   * Lifts `pause`, and the stop after a failed authentication or a model that was not found: others on the key may call again,
   * and those on its session thread that the key stopped resume with it (`runtime.resume()`: those of all threads).
   * Goes on with a suspended run: its pending calls first, then the model. Rejects (`limit`, retryable) where that cannot start now.
   */
  async resume(): Promise<void> {
    await this.#parts.link.call('session.resume', this.address, true);
  }

  /** Deletes the session and its descendants; false when there was none. */
  delete(): Promise<boolean> {
    return this.#parts.remove(this.id);
  }
}

function spawnItem(options: unknown, index: number): SpawnItem {
  const { agent, specialist, task, name, tools, replies, budget, key } = parseOption(
    spawnSchema,
    `spawn.${index}`,
    options,
  );
  const item = {
    task: wellFormed(task),
    replies: replies ?? 'mailbox',
    ...(specialist === undefined ? {} : { agent: specialist, specialist: true }),
    ...(agent === undefined ? {} : { agent }),
    ...(name === undefined ? {} : { name }),
    ...(tools === undefined ? {} : { tools }),
    ...(budget === undefined ? {} : { budget }),
  } as const;
  return key === undefined ? item : { ...item, key, fingerprint: fingerprintOf(JSON.stringify(item)) };
}

/** An input as it may be stored. Throws `ContentError`. */
function plainInput(input: unknown): unknown {
  try {
    return toPlainJson(input);
  } catch (error) {
    if (error instanceof NotPlainError) throw new ContentError(`input is ${error.message}`, { cause: error });
    throw error;
  }
}

/** The promise's outcome, or a `CancelledError` as soon as the signal fires. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new CancelledError('aborted by the signal', { cause: signal.reason }));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
