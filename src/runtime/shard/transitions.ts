/**
 * Runs the transitions of a shard: submit, transition, journal, release.
 *
 * Owns: the order of transitions, the environment of each transition, what it publishes and starts after its flush, and
 * when sessions are admitted. Does not own: what a transition decides (`src/session`), which actors are in memory
 * (`residency.ts`), whether the shard takes inputs (`life.ts`), what runs beside the transitions (`session-work.ts`),
 * the subscribers on the host (`subscribers.ts`).
 * Invariants:
 *  H1 a transition is one synchronous function; its records are one append (A3, A6);
 *  H2 nothing that a transition publishes or starts leaves before its records are flushed. Exceptions are effects that
 *     publish nothing: a model call, a call of a tool that is declared `pure`, the evaluation of a system function, a
 *     timer, a log line, a cancellation. In `strict`, and in a cluster without a lease, the calls wait too (A2);
 *  H3 an actor whose transition threw is dropped, and read again from the log when its session resumes
 *     (`residency.ts`).
 */
import { isRunnable, type SessionActor } from '../../../actors/session-actor.ts';
import { FamilySupervisor } from '../../../actors/supervision/family-supervisor.ts';
import {
  type ActorEffect,
  type ActorWrite,
  runTreeTransition,
  type TreeAccess,
  type TreeTurnOutcome,
} from '../../../actors/supervision/tree-transition.ts';
import { errorFromShape, TroupeError } from '../../base/errors.ts';
import type { EventBody, PublishedEvent, StreamNoteBody } from '../../events/event.ts';
import type { Position, TurnEntry } from '../../journal/position.ts';
import { storeContents } from '../../session/rules/waiting-content.ts';
import { NO_RECORDS } from '../../session/state/decision.ts';
import type { Environment, Input } from '../../session/state/inputs.ts';
import { encodeTransition } from '../../session/state/records.ts';
import { childReplyBounds } from '../../tools/truncation.ts';
import { contentReader } from '../reading/content-reader.ts';
import type { Admission } from './admission.ts';
import type { AnswerDrafts } from './answer-drafts.ts';
import { writeActs } from './audit/audit-log.ts';
import type { CommitItem, CommitQueue } from './commit-queue.ts';
import { CrashCounter } from './crash-counter.ts';
import type { EditQueue } from './edit-queue.ts';
import type { InterruptedSessions } from './interrupted-sessions.ts';
import { isDeferrable, Outbox } from './outbox.ts';
import type { Residency } from './residency.ts';
import type { SessionTimers } from './session-timers.ts';
import type { SessionWork } from './session-work.ts';
import { logThrown, type Reply, type ShardParts } from './shard-parts.ts';
import { endOf, type ShardWaiters } from './shard-waiters.ts';
import { refusalOf } from './store-outage.ts';
import type { Subscribers } from './subscribers.ts';
import { TransitionEnvironment } from './transition-environment.ts';

const NO_INPUTS: readonly Input[] = [];
const RECOVERY: readonly Input[] = [{ type: 'recover' }];

/** Functions through which transitions ask whether the shard still accepts work. */
export interface TransitionsLife {
  /** Why no transition may run: the store refuses writes, or the shard is closed. */
  refusal(): TroupeError | undefined;
  /** True once no session may begin to work any more. */
  startsNothing(): boolean;
  /** Called when work ends. If the shard is now drained, answers the requests that wait for the drain. */
  checkDrained(): void;
  /** Called after each transition. */
  changed(): void;
}

/** The parts that transitions work with. */
export interface TransitionsParts {
  readonly parts: ShardParts;
  readonly residency: Residency;
  readonly life: TransitionsLife;
  readonly commits: CommitQueue;
  readonly work: SessionWork;
  readonly timers: SessionTimers;
  readonly live: Admission;
  readonly interrupted: InterruptedSessions;
  readonly subscribers: Subscribers;
  readonly waiters: ShardWaiters;
  readonly edits: EditQueue;
  readonly drafts: AnswerDrafts;
}

