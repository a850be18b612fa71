/** MCP servers as the runtime sees them: plain data, except for an authentication provider. Loads no MCP package. */
import type { ResultBlock } from '../../base/messages.ts';
import type { AnsweredElicitation } from '../../session/state/elicitation.ts';
import type { ServerQuestion } from '../server-question.ts';
import type { Effect, ToolDescription } from '../tool.ts';

/** A server that runs as a process and speaks over its standard input and output. Needs a POSIX shell, `sh`. */
export interface McpProcess {
  readonly command: string;
  readonly args?: readonly string[];
  /**
   * Variables added to the variables of this process. Variables of this process whose names look like secrets are left
   * out. The variables given here are always passed on.
   */
  readonly env?: Readonly<Record<string, string>>;
  /** The directory in which the process starts; default: that of this process. */
  readonly cwd?: string;
}

/** A server that is reached over Streamable HTTP. */
export interface McpAddress {
  /** `http:` or `https:`. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * An `AuthProvider` or `OAuthClientProvider` of `@modelcontextprotocol/client`. The provider is called on the host
   * thread, so the connection to such a server is there too.
   */
  readonly authProvider?: object;
}

/** The definition of a server. */
export type McpServer = McpProcess | McpAddress;

/** Definitions by the names of the servers. */
export type McpServerMap = Readonly<Record<string, McpServer>>;

/** The effects that a call of a server's tool may have. A server has no probe. */
export type McpEffect = Exclude<Effect, 'probe'>;

/** Separates the name of a server from that of its tool in the name that a model knows. */
export const MCP_NAME_SEPARATOR = '__';

/**
 * A tool of a server. `name`: the tool's name at the server. The name in the tool's description is `<server>__<tool>`.
 */
export interface McpTool {
  readonly name: string;
  readonly description: ToolDescription;
}

/** The tools of one server. */
export interface McpToolList {
  readonly server: string;
  readonly tools: readonly McpTool[];
}

/** One call of a tool of a server. */
export interface McpCall {
  readonly server: string;
  /** The tool's name at its server. */
  readonly tool: string;
  readonly input: unknown;
  readonly effect: McpEffect;
  /** The call's idempotency key. The server receives it as `_meta['troupe/key']`. */
  readonly key: string;
  /** The answer to the server's question; the call continues with it. Missing: the call begins. */
  readonly elicited?: AnsweredElicitation;
}

/** The hooks of one call. */
export interface McpCallHooks {
  /** Ends the call: the server receives a cancellation. */
  readonly signal: AbortSignal;
  /** Takes the server's progress. Must not throw. */
  readonly progress: (data: unknown) => void;
}

/** The result of a call: blocks for the model. */
export interface McpResult {
  readonly blocks: readonly ResultBlock[];
  readonly isError: boolean;
}

/** How a server answers a call: with its result, or with a question. The call continues with the question's answer. */
export type McpServerAnswer = McpResult | ServerQuestion;

/** Receives the events of the servers. The methods must not throw. */
export interface McpListener {
  /** The server has these tools now. */
  tools(list: McpToolList): void;
  /**
   * The connection was lost, or the first attempt to connect has failed. Later failures to connect are not reported.
   * `tools` is called when the server is connected.
   */
  lost(server: string, why: string): void;
  /** A warning for the log. */
  warn(message: string): void;
}

/** The connections to some servers, on this thread or on another one. */
export interface McpConnections {
  /**
   * Sets the servers: new and changed servers are started, and servers that are missing here are ended. Rejects with
   * `ConfigError` when the package of the client is not installed.
   */
  configure(servers: McpServerMap): Promise<void>;
  /**
   * Calls a tool. Rejects with `TroupeError` when there is no connection in time, when too many calls are open, and for
   * a call that the server refused. For a `once` call whose outcome is unknown, the result says so.
   */
  call(call: McpCall, hooks: McpCallHooks): Promise<McpServerAnswer>;
  /** Ends all servers; resolves when none of their processes is left. */
  close(): Promise<void>;
}
