/** A running server of the HTTP interface: requests, and answers that are checked. */
import { z } from 'zod';
import { COMMAND_ANSWER_BYTES_MAX, COMMAND_TIMEOUT_MS } from '../../base/bounds.ts';
import { NotFoundError, ServerError, UsageError } from '../command.ts';

/** The parts of a request other than its path. */
export interface ServerRequest {
  /** Default: `POST` with a body, otherwise `GET`. */
  readonly method?: 'GET' | 'POST' | 'DELETE';
  /** The body, which is sent as JSON. */
  readonly body?: object;
  /** Ends the request when it fires. Default: a signal that fires after `COMMAND_TIMEOUT_MS`. */
  readonly signal?: AbortSignal;
}

/** A running server. */
export interface Server {
  /** Scheme, host and port, for people. */
  readonly origin: string;
  /**
   * The answer to a request, in the form of the schema. Rejects with `NotFoundError` for a session that does not exist.
   * Rejects with `ServerError` if the server does not answer, reports a failure, or answers in another form.
   */
  ask<T>(path: string, schema: z.ZodType<T>, request?: ServerRequest): Promise<T>;
  /** The response to a request, before its body is read. Rejects as `ask` does. */
  respond(path: string, accept: string, request?: ServerRequest): Promise<Response>;
}

const problemSchema = z.looseObject({
  title: z.string().optional(),
  detail: z.string().optional(),
  code: z.string().optional(),
});

/**
 * The server at an address. `origin`: the option or variable that gives it. Throws `UsageError` if it is not an http or
 * https address.
 */
export function serverAt(address: string, token: string | undefined, origin: string): Server {
  const base = URL.canParse(address) ? new URL(address) : undefined;
  if (base === undefined || (base.protocol !== 'http:' && base.protocol !== 'https:')) {
    throw new UsageError(`${origin} must be an http or https address, got ${JSON.stringify(address)}`);
  }
  if (!base.pathname.endsWith('/')) base.pathname += '/';
  base.search = '';
  const respond: Server['respond'] = async (path, accept, { method, body, signal } = {}) => {
    const response = await fetch(new URL(path, base), {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        accept,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: signal ?? AbortSignal.timeout(COMMAND_TIMEOUT_MS),
    }).catch((cause: unknown) => {
      if (signal?.aborted === true) throw cause;
      throw new ServerError(`${base.origin} does not answer`, { cause });
    });
    if (!response.ok) throw failure(base, response.status, await textOf(response, base));
    return response;
  };
  return {
    origin: base.origin,
    respond,
    ask: async (path, schema, request) => {
      const text = await textOf(await respond(path, 'application/json', request), base);
      return parsed(schema, text === '' ? undefined : jsonOf(text, base), base);
    },
  };
}

function jsonOf(text: string, base: URL): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new ServerError(`${base.origin} answered something that is not JSON; is it a troupe server?`, { cause });
  }
}

function parsed<T>(schema: z.ZodType<T>, value: unknown, base: URL): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new ServerError(`${base.origin} answered something unexpected; is it a troupe server?`, {
    cause: result.error,
  });
}

function failure(base: URL, status: number, text: string): Error {
  const { code, detail, title } = problemIn(text);
  const reason = detail ?? title;
  const message = `${base.origin} answered ${status}${reason === undefined ? '' : `: ${reason}`}`;
  if (status === 404 && code === 'unknown_session') return new NotFoundError(message);
  const advice = status === 401 ? '; --token TOKEN or TROUPE_TOKEN gives one' : '';
  return new ServerError(`${message}${advice}`, { code });
}

function problemIn(text: string): z.infer<typeof problemSchema> {
  try {
    return problemSchema.safeParse(JSON.parse(text)).data ?? {};
  } catch {
    // The body is not a problem document, so only the status says what failed.
    return {};
  }
}

/** The body of a response, up to a bound. */
async function textOf(response: Response, base: URL): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    const part = piece as Uint8Array;
    bytes += part.byteLength;
    if (bytes > COMMAND_ANSWER_BYTES_MAX) {
      throw new ServerError(`${base.origin} answered more than ${COMMAND_ANSWER_BYTES_MAX} bytes`);
    }
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}
