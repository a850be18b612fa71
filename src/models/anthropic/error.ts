/** Converts errors of the vendor's SDK and of the platform's fetch into our own error classes. Pure. */
import { ERROR_CODE_CHARACTERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError, errorFromShape, errorShape, ModelInvalidRequestError, TroupeError } from '../../base/errors.ts';
import { cutText, isRecord } from '../../base/json.ts';
import { modelErrorOf } from '../model-error.ts';
import { retryAfter } from '../retry-after.ts';
import { readRateLimits } from './rate-headers.ts';

/** The longest chain of causes that is searched. */
const CAUSES_MAX = 8;
const HIDDEN = '[redacted]';

/**
 * The error of a failed call. `secrets` are redacted from its message, and a cause that holds a secret is left out
 * (N3). `nowMs`: epoch ms, for a `retry-after` that is a date. The SDK's error classes are recognised by shape, because
 * the SDK is loaded only at the first call.
 */
export function anthropicError(thrown: unknown, secrets: readonly string[], nowMs: number): TroupeError {
  if (thrown instanceof TroupeError) return withoutSecrets(thrown, secrets);
  const error = asError(thrown);
  const fields: Readonly<Record<string, unknown>> = isRecord(error) ? error : {};
  const cause = holdsSecret(error, secrets) ? {} : { cause: error };
  const status = fields['status'];
  if (typeof status === 'number') {
    const { headers } = fields;
    const reported = apiError(fields);
    const errorCode = errorCodeOf(reported);
    const rateLimits = readRateLimits(headers, nowMs);
    return modelErrorOf({
      status,
      message: redact(typeof reported['message'] === 'string' ? reported['message'] : error.message, secrets),
      ...(typeof fields['type'] === 'string' ? { type: redact(fields['type'], secrets) } : {}),
      ...(errorCode === undefined ? {} : { errorCode: redact(errorCode, secrets) }),
      ...defined({ retryAfterMs: retryAfter(headers, nowMs), shouldRetry: shouldRetry(headers) }),
      ...(rateLimits === undefined ? {} : { data: { rateLimits } }),
      ...cause,
    });
  }
  const message = redact(describe(error), secrets);
  if (error.name === 'APIConnectionTimeoutError') {
    // The SDK's own timeout expired, or a connection took too long: no byte had arrived.
    return modelErrorOf({ code: 'model_timeout', message, data: { phase: 'ttfb' }, ...cause });
  }
  if (error.name === 'APIConnectionError' || isNetworkError(error)) {
    const network = networkCode(error);
    const data = network === undefined ? {} : { data: { network } };
    return modelErrorOf({ code: 'model_connection', message, ...data, ...cause });
  }
  // The error was thrown before anything was sent, for an invalid header or address.
  return new ModelInvalidRequestError(message, cause);
}

/** The server's own judgement; undefined without the header `x-should-retry`. */
function shouldRetry(headers: unknown): boolean | undefined {
  const said = headers instanceof Headers ? headers.get('x-should-retry') : null;
  return said === 'true' ? true : said === 'false' ? false : undefined;
}

/** The API's own code of an error (`details.error_code`), if it has one. */
export function errorCodeOf(error: Readonly<Record<string, unknown>>): string | undefined {
  const { details } = error;
  const code = isRecord(details) ? details['error_code'] : undefined;
  return typeof code === 'string' && code !== '' ? cutText(code, ERROR_CODE_CHARACTERS_MAX) : undefined;
}

/** The API's own error, if the body was one; otherwise empty. */
function apiError(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const body = fields['error'];
  return isRecord(body) && isRecord(body['error']) ? body['error'] : {};
}

/**
 * True for the platform's network errors: its fetch throws `TypeError` for every network fault, before the body begins
 * and while it is read.
 */
function isNetworkError(error: Error): boolean {
  if (error.name === 'AbortError') return true;
  return error instanceof TypeError && /terminated|fetch failed|socket|network/i.test(error.message);
}

/** The message, followed by the messages of its causes: "Connection error." alone explains nothing. */
function describe(error: Error): string {
  const parts = [error.message];
  let cause: unknown = error.cause;
  for (let depth = 0; depth < CAUSES_MAX && cause instanceof Error; depth += 1) {
    if (!parts.includes(cause.message)) parts.push(cause.message);
    cause = cause.cause;
  }
  // The colon before a cause replaces the full stop of the message.
  const stems = parts.map((part, index) => (index < parts.length - 1 ? part.replace(/[.:\s]+$/, '') : part));
  return stems.filter((part) => part !== '').join(': ');
}

/**
 * One of our own errors with secrets redacted: an error about a stream quotes the server's text. A cause that may quote
 * this text is left out. For example, the JSON parser's error shows part of the text, which may be part of a secret.
 */
function withoutSecrets(error: TroupeError, secrets: readonly string[]): TroupeError {
  const shape = errorShape(error);
  const shapeText = JSON.stringify(shape);
  const keepsCause = !(error.cause instanceof SyntaxError) && !holdsSecret(error, secrets);
  if (keepsCause && redact(shapeText, secrets) === shapeText && redact(shape.message, secrets) === shape.message)
    return error;
  const clean = { ...shape, message: redact(shape.message, secrets) };
  const data: unknown = JSON.parse(redactJson(shape.data ?? {}, secrets));
  return errorFromShape({ ...clean, ...(isRecord(data) ? { data } : {}) }, keepsCause ? error.cause : undefined);
}

function redactJson(value: unknown, secrets: readonly string[]): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'string' ? redact(member, secrets) : member,
  );
}

/** A text may be cut inside a secret. The start of the secret is redacted if it has at least this many characters. */
const SECRET_START_MIN = 4;

/** The system's error code, such as `ECONNREFUSED`: the first code among the causes. */
function networkCode(error: Error): string | undefined {
  let current: unknown = error;
  for (let depth = 0; depth < CAUSES_MAX && current instanceof Error; depth += 1) {
    const code: unknown = isRecord(current) ? current['code'] : undefined;
    if (typeof code === 'string') return code;
    current = current.cause;
  }
  return undefined;
}

function redact(text: string, secrets: readonly string[]): string {
  let rest = text;
  for (const secret of secrets) {
    rest = rest.split(secret).join(HIDDEN);
    // Messages are bounded, and the bound may have cut a secret.
    for (let length = Math.min(secret.length - 1, rest.length); length >= SECRET_START_MIN; length -= 1) {
      if (!rest.endsWith(secret.slice(0, length))) continue;
      rest = rest.slice(0, -length) + HIDDEN;
      break;
    }
  }
  return rest;
}

function holdsSecret(error: Error, secrets: readonly string[]): boolean {
  let current: unknown = error;
  for (let depth = 0; depth < CAUSES_MAX && current instanceof Error; depth += 1) {
    const body = isRecord(current) ? JSON.stringify(current['error'] ?? '') : '';
    const headers = isRecord(current) && current['headers'] instanceof Headers ? [...current['headers']].join(' ') : '';
    const text = `${current.message} ${current.stack ?? ''} ${body} ${headers}`;
    if (secrets.some((secret) => text.includes(secret))) return true;
    current = current.cause;
  }
  return false;
}
