/**
 * The host's line to one shard, which may be a thread or may be here; a thread that dies is replaced.
 *
 * Owns: the thread, the restarts, what must be said again to a new one (watches). Does not own: subscribers, sessions.
 *  L1 a request that only reads, or carries a key, is asked again of a new thread: its asker does not notice;
 *  L2 any other request that was under way when the thread died rejects with a retryable error, since its outcome is
 *     unknown;
 *  L3 more than `SHARD_RESTARTS_MAX` deaths within the period and the link gives up: everything rejects. A session on which the
 *     thread ran out of memory twice is isolated: the next thread leaves it alone, and those deaths count no more;
 *  L4 a close ends: a thread that does not answer within its deadline and `SHARD_CLOSE_MS` is ended as a crash would end it, and
 *     what it was at goes on at the next open.
 */
import {
  REQUEST_LARGE_BYTES_MIN,
  SESSION_THREAD_YOUNG_HEAP_MB,
  SHARD_CLOSE_MS,
  SHARD_RESTART_PERIOD_MS,
  SHARD_RESTARTS_MAX,
} from '../../base/bounds.ts';
import type { Clock, Random } from '../../base/clock.ts';
import { CancelledError, type ErrorShape, errorFromShape, systemCodeOf, TroupeError } from '../../base/errors.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { PackedEvents } from '../../events/packing/packed-form.ts';
import { unpackEvents } from '../../events/packing/unpacking.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import { createLocalEndpoints } from '../../threads/batched-endpoint.ts';
import { createBridgePorts, exposeObject } from '../../threads/comlink-bridge.ts';
import { EndGate } from '../../threads/end-gate.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import { startThread, type Thread, type ThreadLimits } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import type { HostWork } from '../../tools/host-tools.ts';
import { buildShard, type ShardPorts } from '../door/build-shard.ts';
import { serveShard } from '../door/shard-requests.ts';
import type {
  EventsNote,
  HostServices,
  LogLine,
  RemoteServices,
  SaidNote,
  SessionIntroduction,
  ShardCaller,
  ShardMethods,
  ShardPlan,
  ShardStart,
} from '../protocol/protocol.ts';
import { WaitingListeners } from '../protocol/waiting-listeners.ts';
import { tellInPlace } from '../shard/event-gathering.ts';
import { SessionInHand } from '../shard/session-in-hand.ts';
import { FollowedReceipts } from './followed-receipts.ts';
import { createHostServices, type HostValues } from './host-services.ts';
import { RequestLine, textBytes } from './request-line.ts';

/** What a link tells the runtime. */
export interface LinkListener {
  events(events: readonly SessionEvent[]): void;
  /** Sessions that are about to tell something for the first time. */
  introduced?(sessions: readonly SessionIntroduction[]): void;
  /** What was said in a session that is listened to. */
  said?(note: SaidNote): void;
  /** The store of this shard refuses writes; undefined: it takes them again. */
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  /** The newest event of a session that is read, told again: the thread may have died before it could tell the last ones. */
  remind(event: SessionEvent): void;
  /** The shard serves again: what it made durable before may not have been told. */
  resumed?(): void;
  /** The shard is given up: it will tell nothing any more. */
  lost(error: TroupeError): void;
}

/** What a link is made of. */
export interface LinkParts {
  readonly plan: ShardPlan;
  readonly values: HostValues;
  readonly isThread: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly listener: LinkListener;
  /** Starts a shard on a thread of its own; default a worker. A simulator gives one that is none. */
  readonly startShard?: (plan: ShardPlan) => ShardThread;
  /** What a shard on this thread stands on; default the machine's own. */
  readonly shardPorts?: ShardPorts;
}

/** A death of the thread, and the session it ran out of memory on. */
interface Death {
  /** Monotonic ms. */
  readonly at: number;
  readonly culprit: SessionKey | undefined;
}

/** A thread on which a shard answers `shard.start` and then all methods of the protocol. */
export interface ShardThread extends Pick<Thread, 'endpoint' | 'exit'> {
  /** Runs `listener` once when the thread has ended. */
  onExit(listener: (end: ShardThreadEnd) => void): void;
  /** Lets the thread call the host's values; returns what ends that. */
  serve(services: HostServices): () => void;
}

