/**
 * The server's clock, as far as this page can know it: what it shows are times of the server, and a phone's clock may be minutes
 * off. Answers say the server's time in whole seconds; a difference that small is left alone.
 *
 * Owns: the difference. Does not own: what is shown.
 */

/** Milliseconds up to which the two clocks count as one. */
const TOLERANCE_MS = 2_000;

let aheadMs = 0;

/** Takes the `Date` of an answer; nothing when there is none. */
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
