/**
 * Restart intensity: how many restarts within a period are too many. Supervisors, session threads and single sessions
 * count their restarts by it. Times are monotonic ms. Pure. Source: Erlang/OTP, supervisor, `intensity` and `period`.
 */

/** `intensity` restarts within `periodMs` are allowed; one more is too many. */
export interface RestartIntensity {
  readonly intensity: number;
  readonly periodMs: number;
}

/**
 * The verdict on one more restart. `restarts`: times of the restarts within the period, ascending, including this
 * restart.
 */
export interface IntensityVerdict {
  readonly restarts: readonly number[];
  readonly allowed: boolean;
}

/**
 * Counts a restart at `now`. The restart is allowed if at most `intensity` restarts, including this one, are within the
 * period. A restart exactly `periodMs` ago still counts, as in OTP.
 */
export function countRestart(
  restarts: readonly number[],
  now: number,
  { intensity, periodMs }: RestartIntensity,
): IntensityVerdict {
  const recent = [...restarts.filter((at) => at >= now - periodMs), now];
  return { restarts: recent, allowed: recent.length <= intensity };
}
