/** The limits of a governor, and one shard's share of them. Pure. */
import { ConfigError } from '../../base/errors.ts';

/** What one provider key allows; a missing one has no limit. Whole numbers from 1. */
export interface GovernorLimits {
  /** Model calls on their way at once. */
  readonly concurrency?: number;
  /** Model calls begun in any 60 seconds. */
  readonly requestsPerMinute?: number;
  /** Input tokens sent in any 60 seconds, those answered from the provider's cache not counted. */
  readonly inputTokensPerMinute?: number;
  /** Output tokens received in any 60 seconds. */
  readonly outputTokensPerMinute?: number;
}

const KEYS = ['concurrency', 'requestsPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute'] as const;

/**
 * What shard `index` of `count` may use: the limits divided, so that together the shards keep them without a word between them;
 * what one of them leaves unused the others do not get. Shares differ by one where a limit does not divide. Throws `ConfigError`
 * naming the key when a limit is smaller than `count`, as a shard without a share could never call.
 */
export function shareOfLimits(limits: GovernorLimits, index: number, count: number): GovernorLimits {
  const share: { -readonly [Key in keyof GovernorLimits]: number } = {};
  for (const key of KEYS) {
    const limit = limits[key];
    if (limit === undefined) continue;
    if (limit < count) {
      const name = `governor.${key}`;
      const expected = `must be at least the number of session threads the store was made with, ${count}`;
      throw new ConfigError(`option ${JSON.stringify(name)}: ${expected}; got number ${limit}`, {
        data: { key: name },
      });
    }
    share[key] = Math.floor(limit / count) + (index < limit % count ? 1 : 0);
  }
  return share;
}