/** See the head of the file. */
export class Transitions {
  readonly #parts: ShardParts;
  readonly #residency: Residency;
  readonly #life: TransitionsLife;
  readonly #commits: CommitQueue;
  readonly #work: SessionWork;
  readonly #timers: SessionTimers;
  readonly #live: Admission;
  readonly #interrupted: InterruptedSessions;
  readonly #subscribers: Subscribers;
  readonly #waiters: ShardWaiters;
  readonly #edits: EditQueue;
  readonly #drafts: AnswerDrafts;
  readonly #crashes: CrashCounter;
  readonly #families: FamilySupervisor;
  readonly #environmentOfStep: TransitionEnvironment;
  #outbox = new Outbox();
  /** Numbers the transitions. */
  #lastTransition = 0;
  /** Wall-clock ms of the current transition. */
  #now = 0;
  /** The session whose environment was filled last. */
  #stepping: SessionActor | undefined;

  constructor(given: TransitionsParts) {
    const { parts } = given;
    this.#parts = parts;
    this.#residency = given.residency;
    this.#life = given.life;
    this.#commits = given.commits;
    this.#work = given.work;
    this.#timers = given.timers;
    this.#live = given.live;
    this.#interrupted = given.interrupted;
    this.#subscribers = given.subscribers;
    this.#waiters = given.waiters;
    this.#edits = given.edits;
    this.#drafts = given.drafts;
    this.#crashes = new CrashCounter(() => parts.clock.monotonic());
    this.#families = new FamilySupervisor(() => parts.clock.monotonic());
    const { limits, settings, catalog, journal, clock } = parts;
    this.#environmentOfStep = new TransitionEnvironment(
      {
        limits,
        settings,
        toolNamesOf: (name) => catalog.toolNamesOf(name),
        agentNames: () => catalog.versions.names,
        versionOf: (name) => catalog.versions.versionOf(name),
        exists: (id) => journal.keyOf(id) !== undefined,
        openedAt: clock.now(),
        isSupervised: () => this.#stepping !== undefined && this.#isSupervised(this.#stepping),
        stateOf: (id) => this.#residency.find(id)?.state,
        readContent: (entry) => contentReader(journal, this.#stepping?.key ?? 0)(entry),
      },
      catalog.missing(''),
    );
  }

  // ---- submit -------------------------------------------------------------------------------------------------------

  /**
   * Gives inputs to a session, in one transition. If the session does not exist, it is created with `agent`; without
   * `agent` the inputs are refused. The reply is settled after the flush.
   */
  submit(sessionId: string, inputs: readonly Input[], reply?: Reply, agent?: string): void {
    const refusal = this.#life.refusal();
    if (refusal !== undefined) {
      reply?.reject(refusal);
      return;
    }
    // `inMemory` does not count as a use of the session. The transition itself marks the session as used.
    let actor = this.#residency.inMemory(sessionId) ?? this.#residency.find(sessionId);
    if (actor === undefined && agent === undefined) {
      // The input is a completion for a deleted session, or a request for a session that never existed.
      this.#parts.counters.add('staleCompletions');
      reply?.reject(new TroupeError('unknown_session', `there is no session ${JSON.stringify(sessionId)}`));
      return;
    }
    if (actor !== undefined) {
      this.#transition(actor, inputs, reply);
      return;
    }
    actor = this.#residency.create(sessionId);
    this.#transition(actor, agent === undefined ? inputs : [{ type: 'create', agent }, ...inputs], reply);
  }

  /**
   * Creates a session whose log begins with the records of these inputs. If the session already exists, the inputs are
   * ordinary inputs.
   */
  beget(sessionId: string, inputs: readonly Input[], reply: Reply): void {
    const refusal = this.#life.refusal();
    if (refusal !== undefined) {
      reply.reject(refusal);
      return;
    }
    this.#transition(this.#residency.find(sessionId) ?? this.#residency.create(sessionId), inputs, reply);
  }

  /** Removes the mark of a session that a crash interrupted. True if the next transition must begin with `recover`. */
  #takeInterrupted(actor: SessionActor): boolean {
    if (!this.#interrupted.has(actor.key)) return false;
    // Without its agent the session stays as it is. It continues when the store is opened with the agent.
    if (this.#residency.agentOf(actor) === undefined) return false;
    this.#interrupted.delete(actor.key);
    return isRunnable(actor.state) && !this.#work.isOut(actor.id);
  }

  readonly #access: TreeAccess = {
    find: (sessionId) => this.#residency.find(sessionId),
    create: (sessionId) => this.#residency.create(sessionId),
    environment: (actor) => this.#environment(actor),
    overdue: (actor) => this.#drafts.withLost(actor, this.#takeInterrupted(actor) ? RECOVERY : NO_INPUTS),
    observer: (actor) => this.#subscribers.observer(actor, this.#outbox, this.#now),
    supervise: (parent, child, error) => {
      const options = this.#residency.agentOf(parent)?.supervision ?? { onChildFailure: 'report' };
      if (error === undefined) return this.#families.due(parent, child.id, options);
      return this.#families.failed(parent, child.id, error, options);
    },
    shorten: (session, text) => this.#parts.resultStore.shortenNow(text, { session, ...childReplyBounds(this.#parts) }),
  };

