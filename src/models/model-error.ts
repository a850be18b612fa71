/**
 * Maps failed calls of the Messages API to our own errors by HTTP status, the API's error type or our error code. Pure.
 */
import { ERROR_MESSAGE_CHARACTERS_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import {
  CONTEXT_OVERFLOW,
  errorFromShape,
  errorShape,
  ModelAuthenticationError,
  ModelError,
  type ModelErrorCode,
  ModelInvalidRequestError,
} from '../base/errors.ts';
import { cutText } from '../base/json.ts';
import { type Remedy, remedyOf } from './error-codes.ts';

/** Error types of the API by HTTP status. Source: the API's error reference. */
const ERROR_TYPES: readonly (readonly [number, string])[] = [
  [400, 'invalid_request_error'],
  [401, 'authentication_error'],
  [402, 'billing_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [408, 'timeout_error'],
  [409, 'conflict_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [504, 'timeout_error'],
  [529, 'overloaded_error'],
];
const TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map(ERROR_TYPES);
/** If two statuses share a type, the later entry wins. So `timeout_error` inside a stream gives 504, not 408. */
const STATUS_BY_TYPE: ReadonlyMap<string, number> = new Map(ERROR_TYPES.map(([status, type]) => [type, status]));
const STATUS_BY_CODE: ReadonlyMap<string, number> = new Map([
  ['model_authentication', 401],
  ['model_rate_limited', 429],
  ['model_overloaded', 529],
  ['model_invalid_request', 400],
  ['model_timeout', 504],
]);

/** A failed call, whatever reported the failure. */
export interface ModelFailure {
  readonly message: string;
  /** HTTP status, if there was an answer. */
  readonly status?: number;
  /** The API's error type. It gives the status of an error inside a stream, which has no status itself. */
  readonly type?: string;
  /** Decides the class. Missing: the other members decide it. */
  readonly code?: ModelErrorCode;
  readonly retryAfterMs?: number;
  /** The API's own code (`error.details.error_code`). This code decides before the status and the message. */
  readonly errorCode?: string;
  /**
   * The header `x-should-retry`: the server's own judgement. This judgement decides before the error code and the
   * status.
   */
  readonly shouldRetry?: boolean;
  readonly cause?: unknown;
  /**
   * Further facts for programs: `phase` of a timeout (default `total`), and `network`, which is the system's error
   * code.
   */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** The API's error type of an HTTP status. */
export function errorTypeOf(status: number): string {
  const known = TYPE_BY_STATUS.get(status);
  if (known !== undefined) return known;
  return status >= 500 ? 'api_error' : 'invalid_request_error';
}

/** The HTTP status of a failure: given, or derived from its type or its code; undefined if that is not possible. */
export function statusOf(failure: Pick<ModelFailure, 'status' | 'type' | 'code'>): number | undefined {
  if (failure.status !== undefined) return failure.status;
  const byType = failure.type === undefined ? undefined : STATUS_BY_TYPE.get(failure.type);
  return byType ?? (failure.code === undefined ? undefined : STATUS_BY_CODE.get(failure.code));
}

/**
 * The error of a failure. Retryable: timeouts, lost connections, broken streams, 409, 429, 499 and 5xx (contract of the
 * half-step), unless the API's error code or the server says otherwise.
 */
export function modelErrorOf(failure: ModelFailure): ModelError {
  const isOwnTimeout = failure.code === 'model_timeout' && failure.status === undefined && failure.type === undefined;
  // If our own timeout expired, no server sent a 504.
  const status = isOwnTimeout ? undefined : statusOf(failure);
  const remedy = failure.shouldRetry === true ? 'retry' : remedyOf({ ...failure, status });
  const code = failure.code ?? codeFor(remedy, status);
  const message = cutText(failure.message, ERROR_MESSAGE_CHARACTERS_MAX);
  const isOverflow = code === 'model_invalid_request' && status === OVERFLOW_STATUS && isContextOverflow(message);
  const details = {
    ...defined({ cause: failure.cause, status }),
    data: {
      ...defined({ type: failure.type, errorCode: failure.errorCode }),
      ...(isOwnTimeout ? { phase: 'total' } : {}),
      ...(isOverflow ? { reason: CONTEXT_OVERFLOW } : {}),
      ...failure.data,
    },
  };
  if (code === 'model_authentication') return new ModelAuthenticationError(message, details);
  if (code === 'model_invalid_request') return new ModelInvalidRequestError(message, details);
  return new ModelError(code, message, {
    ...details,
    ...defined({ retryAfterMs: failure.retryAfterMs }),
    retryable: failure.shouldRetry ?? true,
  });
}

/** Statuses below 500 that are retryable: a conflict, and a request that the server gave up. */
const RETRYABLE_REFUSALS: ReadonlySet<number> = new Set([409, 499]);

const OVERFLOW_STATUS = 400;
/** The wording with which the API, and gateways for other models, refuse a prompt that is too long. */
const OVERFLOW_TEXTS: readonly RegExp[] = [
  /prompt is too long/i,
  /\b\d[\d,]* tokens > \d[\d,]*/i,
  /input token count .*exceeds the maximum/i,
  /context length/i,
  /exceeds? (?:the )?(?:model's )?(?:maximum )?context (?:limit|window|size)/i,
];

/** True if the message says that the prompt is too long. */
function isContextOverflow(message: string): boolean {
  return OVERFLOW_TEXTS.some((text) => text.test(message));
}

/** A stream or an answer that breaks the protocol. Retryable: a repeated request usually gets a complete answer. */
export function protocolError(message: string, cause?: unknown): ModelError {
  return modelErrorOf({ code: 'model_protocol', message, ...defined({ cause }) });
}

/** A copy of the error with `data` added to its own data, and with another message if one is given. */
export function withData(
  error: ModelError,
  data: Readonly<Record<string, unknown>>,
  message: string = error.message,
): ModelError {
  const shape = errorShape(error);
  const copy = errorFromShape({ ...shape, message, data: { ...shape.data, ...data } }, error.cause);
  if (!(copy instanceof ModelError)) return error;
  if (error.stack !== undefined) copy.stack = error.stack;
  return copy;
}

/** The code of a failure: by its remedy, otherwise by its status. */
function codeFor(remedy: Remedy | undefined, status: number | undefined): ModelErrorCode {
  if (remedy === 'stop') return 'model_authentication';
  if (remedy === 'fix') return 'model_invalid_request';
  const code = codeOf(status);
  const isFinal = code === 'model_authentication' || code === 'model_invalid_request';
  return remedy === 'retry' && isFinal ? 'model_overloaded' : code;
}

function codeOf(status: number | undefined): ModelErrorCode {
  if (status === undefined) return 'model_overloaded';
  if (status === 401 || status === 402 || status === 403) return 'model_authentication';
  if (status === 408) return 'model_timeout';
  if (status === 429) return 'model_rate_limited';
  return status >= 500 || RETRYABLE_REFUSALS.has(status) ? 'model_overloaded' : 'model_invalid_request';
}
