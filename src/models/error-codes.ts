/**
 * The error codes of the API (`error.details.error_code`), which stay the same when statuses and messages change. Pure.
 * Source: the API's error reference and the SDK's types, November 2026.
 */

/**
 * The remedy of a failed call. `retry`: wait and repeat it. `stop`: all calls of this key fail until a person acts.
 * `fix`: only this request is refused.
 */
export type Remedy = 'retry' | 'stop' | 'fix';

const RETRY: ReadonlySet<string> = new Set([
  ...['ramp_limit_exceeded', 'cmek_key_unreachable', 'cmek_context_unavailable'],
  ...['request_body_timeout', 'compaction_unavailable'],
]);
/** Codes of a spending limit. The server may say when the limit ends. */
const SPEND_LIMITS: ReadonlySet<string> = new Set([
  ...['enforced_spend_limit_reached', 'contract_spend_limit_reached', 'linked_organization_spend_limit_reached'],
]);
const STOP: ReadonlySet<string> = new Set([
  ...['linked_organization_billing_unavailable', 'cmek_key_disabled', 'cmek_key_network_blocked'],
  ...['organization_on_hold', 'organization_not_enrolled_in_beta', 'organization_type_not_supported'],
  'parent_organization_required',
]);
const FIX: ReadonlySet<string> = new Set([
  ...['request_body_encoding_invalid', 'request_body_encoding_unsupported', 'unsupported_charset'],
  ...['request_body_too_large_after_decoding', 'tool_reference_unresolved', 'tool_name_conflict'],
  ...['available_tools_limit_exceeded', 'image_dimensions_too_large'],
]);
const PREFIXES: readonly (readonly [string, Remedy])[] = [
  ['claude_code_', 'stop'],
  ['compaction_', 'fix'],
  ['thread_', 'fix'],
];

/** The beginning of the message when a limit that the customer set is reached. The API has no code for this failure. */
const OWN_LIMIT = /^You have reached your specified API usage limits/u;
const OWN_LIMIT_STATUS = 400;

/** The remedy by the code of a failure; undefined if the status of the failure decides. */
export function remedyOf(failure: {
  readonly errorCode?: string;
  readonly status?: number | undefined;
  readonly message: string;
  readonly retryAfterMs?: number;
}): Remedy | undefined {
  const { errorCode: code } = failure;
  if (code === undefined) {
    return failure.status === OWN_LIMIT_STATUS && OWN_LIMIT.test(failure.message) ? 'stop' : undefined;
  }
  if (RETRY.has(code)) return 'retry';
  // If the server says when the limit ends, waiting is enough.
  if (SPEND_LIMITS.has(code)) return failure.retryAfterMs === undefined ? 'stop' : 'retry';
  if (STOP.has(code)) return 'stop';
  if (FIX.has(code)) return 'fix';
  return PREFIXES.find(([prefix]) => code.startsWith(prefix))?.[1];
}
