/**
 * `Session`: the embedder's handle of a session. A handle is only an address: making one costs nothing and touches no
 * disk, and all handles of one id mean the same session.
 */

import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import { CancelledError, describeValue, InvalidArgumentError, TroupeError } from '../../base/errors.ts';
import { orAborted } from '../../base/lazy-abort.ts';
import type { Message, Pending, Usage, UserContent } from '../../base/messages.ts';
import { parseOption } from '../../base/parse-option.ts';
import { type Definition, unknownDefinition } from '../../definitions/definition.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { ViewedEvent } from '../../events/viewed-event.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { Explanation } from '../../session/explain.ts';
import type { MessageCallback } from '../events/message-callbacks.ts';
import type { Follower } from '../host/followed-receipts.ts';
import { checkHere } from '../host/shard-finder.ts';
import type { OfSession } from '../protocol/addresses.ts';
import type { AnswerOf, OutputSchema } from '../protocol/output-option.ts';
import type { PageKind, PageOf } from '../protocol/pages.ts';
import type { SessionSnapshot, ShardMethods, WantedReceipt } from '../protocol/protocol.ts';
import { checkContent, postedKey, putOptions, sendSchema } from '../protocol/sent-message.ts';
import type { WaitingListener } from '../protocol/waiting-listeners.ts';
import { forgivenAtClose } from './at-close.ts';
import type { Child } from './child.ts';
import { DeadLetters } from './dead-letters.ts';
import { type EventOptions, sessionReading } from './event-options.ts';
import type { Family } from './family.ts';
import { Goals } from './goals.ts';
import { History } from './history.ts';
import { Receipt, wantedReceipt } from './receipt.ts';
import {
  type ApprovalDecision,
  checkAnswer,
  checkBudget,
  checkDecision,
  checkDecline,
  checkForkOptions,
  checkInterrupt,
  checkListenerOptions,
  checkMessagesOptions,
  checkPageOptions,
  checkPendingId,
  checkReceiptOptions,
  checkUsageOptions,
  childId,
  type DeleteOptions,
  type ForkOptions,
  type PageOptions,
  type ReplyOptions,
  type SendOptions,
  type StructuredSendOptions,
  type UsageOptions,
} from './session-options.ts';
import type { SessionParts } from './session-parts.ts';
import {
  checkSpawnItems,
  keyedSpawn,
  outputOf,
  refusedSpawn,
  type SpawnAllOptions,
  type SpawnExtra,
  type SpawnOptions,
  type StructuredSpawnOptions,
} from './spawn-options.ts';

type SendRequest = ShardMethods['session.send']['request'];

const NO_OPTIONS: SendOptions = Object.freeze({});

/**
 * `send` for the HTTP interface. The session's thread parses the message, which is JSON bytes of
 * `{ content, key, deliver, bounceBack, from, replaces, output }`. Rejects as `send` does, and with
 * `InvalidArgumentError` for invalid JSON or other members.
 */
export let postMessage: (session: Session<unknown>, json: Uint8Array) => Promise<Receipt>;

/** See the head of the file. `Answer`: text, or the answers of the agent's `output` if the handle was made with it. */
export class Session<Answer = string> {
  static {
    postMessage = (session, json) => session.#post(json);
  }

