/** Subpath `troupe/server`: serves a runtime over HTTP, as a separate server or as a part of your server. */
import type { Runtime } from '../index.ts';
import { createApplication, type FetchHandler } from './application.ts';
import { checkHandlerOptions, type HandlerOptions } from './options.ts';

export type { FetchHandler } from './application.ts';
export { type FastifyLike, type FastifyReplyLike, type FastifyRequestLike, fastifyPlugin } from './mounts.ts';
export { type NodeListener, nodeListener } from './node-bridge.ts';
export type { HandlerOptions, ServeOptions } from './options.ts';
export { type HttpCode, type Problem, type ProblemCode, statusOf } from './problem.ts';
export type { Role, TokenOptions } from './roles.ts';
export { type RunningServer, serve } from './serve.ts';

/**
 * Returns a function that answers each `Request` about a runtime with a `Response`, for any framework that uses these
 * types. Throws `ConfigError` for a bad option; the returned function never rejects.
 *
 * ```ts
 * app.mount('/agents', handler(runtime, { token }));                  // Hono
 * app.use('/agents', nodeListener(handler(runtime)));                 // Express, connect
 * await app.register(fastifyPlugin(handler(runtime)), { prefix: '/agents' }); // Fastify
 * ```
 *
 * Without `token` and `hosts` the function answers only requests from this machine, and only if `serve` or
 * `nodeListener` accepted the connection. It answers any other request with 403. A framework that makes the `Request`
 * itself, such as Hono, needs one of the two options.
 */
export function handler(runtime: Runtime, options: HandlerOptions = {}): FetchHandler {
  return createApplication(runtime, checkHandlerOptions(options)).fetch;
}