  #transition(actor: SessionActor, inputs: readonly Input[], reply: Reply | undefined): void {
    this.#parts.sessionAtWork.during(actor.key, () => this.#run(actor, inputs, reply));
  }

  #run(actor: SessionActor, inputs: readonly Input[], reply: Reply | undefined): void {
    const touched: SessionActor[] = [];
    const outbox = new Outbox();
    this.#outbox = outbox;
    this.#lastTransition += 1;
    // One timestamp serves the whole transition: it is journalled, and a replay must not differ.
    this.#now = this.#parts.clock.now();
    let outcome: TreeTurnOutcome;
    try {
      outcome = runTreeTransition(this.#access, actor, inputs, touched, this.#lastTransition);
    } catch (error) {
      this.#threw(touched, error, reply);
      return;
    }
    const { writes, effects } = outcome;
    this.#parts.counters.add('turns');
    outbox.position = this.#journal(writes, effects);
    this.#subscribers.watchChildren(touched, outbox, this.#now);
    const late: ActorEffect[] = [];
    let stopsChildren = false;
    for (const each of effects) {
      if (!this.#runEarly(each)) late.push(each);
      if (each.effect.type === 'interruptChildren') stopsChildren = true;
      else if (each.effect.type === 'accepted' && !each.effect.duplicate) reply?.onAccepted?.(each.effect.pendingId);
    }
    for (const each of touched) this.#settle(each);
    this.#commit(writes, outbox, late, reply);
    // The steps below run further transitions. Their events must come after the events of this transition.
    if (stopsChildren) this.#interruptChildrenOf(effects);
    for (const each of touched) this.#releaseEdits(each);
    this.admit();
    this.#residency.passivateSome();
    this.gauge();
    this.#life.changed();
  }

  /** Runs a session's queued edits at a message boundary, each in a transition, before the session's next claim. */
  #releaseEdits(actor: SessionActor): void {
    if (!this.#edits.holds(actor)) return;
    const isDone = this.#edits.release(actor, ({ input, reply }) => this.#transition(actor, [input], reply));
    if (isDone && this.#residency.holds(actor)) this.#transition(actor, [{ type: 'wake' }], undefined);
  }

  /** Appends the records, and returns the position of the transition; 0 if it wrote nothing. */
  #journal(writes: readonly ActorWrite[], effects: readonly ActorEffect[]): Position {
    if (writes.length === 0) return 0;
    const at = this.#now;
    const entries: TurnEntry[] = [];
    for (const { actor, records } of writes) entries.push({ key: actor.key, data: encodeTransition({ at, records }) });
    this.#drafts.settle(writes);
    writeActs(this.#parts.journal, at, effects);
    const position = this.#parts.journal.append(entries);
    for (const { actor } of writes) {
      actor.position = position;
      actor.unflushed += 1;
      actor.turnsSinceSnapshot += 1;
    }
    // From here on, contents can be read from the log.
    for (const write of writes) {
      storeContents(write.actor.state, write.records, position, this.#parts.bounds.storedContentBytes);
      // The log has the records now, so an item that waits for the flush must not hold their contents in memory.
      write.records = NO_RECORDS;
    }
    this.#residency.checkpointer.changed(writes);
    this.#parts.counters.add('journalTurns');
    return position;
  }

  /** Publishes events and starts effects after the flush, or at once if there is nothing to wait for. */
  #commit(writes: readonly ActorWrite[], outbox: Outbox, late: readonly ActorEffect[], reply: Reply | undefined): void {
    const hasNothing = late.length === 0 && reply === undefined && outbox.events === undefined;
    if (writes.length === 0 && (hasNothing || this.#commits.isEmpty)) {
      this.#committed(writes, outbox, late, reply);
      return;
    }
    const item: CommitItem = {
      release: () => this.#committed(writes, outbox, late, reply),
      refuse: (error) => reply?.reject(refusalOf(error)),
    };
    this.#commits.add(item, !this.#waiters.areDraining && isDeferrable(outbox, late, reply));
  }

  /** Called when the transition is durable. */
  #committed(
    writes: readonly ActorWrite[],
    outbox: Outbox,
    late: readonly ActorEffect[],
    reply: Reply | undefined,
  ): void {
    for (const { actor } of writes) {
      actor.unflushed -= 1;
      if (actor.unflushed === 0 && this.#residency.holds(actor)) this.#residency.noteIdle(actor);
    }
    this.#release(outbox, late, reply);
    this.#residency.passivateSome();
    this.gauge();
  }

  /** Publishes before starting effects: an effect may run another transition, whose events must come later. */
  #release(outbox: Outbox, late: readonly ActorEffect[], reply: Reply | undefined): void {
    // Messages are published first: a caller finds its message published when its request is answered.
    if (outbox.said !== undefined) for (const note of outbox.said) this.#parts.host.said?.(note);
    if (outbox.notices !== undefined) this.#parts.host.noticed?.(this.#subscribers.noteOf(outbox));
    this.#answer(late, reply);
    const { promoted, settled, exits, events, compressions, introduced } = outbox;
    if (promoted !== undefined) this.#waiters.promoted(promoted);
    if (settled !== undefined) this.#waiters.settled(settled);
    for (const { id, state } of exits ?? []) {
      const end = endOf(state);
      if (end !== undefined) this.#waiters.exited(id, end);
    }
    if (compressions !== undefined) for (const session of compressions) this.#waiters.compressed(session);
    if (introduced !== undefined) this.#parts.host.introduced?.(this.#subscribers.introductionsOf(introduced));
    if (events !== undefined) this.#parts.host.events(events);
    for (const each of late) this.#parts.sessionAtWork.during(each.actor.key, () => this.#work.start(each));
    this.#life.checkDrained();
  }

  #answer(late: readonly ActorEffect[], reply: Reply | undefined): void {
    let answered = false;
    for (const { actor, effect } of late) {
      switch (effect.type) {
        case 'accepted': {
          const { pendingId, seq, duplicate } = effect;
          if (!duplicate) this.#parts.counters.add('accepted');
          reply?.resolve({ pendingId, incarnation: actor.key, seq, duplicate });
          answered = true;
          break;
        }
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

  /** Runs an effect at once if it needs no flush (H2). Transient messages need none: only the actor holds them. */
  #runEarly(each: ActorEffect): boolean {
    const { actor, effect } = each;
    if (effect.type !== 'transients') return this.#work.runEarly(each);
    this.#residency.holdTransients(actor, effect.list);
    return true;
  }

  #interruptChildrenOf(effects: readonly ActorEffect[]): void {
    for (const { actor, effect } of effects) {
      if (effect.type === 'interruptChildren') this.#interruptChildren(actor, effect.reason);
    }
  }

  /** Interrupts every descendant that works, or that waits for a person or for an answer. */
  #interruptChildren(actor: SessionActor, reason: string | undefined): void {
    // All working descendants are in memory. An idle one is skipped, so that no interrupt flag remains on it (F070).
    for (const child of [...this.#residency.actors()]) {
      const isIdle = child.state.state === 'idle' && child.state.enrichment === undefined;
      if (isIdle || child === actor || !this.#isDescendant(child, actor.id)) continue;
      this.submit(child.id, [{ type: 'interrupt', ...(reason === undefined ? {} : { reason }) }]);
    }
  }

  #isDescendant(actor: SessionActor, ancestor: string): boolean {
    let parent = actor.state.parent;
    while (parent !== undefined) {
      if (parent === ancestor) return true;
      parent = this.#residency.find(parent)?.state.parent;
    }
    return false;
  }

  // ---- the environment of a transition ------------------------------------------------------------------------------

  #environment(actor: SessionActor): Environment {
    const agent = this.#residency.agentOf(actor);
    const environment = this.#environmentOfStep;
    this.#stepping = actor;
    environment.now = this.#now;
    environment.random = this.#parts.random();
    environment.transients = actor.transients;
    environment.agent = agent?.facts ?? this.#parts.catalog.missing(actor.state.agent ?? '');
    environment.isUpgradeHeld = this.#work.upgrades.holds(actor.id);
    environment.isGated = this.#subscribers.isGated(actor.id);
    environment.waitingBytes = this.#residency.waitingBytes;
    environment.admits =
      agent !== undefined && !this.#life.startsNothing() && !this.#edits.holds(actor) && this.#live.admits(actor);
    return environment;
  }

  #isSupervised(actor: SessionActor): boolean {
    const parent = actor.state.parent === undefined ? undefined : this.#residency.find(actor.state.parent);
    const supervision = parent === undefined ? undefined : this.#residency.agentOf(parent)?.supervision;
    return supervision !== undefined && supervision.onChildFailure !== 'report';
  }

  #settle(actor: SessionActor): void {
    const { state } = actor;
    // Queued edits and a move to another version precede the session's next turn and wake the session.
    const isHeld = this.#edits.holds(actor) || this.#work.upgrades.holds(actor.id);
    this.#live.note(actor, this.#residency.agentOf(actor) !== undefined, isHeld);
    this.#timers.settle(actor);
    this.#residency.noteWaiting(actor);
    if (state.exit !== undefined && this.#waiters.hasExit(actor.id)) this.#outbox.end(actor);
    if (this.#waiters.hasCompression(actor.id) && state.current?.compaction === undefined)
      this.#outbox.compress(actor.id);
    this.#residency.noteIdle(actor);
  }

  /** Sets the gauges of the metrics. */
  gauge(): void {
    this.#residency.gauge();
    this.#parts.counters.set('sessionsLive', this.#live.size);
    this.#parts.counters.set('sessionsQueued', this.#live.waiting);
    this.#parts.counters.set('modelCallsRunning', this.#work.modelCalls);
    this.#parts.counters.set('toolCallsRunning', this.#work.toolCalls);
  }

  /** Starts sessions that waited for admission, first come first served. */
  admit(): void {
    if (this.#life.startsNothing()) return;
    // Interrupted sessions come first, because they worked before the other sessions began to wait.
    this.#interrupted.proceed();
    this.#live.admit();
  }

  // ---- beside transitions -------------------------------------------------------------------------------------------

  /** Publishes an ephemeral event once all earlier records are durable: a delta must not precede its claim (A2). */
  publish(session: string, body: EventBody | StreamNoteBody): void {
    const events: readonly PublishedEvent[] = [{ session, at: this.#parts.clock.now(), ...body }];
    this.afterCommit(
      () => this.#parts.host.events(events),
      () => undefined,
    );
  }

  /** Starts a flush for all commits that wait now, because a caller began to wait for one of them. */
  hurry(): void {
    this.#commits.hurry();
  }

  /** Runs `work` once everything journalled so far is durable: a read is answered only then (A2). */
  afterCommit(work: () => void, refuse: (error: Error) => void): void {
    if (this.#commits.isEmpty) work();
    else this.#commits.add({ release: work, refuse: (error) => refuse(refusalOf(error)) });
  }

  // ---- failure ------------------------------------------------------------------------------------------------------

  /**
   * Drops the actors of a transition that threw, because an invariant broke (R22). Nothing of the transition was
   * journalled. The actors are read again, and their sessions continue.
   */
  #threw(touched: readonly SessionActor[], thrown: unknown, reply: Reply | undefined): void {
    const fault = new TroupeError('internal', 'a session turn failed', { cause: thrown });
    const { host, journal } = this.#parts;
    reply?.reject(fault);
    this.#drafts.unsettled(touched);
    for (const actor of touched) {
      this.#residency.drop(actor);
      this.#residency.checkpointer.dropped(actor);
      const { agent } = actor.state;
      logThrown(host, 'a session turn failed; the session is read again from its log', thrown, actor.id, agent);
      const key = journal.keyOf(actor.id);
      if (key === undefined) continue;
      this.#interrupted.add(key);
      // A session that fails repeatedly is not resumed until it gets an input or the store is opened again.
      if (!this.#crashes.count(actor.id)) continue;
      this.#interrupted.resumeSoon(key);
    }
    this.#life.checkDrained();
  }

  /** Abandons the work, timers and queued edits of an actor that is dropped. */
  forget(actor: SessionActor): void {
    this.#edits.refuse(actor, this.#life.refusal());
    this.#live.delete(actor);
    this.#timers.clear(actor);
    this.#families.forget(actor.id);
    this.#work.forget(actor.id);
  }
}
