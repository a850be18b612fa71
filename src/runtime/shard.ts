/**
 * A shard: hosts the actors of some session trees over one journal and its pools. The same code runs in a session thread,
 * on the host thread, and in the simulator.
 *
 * Owns: the actors in memory, the order of turns, what waits for a flush, timers. Does not own: what a turn decides
 * (`src/session`), how models and tools run (the pools), what the host does with events.
 * Invariants:
 *  H1 a turn is one synchronous function; its records are one append (A3, A6);
 *  H2 nothing that a turn tells or starts leaves before its records are flushed, but a model call, a call of a tool that is
 *     declared `pure`, and a cancellation, which tell nobody anything (architecture §4); in `strict` the calls wait too (A2);
 *  H3 an actor whose turn threw, or whose flush failed, is dropped and read again from the log;
 *  H4 an idle session holds no timer and, beyond `ShardBounds.hotSessions`, no memory (A11).
 */
import type { AgentCatalog, SessionAgent } from '../../actors/agent-catalog.ts';
import { FamilySupervisor } from '../../actors/family-supervisor.ts';
import { ModelCaller } from '../../actors/model-caller.ts';
import type { MuseQuestion, MuseWord } from '../../actors/muse-sources.ts';
import { Muses } from '../../actors/muses.ts';
import type { Shelf } from '../../actors/result-shelf.ts';
import { isRunnable, isRunning, isWaiting, SessionActor } from '../../actors/session-actor.ts';
import { ToolRunner, type ToolStart } from '../../actors/tool-runner.ts';
import {
  type ActorEffect,
  type ActorWrite,
  runTreeTurn,
  type TreeAccess,
  type TreeTurnOutcome,
} from '../../actors/tree-turn.ts';
import { CHILDREN_LISTED_MAX, type Limits, RUN_AHEAD_TURNS_MAX, type ShardBounds } from '../base/bounds.ts';
import type { Clock, Random, Soon } from '../base/clock.ts';
import { errorFromShape, errorShape, StoreFullError, TroupeError } from '../base/errors.ts';
import { NO_USAGE } from '../base/messages.ts';
import type { Settings } from '../base/settings.ts';
import type { EventBody, SessionEvent } from '../events/event.ts';
import type { Durability, Head, Journal, SessionKey, TurnEntry } from '../journal/journal.ts';
import type { ModelPool, ModelPoolListener } from '../models/pool.ts';
import type { Observer } from '../session/apply.ts';
import { turnName } from '../session/apply.ts';
import { isMuseDue } from '../session/enrichment.ts';
import { historyMessage } from '../session/history/history-form.ts';
import type { Environment, Input, MuseName } from '../session/inputs.ts';
import { encodeTurn } from '../session/records.ts';
import { emptyState, type ReceiptState } from '../session/state.ts';
import type { ToolPool, ToolPoolListener } from '../tools/pool.ts';
import { SUBAGENT_TRUNCATION_REASON } from '../tools/truncation.ts';
import { Checkpointer } from './checkpointer.ts';
import { type CommitItem, CommitQueue } from './commit-queue.ts';
import { CrashCounter } from './crash-counter.ts';
import { EditGate } from './edit-gate.ts';
import { storeRoots } from './fork-roots.ts';
import { isHeadBlocked } from './head.ts';
import { type Asking, answerOf, failureOf, isAsking, questionOf } from './host-asking.ts';
import type { HostQuestion, HostWord } from './host-decisions.ts';
import type { Counters } from './metrics.ts';
import type { LogLine, SaidNote } from './protocol.ts';
import { QuietSessions } from './quiet-sessions.ts';
import { readActor } from './session-reader.ts';
import { endOf, ShardWaiters } from './shard-waiters.ts';
import { TurnEnvironment } from './turn-environment.ts';
import { TurnGathering } from './turn-gathering.ts';
import { WaitingLine } from './waiting-line.ts';

/** What the shard tells its host. */
export interface ShardHost {
  events(events: readonly SessionEvent[]): void;
  /** The durable end of a receipt that is followed; undefined: it must be asked for. */
  settled(follow: number, state: ReceiptState | undefined): void;
  /** What was said in a session that is listened to. */
  said?(note: SaidNote): void;
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  evaluateSystem(agent: string, sessionId: string): Promise<string>;
  consult(question: HostQuestion): Promise<HostWord>;
  lookUp(question: MuseQuestion): Promise<MuseWord>;
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
  readonly soon: Soon;
  readonly bounds: ShardBounds;
  readonly shelf: Shelf;
  readonly counters: Counters;
  readonly host: ShardHost;
  readonly makeModelPool: (listener: ModelPoolListener) => ModelPool;
  readonly makeToolPool: (listener: ToolPoolListener) => ToolPool;
}

