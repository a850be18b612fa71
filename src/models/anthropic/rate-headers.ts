/** Reads the rate-limit headers of the API (`anthropic-ratelimit-…`). Pure. */
import { RATE_RESET_MS_MAX } from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import type { RateLimit, RateLimits } from '../provider.ts';
import { tokenCount } from '../usage.ts';

/** The rates by their names in the headers. `tokens` is the most restrictive limit of the moment. */
const RATES = [
  ['requests', 'requests'],
  ['tokens', 'tokens'],
  ['inputTokens', 'input-tokens'],
  ['outputTokens', 'output-tokens'],
] as const;

/**
 * The limits that an answer or an error reports; undefined if it reports none. `nowMs`: epoch ms at which the headers
 * arrived. A faulty count leaves out the whole rate; a faulty time leaves out only `resetMs`.
 */
export function readRateLimits(headers: unknown, nowMs: number): RateLimits | undefined {
  if (!(headers instanceof Headers)) return undefined;
  let limits: Draft<RateLimits> | undefined;
  for (const [key, name] of RATES) {
    const rate = readRate(headers, `anthropic-ratelimit-${name}`, nowMs);
    if (rate === undefined) continue;
    limits ??= {};
    limits[key] = rate;
  }
  return limits;
}

function readRate(headers: Headers, name: string, nowMs: number): RateLimit | undefined {
  const limit = readCount(headers.get(`${name}-limit`));
  const remaining = readCount(headers.get(`${name}-remaining`));
  if (limit === undefined || remaining === undefined) return undefined;
  const rate: Draft<RateLimit> = { limit, remaining };
  const resetAt = Date.parse(headers.get(`${name}-reset`) ?? '');
  if (Number.isFinite(resetAt)) rate.resetMs = Math.min(Math.max(0, resetAt - nowMs), RATE_RESET_MS_MAX);
  return rate;
}

function readCount(text: string | null): number | undefined {
  return text === null || text.trim() === '' ? undefined : tokenCount(Number(text));
}
