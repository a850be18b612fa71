/**
 * Wake-ups of sessions: a model call that is made again after a wait, a child that is started again, calls that no person decided
 * in time, calls whose results were lost.
 *
 * Owns: the timers on actors in memory, one of each kind at most. Does not own: what is due, which the log says: a timer that is
 * lost with its actor is set again when the session is recovered; nor the deadlines of tools, which are the tool pool's.
 * Invariants:
 *  W1 an actor that leaves memory holds no timer (H4 of the shard);
 *  W2 while a session's calls are at work a deadline waits for it. Nobody reports when a call begins, and a report could be lost as
 *     well: at the deadline the session asks who holds each call. A call that waits or runs is asked about again a timeout later; a
 *     call that nothing holds is lost, and answered (`heal`).
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { CALL_CHECK_GRACE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { DeadlineQueue } from '../../base/deadline-queue.ts';
import { type CallAtWork, callsAtWork } from '../../session/rules/healing.ts';
import { approvalsExpireAt } from '../../session/rules/run-loop.ts';
import type { Input } from '../../session/state/inputs.ts';

/** What wake-ups need of the shard. */
export interface TimersPlace {
  readonly clock: Clock;
  /** Wakes a session, if this actor is still the one in memory. */
  readonly wake: (actor: SessionActor, input: Input) => void;
  /** A result of this tool call is still to come. */
  readonly holdsCall: (sessionId: string, callId: string) => boolean;
  /** `settings.approvals.expiresMs`. */
  readonly approvalsMs: number | null;
}

/** See the head of the file. */
export class SessionTimers {
  readonly #place: TimersPlace;
  readonly #clock: Clock;
  /** Most rounds end long before their deadline: one timer for all of them (W2). */
  readonly #calls: DeadlineQueue<SessionActor>;

  constructor(place: TimersPlace) {
    this.#place = place;
    this.#clock = place.clock;
    this.#calls = new DeadlineQueue(place.clock, (actor) => this.#checkCalls(actor));
  }

  /** The attempt is due in `delayMs`. */
  retryLater(actor: SessionActor, halfStep: number, attempt: number, delayMs: number): void {
    this.clearRetry(actor);
    actor.retryTimer = this.#clock.setTimer(() => {
      actor.retryTimer = undefined;
      this.#place.wake(actor, { type: 'retryDue', halfStep, attempt });
    }, delayMs);
  }

  /** The restart is due in `delayMs`. */
  restartLater(actor: SessionActor, delayMs: number): void {
    this.#clearRestart(actor);
    actor.restartTimer = this.#clock.setTimer(() => this.#place.wake(actor, { type: 'restartDue' }), delayMs);
  }

  /** Clears what the session waits for no more, and sets the deadlines of its calls. */
  settle(actor: SessionActor): void {
    const { state } = actor;
    if (actor.retryTimer !== undefined && state.current?.retryAt === undefined) this.clearRetry(actor);
    if (actor.restartTimer !== undefined && state.restartAt === undefined) this.#clearRestart(actor);
    this.#settleApprovals(actor);
    this.#settleCalls(actor);
  }

  /** One deadline for all calls of a session, by the shortest of their timeouts (W2). */
  #settleCalls(actor: SessionActor): void {
    if (actor.state.openCalls.size === 0) this.#clearCalls(actor);
    else if (actor.callsDeadline === undefined) this.#expectCalls(actor);
  }

  #expectCalls(actor: SessionActor): void {
    let waitMs = Number.POSITIVE_INFINITY;
    for (const { timeoutMs } of this.#callsOf(actor)) waitMs = Math.min(waitMs, timeoutMs + CALL_CHECK_GRACE_MS);
    if (waitMs === Number.POSITIVE_INFINITY) return;
    actor.callsDeadline = this.#calls.add(actor, this.#clock.monotonic(), waitMs);
  }

  #checkCalls(actor: SessionActor): void {
    actor.callsDeadline = undefined;
    const lost: string[] = [];
    // Calls start behind the flush of the turn that asks for them: until then nothing holds them.
    if (actor.unflushed === 0) {
      for (const { id } of this.#callsOf(actor)) if (!this.#place.holdsCall(actor.id, id)) lost.push(id);
    }
    // The turn sets the next deadline itself; where it throws, the actor is gone, and must hold none (W1).
    if (lost.length > 0) this.#place.wake(actor, { type: 'heal', callIds: lost });
    else this.#expectCalls(actor);
  }

  #callsOf({ state, agent }: SessionActor): readonly CallAtWork[] {
    return agent === undefined ? [] : callsAtWork(state, agent.facts);
  }

  /** By what the log says: set again after a restart, and for other calls than before. */
  #settleApprovals(actor: SessionActor): void {
    const dueAt = approvalsExpireAt(actor.state, this.#place.approvalsMs);
    if (dueAt === actor.approvalsDueAt) return;
    this.#clearApprovals(actor);
    if (dueAt === undefined) return;
    const expire = (): void => {
      actor.approvalsTimer = undefined;
      actor.approvalsDueAt = undefined;
      this.#place.wake(actor, { type: 'approvalsExpired' });
    };
    actor.approvalsDueAt = dueAt;
    actor.approvalsTimer = this.#clock.setTimer(expire, Math.max(0, dueAt - this.#clock.now()));
  }

  /** Nothing wakes this actor any more. */
  clear(actor: SessionActor): void {
    this.clearRetry(actor);
    this.#clearRestart(actor);
    this.#clearApprovals(actor);
    this.#clearCalls(actor);
  }

  /** No attempt of a model call is waited for. */
  clearRetry(actor: SessionActor): void {
    if (actor.retryTimer !== undefined) this.#clock.clearTimer(actor.retryTimer);
    actor.retryTimer = undefined;
  }

  #clearApprovals(actor: SessionActor): void {
    if (actor.approvalsTimer !== undefined) this.#clock.clearTimer(actor.approvalsTimer);
    actor.approvalsTimer = undefined;
    actor.approvalsDueAt = undefined;
  }

  #clearCalls(actor: SessionActor): void {
    if (actor.callsDeadline !== undefined) this.#calls.remove(actor.callsDeadline);
    actor.callsDeadline = undefined;
  }

  #clearRestart(actor: SessionActor): void {
    if (actor.restartTimer !== undefined) this.#clock.clearTimer(actor.restartTimer);
    actor.restartTimer = undefined;
  }
}
