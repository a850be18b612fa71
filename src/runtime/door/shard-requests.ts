/** The shard's door: each method of the protocol, bound to an endpoint. Reads answer with what is durable (A2). */

import type { SessionActor } from '../../../actors/session-actor.ts';
import type { Draft } from '../../base/draft.ts';
import { asError, CancelledError, errorShape, TroupeError } from '../../base/errors.ts';
import type { Message } from '../../base/messages.ts';
import { renderSession } from '../../context/render.ts';
import { dumpRequest } from '../../context/request-dump.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { CompressAnswer } from '../../session/decide/compression.ts';
import { type Explanation, explain } from '../../session/explain.ts';
import { bySeq, everyMessage } from '../../session/history/branch.ts';
import { answerQuery } from '../../session/history/history-query.ts';
import { messagesShown } from '../../session/history/transient.ts';
import { usedOf } from '../../session/rules/budget.ts';
import { viewport } from '../../session/rules/eviction.ts';
import { goalsOf } from '../../session/rules/goals.ts';
import { hasActive } from '../../session/rules/mailbox.ts';
import { isPreparing } from '../../session/rules/memory.ts';
import { isRefusedRequest } from '../../session/rules/run-loop.ts';
import type { Input } from '../../session/state/inputs.ts';
import { type LoggedMessage, publicMessage } from '../../session/state/messages.ts';
import type { Entry } from '../../session/state/records.ts';
import { type ChildLink, emptyState, type ReceiptState, type SessionState } from '../../session/state/state.ts';
import { estimateContent } from '../../session/state/tokens.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ChildEnd, SessionSnapshot, SessionSummary, ShardMethods, SpawnAnswer } from '../protocol/protocol.ts';
import { postedMessage } from '../protocol/sent-message.ts';
import { archivedChunks, chunkMessages, compressionEnd } from '../reading/archived-chunks.ts';
import { contentReader } from '../reading/content-reader.ts';
import { decodeHead, summaryOf } from '../reading/head.ts';
import { messagePage, pageByPlace, pendingOf, pendingPage, requestPage } from '../reading/session-pages.ts';
import { foldLog } from '../reading/session-reader.ts';
import type { Shard } from '../shard/shard.ts';
import type { Reply } from '../shard/shard-parts.ts';
import { DELETED, endOf } from '../shard/shard-waiters.ts';
import { serveForks } from './fork-requests.ts';
import { serveSearch } from './search-requests.ts';
import { settle } from './shard-door.ts';
import { editHistory } from './shard-history.ts';
import { serveHistoryTasks } from './task-requests.ts';

type Request<M extends keyof ShardMethods> = ShardMethods[M]['request'];
type Answer<M extends keyof ShardMethods> = ShardMethods[M]['answer'];