/** The requester of an input. Settled once, after the flush. */
export interface Reply {
  /** What is awaited comes later: the flush need not be hurried for this (Q5 of the commit queue). */
  readonly isPatient?: boolean;
  /** Runs within the turn that accepted a message, before anything is durable; not for one that was accepted before. */
  readonly onAccepted?: (pendingId: number) => void;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Wait between attempts to write to a device that refused, in ms. */
const DEVICE_RETRY_MS = 1_000;
/** Interrupted sessions resumed in one turn of the loop at start, so that the first half-step need not wait for all. */
const RESUME_SLICE = 64;

/** See the head of the file. */
export class Shard {
  readonly parts: ShardParts;
  readonly waiters: ShardWaiters = new ShardWaiters();
  /** History operations that wait for the answer of a model call. */
  readonly edits: EditGate = new EditGate();
  readonly #models: ModelCaller;
  readonly #tools: ToolRunner;
  readonly #muses: Muses;
  readonly #modelPool: ModelPool;
  readonly #toolPool: ToolPool;
  readonly #commits: CommitQueue;
  readonly #checkpointer: Checkpointer;
  readonly #crashes: CrashCounter;
  readonly #families: FamilySupervisor;
  readonly #hot = new Map<string, SessionActor>();
  readonly #quiet: QuietSessions;
  readonly #live = new Set<SessionActor>();
  /** Sessions that wait for `limits.liveSessions`. */
  readonly #queued = new WaitingLine();
  /** What is being read; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages somebody listens to (`history.said`). */
  readonly #listened = new Set<string>();
  /** Kept in memory by transient messages. */
  readonly #transient = new Set<SessionActor>();
  /** Sessions whose listeners on the host are waited for. */
  readonly #gated = new Set<string>();
  #gathered = new TurnGathering();
  /** Numbers the turns. */
  #lastTurn = 0;
  readonly #turnEnvironment: TurnEnvironment;
  /** The session of the step under way. */
  #stepping: SessionActor | undefined;
  /** Sessions as a crash left them: what was out for them is not out any more, and no turn has said so yet. */
  readonly #interrupted = new Set<SessionKey>();
  /** Interrupted sessions whose resuming is under way; `resumed()` waits for them. */
  #resuming = 0;
  #onResumed: (() => void)[] = [];
  #degraded: StoreFullError | undefined;
  /** While the store refuses: sessions that were dropped, whose heads are as old as the last checkpoint, or older. */
  #staleHeads: ReadonlySet<SessionKey> = new Set();
  #recoveryTimer: unknown;
  /** Looks whether nothing is out any more; set while closing. */
  #onStill: (() => void) | undefined;
  #isAdmitting = false;
  #isClosing = false;
  #isClosed = false;

