/**
 * Failures as `application/problem+json` (RFC 9457): one table from codes to statuses. A client sees the messages of
 * this library's errors, because they are written for users. For any other error, a client sees only that the request
 * failed.
 */
import { GOVERNOR_FULL_RETRY_MS, PROBLEM_ISSUES_BYTES_MAX, SERVER_FULL_RETRY_MS } from '../base/bounds.ts';
import { boundedText } from '../base/json.ts';
import { type ErrorCode, TroupeError } from '../index.ts';

/** Codes of failures that exist only over HTTP. */
export type HttpCode =
  | 'bad_request'
  | 'unauthorized'
  | 'forbidden'
  | 'role_missing'
  | 'not_found'
  | 'method_not_allowed'
  | 'body_too_large'
  | 'unsupported_media_type'
  | 'headers_too_large'
  | 'request_timeout';

/** The code of a problem. */
export type ProblemCode = ErrorCode | HttpCode;

/** A failure as a client sees it. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ProblemCode;
  /** True if the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** Only for `answer_invalid`: the first reasons why the answer does not fit its schema. */
  readonly issues?: readonly unknown[];
}

/** Status and title of each code. */
const TABLE: Readonly<Record<ProblemCode, readonly [status: number, title: string]>> = {
  config: [400, 'A value is not of the expected form'],
  unknown_agent: [400, 'No such agent'],
  agent_mismatch: [409, 'The session has another agent'],
  agent_missing: [409, 'The agent of the session is not defined'],
  upgrade_failed: [500, 'The session could not move to the version of its agent'],
  unknown_session: [404, 'No such session'],
  invalid_name: [400, 'Not a name'],
  content: [400, 'Not a message'],
  session_busy: [409, 'The session is busy'],
  redaction_failed: [500, 'A value could not be redacted'],
  key_reused: [409, 'The key was used for another message'],
  out_of_memory: [503, 'The session needs more memory than its thread has'],
  mailbox_full: [429, 'The mailbox is full'],
  limit: [422, 'A limit was reached'],
  store_locked: [503, 'The store is in use'],
  store_corrupt: [500, 'The store is damaged'],
  store_full: [507, 'The store refuses writes'],
  store_not_writable: [503, 'The data directory cannot be written'],
  store_lost: [503, 'The store was removed or replaced under the runtime'],
  store_version: [500, 'The store is of a newer version'],
  shard_moved: [503, 'Another node of the cluster has the session'],
  not_here: [409, 'Only the node that has the session can do this'],
  store_key: [500, 'The store cannot be opened with this key'],
  turn_failed: [502, 'The turn failed'],
  answer_invalid: [502, 'The answer does not fit its schema'],
  answer_refused: [502, 'The model refused to answer'],
  answer_cut: [502, 'The answer was cut by a token limit'],
  cancelled: [503, 'Cancelled'],
  timeout: [504, 'Too late'],
  model_authentication: [502, 'The model refused the credentials'],
  model_rate_limited: [429, 'The rate limit of the model was reached'],
  model_overloaded: [503, 'The model is overloaded'],
  model_invalid_request: [502, 'The model refused the request'],
  model_protocol: [502, 'The answer of the model is invalid'],
  model_timeout: [504, 'The model did not answer in time'],
  model_connection: [502, 'The model cannot be reached'],
  callback_required: [400, 'A function is missing'],
  lookup_key_required: [400, 'Neither an id nor a call id was given'],
  lookup_key_ambiguous: [400, 'Both an id and a call id were given'],
  message_not_found: [404, 'The history has no such message'],
  letter_not_found: [404, 'The session has no such dead letter'],
  tool_message_not_removable: [409, 'A result is removed only with its call'],
  files_require_prompt: [400, 'Files need a text beside them'],
  invalid_index: [400, 'No such position'],
  invalid_task: [400, 'No such task'],
  invalid_argument: [400, 'An argument cannot be used'],
  internal: [500, 'Internal error'],
  bad_request: [400, 'Not a request'],
  unauthorized: [401, 'A token is needed'],
  forbidden: [403, 'The host or origin is not allowed'],
  role_missing: [403, 'The token does not have the role'],
  not_found: [404, 'Unknown path'],
  method_not_allowed: [405, 'Method not allowed'],
  body_too_large: [413, 'The body is too large'],
  unsupported_media_type: [415, 'Unsupported type of body'],
  headers_too_large: [431, 'The headers are too large'],
  request_timeout: [408, 'The request was not complete in time'],
};