/** Answers all methods of the protocol on `endpoint`. Runs on the shard's thread. */
export function serveShard(shard: Shard, endpoint: Endpoint): void {
  const requests = new ShardRequests(shard);
  const handle = <M extends keyof ShardMethods>(
    method: M,
    handler: (request: Request<M>) => Answer<M> | Promise<Answer<M>>,
  ): void => endpoint.handle(method, (payload) => handler(payload as Request<M>));
  handle('session.send', (request) => requests.send(request));
  handle('session.spawn', (request) => requests.spawn(request));
  handle('session.post', (request) => requests.post(request));
  handle('session.state', (request) => requests.state(request.session));
  handle('session.explain', (request) => requests.explain(request.session));
  handle('session.messages', (request) => requests.messages(request));
  handle('session.pending', (request) =>
    requests.read(
      request.session,
      (actor) => pendingOf(actor.state, contentReader(shard.parts.journal, actor.key)),
      () => [],
    ),
  );
  handle('session.page', (request) => requests.page(request));
  handle('session.recall', (request) => requests.recall(request));
  handle('session.interrupt', (request) => requests.interrupt(request));
  handle('session.approve', (request) => requests.approve(request));
  handle('history.gate', (request) => {
    shard.audience.gate(request.session, request.on);
    return undefined;
  });
  handle('session.viewport', (request) => requests.viewport(request.session));
  handle('session.request', (request) => requests.request(request));
  handle('session.goals', (request) =>
    requests.read(
      request.session,
      (actor) => goalsOf(actor.state),
      () => [],
    ),
  );
  handle('session.goal', (request) => requests.change(request, { type: 'goal', change: request.change }));
  handle('session.attach', (request) => requests.change(request, { type: 'goal', change: request.change }));
  handle('session.activate', ({ session, agent, kind, name, content }) =>
    requests.change({ session, ...(agent === undefined ? {} : { agent }) }, { type: 'activate', kind, name, content }),
  );
  handle('session.pause', (request) => requests.pause(request));
  handle('session.resume', (request) => requests.resume(request));
  handle('session.compress', (request) => requests.compress(request));
  handle('session.chunks', (request) => requests.chunks(request.session));
  handle('session.chunk', (request) => requests.chunk(request));
  handle('session.events', (request) => requests.events(request));
  handle('session.watch', (request) => {
    shard.audience.watch(request.session, request.on);
    return undefined;
  });
  handle('sessions.introduce', ({ on }) => {
    shard.audience.introduce(on);
    return undefined;
  });
  handle('history.edit', (request) => requests.edit(request));
  handle('history.read', ({ session, query }) =>
    requests.read(
      session,
      (actor) => answerQuery(actor.state, actor.transients, query),
      () => answerQuery(emptyState(session), undefined, query),
    ),
  );
  handle('history.watch', ({ session, on }) => {
    shard.audience.listen(session, on);
    return undefined;
  });
  handle('receipt.status', (request) => requests.receiptStatus(request));
  handle('receipt.find', (request) => requests.receiptFind(request));
  handle('receipt.wait', (request) => requests.receiptWait(request));
  handle('child.wait', (request) => requests.childWait(request));
  handle('children.ended', ({ session, children }) =>
    requests.read(
      session,
      (actor) => endedOf(actor, children),
      () => [],
    ),
  );
  handle('child.link', (request) => requests.read(request.session, linkOf, () => ({})));
  handle('sessions.list', (request) => requests.list(request));
  handle('sessions.get', (request) =>
    requests.read(
      request.session,
      (actor) => summaryOf(actor.state),
      () => undefined,
    ),
  );
  handle('sessions.delete', (request) =>
    settle<readonly string[]>((reply) => shard.life.delete(request.session, reply)),
  );
  serveHistoryTasks(shard, requests, handle);
  serveForks(shard, requests, handle);
  serveSearch(shard, handle);
  handle('runtime.drain', () => requests.drain());
  handle('runtime.resume', async () => {
    await shard.life.resumeBlocked();
    return undefined;
  });
  handle('runtime.close', async (request) => {
    await shard.life.close(request.deadlineMs);
    return undefined;
  });
}

class ShardRequests {
  readonly #shard: Shard;

  constructor(shard: Shard) {
    this.#shard = shard;
  }

  send(request: Request<'session.send'>): Promise<Answer<'session.send'>> {
    const { content, deliver, key, fingerprint, bounceBack, from, follow } = request;
    const bytes = typeof content === 'string' ? Buffer.byteLength(content) : estimateContent(content) * 4;
    // Members one by one: nearly every message has none of them, and this is made a thousand times at once.
    const entry: Draft<Entry> = { type: 'user_message', content };
    if (deliver !== undefined) entry.deliver = deliver;
    if (key !== undefined) {
      entry.key = key;
      entry.fingerprint = fingerprint ?? '';
    }
    if (bounceBack === true) entry.bounceBack = bounceBack;
    if (from !== undefined) entry.source = { type: 'user', name: from };
    this.#checkIntake();
    return new Promise((resolve, reject) => {
      const reply: Draft<Reply> = { resolve: resolve as Reply['resolve'], reject };
      if (follow !== undefined) {
        reply.isPatient = true;
        reply.onAccepted = (pendingId) => this.#follow(request.session, pendingId, follow);
      }
      this.#shard.transitions.submit(request.session, [{ type: 'send', entry, bytes }], reply, request.agent);
    });
  }