  readonly id: string;
  readonly #parts: SessionParts;
  #history: History | undefined;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.#parts = parts;
  }

  /** The members that every request carries. */
  protected get address(): OfSession {
    return { session: this.id, ...this.#parts.named };
  }

  /**
   * Puts a message into the mailbox; resolves once it is durable. Rejects with `ContentError` (blank or not storable),
   * `KeyReusedError`, `MailboxFullError`, `LimitError` (too large), `SessionBusyError` (`deliver: 'reject'`),
   * `ConfigError` (bad option), `InvalidArgumentError` (`message_not_found`: `replaces` names no message of the
   * conversation), `StoreFullError`, `CancelledError` (signal, closed). `output`: the schema of a structured answer.
   */
  send<Output extends OutputSchema>(
    content: UserContent,
    options: StructuredSendOptions<Output>,
  ): Promise<Receipt<AnswerOf<Output>>>;
  send(content: UserContent, options?: SendOptions): Promise<Receipt<Answer>>;
  send(content: UserContent, options: SendOptions | StructuredSendOptions = NO_OPTIONS): Promise<Receipt<unknown>> {
    return forgivenAtClose(this.#parts.link, this.#send(content, options));
  }

  async #send(
    content: UserContent,
    options: SendOptions | StructuredSendOptions,
    follower?: Follower,
  ): Promise<Receipt<unknown>> {
    const sent = options === NO_OPTIONS ? NO_OPTIONS : parseOption(sendSchema, 'send', options);
    const { signal } = sent;
    if (signal?.aborted === true) throw new CancelledError('aborted by the signal', { cause: signal.reason });
    const { id, named, link } = this.#parts;
    const request: Draft<SendRequest> = { session: id, ...named, content: checkContent(content) };
    putOptions(request, sent);
    if (follower !== undefined) request.follow = follower.id;
    const accepted = link.call('session.send', request, request.key !== undefined);
    const answer = await orAborted(accepted, signal);
    const output = 'output' in options ? options.output : this.#parts.output;
    return new Receipt(this.#parts.link, { session: this.id, ...answer }, follower?.settled, output);
  }

  async #post(json: Uint8Array): Promise<Receipt> {
    const { link } = this.#parts;
    const request = { ...this.address, json };
    const answer = await link.call('session.post', request, false).catch((error: unknown) => {
      // The thread may have died because of another session, so a message with a key can be sent again.
      const isRepeatable = error instanceof TroupeError && error.code === 'internal' && postedKey(json) !== undefined;
      if (!isRepeatable) throw error;
      return link.call('session.post', request, true);
    });
    return new Receipt(link, { session: this.id, ...answer });
  }

  /** Calls `send`, then waits for the answer: text, or the value that `output` describes. */
  ask<Output extends OutputSchema>(
    content: UserContent,
    options: StructuredSendOptions<Output>,
  ): Promise<AnswerOf<Output>>;
  ask(content: UserContent, options?: SendOptions): Promise<Answer>;
  ask(content: UserContent, options: SendOptions | StructuredSendOptions = NO_OPTIONS): Promise<unknown> {
    return forgivenAtClose(this.#parts.link, this.#ask(content, options));
  }

  async #ask(content: UserContent, options: SendOptions | StructuredSendOptions): Promise<unknown> {
    const { receipts } = this.#parts.link;
    const follower = receipts.follow();
    try {
      const receipt = await this.#send(content, options, follower);
      // A message that was accepted before is not followed: its turn may have ended long ago.
      if (receipt.duplicate) receipts.notify(follower.id, undefined);
      return await orAborted(receipt.answer(), options.signal);
    } finally {
      receipts.notify(follower.id, undefined);
    }
  }

  /**
   * Replays durable events, then follows live events without a gap or a duplicate. `break` unsubscribes. In `basic` or
   * `verbose` the events carry no raw content.
   */
  events(options?: EventOptions & { readonly mode?: 'debug' }): AsyncIterableIterator<SessionEvent>;
  events(options: EventOptions): AsyncIterableIterator<ViewedEvent>;
  events(options: EventOptions = {}): AsyncIterableIterator<SessionEvent> {
    return this.#parts.hub.session(this.id, sessionReading(this.id, options));
  }

  state(): Promise<SessionSnapshot> {
    return this.#parts.link.call('session.state', this.address, true);
  }

  /**
   * The tokens that the session has used. With `tree`, the result includes the tokens of all its descendants, and the
   * shard reads each descendant.
   */
  async usage(options: UsageOptions = {}): Promise<Usage> {
    return this.#parts.link.call('session.usage', { ...this.address, tree: checkUsageOptions(options) }, true);
  }

  /**
   * Sets the total of tokens (at least 1; `null`: no limit) that the session and all its descendants may use. Input and
   * output count, and so do the tokens used before this call. Durable when it resolves. Once the total is used up, the
   * next model call fails its turn with `LimitError` (`data.limit` is `budget`); calls in flight still complete.
   * `state().budget` shows how much is used. Rejects with `ConfigError`, and with `LimitError` for a first budget of a
   * session with over 1,000 descendants.
   */
  async setBudget(tokens: number | null): Promise<void> {
    await this.#parts.link.call('session.budget', { ...this.address, ...checkBudget(tokens) }, true);
  }

  /** Why the session is not running now: exactly one reason. */
  explain(): Promise<Explanation> {
    return this.#parts.link.call('session.explain', this.address, true);
  }

  /** The log's messages after the seq `after`, oldest first; all messages by default. */
  async messages(options: { readonly after?: number; readonly limit?: number } = {}): Promise<readonly Message[]> {
    return this.#parts.link.call('session.messages', { ...this.address, ...checkMessagesOptions(options) }, true);
  }

  /**
   * A page of the session's contents. `messages`: the messages of the log. `pending`: the mailbox in drain order.
   * `viewport`: the messages that a model is shown. `request`: the messages of the request; the first page has the
   * other members of the request in `head`. A page is bounded in bytes, and has at least one item if any is left.
   * `next` is the `after` of the next page. Rejects with `ConfigError`.
   */
  async page<Kind extends PageKind>(of: Kind, options: PageOptions = {}): Promise<PageOf[Kind]> {
    const page = await this.#parts.link.call(
      'session.page',
      { ...this.address, ...checkPageOptions(of, options) },
      true,
    );
    // The shard answers with a page of the requested kind.
    return page as PageOf[Kind];
  }

  /** The mailbox in drain order. */
  pending(): Promise<readonly Pending[]> {
    return this.#parts.link.call('session.pending', this.address, true);
  }

  /** Withdraws a user's entry from the mailbox unless it was promoted; true if it was withdrawn. Other entries stay. */
  async recall(pendingId: number): Promise<boolean> {
    const entry = checkPendingId(pendingId);
    return this.#parts.link.call('session.recall', { ...this.address, pendingId: entry }, false);
  }

  /**
   * Cancels the model call, the running tools, the working children, and the children that wait to begin. True if this
   * session or one of its children was at work. `reason` goes into the event, the receipts and the log. The model sees
   * only that its calls were interrupted, and which of them may have taken effect.
   */
  async interrupt(reason?: string): Promise<boolean> {
    return this.#parts.link.call('session.interrupt', { ...this.address, ...checkInterrupt(reason) }, false);
  }

  /**
   * Decides a call that waits for a person (`approval.required`). The decision is durable when this resolves. True if
   * the decision holds, even if the same decision was made before. False if the call does not wait, or was decided
   * differently. With `input`, an allowed call runs with that input, in place of the model's. The model sees the
   * `reason` of a denial. Rejects with `ContentError` (an input that cannot be stored), `ConfigError`,
   * `InvalidArgumentError` (a question: use `answer`).
   */
  async approve(callId: string, decision: ApprovalDecision): Promise<boolean> {
    return this.#parts.link.call('session.approve', { ...this.address, ...checkDecision(callId, decision) }, true);
  }

  /**
   * Answers a question (`question.asked`) that the model asks, or an MCP server during a call. `value`: a text, or a
   * value that fits the question's schema. Durable when this resolves. True if the answer holds, even if the same
   * answer was given before. False if the call asks nothing, or was answered differently. Rejects with `ContentError`
   * for an answer that does not fit (`data.issues`; the question still waits), `LimitError` (too large),
   * `InvalidArgumentError` (use `approve`).
   */
  async answer(callId: string, value: unknown, options: ReplyOptions = {}): Promise<boolean> {
    return this.#parts.link.call('session.answer', { ...this.address, ...checkAnswer(callId, value, options) }, true);
  }

  /** Declines to answer. The model sees the `reason`, an MCP server does not. Resolves and rejects as `answer` does. */
  async decline(callId: string, reason?: string, options: ReplyOptions = {}): Promise<boolean> {
    return this.#parts.link.call('session.answer', { ...this.address, ...checkDecline(callId, reason, options) }, true);
  }

  /**
   * Starts a child; resolves once the child, its first message and its link to this session are durable. With a
   * repeated key, resolves to the existing child. If that child was cancelled or failed and `continue` is true, it
   * takes up its task again. Rejects with `ConfigError` (blank task, unknown tool or agent), `InvalidNameError`
   * (nickname), `LimitError` (depth, children).
   */
  spawn<Output extends OutputSchema>(
    options: StructuredSpawnOptions<Output>,
    extra?: SpawnExtra,
  ): Promise<Child<AnswerOf<Output>>>;
  spawn(options: SpawnOptions, extra?: SpawnExtra): Promise<Child>;
  async spawn(options: SpawnOptions, extra: SpawnExtra = {}): Promise<Child<unknown>> {
    const [item, list] = keyedSpawn(options, extra);
    const [child] = await this.#spawn([item], list);
    if (child === undefined) throw new TroupeError('internal', 'a spawn was not answered');
    return child;
  }

  /**
   * Starts many children. Children beyond `subagents.maxActive` wait in line, and children beyond `limits.liveSessions`
   * wait for admission. An item with a known key finds its child again, with the child's latest outcome. With
   * `continue`, such a child takes up its task again if it was cancelled or failed. A wrong option, a blank task or a
   * bad name is refused before any child exists. Any other refusal concerns one item (`data.index`): the call rejects,
   * but the other children exist.
   */
  spawnAll<Output extends OutputSchema>(
    list: readonly StructuredSpawnOptions<Output>[],
    options?: SpawnAllOptions,
  ): Promise<Family<AnswerOf<Output>>>;
  spawnAll(list: readonly SpawnOptions[], options?: SpawnAllOptions): Promise<Family>;
  async spawnAll(list: readonly SpawnOptions[], options: SpawnAllOptions = {}): Promise<Family<unknown>> {
    const children = await this.#spawn(list, options);
    const ids = children.map(({ id }) => id);
    const { link, kin } = this.#parts;
    return kin.family(children, () => link.call('children.ended', { session: this.id, children: ids }, true));
  }

  async #spawn(list: readonly unknown[], options: SpawnAllOptions): Promise<readonly Child<unknown>[]> {
    const items = checkSpawnItems(list, options);
    const repeatable = items.every((item) => item.key !== undefined);
    const answers = await this.#parts.link.call('session.spawn', { ...this.address, items }, repeatable);
    return answers.map((answer, index) => {
      if ('error' in answer) throw refusedSpawn(answer.error, index, list.length);
      return this.#parts.kin.child<unknown>(
        { ...this.#parts, id: answer.child, named: {}, output: undefined },
        { name: answer.name, parent: this, output: outputOf(list[index]) },
      );
    });
  }

  /** Returns the handle of an existing child of this session by its id. */
  async child(id: string): Promise<Child> {
    const session = childId(this.id, id);
    const link = await this.#parts.link.call('child.link', { session }, true);
    if (link.parent !== this.id) {
      throw new TroupeError('unknown_session', `${JSON.stringify(id)} is not a child of ${JSON.stringify(this.id)}`);
    }
    const parts = { ...this.#parts, id: session, named: {}, output: undefined };
    return this.#parts.kin.child(parts, { name: link.name ?? '', parent: this });
  }

  /** The conversation, for reading, changing and repairing. */
  get history(): History {
    const { link, callbacks } = this.#parts;
    this.#history ??= new History({ address: this.address, link, callbacks });
    return this.#history;
  }

  /**
   * Calls `callback` with each new message from now on, in order, once the message is durable. New messages are
   * answers, results of tools, and additions to the history that are not silent. Throws `InvalidArgumentError`
   * (`callback_required`), `LimitError`.
   */
  onMessage(callback: MessageCallback): this;
  /**
   * Registers a listener that the session's runs wait for, and returns the session. The listener receives each message
   * that a run stores, in order, once the message is durable. It may stop the run at that message. The listener is not
   * stored: register it again after each `open`. `signal` removes it. Throws `InvalidArgumentError`
   * (`callback_required`) for anything but a function, and `LimitError` for too many listeners.
   */
  onMessage(listener: WaitingListener, options: { readonly wait: true; readonly signal?: AbortSignal }): this;
  onMessage(
    listener: MessageCallback | WaitingListener,
    options?: { readonly wait: true; readonly signal?: AbortSignal },
  ): this {
    if (checkListenerOptions(options)) this.#waitFor(listener as WaitingListener, options?.signal);
    else this.#parts.callbacks.add(this.id, listener as MessageCallback);
    return this;
  }

  #waitFor(listener: WaitingListener, signal: AbortSignal | undefined): void {
    if (typeof listener !== 'function') {
      throw new InvalidArgumentError('callback_required', `onMessage needs a function, got ${describeValue(listener)}`);
    }
    const { link } = this.#parts;
    checkHere(link, this.id);
    link.listeners.addUntil(this.id, listener, signal, (id, on) => link.gate(id, on));
  }

  /** The goals of the session. */
  get goals(): Goals {
    return new Goals(this.#parts.link, this.address);
  }

  /** The dead letters of the session: entries of its mailbox that could not become messages. */
  get deadLetters(): DeadLetters {
    return new DeadLetters(this.#parts.link, this.id);
  }

  /**
   * Shows a skill to the model with the next half-step. Does nothing while the skill is active, that is, while its text
   * is in the window. Rejects with `ConfigError` for an undefined name, `MailboxFullError`, `LimitError`.
   */
  activateSkill(name: string): Promise<Definition> {
    return this.#activate('skill', name);
  }

  /** Shows a workflow as `activateSkill` shows a skill. Only the newest workflow is active. Main sessions only. */
  activateWorkflow(name: string): Promise<Definition> {
    return this.#activate('workflow', name);
  }

  async #activate(kind: 'skill' | 'workflow', name: string): Promise<Definition> {
    const definition = this.#parts.definitions?.[kind](parseOption(z.string(), kind, name));
    if (definition === undefined) {
      throw unknownDefinition(this.#parts.definitions, kind, name);
    }
    const { content } = definition;
    // Repeating the call changes nothing: an active definition stays active.
    await this.#parts.link.call('session.activate', { ...this.address, kind, name: definition.name, content }, true);
    return definition;
  }

  /** The messages that a model is shown now. */
  viewport(): Promise<readonly Message[]> {
    return this.#parts.link.call('session.viewport', this.address, true);
  }

  /** The whole request body for the current log, without cache marks; byte-stable under `JSON.stringify`. */
  request(): Promise<ModelRequest> {
    return this.#parts.link.call('session.request', this.address, true);
  }

  /**
   * Finds a receipt by its id, or by the key of its message (one of the last 4,096 keys), also after a restart.
   * `output`: the schema with which the message was sent. Rejects with `InvalidNameError`, and with `TroupeError`
   * (`unknown_session`) if there is no such session, or if none of its messages has that id or key.
   */
  receipt<Output extends OutputSchema>(
    named: string | { readonly key: string },
    options: { readonly output: Output },
  ): Promise<Receipt<AnswerOf<Output>>>;
  receipt(named: string | { readonly key: string }): Promise<Receipt<Answer>>;
  async receipt(
    named: string | { readonly key: string },
    options: { readonly output?: OutputSchema } = {},
  ): Promise<Receipt<unknown>> {
    const output = checkReceiptOptions(options);
    const wanted = wantedReceipt(named);
    const { session = this.id } = wanted;
    const found = session === this.id ? await this.#receipt(wanted, output) : undefined;
    if (found !== undefined) return found;
    throw new TroupeError('unknown_session', `no receipt ${JSON.stringify(named)} in ${JSON.stringify(this.id)}`);
  }

  /**
   * The receipt of the running turn. It is the receipt of the first message that the turn consumed, or else of the
   * message that waits for the next half-step. `undefined` if the session is idle, or if no message began the turn.
   * Works also after a restart.
   */
  current(): Promise<Receipt<Answer> | undefined> {
    return this.#receipt({ atWork: true }) as Promise<Receipt<Answer> | undefined>;
  }

  async #receipt(wanted: WantedReceipt, output = this.#parts.output): Promise<Receipt<unknown> | undefined> {
    const { link } = this.#parts;
    const found = await link.call('receipt.find', { session: this.id, wanted }, true);
    return found && new Receipt(link, { session: this.id, ...found, duplicate: true }, undefined, output);
  }

  /**
   * Makes a new session that continues from the present state of this session, or from its state after message `at`.
   * The log so far is shared, not copied. Afterwards the two sessions are independent. The fork gets the messages, the
   * tasks and the system text of the epoch. It does not get the mailbox, receipts, children and running calls. The
   * fork's events begin at the fork, but its `messages()` also has the earlier messages. Resolves once the fork is
   * durable. Rejects with `TroupeError` (`unknown_session`), `InvalidArgumentError` (`message_not_found`: the current
   * conversation has no such message), `InvalidNameError` (an id that is taken, or too long), `ConfigError`.
   */
  async fork(options: ForkOptions = {}): Promise<Session<Answer>> {
    const { id, by, ...cut } = checkForkOptions(options, this.id);
    const { id: session, link, sibling, output } = this.#parts;
    if (id === undefined) {
      const made = await link.call('session.fork', { session, ...cut, ...defined({ by }) }, false);
      return new Session({ ...sibling(made.id), output });
    }
    const fork = { ...sibling(id), output };
    if (fork.link === link) {
      await link.call('session.fork', { session, id, ...cut, ...defined({ by }) }, false);
    } else {
      const record = await link.call('session.copy', { session, ...cut }, true);
      await fork.link.call('session.plant', { session: id, record, ...defined({ by }) }, false);
    }
    return new Session(fork);
  }

  /** Pauses the session, durably: it starts no half-step until `resume`. Running work continues. */
  async pause(): Promise<void> {
    await this.#parts.link.call('session.pause', this.address, true);
  }

  /**
   * Lifts `pause` and any block. If a key or a model was refused, all sessions of this session thread may use it again.
   * Sessions of this thread that were blocked by a refused key also resume. `runtime.resume()` does so for all threads.
   * Continues a suspended run: its pending calls first, then the model. Rejects (`limit`, retryable) if the run cannot
   * start now.
   */
  async resume(): Promise<void> {
    await this.#parts.link.call('session.resume', this.address, true);
  }

  /** Deletes the session and its descendants; false when there was none. */
  delete(options?: DeleteOptions): Promise<boolean> {
    return this.#parts.remove(this.id, options);
  }
}
