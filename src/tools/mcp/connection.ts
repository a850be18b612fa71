/**
 * The supervised connection to one MCP server: a lost connection is made again. Runs on the MCP thread, or on the host
 * thread for a server with an authentication provider.
 *
 * Owns: the client, the process or the HTTP session behind it, the wait between attempts, the open calls. Does not own:
 * the deadline of a call (`../host-runs.ts`), which tools an agent may use.
 *
 * K1 A call settles exactly once. A call is sent only over a connection that is ready, and is sent again only as
 *    `call-repeats.ts` allows.
 * K2 A server has one process at a time: the next one starts when nothing is left of the last one and its children.
 * K3 A server that does not answer is noticed through its calls: a call that is given up starts a health check. A
 *    server that fails the check is ended. In the newer era of the protocol (`modern` in the SDK) the end of the
 *    server's notification stream also starts a check.
 * K4 After `close` there is no process, no timer and no open call.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  isInputRequiredResult,
  type PriorDiscovery,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  type Tool,
} from '@modelcontextprotocol/client';
import {
  MCP_CALL_WAIT_MS,
  MCP_CALLS_CHARACTERS_MAX,
  MCP_CALLS_MAX,
  MCP_CONNECT_MS,
  MCP_HEALTH_MS,
  MCP_LIST_PAGES_MAX,
  MCP_PROBE_MS,
  MCP_RETRY_MS,
  MCP_RETRY_MS_MAX,
  MCP_STABLE_MS,
  TOOL_TIMEOUT_MS_MAX,
} from '../../base/bounds.ts';
import { asError, CancelledError, LimitError, systemCodeOf, TroupeError } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import { ConnectionLostError, repeatLost } from './call-repeats.ts';
import { continuationOf, questionOf } from './elicitation.ts';
import { HttpTransport, STREAM_ENDED_CODE } from './http-transport.ts';
import type { McpCall, McpCallHooks, McpListener, McpServer, McpServerAnswer } from './protocol.ts';
import { resultOf } from './results.ts';
import { StdioTransport } from './stdio-transport.ts';
import { describeTools } from './tool-lists.ts';

/** System errors of a request that no server has received. */
const UNSENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);
const HTTP_BAD_REQUEST = 400;
const HTTP_NOT_FOUND = 404;
const HTTP_SERVER_ERROR = 500;

/** The parts of a connection. */
export interface ConnectionParts {
  readonly name: string;
  readonly server: McpServer;
  readonly listener: McpListener;
  /** The version of this library, for the server. */
  readonly version: string;
}

/** A connection that is ready. */
interface Session {
  readonly client: Client;
  readonly transport: StdioTransport | HttpTransport;
  /** Resolves when the connection has ended or is given up, with the reason. */
  readonly ended: Promise<string>;
  readonly end: (why: string) => void;
  /** The server's tools that have a schema of their output, by name. */
  readonly tools: Map<string, Tool>;
  /** Takes the server's tools. */
  readonly take: (tools: readonly Tool[]) => void;
  /** The health check in progress. */
  health: Promise<void> | undefined;
}