  /** The bytes are let go here: what is said of them from now on is the message. */
  post({ session, agent, json }: Request<'session.post'>): Promise<Answer<'session.post'>> {
    return this.send({ session, ...(agent === undefined ? {} : { agent }), ...postedMessage(json) });
  }

  /** Tells the end of a receipt when it is durable. Where that is not to be had by waiting, whoever follows asks. */
  #follow(session: string, pendingId: number, follow: number): void {
    const { host } = this.#shard.parts;
    const ask = (): void => host.settled(follow, undefined);
    const actor = this.#shard.residency.find(session);
    // A session whose budget is used up ends the turn in the step that took the message: there is nothing to wait for.
    if (actor?.state.budget !== undefined && this.#receiptOf(actor, pendingId)?.status === 'failed') return ask();
    const reply: Reply = { resolve: (state) => host.settled(follow, state as ReceiptState), reject: ask };
    this.#shard.waiters.onReceipt(session, { pendingId, until: 'settled' }, reply, ask);
  }

  #checkIntake(): void {
    if (this.#shard.life.isClosing) throw new CancelledError('the runtime is closing: it takes nothing new');
  }

  async spawn(request: Request<'session.spawn'>): Promise<Answer<'session.spawn'>> {
    this.#checkIntake();
    // All items are given to the actor in one go: they share a flush.
    const answers = request.items.map((item) =>
      settle<SpawnAnswer>((reply) =>
        this.#shard.transitions.submit(request.session, [{ type: 'spawn', request: item }], reply, request.agent),
      ).catch((error: unknown): SpawnAnswer => ({ error: errorShape(error) })),
    );
    return Promise.all(answers);
  }