/** How a shard's thread ended. */
export interface ShardThreadEnd {
  /** It ran out of memory while it worked on this session; 0: on none. Missing: it ended otherwise. */
  readonly outOfMemory?: SessionKey;
}

interface Incarnation {
  readonly endpoint: Endpoint;
  readonly thread: ShardThread | undefined;
  readonly end: () => void;
  /** The far side ended: what it had not answered, it never will. */
  isGone: boolean;
  /** Calls are made to it: its death is to be mended. */
  isServing: boolean;
}

/** See the head of the file. */
export class ShardLink implements ShardCaller {
  /** Receipts whose end this shard tells by itself. */
  readonly receipts: FollowedReceipts = new FollowedReceipts();
  /** Listeners the sessions of this shard wait for. */
  readonly listeners: WaitingListeners = new WaitingListeners();
  readonly #parts: LinkParts;
  readonly #line = new RequestLine();
  /** What is being read; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages are listened to. */
  readonly #listened = new Set<string>();
  /** Sessions are introduced. */
  #introduces = false;
  /** What host tools are at: they outlive the thread they work for. */
  readonly #hostWork: HostWork = new Map();
  #current: Promise<Incarnation> | undefined;
  /** The one of `#current`, once it serves. */
  #serving: Incarnation | undefined;
  /** Those within the last period. */
  #deaths: Death[] = [];
  /** Sessions the thread ran out of memory on twice. */
  readonly #isolated = new Set<SessionKey>();
  /** The session the thread that died last ran out of memory on. */
  #culprit: SessionKey | undefined;
  #restarts = 0;
  #failure: TroupeError | undefined;
  #isClosing = false;

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** Starts the shard. Rejects with what keeps it from starting: the store's errors, `ConfigError`. */
  async start(): Promise<void> {
    const starting = this.#incarnate();
    this.#current = starting;
    const incarnation = await starting;
    incarnation.isServing = true;
    this.#serving = incarnation;
    // It died behind its own answer, before it counted: nobody else would replace it, and requests would be repeated for ever.
    if (incarnation.isGone) this.#died();
  }

  /** Requests are answered now. */
  get isServing(): boolean {
    return this.#serving?.isGone === false && this.#failure === undefined && !this.#isClosing;
  }

  /** How often the thread was replaced. */
  get restarts(): number {
    return this.#restarts;
  }

