/**
 * The actors of a shard that are in memory.
 *
 * Owns: the resident actors, the order in which idle actors leave, which actors stay because of transient (not stored)
 * messages, the bytes in the mailboxes, which sessions wait for a person, and the checkpointer, which writes the heads
 * of sessions. Does not own: when a transition runs (`transitions.ts`), what runs for an actor beside its transitions
 * (`session-work.ts`), whether the store takes writes (`life.ts`).
 * Invariants:
 *  H3 an actor whose transition threw, or whose flush failed, is dropped and read again from the log. `drop` forgets
 *     all that memory holds of the actor, and `find` reads its session again. `transitions.ts` and `life.ts` decide
 *     when to drop;
 *  H4 an idle session holds no timer and, beyond `ShardBounds.hotSessions`, no memory (A11);
 *  H5 a session has at most one actor: no idle session leaves during a transition, because the transition may hold its
 *     actor.
 */
import type { SessionAgent } from '../../../actors/agent-catalog.ts';
import { SessionActor } from '../../../actors/session-actor.ts';
import { type ErrorShape, errorShape } from '../../base/errors.ts';
import type { Head, SessionKey } from '../../journal/position.ts';
import { neededVersion } from '../../session/rules/epoch.ts';
import { formInForce } from '../../session/rules/structured-answer.ts';
import type { TransientMessage } from '../../session/state/edit-request.ts';
import { emptyState, type SessionState } from '../../session/state/state.ts';
import type { SessionSummary } from '../protocol/protocol.ts';
import { decodeHead, summaryOf } from '../reading/head.ts';
import { readActor } from '../reading/session-reader.ts';
import { Checkpointer } from './checkpointer.ts';
import { IdleSessions } from './idle-sessions.ts';
import { PersonWaits } from './person-waits.ts';
import { SessionOrder } from './session-order.ts';
import type { ShardParts } from './shard-parts.ts';
import { WaitingBytes } from './waiting-bytes.ts';

/** The shard functions that the residency uses. */
export interface ResidencyPlace {
  /** True if the stored head of this session may be older than its log. */
  isStale(key: SessionKey): boolean;
  /** The error of the session's last move to another version; undefined if it did not fail. */
  upgradeErrorOf(sessionId: string): ErrorShape | undefined;
  /** Called when an idle actor left memory. Its session continues with its next input. */
  passivated(actor: SessionActor): void;
  /** Called when an actor was dropped: everything that runs or waits for it must be given up. */
  dropped(actor: SessionActor): void;
}

/** See the head of the file. */
export class Residency {
  readonly checkpointer: Checkpointer;
  /** The sessions with calls that wait for a person. */
  readonly personWaits: PersonWaits = new PersonWaits();
  /** All sessions by their last change, for lists. */
  readonly order: SessionOrder;
  readonly #parts: ShardParts;
  readonly #place: ResidencyPlace;
  readonly #resident = new Map<string, SessionActor>();
  readonly #quiet: IdleSessions;
  readonly #waiting = new WaitingBytes();
  /** Actors that transient messages keep in memory. */
  readonly #transient = new Set<SessionActor>();

  constructor(parts: ShardParts, place: ResidencyPlace) {
    this.#parts = parts;
    this.#place = place;
    this.checkpointer = new Checkpointer(parts.journal, parts.clock, parts.bounds);
    this.order = new SessionOrder(
      parts.journal,
      parts.soon,
      (id, key) => this.summary(id, key),
      (state) => this.summaryOf(state),
    );
    this.#quiet = new IdleSessions(parts.clock, parts.bounds.hotSessions, (actor) => this.#passivate(actor));
  }

