/**
 * The definition of a route: method, path, input and answers in one place. Serving, validation and documentation all
 * use it.
 */
import type { z } from 'zod';
import { LOOP_PIECE_BYTES_MIN } from '../base/bounds.ts';
import type { Lane } from '../base/lane.ts';
import { type Runtime, type SessionsView, TroupeError, type ViewMode } from '../index.ts';
import { textBytes } from '../runtime/host/request-line.ts';
import type { Door } from './guard.ts';
import { HELD_ANSWER_BYTES_MIN, heldAnswer } from './held-answer.ts';
import type { HostWatch } from './host-watch.ts';
import type { Intake } from './intake.ts';
import { ANSWERS } from './loop-budget.ts';
import type { CheckedHandlerOptions } from './options.ts';
import { readQuery, withBody } from './request-body.ts';
import type { Caller, Role } from './roles.ts';
import type { StreamRegistry } from './stream-registry.ts';

const encoder = new TextEncoder();

/** The parts shared by all routes. */
export interface ServerParts {
  /** The sessions that the caller may reach: the sessions of its tenant, or all sessions. */
  readonly runtime: SessionsView;
  /** The view mode for a reader that names no mode. */
  readonly defaultViewMode: ViewMode;
  readonly options: CheckedHandlerOptions;
  readonly streams: StreamRegistry;
  readonly watch: HostWatch;
  readonly intake: Intake;
  /** Bounds the number of pages that are read at once, because each page is in memory as a whole. */
  readonly pages: Lane;
  /** The document of all routes, as JSON. */
  readonly document: () => string;
}

/** One request on its way through a route. */
export interface Call {
  readonly request: Request;
  /** A part of the path, decoded. */
  readonly part: (name: string) => string;
  readonly server: ServerParts;
  readonly caller: Caller;
  /** The whole runtime; undefined for a caller of one tenant. */
  readonly whole: Runtime | undefined;
}

/** Describes an answer that a route may give. */
export interface RouteAnswer {
  readonly status: number;
  readonly description: string;
  /** The schema of the body; missing if there is no body, or if it is not JSON. */
  readonly schema?: z.ZodType;
  /** The media type of the body; default `application/json`. */
  readonly mediaType?: string;
}

/** See the file header. In `path`, `:name` stands for one part of the path and `*` for the rest of the path. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly door: Door;
  /** The role that the caller needs; `none` where no token is needed. */
  readonly role: Role | 'none';
  /** True if the route is about the whole runtime. If such a route needs a token, a token of one tenant is refused. */
  readonly isOfRuntime: boolean;
  /** True if the route starts work or holds a stream, so that a closing server refuses it. */
  readonly isNewWork: boolean;
  readonly summary: string;
  readonly query: z.ZodType;
  readonly body: z.ZodType | undefined;
  readonly answers: readonly RouteAnswer[];
  /** Answers the call; rejects with the failure. */
  readonly answer: (call: Call) => Promise<Response>;
}

/** A route as it is written: `handle` receives the checked query and body. */
export interface RouteSpec<Query, Body> extends Pick<Route, 'method' | 'path' | 'role' | 'summary' | 'answers'> {
  /** `stream`: the token may be in a header or in the query. Default: the token must be in a header. */
  readonly door?: 'stream';
  /** True if the route starts work. Default: true for a stream, false for any other route. */
  readonly isNewWork?: boolean;
  readonly query: z.ZodType<Query>;
  readonly body?: z.ZodType<Body>;
  readonly handle: (call: Call & { readonly query: Query; readonly body: Body }) => Response | Promise<Response>;
  /**
   * Called in place of `handle` for a large body. It receives the unparsed bytes, so that another thread can parse
   * them. Default: `handle` is called for large bodies too.
   */
  readonly handleLarge?: (call: Call & { readonly query: Query; readonly json: Uint8Array }) => Promise<Response>;
}

/**
 * A route about the whole runtime. A token of one tenant is refused before `handle`, so `whole` is always present.
 */
export function runtimeRoute<Query, Body = undefined>({
  handle,
  ...spec
}: Omit<RouteSpec<Query, Body>, 'handle'> & {
  readonly handle: (
    call: Call & { readonly query: Query; readonly body: Body; readonly whole: Runtime },
  ) => Response | Promise<Response>;
}): Route {
  const made = route<Query, Body>({
    ...spec,
    handle: (call) => {
      const { whole } = call;
      if (whole === undefined) throw new TroupeError('internal', 'a caller of one tenant reached the whole runtime');
      return handle({ ...call, whole });
    },
  });
  return { ...made, isOfRuntime: true };
}

/** Makes a route from its specification. */
export function route<Query, Body = undefined>(spec: RouteSpec<Query, Body>): Route {
  const { method, path, role, summary, answers, query, body, handle, handleLarge } = spec;
  const door = role === 'none' ? 'open' : (spec.door ?? 'token');
  return {
    method,
    path,
    door,
    role,
    isOfRuntime: false,
    isNewWork: spec.isNewWork ?? door === 'stream',
    summary,
    query,
    body,
    answers,
    async answer(call) {
      const asked = readQuery(new URL(call.request.url).searchParams, query);
      // A route without a body reads none, because its handler has no parameter for it.
      if (body === undefined) return handle({ ...call, query: asked, body: undefined as Body });
      return withBody(call.request, {
        schema: body,
        use: (value) => handle({ ...call, query: asked, body: value }),
        useLarge: handleLarge === undefined ? undefined : (json) => handleLarge({ ...call, query: asked, json }),
      });
    },
  };
}

/** An answer of JSON. */
export function json(value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return text(JSON.stringify(value), 'application/json', { status, headers });
}

/** An answer of JSON that may be large, made in a tick that has room for it. */
export async function jsonInTick(value: unknown): Promise<Response> {
  const bytes = textBytes(value);
  if (bytes >= LOOP_PIECE_BYTES_MIN) await ANSWERS.take(bytes);
  return json(value);
}

/** An answer of text, complete in memory. */
export function text(
  body: string,
  type: string,
  init: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Response {
  const bytes = encoder.encode(body);
  const headers = { ...init.headers, 'content-type': type, 'content-length': String(bytes.byteLength) };
  const sent = bytes.byteLength < HELD_ANSWER_BYTES_MIN ? bytes : heldAnswer(bytes);
  return new Response(sent, { status: init.status ?? 200, headers });
}