  /**
   * Asks the shard. `repeatable`: the question may be asked again of a new thread (L1).
   */
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
  ): Promise<ShardMethods[M]['answer']> {
    const bytes = GROWING.has(method) ? largeBytes(request) : 0;
    const isAlone = bytes === 0 && this.#line.isEmpty;
    return isAlone ? this.#callNow(method, request, repeatable) : this.#callInLine(method, request, repeatable, bytes);
  }

  /** A large request, or one that must not overtake such a one (Q2 of the line). */
  async #callInLine<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
    repeatable: boolean,
    bytes: number,
  ): Promise<ShardMethods[M]['answer']> {
    const session = 'session' in request ? request.session : undefined;
    const turn = this.#line.enter(session ?? '', bytes);
    // Posted at once where it need not wait: what is asked next comes behind it.
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
    // One that has died, or is closing, takes the long way, as does a question it does not answer.
    if (serving === undefined || serving.isGone || this.#failure !== undefined || this.#isClosing) {
      return this.#ask(method, request, repeatable);
    }
    return serving.endpoint.call(method, request).catch((error: unknown) => {
      if (!serving.isGone) throw error;
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
        if (!incarnation.isGone) throw error;
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

  /** The thread died with a question unanswered: throws unless it may be asked again (L1, L2). */
  #checkRepeatable(repeatable: boolean, cause: unknown): void {
    if (this.#isClosing) throw new CancelledError('the runtime was closed', { cause });
    if (!repeatable) throw unknownOutcome(cause);
  }

  async #running(): Promise<Incarnation> {
    const current = this.#current;
    if (current === undefined) throw new CancelledError('the runtime is closed');
    return current;
  }

  /** Starts or stops the telling of a session's events, or of all sessions' (`undefined`). */
  async watch(session: string | undefined, on: boolean): Promise<void> {
    if (on) this.#watched.add(session);
    else this.#watched.delete(session);
    await this.#tell('session.watch', { on, ...(session === undefined ? {} : { session }) });
  }

  /** Has sessions introduced before they tell anything, from now on, or not any more. One that is not can be asked for. */
  introduce(on: boolean): void {
    this.#introduces = on;
    // A thread that is gone, or a runtime that is closed, tells nothing either; a new thread is told at its start.
    this.#tell('sessions.introduce', { on }).catch(() => undefined);
  }

  /** Starts or stops the telling of what is said in a session. */
  async listen(session: string, on: boolean): Promise<void> {
    if (on) this.#listened.add(session);
    else this.#listened.delete(session);
    await this.#tell('history.watch', { session, on });
  }

  /** The listeners of a session are waited for from now on, or not any more: what is asked after this comes after it. */
  gate(session: string, on: boolean): void {
    // A thread that is gone, or a runtime that is closed, waits for nobody; a new thread is told at its start.
    this.#tell('history.gate', { session, on }).catch(() => undefined);
  }

  /** To the thread that is there; a new one is told everything anew. */
  async #tell<M extends keyof ShardMethods>(method: M, request: ShardMethods[M]['request']): Promise<void> {
    // In its place among what is asked at the same time, where nothing must be awaited first.
    const incarnation = this.#serving ?? (await this.#running());
    try {
      await incarnation.endpoint.call(method, request);
    } catch (error) {
      if (!incarnation.isGone) throw error;
    }
  }

  /** Kills the thread as a crash would; it is replaced. For tests of that. */
  async kill(): Promise<void> {
    const incarnation = await this.#running();
    await incarnation.thread?.exit();
  }

  async close(deadlineMs: number): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    const incarnation = await this.#current?.catch(() => undefined);
    if (incarnation === undefined) return;
    try {
      await this.#closed(incarnation, deadlineMs);
    } catch (error) {
      if (!incarnation.isGone) throw error;
    } finally {
      this.#current = undefined;
      this.#serving = undefined;
      await incarnation.thread?.exit();
      incarnation.endpoint.close();
      incarnation.end();
      this.receipts.abandon();
    }
  }

  /** Resolves when the shard has closed, or its thread has had its time (L4). A shard on this thread has no other end. */
  async #closed({ endpoint, thread }: Incarnation, deadlineMs: number): Promise<void> {
    const closed = endpoint.call('runtime.close', { deadlineMs }).then(() => true);
    if (thread === undefined) {
      await closed;
      return;
    }
    const { clock, listener, plan } = this.#parts;
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

  #incarnate(): Promise<Incarnation> {
    return this.#parts.isThread ? this.#startThread() : this.#startHere();
  }

  async #startThread(): Promise<Incarnation> {
    const { plan, clock, startShard = startWorker } = this.#parts;
    const values = this.#values();
    const thread = startShard(plan);
    const { endpoint } = thread;
    const services = createHostServices(values, this.#notes(endpoint), clock, this.#hostWork);
    const stopServing = thread.serve(services);
    this.#listen(endpoint);
    const end = (): void => {
      stopServing();
      services.abandon();
    };
    const incarnation: Incarnation = { endpoint, thread, end, isGone: false, isServing: false };
    thread.onExit(({ outOfMemory }) => {
      incarnation.isGone = true;
      this.#culprit = outOfMemory;
      end();
      this.receipts.abandon();
      if (incarnation.isServing) this.#died();
    });
    try {
      const start: ShardStart = { gated: this.listeners.sessions, isolated: [...this.#isolated] };
      await endpoint.call('shard.start', start);
    } catch (error) {
      await thread.exit();
      throw error;
    }
    return incarnation;
  }

  async #startHere(): Promise<Incarnation> {
    const { plan, clock, random, shardPorts } = this.#parts;
    const values = this.#values();
    const [near, far] = createLocalEndpoints(shardPorts?.soon);
    const services = createHostServices(values, this.#notes(near), clock, this.#hostWork);
    this.#listen(near);
    const built = await buildShard(plan, {
      services: inPlace(services),
      ...(values.provider === undefined ? {} : { provider: values.provider }),
      clock,
      random,
      gate: new EndGate(),
      ...(shardPorts === undefined ? {} : { ports: shardPorts }),
      host: {
        ...tellInPlace(far),
        settled: (follow, state) => far.notify('receipt.settled', { follow, state }),
        said: (note) => far.notify('history.said', note),
        degraded: (error) => this.#degraded(error),
        log: (line) => this.#parts.listener.log(line),
      },
    });
    far.handle('tool.progress', (note) => {
      const { id, data } = note as { readonly id: number; readonly data: unknown };
      built.toolProgress(id, data);
    });
    far.handle('model.delta', (note) => {
      const { id, delta } = note as { readonly id: number; readonly delta: Parameters<typeof built.modelDelta>[1] };
      built.modelDelta(id, delta);
    });
    serveShard(built.shard, far);
    built.shard.life.resumeInterrupted();
    const end = (): void => {
      far.close();
      services.abandon();
    };
    return { endpoint: near, thread: undefined, end, isGone: false, isServing: false };
  }

  #values(): HostValues {
    const { values } = this.#parts;
    return { ...values, decisions: { ...values.decisions, listeners: this.listeners } };
  }

  #notes(endpoint: Endpoint): Parameters<typeof createHostServices>[1] {
    return {
      toolProgress: (id, data) => endpoint.notify('tool.progress', { id, data }),
      modelDelta: (id, delta) => endpoint.notify('model.delta', { id, delta }),
    };
  }

  #listen(endpoint: Endpoint): void {
    const { listener } = this.#parts;
    // In place they are handed over as they are, from a thread packed.
    endpoint.handle('events', (note) => this.#told(note as EventsNote<readonly SessionEvent[]>));
    endpoint.handle('events.packed', (note) => {
      const { introduced, events } = note as EventsNote<PackedEvents>;
      this.#told({ introduced, events: unpackEvents(events) });
    });
    endpoint.handle('receipt.settled', (note) => {
      const { follow, state } = note as { readonly follow: number; readonly state: ReceiptState | undefined };
      this.receipts.tell(follow, state);
    });
    endpoint.handle('history.said', (note) => listener.said?.(note as SaidNote));
    endpoint.handle('log', (line) => listener.log(line as LogLine));
    endpoint.handle('degraded', (note) => {
      const { error } = note as { readonly error?: ErrorShape };
      this.#degraded(error === undefined ? undefined : errorFromShape(error));
    });
  }

  #told({ introduced, events }: EventsNote<readonly SessionEvent[]>): void {
    const { listener } = this.#parts;
    // First: who tells something is known by then.
    if (introduced !== undefined) listener.introduced?.(introduced);
    if (events.length > 0) listener.events(events);
  }

  /** The store refuses writes, or takes them again: then there may be events on the disk that nobody was told of. */
  #degraded(error: TroupeError | undefined): void {
    this.#parts.listener.degraded(error);
    if (error === undefined)
      this.#current?.then(
        (incarnation) => this.#remindReaders(incarnation),
        () => undefined,
      );
  }

  /** A thread is gone: another takes its place, and its sessions go on from the log. */
  #died(): void {
    if (this.#isClosing || this.#failure !== undefined) return;
    const next = this.#replace();
    this.#current = next;
    this.#serving = undefined;
    // Whoever asks meanwhile gets the same error.
    next.catch(() => undefined);
  }

  /** A thread in the place of one that died; another one if that dies before it serves (L3). */
  async #replace(cause?: unknown): Promise<Incarnation> {
    const { plan, listener } = this.#parts;
    const loss = this.#noteDeath();
    if (loss !== undefined) throw this.#fail(loss, cause);
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
      if (this.#isClosing) throw new CancelledError('the runtime was closed', { cause: error });
      return this.#replace(error);
    }
  }

  /** Notes a death; returns why there will be no other thread, if so. */
  #noteDeath(): string | undefined {
    const { clock, plan } = this.#parts;
    const now = clock.monotonic();
    const recent = this.#deaths.filter(({ at }) => now - at < SHARD_RESTART_PERIOD_MS);
    this.#deaths = this.#withoutIsolated([...recent, { at: now, culprit: this.#culprit }]);
    this.#culprit = undefined;
    if (plan.directory === undefined) return `session thread ${plan.index} died, and a store in memory with it`;
    if (this.#deaths.length <= SHARD_RESTARTS_MAX) return undefined;
    return `session thread ${plan.index} died ${this.#deaths.length} times within a minute`;
  }

  /** Isolates the session of the last death, if it is the second one on it; returns the deaths that still count. */
  #withoutIsolated(deaths: readonly Death[]): Death[] {
    const culprit = deaths.at(-1)?.culprit ?? 0;
    const isSecond = deaths.filter((death) => death.culprit === culprit).length > 1;
    if (culprit === 0 || !isSecond) return [...deaths];
    this.#isolated.add(culprit);
    return deaths.filter((death) => death.culprit !== culprit);
  }

  #fail(message: string, cause: unknown): TroupeError {
    const failure = new TroupeError('internal', message, cause === undefined ? {} : { cause });
    this.#failure = failure;
    this.#parts.listener.degraded(failure);
    this.#parts.listener.lost(failure);
    return failure;
  }

  async #repeatWatches(endpoint: Endpoint): Promise<void> {
    const introduces = this.#introduces ? [endpoint.call('sessions.introduce', { on: true })] : [];
    const watches = [...this.#watched].map((session) =>
      endpoint.call('session.watch', { on: true, ...(session === undefined ? {} : { session }) }),
    );
    const listens = [...this.#listened].map((session) => endpoint.call('history.watch', { session, on: true }));
    await Promise.all([...introduces, ...watches, ...listens]);
  }

  /** What was made durable and could not be told is in the log: a reader that sees the newest event looks there. */
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
        // The thread is gone again, and the next one reminds them.
        return;
      }
    }
  }
}

