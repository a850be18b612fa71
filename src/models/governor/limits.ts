/** The limits of a governor, and one shard's share of them. Pure. */
import { ConfigError } from '../../base/errors.ts';

/** The limits of one provider key. A missing member means no limit. Whole numbers from 1. */
export interface GovernorLimits {
  /** Model calls in flight at once. */
  readonly concurrency?: number;
  /** Model calls begun in any 60 seconds. */
  readonly requestsPerMinute?: number;
  /** Input tokens sent in any 60 seconds; tokens read from the provider's cache do not count. */
  readonly inputTokensPerMinute?: number;
  /** Output tokens received in any 60 seconds. */
  readonly outputTokensPerMinute?: number;
}

const KEYS = ['concurrency', 'requestsPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute'] as const;

/**
 * The share of shard `index` of `count`. The limits are divided, so that all shards together keep them without
 * communicating. An unused share does not pass to other shards. Shares differ by one if a limit does not divide evenly.
 * Throws a `ConfigError` that names the key if a limit is smaller than `count`, because a shard without a share could
 * never make a call. `option`: the option that holds the limits, for the error.
 */
export function shareOfLimits(
  limits: GovernorLimits,
  index: number,
  count: number,
  option: string = 'governor',
): GovernorLimits {
  const share: { -readonly [Key in keyof GovernorLimits]: number } = {};
  for (const key of KEYS) {
    const limit = limits[key];
    if (limit === undefined) continue;
    if (limit < count) {
      const name = `${option}.${key}`;
      const expected = `must be at least the number of session threads, ${count}`;
      throw new ConfigError(`option ${JSON.stringify(name)}: ${expected}; got number ${limit}`, {
        data: { key: name },
      });
    }
    share[key] = Math.floor(limit / count) + (index < limit % count ? 1 : 0);
  }
  return share;
}
