/**
 * The host's connection to one shard. The shard runs on its own thread, on the host thread, or on another node of the
 * cluster, at the other side of a line. A thread that dies is replaced; after the end of a line, the shard is looked for
 * again. The thread, or the line, is an **incarnation** of the shard.
 *
 * Owns: the thread or the line, the restarts. Does not own: subscribers, sessions, the place of the shard
 * (`ShardFinder`).
 *  L1 a request that is safe to repeat is sent again to the next incarnation, and the caller does not notice;
 *  L2 any other request that was in flight when the incarnation ended rejects with a retryable error, since its outcome
 *     is unknown;
 *  L3 after more deaths than `SHARD_RESTARTS` allows, the link gives up, and every request rejects. A session on which
 *     the thread ran out of memory twice is isolated: the next thread does not read the session, and those two deaths
 *     no longer count;
 *  L4 a close always ends. A thread that does not answer within its deadline and `SHARD_CLOSE_MS` is ended as by a
 *     crash, and its work resumes at the next open;
 *  L5 the end of a line does not count as a death. While no node has the shard, or its node cannot be reached, requests
 *     wait for it, and reject with a retryable error once that takes longer than `absenceMs`;
 *  L6 a shard that this node gives away takes messages until its half-steps have ended, and is closed then. Its claim is
 *     given up after that, also if the close failed. Requests that it refused or left unanswered are those of L1 and L2,
 *     and the shard is followed as after the end of a line.
 */
import { defined } from '../../base/defined.ts';
import { CancelledError, errorShape, ShardMovedError, StoreFullError, TroupeError } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';
import { type Endpoint, endpointWith } from '../../threads/endpoint.ts';
import type { HostWork } from '../../tools/host-tools.ts';
import type { ShardCaller, ShardMethods, ShardPlan, ShardStart } from '../protocol/protocol.ts';
import { WaitingListeners } from '../protocol/waiting-listeners.ts';
import { FollowedReceipts } from './followed-receipts.ts';
import { serveHost } from './host-services.ts';
import { type Incarnation, isUnanswered, type LinkParts, moved, startedThread, unknownOutcome } from './link-parts.ts';
import { growingBytes, RequestLine } from './request-line.ts';
import { closeShard, drainShard, endShard } from './shard-close.ts';
import { ShardDeaths } from './shard-deaths.ts';
import { ShardAbsence, type ShardLine } from './shard-finder.ts';
import { ShardGuests } from './shard-guests.ts';
import { listenToShard } from './shard-notes.ts';
import { ShardWatches } from './shard-watches.ts';

