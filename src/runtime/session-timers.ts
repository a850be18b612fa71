/**
 * Wake-ups of sessions: a model call that is made again after a wait, a child that is started again, calls that no person decided
 * in time.
 *
 * Owns: the timers on actors in memory, one of each kind at most. Does not own: what is due, which the log says: a timer that is
 * lost with its actor is set again when the session is recovered.
 * Invariant: an actor that leaves memory holds no timer (H4 of the shard).
 */
import type { SessionActor } from '../../actors/session-actor.ts';
import type { Clock } from '../base/clock.ts';
import type { Input } from '../session/inputs.ts';
import { approvalsExpireAt } from '../session/run-loop-state.ts';

/** See the head of the file. */
export class SessionTimers {
  readonly #clock: Clock;
  /** Wakes a session, if this actor is still the one in memory. */
  readonly #wake: (actor: SessionActor, input: Input) => void;

  /** `settings.approvals.expiresMs`. */
  readonly #approvalsMs: number | null;

  constructor(clock: Clock, wake: (actor: SessionActor, input: Input) => void, approvalsMs: number | null) {
    this.#clock = clock;
    this.#approvalsMs = approvalsMs;
    this.#wake = wake;
  }

  /** The attempt is due in `delayMs`. */
  retryLater(actor: SessionActor, halfStep: number, attempt: number, delayMs: number): void {
    this.clearRetry(actor);
    actor.retryTimer = this.#clock.setTimer(() => {
      actor.retryTimer = undefined;
      this.#wake(actor, { type: 'retryDue', halfStep, attempt });
    }, delayMs);
  }

  /** The restart is due in `delayMs`. */
  restartLater(actor: SessionActor, delayMs: number): void {
    this.#clearRestart(actor);
    actor.restartTimer = this.#clock.setTimer(() => this.#wake(actor, { type: 'restartDue' }), delayMs);
  }

  /** Clears what the session waits for no more, and sets the deadline of the calls that wait for a person. */
  settle(actor: SessionActor): void {
    const { state } = actor;
    if (actor.retryTimer !== undefined && state.current?.retryAt === undefined) this.clearRetry(actor);
    if (actor.restartTimer !== undefined && state.restartAt === undefined) this.#clearRestart(actor);
    this.#settleApprovals(actor);
  }

  /** By what the log says: set again after a restart, and for other calls than before. */
  #settleApprovals(actor: SessionActor): void {
    const dueAt = approvalsExpireAt(actor.state, this.#approvalsMs);
    if (dueAt === actor.approvalsDueAt) return;
    this.#clearApprovals(actor);
    if (dueAt === undefined) return;
    const expire = (): void => {
      actor.approvalsTimer = undefined;
      actor.approvalsDueAt = undefined;
      this.#wake(actor, { type: 'approvalsExpired' });
    };
    actor.approvalsDueAt = dueAt;
    actor.approvalsTimer = this.#clock.setTimer(expire, Math.max(0, dueAt - this.#clock.now()));
  }

  /** Nothing wakes this actor any more. */
  clear(actor: SessionActor): void {
    this.clearRetry(actor);
    this.#clearRestart(actor);
    this.#clearApprovals(actor);
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

  #clearRestart(actor: SessionActor): void {
    if (actor.restartTimer !== undefined) this.#clock.clearTimer(actor.restartTimer);
    actor.restartTimer = undefined;
  }
}
