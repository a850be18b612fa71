/**
 * Idle sessions still in memory, so that a conversation's next message need not read the disk; least recently used first.
 *
 * Owns: their order, and when each was used last. Does not own: the actors; who is told to leave is the shard's to let go.
 *  Q1 at most `ShardBounds.hotSessions` stay, of together at most `HOT_TOKENS_MAX` tokens; over that the oldest leave, some at once,
 *     so that a bound that is met all the time does not cost a walk over the holes at the front of a map each time;
 *  Q2 of children that have ended, whom hardly anybody wakes again, at most `ENDED_SESSIONS_MAX` stay;
 *  Q3 nobody stays for longer than `SESSION_IDLE_MS`, or half as long again, after its last use;
 *  Q4 one timer for all; it ends when it finds nobody here.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { ENDED_SESSIONS_MAX, HOT_TOKENS_MAX, SESSION_IDLE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';

/** Share of the bound that leaves at once. */
const LEAVING_SHARE = 16;

interface Stay {
  readonly actor: SessionActor;
  readonly tokens: number;
  /** Monotonic ms. */
  readonly sinceMs: number;
}

/** Sessions in the order of last use: a map keeps that of insertion. */
type Lane = Map<SessionActor, Stay>;

/** See the head of the file. */
export class QuietSessions {
  readonly #clock: Clock;
  readonly #sessionsMax: number;
  readonly #leave: (actor: SessionActor) => void;
  readonly #lasting: Lane = new Map();
  readonly #ended: Lane = new Map();
  #tokens = 0;
  #timer: unknown;

  /** `leave`: takes one who has been taken out here. Called from `leaveSome` and from the timer only. */
  constructor(clock: Clock, sessionsMax: number, leave: (actor: SessionActor) => void) {
    this.#clock = clock;
    this.#sessionsMax = sessionsMax;
    this.#leave = leave;
  }

  /** Notes a use now; the session is the last to leave. */
  add(actor: SessionActor): void {
    this.delete(actor);
    const stay = { actor, tokens: actor.state.tokens, sinceMs: this.#clock.monotonic() };
    const lane = actor.state.exit === undefined ? this.#lasting : this.#ended;
    lane.set(actor, stay);
    actor.isResting = true;
    this.#tokens += stay.tokens;
    this.#timer ??= this.#clock.setTimer(this.#sweep, SESSION_IDLE_MS);
  }

  /** True when it was here. */
  delete(actor: SessionActor): boolean {
    // Nearly every turn asks, and nearly always of one who is not here.
    if (!actor.isResting) return false;
    actor.isResting = false;
    return this.#take(this.#lasting, actor) || this.#take(this.#ended, actor);
  }

  /** Lets the oldest go until the rest is within its bounds (Q1, Q2). */
  leaveSome(): void {
    this.#shrink(this.#ended, Math.min(ENDED_SESSIONS_MAX, this.#sessionsMax));
    this.#shrink(this.#lasting, this.#sessionsMax);
  }

  /** Nobody leaves any more by time. */
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

  /** Oldest first, up to the first who stays. */
  #leaveWhile(lane: Lane, leaves: (oldest: Stay) => boolean): void {
    for (const stay of lane.values()) {
      if (!leaves(stay)) return;
      this.delete(stay.actor);
      this.#leave(stay.actor);
    }
  }
}
