/** The connections to MCP servers on one thread. Each connection supervises its server, see `connection.ts`. */
import { isDeepStrictEqual } from 'node:util';
import { TroupeError } from '../../base/errors.ts';
import { McpConnection } from './connection.ts';
import type {
  McpCall,
  McpCallHooks,
  McpConnections,
  McpListener,
  McpServer,
  McpServerAnswer,
  McpServerMap,
} from './protocol.ts';

/** See `McpConnections`. `version`: the version of this library, for the servers. */
export class McpService implements McpConnections {
  readonly #listener: McpListener;
  readonly #version: string;
  readonly #servers = new Map<string, { readonly definition: McpServer; readonly connection: McpConnection }>();
  /** Ending connections: the process of a changed server ends before its successor starts. */
  readonly #ending = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor(listener: McpListener, version: string) {
    this.#listener = listener;
    this.#version = version;
  }

  async configure(servers: McpServerMap): Promise<void> {
    for (const [name, { definition }] of [...this.#servers]) {
      if (!isDeepStrictEqual(definition, servers[name])) this.#end(name);
    }
    for (const [name, definition] of Object.entries(servers)) {
      if (this.#servers.has(name) || this.#isClosed) continue;
      const listener = this.#listener;
      const connection = new McpConnection({ name, server: definition, listener, version: this.#version });
      this.#servers.set(name, { definition, connection });
      const before = this.#ending.get(name);
      if (before === undefined) connection.start();
      else void before.then(() => connection.start());
    }
  }

  async call(call: McpCall, hooks: McpCallHooks): Promise<McpServerAnswer> {
    const found = this.#servers.get(call.server);
    if (found === undefined) throw new TroupeError('internal', `there is no MCP server ${JSON.stringify(call.server)}`);
    return await found.connection.call(call, hooks);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const name of [...this.#servers.keys()]) this.#end(name);
    await Promise.all(this.#ending.values());
  }

  #end(name: string): void {
    const found = this.#servers.get(name);
    if (found === undefined) return;
    this.#servers.delete(name);
    const ended = Promise.all([this.#ending.get(name), found.connection.close()]).then(() => {
      if (this.#ending.get(name) === ended) this.#ending.delete(name);
    });
    this.#ending.set(name, ended);
  }
}
