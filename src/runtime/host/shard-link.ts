/**
 * The host's connection to one shard. The shard runs on its own thread or on the host thread. A thread that dies is
 * replaced.
 *
 * Owns: the thread, the restarts, the state that a new thread must be sent again (watches). Does not own: subscribers,
 * sessions.
 *  L1 a request that only reads, or carries a key, is sent again to a new thread, and the caller does not notice;
 *  L2 any other request that was in flight when the thread died rejects with a retryable error, since its outcome is
 *     unknown;
 *  L3 after more deaths than `SHARD_RESTARTS` allows, the link gives up, and every request rejects. A session on which
 *     the thread ran out of memory twice is isolated: the next thread does not read the session, and those two deaths
 *     no longer count;
 *  L4 a close always ends. A thread that does not answer within its deadline and `SHARD_CLOSE_MS` is ended as by a
 *     crash, and its work resumes at the next open.
 */
import { SHARD_CLOSE_MS } from '../../base/bounds.ts';
import type { Clock, Random } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, type ErrorShape, errorFromShape, TroupeError } from '../../base/errors.ts';
import type { PublishedEvent, SessionEvent } from '../../events/event.ts';
import type { PackedEvents } from '../../events/packing/packed-form.ts';
import { unpackEvents } from '../../events/packing/unpacking.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { HostWork } from '../../tools/host-tools.ts';
import type { ShardPorts } from '../door/build-shard.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type {
  EventsNote,
  Learned,
  LogLine,
  SaidNote,
  SessionIntroduction,
  ShardCaller,
  ShardMethods,
  ShardPlan,
  ShardStart,
} from '../protocol/protocol.ts';
import { WaitingListeners } from '../protocol/waiting-listeners.ts';
import { FollowedReceipts } from './followed-receipts.ts';
import { type HostValues, serveHost } from './host-services.ts';
import { growingBytes, RequestLine } from './request-line.ts';
import { ShardDeaths } from './shard-deaths.ts';
import type { startInPlace } from './shard-in-place.ts';
import type { ShardThread } from './shard-threads.ts';

/** Receives the notifications of a link. */
export interface LinkListener {
  events(events: readonly PublishedEvent[]): void;
  /** Sessions that are about to publish for the first time. */
  introduced?(sessions: readonly SessionIntroduction[]): void;
  /** New messages of a session with callbacks. */
  said?(note: SaidNote): void;
  /** Notices of a durable transition, if the plan asks for them. */
  noticed?(note: NoticeNote): void;
  /**
   * Called when the store of this shard refuses writes (with the error), and when it accepts them again (`undefined`).
   */
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  /**
   * The newest event of a watched session, published again: the thread may have died before it published some events.
   */
  remind(event: SessionEvent): void;
  /** Called when the shard serves again; events that became durable before may not have been published. */
  resumed?(): void;
  /** Called when the shard is given up; it will publish nothing more. */
  lost(error: TroupeError): void;
}

/** The parts of a link. */
export interface LinkParts {
  readonly plan: ShardPlan;
  readonly values: HostValues;
  /** Returns the external facts. Called when a thread starts, and at each `learn`. */
  readonly learned: () => Learned;
  readonly clock: Clock;
  readonly random: Random;
  readonly listener: LinkListener;
  /** Starts the shard's own thread. A simulator returns a `ShardThread` without a real thread. */
  readonly startShard: (plan: ShardPlan) => ShardThread;
  /** Starts the shard on this thread; undefined: the shard has its own thread. */
  readonly startInPlace: typeof startInPlace | undefined;
  /** The ports of a shard on this thread; default: those of the machine. */
  readonly shardPorts?: ShardPorts;
}

interface Incarnation {
  readonly endpoint: Endpoint;
  readonly thread: ShardThread;
  readonly end: () => void;
  /** True once the thread has ended, so that it will never answer its open requests. */
  isGone: boolean;
  /** True once the thread receives requests, so that it must be replaced if it dies. */
  isServing: boolean;
}

