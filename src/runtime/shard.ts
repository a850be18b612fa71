/**
 * A shard: hosts the actors of some session trees over one journal and its pools. The same code runs in a session thread,
 * on the host thread, and in the simulator.
 *
 * Owns: the actors in memory, the order of turns, what waits for a flush, timers. Does not own: what a turn decides
 * (`src/session`), how models and tools run (the pools), what the host does with events.
 * Invariants:
 *  H1 a turn is one synchronous function; its records are one append (A3, A6);
 *  H2 nothing that a turn tells or starts leaves before its records are flushed, but a model call and a cancellation,
 *     which tell nobody anything (architecture §4); in `strict` a model call waits too (A2);
 *  H3 an actor whose turn threw, or whose flush failed, is dropped and read again from the log;
 *  H4 an idle session holds no timer and, beyond `HOT_SESSIONS_MAX`, no memory (A11).
 */
import type { AgentCatalog, SessionAgent } from '../../actors/agent-catalog.ts';
import { FamilySupervisor } from '../../actors/family-supervisor.ts';
import { ModelCaller } from '../../actors/model-caller.ts';
import type { ResultShelf } from '../../actors/result-shelf.ts';
import { isRunnable, isRunning, isWaiting, SessionActor } from '../../actors/session-actor.ts';
import { ToolRunner } from '../../actors/tool-runner.ts';
import { type ActorEffect, runTreeTurn, type TreeAccess } from '../../actors/tree-turn.ts';
import { HOT_SESSIONS_MAX, type Limits } from '../base/bounds.ts';
import type { Clock, Random } from '../base/clock.ts';
import { errorFromShape, errorShape, StoreFullError, TroupeError } from '../base/errors.ts';
import type { Settings } from '../base/settings.ts';
import type { EventBody, SessionEvent } from '../events/event.ts';
import type { Durability, Journal } from '../journal/journal.ts';
import type { ModelPool, ModelPoolListener } from '../models/pool.ts';
import type { Observer } from '../session/apply.ts';
import { turnName } from '../session/apply.ts';
import type { Environment, Input } from '../session/inputs.ts';
import { encodeTurn, type SessionRecord } from '../session/records.ts';
import { emptyState, type ReceiptState } from '../session/state.ts';
import type { ToolPool, ToolPoolListener } from '../tools/pool.ts';
import { SUBAGENT_TRUNCATION_REASON } from '../tools/truncation.ts';
import { Checkpointer } from './checkpointer.ts';
import { CommitQueue } from './commit-queue.ts';
import { CrashCounter } from './crash-counter.ts';
import type { Counters } from './metrics.ts';
import type { LogLine } from './protocol.ts';
import { readActor } from './session-reader.ts';
import { ShardWaiters } from './shard-waiters.ts';

/** What the shard tells its host. */
export interface ShardHost {
  events(events: readonly SessionEvent[]): void;
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  evaluateSystem(agent: string, sessionId: string): Promise<string>;
}

/** What a shard is made of. */
export interface ShardParts {
  readonly journal: Journal;
  readonly catalog: AgentCatalog;
  readonly settings: Settings;
  readonly limits: Limits;
  readonly durability: Durability;
  readonly clock: Clock;
  readonly random: Random;
  readonly shelf: ResultShelf;
  readonly counters: Counters;
  readonly host: ShardHost;
  readonly makeModelPool: (listener: ModelPoolListener) => ModelPool;
  readonly makeToolPool: (listener: ToolPoolListener) => ToolPool;
}

