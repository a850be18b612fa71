/**
 * Reads a request's body within a bound and checks it. An unreadable body is an `HttpProblem`, never an internal
 * failure.
 */
import type { z } from 'zod';
import {
  LOOP_PIECE_BYTES_MIN,
  SERVER_BODIES_BYTES_MAX,
  SERVER_BODY_BYTES_MAX,
  SERVER_FULL_RETRY_MS,
} from '../base/bounds.ts';
import { LimitError } from '../index.ts';
import { BODIES } from './loop-budget.ts';
import { bodyTooLarge, HttpProblem, unreadable } from './problem.ts';

/** Maximum characters of a message about a bad value, because the message may contain a name from outside. */
const MESSAGE_CHARACTERS_MAX = 300;

/** The functions that use a body: `use` gets its value, `useLarge` the bytes of a large body. */
export interface BodyUse<T> {
  readonly schema: z.ZodType<T>;
  readonly use: (value: T) => Response | Promise<Response>;
  /** Called for a large body; if missing, `use` is called for large bodies too. */
  readonly useLarge?: ((json: Uint8Array) => Promise<Response>) | undefined;
}

/**
 * Reads a body, checks it by `schema`, and calls `use` or `useLarge`. An empty body counts as `{}`. Rejects with
 * `HttpProblem` (400, 413, 415), with `LimitError` if too many bodies are being read, and as the called function does.
 * The bytes of a large body count until the called function is done, because that function may wait for other requests.
 */
export async function withBody<T>(request: Request, { schema, use, useLarge }: BodyUse<T>): Promise<Response> {
  const kind = request.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
  const bytes = await readBytes(request);
  if (bytes.length === 0) return use(checked(schema, {}, 'the body'));
  if (kind !== 'application/json') {
    throw new HttpProblem('unsupported_media_type', 'the body must be application/json', {
      headers: { accept: 'application/json' },
    });
  }
  if (bytes.length < LOOP_PIECE_BYTES_MIN) return use(checked(schema, parse(bytes), 'the body'));
  bytesUnderWay += bytes.length;
  try {
    if (useLarge !== undefined) return await useLarge(bytes);
    return await use(checked(schema, parse(bytes), 'the body'));
  } finally {
    bytesUnderWay -= bytes.length;
  }
}

/** Checks the query by `schema`, taking the last value of each name. Throws `HttpProblem` (400). */
export function readQuery<T>(parameters: URLSearchParams, schema: z.ZodType<T>): T {
  return checked(schema, Object.fromEntries(parameters), 'the query');
}

async function readBytes(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length') ?? 0) > SERVER_BODY_BYTES_MAX) throw tooLarge();
  if (request.body === null) return new Uint8Array();
  if (request.bodyUsed) throw new HttpProblem('bad_request', 'the body was already read by other code');
  const reader = request.body.getReader();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let counted = 0;
  let isRefused = false;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw error instanceof HttpProblem ? error : unreadable('the body ended early', error);
      });
      if (done && isRefused) throw tooMany();
      if (done) {
        // The pieces of a large body are joined and passed on in one tick, so that tick must have room for the body.
        if (size >= LOOP_PIECE_BYTES_MIN) await BODIES.take(size);
        return Buffer.concat(pieces, size);
      }
      size += value.length;
      if (size > SERVER_BODY_BYTES_MAX) {
        await reader.cancel();
        throw tooLarge();
      }
      if (isRefused) continue;
      if (bytesUnderWay + value.length > SERVER_BODIES_BYTES_MAX) {
        // The rest of the body is read and discarded, because a client that is still writing would not read its answer.
        isRefused = true;
        bytesUnderWay -= counted;
        counted = 0;
        pieces.length = 0;
        continue;
      }
      bytesUnderWay += value.length;
      counted += value.length;
      pieces.push(value);
      // The next piece is read in a tick that has room for it: otherwise many senders would fill one tick.
      if (value.length >= LOOP_PIECE_BYTES_MIN) await BODIES.take(value.length);
    }
  } finally {
    bytesUnderWay -= counted;
  }
}

/**
 * The bytes of all bodies in the process that are being read, and of large bodies that are being used. Without a bound,
 * a thousand bodies would fill the memory.
 */
let bytesUnderWay = 0;

function tooMany(): LimitError {
  return new LimitError(`bodies of ${SERVER_BODIES_BYTES_MAX} bytes are being read or wait`, {
    retryable: true,
    data: { limit: 'bodies', retryAfterMs: SERVER_FULL_RETRY_MS },
  });
}

function tooLarge(): HttpProblem {
  return bodyTooLarge(SERVER_BODY_BYTES_MAX);
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    // The parser's message is not passed on, because it would show the body.
    throw unreadable('the body is not JSON in UTF-8', error);
  }
}

function checked<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.map(String).join('.') ?? '';
  const where = path === '' ? what : `${JSON.stringify(path.slice(0, 100))} of ${what}`;
  const why = issue?.message.slice(0, MESSAGE_CHARACTERS_MAX) ?? 'not of the expected form';
  throw new HttpProblem('bad_request', `${where}: ${why}`);
}
