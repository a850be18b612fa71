/** A request's body, read within a bound and checked. What cannot be read is an `HttpProblem`, never a failure of ours. */
import type { z } from 'zod';
import {
  LOOP_PIECE_BYTES_MIN,
  SERVER_BODIES_BYTES_MAX,
  SERVER_BODY_BYTES_MAX,
  SERVER_FULL_RETRY_MS,
} from '../base/bounds.ts';
import { LimitError } from '../index.ts';
import { BODIES } from './loop-budget.ts';
import { HttpProblem, unreadable } from './problem.ts';

/** Characters told of what is wrong with a value: a name from outside may stand in it. */
const MESSAGE_CHARACTERS_MAX = 300;

/** What is done with a body: with its value, or with the bytes of a large one. */
export interface BodyUse<T> {
  readonly schema: z.ZodType<T>;
  readonly use: (value: T) => Response | Promise<Response>;
  /** Missing: a large body is used as a small one. */
  readonly useLarge?: ((json: Uint8Array) => Promise<Response>) | undefined;
}

/**
 * Reads a body and uses it: as `schema` has it, `{}` where there is none. Rejects with `HttpProblem` (400, 413, 415), and as the use does.
 * The bytes of a large body count until its use is over: it may wait for others on its way.
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

/** The query as `schema` has it, from its last value for each name. Throws `HttpProblem` (400). */
export function readQuery<T>(parameters: URLSearchParams, schema: z.ZodType<T>): T {
  return checked(schema, Object.fromEntries(parameters), 'the query');
}

async function readBytes(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length') ?? 0) > SERVER_BODY_BYTES_MAX) throw tooLarge();
  if (request.body === null) return new Uint8Array();
  if (request.bodyUsed) throw new HttpProblem('bad_request', 'the body was read by somebody else before');
  const reader = request.body.getReader();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let counted = 0;
  let isRefused = false;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw unreadable('the body ended early', error);
      });
      if (done && isRefused) throw tooMany();
      if (done) {
        // Joining, passing on and parsing a large body are work of one turn of the loop.
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
        // Read to its end and thrown away: a client that is still writing would not read its answer.
        isRefused = true;
        bytesUnderWay -= counted;
        counted = 0;
        pieces.length = 0;
        continue;
      }
      bytesUnderWay += value.length;
      counted += value.length;
      pieces.push(value);
    }
  } finally {
    bytesUnderWay -= counted;
  }
}

/** Of all bodies of the process that are being read, and of large ones until they were used: a thousand would fill memory. */
let bytesUnderWay = 0;

function tooMany(): LimitError {
  return new LimitError(`bodies of ${SERVER_BODIES_BYTES_MAX} bytes are being read or wait`, {
    retryable: true,
    data: { limit: 'bodies', retryAfterMs: SERVER_FULL_RETRY_MS },
  });
}

function tooLarge(): HttpProblem {
  return new HttpProblem('body_too_large', `the body may have ${SERVER_BODY_BYTES_MAX} bytes`);
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    // Neither parser says what is wrong without showing the body.
    throw unreadable('the body is not JSON in UTF-8', error);
  }
}

function checked<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.map(String).join('.') ?? '';
  const where = path === '' ? what : `${JSON.stringify(path.slice(0, 100))} of ${what}`;
  const why = issue?.message.slice(0, MESSAGE_CHARACTERS_MAX) ?? 'not of the form asked for';
  throw new HttpProblem('bad_request', `${where}: ${why}`);
}
