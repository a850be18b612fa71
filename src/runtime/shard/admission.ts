/**
 * Admission: the sessions that may work, and those that wait for admission.
 *
 * Owns: which sessions hold one of the `limits.liveSessions` slots, how many of `limits.liveBytes` these sessions take
 * together, and the queue for admission. Does not own: whether a session could begin a turn; the session's state says
 * that.
 * Invariants:
 *  L1 a working session continues without being admitted again. Another session is admitted while there is room, first
 *     come first served;
 *  L2 a session works or waits for admission, never both, and does neither without its agent;
 *  L3 a working session counts with the bytes that it has after its last transition. A session is admitted while the
 *     sum of these bytes is below the bound. So the sum may exceed the bound by one conversation, and by the growth of
 *     the working sessions since their admission.
 */
import { isRunning, isWaiting, type SessionActor } from '../../../actors/session-actor.ts';
import { BYTES_PER_TOKEN, type Limits } from '../../base/bounds.ts';
import { AdmissionQueue } from './admission-queue.ts';

/** See the head of the file. */
export class Admission {
  readonly #sessionsMax: number;
  readonly #bytesMax: number;
  /** Working sessions, with the bytes of their conversations. */
  readonly #live = new Map<SessionActor, number>();
  #bytes = 0;
  readonly #queued = new AdmissionQueue();
  readonly #start: (sessionId: string) => void;
  #isAdmitting = false;

  /** `start`: wakes a session that waited. Only `admit` calls it. */
  constructor(limits: Pick<Limits, 'liveSessions' | 'liveBytes'>, start: (sessionId: string) => void) {
    this.#sessionsMax = limits.liveSessions;
    this.#bytesMax = limits.liveBytes;
    this.#start = start;
  }

  /** True if another session may begin to work. */
  get hasRoom(): boolean {
    return this.#live.size < this.#sessionsMax && this.#bytes < this.#bytesMax;
  }

  /** True if the session is working. */
  has(actor: SessionActor): boolean {
    return this.#live.has(actor);
  }

  /** Number of working sessions. */
  get size(): number {
    return this.#live.size;
  }

  /** Number of sessions that wait for admission. */
  get waiting(): number {
    return this.#queued.size;
  }

  isQueued(sessionId: string): boolean {
    return this.#queued.has(sessionId);
  }

  /** True if the session may begin a turn, or works already. */
  admits(actor: SessionActor): boolean {
    return this.has(actor) || this.hasRoom || actor.state.state === 'executing';
  }

  /**
   * Notes the state of a session after a transition. `isHeld`: true if other work precedes the session's next turn. The
   * end of that work wakes the session.
   */
  note(actor: SessionActor, hasAgent: boolean, isHeld: boolean): void {
    const { state } = actor;
    if (hasAgent && isRunning(state)) this.#add(actor, state.tokens * BYTES_PER_TOKEN);
    else this.#remove(actor);
    // This session could start a turn and did not, so it was refused admission.
    if (hasAgent && isWaiting(state) && !isHeld) this.#queued.add(actor.id);
    else this.#queued.delete(actor.id);
  }

  /** Called when the actor left memory. */
  delete(actor: SessionActor): void {
    this.#remove(actor);
    this.#queued.delete(actor.id);
  }

  /** Starts sessions that waited for admission, first come first served. */
  admit(): void {
    if (this.#isAdmitting || this.#queued.size === 0) return;
    this.#isAdmitting = true;
    try {
      while (this.hasRoom) {
        const next = this.#queued.take();
        if (next === undefined) break;
        this.#start(next);
      }
    } finally {
      this.#isAdmitting = false;
    }
  }

  #add(actor: SessionActor, bytes: number): void {
    this.#bytes += bytes - (this.#live.get(actor) ?? 0);
    this.#live.set(actor, bytes);
  }

  #remove(actor: SessionActor): void {
    const bytes = this.#live.get(actor);
    if (bytes === undefined) return;
    this.#live.delete(actor);
    this.#bytes -= bytes;
  }
}
