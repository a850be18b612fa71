/**
 * Sessions that a session thread ran out of memory on, again and again. None of them is read from its log any more, so that the
 * others of the thread keep working.
 *
 * Owns: which they are, for as long as the thread lives. Does not own: who counts the deaths (`shard-link.ts`), their logs.
 * Invariant: N1 an isolated session is neither read nor written until `lift`; every request for it is refused with the reason.
 */
import { TroupeError } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';

/** See the head of the file. */
export class IsolatedSessions {
  readonly #keys: Set<SessionKey>;

  constructor(keys: readonly SessionKey[] = []) {
    this.#keys = new Set(keys);
  }

  /** The error everything about this session is refused with; undefined: it is not isolated. */
  errorOf(key: SessionKey, id: string): TroupeError | undefined {
    if (this.#keys.size === 0 || !this.#keys.has(key)) return undefined;
    const message = `session ${JSON.stringify(id)} needs more memory than its thread has, and is left alone; make room (limits.liveBytes, a smaller tokenBudget, a larger heap) and call resume()`;
    return new TroupeError('out_of_memory', message, { data: { session: id } });
  }

  /** Tries the session again. True when it was isolated. */
  lift(key: SessionKey): boolean {
    return this.#keys.delete(key);
  }
}
