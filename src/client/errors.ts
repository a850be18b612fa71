/** The error of a refused or failed request. */
import type { ProblemCode } from '../server/problem.ts';

/**
 * The code of an error: a code of the server, `unreachable` (no server answered), or `protocol` (the answer did not
 * come from a troupe server).
 */
export type ClientErrorCode = ProblemCode | 'unreachable' | 'protocol';

/**
 * The error of a request that the server refused, or that no server answered. If the signal is aborted, the request
 * rejects with the signal's reason instead.
 */
export class ClientError extends Error {
  override readonly name: string = 'ClientError';
  readonly code: ClientErrorCode;
  /** The status of the answer. 0: there was no answer. */
  readonly status: number;
  /** True if the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** Milliseconds after which the server allows another attempt, if it says so. */
  readonly retryAfterMs: number | undefined;
  /** For `answer_invalid`: the reasons why an answer does not fit its schema. */
  readonly issues: readonly unknown[];

  constructor(
    code: ClientErrorCode,
    message: string,
    more: {
      readonly status?: number;
      readonly retryable?: boolean;
      readonly retryAfterMs?: number | undefined;
      readonly issues?: readonly unknown[];
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.status = more.status ?? 0;
    this.retryable = more.retryable ?? false;
    this.retryAfterMs = more.retryAfterMs;
    this.issues = more.issues ?? [];
  }
}

/** The error for a request that no server answered. */
export function unreachable(url: string, cause: unknown): ClientError {
  return new ClientError('unreachable', `no server answers at ${url}`, { retryable: true, cause });
}

/** The error of a refused response. */
export async function refusal(response: Response): Promise<ClientError> {
  return problemError(parsed(await response.text()), response);
}

/** The error that a problem document describes. */
export function problemError(body: unknown, response?: Response): ClientError {
  const problem = isRecord(body) ? body : {};
  const status = response?.status ?? Number(problem['status'] ?? 0);
  const detail = problem['detail'];
  const code = problem['code'];
  const issues = problem['issues'];
  if (typeof code !== 'string') {
    const text = `the server answered ${status} without a problem document; is it a troupe server?`;
    return new ClientError('protocol', text, { status, retryable: status >= 500 });
  }
  const afterSeconds = Number(response?.headers.get('retry-after') ?? Number.NaN);
  return new ClientError(code as ProblemCode, typeof detail === 'string' ? detail : code, {
    status,
    retryable: problem['retryable'] === true,
    retryAfterMs: Number.isFinite(afterSeconds) ? afterSeconds * 1_000 : undefined,
    issues: Array.isArray(issues) ? issues : [],
  });
}

/** The value of a JSON text; undefined for any other text. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller reports a body that is not JSON, together with its status.
    return undefined;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
