/**
 * Sessions on which a session thread ran out of memory repeatedly. They are not read from their logs any more, so that
 * the other sessions of the thread keep working.
 *
 * Owns: the keys of these sessions, while the thread lives. Does not own: the count of thread deaths
 * (`shard-deaths.ts`), the logs of the sessions. Invariant: N1 an isolated session is neither read nor written until
 * `lift`; every request for it is refused with the reason.
 */
import { TroupeError } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';

/** See the head of the file. */
export class IsolatedSessions {
  readonly #keys: Set<SessionKey>;

  constructor(keys: readonly SessionKey[] = []) {
    this.#keys = new Set(keys);
  }

  /** The error that refuses every request for this session; undefined if the session is not isolated. */
  errorOf(key: SessionKey, id: string): TroupeError | undefined {
    if (this.#keys.size === 0 || !this.#keys.has(key)) return undefined;
    const message = `session ${JSON.stringify(id)} needs more memory than its thread has and is blocked; make room (limits.liveBytes, a smaller tokenBudget, a larger heap) and call resume()`;
    return new TroupeError('out_of_memory', message, { data: { session: id } });
  }

  /** Ends the isolation of a session, so that it is tried again. True if it was isolated. */
  lift(key: SessionKey): boolean {
    return this.#keys.delete(key);
  }
}
