/**
 * The sessions of a shard with calls that wait for a person. So a list of these calls reads no other session.
 *
 * Owns: the ids of these sessions, and the times at which their calls began to wait, as last noted. Does not own: the
 * calls. The state of a session says which calls wait, and a list of calls reads that state.
 * Invariants:
 *  P1 once the interrupted sessions have been read, every session whose log has a waiting call is noted here. Such a
 *     session is never idle. So its head is marked as runnable, or it changed after the last checkpoint. Each start
 *     reads both kinds of sessions;
 *  P2 a session may be noted here without a waiting call, because a transition of a dropped actor may not have reached
 *     the disk. The next list reads such a session.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { isPersonAwaited, queuedCalls } from '../../session/rules/queued-calls.ts';

/**
 * A session that is noted here. `oldest`, `newest`: epoch ms at which its first and its last waiting call began to
 * wait.
 */
export interface PersonWait {
  readonly session: string;
  readonly calls: number;
  readonly oldest: number;
  readonly newest: number;
}

/** See the head of the file. */
export class PersonWaits {
  readonly #known = new Map<string, PersonWait>();
  #calls = 0;

  /** The number of calls that wait. */
  get calls(): number {
    return this.#calls;
  }

  /** All noted sessions, in no order. */
  all(): Iterable<PersonWait> {
    return this.#known.values();
  }

  /** Notes the present state of a session. */
  note({ id, state }: SessionActor): void {
    if (!isPersonAwaited(state)) {
      // In nearly every transition, no session of the shard has a waiting call.
      if (this.#known.size > 0) this.forget(id);
      return;
    }
    const times = queuedCalls(state, null).map(({ call }) => call.at);
    this.#put({ session: id, calls: times.length, oldest: Math.min(...times), newest: Math.max(...times) });
  }

  /** Called when a session's state in memory may differ from its log (P2). */
  doubt({ id, state }: SessionActor): void {
    // If no call of the session ever waited for a person, none can wait now.
    if (state.approvals === undefined) return;
    const calls = this.#known.get(id)?.calls ?? 0;
    this.#put({ session: id, calls, oldest: 0, newest: Number.POSITIVE_INFINITY });
  }

  /** Called when the session has no waiting call, or is gone. */
  forget(session: string): void {
    this.#calls -= this.#known.get(session)?.calls ?? 0;
    this.#known.delete(session);
  }

  #put(wait: PersonWait): void {
    this.#calls += wait.calls - (this.#known.get(wait.session)?.calls ?? 0);
    this.#known.set(wait.session, wait);
  }
}
