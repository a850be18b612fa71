/**
 * Sessions at work, and those that wait for a place among them.
 *
 * Owns: who has one of `limits.liveSessions` places, and the line for them. Does not own: whether a session could begin a turn
 * (its state says so), nor its turn.
 * Invariants:
 *  L1 a session at work goes on without asking again; one that is not is admitted while there is a place, first come first served;
 *  L2 a session is at work or waits, never both, and does neither without its agent.
 */
import { isRunning, isWaiting, type SessionActor } from '../../actors/session-actor.ts';
import { WaitingLine } from './waiting-line.ts';

/** See the head of the file. */
export class LiveSessions {
  readonly #sessionsMax: number;
  readonly #live = new Set<SessionActor>();
  readonly #queued = new WaitingLine();
  readonly #start: (sessionId: string) => void;
  #isAdmitting = false;

  /** `start`: wakes one who has waited. Called from `admit` only. */
  constructor(sessionsMax: number, start: (sessionId: string) => void) {
    this.#sessionsMax = sessionsMax;
    this.#start = start;
  }

  /** How many are at work. */
  get size(): number {
    return this.#live.size;
  }

  /** How many wait for a place. */
  get waiting(): number {
    return this.#queued.size;
  }

  isQueued(sessionId: string): boolean {
    return this.#queued.has(sessionId);
  }

  /** The session may begin a turn. */
  admits(actor: SessionActor): boolean {
    return this.#live.has(actor) || this.#live.size < this.#sessionsMax || actor.state.state === 'executing';
  }

  /** Notes what a session does after a turn. `isHeld`: something else comes before its next turn, and wakes it itself. */
  note(actor: SessionActor, hasAgent: boolean, isHeld: boolean): void {
    const { state } = actor;
    if (hasAgent && isRunning(state)) this.#live.add(actor);
    else this.#live.delete(actor);
    // An idle session that could start a turn, and did not, was not admitted.
    if (hasAgent && isWaiting(state) && !isHeld) this.#queued.add(actor.id);
    else this.#queued.delete(actor.id);
  }

  /** The actor is not in memory any more. */
  delete(actor: SessionActor): void {
    this.#live.delete(actor);
    this.#queued.delete(actor.id);
  }

  /** Starts sessions that waited for a place, oldest first. */
  admit(): void {
    if (this.#isAdmitting || this.#queued.size === 0) return;
    this.#isAdmitting = true;
    try {
      while (this.#live.size < this.#sessionsMax) {
        const next = this.#queued.take();
        if (next === undefined) break;
        this.#start(next);
      }
    } finally {
      this.#isAdmitting = false;
    }
  }

  /** Those at work for which this holds, as they are now. */
  filter(holds: (actor: SessionActor) => boolean): readonly SessionActor[] {
    return [...this.#live].filter(holds);
  }
}
