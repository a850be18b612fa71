/**
 * Restart intensity: how many restarts within a period are too many. Pure. Times are monotonic ms. Supervisors, session threads and
 * single sessions count by it. Source: Erlang/OTP, supervisor, `intensity` and `period`.
 */

/** `intensity` restarts within `periodMs` are allowed; one more is too many. */
export interface RestartIntensity {
  readonly intensity: number;
  readonly periodMs: number;
}

/** The verdict on one more restart. `restarts`: times within the period, ascending, this one included. */
export interface IntensityVerdict {
  readonly restarts: readonly number[];
  readonly allowed: boolean;
}

/**
 * Counts a restart at `now`. Allowed when, this one included, no more than `intensity` lie within the period; one that
 * is exactly `periodMs` old still counts, as in OTP.
 */
export function countRestart(
  restarts: readonly number[],
  now: number,
  { intensity, periodMs }: RestartIntensity,
): IntensityVerdict {
  const recent = [...restarts.filter((at) => at >= now - periodMs), now];
  return { restarts: recent, allowed: recent.length <= intensity };
}
