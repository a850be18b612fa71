/** Decides whether a failed call of a tool runs again, and how long the call waits before that. Pure. */
import {
  RETRY_JITTER,
  TOOL_ATTEMPTS_MAX,
  TOOL_RETRY_BASE_MS,
  TOOL_RETRY_MAXIMUM_MS,
  TOOL_RETRY_WAIT_MS_MAX,
} from '../base/bounds.ts';
import type { Random } from '../base/clock.ts';
import { ConfigError, describeValue } from '../base/errors.ts';
import { growingWait } from '../base/growing-wait.ts';
import { isRecord } from '../base/json.ts';
import type { Effect, ToolFailure, ToolOutcome, ToolRetry } from './tool.ts';

/** The checked option `retry` of a tool, defaults filled in. */
export type RetryPolicy = Required<ToolRetry>;

const FAILURES: readonly ToolFailure[] = ['failure', 'timeout', 'lost'];
const KEYS: ReadonlySet<string> = new Set(['attempts', 'baseMs', 'factor', 'maximumMs', 'on']);
const FACTOR_DEFAULT = 2;

/** The policy of a tool's `retry`. Throws `ConfigError` that names the tool, the key and the remedy. */
export function retryPolicy(retry: unknown, effect: Effect, label: string): RetryPolicy {
  if (!isRecord(retry)) throw refusal(label, 'retry', 'an object such as { attempts: 3 }', retry);
  if (effect !== 'pure' && effect !== 'keyed') {
    const why = `a "${effect}" call may have taken effect when it fails`;
    throw new ConfigError(
      `${label}: retry needs effect "pure" or "keyed", since ${why}; declare that effect, or leave retry out`,
      { data: { key: 'retry', effect } },
    );
  }
  for (const key of Object.keys(retry)) {
    if (!KEYS.has(key)) throw new ConfigError(`${label}: unknown key retry.${key}`, { data: { key: `retry.${key}` } });
  }
  const { attempts, baseMs = TOOL_RETRY_BASE_MS, factor = FACTOR_DEFAULT, on = FAILURES } = retry;
  const { maximumMs = Math.max(TOOL_RETRY_MAXIMUM_MS, Number(baseMs)) } = retry;
  if (!isWithin(attempts, 1, TOOL_ATTEMPTS_MAX) || !Number.isInteger(attempts))
    throw refusal(
      label,
      'retry.attempts',
      `an integer from 1 to ${TOOL_ATTEMPTS_MAX}, the first one included`,
      attempts,
    );
  if (!isWithin(baseMs, 0, TOOL_RETRY_WAIT_MS_MAX))
    throw refusal(label, 'retry.baseMs', `0 to ${TOOL_RETRY_WAIT_MS_MAX} milliseconds`, baseMs);
  if (!isWithin(factor, 1, Number.MAX_SAFE_INTEGER)) throw refusal(label, 'retry.factor', 'a number from 1', factor);
  if (!isWithin(maximumMs, baseMs, TOOL_RETRY_WAIT_MS_MAX)) {
    const form = `milliseconds from baseMs (${baseMs}) to ${TOOL_RETRY_WAIT_MS_MAX}`;
    throw refusal(label, 'retry.maximumMs', form, maximumMs);
  }
  if (!isFailures(on)) throw refusal(label, 'retry.on', `a list of some of ${FAILURES.join(', ')}`, on);
  return { attempts, baseMs, factor, maximumMs, on: [...on] };
}

/**
 * Milliseconds until the next attempt of a call whose attempt number `attempt` (from 1) has failed; undefined if the
 * outcome stands.
 */
export function retryWaitMs(
  policy: RetryPolicy | undefined,
  attempt: number,
  { failed }: Pick<ToolOutcome, 'failed'>,
  random: Random,
): number | undefined {
  if (policy === undefined || failed === undefined) return undefined;
  if (attempt >= policy.attempts || !policy.on.includes(failed)) return undefined;
  const { baseMs: first, maximumMs: longest, factor } = policy;
  return Math.round(growingWait(attempt, { first, longest, factor }) * (1 + RETRY_JITTER * random()));
}

/**
 * False for a thrown error whose `retryable` is false: another attempt cannot succeed. In this library's errors
 * `retryable` is false by default. Accepts anything, never throws.
 */
export function mayRetryAfter(thrown: unknown): boolean {
  try {
    return !(typeof thrown === 'object' && thrown !== null && Reflect.get(thrown, 'retryable') === false);
  } catch {
    // A getter or a proxy of the error threw.
    return true;
  }
}

function isWithin(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && value >= min && value <= max;
}

function isFailures(value: unknown): value is readonly ToolFailure[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => FAILURES.includes(each as ToolFailure));
}

function refusal(label: string, key: string, form: string, value: unknown): ConfigError {
  return new ConfigError(`${label}: ${key} must be ${form}, got ${describeValue(value)}`, { data: { key } });
}
