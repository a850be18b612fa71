/**
 * Wake-ups of sessions: a model call is retried after a wait, a child restarts, an approval expires, a call's result is
 * lost.
 *
 * Owns: the timers of resident actors, at most one of each kind. Does not own: what is due, because the log says that;
 * the deadlines of tools, which the tool pool owns. A timer that is lost with its actor is set again when the session
 * is recovered.
 * Invariants:
 *  W1 an actor that leaves memory holds no timer (H4 of the shard);
 *  W2 while calls of a session are in flight, one deadline covers all of them. At the deadline the timers ask for each
 *     call whether the tool runner holds it. A call that waits or runs is checked again after another timeout. A call
 *     that the runner does not hold is lost, and is answered (`heal`). No report says that a call began, because such a
 *     report could be lost too.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { CALL_CHECK_GRACE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { DeadlineQueue } from '../../base/deadline-queue.ts';
import { type CallAtWork, callsAtWork } from '../../session/rules/healing.ts';
import { approvalsExpireAt } from '../../session/rules/run-loop.ts';
import type { Input } from '../../session/state/inputs.ts';

/** The shard functions that wake-ups use. */
export interface TimersPlace {
  readonly clock: Clock;
  /** Wakes a session if this actor is still the resident one. */
  readonly wake: (actor: SessionActor, input: Input) => void;
  /** True if the tool runner still holds this call, so that its result will come. */
  readonly holdsCall: (sessionId: string, callId: string) => boolean;
  /** Milliseconds that calls of this session wait for a decision; null: forever. */
  readonly approvalsMs: (actor: SessionActor) => number | null;
}

/** See the head of the file. */
export class SessionTimers {
  readonly #place: TimersPlace;
  readonly #clock: Clock;
  /** One timer serves all deadlines, because most calls end long before their deadline (W2). */
  readonly #calls: DeadlineQueue<SessionActor>;

  constructor(place: TimersPlace) {
    this.#place = place;
    this.#clock = place.clock;
    this.#calls = new DeadlineQueue(place.clock, (actor) => this.#checkCalls(actor));
  }

  /** Schedules the next attempt of a model call in `delayMs`. */
  retryLater(actor: SessionActor, halfStep: number, attempt: number, delayMs: number): void {
    this.clearRetry(actor);
    actor.retryTimer = this.#clock.setTimer(() => {
      actor.retryTimer = undefined;
      this.#place.wake(actor, { type: 'retryDue', halfStep, attempt });
    }, delayMs);
  }

  /** Schedules the restart of a child in `delayMs`. */
  restartLater(actor: SessionActor, delayMs: number): void {
    this.#clearRestart(actor);
    actor.restartTimer = this.#clock.setTimer(() => this.#place.wake(actor, { type: 'restartDue' }), delayMs);
  }

  /** Clears the timers that the session no longer needs, and sets the deadlines of its calls. */
  settle(actor: SessionActor): void {
    const { state } = actor;
    if (actor.retryTimer !== undefined && state.current?.retryAt === undefined) this.clearRetry(actor);
    if (actor.restartTimer !== undefined && state.restartAt === undefined) this.#clearRestart(actor);
    this.#settleApprovals(actor);
    this.#settleCalls(actor);
  }

  /** Sets one deadline for all calls of a session, at the shortest of their timeouts (W2). */
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
    // Most calls start after the flush of the transition that asks for them. Until then the runner does not hold them.
    if (actor.unflushed === 0) {
      for (const { id } of this.#callsOf(actor)) if (!this.#place.holdsCall(actor.id, id)) lost.push(id);
    }
    // The transition sets the next deadline itself. If it throws, the actor is dropped and must hold no deadline (W1).
    if (lost.length > 0) this.#place.wake(actor, { type: 'heal', callIds: lost });
    else this.#expectCalls(actor);
  }

  #callsOf({ state, agent }: SessionActor): readonly CallAtWork[] {
    return agent === undefined ? [] : callsAtWork(state, agent.facts);
  }

  /** Sets the timer at which waiting calls expire. The time comes from the log, so a restart does not change it. */
  #settleApprovals(actor: SessionActor): void {
    const dueAt = approvalsExpireAt(actor.state, this.#place.approvalsMs(actor));
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

  /** Clears all timers of this actor. */
  clear(actor: SessionActor): void {
    this.clearRetry(actor);
    this.#clearRestart(actor);
    this.#clearApprovals(actor);
    this.#clearCalls(actor);
  }

  /** Clears the timer of the next model call attempt. */
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
