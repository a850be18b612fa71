/**
 * `Application`: the HTTP interface as one function that answers requests.
 *
 *  Z1  Every failure is an answer: a request never rejects.
 *  Z2  The sender is checked before routing. The token, its tenant and its roles are checked before the query and the
 *      body are read.
 *  Z3  Clients must take every answer as its declared type (`nosniff`). Only files of the observer page may be cached.
 *  Z4  A caller of one tenant reaches only the view of that tenant, never the runtime itself.
 */
import { Hono } from 'hono';
import { SERVER_PAGES_UNDER_WAY_MAX } from '../base/bounds.ts';
import { Lane } from '../base/lane.ts';
import type { Runtime } from '../index.ts';
import { conversationRoutes } from './conversation-routes.ts';
import { Guard } from './guard.ts';
import { HostWatch } from './host-watch.ts';
import { Intake } from './intake.ts';
import { openApiDocument } from './open-api.ts';
import type { CheckedHandlerOptions } from './options.ts';
import { pageRoutes } from './page-routes.ts';
import { HttpProblem, problemResponse } from './problem.ts';
import { type Caller, checkRole, checkWholeRuntime } from './roles.ts';
import type { Call, Route, ServerParts } from './route.ts';
import { auditRoutes } from './routes/audit.ts';
import { deadLetterRoutes } from './routes/dead-letters.ts';
import { goalRoutes } from './routes/goals.ts';
import { historyRoutes } from './routes/history.ts';
import { runtimeRoutes } from './runtime-routes.ts';
import { sessionRoutes } from './session-routes.ts';
import { StreamRegistry } from './stream-registry.ts';

/** Routes in matching order. */
const ROUTES: readonly Route[] = [
  ...sessionRoutes,
  ...conversationRoutes,
  ...historyRoutes,
  ...goalRoutes,
  ...deadLetterRoutes,
  ...auditRoutes,
  ...runtimeRoutes,
  ...pageRoutes,
];

/** Answers requests of the Fetch API. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** See the file header. */
export interface Application {
  readonly fetch: FetchHandler;
  /** The routes as the router names them, such as `GET /sessions`. */
  readonly routes: readonly string[];
  /** Refuses new work from now on. */
  drain(): void;
  /** Ends the event streams, and refuses requests for new streams. */
  end(): void;
}

/** Creates the HTTP interface of a runtime. `streamsMax` is for tests. */
export function createApplication(runtime: Runtime, options: CheckedHandlerOptions, streamsMax?: number): Application {
  const guard = new Guard(options);
  let document: string | undefined;
  const server: ServerParts = {
    runtime,
    defaultViewMode: runtime.info().defaultViewMode,
    options,
    streams: new StreamRegistry(options, streamsMax),
    watch: new HostWatch(),
    intake: new Intake(),
    pages: new Lane(SERVER_PAGES_UNDER_WAY_MAX),
    document: () => {
      document ??= openApiDocument(ROUTES, runtime.info().version);
      return document;
    },
  };
  const failed = (error: unknown): Response => problemResponse(error, options.onError);
  const router = routerOf(callersOf(runtime, server), guard, failed);
  const dispatch = async (request: Request, isHead: boolean): Promise<Response> => {
    try {
      // Checked before the request is copied, because the peer address is known only for the original request.
      guard.checkSender(request);
      return await router.fetch(isHead ? new Request(request, { method: 'GET' }) : request);
    } catch (error) {
      return failed(error);
    }
  };
  return {
    fetch: async (request) => {
      const isHead = request.method === 'HEAD';
      const response = await dispatch(request, isHead);
      response.headers.set('x-content-type-options', 'nosniff');
      response.headers.set('cross-origin-resource-policy', 'same-origin');
      if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store');
      if (!isHead) return response;
      // The body of a `HEAD` answer is not read, so it must be cancelled here: an open event stream counts against the
      // limit of streams.
      await response.body?.cancel();
      return new Response(null, response);
    },
    routes: router.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`),
    drain: () => server.intake.close(),
    end: () => {
      server.intake.close();
      server.streams.end();
      server.watch.stop();
    },
  };
}

/** The part of the server that a caller reaches: the whole runtime, or the sessions of the caller's tenant. */
type Reached = Pick<Call, 'caller' | 'server' | 'whole'>;

/** Returns the function that finds the part that a caller reaches. The view of each tenant is made only once. */
function callersOf(runtime: Runtime, server: ServerParts): (caller: Caller) => Reached {
  const servers = new Map<string, ServerParts>();
  return (caller) => {
    const { tenant } = caller;
    if (tenant === undefined) return { caller, server, whole: runtime };
    const known = servers.get(tenant) ?? { ...server, runtime: runtime.tenant(tenant) };
    servers.set(tenant, known);
    return { caller, server: known, whole: undefined };
  };
}

function routerOf(reachedBy: (caller: Caller) => Reached, guard: Guard, failed: (error: unknown) => Response): Hono {
  const router = new Hono();
  for (const route of ROUTES) {
    router.on(route.method, route.path, async (context) => {
      const request = context.req.raw;
      try {
        const reached = reachedBy(admit(guard, request, route));
        if (route.isNewWork) reached.server.intake.check();
        const part = (name: string): string => (name === '*' ? rest(request, route) : (context.req.param(name) ?? ''));
        return await route.answer({ request, part, ...reached });
      } catch (error) {
        return failed(error);
      }
    });
  }
  // These routes are matched last: they answer a known path that does not have the requested method.
  for (const [path, allow] of methodsOf(ROUTES)) {
    router.all(path, () =>
      failed(new HttpProblem('method_not_allowed', `allowed methods: ${allow}`, { headers: { allow } })),
    );
  }
  router.notFound(() => failed(new HttpProblem('not_found', 'unknown path; /openapi.json lists all paths')));
  router.onError((error) => failed(error));
  return router;
}

/**
 * The caller of a request to this route. Throws `HttpProblem`: 401 without a valid token, and 403 if the caller does
 * not have the role. A caller of one tenant also gets 403 for a route about the whole runtime.
 */
function admit(guard: Guard, request: Request, { door, role, isOfRuntime }: Route): Caller {
  const caller = guard.checkToken(request, door, new URL(request.url).searchParams.get('token'));
  if (role === 'none') return caller;
  if (isOfRuntime) checkWholeRuntime(caller);
  checkRole(caller, role);
  return caller;
}

/** The raw part of the path that `*` stands for. */
function rest(request: Request, route: Route): string {
  return new URL(request.url).pathname.slice(route.path.length - 1);
}

function methodsOf(routes: readonly Route[]): ReadonlyMap<string, string> {
  const methods = new Map<string, string[]>();
  for (const { method, path } of routes) {
    const known = methods.get(path) ?? [];
    known.push(...(method === 'GET' ? ['GET', 'HEAD'] : [method]));
    methods.set(path, known);
  }
  return new Map([...methods].map(([path, known]) => [path, known.join(', ')]));
}