  /** The actor of a session, read from the log if needed. Undefined if there is no such session. */
  find(sessionId: string): SessionActor | undefined {
    const resident = this.#resident.get(sessionId);
    if (resident !== undefined) {
      // The actor was used just now, so it is the last to leave.
      if (this.#quiet.delete(resident)) this.#quiet.add(resident);
      return resident;
    }
    const { journal, isolated, sessionAtWork } = this.#parts;
    const key = journal.keyOf(sessionId);
    if (key === undefined) return undefined;
    const refusal = isolated.errorOf(key, sessionId);
    if (refusal !== undefined) throw refusal;
    const actor = sessionAtWork.during(key, () => readActor(journal, sessionId, key));
    // The id has no log, because the transition that created the session was lost.
    if (actor.state.agent === undefined) return undefined;
    this.#resident.set(sessionId, actor);
    this.checkpointer.returned(actor);
    this.noteWaiting(actor);
    this.gauge();
    this.noteIdle(actor);
    return actor;
  }

  /** The actor of a session, if it is in memory. Does not count as a use. */
  inMemory(sessionId: string): SessionActor | undefined {
    return this.#resident.get(sessionId);
  }

  /** True if this very actor is in memory: it neither left nor was dropped. */
  holds(actor: SessionActor): boolean {
    return this.#resident.get(actor.id) === actor;
  }

  /** Makes the actor of a session that has no log yet. */
  create(sessionId: string): SessionActor {
    const key = this.#parts.journal.intern(sessionId);
    const actor = new SessionActor(sessionId, key, emptyState(sessionId), { turns: 0, position: 0 });
    this.#resident.set(sessionId, actor);
    return actor;
  }

  /** All resident actors. */
  actors(): IterableIterator<SessionActor> {
    return this.#resident.values();
  }

  /** The head of a session that is not in memory. Undefined if its log must be read. */
  headOf(key: SessionKey): Head | undefined {
    if (this.#place.isStale(key)) return undefined;
    return this.checkpointer.pending(key) ?? this.#parts.journal.head(key);
  }

  /** The summary of a session from memory, its head, or else its log. Must not be called within a transition (H5). */
  summary(id: string, key: SessionKey): SessionSummary | undefined {
    const resident = this.#resident.get(id);
    if (resident !== undefined) return resident.state.agent === undefined ? undefined : this.summaryOf(resident.state);
    const head = this.headOf(key);
    if (head !== undefined) {
      const { summary, needs } = decodeHead(head.data);
      return this.#shown(summary, needs);
    }
    const actor = this.find(id);
    this.passivateSome();
    return actor === undefined ? undefined : this.summaryOf(actor.state);
  }

  /** The summary of a state, as lists show it. */
  summaryOf(state: SessionState): SessionSummary {
    return this.#shown(summaryOf(state), neededVersion(state));
  }

  /**
   * The reason for a block that is not in the session's log: the definition of its agent is missing, or its move to
   * another version failed. Undefined if neither is the case.
   */
  blockOf(state: SessionState): ErrorShape | undefined {
    const { agent, id } = state;
    if (agent === undefined) return undefined;
    const missing = this.#parts.catalog.versions.missingError(agent, neededVersion(state));
    return missing === undefined ? this.#place.upgradeErrorOf(id) : errorShape(missing);
  }

  #shown(summary: SessionSummary, needs: string | undefined): SessionSummary {
    const { agent, id } = summary;
    const isThere = this.#parts.catalog.versions.isDefined(agent, needs);
    return isThere && this.#place.upgradeErrorOf(id) === undefined ? summary : { ...summary, status: 'blocked' };
  }

  agentOf(actor: SessionActor): SessionAgent | undefined {
    // The name and the grants of a session's agent never change. The agent's version may change between turns, the form
    // of the session's answers with each turn, and the known traits of the model at any time.
    const { catalog } = this.#parts;
    const form = formInForce(actor.state)?.key;
    if (actor.agent === undefined || actor.agentForm !== form || !catalog.isCurrent(actor.agent, actor.state)) {
      actor.agent = catalog.of(actor.state);
      actor.agentForm = form;
    }
    return actor.agent;
  }

  /** UTF-8 bytes that wait in the mailboxes of resident sessions. */
  get waitingBytes(): number {
    return this.#waiting.bytes;
  }

  /** The number of sessions that transient messages keep in memory. */
  get transientSessions(): number {
    return this.#transient.size;
  }

  /** Called after a transition of the actor, because its mailbox and its calls may have changed. */
  noteWaiting(actor: SessionActor): void {
    this.#waiting.note(actor);
    this.personWaits.note(actor);
    this.order.note(actor);
  }

  /** Called when the actor may have become idle, or may no longer be idle. */
  noteIdle(actor: SessionActor): void {
    if (actor.isQuiet) this.#quiet.add(actor);
    else this.#quiet.delete(actor);
  }

  /** Gives an actor its transient messages. They exist only in the actor, so they keep the actor in memory. */
  holdTransients(actor: SessionActor, list: readonly TransientMessage[]): void {
    actor.transients = list;
    if (list.length > 0) this.#transient.add(actor);
    else this.#transient.delete(actor);
  }

  /** Keeps memory within its bound (H4). Never called within a transition (H5). */
  passivateSome(): void {
    this.#quiet.leaveSome();
  }

  /** Takes one idle actor out of memory now. */
  setAside(actor: SessionActor): void {
    this.#quiet.delete(actor);
    this.#passivate(actor);
  }

  /** Takes an idle actor out of memory. Its head is written with the next checkpoint. */
  #passivate(actor: SessionActor): void {
    this.#resident.delete(actor.id);
    this.#waiting.delete(actor);
    this.checkpointer.passivated(actor);
    this.#place.passivated(actor);
    this.gauge();
  }

  /** Forgets an actor whose state may differ from its log (H3), and gives up the work that runs for the actor. */
  drop(actor: SessionActor): void {
    this.#resident.delete(actor.id);
    this.#waiting.delete(actor);
    this.personWaits.doubt(actor);
    this.#transient.delete(actor);
    this.#quiet.delete(actor);
    this.#place.dropped(actor);
    this.checkpointer.forget(actor);
  }

  dropAll(): void {
    for (const actor of [...this.#resident.values()]) this.drop(actor);
  }

  gauge(): void {
    this.#parts.counters.set('sessionsHot', this.#resident.size);
    this.#parts.counters.set('callsWaitingForPerson', this.personWaits.calls);
  }

  /** Stops removing idle sessions by time. */
  endSweeps(): void {
    this.#quiet.close();
  }

  /** Writes the last heads. */
  close(): void {
    this.checkpointer.close(this.#resident.values());
  }
}