/** The requester of an input. Settled once, after the flush. */
export interface Reply {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** What one turn gathered for the time after its flush. */
interface Gathered {
  readonly events: SessionEvent[];
  readonly settled: { readonly session: string; readonly pendingId: number; readonly receipt: ReceiptState }[];
  readonly promoted: { readonly session: string; readonly pendingId: number; readonly receipt: ReceiptState }[];
}

/** Wait between attempts to write to a device that refused, in ms. */
const DEVICE_RETRY_MS = 1_000;
/** Interrupted sessions resumed in one turn of the loop at start, so that the first half-step need not wait for all. */
const RESUME_SLICE = 64;

/** See the head of the file. */
export class Shard {
  readonly parts: ShardParts;
  readonly waiters: ShardWaiters = new ShardWaiters();
  readonly #models: ModelCaller;
  readonly #tools: ToolRunner;
  readonly #modelPool: ModelPool;
  readonly #toolPool: ToolPool;
  readonly #commits: CommitQueue;
  readonly #checkpointer: Checkpointer;
  readonly #crashes: CrashCounter;
  readonly #families: FamilySupervisor;
  readonly #hot = new Map<string, SessionActor>();
  /** Quiet actors, least recently used first. */
  readonly #quiet = new Set<SessionActor>();
  readonly #live = new Set<SessionActor>();
  /** Sessions that wait for `limits.liveSessions`. */
  readonly #queued = new Set<string>();
  /** What is being read; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  #gathered: Gathered = { events: [], settled: [], promoted: [] };
  #degraded: StoreFullError | undefined;
  #resuming = 0;
  #isAdmitting = false;
  #isClosing = false;
  #isClosed = false;

  constructor(parts: ShardParts) {
    this.parts = parts;
    this.#modelPool = parts.makeModelPool({
      completed: (completions) => this.#models.completed(completions),
      delta: (id, _session, delta) => this.#models.delta(id, delta),
    });
    this.#toolPool = parts.makeToolPool({
      finished: (id, outcome) => this.#tools.finished(id, outcome),
      progress: (id, data) => this.#tools.progress(id, data),
    });
    const submit = (sessionId: string, input: Input): void => this.submit(sessionId, [input]);
    this.#models = new ModelCaller(this.#modelPool, {
      submit,
      settings: parts.settings,
      wantsDeltas: (id) => this.#isWatched(id),
      delta: (session, turn, delta) =>
        this.#tell(session, {
          type: delta.type === 'text' ? 'text.delta' : 'thinking.delta',
          text: delta.text,
          turn: turnName(turn),
        }),
    });
    this.#tools = new ToolRunner(this.#toolPool, {
      submit,
      settings: parts.settings,
      limits: parts.limits,
      shelf: parts.shelf,
      progress: (session, toolUseId, data) => {
        if (this.#isWatched(session)) this.#tell(session, { type: 'tool.progress', toolUseId, data });
      },
    });
    this.#commits = new CommitQueue(
      () => parts.journal.flushed(),
      (error) => this.#flushFailed(error),
    );
    this.#checkpointer = new Checkpointer(parts.journal, parts.clock);
    this.#crashes = new CrashCounter(() => parts.clock.monotonic());
    this.#families = new FamilySupervisor(() => parts.clock.monotonic());
  }

  // ---- sessions in memory -------------------------------------------------------------------------------------------

  /** The actor of a session, read from the log if need be; undefined when there is no such session. */
  find(sessionId: string): SessionActor | undefined {
    const hot = this.#hot.get(sessionId);
    if (hot !== undefined) {
      // Used just now: last to leave.
      if (this.#quiet.delete(hot)) this.#quiet.add(hot);
      return hot;
    }
    const key = this.parts.journal.keyOf(sessionId);
    if (key === undefined) return undefined;
    const actor = readActor(this.parts.journal, sessionId, key);
    this.#hot.set(sessionId, actor);
    this.#noteQuiet(actor);
    return actor;
  }

  #create(sessionId: string): SessionActor {
    const key = this.parts.journal.intern(sessionId);
    const actor = new SessionActor(sessionId, key, emptyState(sessionId), { turns: 0, position: 0 });
    this.#hot.set(sessionId, actor);
    return actor;
  }

  /** The actor of a session, if it is in memory. */
  inMemory(sessionId: string): SessionActor | undefined {
    return this.#hot.get(sessionId);
  }

  /** Closed: nothing will happen any more. */
  get isOver(): boolean {
    return this.#isClosed;
  }

  agentOf(actor: SessionActor): SessionAgent | undefined {
    return this.parts.catalog.of(actor.state);
  }

  isQueued(sessionId: string): boolean {
    return this.#queued.has(sessionId);
  }

  #noteQuiet(actor: SessionActor): void {
    this.#quiet.delete(actor);
    if (actor.isQuiet) this.#quiet.add(actor);
  }