  constructor(parts: ShardParts) {
    this.parts = parts;
    this.#modelPool = parts.makeModelPool({
      completed: (completions) => {
        this.#models.completed(completions);
        this.#muses.completed(completions);
        this.#onStill?.();
      },
      delta: (id, _session, delta) => this.#models.delta(id, delta),
    });
    this.#toolPool = parts.makeToolPool({
      finished: (id, outcome) => {
        this.#tools.finished(id, outcome);
        this.#onStill?.();
      },
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
    this.#muses = new Muses({
      pool: this.#modelPool,
      settings: parts.settings,
      limits: parts.limits,
      clock: parts.clock,
      random: parts.random,
      shelf: parts.shelf,
      callId: () => this.#models.takeId(),
      called: () => parts.counters.add('modelCalls'),
      lookUp: (question) => parts.host.lookUp(question),
      submit,
      act: (id, input) => new Promise((resolve, reject) => this.submit(id, [input], { resolve, reject })),
      siblingsOf: (actor) => this.#siblingsOf(actor),
      failed: (session, message, error) => parts.host.log({ level: 'warn', message, session, error }),
    });
    this.#commits = new CommitQueue({
      flushed: async () => {
        await parts.journal.flushed();
        parts.counters.set('flushes', parts.journal.statistics().flushes);
      },
      failed: (error) => this.#flushFailed(error),
      threw: (thrown) => this.#logThrown('what followed a flush failed', thrown),
      emptied: () => this.#onStill?.(),
      soon: parts.soon,
      clock: parts.clock,
    });
    this.#quiet = new QuietSessions(parts.clock, parts.bounds.hotSessions, (actor) => this.#passivate(actor));
    const { settings, limits, catalog, journal } = parts;
    this.#turnEnvironment = new TurnEnvironment(
      {
        limits,
        settings,
        toolNamesOf: (name) => catalog.toolNamesOf(name),
        exists: (id) => journal.keyOf(id) !== undefined,
        openedAt: parts.clock.now(),
        isSupervised: () => this.#stepping !== undefined && this.#isSupervised(this.#stepping),
        stateOf: (id) => this.find(id)?.state,
      },
      catalog.missing(''),
    );
    this.#checkpointer = new Checkpointer(parts.journal, parts.clock, parts.bounds);
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
    // A name without a log: the turn that was to make the session was lost.
    if (actor.state.agent === undefined) return undefined;
    this.#hot.set(sessionId, actor);
    this.parts.counters.set('sessionsHot', this.#hot.size);
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

  /** The head of a session that is not in memory; undefined where its log must be read. */
  headOf(key: SessionKey): Head | undefined {
    if (this.#staleHeads.has(key)) return undefined;
    return this.#checkpointer.pending(key) ?? this.parts.journal.head(key);
  }

  /** Takes messages no more. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Closed: nothing will happen any more. */
  get isOver(): boolean {
    return this.#isClosed;
  }

  agentOf(actor: SessionActor): SessionAgent | undefined {
    // Agent and grants of a session never change, so neither does this.
    actor.agent ??= this.parts.catalog.of(actor.state);
    return actor.agent;
  }

  isQueued(sessionId: string): boolean {
    return this.#queued.has(sessionId);
  }

  #noteQuiet(actor: SessionActor): void {
    if (actor.isQuiet) this.#quiet.add(actor);
    else this.#quiet.delete(actor);
  }

  /** Holds memory to its bound (H4). Never within a turn: an actor the turn has in hand must not be read a second time. */
  passivateSome(): void {
    this.#quiet.leaveSome();
  }

  /** Takes an idle actor out of memory (A11). Its head is written with the next checkpoint. */
  #passivate(actor: SessionActor): void {
    this.#hot.delete(actor.id);
    this.#models.forget(actor.id);
    this.#checkpointer.passivated(actor);
    this.#clearTimer(actor);
    this.parts.counters.set('sessionsHot', this.#hot.size);
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
    // What takes a turn is listed anew behind it: only a reader's look counts as a use by itself.
    let actor = this.#hot.get(sessionId) ?? this.find(sessionId);
    if (actor === undefined && agent === undefined) {
      // A completion for a session that was deleted, or a question about one that never was.
      this.parts.counters.add('staleCompletions');
      reply?.reject(new TroupeError('unknown_session', `there is no session ${JSON.stringify(sessionId)}`));
      return;
    }
    if (actor !== undefined) {
      this.#turn(actor, this.#takeInterrupted(actor) ? [{ type: 'recover' }, ...inputs] : inputs, reply);
      return;
    }
    actor = this.#create(sessionId);
    this.#turn(actor, agent === undefined ? inputs : [{ type: 'create', agent }, ...inputs], reply);
  }

  /** Makes a session whose log begins with what these inputs write; one that is there already takes them as any other. */
  beget(sessionId: string, inputs: readonly Input[], reply: Reply): void {
    if (this.#degraded !== undefined || this.#isClosed) {
      reply.reject(this.#degraded ?? new TroupeError('cancelled', 'the runtime is closed'));
      return;
    }
    this.#turn(this.find(sessionId) ?? this.#create(sessionId), inputs, reply);
  }

  /** True once for a session a crash interrupted: its next turn begins with its recovery, whatever else it is about. */
  #takeInterrupted(actor: SessionActor): boolean {
    if (!this.#interrupted.has(actor.key)) return false;
    // Without its agent it is left as it is: whoever opens the store with the agent goes on with it.
    if (this.agentOf(actor) === undefined) return false;
    this.#interrupted.delete(actor.key);
    const isOut = this.#models.isOut(actor.id) || this.#tools.isOut(actor.id) || this.#muses.isOut(actor.id);
    return isRunnable(actor.state) && !isOut;
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
    const touched: SessionActor[] = [];
    const gathered = new TurnGathering();
    this.#gathered = gathered;
    this.#lastTurn += 1;
    // One time for the whole turn: it is journalled with it, and a replay must not differ.
    this.#now = this.parts.clock.now();
    let outcome: TreeTurnOutcome;
    try {
      outcome = runTreeTurn(this.#access, actor, inputs, touched, this.#lastTurn);
    } catch (error) {
      this.#turnThrew(touched, error, reply);
      return;
    }
    const { writes, effects } = outcome;
    this.parts.counters.add('turns');
    this.#journal(writes);
    this.#watchChildren(touched, gathered);
    const late: ActorEffect[] = [];
    let stopsChildren = false;
    for (const each of effects) {
      if (!this.#runEarly(each)) late.push(each);
      if (each.effect.type === 'interruptChildren') stopsChildren = true;
      else if (each.effect.type === 'accepted' && !each.effect.duplicate) reply?.onAccepted?.(each.effect.pendingId);
    }
    for (const each of touched) this.#afterTurn(each);
    this.#commit(writes, gathered, late, reply);
    // Only now: these are turns of their own, and may tell the sessions of this one, whose events come first.
    if (stopsChildren) this.#interruptChildrenOf(effects);
    for (const each of touched) this.#releaseEdits(each);
    if (this.#interrupted.size > 0) {
      for (const each of touched) if (this.#interrupted.has(each.key)) this.submit(each.id, []);
    }
    this.#admit();
    this.passivateSome();
    this.#gauge();
  }

  /** A message boundary: what waited for it is done, each in a turn of its own, before the session claims again. */
  #releaseEdits(actor: SessionActor): void {
    if (!this.edits.holds(actor)) return;
    const isDone = this.edits.release(actor, ({ input, reply }) => this.#turn(actor, [input], reply));
    if (isDone && this.#hot.get(actor.id) === actor) this.#turn(actor, [{ type: 'wake' }], undefined);
  }

  #journal(writes: readonly ActorWrite[]): void {
    if (writes.length === 0) return;
    const at = this.#now;
    const entries: TurnEntry[] = [];
    for (const { actor, records } of writes) entries.push({ key: actor.key, data: encodeTurn({ at, records }) });
    const position = this.parts.journal.append(entries);
    for (const { actor } of writes) {
      actor.position = position;
      actor.unflushed += 1;
      actor.turnsSinceSnapshot += 1;
    }
    this.#checkpointer.changed(writes);
    this.parts.counters.add('journalTurns');
  }

  /** Puts what the turn tells and starts behind its flush, or does it at once when nothing is to be flushed. */
  #commit(
    writes: readonly ActorWrite[],
    gathered: TurnGathering,
    late: readonly ActorEffect[],
    reply: Reply | undefined,
  ): void {
    const hasNothing = late.length === 0 && reply === undefined && gathered.events === undefined;
    if (writes.length === 0 && (hasNothing || this.#commits.isEmpty)) {
      this.#committed(writes, gathered, late, reply);
      return;
    }
    const item: CommitItem = {
      release: () => this.#committed(writes, gathered, late, reply),
      refuse: (error) => reply?.reject(storeError(error)),
    };
    this.#commits.add(item, !this.waiters.areDraining && isPatient(gathered, late, reply));
  }

  /** The turn is durable. */
  #committed(
    writes: readonly ActorWrite[],
    gathered: TurnGathering,
    late: readonly ActorEffect[],
    reply: Reply | undefined,
  ): void {
    for (const { actor } of writes) {
      actor.unflushed -= 1;
      if (actor.unflushed === 0 && this.#hot.get(actor.id) === actor) this.#noteQuiet(actor);
    }
    this.#release(gathered, late, reply);
    this.passivateSome();
    this.#gauge();
  }

  /** Tells first and starts then: what starts may be a turn of its own, and tell what comes after this. */
  #release(gathered: TurnGathering, late: readonly ActorEffect[], reply: Reply | undefined): void {
    // First: whoever added a message finds it told once it is acknowledged.
    if (gathered.said !== undefined) for (const note of gathered.said) this.parts.host.said?.(note);
    this.#answer(late, reply);
    const { promoted, settled, exits, events, compressions } = gathered;
    if (promoted !== undefined) this.waiters.promoted(promoted);
    if (settled !== undefined) this.waiters.settled(settled);
    for (const { id, state } of exits ?? []) {
      const end = endOf(state);
      if (end !== undefined) this.waiters.exited(id, end);
    }
    if (compressions !== undefined) for (const session of compressions) this.waiters.compressed(session);
    if (events !== undefined) this.parts.host.events(events);
    for (const { actor, effect } of late) {
      if (effect.type === 'runTool') this.#startTool(actor, effect);
      else if (effect.type === 'callModel') this.#callModel(actor, effect.halfStep, effect.attempt);
      else if (isAsking(effect)) void this.#ask(actor, effect);
      else if (effect.type === 'startMuse') this.#startMuse(actor, effect.muse, effect.run);
    }
    this.#checkDrained();
  }

  /**
   * A call that changes nothing outside: lost with its intent it is simply made again, as a model call is. Only so far ahead of the
   * disk, as everything since the last flush would be paid for twice.
   */
  #mayRunAhead(actor: SessionActor, start: ToolStart): boolean {
    if (start.isRuntimeTool || this.parts.durability === 'strict' || actor.unflushed > RUN_AHEAD_TURNS_MAX)
      return false;
    return this.agentOf(actor)?.facts.tool(start.name)?.effect === 'pure';
  }

  #startTool(actor: SessionActor, start: ToolStart): void {
    const agent = this.agentOf(actor);
    if (agent === undefined || this.#hot.get(actor.id) !== actor || !actor.state.openCalls.has(start.callId)) return;
    this.parts.counters.add('toolCalls');
    this.#tools.start(actor.id, agent, start);
  }

  #answer(late: readonly ActorEffect[], reply: Reply | undefined): void {
    let answered = false;
    for (const { effect } of late) {
      switch (effect.type) {
        case 'accepted':
          if (!effect.duplicate) this.parts.counters.add('accepted');
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
  }

  /** Effects that tell nobody anything run with the turn (H2). */
  #runEarly({ actor, effect }: ActorEffect): boolean {
    switch (effect.type) {
      case 'callModel':
        if (this.parts.durability === 'strict') return false;
        this.#callModel(actor, effect.halfStep, effect.attempt);
        return true;
      case 'runTool':
        if (!this.#mayRunAhead(actor, effect)) return false;
        this.#startTool(actor, effect);
        return true;
      case 'cancelModel':
        this.#models.cancel(actor.id);
        return true;
      case 'transients':
        actor.transients = effect.list;
        if (effect.list.length > 0) this.#transient.add(actor);
        else this.#transient.delete(actor);
        return true;
      case 'cancelMuse':
        this.#muses.cancel(actor.id, effect.run);
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
      case 'stale':
        this.parts.counters.add('staleCompletions');
        return true;
      default:
        return false;
    }
  }

  #siblingsOf({ state }: SessionActor): readonly string[] {
    const parent = state.parent === undefined ? undefined : this.find(state.parent);
    return [...(parent?.state.childNames ?? [])].filter((name) => name !== state.name);
  }

  /** Behind the flush: what it does meanwhile must not be older than what it was started for. */
  #startMuse(actor: SessionActor, muse: MuseName, run: number): void {
    const agent = this.agentOf(actor);
    // Between the turn and its flush it may have been given up, or the actor dropped; begun again while closing it would be lost.
    if (agent === undefined || this.#hot.get(actor.id) !== actor || !isMuseDue(actor.state, run)) return;
    if (this.#isClosing) this.#endNaming(actor);
    else this.#muses.start(actor, agent, muse, run);
  }

  /** A sub-agent keeps the name it has: its parent's call waits for it, and must not stay open behind an orderly end (F13). */
  #endNaming(actor: SessionActor): void {
    const { enrichment } = actor.state;
    if (enrichment?.stage !== 'naming') return;
    this.submit(actor.id, [{ type: 'enriched', run: enrichment.run, usage: NO_USAGE }]);
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
    const input = await this.parts.host.evaluateSystem(actor.state.agent ?? '', actor.id).then(
      (text): Input => ({ type: 'systemEvaluated', epoch, text }),
      (error: unknown): Input => ({ type: 'systemFailed', epoch, error: errorShape(error) }),
    );
    this.submit(actor.id, [input]);
  }

  /** Somebody on the host has a say: asked behind the flush, as what he is told is told. */
  async #ask(actor: SessionActor, asking: Asking): Promise<void> {
    const question = this.#hot.get(actor.id) === actor ? questionOf(actor.state, asking) : undefined;
    // Interrupted between the turn and its flush, or read again: whoever goes on with it asks anew.
    if (question === undefined) return;
    const input = await this.parts.host.consult(question).then(
      (word): Input => answerOf(asking, word),
      (error: unknown): Input => failureOf(asking, errorShape(error)),
    );
    this.submit(actor.id, [input]);
  }

  #interruptChildrenOf(effects: readonly ActorEffect[]): void {
    for (const { actor, effect } of effects) {
      if (effect.type === 'interruptChildren') this.#interruptChildren(actor, effect.reason);
    }
  }

  /** Tells every working descendant; what is idle keeps no flag (F070). */
  #interruptChildren(actor: SessionActor, reason: string | undefined): void {
    const working = [...this.#live].filter((other) => other !== actor && this.#isDescendant(other, actor.id));
    for (const child of working) {
      if (child.state.state === 'idle' && child.state.enrichment === undefined) continue;
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
    const agent = this.agentOf(actor);
    const environment = this.#turnEnvironment;
    this.#stepping = actor;
    environment.now = this.#now;
    environment.random = this.parts.random();
    environment.transients = actor.transients;
    environment.agent = agent?.facts ?? this.parts.catalog.missing(actor.state.agent ?? '');
    environment.isGated = this.#gated.size > 0 && this.#gated.has(actor.id);
    environment.admits =
      agent !== undefined &&
      !this.#isClosing &&
      !this.edits.holds(actor) &&
      (this.#live.has(actor) || this.#live.size < this.parts.limits.liveSessions || actor.state.state === 'executing');
    return environment;
  }

  #isSupervised(actor: SessionActor): boolean {
    const parent = actor.state.parent === undefined ? undefined : this.find(actor.state.parent);
    const supervision = parent === undefined ? undefined : this.agentOf(parent)?.supervision;
    return supervision !== undefined && supervision.onChildFailure !== 'report';
  }

  /** Nobody where nobody reads or waits: what is told is built for those who hear it only. */
  #observer(actor: SessionActor): Observer | undefined {
    const session = actor.id;
    const isWatched = this.#isWatched(session);
    const isListened = this.#listened.size > 0 && this.#listened.has(session);
    if (!isWatched && !isListened && !this.waiters.has(session)) return undefined;
    const gathered = this.#gathered;
    const at = this.#now;
    const fates: Observer = {
      settled: (pendingId, receipt) => {
        if (this.waiters.has(session)) gathered.settle({ session, pendingId, receipt });
      },
      promoted: (pendingId) => {
        const receipt = actor.state.receipts.get(pendingId) ?? { status: 'accepted' };
        if (this.waiters.has(session)) gathered.promote({ session, pendingId, receipt });
      },
    };
    const said = isListened
      ? { said: (logged: Said) => gathered.say(session, historyMessage(actor.state, logged)) }
      : undefined;
    if (!isWatched) return said === undefined ? fates : { ...fates, ...said };
    return { ...fates, ...said, event: (body: EventBody, seq: number) => gathered.tell({ session, at, seq, ...body }) };
  }

  #afterTurn(actor: SessionActor): void {
    const { state } = actor;
    const hasAgent = this.agentOf(actor) !== undefined;
    if (hasAgent && isRunning(state)) this.#live.add(actor);
    else this.#live.delete(actor);
    if (actor.retryTimer !== undefined && state.current?.retryAt === undefined) this.#clearTimer(actor);
    if (actor.restartTimer !== undefined && state.restartAt === undefined) this.#clearRestart(actor);
    // An idle session that could start a turn, and did not, was not admitted.
    if (hasAgent && isWaiting(state)) this.#queued.add(actor.id);
    else this.#queued.delete(actor.id);
    // Operations on its history come first, and wake it themselves.
    if (this.edits.holds(actor)) this.#queued.delete(actor.id);
    if (state.exit !== undefined && this.waiters.hasExit(actor.id)) this.#gathered.end(actor);
    if (this.waiters.hasCompression(actor.id) && state.current?.compaction === undefined)
      this.#gathered.compress(actor.id);
    this.#noteQuiet(actor);
  }

  #gauge(): void {
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
    try {
      while (this.#live.size < this.parts.limits.liveSessions) {
        const next = this.#queued.take();
        if (next === undefined) break;
        this.submit(next, [{ type: 'wake' }]);
      }
    } finally {
      this.#isAdmitting = false;
    }
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
    this.#models.watched(sessionId);
  }

  /** Starts or stops telling what is said in a session. */
  listen(sessionId: string, on: boolean): void {
    if (on) this.#listened.add(sessionId);
    else this.#listened.delete(sessionId);
  }

  /** Sessions kept in memory by transient messages. */
  get transientSessions(): number {
    return this.#transient.size;
  }

  /** Listeners of a session are waited for, or not any more; whoever waits for them now goes on when they have answered. */
  gate(sessionId: string, on: boolean): void {
    if (on) this.#gated.add(sessionId);
    else this.#gated.delete(sessionId);
  }

  #isWatched(sessionId: string): boolean {
    return this.#watched.has(sessionId) || this.#watched.has(undefined);
  }

  /** An ephemeral event, behind what was journalled before it: a delta must not come before the claim it stems from (A2). */
  #tell(session: string, body: EventBody): void {
    const events: readonly SessionEvent[] = [{ session, at: this.parts.clock.now(), ...body }];
    this.afterCommit(
      () => this.parts.host.events(events),
      () => undefined,
    );
  }

  /** What a watched parent sees of its children, without a record for each of their steps. */
  #watchChildren(touched: readonly SessionActor[], gathered: TurnGathering): void {
    if (this.#watched.size === 0) return;
    const at = this.#now;
    for (const actor of touched) {
      const { state } = actor;
      if (state.parent === undefined || !this.#isWatched(state.parent)) continue;
      if (actor.toldState === state.state) continue;
      actor.toldState = state.state;
      const name = state.name === undefined ? {} : { name: state.name };
      gathered.tell({
        session: state.parent,
        at,
        type: 'child.state',
        child: actor.id,
        state: state.state,
        ...name,
      });
    }
    for (const event of [...(gathered.events ?? [])]) {
      if (event.type !== 'child.spawned') continue;
      const parent = this.#hot.get(event.session);
      if (parent !== undefined) gathered.tell(childrenUpdated(parent, at, (id) => this.#hot.get(id)?.state.state));
    }
  }

  // ---- failure ------------------------------------------------------------------------------------------------------

  /** A broken invariant (R22): nothing of the turn was journalled; the actors are read again and go on. */
  #turnThrew(touched: readonly SessionActor[], thrown: unknown, reply: Reply | undefined): void {
    const fault = new TroupeError('internal', 'a session turn failed', { cause: thrown });
    reply?.reject(fault);
    for (const actor of touched) {
      this.#drop(actor);
      this.#checkpointer.dropped(actor);
      this.#logThrown(
        'a session turn failed; the session is read again from its log',
        thrown,
        actor.id,
        actor.state.agent,
      );
      const key = this.parts.journal.keyOf(actor.id);
      if (key === undefined) continue;
      this.#interrupted.add(key);
      // A session that fails again and again is left alone until the store is opened again, or it is sent something.
      if (!this.#crashes.count(actor.id)) continue;
      this.#resuming += 1;
      this.parts.soon(() => {
        if (!this.#isClosing) this.#resume(key);
      });
    }
    this.#checkDrained();
  }

  #logThrown(message: string, thrown: unknown, session?: string, agent?: string): void {
    const error = errorShape(thrown);
    const of = { ...(session === undefined ? {} : { session }), ...(agent === undefined ? {} : { agent }) };
    this.parts.host.log({ level: 'error', message, error, ...of });
  }

  /** Forgets an actor whose state is not that of the log. What runs for it is given up. */
  #drop(actor: SessionActor): void {
    this.#hot.delete(actor.id);
    this.#transient.delete(actor);
    this.edits.refuse(actor, this.#degraded ?? editLost());
    this.#quiet.delete(actor);
    this.#live.delete(actor);
    this.#queued.delete(actor.id);
    this.#clearTimer(actor);
    this.#clearRestart(actor);
    this.#families.forget(actor.id);
    this.#models.forget(actor.id);
    this.#tools.forget(actor.id);
    this.#muses.forget(actor.id);
    this.#checkpointer.forget(actor);
  }

  #flushFailed(error: Error): void {
    const degraded = storeError(error);
    const isKnown = this.#degraded !== undefined;
    this.#degraded = degraded;
    for (const actor of [...this.#hot.values()]) this.#drop(actor);
    // The last flush of a close: the journal answers nothing any more.
    if (this.#isClosed) return;
    this.#noteStaleHeads();
    // Recovered once, or everything would be resumed twice.
    if (isKnown) return;
    this.#logThrown('the store refuses writes', degraded);
    this.parts.host.degraded(degraded);
    this.#recoverLater();
  }

  #noteStaleHeads(): void {
    const { journal } = this.parts;
    try {
      const stale = new Set(journal.runnable());
      for (const key of journal.tailKeys(journal.checkpointed())) stale.add(key);
      this.#staleHeads = stale;
    } catch (error) {
      // Lists tell of these sessions as of the last checkpoint until the store takes writes again.
      this.#logThrown('the tail of the log cannot be read', error);
    }
  }

  #recoverLater(): void {
    this.#recoveryTimer = this.parts.clock.setTimer(() => void this.#recoverStore(), DEVICE_RETRY_MS);
  }

  async #recoverStore(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.parts.journal.recover();
    } catch {
      if (!this.#isClosed) this.#recoverLater();
      return;
    }
    if (this.#isClosed) return;
    // What a device refused may be on the disk all the same: sessions read meanwhile are older than the log, and there may be
    // ends that nobody was told of.
    for (const actor of [...this.#hot.values()]) this.#drop(actor);
    this.#degraded = undefined;
    this.#staleHeads = new Set();
    this.parts.host.degraded(undefined);
    this.resumeInterrupted();
    this.waiters.askAgain();
    // Where nothing was interrupted, nothing else tells those who wait.
    this.#checkDrained();
  }

  // ---- life ---------------------------------------------------------------------------------------------------------

  /** Goes on with everything that was interrupted (A10), a slice a turn of the loop. */
  resumeInterrupted(): void {
    const { journal } = this.parts;
    const found = new Set(journal.runnable());
    for (const key of journal.tailKeys(journal.checkpointed())) found.add(key);
    for (const key of found) this.#interrupted.add(key);
    this.#resuming += found.size;
    // Until all are read, a checkpoint would pass over those that are not (K1).
    this.#checkpointer.hold();
    this.#resumeSlice([...found], 0);
  }

  #resumeSlice(keys: readonly SessionKey[], from: number): void {
    // The checkpointer is still held: what was not read stays in the tail for the next open.
    if (this.#isClosing) return;
    const end = Math.min(from + RESUME_SLICE, keys.length);
    for (const key of keys.slice(from, end)) this.#resume(key);
    this.passivateSome();
    if (end < keys.length) this.parts.soon(() => this.#resumeSlice(keys, end));
    else this.#checkpointer.letGo();
  }

  /** Goes on with one session. One whose log cannot be read is left alone, and the others go on. */
  #resume(key: SessionKey): void {
    this.#resuming -= 1;
    let name: string | undefined;
    try {
      name = this.#degraded === undefined ? this.parts.journal.nameOf(key) : undefined;
      const actor = name === undefined ? undefined : this.find(name);
      if (actor !== undefined) {
        this.#checkpointer.changed([{ actor }]);
        if (this.#interrupted.has(key) && this.agentOf(actor) !== undefined) this.submit(actor.id, []);
      }
    } catch (error) {
      this.#logThrown('a session cannot be resumed', error, name);
    }
    if (this.#resuming > 0) return;
    for (const done of this.#onResumed.splice(0)) done();
    this.#checkDrained();
  }

  /** Resolves when everything that was interrupted when the store was opened has been read. */
  resumed(): Promise<void> {
    if (this.#resuming === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onResumed.push(resolve));
  }

  /** True when nothing runs and nothing waits to run. */
  get isDrained(): boolean {
    const isIdle = this.#live.size === 0 && this.#queued.size === 0 && this.#resuming === 0;
    return isIdle && this.#degraded === undefined;
  }

  #checkDrained(): void {
    if (this.isDrained) this.waiters.drained();
  }

  /** Somebody waits for what nobody waited for before. */
  hurry(): void {
    this.#commits.hurry();
  }

  /** Runs `work` once everything journalled so far is durable: what is read is told only then (A2). */
  afterCommit(work: () => void, refuse: (error: Error) => void): void {
    if (this.#commits.isEmpty) work();
    else this.#commits.add({ release: work, refuse: (error) => refuse(storeError(error)) });
  }

  /** A blocked session is about to go on: its key or its model may be tried again, by all (F36, F37). */
  resumeModels(sessionId: string): void {
    if (!this.#isClosed && this.find(sessionId)?.state.blocked !== undefined) this.#modelPool.resume?.();
  }

  /** Lifts the stop after a failed authentication from every session that has one. Resolves when it is durable. */
  async resumeBlocked(): Promise<void> {
    await this.resumed();
    this.#modelPool.resume?.();
    const resumed: Promise<unknown>[] = [];
    for (const [name, key] of this.parts.journal.names({})) {
      const head = this.#hot.has(name) ? undefined : this.headOf(key);
      const isBlocked = head === undefined ? this.find(name)?.state.blocked !== undefined : isHeadBlocked(head.data);
      if (!isBlocked) continue;
      resumed.push(new Promise((resolve, reject) => this.submit(name, [{ type: 'resume' }], { resolve, reject })));
    }
    await Promise.all(resumed);
  }

  /** Deletes a session and its descendants; replies with their ids, none when there is no such session, once it is durable. */
  delete(sessionId: string, reply: Reply): void {
    if (this.#degraded !== undefined || this.#isClosed) {
      reply.reject(this.#degraded ?? new TroupeError('cancelled', 'the runtime is closed'));
      return;
    }
    const actor = this.find(sessionId);
    if (actor === undefined) {
      reply.resolve([]);
      return;
    }
    const parent = actor.state.parent;
    const subtree = this.#subtree(actor);
    this.#rootForks(subtree);
    // First: a turn may close its batch behind itself, and what the parent is told must be in one with the removal (A6).
    this.parts.journal.remove(subtree.map((each) => each.key));
    for (const each of subtree) {
      this.#drop(each);
      this.#interrupted.delete(each.key);
      this.waiters.deleted(each.id);
    }
    if (parent !== undefined && actor.state.exit === undefined && this.find(parent) !== undefined) {
      this.submit(parent, [{ type: 'childExited', child: sessionId, reason: 'cancelled' }]);
    }
    const release = (): void => {
      reply.resolve(subtree.map((each) => each.id));
      this.#checkDrained();
    };
    this.#commits.add({ release, refuse: (error) => reply.reject(storeError(error)) });
    this.#admit();
    this.#gauge();
  }

  /** Forks that share these logs get what they begin with for themselves: the logs are about to go. */
  #rootForks(leaving: readonly SessionActor[]): void {
    for (const { key, state } of leaving) {
      if (state.forks.length === 0) continue;
      for (const root of storeRoots(this.parts.journal, state, key)) {
        const isKnown = this.#hot.has(root.name) || this.headOf(root.key) !== undefined;
        this.#checkpointer.rooted(root.key, root.base, isKnown ? this.#hot.get(root.name) : this.find(root.name));
      }
    }
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
    this.#commits.hurry();
    // A run may take a minute, and begins anew at the next open.
    this.#muses.close();
    for (const actor of [...this.#hot.values()]) this.#endNaming(actor);
    await this.#halfStepsDone(deadlineMs);
    this.#isClosed = true;
    this.parts.clock.clearTimer(this.#recoveryTimer);
    this.#quiet.close();
    for (const done of this.#onResumed.splice(0)) done();
    for (const actor of this.#hot.values()) {
      this.#clearTimer(actor);
      this.#clearRestart(actor);
    }
    await Promise.all([this.#modelPool.close(), this.#toolPool.close()]);
    this.#checkpointer.close(this.#hot.values());
    this.edits.refuseAll(new TroupeError('cancelled', 'the runtime was closed: the operation was not done'));
    this.waiters.closed();
    await this.parts.journal.close();
  }

  /** Resolves when no model call and no tool is out, or at the deadline. While closing, no new turn is admitted. */
  #halfStepsDone(deadlineMs: number): Promise<void> {
    const { clock } = this.parts;
    return new Promise((resolve) => {
      const done = (): void => {
        this.#onStill = undefined;
        clock.clearTimer(timer);
        resolve();
      };
      const timer = clock.setTimer(done, deadlineMs);
      this.#onStill = () => {
        if (this.#models.running === 0 && this.#tools.running === 0 && this.#commits.isEmpty) done();
      };
      this.#onStill();
    });
  }
}

function childrenUpdated(parent: SessionActor, at: number, stateOf: (id: string) => string | undefined): SessionEvent {
  const { children: known, hiddenChildren } = parent.state;
  const all = [...known.values()].filter((child) => !hiddenChildren.has(child.name));
  const children = all.slice(-CHILDREN_LISTED_MAX).map(({ id, name }) => ({ id, name, state: stateOf(id) ?? 'idle' }));
  return { session: parent.id, at, type: 'children.updated', children };
}

/** Nobody waits for the flush of such a turn: nothing is told, and nothing starts behind it. */
function isPatient(gathered: TurnGathering, late: readonly ActorEffect[], reply: Reply | undefined): boolean {
  if (reply !== undefined && reply.isPatient !== true) return false;
  return !gathered.hasSomething && late.every(({ effect }) => effect.type === 'accepted');
}

/** The session was read again from its log, or is gone, before the operation was done. */
function editLost(): TroupeError {
  return new TroupeError('cancelled', 'the session left memory: the operation was not done', { retryable: true });
}

/** What was said at once, as its logged messages. */
type Said = Parameters<NonNullable<Observer['said']>>[0];

function storeError(error: Error): StoreFullError {
  if (error instanceof StoreFullError) return error;
  return new StoreFullError('the store refused a write', { cause: error });
}
