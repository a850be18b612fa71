/** What the vendor's SDK and the platform's fetch throw, as errors of the house. Pure. */
import { asError, ModelInvalidRequestError, TroupeError } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import { modelErrorOf } from './model-error.ts';

/** Causes of a cause that are looked at. */
const CAUSES_MAX = 8;
const HIDDEN = '[redacted]';

/**
 * The error of a failed call. `secrets` are cut out of its message, and a cause that holds one is left out (N3). `nowMs`:
 * epoch ms, for a `retry-after` that is a date. The SDK's classes are told by their shape, as it is loaded at the first call.
 */
export function anthropicError(thrown: unknown, secrets: readonly string[], nowMs: number): TroupeError {
  if (thrown instanceof TroupeError) return thrown;
  const error = asError(thrown);
  const fields: Readonly<Record<string, unknown>> = isRecord(error) ? error : {};
  const cause = holdsSecret(error, secrets) ? {} : { cause: error };
  const status = fields['status'];
  if (typeof status === 'number') {
    const retryAfterMs = retryAfter(fields['headers'], nowMs);
    return modelErrorOf({
      status,
      message: redact(apiMessage(fields) ?? error.message, secrets),
      ...(typeof fields['type'] === 'string' ? { type: fields['type'] } : {}),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...cause,
    });
  }
  const message = redact(describe(error), secrets);
  if (error.name === 'APIConnectionTimeoutError') {
    return modelErrorOf({ code: 'model_timeout', message, ...cause });
  }
  if (error.name === 'APIConnectionError' || isNetworkError(error)) {
    return modelErrorOf({ code: 'model_connection', message, ...cause });
  }
  // Thrown before anything was sent: a header or an address that cannot be.
  return new ModelInvalidRequestError(message, cause);
}

/** Milliseconds a server asked to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; undefined without. */
export function retryAfter(headers: unknown, nowMs: number): number | undefined {
  if (!(headers instanceof Headers)) return undefined;
  const exact = Number(headers.get('retry-after-ms') ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const text = headers.get('retry-after');
  if (text === null || text.trim() === '') return undefined;
  const seconds = Number(text);
  const waitMs = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(text) - nowMs;
  return Number.isFinite(waitMs) ? Math.max(0, Math.round(waitMs)) : undefined;
}

/** The API's own words, where the body was one of its errors. */
function apiMessage(fields: Readonly<Record<string, unknown>>): string | undefined {
  const body = fields['error'];
  const error = isRecord(body) && isRecord(body['error']) ? body['error'] : undefined;
  return typeof error?.['message'] === 'string' ? error['message'] : undefined;
}

/** The platform's fetch throws `TypeError` for every fault of the network, before and inside the body. */
function isNetworkError(error: Error): boolean {
  if (error.name === 'AbortError') return true;
  return error instanceof TypeError && /terminated|fetch failed|socket|network/i.test(error.message);
}

/** The message with the codes of its causes: "Connection error." alone tells nobody anything. */
function describe(error: Error): string {
  const parts = [error.message];
  let cause: unknown = error.cause;
  for (let depth = 0; depth < CAUSES_MAX && cause instanceof Error; depth += 1) {
    if (!parts.includes(cause.message)) parts.push(cause.message);
    cause = cause.cause;
  }
  return parts.filter((part) => part !== '').join(': ');
}

function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((rest, secret) => rest.split(secret).join(HIDDEN), text);
}

function holdsSecret(error: Error, secrets: readonly string[]): boolean {
  let current: unknown = error;
  for (let depth = 0; depth < CAUSES_MAX && current instanceof Error; depth += 1) {
    const body = isRecord(current) ? JSON.stringify(current['error'] ?? '') : '';
    const text = `${current.message} ${current.stack ?? ''} ${body}`;
    if (secrets.some((secret) => text.includes(secret))) return true;
    current = current.cause;
  }
  return false;
}