/** See the head of the file. */
export class ShardLink implements ShardCaller {
  /** Receipts whose end this shard publishes without a request. */
  readonly receipts: FollowedReceipts = new FollowedReceipts();
  /** Listeners that the sessions of this shard wait for. */
  readonly listeners: WaitingListeners = new WaitingListeners();
  readonly #parts: LinkParts;
  readonly #line = new RequestLine();
  /** The watched sessions; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages have callbacks. */
  readonly #listened = new Set<string>();
  /** True while sessions are introduced. */
  #introduces = false;
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
  /** True once the runtime closes. */
  isClosing = false;

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** Starts the shard. Rejects with the error that keeps it from starting: the store's errors, `ConfigError`. */
  async start(): Promise<void> {
    const starting = this.#incarnate();
    this.#current = starting;
    const incarnation = await starting;
    incarnation.isServing = true;
    this.#serving = incarnation;
    // The thread died after its answer but before `isServing` was set. Without this check no thread would replace it,
    // and requests would be repeated forever.
    if (incarnation.isGone) this.#died();
  }

  /** True if requests are answered now. */
  get isServing(): boolean {
    return this.#serving?.isGone === false && this.#failure === undefined && !this.isClosing;
  }

  /** The number of times that the thread was replaced. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Sends a request to the shard. `repeatable`: it may be sent again to a new thread. */
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']> {
    const bytes = growingBytes(method, request);
    const isAlone = bytes === 0 && this.#line.isEmpty;
    return isAlone ? this.#callNow(method, request, repeatable) : this.#callInLine(method, request, repeatable, bytes);
  }

  /** Sends a large request, or one that must not overtake a large one (Q2 of `request-line.ts`). */
  async #callInLine<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
    bytes: number,
  ): Promise<ShardMethods[M]['answer']> {
    const session = 'session' in request ? request.session : undefined;
    const turn = this.#line.enter(session ?? '', bytes);
    // Without a wait the request is posted synchronously, so that later requests follow it.
    if (turn !== undefined) await turn;
    try {
      return await this.#callNow(method, request, repeatable);
    } finally {
      this.#line.left(bytes);
    }
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
      if (!serving.isGone) throw this.#failure ?? error;
      return this.#askAgain(method, request, repeatable, error);
    }) as Promise<ShardMethods[M]['answer']>;
  }

  async #ask<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const incarnation = await this.#running();
      try {
        return (await incarnation.endpoint.call(method, request)) as ShardMethods[M]['answer'];
      } catch (error) {
        if (!incarnation.isGone) throw this.#failure ?? error;
        this.#checkRepeatable(repeatable, error);
      }
    }
  }

  async #askAgain<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
    error: unknown,
  ): Promise<ShardMethods[M]['answer']> {
    this.#checkRepeatable(repeatable, error);
    return this.#ask(method, request, repeatable);
  }

  /** Throws unless a request that a dead thread left unanswered may be repeated (L1, L2). */
  #checkRepeatable(repeatable: boolean, cause: unknown): void {
    if (this.isClosing) throw this.#failure ?? new CancelledError('the runtime was closed', { cause });
    if (!repeatable) throw unknownOutcome(cause);
  }

  async #running(): Promise<Incarnation> {
    const current = this.#current;
    if (current === undefined) throw new CancelledError('the runtime is closed');
    return current;
  }

  /** Starts or stops the publication of a session's events, or of the events of all sessions (`undefined`). */
  async watch(session: string | undefined, on: boolean): Promise<void> {
    if (on) this.#watched.add(session);
    else this.#watched.delete(session);
    await this.#notify('session.watch', { on, ...defined({ session }) });
  }

  /** Starts or stops the introduction of sessions before their first event. */
  introduce(on: boolean): void {
    this.#introduces = on;
    // A dead thread, or a closed runtime, publishes nothing either. A new thread receives the setting at its start.
    this.#notify('sessions.introduce', { on }).catch(() => undefined);
  }

  /** Sends the external facts again (`Learned`). */
  learn(): void {
    // A dead thread, or a closed runtime, needs no facts. A new thread receives them at its start.
    this.#notify('runtime.learn', this.#parts.learned()).catch(() => undefined);
  }

  /** Starts or stops the publication of a session's new messages. */
  async listen(session: string, on: boolean): Promise<void> {
    if (on) this.#listened.add(session);
    else this.#listened.delete(session);
    await this.#notify('history.watch', { session, on });
  }

  /** Makes a session wait for its listeners, or no longer wait. The change takes effect before later requests. */
  gate(session: string, on: boolean): void {
    // A dead thread, or a closed runtime, waits for no listener; a new thread receives the setting at its start.
    this.#notify('history.gate', { session, on }).catch(() => undefined);
  }

  /** Sends a setting to the current thread; a new thread receives all settings again. */
  async #notify<M extends keyof ShardMethods>(method: M, request: ShardMethods[M]['request']): Promise<void> {
    // With a serving thread the request is posted synchronously, so that it keeps its order among concurrent requests.
    const incarnation = this.#serving ?? (await this.#running());
    try {
      await incarnation.endpoint.call(method, request);
    } catch (error) {
      if (!incarnation.isGone) throw error;
    }
  }

  /** Kills the thread as a crash would; it is replaced. For tests. */
  async kill(): Promise<void> {
    const incarnation = await this.#running();
    if (this.#parts.startInPlace === undefined) await incarnation.thread.exit();
  }

  async close(deadlineMs: number): Promise<void> {
    if (this.isClosing) return;
    this.isClosing = true;
    const incarnation = await this.#current?.catch(() => undefined);
    if (incarnation === undefined) return;
    try {
      await this.#closed(incarnation, deadlineMs);
    } catch (error) {
      if (!incarnation.isGone) throw error;
    } finally {
      this.#current = undefined;
      this.#serving = undefined;
      await incarnation.thread.exit();
      incarnation.endpoint.close();
      incarnation.end();
      this.receipts.abandon();
    }
  }

  /**
   * Resolves when the shard has closed, or the deadline of its thread has passed (L4). A shard on this thread has no
   * deadline.
   */
  async #closed({ endpoint }: Incarnation, deadlineMs: number): Promise<void> {
    const { clock, listener, plan, startInPlace } = this.#parts;
    const closed = endpoint.call('runtime.close', { deadlineMs }).then(() => true);
    if (startInPlace !== undefined) {
      await closed;
      return;
    }
    const waitMs = deadlineMs + SHARD_CLOSE_MS;
    let timer: unknown;
    const late = new Promise<boolean>((resolve) => {
      timer = clock.setTimer(() => resolve(false), waitMs);
    });
    try {
      if (await Promise.race([closed, late])) return;
      listener.log({
        level: 'error',
        message: `session thread ${plan.index} did not close within ${waitMs} ms; it is ended`,
      });
    } finally {
      clock.clearTimer(timer);
    }
  }

  async #incarnate(): Promise<Incarnation> {
    const { clock } = this.#parts;
    const thread = this.#startShard();
    const { endpoint } = thread;
    const services = serveHost(endpoint, this.#values(), { clock, work: this.#hostWork });
    const stopServing = thread.serve(services);
    this.#listen(endpoint);
    const end = (): void => {
      stopServing();
      services.abandon();
    };
    const incarnation: Incarnation = { endpoint, thread, end, isGone: false, isServing: false };
    thread.onExit(({ outOfMemory }) => {
      incarnation.isGone = true;
      this.#culprit = outOfMemory ?? 0;
      end();
      this.receipts.abandon();
      if (incarnation.isServing) this.#died();
    });
    try {
      const { plan, learned } = this.#parts;
      const known = { gated: this.listeners.sessions, isolated: this.#deaths.isolated, learned: learned() };
      await endpoint.call('shard.start', { plan, ...known } satisfies ShardStart);
    } catch (error) {
      await thread.exit();
      throw error;
    }
    return incarnation;
  }

  #startShard(): ShardThread {
    const { plan, startInPlace, startShard, values, clock, random, shardPorts } = this.#parts;
    if (startInPlace === undefined) return startShard(plan);
    return startInPlace({ providers: values.providers, redact: values.redact, clock, random, ports: shardPorts });
  }

  #values(): HostValues {
    const { values } = this.#parts;
    return { ...values, decisions: { ...values.decisions, listeners: this.listeners } };
  }

  #listen(endpoint: Endpoint): void {
    const { listener } = this.#parts;
    // A shard on the host thread passes events as they are; a worker thread passes them packed.
    endpoint.handle('events', (note) => this.#onEvents(note as EventsNote<readonly PublishedEvent[]>));
    endpoint.handle('events.packed', (note) => {
      const { introduced, events } = note as EventsNote<PackedEvents>;
      this.#onEvents({ introduced, events: unpackEvents(events) });
    });
    endpoint.handle('receipt.settled', (note) => {
      const { follow, state } = note as { readonly follow: number; readonly state: ReceiptState | undefined };
      this.receipts.notify(follow, state);
    });
    endpoint.handle('history.said', (note) => listener.said?.(note as SaidNote));
    endpoint.handle('noticed', (note) => listener.noticed?.(note as NoticeNote));
    endpoint.handle('log', (line) => listener.log(line as LogLine));
    endpoint.handle('degraded', (note) => {
      const { error } = note as { readonly error?: ErrorShape };
      this.#degraded(error === undefined ? undefined : errorFromShape(error));
    });
  }

  #onEvents({ introduced, events }: EventsNote<readonly PublishedEvent[]>): void {
    const { listener } = this.#parts;
    // Introductions come first, so that the sessions are known before their events.
    if (introduced !== undefined) listener.introduced?.(introduced);
    if (events.length > 0) listener.events(events);
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

  /** Called when a thread died: another replaces it, and its sessions resume from the log. */
  #died(): void {
    if (this.isClosing || this.#failure !== undefined) return;
    const next = this.#replace();
    this.#current = next;
    this.#serving = undefined;
    // Callers that await the replacement get the same error.
    next.catch(() => undefined);
  }

  /** Starts a thread in place of a dead one. If the new thread dies before it serves, starts another (L3). */
  async #replace(cause?: unknown): Promise<Incarnation> {
    const { plan, listener } = this.#parts;
    const loss = this.#noteDeath();
    if (loss !== undefined) throw this.fail(new TroupeError('internal', loss, defined({ cause })));
    listener.log({ level: 'error', message: `session thread ${plan.index} died and is replaced` });
    try {
      const incarnation = await this.#incarnate();
      await this.#repeatWatches(incarnation.endpoint);
      if (incarnation.isGone) throw new TroupeError('internal', 'the session thread died again', { retryable: true });
      incarnation.isServing = true;
      this.#serving = incarnation;
      this.#restarts += 1;
      listener.degraded(undefined);
      void this.#remindReaders(incarnation);
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

  async #repeatWatches(endpoint: Endpoint): Promise<void> {
    const introduces = this.#introduces ? [endpoint.call('sessions.introduce', { on: true })] : [];
    const watches = [...this.#watched].map((session) =>
      endpoint.call('session.watch', { on: true, ...defined({ session }) }),
    );
    const listens = [...this.#listened].map((session) => endpoint.call('history.watch', { session, on: true }));
    await Promise.all([...introduces, ...watches, ...listens]);
  }

  /**
   * Publishes the newest event of each watched session again. A reader that missed durable events then notices the gap,
   * and reads the missing events from the log.
   */
  async #remindReaders({ endpoint }: Incarnation): Promise<void> {
    this.#parts.listener.resumed?.();
    for (const session of this.#watched) {
      if (session === undefined) continue;
      try {
        const { seq } = (await endpoint.call('session.state', { session })) as ShardMethods['session.state']['answer'];
        const request = { session, after: seq - 1, limit: 1 };
        const page = (await endpoint.call('session.events', request)) as ShardMethods['session.events']['answer'];
        for (const event of page.events) this.#parts.listener.remind(event);
      } catch {
        // The thread died again; the next thread will publish the newest events.
        return;
      }
    }
  }
}

/** The error of a request that may or may not have taken effect (L2). */
function unknownOutcome(cause: unknown): TroupeError {
  return new TroupeError(
    'internal',
    'the session thread died during this request; whether the request took effect is unknown. Repeat it with a key.',
    { cause, retryable: true },
  );
}
