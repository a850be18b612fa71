/**
 * Estimates the server's clock. The page shows times of the server, and the clock of the browser's device may be
 * minutes off. Answers carry the server's time in whole seconds, so a difference of at most `TOLERANCE_MS` is ignored.
 *
 * Owns: the difference. Does not own: the display.
 */

/** Maximum difference in milliseconds at which the two clocks count as equal. */
const TOLERANCE_MS = 2_000;

let aheadMs = 0;

/** Takes the `Date` header of an answer. A missing header is ignored. */
export function noteServerDate(header: string | null): void {
  const at = header === null ? Number.NaN : Date.parse(header);
  if (Number.isNaN(at)) return;
  const difference = at - Date.now();
  aheadMs = Math.abs(difference) > TOLERANCE_MS ? difference : 0;
}

/** Epoch ms by the server's clock. */
export function serverNow(): number {
  return Date.now() + aheadMs;
}
