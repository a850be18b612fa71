/** Mounts a handler below a path of an existing service, in one line. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FetchHandler } from './application.ts';
import { nodeListener } from './node-bridge.ts';

/** The part of a Fastify instance that is used here. So this package does not need Fastify's types. */
export interface FastifyLike {
  readonly prefix: string;
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: Error | null, body?: unknown) => void) => void,
  ): unknown;
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => void): unknown;
}

/** The part of a Fastify request that is used here. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
}

/** The part of a Fastify reply that is used here. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
}

/**
 * A Fastify plugin that answers everything below its prefix with `handler`:
 *
 * ```ts
 * await app.register(fastifyPlugin(handler(runtime)), { prefix: '/agents' });
 * ```
 */
export function fastifyPlugin(handler: FetchHandler): (instance: FastifyLike) => Promise<void> {
  const listener = nodeListener(handler);
  return async (instance) => {
    // The handler itself reads bodies, within its own bound.
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (_request, _payload, done) => done(null));
    instance.all('/*', ({ raw }, reply) => {
      reply.hijack();
      raw.url = below(raw.url ?? '/', instance.prefix);
      void listener(raw, reply.raw);
    });
  };
}

function below(url: string, prefix: string): string {
  const rest = url.startsWith(prefix) ? url.slice(prefix.length) : url;
  return rest.startsWith('/') ? rest : `/${rest}`;
}