/** See the head of the file. */
export class McpConnection {
  readonly #parts: ConnectionParts;
  readonly #closing = new AbortController();
  readonly #waiting = new Set<(session: Session | Error) => void>();
  #session: Session | undefined;
  #living: Promise<void> | undefined;
  /** The reason why there is no connection now. */
  #lastFailure = 'it is starting';
  /** True if the next connection uses the older protocol era at once, without asking for the newer one. */
  #isLegacy = false;
  /** True once it was reported that the server is not connected, until it is connected again. */
  #isReported = false;
  #openCalls = 0;
  #openCharacters = 0;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
  }

  /** Begins to connect. */
  start(): void {
    this.#living ??= this.#live();
  }

  /** See `McpConnections.call`. */
  async call(call: McpCall, hooks: McpCallHooks): Promise<McpServerAnswer> {
    const characters = JSON.stringify(call.input ?? null).length;
    this.#checkRoom(characters);
    this.#openCalls += 1;
    this.#openCharacters += characters;
    try {
      return await repeatLost(
        call.effect,
        async () => await this.#attempt(await this.#ready(hooks.signal), call, hooks),
      );
    } finally {
      this.#openCalls -= 1;
      this.#openCharacters -= characters;
    }
  }

  /** Ends the connection; resolves when no process of the server is left (K4). Never rejects. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#session?.end('it was closed');
    for (const settle of [...this.#waiting]) settle(new CancelledError(`MCP server ${this.#label} was closed`));
    await this.#living;
  }

  get #label(): string {
    return JSON.stringify(this.#parts.name);
  }

  #checkRoom(characters: number): void {
    const isFull = this.#openCalls >= MCP_CALLS_MAX || this.#openCharacters + characters > MCP_CALLS_CHARACTERS_MAX;
    if (!isFull) return;
    throw new LimitError(
      `MCP server ${this.#label} has ${this.#openCalls} open calls with ${this.#openCharacters} characters of input; at` +
        ` most ${MCP_CALLS_MAX} with ${MCP_CALLS_CHARACTERS_MAX} are accepted`,
      { retryable: true, data: { limit: 'mcpCalls' } },
    );
  }

  /** The connection, once it is ready. Rejects after `MCP_CALL_WAIT_MS`, and when `signal` is aborted. */
  #ready(signal: AbortSignal): Promise<Session> {
    if (this.#session !== undefined) return Promise.resolve(this.#session);
    if (this.#closing.signal.aborted) throw new CancelledError(`MCP server ${this.#label} was closed`);
    return new Promise((resolve, reject) => {
      const settle = (found: Session | Error): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', aborted);
        this.#waiting.delete(settle);
        if (found instanceof Error) reject(found);
        else resolve(found);
      };
      const aborted = (): void => settle(asError(signal.reason));
      const timer = setTimeout(
        () => settle(new TroupeError('internal', `MCP server ${this.#label} is not available: ${this.#lastFailure}`)),
        MCP_CALL_WAIT_MS,
      );
      this.#waiting.add(settle);
      signal.addEventListener('abort', aborted, { once: true });
      if (signal.aborted) aborted();
    });
  }

  async #attempt(session: Session, call: McpCall, { signal, progress }: McpCallHooks): Promise<McpServerAnswer> {
    try {
      if (call.elicited !== undefined && session.client.getProtocolEra() !== 'modern') {
        throw new TroupeError(
          'internal',
          `MCP server ${this.#label} asked a question, but now speaks a protocol without questions`,
        );
      }
      const input = call.input as Record<string, unknown>;
      const result = await session.client.callTool(
        { name: call.tool, arguments: input, _meta: { 'troupe/key': call.key }, ...continuationOf(call.elicited) },
        {
          signal,
          onprogress: ({ progress: done, total, message }) => progress({ progress: done, total, message }),
          // The caller ends late calls by aborting the signal, so this timeout is longer than any call.
          timeout: 2 * TOOL_TIMEOUT_MS_MAX,
          allowInputRequired: true,
          ...withoutOutput(session.tools.get(call.tool)),
        },
      );
      if (isInputRequiredResult(result)) return questionOf(this.#parts.name, result);
      return resultOf(result, session.tools.get(call.tool)?.outputSchema);
    } catch (error) {
      if (signal.aborted) {
        // If the server is healthy, the check costs only one message.
        void this.#check(session);
        throw asError(signal.reason);
      }
      const lost = lostBy(error, session);
      if (lost === undefined) throw asError(error);
      // The check ends a dead connection, so that the next attempt does not use it.
      await this.#check(session);
      throw lost;
    }
  }

  /** Ends a connection whose server does not answer (K3). Only one check runs at a time. */
  #check(session: Session): Promise<void> {
    session.health ??= this.#checkNow(session).finally(() => {
      session.health = undefined;
    });
    return session.health;
  }

  async #checkNow(session: Session): Promise<void> {
    const { client, end } = session;
    if (this.#session !== session) return;
    try {
      const options = { timeout: MCP_HEALTH_MS };
      await (client.getProtocolEra() === 'modern' ? client.discover(options) : client.ping(options));
    } catch (error) {
      // A protocol error in reply to the check shows that the server answers.
      if (error instanceof ProtocolError && error.code !== STREAM_ENDED_CODE) return;
      end(`it did not answer a health check: ${asError(error).message}`);
    }
  }

  /** Connects, and connects again after each end, until `close`. Never rejects. */
  async #live(): Promise<void> {
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted; ) {
      const wasAsked = !this.#isLegacy;
      const startedAt = performance.now();
      const { wasReady, why } = await this.#liveOnce();
      if (signal.aborted) return;
      this.#lastFailure = why;
      // A server's process may exit because the client asks for the newer era first, before it initialises the server.
      // So the server is started again at once in the older era. While neither era works, the attempts alternate
      // between the two.
      if (!wasReady && 'command' in this.#parts.server) this.#isLegacy = wasAsked;
      if (!wasReady && this.#isLegacy && failures === 0) {
        failures = 1;
        continue;
      }
      if (wasReady && performance.now() - startedAt >= MCP_STABLE_MS) failures = 0;
      if (wasReady || !this.#isReported) this.#parts.listener.lost(this.#parts.name, why);
      this.#isReported = true;
      failures += 1;
      const waitMs = growingWait(failures, { first: MCP_RETRY_MS, longest: MCP_RETRY_MS_MAX });
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** One connection from its beginning to its end; resolves when nothing of it is left. */
  async #liveOnce(): Promise<{ readonly wasReady: boolean; readonly why: string }> {
    const { server } = this.#parts;
    const transport = 'command' in server ? new StdioTransport(server) : new HttpTransport(server);
    try {
      const session = await this.#connect(transport);
      this.#session = session;
      this.#isReported = false;
      for (const settle of [...this.#waiting]) settle(session);
      void this.#follow(session);
      return { wasReady: true, why: await session.ended };
    } catch (error) {
      return { wasReady: false, why: failureText(error, transport) };
    } finally {
      this.#session = undefined;
      await this.#end(transport);
    }
  }

  async #connect(transport: Session['transport']): Promise<Session> {
    const { name, listener, version } = this.#parts;
    const outputs: Session['tools'] = new Map();
    const take: Session['take'] = (tools) => {
      outputs.clear();
      for (const tool of tools) if (tool.outputSchema !== undefined) outputs.set(tool.name, tool);
      listener.tools(describeTools(name, tools, (line) => listener.warn(`MCP server ${this.#label}: ${line}`)));
    };
    const client = new Client(
      { name: 'troupe', version },
      {
        versionNegotiation: { mode: 'auto', probe: { timeoutMs: MCP_PROBE_MS } },
        listMaxPages: MCP_LIST_PAGES_MAX,
        capabilities: { elicitation: { form: {} } },
        // A question waits in the log of its session. The session answers it with another call.
        inputRequired: { autoFulfill: false },
        listChanged: {
          tools: {
            onChanged: (error, tools) => {
              if (tools !== null && tools !== undefined) take(tools);
              else listener.warn(`MCP server ${this.#label}: its tools cannot be read again: ${error?.message}`);
            },
          },
        },
      },
    );
    // The client must declare that it takes questions before the era is known. In the older era a question does not
    // name its call, so no session could answer the question, and it is cancelled here.
    client.setRequestHandler('elicitation/create', () => ({ action: 'cancel' }));
    let end: (why: string) => void = () => undefined;
    const ended = new Promise<string>((resolve) => {
      end = resolve;
    });
    client.onclose = () => end(transport instanceof StdioTransport ? transport.end : 'the connection was closed');
    const options = { timeout: MCP_CONNECT_MS, signal: this.#closing.signal };
    const prior: PriorDiscovery | undefined = this.#isLegacy ? { kind: 'legacy' } : undefined;
    await client.connect(transport, prior === undefined ? options : { ...options, prior });
    const hasTools = client.getServerCapabilities()?.tools !== undefined;
    take(hasTools ? (await client.listTools(undefined, options)).tools : []);
    this.#isLegacy = client.getProtocolEra() === 'legacy';
    return { client, transport, ended, end, tools: outputs, take, health: undefined };
  }

  /**
   * Follows the notification stream of a server of the newer era. A stream that breaks may mean that the server has
   * ended, so its health is checked. If the server lives, another stream is opened, and the tools are read again. Never
   * rejects.
   */
  async #follow(session: Session): Promise<void> {
    const { client, take } = session;
    const { signal } = this.#closing;
    let stream = client.autoOpenedSubscription;
    try {
      while (stream !== undefined && (await stream.closed) === 'remote') {
        await this.#check(session);
        await delay(MCP_STABLE_MS, undefined, { signal });
        if (this.#session !== session) return;
        stream = await client.listen({ toolsListChanged: true });
        take((await client.listTools(undefined, { cacheMode: 'refresh' })).tools);
      }
    } catch {
      // The connection has ended, or the check ends it.
      await this.#check(session);
    }
  }

  async #end(transport: Session['transport']): Promise<void> {
    const hasSession = transport instanceof HttpTransport && transport.sessionId !== undefined;
    // Only a close ends the HTTP session: a lost server has forgotten its session, or cannot be reached.
    if (hasSession && this.#closing.signal.aborted) {
      await Promise.race([
        transport.terminateSession().catch(() => undefined),
        delay(MCP_HEALTH_MS, undefined, { ref: false }),
      ]);
    }
    await transport.close();
  }
}

/** The error of an attempt that was lost with its connection; undefined if `error` is an answer of the server. */
function lostBy(error: unknown, { transport }: Session): ConnectionLostError | undefined {
  const message = `the connection to the MCP server was lost: ${asError(error).message}`;
  const lost = (isUnsent: boolean): ConnectionLostError => new ConnectionLostError(message, { isUnsent, cause: error });
  if (error instanceof SdkHttpError) {
    const { status } = error;
    if (status !== undefined && status >= HTTP_SERVER_ERROR) return lost(false);
    // The server has restarted, and no longer knows its session.
    const isForgotten = status === HTTP_NOT_FOUND || status === HTTP_BAD_REQUEST;
    if (!isForgotten || !(transport instanceof HttpTransport) || transport.sessionId === undefined) return undefined;
    return lost(true);
  }
  if (error instanceof SdkError) return error.code === SdkErrorCode.ConnectionClosed ? lost(false) : undefined;
  if (error instanceof ProtocolError) return error.code === STREAM_ENDED_CODE ? lost(false) : undefined;
  if (asError(error).message === 'Not connected') return lost(true);
  // `fetch` fails with a `TypeError`, whose cause has the system's code.
  if (error instanceof TypeError && error.cause !== undefined) return lost(UNSENT.has(systemCodeOf(error.cause)));
  return undefined;
}

/**
 * The tool's definition without the schema of its output. With that schema the client would check the output, and
 * refuse a question, which has no output. `resultOf` checks the output instead.
 */
function withoutOutput(tool: Tool | undefined): { readonly toolDefinition?: Tool } {
  if (tool === undefined) return {};
  const { outputSchema: _outputSchema, ...toolDefinition } = tool;
  return { toolDefinition };
}

function failureText(error: unknown, transport: Session['transport']): string {
  const { message } = asError(error);
  return transport instanceof StdioTransport && transport.pid !== undefined ? `${message} (${transport.end})` : message;
}