/** Starts a shard on a worker thread. `limits`: of its memory. */
export function startWorker(plan: ShardPlan, limits: ThreadLimits = {}): ShardThread {
  const ports = createBridgePorts();
  const gate = new EndGate();
  const inHand = new SessionInHand();
  const { endpoint, onExit, exit } = startThread(workerUrl('../door/shard.worker', import.meta.url), {
    name: `troupe sessions ${plan.index}`,
    workerData: { plan, port: ports.wrapped, gate: gate.memory, inHand: inHand.memory },
    gate,
    transfer: [ports.wrapped],
    resourceLimits: { youngHeapMb: SESSION_THREAD_YOUNG_HEAP_MB, ...limits },
  });
  const onEnd = (listener: (end: ShardThreadEnd) => void): void =>
    onExit(({ error }) =>
      listener(systemCodeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? { outOfMemory: inHand.key } : {}),
    );
  return { endpoint, onExit: onEnd, exit, serve: (services) => exposeObject(services, ports.exposed) };
}

/** Methods whose requests carry what an embedder wrote. */
const GROWING: ReadonlySet<keyof ShardMethods> = new Set([
  'session.send',
  'session.post',
  'session.spawn',
  'session.activate',
  'history.edit',
]);

/** The size of a request that is to stand in line; 0 for a small one. */
function largeBytes(request: unknown): number {
  const bytes = textBytes(request);
  return bytes < REQUEST_LARGE_BYTES_MIN ? 0 : bytes;
}

/** Neither done nor not done, as far as anybody can tell (L2). */
function unknownOutcome(cause: unknown): TroupeError {
  return new TroupeError(
    'internal',
    'the session thread died while this was under way; whether it took effect is unknown. Ask again with a key.',
    { cause, retryable: true },
  );
}

function inPlace(services: ReturnType<typeof createHostServices>): RemoteServices {
  return {
    run: async (run) => services.run(run),
    abort: async (id, reason) => services.abort(id, reason),
    generate: (call) => services.generate(call),
    abortModel: async (id) => services.abortModel(id),
    evaluateSystem: (name, session) => services.evaluateSystem(name, session),
    // As over a bridge: what the embedder's functions are shown is theirs.
    consult: (question) => services.consult(structuredClone(question)),
    lookUp: (question) => services.lookUp(question),
  };
}
