/**
 * Reads the usage of an answer from any value. Pure.
 *
 * The API reports the tokens of compactions, advisors and fallback models only in `iterations`. The four counters that
 * everything else sums are therefore raised to the sum of the iterations, so that no token is missing from a ledger.
 */
import { USAGE_COUNTERS_MAX, USAGE_ITERATIONS_MAX, USAGE_NAME_CHARACTERS_MAX } from '../base/bounds.ts';
import type { Draft } from '../base/draft.ts';
import { isRecord } from '../base/json.ts';
import type { CacheCreation, Usage, UsageIteration } from '../base/messages.ts';

type Fields = Readonly<Record<string, unknown>>;

const NOTHING: Fields = {};
const OPTIONAL_COUNTERS = ['cache_creation_input_tokens', 'cache_read_input_tokens'] as const;
const LIFETIMES = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'] as const;
const WORDS = ['service_tier', 'speed', 'inference_geo'] as const;

/**
 * The usage that a value describes. A missing or faulty `input_tokens` or `output_tokens` becomes zero; other faulty
 * members are left out.
 */
export function readUsage(value: unknown): Usage {
  const fields = isRecord(value) ? value : NOTHING;
  const usage = readCounters(fields) as Draft<Usage>;
  const iterations = readIterations(fields['iterations']);
  if (iterations.length > 0) raise(usage, sumOf(iterations));
  const details = fields['output_tokens_details'];
  const thinking = isRecord(details) ? tokenCount(details['thinking_tokens']) : undefined;
  if (thinking !== undefined) usage.output_tokens_details = { thinking_tokens: thinking };
  const served = readServed(fields['server_tool_use']);
  if (served !== undefined) usage.server_tool_use = served;
  for (const key of WORDS) {
    const word = fields[key];
    if (isName(word)) usage[key] = word;
  }
  if (iterations.length > 0) usage.iterations = iterations.slice(0, USAGE_ITERATIONS_MAX);
  return usage;
}

/** A token count; undefined when the value is null, negative, fractional or too large for an integer. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The counters that an answer and each of its iterations have. */
type Counted = Omit<UsageIteration, 'type' | 'model'>;

function readCounters(fields: Fields): Draft<Counted> {
  const counted: Draft<Counted> = {
    input_tokens: tokenCount(fields['input_tokens']) ?? 0,
    output_tokens: tokenCount(fields['output_tokens']) ?? 0,
  };
  for (const key of OPTIONAL_COUNTERS) {
    const count = tokenCount(fields[key]);
    if (count !== undefined) counted[key] = count;
  }
  const split = readSplit(fields['cache_creation']);
  if (split !== undefined) counted.cache_creation = split;
  return counted;
}

function readSplit(value: unknown): CacheCreation | undefined {
  if (!isRecord(value)) return undefined;
  const split: Draft<CacheCreation> = {};
  for (const key of LIFETIMES) {
    const count = tokenCount(value[key]);
    if (count !== undefined) split[key] = count;
  }
  return Object.keys(split).length === 0 ? undefined : split;
}

function readServed(value: unknown): Readonly<Record<string, number>> | undefined {
  if (!isRecord(value)) return undefined;
  const served = new Map<string, number>();
  for (const [name, member] of Object.entries(value)) {
    const count = tokenCount(member);
    if (count !== undefined && isName(name) && served.size < USAGE_COUNTERS_MAX) served.set(name, count);
  }
  return served.size === 0 ? undefined : Object.fromEntries(served);
}

function readIterations(value: unknown): readonly UsageIteration[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isRecord).map((each) => {
    const { type, model } = each;
    return {
      type: isName(type) ? type : 'message',
      ...(isName(model) ? { model } : {}),
      ...readCounters(each),
    };
  });
}

function sumOf(iterations: readonly UsageIteration[]): Counted {
  const sum: Draft<Counted> = { input_tokens: 0, output_tokens: 0 };
  for (const each of iterations) {
    sum.input_tokens += each.input_tokens;
    sum.output_tokens += each.output_tokens;
    for (const key of OPTIONAL_COUNTERS) {
      const count = each[key];
      if (count !== undefined) sum[key] = (sum[key] ?? 0) + count;
    }
    const split = each.cache_creation;
    if (split !== undefined) sum.cache_creation = addSplits(sum.cache_creation, split);
  }
  return sum;
}

function addSplits(a: CacheCreation = {}, b: CacheCreation): CacheCreation {
  const sum: Draft<CacheCreation> = { ...a };
  for (const key of LIFETIMES) {
    const count = b[key];
    if (count !== undefined) sum[key] = (sum[key] ?? 0) + count;
  }
  return sum;
}

/**
 * Raises counters to a sum, never lowers them: a usage may be read again after its list of iterations was shortened.
 */
function raise(usage: Draft<Usage>, sum: Counted): void {
  usage.input_tokens = Math.max(usage.input_tokens, sum.input_tokens);
  usage.output_tokens = Math.max(usage.output_tokens, sum.output_tokens);
  for (const key of OPTIONAL_COUNTERS) {
    const count = sum[key];
    if (count !== undefined) usage[key] = Math.max(usage[key] ?? 0, count);
  }
  const split = sum.cache_creation;
  if (split === undefined) return;
  const raised: Draft<CacheCreation> = { ...usage.cache_creation };
  for (const key of LIFETIMES) {
    const count = split[key];
    if (count !== undefined) raised[key] = Math.max(raised[key] ?? 0, count);
  }
  usage.cache_creation = raised;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= USAGE_NAME_CHARACTERS_MAX;
}