/** See the head of the file. */
export class ShardLink implements ShardCaller {
  /** Receipts whose end this shard publishes without a request. */
  readonly receipts: FollowedReceipts = new FollowedReceipts();
  /** Listeners that the sessions of this shard wait for. */
  readonly listeners: WaitingListeners = new WaitingListeners();
  readonly #parts: LinkParts;
  readonly #line = new RequestLine();
  readonly #watches = new ShardWatches();
  /** The running calls of tools on the host. They outlive the session thread that asked for them. */
  readonly #hostWork: HostWork = new Map();
  #current: Promise<Incarnation> | undefined;
  /** The incarnation of `#current`, once it serves. */
  #serving: Incarnation | undefined;
  readonly #deaths = new ShardDeaths();
  /** The session on which the last dead thread ran out of memory; 0: none. */
  #culprit: SessionKey = 0;
  #restarts = 0;
  #failure: TroupeError | undefined;
  /** True while this node is to give the shard away. */
  #isGiven = false;
  /** Present while the shard is looked for in the cluster. */
  #absence: ShardAbsence | undefined;
  /** Aborted once the runtime closes. */
  readonly #closing = new AbortController();

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** Starts the shard. Rejects with the error that keeps it from starting: the store's errors, `ConfigError`. */
  async start(): Promise<void> {
    const starting = this.#incarnate();
    this.#current = starting;
    const incarnation = await (this.#absence?.bound(starting, (error) => error) ?? starting);
    incarnation.isServing = true;
    this.#serving = incarnation;
    this.#endAbsence();
    // The incarnation ended after its answer but before `isServing` was set. Without this check none would follow it,
    // and requests would be repeated forever.
    if (incarnation.isGone) this.#ended(incarnation);
  }

  /** True if requests are answered now. */
  get isServing(): boolean {
    return this.#serving?.isGone === false && this.#failure === undefined && !this.isClosing;
  }

  /** True once the runtime closes. */
  get isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  /** True while another node of the cluster has the shard, or none. */
  get isElsewhere(): boolean {
    return this.#parts.finder?.isHere(this.#parts.plan.index) === false;
  }

  /** The number of times that the thread was replaced. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Sends a request to the shard. `repeatable`: true if the request may be sent again to a new thread. */
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']> {
    const bytes = growingBytes(method, request);
    if (bytes === 0 && this.#line.isEmpty) return this.#callNow(method, request, repeatable);
    // A large request, or one that must not overtake a large one (Q2 of `request-line.ts`).
    const session = 'session' in request ? request.session : undefined;
    return this.#line.through(session ?? '', bytes, () => this.#callNow(method, request, repeatable));
  }

  #callNow<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']> {
    const serving = this.#serving;
    // The slow path handles a dead or closing thread, and a request that the thread leaves unanswered.
    if (serving === undefined || serving.isGone || this.#failure !== undefined || this.isClosing) {
      return this.#ask(method, request, repeatable);
    }
    return serving.endpoint.call(method, request).catch((error: unknown) => {
      if (!isUnanswered(serving, error)) throw this.#failure ?? error;
      return this.#askAgain(method, request, repeatable, { error, ended: serving });
    }) as Promise<ShardMethods[M]['answer']>;
  }

