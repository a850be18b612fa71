/** Restart intensity of single sessions: one whose turns keep throwing is not read again for ever (supervisor's words). */

/** Restarts allowed within the period: OTP's default of one in five seconds, and some patience for a burst. */
const RESTARTS_MAX = 5;
const PERIOD_MS = 60_000;

/** Counts crashes by session. */
export class CrashCounter {
  readonly #monotonic: () => number;
  readonly #times = new Map<string, number[]>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Notes a crash; true while the session may be read again. */
  count(sessionId: string): boolean {
    const now = this.#monotonic();
    const recent = (this.#times.get(sessionId) ?? []).filter((time) => now - time < PERIOD_MS);
    recent.push(now);
    this.#times.set(sessionId, recent);
    return recent.length <= RESTARTS_MAX;
  }
}
