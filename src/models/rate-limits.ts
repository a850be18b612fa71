/** Parses a value of any shape into the rate limits that a provider reported. Pure. */
import type { Draft } from '../base/draft.ts';
import { isRecord } from '../base/json.ts';
import type { RateLimits } from './provider.ts';
import { tokenCount } from './usage.ts';

const RATES = ['requests', 'tokens', 'inputTokens', 'outputTokens'] as const;

/** The rate limits that a provider reports; a faulty limit is left out. */
export function readRateLimits(value: unknown): RateLimits | undefined {
  if (!isRecord(value)) return undefined;
  const limits: Draft<RateLimits> = {};
  for (const key of RATES) {
    const rate = value[key];
    if (!isRecord(rate)) continue;
    const [limit, remaining, resetMs] = [rate['limit'], rate['remaining'], rate['resetMs']].map(tokenCount);
    if (limit === undefined || remaining === undefined) continue;
    limits[key] = resetMs === undefined ? { limit, remaining } : { limit, remaining, resetMs };
  }
  return Object.keys(limits).length === 0 ? undefined : limits;
}
