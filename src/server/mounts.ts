/** Where services already listen: a handler below a path of theirs, in one line each. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FetchHandler } from './application.ts';
import { nodeListener } from './node-bridge.ts';

/** What is used of a Fastify instance; its own types are not needed to mount. */
export interface FastifyLike {
  readonly prefix: string;
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: Error | null, body?: unknown) => void) => void,
  ): unknown;
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => void): unknown;
}

/** What is used of a Fastify request. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
}

/** What is used of a Fastify reply. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
}

/**
 * A Fastify plugin that answers with `handler` everything below its prefix:
 *
 * ```ts
 * await app.register(fastifyPlugin(handler(runtime)), { prefix: '/agents' });
 * ```
 */
export function fastifyPlugin(handler: FetchHandler): (instance: FastifyLike) => Promise<void> {
  const listener = nodeListener(handler);
  return async (instance) => {
    // Bodies are left to the handler, which reads them within its own bound.
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