  /** `before`: the incarnation that left the request unanswered; missing: it was not sent yet. */
  async #ask<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
    before?: Incarnation,
  ): Promise<ShardMethods[M]['answer']> {
    for (let ended = before; ; ) {
      if (this.#failure !== undefined) throw this.#failure;
      const incarnation = await this.#running(ended);
      try {
        return (await incarnation.endpoint.call(method, request)) as ShardMethods[M]['answer'];
      } catch (error) {
        if (!isUnanswered(incarnation, error)) throw this.#failure ?? error;
        this.#checkRepeatable(repeatable, error, incarnation);
        ended = incarnation;
      }
    }
  }

  async #askAgain<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
    { error, ended }: { readonly error: unknown; readonly ended: Incarnation },
  ): Promise<ShardMethods[M]['answer']> {
    this.#checkRepeatable(repeatable, error, ended);
    return this.#ask(method, request, repeatable, ended);
  }

  /** Throws unless a request that an incarnation left unanswered may be repeated (L1, L2). */
  #checkRepeatable(repeatable: boolean, cause: unknown, ended: Incarnation): void {
    if (this.isClosing) throw this.#failure ?? new CancelledError('the runtime was closed', { cause });
    if (!repeatable) throw unknownOutcome(cause, ended);
  }

  /** `before`: the incarnation that left a request unanswered, so that its outcome is unknown. */
  async #running(before?: Incarnation): Promise<Incarnation> {
    const current = this.#current;
    if (current === undefined) throw new CancelledError('the runtime is closed');
    return this.#absence?.bound(current, (error) => (before ? unknownOutcome(error, before) : error)) ?? current;
  }

  /**
   * Serves the host of another node over a line, until the line ends. Throws `ShardMovedError` unless the shard is
   * here.
   */
  admit(line: Endpoint): void {
    const serving = this.#serving;
    if (serving === undefined || serving.line !== undefined || !this.isServing) {
      throw new ShardMovedError(`this node does not have shard ${this.#parts.plan.index}`);
    }
    serving.guests.admit(line);
  }

  /**
   * Sends a request to the host that has the shard, if that is another one. Undefined: the shard is here. Rejects as a
   * repeatable request does.
   */
  async askOwner(method: string, request: unknown): Promise<{ readonly answer: unknown } | undefined> {
    for (;;) {
      const incarnation = await this.#running();
      if (incarnation.line === undefined) return undefined;
      try {
        return { answer: await incarnation.line.call('host', { method, request }) };
      } catch (error) {
        if (!incarnation.isGone) throw this.#failure ?? error;
        this.#checkRepeatable(true, error, incarnation);
      }
    }
  }

  /** Starts or stops the publication of a session's events, or of the events of all sessions (`undefined`). */
  async watch(session: string | undefined, on: boolean): Promise<void> {
    this.#watches.watch(session, on);
    if (!on && this.#serving?.guests.isWatched(session) === true) return;
    await this.#notify('session.watch', { on, ...defined({ session }) });
  }

  /** Starts or stops the introduction of sessions before their first event. */
  introduce(on: boolean): void {
    this.#watches.introduces = on;
    this.#tell('sessions.introduce', { on });
  }

  /** Sends the external facts again (`Learned`). */
  learn(): void {
    this.#tell('runtime.learn', this.#parts.learned());
  }

  /** Starts or stops the publication of a session's new messages. */
  async listen(session: string, on: boolean): Promise<void> {
    this.#watches.listen(session, on);
    if (!on && this.#serving?.guests.isListened(session) === true) return;
    await this.#notify('history.watch', { session, on });
  }

  /** Makes a session wait for its listeners, or no longer wait. The change takes effect before later requests. */
  gate(session: string, on: boolean): void {
    this.#tell('history.gate', { session, on });
  }

  /** Sends a setting to the shard if it is here. A shard on another node receives the settings of the other host. */
  #tell<M extends keyof ShardMethods>(method: M, request: ShardMethods[M]['request']): void {
    if (this.isElsewhere) return;
    // A dead thread, or a closed runtime, needs no settings. A new thread receives them at its start.
    this.#notify(method, request).catch(() => undefined);
  }

  /** Sends a setting to the current thread; a new thread receives all settings again. */
  async #notify<M extends keyof ShardMethods>(method: M, request: ShardMethods[M]['request']): Promise<void> {
    // With a serving thread the request is posted synchronously, so that it keeps its order among concurrent requests.
    const incarnation = this.#serving ?? (await this.#running());
    try {
      await incarnation.endpoint.call(method, request);
    } catch (error) {
      if (!isUnanswered(incarnation, error)) throw error;
    }
  }

  /** Gives the shard to another node. Returns when the shard is closed here. Never rejects. */
  async handOver(): Promise<void> {
    this.#isGiven = true;
    while (this.#isGiven && !this.isElsewhere) {
      const here = await this.#current?.catch(() => undefined);
      if (here === undefined || this.isClosing || this.#failure !== undefined) return;
      // A line to the former owner, or a thread that died: another incarnation follows.
      if (here.line !== undefined) await here.exit();
      if (this.#serving !== here) continue;
      await drainShard(here.endpoint, this.#parts);
      if (this.#serving === here && !this.isClosing) await this.#leave(here);
    }
  }

  async #leave(here: Incarnation): Promise<void> {
    here.isLeaving = true;
    this.#serving = undefined;
    const closed = this.#closeHere(here);
    const next = closed.then(() => this.#follow());
    this.#current = next;
    next.catch(() => undefined);
    await closed;
  }

  async #closeHere(here: Incarnation): Promise<void> {
    await endShard(here, this.#parts);
    this.receipts.abandon();
    this.#isGiven = false;
    this.#parts.finder?.release(this.#parts.plan.index);
  }

  /** Kills the thread as a crash would; it is replaced. For tests. */
  async kill(): Promise<void> {
    const incarnation = await this.#running();
    if (this.#parts.startInPlace === undefined || incarnation.line !== undefined) await incarnation.exit();
  }

  async close(deadlineMs: number): Promise<void> {
    if (this.isClosing) return;
    this.#closing.abort();
    const incarnation = await this.#current?.catch(() => undefined);
    this.#endAbsence();
    if (incarnation === undefined) return;
    // So the guests wait for the next owner. Otherwise their requests would reject: this runtime is closed.
    incarnation.guests.close();
    try {
      // A shard on another node does not close with this host.
      if (incarnation.line === undefined) await closeShard(incarnation.endpoint, deadlineMs, this.#parts);
    } catch (error) {
      if (!incarnation.isGone) throw error;
    } finally {
      this.#current = undefined;
      this.#serving = undefined;
      await incarnation.exit();
      incarnation.endpoint.close();
      incarnation.end();
      this.receipts.abandon();
      if (incarnation.line === undefined) this.#parts.finder?.release(this.#parts.plan.index);
    }
  }

  /**
   * Starts the shard here, or connects to the node that has it. With `isBounded`, requests do not wait longer for a
   * start here than for another node.
   */
  async #incarnate(isBounded = false): Promise<Incarnation> {
    const { clock, finder, plan } = this.#parts;
    if (finder === undefined) return this.#startHere(plan);
    this.#absence ??= new ShardAbsence(plan.index, finder.absenceMs, clock);
    const found = await finder.find(plan.index, this.#closing.signal);
    if ('line' in found) return this.#overLine(found.line);
    if (!isBounded) this.#endAbsence();
    return this.#startHere({ ...plan, cluster: found.place });
  }

  #endAbsence(): void {
    this.#absence?.end();
    this.#absence = undefined;
  }

  async #startHere(plan: ShardPlan): Promise<Incarnation> {
    const { clock, learned, values } = this.#parts;
    const thread = startedThread(this.#parts, plan);
    const { endpoint } = thread;
    const decided = { ...values, decisions: { ...values.decisions, listeners: this.listeners } };
    const services = serveHost(endpoint, decided, { clock, work: this.#hostWork });
    const stopServing = thread.serve(services);
    const end = (): void => {
      stopServing();
      services.abandon();
      incarnation.guests.close();
    };
    const incarnation = this.#incarnation(endpoint, { exit: () => thread.exit(), end, line: undefined });
    thread.onExit(({ outOfMemory }) => {
      this.#culprit = outOfMemory ?? 0;
      this.#exited(incarnation);
    });
    try {
      const known = { gated: this.listeners.sessions, isolated: this.#deaths.isolated, learned: learned() };
      await endpoint.call('shard.start', { plan, ...known } satisfies ShardStart);
    } catch (error) {
      await thread.exit();
      throw error;
    }
    return incarnation;
  }

  #overLine({ endpoint: line, onExit, exit }: ShardLine): Incarnation {
    const endpoint = endpointWith(line, { call: (method, request) => line.call('ask', { method, request }) });
    const incarnation = this.#incarnation(endpoint, { exit, end: () => undefined, line });
    onExit(() => this.#exited(incarnation));
    return incarnation;
  }

  #incarnation(endpoint: Endpoint, parts: Pick<Incarnation, 'exit' | 'end' | 'line'>): Incarnation {
    const guests = new ShardGuests({ shard: endpoint, own: this.#watches, receipts: this.receipts });
    listenToShard(endpoint, {
      guests,
      listener: this.#parts.listener,
      receipts: this.receipts,
      degraded: (error) => this.#degraded(error),
    });
    return { ...parts, endpoint, guests, isGone: false, isLeaving: false, isServing: false };
  }

  #exited(incarnation: Incarnation): void {
    incarnation.isGone = true;
    // `#closeHere` ends an incarnation that leaves.
    if (incarnation.isLeaving) return;
    incarnation.end();
    this.receipts.abandon();
    if (incarnation.isServing) this.#ended(incarnation);
  }

  /**
   * Called when the store refuses writes, or accepts them again. In the second case the disk may hold events that were
   * never published.
   */
  #degraded(error: TroupeError | undefined): void {
    this.#parts.listener.degraded(error);
    if (error === undefined)
      this.#current?.then(
        (incarnation) => this.#remindReaders(incarnation),
        () => undefined,
      );
  }

  /**
   * Called when an incarnation has ended. A thread that died is replaced, and its sessions resume from the log. After
   * the end of a line the shard is looked for.
   */
  #ended({ line }: Incarnation): void {
    if (this.isClosing || this.#failure !== undefined) return;
    this.#serving = undefined;
    const next = line === undefined ? this.#replace() : this.#follow();
    this.#current = next;
    // Callers that await the next incarnation get its error, so a rejection is not unhandled.
    next.catch(() => undefined);
  }

  /** Continues where the shard is now (L5). While the store refuses a start here, the finder sets the pace. */
  async #follow(): Promise<Incarnation> {
    for (;;) {
      const incarnation = await this.#incarnate(true).catch((error: unknown) => this.#startFailed(error));
      try {
        if (incarnation === undefined) continue;
        await this.#serve(incarnation);
        return incarnation;
      } catch (error) {
        if (incarnation?.line === undefined) return this.#replace(error);
        await incarnation.exit();
      }
    }
  }

  /** Returns if another attempt may succeed. */
  #startFailed(error: unknown): undefined {
    const { listener, plan } = this.#parts;
    if (this.isClosing) throw new CancelledError('the runtime was closed', { cause: error });
    if (this.#failure !== undefined || !(error instanceof StoreFullError))
      throw this.#failure ?? this.fail(moved(error));
    listener.log({ level: 'warn', message: `shard ${plan.index} cannot be opened now`, error: errorShape(error) });
    if (!this.#isGiven) return;
    this.#isGiven = false;
    this.#parts.finder?.release(plan.index);
  }

  /** Begins to use an incarnation that follows another one. Rejects if it ends meanwhile. */
  async #serve(incarnation: Incarnation): Promise<void> {
    await this.#watches.repeat(incarnation.endpoint, incarnation.line === undefined);
    if (incarnation.isGone) throw new TroupeError('internal', 'the session thread ended again', { retryable: true });
    incarnation.isServing = true;
    this.#serving = incarnation;
    this.#endAbsence();
    this.#parts.listener.degraded(undefined);
    void this.#remindReaders(incarnation);
  }

  /** Starts a thread in place of a dead one. If the new thread dies before it serves, starts another (L3). */
  async #replace(cause?: unknown): Promise<Incarnation> {
    const { plan, listener } = this.#parts;
    const loss = this.#noteDeath();
    if (loss !== undefined) throw this.fail(new TroupeError('internal', loss, defined({ cause })));
    listener.log({ level: 'error', message: `session thread ${plan.index} died and is replaced` });
    try {
      const incarnation = await this.#incarnate();
      await this.#serve(incarnation);
      this.#restarts += 1;
      return incarnation;
    } catch (error) {
      if (this.isClosing) throw new CancelledError('the runtime was closed', { cause: error });
      return this.#replace(error);
    }
  }

  /** Notes a death; returns the reason if there will be no other thread. */
  #noteDeath(): string | undefined {
    const { clock, plan } = this.#parts;
    const isReplaced = this.#deaths.note(clock.monotonic(), this.#culprit);
    this.#culprit = 0;
    if (plan.directory === undefined) return `session thread ${plan.index} died, and a store in memory with it`;
    return isReplaced ? undefined : `session thread ${plan.index} died ${this.#deaths.count} times within a minute`;
  }

  /** Gives up the shard: every request rejects with this error, also a request that the thread has not answered. */
  fail(failure: TroupeError): TroupeError {
    this.#failure = failure;
    this.#parts.listener.degraded(failure);
    this.#parts.listener.lost(failure);
    return failure;
  }

  /** Reminds the readers of this host, because they may have missed events. */
  async #remindReaders({ endpoint }: Incarnation): Promise<void> {
    const { listener } = this.#parts;
    listener.resumed?.();
    await this.#watches.remind(endpoint, (event) => listener.remind(event));
  }
}