  edit(request: Request<'history.edit'>): Promise<unknown> {
    this.#checkIntake();
    return editHistory(this.#shard, request);
  }

  /** What a reader makes of the session as it stands now, told once that is durable. */
  read<T>(session: string, look: (actor: SessionActor) => T, absent: () => T): Promise<T> {
    return this.#told(() => {
      const actor = this.#shard.residency.find(session);
      const value = actor === undefined ? absent() : look(actor);
      // Reading brought an idle session into memory; another may leave for it.
      this.#shard.residency.passivateSome();
      return value;
    });
  }

  /**
   * What was seen, told once that is durable. A refused flush takes back what was not, and nothing is waited for any more: what
   * is seen then is durable, so that reads go on while the store refuses (F06).
   */
  #told<T>(look: () => T): Promise<T> {
    return settle<T>((reply) => {
      const value = look();
      const lookAgain = (): void => {
        try {
          reply.resolve(look());
        } catch (error) {
          reply.reject(asError(error));
        }
      };
      this.#shard.transitions.afterCommit(() => reply.resolve(value), lookAgain);
    });
  }

  async state(session: string): Promise<SessionSnapshot> {
    const { clock } = this.#shard.parts;
    const isolation = this.#shard.life.isolationOf(session);
    if (isolation !== undefined)
      return { ...snapshotOf(emptyState(session), clock.now()), blocked: errorShape(isolation) };
    return this.read(
      session,
      (actor) => {
        const snapshot = snapshotOf(actor.state, clock.now());
        const refusal = this.#shard.life.callWaitOf(session)?.refusal;
        return refusal === undefined ? snapshot : { ...snapshot, blocked: refusal };
      },
      () => snapshotOf(emptyState(session), clock.now()),
    );
  }

  async explain(session: string): Promise<Explanation> {
    const { clock, catalog } = this.#shard.parts;
    const isolation = this.#shard.life.isolationOf(session);
    if (isolation !== undefined) return { reason: 'blocked', detail: isolation.message };
    const facts = (state: SessionState): Explanation =>
      explain(state, {
        now: clock.now(),
        isAgentDefined: state.agent === undefined || catalog.has(state.agent),
        isQueued: this.#shard.life.isQueued(session),
        governorWait: this.#shard.life.callWaitOf(session)?.detail,
        approvalsMs: this.#shard.parts.settings.approvals.expiresMs,
      });
    return this.read(
      session,
      (actor) => {
        const explained = facts(actor.state);
        const isRefused = explained.reason === 'blocked' && isRefusedRequest(actor.state.blocked);
        const request = isRefused ? this.#render(actor.state) : undefined;
        return request === undefined ? explained : { ...explained, request: dumpRequest(request) };
      },
      () => facts(emptyState(session)),
    );
  }

  /** The request of a session; undefined where its agent is not defined. `shown`: with messages that are not stored. */
  #render(state: SessionState, shown?: readonly LoggedMessage[]): ModelRequest | undefined {
    const agent = this.#shard.parts.catalog.of(state);
    if (agent === undefined) return undefined;
    return { ...agent.header(state), messages: renderSession(state, agent.renderOptions, shown) };
  }

  /** The log's messages, oldest first. Those still in memory are taken from there; older ones are read from the log. */
  messages(request: Request<'session.messages'>): Promise<readonly Message[]> {
    const after = request.after ?? 0;
    const limit = request.limit ?? Number.POSITIVE_INFINITY;
    return this.read(
      request.session,
      (actor) => {
        const { floor, hiddenFloor } = actor.state;
        const isInMemory = after + 1 >= Math.max(floor, hiddenFloor);
        const known = isInMemory ? everyMessage(actor.state) : this.#allMessages(actor);
        const found: Message[] = [];
        for (const message of bySeq(known)) {
          if (found.length >= limit) break;
          if (message.seq > after) found.push(publicMessage(message));
        }
        return found;
      },
      () => [],
    );
  }

  #allMessages(actor: SessionActor): SessionState['messages'] {
    // Folded without evictions and with every branch: everything the log ever had and did not remove.
    const state = emptyState(actor.id);
    state.keepsAll = true;
    foldLog(this.#shard.parts.journal, actor.key, state, 0);
    return state.messages;
  }

  /** Compresses a conversation now; answers when that is over and durable. */
  async compress({ session, agent, force }: Request<'session.compress'>): Promise<Answer<'session.compress'>> {
    this.#checkIntake();
    const begun = await settle<CompressAnswer>((reply) =>
      this.#shard.transitions.submit(session, [{ type: 'compress', force }], reply, agent),
    );
    if (!('started' in begun)) return begun;
    return this.#awaited(
      () => compressionEnd(this.#shard.residency.find(session), begun.started),
      (reply, again) => this.#shard.waiters.onCompression(session, reply, again),
    );
  }

  chunks(session: string): Promise<Answer<'session.chunks'>> {
    return this.read(
      session,
      (actor) => archivedChunks(this.#shard.parts.journal, actor),
      () => [],
    );
  }

  chunk({ session, number }: Request<'session.chunk'>): Promise<Answer<'session.chunk'>> {
    return this.read(
      session,
      (actor) => chunkMessages(this.#shard.parts.journal, actor, number),
      () => undefined,
    );
  }

  recall(request: Request<'session.recall'>): Promise<boolean> {
    const { session, pendingId } = request;
    if (this.#shard.residency.find(session) === undefined) return Promise.resolve(false);
    return settle((reply) => this.#shard.transitions.submit(session, [{ type: 'recall', pendingId }], reply));
  }

  interrupt(request: Request<'session.interrupt'>): Promise<boolean> {
    const { session, reason } = request;
    if (this.#shard.residency.find(session) === undefined) return Promise.resolve(false);
    return settle((reply) =>
      this.#shard.transitions.submit(
        session,
        [{ type: 'interrupt', ...(reason === undefined ? {} : { reason }) }],
        reply,
      ),
    );
  }

  approve(request: Request<'session.approve'>): Promise<boolean> {
    const { session, callId, allow, reason, input } = request;
    if (this.#shard.residency.find(session) === undefined) return Promise.resolve(false);
    const decision: Input = {
      type: 'approve',
      callId,
      allow,
      ...(reason === undefined ? {} : { reason }),
      ...(input === undefined ? {} : { input }),
    };
    return settle((reply) => this.#shard.transitions.submit(session, [decision], reply));
  }

  /** One input of a session, which is made if need be; what it answers with. */
  change<T>(request: { readonly session: string; readonly agent?: string }, input: Input): Promise<T> {
    this.#checkIntake();
    return settle((reply) => this.#shard.transitions.submit(request.session, [input], reply, request.agent));
  }

  pause(request: Request<'session.pause'>): Promise<undefined> {
    return settle((reply) =>
      this.#shard.transitions.submit(request.session, [{ type: 'pause' }], reply, request.agent),
    );
  }

  async resume(request: Request<'session.resume'>): Promise<undefined> {
    this.#shard.life.liftIsolation(request.session);
    await this.#shard.life.resumeModels(request.session);
    return settle((reply) =>
      this.#shard.transitions.submit(request.session, [{ type: 'resume' }], reply, request.agent),
    );
  }

  viewport(session: string): Promise<readonly Message[]> {
    return this.read(
      session,
      (actor) => this.#viewportOf(actor).map(publicMessage),
      () => [],
    );
  }

  #viewportOf(actor: SessionActor): readonly LoggedMessage[] {
    const budget =
      this.#shard.residency.agentOf(actor)?.facts.tokenBudget ?? this.#shard.parts.settings.llm.tokenBudget;
    return viewport(actor.state.messages, budget);
  }

  /** A page of messages, the mailbox, the viewport or the request. */
  page(request: Request<'session.page'>): Promise<Answer<'session.page'>> {
    const { session, of } = request;
    if (of === 'request') return this.#requested(request, (whole) => requestPage(whole, request));
    return this.read<Answer<'session.page'>>(
      session,
      (actor) => {
        if (of === 'messages') return messagePage(this.#shard.parts.journal, actor, request);
        if (of === 'pending') {
          return pendingPage(actor.state, request, contentReader(this.#shard.parts.journal, actor.key));
        }
        const { items, ...rest } = pageByPlace(this.#viewportOf(actor), request);
        return { ...rest, items: items.map(publicMessage) };
      },
      () => ({ items: [] }),
    );
  }

  request(request: Request<'session.request'>): Promise<ModelRequest> {
    return this.#requested(request, (whole) => whole);
  }

  /** What is made of the request a model is sent now. */
  #requested<T>(
    request: { readonly session: string; readonly agent?: string },
    look: (whole: ModelRequest) => T,
  ): Promise<T> {
    const { catalog } = this.#shard.parts;
    const render = (state: SessionState, shown?: readonly LoggedMessage[]): ModelRequest => {
      const rendered = this.#render(state, shown);
      if (rendered !== undefined) return rendered;
      throw new TroupeError('unknown_agent', `agent ${JSON.stringify(state.agent)} is not defined`);
    };
    return this.read(
      request.session,
      ({ state, transients }) =>
        look(render(state, transients === undefined ? undefined : messagesShown(state, transients))),
      () => look(render({ ...emptyState(request.session), agent: request.agent ?? catalog.defaultName })),
    );
  }

  events(request: Request<'session.events'>): Promise<Answer<'session.events'>> {
    const { journal } = this.#shard.parts;
    const key = journal.keyOf(request.session);
    if (key === undefined) return Promise.resolve({ events: [], isComplete: true });
    // Read now and told behind the flush: the journal shows turns as soon as they are appended, and those that come in while
    // this waits are not durable when it is told.
    return this.#told(() => this.#shard.replays.page(request.session, key, request.after, request));
  }

  receiptStatus(request: Request<'receipt.status'>): Promise<ReceiptState | undefined> {
    return this.read(
      request.session,
      (actor) => (actor.key === request.incarnation ? this.#receiptOf(actor, request.pendingId) : undefined),
      () => undefined,
    );
  }

  /** The number of the event that told of an accepted user message; from the log, since nobody keeps it. */
  receiptFind(request: Request<'receipt.find'>): Promise<Answer<'receipt.find'>> {
    return this.read(
      request.session,
      (actor) => {
        const { incarnation = actor.key } = request;
        if (incarnation !== actor.key || this.#receiptOf(actor, request.pendingId) === undefined) return undefined;
        let found = 0;
        foldLog(this.#shard.parts.journal, actor.key, emptyState(actor.id), 0, {
          event: (body, seq) => {
            if (body.type === 'pending.created' && body.pending.id === request.pendingId) found = seq;
          },
        });
        return { seq: found, incarnation };
      },
      () => undefined,
    );
  }

  receiptWait(request: Request<'receipt.wait'>): Promise<ReceiptState> {
    const { session, incarnation, pendingId, until } = request;
    return this.#awaited(
      () => {
        const actor = this.#shard.residency.find(session);
        const receipt = actor?.key === incarnation ? this.#receiptOf(actor, pendingId) : undefined;
        if (receipt === undefined) {
          throw new TroupeError('unknown_session', `session ${JSON.stringify(session)} has no receipt ${pendingId}`);
        }
        const isDone = receipt.status !== 'accepted' && (until === 'promoted' || receipt.status !== 'promoted');
        return isDone ? receipt : undefined;
      },
      (reply, again) => this.#shard.waiters.onReceipt(session, { pendingId, until }, reply, again),
    );
  }

  /** What was waited for, once it is durable: at once where it is there, else when it comes. A refusal may take it back. */
  #awaited<T>(look: () => T | undefined, wait: (reply: Reply, again: () => void) => void): Promise<T> {
    return settle<T>((reply) => {
      const tell = (isDurable: boolean): void => {
        try {
          const value = look();
          if (value === undefined) wait(reply, () => tell(false));
          else if (isDurable) reply.resolve(value);
          else
            this.#shard.transitions.afterCommit(
              () => reply.resolve(value),
              () => tell(true),
            );
          this.#shard.residency.passivateSome();
        } catch (error) {
          reply.reject(asError(error));
        }
      };
      tell(false);
    });
  }

  /** From the state while it is at hand; else from the log, which forgets nothing. */
  #receiptOf(actor: SessionActor, pendingId: number): ReceiptState | undefined {
    const known = actor.state.receipts.get(pendingId);
    if (known !== undefined || pendingId >= actor.state.nextPendingId) return known;
    let found: ReceiptState | undefined;
    foldLog(this.#shard.parts.journal, actor.key, emptyState(actor.id), 0, {
      settled: (id, receipt) => {
        if (id === pendingId) found = receipt;
      },
    });
    return found;
  }

  childWait(request: Request<'child.wait'>): Promise<ChildEnd> {
    const { session } = request;
    return this.#awaited(
      () => {
        const actor = this.#shard.residency.find(session);
        return actor === undefined ? DELETED : endOf(actor.state);
      },
      (reply, again) => this.#shard.waiters.onExit(session, reply, again),
    );
  }

  async list(request: Request<'sessions.list'>): Promise<readonly SessionSummary[]> {
    // The heads of sessions that a crash interrupted are as old as the last checkpoint until those have been read.
    await this.#shard.life.resumed();
    return this.#told(() => this.#listed(request));
  }

  #listed(request: Request<'sessions.list'>): readonly SessionSummary[] {
    const { journal } = this.#shard.parts;
    const found: SessionSummary[] = [];
    let after = request.after;
    for (;;) {
      const page = journal.names({
        limit: LIST_PAGE,
        ...(after === undefined ? {} : { after }),
        ...(typeof request.parent === 'string' ? { prefix: `${request.parent}:` } : {}),
      });
      for (const [name, key] of page) {
        after = name;
        const summary = this.#summary(name, key);
        if (summary === undefined || !matches(summary, request)) continue;
        found.push(summary);
        if (found.length >= request.limit) return found;
      }
      if (page.length < LIST_PAGE) return found;
    }
  }

  /** From memory, from the head, or, for a session without one, its log. */
  #summary(name: string, key: number): SessionSummary | undefined {
    const hot = this.#shard.residency.inMemory(name);
    if (hot !== undefined) return hot.state.agent === undefined ? undefined : summaryOf(hot.state);
    const head = this.#shard.residency.headOf(key);
    if (head !== undefined) return decodeHead(head.data).summary;
    const actor = this.#shard.residency.find(name);
    this.#shard.residency.passivateSome();
    return actor === undefined ? undefined : summaryOf(actor.state);
  }

  drain(): Promise<undefined> {
    return new Promise((resolve) => {
      const done = (): void =>
        this.#shard.transitions.afterCommit(
          () =>
            this.#shard.life.isDrained || this.#shard.life.isOver
              ? resolve(undefined)
              : this.#shard.waiters.onDrained(done),
          () => this.#shard.waiters.onDrained(done),
        );
      if (this.#shard.life.isDrained) done();
      else {
        this.#shard.waiters.onDrained(done);
        this.#shard.transitions.hurry();
      }
    });
  }
}

/** Names read at once while listing. */
const LIST_PAGE = 1_000;

function matches(summary: SessionSummary, request: Request<'sessions.list'>): boolean {
  if (request.parent === null && summary.parent !== undefined) return false;
  if (typeof request.parent === 'string' && summary.parent !== request.parent) return false;
  return request.state === undefined || summary.state === request.state;
}

function snapshotOf(state: SessionState, now: number): SessionSnapshot {
  // A retry whose time has come is a call like any other.
  const isRetrying = (state.current?.retryAt ?? 0) > now;
  const phase = phaseOf(state, isRetrying);
  return {
    state: state.state,
    ...(phase === undefined ? {} : { phase }),
    ...(state.blocked === undefined ? {} : { blocked: state.blocked }),
    mailbox: state.mailbox.length,
    seq: state.eventSeq,
    children: [...state.children.values()].map(({ id, name, exited }) => ({
      id,
      name,
      ...(exited === undefined ? {} : { exited }),
    })),
    ...(state.active === undefined || state.active.skills.length === 0 ? {} : { skills: state.active.skills }),
    ...(state.active?.workflow == null ? {} : { workflow: state.active.workflow }),
    usage: state.usage,
    ...(state.budget?.tokens === undefined ? {} : { budget: { tokens: state.budget.tokens, used: usedOf(state) } }),
  };
}

function phaseOf(state: SessionState, isRetrying: boolean): SessionSnapshot['phase'] {
  if (state.paused) return 'paused';
  if (state.approvals !== undefined && state.approvals.waiting.length > 0) return 'approval';
  if (state.suspended !== undefined) return 'suspended';
  if (state.enrichment !== undefined) return 'preparing';
  if (state.state !== 'awaiting' && isPreparing(state.memory) && hasActive(state)) return 'preparing';
  return isRetrying ? 'retrying' : undefined;
}

function endedOf({ state }: SessionActor, wanted: readonly string[]): readonly string[] {
  const ended: ChildLink[] = [];
  for (const id of wanted) {
    const child = state.children.get(id);
    if (child?.exited !== undefined) ended.push(child);
  }
  return ended.sort((a, b) => (a.exitedSeq ?? 0) - (b.exitedSeq ?? 0)).map(({ id }) => id);
}

function linkOf(actor: SessionActor): Answer<'child.link'> {
  const { parent, name } = actor.state;
  return { ...(parent === undefined ? {} : { parent }), ...(name === undefined ? {} : { name }) };
}
