/**
 * A shard: hosts the actors of some session trees over one journal and its pools. The same code runs in a session thread,
 * on the host thread, and in the simulator.
 *
 * Owns: the actors in memory, the order of turns, what waits for a flush. Does not own: what a turn decides (`src/session`),
 * what the host does with events; nor what has a file of its own: what runs beside the turns (`session-work.ts`), wake-ups
 * (`session-timers.ts`), places for sessions at work (`live-sessions.ts`), what a crash interrupted
 * (`interrupted-sessions.ts`), a store that refuses (`store-outage.ts`), who on the host hears of what (`audience.ts`).
 * Invariants:
 *  H1 a turn is one synchronous function; its records are one append (A3, A6);
 *  H2 nothing that a turn tells or starts leaves before its records are flushed, but a model call, a call of a tool that is
 *     declared `pure`, and a cancellation, which tell nobody anything (architecture §4); in `strict` the calls wait too (A2);
 *  H3 an actor whose turn threw, or whose flush failed, is dropped and read again from the log;
 *  H4 an idle session holds no timer and, beyond `ShardBounds.hotSessions`, no memory (A11).
 */

import type { SessionAgent } from '../../../actors/agent-catalog.ts';
import { isRunnable, SessionActor } from '../../../actors/session-actor.ts';
import { FamilySupervisor } from '../../../actors/supervision/family-supervisor.ts';
import {
  type ActorEffect,
  type ActorWrite,
  runTreeTurn,
  type TreeAccess,
  type TreeTurnOutcome,
} from '../../../actors/supervision/tree-turn.ts';
import { errorFromShape, errorShape, type StoreLostError, TroupeError } from '../../base/errors.ts';
import type { EventBody, SessionEvent } from '../../events/event.ts';
import type { Head, SessionKey, TurnEntry } from '../../journal/position.ts';
import type { CallWait } from '../../models/pool.ts';
import { storeContents } from '../../session/rules/waiting-content.ts';
import { NO_RECORDS } from '../../session/state/decision.ts';
import type { Environment, Input } from '../../session/state/inputs.ts';
import { encodeTurn } from '../../session/state/records.ts';
import { emptyState } from '../../session/state/state.ts';
import { SUBAGENT_TRUNCATION_REASON } from '../../tools/truncation.ts';
import { contentReader } from '../reading/content-reader.ts';
import { EventReplays } from '../reading/event-replay.ts';
import { storeRoots } from '../reading/fork-roots.ts';
import { isHeadBlocked } from '../reading/head.ts';
import { readActor } from '../reading/session-reader.ts';
import { Audience } from './audience.ts';
import { Checkpointer } from './checkpointer.ts';
import { type CommitItem, CommitQueue } from './commit-queue.ts';
import { CrashCounter } from './crash-counter.ts';
import { EditGate } from './edit-gate.ts';
import { InterruptedSessions } from './interrupted-sessions.ts';
import { LiveSessions } from './live-sessions.ts';
import { QuietSessions } from './quiet-sessions.ts';
import { SessionTimers } from './session-timers.ts';
import { SessionWork, type WorkPlace } from './session-work.ts';
import type { Reply, ShardParts } from './shard-parts.ts';
import { endOf, ShardWaiters } from './shard-waiters.ts';
import { StoreOutage, storeError } from './store-outage.ts';
import { TurnEnvironment } from './turn-environment.ts';
import { TurnGathering } from './turn-gathering.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** See the head of the file. */
export class Shard {
  readonly parts: ShardParts;
  readonly waiters: ShardWaiters = new ShardWaiters();
  /** History operations that wait for the answer of a model call. */
  readonly edits: EditGate = new EditGate();
  readonly replays: EventReplays;
  readonly #work: SessionWork;
  readonly #audience: Audience;
  readonly #timers: SessionTimers;
  readonly #outage: StoreOutage;
  /** Sessions as a crash left them. */
  readonly #interrupted: InterruptedSessions;
  readonly #commits: CommitQueue;
  readonly #checkpointer: Checkpointer;
  readonly #crashes: CrashCounter;
  readonly #families: FamilySupervisor;
  readonly #hot = new Map<string, SessionActor>();
  readonly #quiet: QuietSessions;
  readonly #live: LiveSessions;
  readonly #waiting = new WaitingBytes();
  /** Kept in memory by transient messages. */
  readonly #transient = new Set<SessionActor>();
  #gathered = new TurnGathering();
  /** Numbers the turns. */
  #lastTurn = 0;
  readonly #turnEnvironment: TurnEnvironment;
  /** The session of the step under way. */
  #stepping: SessionActor | undefined;
  /** Looks whether nothing is out any more; set while closing. */
  #onStill: (() => void) | undefined;
  #isClosing = false;
  #isClosed = false;

