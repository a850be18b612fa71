/** Asks a running server: one request, and the JSON of its answer. */
import { z } from 'zod';
import { TOP_ANSWER_BYTES_MAX, TOP_TIMEOUT_MS } from '../base/bounds.ts';
import { UsageError } from './command.ts';

/** A request beyond its path. */
export interface ServedRequest {
  /** The token that the server requires. */
  readonly token: string | undefined;
  /** JSON to post; missing: the request is a `GET`. */
  readonly body?: object;
}

const problemSchema = z.looseObject({ title: z.string().optional(), detail: z.string().optional() });

/** The address of a server, with a slash at its end. Throws `UsageError` for anything else. */
export function serverAddress(address: string): URL {
  const base = URL.canParse(address) ? new URL(address) : undefined;
  if (base === undefined || (base.protocol !== 'http:' && base.protocol !== 'https:')) {
    throw new UsageError(`--url must be an http or https address, got ${JSON.stringify(address)}`);
  }
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  base.search = '';
  return base;
}

/** The answer of a server. Rejects if the server does not answer, and for an answer that is a failure or not JSON. */
export async function answerOf(base: URL, path: string, { token, body }: ServedRequest): Promise<unknown> {
  const response = await fetch(new URL(path, base), {
    headers: {
      accept: 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(TOP_TIMEOUT_MS),
  }).catch((cause: unknown) => {
    throw new Error(`${base.origin} does not answer`, { cause });
  });
  const text = await textOf(response, base);
  if (!response.ok) throw new Error(`${base.origin} answered ${response.status}${reasonOf(text)}`);
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Error(`${base.origin} answered something that is not JSON; is it a troupe server?`, { cause });
  }
}

/** The value, if it has the form of the schema. Throws otherwise. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, base: URL): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new Error(`${base.origin} answered something unexpected; is it a troupe server?`, { cause: result.error });
}

/** The body of a response, up to a bound. */
async function textOf(response: Response, base: URL): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    const part = piece as Uint8Array;
    bytes += part.byteLength;
    if (bytes > TOP_ANSWER_BYTES_MAX)
      throw new Error(`${base.origin} answered more than ${TOP_ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function reasonOf(text: string): string {
  try {
    const problem = problemSchema.safeParse(JSON.parse(text));
    const reason = problem.data?.detail ?? problem.data?.title;
    return reason === undefined ? '' : `: ${reason}`;
  } catch {
    // The body is not a problem document, so only the status says what failed.
    return '';
  }
}
