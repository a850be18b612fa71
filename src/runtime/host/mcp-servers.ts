/**
 * The MCP servers of one runtime. Lives on the host thread.
 *
 * Owns: the definitions and the watch on their file, the known tools of the servers, the choice of the thread of each
 * connection (MCP thread or host thread). Does not own: the connections (`src/tools/mcp/connection.ts`), which tools an
 * agent is granted.
 *
 *  C1 a server has one connection. The connection is on the host thread if the server has an authentication provider,
 *     because this provider is a value of the host thread. Otherwise the connection is on the MCP thread;
 *  C2 `open` waits until each server has listed its tools or failed once, at most `MCP_OPEN_WAIT_MS`;
 *  C3 the tools of a lost server stay known, also over a restart. A call waits until the server is connected again;
 *  C4 after `close` no process, thread, timer or watch of the servers is left.
 */
import { type FSWatcher, watch } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { DEFINITIONS_SETTLE_MS, MCP_FILE_BYTES_MAX, MCP_OPEN_WAIT_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { asError, ConfigError } from '../../base/errors.ts';
import type { AnsweredElicitation } from '../../session/state/elicitation.ts';
import type { McpPlace } from '../../tools/host-tools.ts';
import { loadService } from '../../tools/mcp/load-service.ts';
import type { McpCallHooks, McpConnections, McpListener, McpServerMap, McpToolList } from '../../tools/mcp/protocol.ts';
import { parseServerFile } from '../../tools/mcp/server-options.ts';
import { ThreadConnections } from '../../tools/mcp/thread-connections.ts';
import { AskingResult } from '../../tools/server-question.ts';
import type { AnyTool } from '../../tools/tool.ts';
import { content } from '../../tools/tool-content.ts';
import { type Agent, checkMcpServers } from '../protocol/agent.ts';
import type { GuardedLogger, McpSource } from '../protocol/options.ts';
import { VERSION } from '../protocol/version.ts';
import { KnownTools } from './known-tools.ts';

/** The parts of a runtime that its MCP servers need. `directory`: the store's; undefined: the store is in memory. */
export interface McpServersParts {
  readonly directory: string | undefined;
  readonly source: McpSource;
  readonly agents: readonly Agent<unknown>[];
  readonly clock: Clock;
  readonly logger: GuardedLogger | undefined;
}

/** See the head of the file. */
export class McpServers {
  readonly #parts: McpServersParts;
  readonly #onThread: McpConnections;
  /** The connections on this thread, once there is a server with an authentication provider. */
  #onHost: Promise<McpConnections> | undefined;
  readonly #hostServers = new Set<string>();
  readonly #lists = new Map<string, McpToolList>();
  readonly #known: KnownTools;
  #definitions: McpServerMap = {};
  /** Servers that have neither listed their tools nor failed yet. */
  readonly #starting = new Set<string>();
  #onStarted: () => void = () => undefined;
  #onChange: () => void = () => undefined;
  #watcher: FSWatcher | undefined;
  #timer: unknown;
  #reading: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(parts: McpServersParts) {
    this.#parts = parts;
    this.#onThread = new ThreadConnections(this.#listener, VERSION);
    this.#known = new KnownTools(parts.directory, parts.logger);
  }

  /**
   * Starts the servers and waits for their tools (C2). Rejects with `ConfigError` for a file that cannot be used, for
   * an undefined server that an agent names, and when the package of the client is missing. After an error nothing is
   * left running.
   */
  static async open(parts: McpServersParts): Promise<McpServers> {
    const servers = new McpServers(parts);
    try {
      const definitions = await servers.#read();
      checkMcpServers(parts.agents, Object.keys(definitions));
      servers.#follow();
      const [known] = await Promise.all([servers.#known.read(definitions), servers.#configure(definitions)]);
      // A list that the server gave meanwhile is newer than the list in the file.
      for (const list of known) if (!servers.#lists.has(list.server)) servers.#lists.set(list.server, list);
      await servers.#started();
    } catch (error) {
      await servers.close();
      throw error;
    }
    return servers;
  }

  /** The tools that the servers have listed, in the order of the definitions. */
  get lists(): readonly McpToolList[] {
    return Object.keys(this.#definitions).flatMap((name) => this.#lists.get(name) ?? []);
  }

  /** Calls `onChange` now, since the tools may have changed while the runtime started, and after each later change. */
  begin(onChange: () => void): void {
    this.#onChange = onChange;
    onChange();
  }

  /**
   * A tool whose run calls the server. If the server asked a question in an earlier run, the call continues with the
   * answer (`elicited`). The server checks the input.
   */
  tool(name: string, { server, tool, effect }: McpPlace, elicited: AnsweredElicitation | undefined): AnyTool {
    return {
      name,
      description: name,
      input: { type: 'object' },
      effect,
      run: async (input, { key, signal, progress }) => {
        const hooks: McpCallHooks = { signal, progress };
        const connections = await this.#place(server);
        const call = { server, tool, input, effect, key, ...defined({ elicited }) };
        const answer = await connections.call(call, hooks);
        if ('question' in answer) return new AskingResult(answer);
        const { blocks, isError } = answer;
        const [only] = blocks;
        // A single text is returned as text and not as a block: a text that is too long is shortened, but blocks that
        // are too large are refused.
        if (blocks.length === 1 && only?.type === 'text' && !isError) return only.text;
        return content(blocks, { isError });
      },
    };
  }

  /** Ends all servers (C4). A second call has no effect. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#watcher?.close();
    this.#parts.clock.clearTimer(this.#timer);
    this.#onStarted();
    await this.#reading;
    await Promise.all([
      this.#known.close(),
      this.#onThread.close(),
      this.#onHost?.then((connections) => connections.close()),
    ]);
  }

  get #listener(): McpListener {
    return {
      tools: (list) => {
        this.#lists.set(list.server, list);
        this.#known.keep(this.lists, this.#definitions);
        this.#settled(list.server);
        this.#onChange();
      },
      lost: (server, why) => {
        this.#parts.logger?.warn({ server }, `MCP server ${JSON.stringify(server)} is not connected: ${why}`);
        this.#settled(server);
      },
      warn: (message) => this.#parts.logger?.warn({}, message),
    };
  }

  #settled(server: string): void {
    if (this.#starting.delete(server) && this.#starting.size === 0) this.#onStarted();
  }

  /** Resolves when no server is starting any more, and at `MCP_OPEN_WAIT_MS` at the latest. */
  async #started(): Promise<void> {
    if (this.#starting.size === 0) return;
    const { clock } = this.#parts;
    let timer: unknown;
    await new Promise<void>((resolve) => {
      this.#onStarted = resolve;
      timer = clock.setTimer(resolve, MCP_OPEN_WAIT_MS);
    });
    clock.clearTimer(timer);
    for (const server of this.#starting) {
      this.#parts.logger?.warn({ server }, `MCP server ${JSON.stringify(server)} has not listed its tools in time`);
    }
  }

  async #configure(definitions: McpServerMap): Promise<void> {
    this.#definitions = definitions;
    for (const name of Object.keys(definitions)) if (!this.#lists.has(name)) this.#starting.add(name);
    for (const name of this.#lists.keys()) if (!(name in definitions)) this.#lists.delete(name);
    const onThread: Record<string, McpServerMap[string]> = {};
    const onHost: Record<string, McpServerMap[string]> = {};
    for (const [name, server] of Object.entries(definitions)) {
      ('authProvider' in server ? onHost : onThread)[name] = server;
    }
    this.#hostServers.clear();
    for (const name of Object.keys(onHost)) this.#hostServers.add(name);
    await this.#onThread.configure(onThread);
    if (this.#hostServers.size > 0) await (await this.#host()).configure(onHost);
  }

  #host(): Promise<McpConnections> {
    this.#onHost ??= loadService(this.#listener, VERSION);
    return this.#onHost;
  }

  #place(server: string): Promise<McpConnections> | McpConnections {
    return this.#hostServers.has(server) ? this.#host() : this.#onThread;
  }

  async #read(): Promise<McpServerMap> {
    const { source } = this.#parts;
    if (source.kind === 'servers') return source.servers;
    const { path } = source;
    try {
      const { size } = await stat(path);
      if (size > MCP_FILE_BYTES_MAX)
        throw new ConfigError(`it has ${size} bytes; at most ${MCP_FILE_BYTES_MAX} are allowed`);
      const text = await readFile(path, 'utf8');
      return parseServerFile(text, process.env, (message) => this.#parts.logger?.warn({ path }, message));
    } catch (error) {
      throw new ConfigError(`option "mcp": the file ${path} cannot be used: ${asError(error).message}`, {
        cause: error,
        data: { key: 'mcp', path },
      });
    }
  }

  /** Watches the directory of the file: editors replace a file, and a watch on the old file would end. */
  #follow(): void {
    const { source, logger } = this.#parts;
    if (source.kind === 'servers') return;
    const { path } = source;
    const lost = (error: unknown): void =>
      logger?.warn({ path }, `changes of ${path} are not followed: ${asError(error).message}`);
    try {
      this.#watcher = watch(dirname(path), { persistent: false }, (_event, name) => {
        if (name === null || name === basename(path)) this.#changed();
      });
      this.#watcher.on('error', lost);
    } catch (error) {
      lost(error);
    }
  }

  #changed(): void {
    if (this.#isClosed || this.#timer !== undefined) return;
    this.#timer = this.#parts.clock.setTimer(() => {
      this.#timer = undefined;
      // One reading runs at a time; a change during a reading causes another reading.
      this.#reading = this.#reading.then(() => this.#readAgain());
    }, DEFINITIONS_SETTLE_MS);
  }

  async #readAgain(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.#configure(await this.#read());
    } catch (error) {
      const { message } = asError(error);
      if (!this.#isClosed) this.#parts.logger?.warn({}, `the MCP servers stay as they are: ${message}`);
    }
    if (!this.#isClosed) this.#onChange();
  }
}
