/**
 * Bounds how often a single session may crash: a session whose transitions keep throwing is not read again for ever.
 */
import { SESSION_RESTARTS } from '../../base/bounds.ts';
import { countRestart } from '../../base/restart-intensity.ts';

/** Counts crashes by session. */
export class CrashCounter {
  readonly #monotonic: () => number;
  readonly #times = new Map<string, readonly number[]>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Notes a crash; true while the session may be read again. */
  count(sessionId: string): boolean {
    const { restarts, allowed } = countRestart(this.#times.get(sessionId) ?? [], this.#monotonic(), SESSION_RESTARTS);
    this.#times.set(sessionId, restarts);
    return allowed;
  }
}
