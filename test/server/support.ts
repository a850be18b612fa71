/** Servers for tests: each over a separate runtime, closed after the test that asked for it. */
import { afterEach } from 'vitest';
import type { ProviderData, Runtime } from '../../src/index.ts';
import { type RunningServer, type ServeOptions, serve } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { type RuntimeKit, runtimeKit, type TestOptions } from '../support/runtime-kit.ts';

/** Answers `to <text of the message>`. */
export const echo: ProviderData = scripted({ rules: [], otherwise: 'to {{text}}' });

/** An answer with its body read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** A server and the runtime it serves. */
export interface Served {
  readonly runtime: Runtime;
  readonly server: RunningServer;
  readonly url: string;
  /** Failures whose reason the server did not reveal to its client. */
  readonly errors: readonly unknown[];
  get(path: string, init?: RequestInit): Promise<Answer>;
  post(path: string, body?: unknown, init?: RequestInit): Promise<Answer>;
}

/** Options of a test's server. */
export interface ServerKit extends RuntimeKit {
  serve(options?: TestOptions, server?: Partial<ServeOptions>): Promise<Served>;
}

/** Registers the clean-up; call it once at the top of a test file. */
export function serverKit(): ServerKit {
  const kit = runtimeKit();
  const servers: RunningServer[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close({ deadlineMs: 0 })));
  });
  return {
    ...kit,
    async serve(options = {}, given = {}) {
      const runtime = await kit.open({ provider: echo, ...options });
      const errors: unknown[] = [];
      const server = await serve(runtime, { port: 0, onError: (error) => errors.push(error), ...given });
      servers.push(server);
      const ask = async (path: string, init: RequestInit): Promise<Answer> => {
        const response = await fetch(`${server.url}${path}`, { redirect: 'manual', ...init });
        return { status: response.status, headers: response.headers, body: await bodyOf(response) };
      };
      return {
        runtime,
        server,
        url: server.url,
        errors,
        get: (path, init = {}) => ask(path, init),
        post: (path, body, init = {}) => ask(path, { ...posted(body), ...init }),
      };
    },
  };
}

/** A POST of JSON. */
export function posted(body: unknown): RequestInit {
  if (body === undefined) return { method: 'POST' };
  return { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  return response.headers.get('content-type')?.includes('json') === true ? JSON.parse(text) : text;
}
