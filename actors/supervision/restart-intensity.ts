/**
 * The window of restart intensity (how often is too often), and the back-off of transient faults (how long to wait).
 * Pure. Times are monotonic ms. Source of the window: Erlang/OTP, supervisor, `intensity` and `period`.
 */
import type { Backoff, SupervisorOptions } from './child-spec.ts';

/** The verdict on one more restart. `restarts`: times within the period, ascending, at most `intensity + 1`. */
export interface IntensityVerdict {
  readonly restarts: readonly number[];
  readonly allowed: boolean;
}

/**
 * Counts a restart at `now`. It is allowed if, including this one, at most `intensity` lie within the period. A restart
 * that is exactly `periodMs` old still counts, as in OTP.
 */
export function countRestart(
  restarts: readonly number[],
  now: number,
  options: Pick<SupervisorOptions, 'intensity' | 'periodMs'>,
): IntensityVerdict {
  const recent = [...restarts.filter((at) => at >= now - options.periodMs), now];
  return { restarts: recent, allowed: recent.length <= options.intensity };
}

/**
 * Milliseconds to wait before the restart after the `attempt`-th transient fault in a row (from 1). The jitter is
 * derived from the child's id and the attempt. The decision stays a function of its input, and children that failed
 * together still restart at different times.
 */
export function backoffMs(backoff: Backoff, id: string, attempt: number): number {
  const full = Math.min(backoff.maxMs, backoff.minMs * backoff.factor ** (attempt - 1));
  const share = hashText(`${id}#${attempt}`) / 2 ** 32;
  return Math.round(full * (1 - backoff.jitter * share));
}

/** FNV-1a over the UTF-16 units of a text: an unsigned 32-bit number. It spreads values; it is not secure. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  // The last units reach the high bits only by further mixing; the table of children uses the low ones.
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
