/**
 * Counts the crashes of each session. A session whose transitions keep throwing must not be read and resumed without
 * end.
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

  /** Notes a crash. True while the session may be resumed at once. */
  count(sessionId: string): boolean {
    const { restarts, allowed } = countRestart(this.#times.get(sessionId) ?? [], this.#monotonic(), SESSION_RESTARTS);
    this.#times.set(sessionId, restarts);
    return allowed;
  }
}
