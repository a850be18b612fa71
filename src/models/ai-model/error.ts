/**
 * Maps errors of the AI SDK and its providers to our own error classes. Errors are recognised by shape: no package of
 * the AI SDK is loaded here, and an application may have several versions of such a package. The cause is left out,
 * because an `APICallError` holds the whole request. Pure.
 */
import { ERROR_CODE_CHARACTERS_MAX, ERROR_MESSAGE_CHARACTERS_MAX, RETRY_AFTER_MS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError, type ModelErrorCode, TroupeError } from '../../base/errors.ts';
import { cutText, isRecord } from '../../base/json.ts';
import { type ModelFailure, modelErrorOf } from '../model-error.ts';
import { retryAfter } from '../retry-after.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Codes that mean: every call with this key fails until a person acts. Source: the error references of the vendors. */
const STOPS: ReadonlySet<unknown> = new Set([
  ...['insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active', 'account_deactivated'],
  ...['invalid_api_key', 'API_KEY_INVALID', 'SERVICE_DISABLED', 'BILLING_DISABLED'],
]);
/** Statuses for errors inside a stream, by code or type. Such an error has no status itself. */
const STATUS_BY_CODE: ReadonlyMap<unknown, number> = new Map<unknown, number>([
  ['rate_limit_exceeded', 429],
  ['tokens', 429],
  ['requests', 429],
  ['server_error', 500],
  ['overloaded_error', 529],
  ['context_length_exceeded', 400],
  ['invalid_prompt', 400],
  ['invalid_request_error', 400],
  ['invalid_image', 400],
  ['authentication_error', 401],
]);
/** Errors of the AI SDK itself, by name: those that a repetition cannot fix, and those about a faulty answer. */
const CODE_BY_NAME: ReadonlyMap<string, ModelErrorCode> = new Map<string, ModelErrorCode>([
  ['AI_LoadAPIKeyError', 'model_authentication'],
  ['AI_LoadSettingError', 'model_authentication'],
  ['AI_InvalidArgumentError', 'model_invalid_request'],
  ['AI_InvalidPromptError', 'model_invalid_request'],
  ['AI_UnsupportedFunctionalityError', 'model_invalid_request'],
  ['AI_NoSuchModelError', 'model_invalid_request'],
  ['AI_EmptyResponseBodyError', 'model_protocol'],
  ['AI_InvalidResponseDataError', 'model_protocol'],
  ['AI_JSONParseError', 'model_protocol'],
  ['AI_NoContentGeneratedError', 'model_protocol'],
  ['AI_TypeValidationError', 'model_protocol'],
]);

/**
 * The error of a failed call. `nowMs`: epoch ms, for a `retry-after` that is a date. An unknown error counts as a lost
 * connection, because the providers' `fetch` reports lost connections as plain errors. The call may be repeated.
 */
export function aiModelError(thrown: unknown, nowMs: number): TroupeError {
  if (thrown instanceof TroupeError) return thrown;
  const fields: Fields = isRecord(thrown) ? thrown : {};
  const status = fields['statusCode'];
  if (typeof status === 'number') return modelErrorOf(apiFailure(fields, status, nowMs));
  if (!(thrown instanceof Error)) return modelErrorOf(streamFailure(thrown));
  const code = CODE_BY_NAME.get(thrown.name);
  const message = asError(thrown).message;
  if (code !== undefined) return modelErrorOf({ code, message });
  return modelErrorOf({ code: 'model_connection', message, ...networkOf(thrown) });
}

/** The failure for a refusal of the server (an `APICallError`). */
function apiFailure(fields: Fields, status: number, nowMs: number): ModelFailure {
  const { responseHeaders, responseBody, isRetryable } = fields;
  const body = errorOfBody(responseBody);
  const code = codeOf(body);
  const isStop = STOPS.has(code) || reasonsOf(body).some((reason) => STOPS.has(reason));
  const given = headersOf(responseHeaders);
  const retryAfterMs = retryAfter(given, nowMs) ?? retryInfo(body);
  const failure: ModelFailure = {
    status,
    message: messageOf(fields, status),
    ...defined({ retryAfterMs, errorCode: code }),
  };
  if (isStop) return { ...failure, code: 'model_authentication' };
  // The provider may know that its server uses this status for a temporary failure.
  return isRetryable === true && status < 500 ? { ...failure, shouldRetry: true } : failure;
}