  /** Never within a turn: an actor the turn has in hand must not be read a second time. */
  #passivateSome(): void {
    while (this.#quiet.size > HOT_SESSIONS_MAX) {
      const [oldest] = this.#quiet;
      if (oldest === undefined) return;
      this.#passivate(oldest);
    }
  }

  /** Takes an idle actor out of memory (A11). Its head is written with the next checkpoint. */
  #passivate(actor: SessionActor): void {
    this.#quiet.delete(actor);
    this.#hot.delete(actor.id);
    this.#models.forget(actor.id);
    this.#checkpointer.passivated(actor);
    this.#clearTimer(actor);
  }

  // ---- turns --------------------------------------------------------------------------------------------------------

  /**
   * Gives inputs to a session, in one turn. Without `agent` an unknown session is refused; with it, it is made. The reply
   * is settled after the flush.
   */
  submit(sessionId: string, inputs: readonly Input[], reply?: Reply, agent?: string): void {
    if (this.#degraded !== undefined || this.#isClosed) {
      reply?.reject(this.#degraded ?? new TroupeError('cancelled', 'the runtime is closed'));
      return;
    }
    let actor = this.find(sessionId);
    if (actor === undefined && agent === undefined) {
      // A completion for a session that was deleted, or a question about one that never was.
      this.parts.counters.add('staleCompletions');
      reply?.reject(new TroupeError('unknown_session', `there is no session ${JSON.stringify(sessionId)}`));
      return;
    }
    const isNew = actor === undefined;
    actor ??= this.#create(sessionId);
    this.#turn(actor, isNew && agent !== undefined ? [{ type: 'create', agent }, ...inputs] : inputs, reply);
  }

  readonly #access: TreeAccess = {
    find: (sessionId) => this.find(sessionId),
    create: (sessionId) => this.#create(sessionId),
    environment: (actor) => this.#environment(actor),
    observer: (actor) => this.#observer(actor),
    supervise: (parent, child, error) => {
      const options = this.agentOf(parent)?.supervision ?? { onChildFailure: 'report' };
      if (error === undefined) return this.#families.due(parent, child.id, options);
      return this.#families.failed(parent, child.id, error, options);
    },
    shorten: (text) =>
      this.parts.shelf.shorten(text, {
        charactersMax: this.parts.settings.tools.maxSubagentResponseChars,
        bytesMax: this.parts.limits.toolResultBytes,
        reason: SUBAGENT_TRUNCATION_REASON,
      }),
  };

  #turn(actor: SessionActor, inputs: readonly Input[], reply: Reply | undefined): void {
    const touched = new Set<SessionActor>();
    const gathered: Gathered = { events: [], settled: [], promoted: [] };
    this.#gathered = gathered;
    let outcome: ReturnType<typeof runTreeTurn>;
    try {
      outcome = runTreeTurn(this.#access, actor, inputs, touched);
    } catch (error) {
      this.#turnThrew(touched, error, reply);
      return;
    }
    this.parts.counters.add('turns');
    this.#journal(outcome.writes);
    this.#watchChildren(touched, gathered);
    const late: ActorEffect[] = [];
    for (const each of outcome.effects) if (!this.#runEarly(each)) late.push(each);
    for (const each of touched) this.#afterTurn(each);
    this.#commit([...outcome.writes.keys()], gathered, late, reply);
    this.#admit();
    this.#passivateSome();
  }

  #journal(writes: ReadonlyMap<SessionActor, readonly SessionRecord[]>): void {
    if (writes.size === 0) return;
    const at = this.#now;
    const entries = [...writes].map(([actor, records]) => ({ key: actor.key, data: encodeTurn({ at, records }) }));
    const position = this.parts.journal.append(entries);
    for (const actor of writes.keys()) {
      actor.position = position;
      actor.unflushed += 1;
      actor.turnsSinceSnapshot += 1;
      this.#checkpointer.changed(actor);
    }
    this.parts.counters.add('journalTurns');
  }

  /** Puts what the turn tells and starts behind its flush, or does it at once when nothing is to be flushed. */
  #commit(
    written: readonly SessionActor[],
    gathered: Gathered,
    late: readonly ActorEffect[],
    reply: Reply | undefined,
  ): void {
    const release = (): void => {
      for (const actor of written) {
        actor.unflushed -= 1;
        if (this.#hot.get(actor.id) === actor) this.#noteQuiet(actor);
      }
      this.#release(gathered, late, reply);
    };
    const hasNothing = late.length === 0 && reply === undefined && gathered.events.length === 0;
    if (written.length === 0 && (hasNothing || this.#commits.isEmpty)) {
      release();
      return;
    }
    this.#commits.add({ release, refuse: (error) => reply?.reject(storeError(error)) });
  }

  #release(gathered: Gathered, late: readonly ActorEffect[], reply: Reply | undefined): void {
    let answered = false;
    for (const { actor, effect } of late) {
      switch (effect.type) {
        case 'runTool': {
          const agent = this.agentOf(actor);
          if (agent !== undefined && this.#hot.get(actor.id) === actor && actor.state.openCalls.has(effect.callId)) {
            this.parts.counters.add('toolCalls');
            this.#tools.start(actor.id, agent, effect);
          }
          break;
        }
        case 'callModel':
          this.#callModel(actor, effect.halfStep, effect.attempt);
          break;
        case 'accepted':
          reply?.resolve({ pendingId: effect.pendingId, seq: effect.seq, duplicate: effect.duplicate });
          answered = true;
          break;
        case 'spawned':
          reply?.resolve({ child: effect.child, name: effect.name, duplicate: effect.duplicate });
          answered = true;
          break;
        case 'result':
          reply?.resolve(effect.value);
          answered = true;
          break;
        case 'refused':
          reply?.reject(errorFromShape(effect.error));
          answered = true;
          break;
        default:
          break;
      }
    }
    if (!answered) reply?.resolve(undefined);
    this.waiters.promoted(gathered.promoted);
    this.waiters.settled(gathered.settled);
    if (gathered.events.length > 0) this.parts.host.events(gathered.events);
    this.#checkDrained();
  }

  /** Effects that tell nobody anything run with the turn (H2). */
  #runEarly({ actor, effect }: ActorEffect): boolean {
    switch (effect.type) {
      case 'callModel':
        if (this.parts.durability === 'strict') return false;
        this.#callModel(actor, effect.halfStep, effect.attempt);
        return true;
      case 'cancelModel':
        this.#models.cancel(actor.id);
        return true;
      case 'cancelTool':
        this.#tools.cancel(actor.id, effect.callId, effect.reason);
        return true;
      case 'retryLater':
        this.#retryLater(actor, effect.halfStep, effect.attempt, effect.delayMs);
        return true;
      case 'restartTimer':
        this.#restartLater(actor, effect.delayMs);
        return true;
      case 'evaluateSystem':
        void this.#evaluateSystem(actor, effect.epoch);
        return true;
      case 'interruptChildren':
        this.#interruptChildren(actor, effect.reason);
        return true;
      case 'stale':
        this.parts.counters.add('staleCompletions');
        return true;
      default:
        return false;
    }
  }

  #callModel(actor: SessionActor, halfStep: number, attempt: number): void {
    const agent = this.agentOf(actor);
    // Between the turn and its flush the call may have been interrupted, or the actor dropped.
    if (agent === undefined || this.#hot.get(actor.id) !== actor || actor.state.current?.halfStep !== halfStep) return;
    this.parts.counters.add('modelCalls');
    if (attempt === 1) this.parts.counters.add('halfSteps');
    this.#models.call(actor, agent, halfStep, attempt);
  }

  #retryLater(actor: SessionActor, halfStep: number, attempt: number, delayMs: number): void {
    this.#clearTimer(actor);
    actor.retryTimer = this.parts.clock.setTimer(() => {
      actor.retryTimer = undefined;
      if (this.#hot.get(actor.id) === actor) this.submit(actor.id, [{ type: 'retryDue', halfStep, attempt }]);
    }, delayMs);
  }

  #restartLater(actor: SessionActor, delayMs: number): void {
    const { clock } = this.parts;
    this.#clearRestart(actor);
    actor.restartTimer = clock.setTimer(() => {
      if (this.#hot.get(actor.id) === actor) this.submit(actor.id, [{ type: 'restartDue' }]);
    }, delayMs);
  }

  async #evaluateSystem(actor: SessionActor, epoch: number): Promise<void> {
    try {
      const text = await this.parts.host.evaluateSystem(actor.state.agent ?? '', actor.id);
      this.submit(actor.id, [{ type: 'systemEvaluated', epoch, text }]);
    } catch (error) {
      this.submit(actor.id, [{ type: 'systemFailed', epoch, error: errorShape(error) }]);
    }
  }

  /** Tells every working descendant; what is idle keeps no flag (F070). */
  #interruptChildren(actor: SessionActor, reason: string | undefined): void {
    const working = [...this.#live].filter((other) => other !== actor && this.#isDescendant(other, actor.id));
    for (const child of working) {
      if (child.state.state === 'idle') continue;
      this.submit(child.id, [{ type: 'interrupt', ...(reason === undefined ? {} : { reason }) }]);
    }
  }

  #isDescendant(actor: SessionActor, ancestor: string): boolean {
    let parent = actor.state.parent;
    while (parent !== undefined) {
      if (parent === ancestor) return true;
      parent = this.find(parent)?.state.parent;
    }
    return false;
  }

  // ---- what surrounds a turn ----------------------------------------------------------------------------------------

  #now = 0;

  #environment(actor: SessionActor): Environment {
    this.#now = this.parts.clock.now();
    const agent = this.agentOf(actor);
    const { settings, limits, catalog, journal } = this.parts;
    return {
      now: this.#now,
      random: this.parts.random(),
      limits,
      settings,
      agent: agent?.facts ?? catalog.missing(actor.state.agent ?? ''),
      toolNamesOf: (name) => catalog.toolNamesOf(name),
      admits:
        agent !== undefined &&
        !this.#isClosing &&
        (this.#live.has(actor) || this.#live.size < limits.liveSessions || actor.state.state === 'executing'),
      isSupervised: () => this.#isSupervised(actor),
      exists: (id) => journal.keyOf(id) !== undefined,
    };
  }

  #isSupervised(actor: SessionActor): boolean {
    const parent = actor.state.parent === undefined ? undefined : this.find(actor.state.parent);
    const supervision = parent === undefined ? undefined : this.agentOf(parent)?.supervision;
    return supervision !== undefined && supervision.onChildFailure !== 'report';
  }

  #observer(actor: SessionActor): Observer {
    const session = actor.id;
    const gathered = this.#gathered;
    const isWatched = this.#isWatched(session);
    const receiptOf = (pendingId: number): ReceiptState =>
      actor.state.receipts.get(pendingId) ?? { status: 'accepted' };
    return {
      ...(isWatched
        ? {
            event: (body: EventBody, seq: number) =>
              void gathered.events.push({ session, at: this.#now, seq, ...body }),
          }
        : {}),
      settled: (pendingId, receipt) => {
        if (this.waiters.has(session)) gathered.settled.push({ session, pendingId, receipt });
      },
      promoted: (pendingId) => {
        if (this.waiters.has(session)) gathered.promoted.push({ session, pendingId, receipt: receiptOf(pendingId) });
      },
    };
  }

  #afterTurn(actor: SessionActor): void {
    const { state } = actor;
    if (isRunning(state)) this.#live.add(actor);
    else this.#live.delete(actor);
    if (actor.retryTimer !== undefined && state.current?.retryAt === undefined) this.#clearTimer(actor);
    if (actor.restartTimer !== undefined && state.restartAt === undefined) this.#clearRestart(actor);
    // An idle session that could start a turn, and did not, was not admitted.
    if (isWaiting(state) && this.agentOf(actor) !== undefined) this.#queued.add(actor.id);
    else this.#queued.delete(actor.id);
    if (state.exit !== undefined) this.waiters.exited(actor.id);
    this.#noteQuiet(actor);
    this.parts.counters.set('sessionsHot', this.#hot.size);
    this.parts.counters.set('sessionsLive', this.#live.size);
    this.parts.counters.set('sessionsQueued', this.#queued.size);
    this.parts.counters.set('modelCallsRunning', this.#models.running);
    this.parts.counters.set('toolCallsRunning', this.#tools.running);
  }

  /** Starts sessions that waited for a place, oldest first. */
  #admit(): void {
    if (this.#isAdmitting || this.#queued.size === 0 || this.#isClosing) return;
    this.#isAdmitting = true;
    while (this.#live.size < this.parts.limits.liveSessions) {
      const [next] = this.#queued;
      if (next === undefined) break;
      this.#queued.delete(next);
      this.submit(next, [{ type: 'wake' }]);
    }
    this.#isAdmitting = false;
  }

  #clearTimer(actor: SessionActor): void {
    if (actor.retryTimer !== undefined) this.parts.clock.clearTimer(actor.retryTimer);
    actor.retryTimer = undefined;
  }

  #clearRestart(actor: SessionActor): void {
    if (actor.restartTimer !== undefined) this.parts.clock.clearTimer(actor.restartTimer);
    actor.restartTimer = undefined;
  }

  // ---- subscribers --------------------------------------------------------------------------------------------------

  /** Starts or stops telling of a session, or of all (`undefined`). */
  watch(sessionId: string | undefined, on: boolean): void {
    if (on) this.#watched.add(sessionId);
    else this.#watched.delete(sessionId);
  }

  #isWatched(sessionId: string): boolean {
    return this.#watched.has(sessionId) || this.#watched.has(undefined);
  }

  /** An ephemeral event, at once. */
  #tell(session: string, body: EventBody): void {
    this.parts.host.events([{ session, at: this.parts.clock.now(), ...body }]);
  }

  /** What a watched parent sees of its children, without a record for each of their steps. */
  #watchChildren(touched: ReadonlySet<SessionActor>, gathered: Gathered): void {
    const at = this.#now;
    for (const actor of touched) {
      const { state } = actor;
      if (state.parent === undefined || !this.#isWatched(state.parent)) continue;
      if (actor.toldState === state.state) continue;
      actor.toldState = state.state;
      const name = state.name === undefined ? {} : { name: state.name };
      gathered.events.push({
        session: state.parent,
        at,
        type: 'child.state',
        child: actor.id,
        state: state.state,
        ...name,
      });
    }
    for (const event of [...gathered.events]) {
      if (event.type !== 'child.spawned') continue;
      const parent = this.#hot.get(event.session);
      if (parent !== undefined)
        gathered.events.push(childrenUpdated(parent, at, (id) => this.#hot.get(id)?.state.state));
    }
  }

  // ---- failure ------------------------------------------------------------------------------------------------------

  /** A broken invariant (R22): nothing of the turn was journalled; the actors are read again and go on. */
  #turnThrew(touched: ReadonlySet<SessionActor>, thrown: unknown, reply: Reply | undefined): void {
    const fault = new TroupeError('internal', 'a session turn failed', { cause: thrown });
    reply?.reject(fault);
    for (const actor of touched) {
      this.#drop(actor);
      this.parts.host.log({
        level: 'error',
        message: 'a session turn failed; the session is read again from its log',
        session: actor.id,
        error: errorShape(thrown),
      });
      if (this.parts.journal.keyOf(actor.id) === undefined) continue;
      // A session that fails again and again is left alone until the store is opened again, or it is sent something.
      if (this.#crashes.count(actor.id)) setImmediate(() => this.submit(actor.id, [{ type: 'recover' }]));
    }
  }

  /** Forgets an actor whose state is not that of the log. What runs for it is given up. */
  #drop(actor: SessionActor): void {
    this.#hot.delete(actor.id);
    this.#quiet.delete(actor);
    this.#live.delete(actor);
    this.#queued.delete(actor.id);
    this.#clearTimer(actor);
    this.#clearRestart(actor);
    this.#families.forget(actor.id);
    this.#models.forget(actor.id);
    this.#tools.forget(actor.id);
    this.#checkpointer.forget(actor);
  }

  #flushFailed(error: Error): void {
    const degraded = storeError(error);
    this.#degraded = degraded;
    this.parts.host.log({ level: 'error', message: 'the store refuses writes', error: errorShape(degraded) });
    this.parts.host.degraded(degraded);
    for (const actor of [...this.#hot.values()]) this.#drop(actor);
    this.parts.clock.setTimer(() => void this.#recoverStore(), DEVICE_RETRY_MS);
  }

  async #recoverStore(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.parts.journal.recover();
    } catch {
      this.parts.clock.setTimer(() => void this.#recoverStore(), DEVICE_RETRY_MS);
      return;
    }
    this.#degraded = undefined;
    this.parts.host.degraded(undefined);
    this.resumeInterrupted();
  }

  // ---- life ---------------------------------------------------------------------------------------------------------

  /** Goes on with everything that was interrupted (A10), a slice a turn of the loop. */
  resumeInterrupted(): void {
    const { journal } = this.parts;
    const keys = new Set<number>(journal.runnable());
    for (const entry of journal.tail(journal.checkpointed())) keys.add(entry.key);
    const names = [...keys].map((key) => journal.nameOf(key)).filter((name) => name !== undefined);
    this.#resuming = names.length;
    this.#resumeSlice(names, 0);
  }

  #resumeSlice(names: readonly string[], from: number): void {
    if (this.#isClosing) return;
    for (const name of names.slice(from, from + RESUME_SLICE)) {
      this.#resuming -= 1;
      const actor = this.find(name);
      if (actor === undefined) continue;
      this.#checkpointer.changed(actor);
      if (isRunnable(actor.state)) this.submit(name, [{ type: 'recover' }]);
    }
    this.#passivateSome();
    if (from + RESUME_SLICE < names.length) setImmediate(() => this.#resumeSlice(names, from + RESUME_SLICE));
    else this.#checkDrained();
  }

  /** True when nothing runs, nothing waits to run, and nothing waits for the disk. */
  get isDrained(): boolean {
    return this.#live.size === 0 && this.#queued.size === 0 && this.#resuming === 0;
  }

  #checkDrained(): void {
    if (this.isDrained) this.waiters.drained();
  }

  /** Runs `work` once everything journalled so far is durable: what is read is told only then (A2). */
  afterCommit(work: () => void, refuse: (error: Error) => void): void {
    if (this.#commits.isEmpty) work();
    else this.#commits.add({ release: work, refuse: (error) => refuse(storeError(error)) });
  }

  /** Lifts the stop after a failed authentication from every session that has one. */
  resumeBlocked(): void {
    for (const actor of [...this.#hot.values()]) {
      if (actor.state.blocked !== undefined) this.submit(actor.id, [{ type: 'resume' }]);
    }
    for (const [name] of this.parts.journal.names({})) {
      if (this.#hot.has(name)) continue;
      const actor = this.find(name);
      if (actor?.state.blocked !== undefined) this.submit(name, [{ type: 'resume' }]);
    }
  }

  /** Deletes a session and its descendants; false when there is none. Resolves when it is durable. */
  delete(sessionId: string, reply: Reply): void {
    const actor = this.find(sessionId);
    if (actor === undefined) {
      reply.resolve(false);
      return;
    }
    const parent = actor.state.parent;
    const subtree = this.#subtree(actor);
    if (parent !== undefined && actor.state.exit === undefined && this.find(parent) !== undefined) {
      this.submit(parent, [{ type: 'childExited', child: sessionId, reason: 'cancelled' }]);
    }
    for (const each of subtree) {
      this.#drop(each);
      this.waiters.deleted(each.id);
    }
    this.parts.journal.remove(subtree.map((each) => each.key));
    this.#commits.add({ release: () => reply.resolve(true), refuse: (error) => reply.reject(storeError(error)) });
    this.#admit();
  }

  #subtree(root: SessionActor): readonly SessionActor[] {
    const found: SessionActor[] = [root];
    for (let index = 0; index < found.length; index += 1) {
      for (const id of found[index]?.state.children.keys() ?? []) {
        const child = this.find(id);
        if (child !== undefined) found.push(child);
      }
    }
    return found;
  }

  /**
   * Stops intake, waits up to `deadlineMs` for running half-steps, gives up the rest (they go on at the next open), writes
   * heads and closes.
   */
  async close(deadlineMs: number): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosing = true;
    await this.#halfStepsDone(deadlineMs);
    this.#isClosed = true;
    for (const actor of this.#hot.values()) {
      this.#clearTimer(actor);
      this.#clearRestart(actor);
    }
    await Promise.all([this.#modelPool.close(), this.#toolPool.close()]);
    this.#checkpointer.close(this.#hot.values());
    this.waiters.closed();
    await this.parts.journal.close();
  }

  /** Resolves when no model call and no tool is out, or at the deadline. While closing, no new turn is admitted. */
  #halfStepsDone(deadlineMs: number): Promise<void> {
    const { clock } = this.parts;
    const deadline = clock.monotonic() + deadlineMs;
    return new Promise((resolve) => {
      const look = (): void => {
        const isDone = this.#models.running === 0 && this.#tools.running === 0 && this.#commits.isEmpty;
        if (isDone || clock.monotonic() >= deadline) resolve();
        else clock.setTimer(look, Math.min(CLOSE_LOOK_MS, deadlineMs));
      };
      look();
    });
  }
}

/** Milliseconds between looks at what still runs, while closing. */
const CLOSE_LOOK_MS = 5;
/** Children listed in one `children.updated` event; a longer list is the business of `sessions.list`. */
const CHILDREN_LISTED_MAX = 100;

function childrenUpdated(parent: SessionActor, at: number, stateOf: (id: string) => string | undefined): SessionEvent {
  const all = [...parent.state.children.values()];
  const children = all.slice(-CHILDREN_LISTED_MAX).map(({ id, name }) => ({ id, name, state: stateOf(id) ?? 'idle' }));
  return { session: parent.id, at, type: 'children.updated', children };
}

function storeError(error: Error): StoreFullError {
  if (error instanceof StoreFullError) return error;
  return new StoreFullError('the store refused a write', { cause: error });
}
