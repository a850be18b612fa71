/** How long a model server asks its callers to wait. Pure. */
import { RETRY_AFTER_MS_MAX } from '../base/bounds.ts';

/**
 * The milliseconds a server asked to wait, at most `RETRY_AFTER_MS_MAX`. Read from the header `retry-after-ms`, or from
 * `retry-after`, which has seconds or a date. Undefined if there is no such header, or if its value cannot be read.
 * `headers`: those of a response; `nowMs`: epoch ms.
 */
export function retryAfter(headers: unknown, nowMs: number): number | undefined {
  if (!(headers instanceof Headers)) return undefined;
  const exact = Number(headers.get('retry-after-ms') ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return Math.min(Math.round(exact), RETRY_AFTER_MS_MAX);
  const text = headers.get('retry-after');
  if (text === null || text.trim() === '') return undefined;
  const seconds = Number(text);
  const waitMs = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(text) - nowMs;
  return Number.isFinite(waitMs) ? Math.min(Math.max(0, Math.round(waitMs)), RETRY_AFTER_MS_MAX) : undefined;
}
