/**
 * Sessions at work, and those that wait for a place among them.
 *
 * Owns: who has one of `limits.liveSessions` places, how much of `limits.liveBytes` they take together, and the line for both. Does
 * not own: whether a session could begin a turn (its state says so), nor its turn.
 * Invariants:
 *  L1 a session at work goes on without asking again; one that is not is admitted while there is a place, first come first served;
 *  L2 a session is at work or waits, never both, and does neither without its agent;
 *  L3 the bytes of those at work are as of the last turn of each; a session is admitted while they are below the bound, so that they
 *     are over it by one conversation and by what those at work have grown since.
 */
import { isRunning, isWaiting, type SessionActor } from '../../../actors/session-actor.ts';
import { BYTES_PER_TOKEN, type Limits } from '../../base/bounds.ts';
import { WaitingLine } from './waiting-line.ts';

/** See the head of the file. */
export class LiveSessions {
  readonly #sessionsMax: number;
  readonly #bytesMax: number;
  /** Those at work, with the bytes of their conversations. */
  readonly #live = new Map<SessionActor, number>();
  #bytes = 0;
  readonly #queued = new WaitingLine();
  readonly #start: (sessionId: string) => void;
  #isAdmitting = false;

  /** `start`: wakes a session that has waited. Called from `admit` only. */
  constructor(limits: Pick<Limits, 'liveSessions' | 'liveBytes'>, start: (sessionId: string) => void) {
    this.#sessionsMax = limits.liveSessions;
    this.#bytesMax = limits.liveBytes;
    this.#start = start;
  }

  /** Another session may begin to work. */
  get hasPlace(): boolean {
    return this.#live.size < this.#sessionsMax && this.#bytes < this.#bytesMax;
  }

  /** The session is at work. */
  has(actor: SessionActor): boolean {
    return this.#live.has(actor);
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
    return this.has(actor) || this.hasPlace || actor.state.state === 'executing';
  }

  /** Notes what a session does after a turn. `isHeld`: something else comes before its next turn, and wakes it itself. */
  note(actor: SessionActor, hasAgent: boolean, isHeld: boolean): void {
    const { state } = actor;
    if (hasAgent && isRunning(state)) this.#add(actor, state.tokens * BYTES_PER_TOKEN);
    else this.#remove(actor);
    // An idle session that could start a turn, and did not, was not admitted.
    if (hasAgent && isWaiting(state) && !isHeld) this.#queued.add(actor.id);
    else this.#queued.delete(actor.id);
  }

  /** The actor is not in memory any more. */
  delete(actor: SessionActor): void {
    this.#remove(actor);
    this.#queued.delete(actor.id);
  }

  /** Starts sessions that waited for a place, oldest first. */
  admit(): void {
    if (this.#isAdmitting || this.#queued.size === 0) return;
    this.#isAdmitting = true;
    try {
      while (this.hasPlace) {
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
    return [...this.#live.keys()].filter(holds);
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