  constructor(parts: ShardParts) {
    this.parts = parts;
    this.replays = new EventReplays(parts.journal);
    const { settings, limits, catalog, journal, clock } = parts;
    const wake = (actor: SessionActor, input: Input): void => {
      if (this.#hot.get(actor.id) === actor) this.submit(actor.id, [input]);
    };
    this.#timers = new SessionTimers({
      clock,
      wake,
      holdsCall: (sessionId, callId) => this.#work.holdsCall(sessionId, callId),
      approvalsMs: settings.approvals.expiresMs,
    });
    this.#audience = new Audience(this.waiters, (id) => this.#hot.get(id));
    this.#live = new LiveSessions(limits, (id) => this.submit(id, [{ type: 'wake' }]));
    this.#work = new SessionWork(parts, this.#workPlace());
    this.#commits = new CommitQueue({
      flushed: async () => {
        await parts.journal.flushed();
        parts.counters.set('flushes', parts.journal.statistics().flushes);
      },
      failed: (error) => this.#outage.flushFailed(error),
      threw: (thrown) => this.#logThrown('what followed a flush failed', thrown),
      emptied: () => this.#onStill?.(),
      soon: parts.soon,
      clock: parts.clock,
    });
    this.#quiet = new QuietSessions(parts.clock, parts.bounds.hotSessions, (actor) => this.#passivate(actor));
    this.#turnEnvironment = new TurnEnvironment(
      {
        limits,
        settings,
        toolNamesOf: (name) => catalog.toolNamesOf(name),
        exists: (id) => journal.keyOf(id) !== undefined,
        openedAt: parts.clock.now(),
        isSupervised: () => this.#stepping !== undefined && this.#isSupervised(this.#stepping),
        stateOf: (id) => this.find(id)?.state,
        readContent: (entry) => contentReader(journal, this.#stepping?.key ?? 0)(entry),
      },
      catalog.missing(''),
    );
    this.#checkpointer = new Checkpointer(parts.journal, parts.clock, parts.bounds);
    this.#crashes = new CrashCounter(() => parts.clock.monotonic());
    this.#families = new FamilySupervisor(() => parts.clock.monotonic());
    this.#outage = new StoreOutage({
      journal,
      clock,
      dropAll: () => {
        for (const actor of [...this.#hot.values()]) this.#drop(actor);
        this.replays.clear();
      },
      told: (error) => parts.host.degraded(error),
      over: () => {
        this.resumeInterrupted();
        this.waiters.askAgain();
        // Where nothing was interrupted, nothing else tells those who wait.
        this.#checkDrained();
      },
      failed: (message, error) => this.#logThrown(message, error),
    });
    this.#interrupted = new InterruptedSessions({
      journal,
      soon: parts.soon,
      checkpointer: this.#checkpointer,
      isClosing: () => this.#isClosing,
      isDegraded: () => this.#outage.error !== undefined,
      find: (id) => this.find(id),
      recover: (actor) => {
        if (this.agentOf(actor) !== undefined) this.submit(actor.id, []);
      },
      hasPlace: (actor) => {
        if (this.#live.has(actor) || this.#live.hasPlace || !isRunnable(actor.state)) return true;
        // Left alone without its agent; and what is not durable yet must stay in memory.
        return this.agentOf(actor) === undefined || actor.unflushed > 0;
      },
      setAside: (actor) => {
        this.#quiet.delete(actor);
        this.#passivate(actor);
      },
      sliceDone: () => this.passivateSome(),
      failed: (error, name, key) => {
        if (name !== undefined) this.#checkpointer.unread(name, key);
        this.#logThrown('a session cannot be resumed', error, name);
      },
      done: () => this.#checkDrained(),
    });
  }

  #workPlace(): WorkPlace {
    return {
      timers: this.#timers,
      submit: (id, inputs, reply) => this.submit(id, inputs, reply),
      find: (id) => this.find(id),
      inMemory: (id) => this.#hot.get(id),
      agentOf: (actor) => this.agentOf(actor),
      isWatched: (id) => this.#audience.isWatched(id),
      tell: (session, body) => this.#tell(session, body),
      still: () => this.#onStill?.(),
      isClosing: () => this.#isClosing,
    };
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
    const { journal, isolated, inHand } = this.parts;
    const key = journal.keyOf(sessionId);
    if (key === undefined) return undefined;
    const refusal = isolated.errorOf(key, sessionId);
    if (refusal !== undefined) throw refusal;
    const actor = inHand.during(key, () => readActor(journal, sessionId, key));
    // A name without a log: the turn that was to make the session was lost.
    if (actor.state.agent === undefined) return undefined;
    this.#hot.set(sessionId, actor);
    this.#checkpointer.returned(actor);
    this.#waiting.note(actor);
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
    if (this.#outage.isStale(key)) return undefined;
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
    return this.#live.isQueued(sessionId);
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
    this.#waiting.delete(actor);
    this.#work.passivated(actor.id);
    this.#checkpointer.passivated(actor);
    this.#timers.clearRetry(actor);
    this.parts.counters.set('sessionsHot', this.#hot.size);
  }

  // ---- turns --------------------------------------------------------------------------------------------------------

  /**
   * Gives inputs to a session, in one turn. Without `agent` an unknown session is refused; with it, it is made. The reply
   * is settled after the flush.
   */
  submit(sessionId: string, inputs: readonly Input[], reply?: Reply, agent?: string): void {
    if (this.#outage.error !== undefined || this.#isClosed) {
      reply?.reject(this.#outage.error ?? new TroupeError('cancelled', 'the runtime is closed'));
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
    if (this.#outage.error !== undefined || this.#isClosed) {
      reply.reject(this.#outage.error ?? new TroupeError('cancelled', 'the runtime is closed'));
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
    return isRunnable(actor.state) && !this.#work.isOut(actor.id);
  }

  readonly #access: TreeAccess = {
    find: (sessionId) => this.find(sessionId),
    create: (sessionId) => this.#create(sessionId),
    environment: (actor) => this.#environment(actor),
    observer: (actor) => this.#audience.observer(actor, this.#gathered, this.#now),
    supervise: (parent, child, error) => {
      const options = this.agentOf(parent)?.supervision ?? { onChildFailure: 'report' };
      if (error === undefined) return this.#families.due(parent, child.id, options);
      return this.#families.failed(parent, child.id, error, options);
    },
    shorten: (text) =>
      this.parts.shelf.shortenNow(text, {
        charactersMax: this.parts.settings.tools.maxSubagentResponseChars,
        bytesMax: this.parts.limits.toolResultBytes,
        reason: SUBAGENT_TRUNCATION_REASON,
      }),
  };

  #turn(actor: SessionActor, inputs: readonly Input[], reply: Reply | undefined): void {
    this.parts.inHand.during(actor.key, () => this.#takeTurn(actor, inputs, reply));
  }

  #takeTurn(actor: SessionActor, inputs: readonly Input[], reply: Reply | undefined): void {
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
    this.#audience.watchChildren(touched, gathered, this.#now);
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
    // From now on the log can be asked for them.
    for (const write of writes) {
      storeContents(write.actor.state, write.records, position, this.parts.bounds.storedContentBytes);
      // The log has them: what waits for the flush must not hold their contents in memory.
      write.records = NO_RECORDS;
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
    const { promoted, settled, exits, events, compressions, introduced } = gathered;
    if (promoted !== undefined) this.waiters.promoted(promoted);
    if (settled !== undefined) this.waiters.settled(settled);
    for (const { id, state } of exits ?? []) {
      const end = endOf(state);
      if (end !== undefined) this.waiters.exited(id, end);
    }
    if (compressions !== undefined) for (const session of compressions) this.waiters.compressed(session);
    if (introduced !== undefined) this.parts.host.introduced?.(this.#audience.introductionsOf(introduced));
    if (events !== undefined) this.parts.host.events(events);
    for (const each of late) this.parts.inHand.during(each.actor.key, () => this.#work.start(each));
    this.#checkDrained();
  }

  #answer(late: readonly ActorEffect[], reply: Reply | undefined): void {
    let answered = false;
    for (const { actor, effect } of late) {
      switch (effect.type) {
        case 'accepted':
          if (!effect.duplicate) this.parts.counters.add('accepted');
          reply?.resolve({
            pendingId: effect.pendingId,
            incarnation: actor.key,
            seq: effect.seq,
            duplicate: effect.duplicate,
          });
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

  /** Transient messages are the actor's own, and kept nowhere else; other effects see H2. */
  #runEarly(each: ActorEffect): boolean {
    const { actor, effect } = each;
    if (effect.type !== 'transients') return this.#work.runEarly(each);
    actor.transients = effect.list;
    if (effect.list.length > 0) this.#transient.add(actor);
    else this.#transient.delete(actor);
    return true;
  }

  #interruptChildrenOf(effects: readonly ActorEffect[]): void {
    for (const { actor, effect } of effects) {
      if (effect.type === 'interruptChildren') this.#interruptChildren(actor, effect.reason);
    }
  }

  /** Tells every working descendant; what is idle keeps no flag (F070). */
  #interruptChildren(actor: SessionActor, reason: string | undefined): void {
    const working = this.#live.filter((other) => other !== actor && this.#isDescendant(other, actor.id));
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
    environment.isGated = this.#audience.isGated(actor.id);
    environment.waitingBytes = this.#waiting.bytes;
    environment.admits =
      agent !== undefined && !this.#isClosing && !this.edits.holds(actor) && this.#live.admits(actor);
    return environment;
  }

  #isSupervised(actor: SessionActor): boolean {
    const parent = actor.state.parent === undefined ? undefined : this.find(actor.state.parent);
    const supervision = parent === undefined ? undefined : this.agentOf(parent)?.supervision;
    return supervision !== undefined && supervision.onChildFailure !== 'report';
  }

  #afterTurn(actor: SessionActor): void {
    const { state } = actor;
    // Operations on its history come first, and wake it themselves.
    this.#live.note(actor, this.agentOf(actor) !== undefined, this.edits.holds(actor));
    this.#timers.settle(actor);
    this.#waiting.note(actor);
    if (state.exit !== undefined && this.waiters.hasExit(actor.id)) this.#gathered.end(actor);
    if (this.waiters.hasCompression(actor.id) && state.current?.compaction === undefined)
      this.#gathered.compress(actor.id);
    this.#noteQuiet(actor);
  }

  #gauge(): void {
    this.parts.counters.set('sessionsHot', this.#hot.size);
    this.parts.counters.set('sessionsLive', this.#live.size);
    this.parts.counters.set('sessionsQueued', this.#live.waiting);
    this.parts.counters.set('modelCallsRunning', this.#work.modelCalls);
    this.parts.counters.set('toolCallsRunning', this.#work.toolCalls);
  }

  /** Starts sessions that waited for a place, oldest first. */
  #admit(): void {
    if (this.#isClosing) return;
    // First: they were at work before the others began to wait.
    this.#interrupted.proceed();
    this.#live.admit();
  }

  // ---- subscribers --------------------------------------------------------------------------------------------------

  /** Starts or stops telling of a session, or of all (`undefined`). */
  watch(sessionId: string | undefined, on: boolean): void {
    this.#audience.watch(sessionId, on);
    this.#work.watched(sessionId);
  }

  /** Introduces sessions before they tell anything, or not any more. */
  introduce(on: boolean): void {
    this.#audience.introduce(on);
  }

  /** Starts or stops telling what is said in a session. */
  listen(sessionId: string, on: boolean): void {
    this.#audience.listen(sessionId, on);
  }

  /** Sessions kept in memory by transient messages. */
  get transientSessions(): number {
    return this.#transient.size;
  }

  /** Listeners of a session are waited for, or not any more; whoever waits for them now goes on when they have answered. */
  gate(sessionId: string, on: boolean): void {
    this.#audience.gate(sessionId, on);
  }

  /** An ephemeral event, behind what was journalled before it: a delta must not come before the claim it stems from (A2). */
  #tell(session: string, body: EventBody): void {
    const events: readonly SessionEvent[] = [{ session, at: this.parts.clock.now(), ...body }];
    this.afterCommit(
      () => this.parts.host.events(events),
      () => undefined,
    );
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
      this.#interrupted.resumeSoon(key);
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
    this.#waiting.delete(actor);
    this.#transient.delete(actor);
    this.edits.refuse(actor, this.#outage.error ?? editLost());
    this.#quiet.delete(actor);
    this.#live.delete(actor);
    this.#timers.clear(actor);
    this.#families.forget(actor.id);
    this.#work.forget(actor.id);
    this.#checkpointer.forget(actor);
  }

  // ---- life ---------------------------------------------------------------------------------------------------------

  /** Goes on with everything that was interrupted (A10), a slice a turn of the loop. */
  resumeInterrupted(): void {
    this.#interrupted.resumeAll();
  }

  /** Resolves when everything that was interrupted when the store was opened has been read. */
  resumed(): Promise<void> {
    return this.#interrupted.resumed();
  }

  /** True when nothing runs and nothing waits to run; a session whose call only `resume` lets leave does neither. */
  get isDrained(): boolean {
    if (this.#outage.error !== undefined) return false;
    const { stoppedCalls } = this.#work;
    // While all places are taken by stopped sessions, those that wait for a place cannot start either.
    if (stoppedCalls > 0 && !this.#live.hasPlace && stoppedCalls === this.#live.size) return true;
    return this.#live.size === stoppedCalls && this.#live.waiting === 0 && !this.#interrupted.hasWork;
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

  /** Why nothing can be asked of a session that is isolated; undefined: it is not. */
  isolationOf(sessionId: string): TroupeError | undefined {
    const key = this.parts.journal.keyOf(sessionId);
    return key === undefined ? undefined : this.parts.isolated.errorOf(key, sessionId);
  }

  /** Tries an isolated session again, with what interrupted it. */
  liftIsolation(sessionId: string): void {
    const key = this.parts.journal.keyOf(sessionId);
    if (key === undefined || !this.parts.isolated.lift(key)) return;
    this.#interrupted.add(key);
  }

  /**
   * A session is about to resume. If the key or its model was refused, all may try again (F36, F37), and the sessions that the
   * key blocked resume with it. Resolves when that is durable.
   */
  async resumeModels(sessionId: string): Promise<void> {
    if (this.#isClosed) return;
    const error = this.callWaitOf(sessionId)?.refusal ?? this.find(sessionId)?.state.blocked;
    if (error === undefined) return;
    this.#work.resumeModels();
    if (error.code === 'model_authentication') await this.#resumeAll((name) => this.#isKeyRefused(name));
  }

  /** Its own call was refused with the key. */
  #isKeyRefused(sessionId: string): boolean {
    return this.find(sessionId)?.state.blocked?.code === 'model_authentication';
  }

  /** Why the governor holds the session's model call back; undefined: it does not. */
  callWaitOf(sessionId: string): CallWait | undefined {
    return this.#work.callWaitOf(sessionId);
  }

  /** Lifts the stop after a failed authentication from every session that has one. Resolves when it is durable. */
  async resumeBlocked(): Promise<void> {
    await this.resumed();
    this.#work.resumeModels();
    await this.#resumeAll(() => true);
  }

  /** Resumes the blocked sessions of which this holds. */
  async #resumeAll(isMeant: (sessionId: string) => boolean): Promise<void> {
    const resumed: Promise<unknown>[] = [];
    for (const [name, key] of this.parts.journal.names({})) {
      const head = this.#hot.has(name) ? undefined : this.headOf(key);
      const isBlocked = head === undefined ? this.find(name)?.state.blocked !== undefined : isHeadBlocked(head.data);
      if (!isBlocked || !isMeant(name)) continue;
      resumed.push(new Promise((resolve, reject) => this.submit(name, [{ type: 'resume' }], { resolve, reject })));
    }
    await Promise.all(resumed);
  }

  /** Deletes a session and its descendants; replies with their ids, none when there is no such session, once it is durable. */
  delete(sessionId: string, reply: Reply): void {
    if (this.#outage.error !== undefined || this.#isClosed) {
      reply.reject(this.#outage.error ?? new TroupeError('cancelled', 'the runtime is closed'));
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

  /** The files of the store were found gone, replaced or cut short: nothing is taken any more. */
  storeLost(error: StoreLostError): void {
    this.#outage.lost(error);
  }

  /**
   * Stops intake, waits up to `deadlineMs` for running half-steps, gives up the rest (they go on at the next open), writes
   * heads and closes.
   */
  async close(deadlineMs: number): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosing = true;
    this.#commits.hurry();
    this.#work.closeMuses(this.#hot.values());
    await this.#halfStepsDone(deadlineMs);
    this.#isClosed = true;
    this.#outage.close();
    this.#quiet.close();
    this.#interrupted.close();
    for (const actor of this.#hot.values()) this.#timers.clear(actor);
    await this.#work.close();
    this.#checkpointer.close(this.#hot.values());
    this.edits.refuseAll(new TroupeError('cancelled', 'the runtime was closed: the operation was not done'));
    this.waiters.closed();
    await this.parts.journal.close();
  }

  /** Resolves when no tool and no model call is out, but those that are stopped, or at the deadline. While closing, no new turn is admitted. */
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
        if (this.#work.modelCalls === this.#work.stoppedCalls && this.#work.toolCalls === 0 && this.#commits.isEmpty)
          done();
      };
      this.#onStill();
    });
  }
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
