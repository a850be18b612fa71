/**
 * Idle sessions that are still resident, least recently used first. A message to such a session needs no read from
 * disk.
 *
 * Owns: their order, and the time of the last use of each. Does not own: the actors. When an actor leaves this list,
 * the residency removes the actor from memory.
 * Invariants:
 *  Q1 at most `ShardBounds.hotSessions` sessions stay besides the ended children of Q2. All sessions of the list
 *     together have at most `HOT_TOKENS_MAX` tokens. Beyond these bounds the oldest leave, several at once. The reason:
 *     each removal leaves a hole at the front of the map, and each search for the oldest passes over all holes;
 *  Q2 at most `ENDED_SESSIONS_MAX` children that have ended stay, because they are rarely woken again;
 *  Q3 a session leaves at most one and a half times `SESSION_IDLE_MS` after its last use;
 *  Q4 one timer serves all sessions; it stops when the list is empty.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { ENDED_SESSIONS_MAX, HOT_TOKENS_MAX, SESSION_IDLE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';

/** When a bound is exceeded, sessions leave until a share of the bound is free again: 1 divided by this number. */
const LEAVING_SHARE = 16;

interface Stay {
  readonly actor: SessionActor;
  readonly tokens: number;
  /** Monotonic ms of the session's last use. */
  readonly sinceMs: number;
}

/** Sessions in the order of last use: a map keeps insertion order. */
type Lane = Map<SessionActor, Stay>;

/** See the head of the file. */
export class IdleSessions {
  readonly #clock: Clock;
  readonly #sessionsMax: number;
  readonly #leave: (actor: SessionActor) => void;
  readonly #lasting: Lane = new Map();
  readonly #ended: Lane = new Map();
  #tokens = 0;
  #timer: unknown;

  /** `leave`: receives an actor that was removed here. Only `leaveSome` and the timer call it. */
  constructor(clock: Clock, sessionsMax: number, leave: (actor: SessionActor) => void) {
    this.#clock = clock;
    this.#sessionsMax = sessionsMax;
    this.#leave = leave;
  }

  /** Notes a use now, so that the session leaves last. */
  add(actor: SessionActor): void {
    this.delete(actor);
    const stay = { actor, tokens: actor.state.tokens, sinceMs: this.#clock.monotonic() };
    const lane = actor.state.exit === undefined ? this.#lasting : this.#ended;
    lane.set(actor, stay);
    actor.isResting = true;
    this.#tokens += stay.tokens;
    this.#timer ??= this.#clock.setTimer(this.#sweep, SESSION_IDLE_MS);
  }

  /** Removes an actor. True if the list had it. */
  delete(actor: SessionActor): boolean {
    // Nearly every transition calls this, and nearly always for an actor that is not in the list.
    if (!actor.isResting) return false;
    actor.isResting = false;
    return this.#take(this.#lasting, actor) || this.#take(this.#ended, actor);
  }

  /** Removes the oldest sessions until the rest is within the bounds (Q1, Q2). */
  leaveSome(): void {
    this.#shrink(this.#ended, Math.min(ENDED_SESSIONS_MAX, this.#sessionsMax));
    this.#shrink(this.#lasting, this.#sessionsMax);
  }

  /** Stops removing sessions by time. */
  close(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  get #isEmpty(): boolean {
    return this.#lasting.size === 0 && this.#ended.size === 0;
  }

  #take(lane: Lane, actor: SessionActor): boolean {
    const stay = lane.get(actor);
    if (stay === undefined) return false;
    this.#tokens -= stay.tokens;
    return lane.delete(actor);
  }

  #shrink(lane: Lane, sessionsMax: number): void {
    if (lane.size <= sessionsMax && this.#tokens <= HOT_TOKENS_MAX) return;
    const sessionsKept = sessionsMax - Math.floor(sessionsMax / LEAVING_SHARE);
    const tokensKept = HOT_TOKENS_MAX - HOT_TOKENS_MAX / LEAVING_SHARE;
    this.#leaveWhile(lane, () => lane.size > sessionsKept || this.#tokens > tokensKept);
  }

  #sweep = (): void => {
    this.#timer = undefined;
    const usedByMs = this.#clock.monotonic() - SESSION_IDLE_MS;
    this.#leaveWhile(this.#ended, ({ sinceMs }) => sinceMs <= usedByMs);
    this.#leaveWhile(this.#lasting, ({ sinceMs }) => sinceMs <= usedByMs);
    if (!this.#isEmpty) this.#timer = this.#clock.setTimer(this.#sweep, SESSION_IDLE_MS / 2);
  };

  /** Removes sessions, oldest first, up to the first one that stays. */
  #leaveWhile(lane: Lane, leaves: (oldest: Stay) => boolean): void {
    for (const stay of lane.values()) {
      if (!leaves(stay)) return;
      this.delete(stay.actor);
      this.#leave(stay.actor);
    }
  }
}