/** The failure of a request, with a code that exists only over HTTP. Thrown while the request is handled. */
export class HttpProblem extends Error {
  override readonly name: string = 'HttpProblem';
  readonly code: HttpCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: HttpCode,
    detail: string,
    more: { readonly headers?: Readonly<Record<string, string>>; readonly cause?: unknown } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.headers = more.headers ?? {};
  }
}

/** The problem for a body with more than `bytesMax` bytes. */
export function bodyTooLarge(bytesMax: number): HttpProblem {
  return new HttpProblem('body_too_large', `the body may have ${bytesMax} bytes`);
}

/** The problem for input that cannot be read as a request. */
export function unreadable(detail: string, cause: unknown): HttpProblem {
  return new HttpProblem('bad_request', detail, { cause });
}

/**
 * The answer to a request that failed with `thrown`. `onInternal` receives the errors that the client does not see.
 * Never throws.
 */
export function problemResponse(thrown: unknown, onInternal: (error: unknown) => void): Response {
  const problem = problemOf(thrown);
  if (problem.code === 'internal') onInternal(thrown);
  const headers = new Headers(thrown instanceof HttpProblem ? thrown.headers : {});
  headers.set('content-type', 'application/problem+json');
  headers.set('x-content-type-options', 'nosniff');
  headers.set('cache-control', 'no-store');
  const retryAfterMs = retryAfterOf(thrown, problem);
  if (retryAfterMs !== undefined) headers.set('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1_000))));
  const body = JSON.stringify(problem);
  headers.set('content-length', String(Buffer.byteLength(body)));
  return new Response(body, { status: problem.status, headers });
}

/** The part of `thrown` that a client may see. */
export function problemOf(thrown: unknown): Problem {
  if (thrown instanceof HttpProblem) return problem(thrown.code, thrown.message, false);
  if (!(thrown instanceof TroupeError) || thrown.code === 'internal') {
    return problem('internal', 'The request failed inside the server, which reported the reason', false);
  }
  // A newer library may have a code that this table lacks. Such a code counts as an internal failure.
  if (!Object.hasOwn(TABLE, thrown.code)) return problem('internal', thrown.message, thrown.retryable);
  const found = problem(thrown.code, thrown.message, thrown.retryable, statusOfError(thrown));
  const { issues } = thrown.data;
  return thrown.code === 'answer_invalid' && Array.isArray(issues) ? { ...found, issues: firstIssues(issues) } : found;
}

/** The first issues that together fit into `PROBLEM_ISSUES_BYTES_MAX`. */
function firstIssues(issues: readonly unknown[]): readonly unknown[] {
  let bytes = 0;
  const isKept = (issue: unknown): boolean => {
    bytes += Buffer.byteLength(JSON.stringify(issue));
    return bytes <= PROBLEM_ISSUES_BYTES_MAX;
  };
  const end = issues.findIndex((issue) => !isKept(issue));
  return end === -1 ? issues : issues.slice(0, end);
}

function problem(code: ProblemCode, detail: string, retryable: boolean, status: number = TABLE[code][0]): Problem {
  return {
    type: `urn:troupe:problem:${code}`,
    title: TABLE[code][1],
    status,
    detail: boundedText(detail),
    code,
    retryable,
  };
}

/**
 * The HTTP status that the server would answer for an error. Use it in your own routes. 500: the error is not a
 * `TroupeError`, and a client must not see its message.
 */
export function statusOf(error: unknown): number {
  return problemOf(error).status;
}

/** The status of a code. If the code has several meanings, the error's data decides. */
function statusOfError({ code, retryable, data }: TroupeError): number {
  if (code === 'limit' && data['limit'] === 'messageBytes') return 413;
  if (code === 'limit' && retryable) return 503;
  // An error with one of these members says that the message was withdrawn, or that its turn was interrupted. The error
  // of a closing server has the same code without these members; its status is the one in the table.
  if (code === 'cancelled' && ('turn' in data || 'reason' in data)) return 409;
  return TABLE[code][0];
}

/** Milliseconds that a client should wait; undefined if waiting does not help. */
function retryAfterOf(thrown: unknown, { code, status }: Problem): number | undefined {
  const asked = thrown instanceof TroupeError ? thrown.data['retryAfterMs'] : undefined;
  if (typeof asked === 'number' && Number.isFinite(asked)) return asked;
  if (code === 'model_rate_limited' || code === 'model_overloaded') return GOVERNOR_FULL_RETRY_MS;
  return status === 429 || (code === 'limit' && status === 503) ? SERVER_FULL_RETRY_MS : undefined;
}