/** The failure for an error inside a stream. The error is an object of the server's own form, or a text. */
function streamFailure(thrown: unknown): ModelFailure {
  const body = isRecord(thrown) ? errorOf(thrown) : {};
  const code = codeOf(body);
  const message = typeof body['message'] === 'string' ? body['message'] : textOf(thrown);
  const numeric = Number(body['status'] ?? body['code']);
  const byCode = STATUS_BY_CODE.get(code) ?? STATUS_BY_CODE.get(body['type']);
  const status = byCode ?? (Number.isInteger(numeric) && numeric >= 400 && numeric < 600 ? numeric : 500);
  const failure: ModelFailure = { status, message, ...defined({ errorCode: code }) };
  return STOPS.has(code) ? { ...failure, code: 'model_authentication' } : failure;
}

/** The server's error object: `value.error`, `value.response.error`, or the value itself. */
function errorOf(value: Fields): Fields {
  if (isRecord(value['error'])) return value['error'];
  const response = value['response'];
  return isRecord(response) && isRecord(response['error']) ? response['error'] : value;
}

function errorOfBody(body: unknown): Fields {
  if (typeof body !== 'string') return {};
  try {
    const parsed: unknown = JSON.parse(body);
    const first: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
    return isRecord(first) ? errorOf(first) : {};
  } catch {
    // A gateway may answer with a page of HTML: the status decides.
    return {};
  }
}

function codeOf({ code, type }: Fields): string | undefined {
  const found = [code, type].find((each) => typeof each === 'string' && each !== '');
  return typeof found === 'string' ? cutText(found, ERROR_CODE_CHARACTERS_MAX) : undefined;
}

/** The details of an error of a Google interface. */
function detailsOf({ details }: Fields): readonly Fields[] {
  return Array.isArray(details) ? details.filter(isRecord) : [];
}

function reasonsOf(body: Fields): readonly unknown[] {
  return detailsOf(body).map(({ reason }) => reason);
}

const SECONDS = /^(\d+(?:\.\d+)?)s$/u;

/** The wait that a Google interface asks for, in ms: `{ "@type": "…RetryInfo", "retryDelay": "34s" }`. */
function retryInfo(body: Fields): number | undefined {
  for (const { retryDelay } of detailsOf(body)) {
    const seconds = typeof retryDelay === 'string' ? SECONDS.exec(retryDelay)?.[1] : undefined;
    if (seconds !== undefined) return Math.min(Math.round(Number(seconds) * 1_000), RETRY_AFTER_MS_MAX);
  }
  return undefined;
}

function headersOf(value: unknown): Headers {
  const headers = new Headers();
  if (!isRecord(value)) return headers;
  for (const name of ['retry-after', 'retry-after-ms']) {
    const found = value[name];
    if (typeof found === 'string') headers.set(name, found);
  }
  return headers;
}

function messageOf({ message }: Fields, status: number): string {
  return typeof message === 'string' && message !== '' ? message : `the model server answered ${status}`;
}

function textOf(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  const text = isRecord(thrown) ? JSON.stringify(thrown) : undefined;
  return cutText(text ?? 'the model server reported an error inside the stream', ERROR_MESSAGE_CHARACTERS_MAX);
}

/** The system's code of a lost connection, such as `ECONNREFUSED`, from the error or its cause. */
function networkOf(error: Error): { readonly data?: { readonly network: string } } {
  for (const each of [error, error.cause]) {
    const code = isRecord(each) ? each['code'] : undefined;
    if (typeof code === 'string') return { data: { network: cutText(code, ERROR_CODE_CHARACTERS_MAX) } };
  }
  return {};
}
