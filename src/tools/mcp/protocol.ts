/** MCP servers as the runtime sees them: plain data, except for an authentication provider. Loads no MCP package. */
import type { ResultBlock } from '../../base/messages.ts';
import type { AnsweredElicitation } from '../../session/state/elicitation.ts';
import type { ServerQuestion } from '../server-question.ts';
import type { Effect, ToolDescription } from '../tool.ts';

/** A server that runs as a process and speaks over its standard input and output. Needs a POSIX shell, `sh`. */
export interface McpProcess {
  readonly command: string;
  readonly args?: readonly string[];
  /** Further variables. The process has those of this process without the ones whose names look like secrets. */
  readonly env?: Readonly<Record<string, string>>;
  /** The directory it starts in; default: that of this process. */
  readonly cwd?: string;
}

/** A server that is reached over Streamable HTTP. */
export interface McpAddress {
  /** `http:` or `https:`. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * An `AuthProvider` or `OAuthClientProvider` of `@modelcontextprotocol/client`. It is called on the host thread, so
   * such a server's connection is there too.
   */
  readonly authProvider?: object;
}

/** The definition of a server. */
export type McpServer = McpProcess | McpAddress;

/** Definitions by the names of the servers. */
export type McpServerMap = Readonly<Record<string, McpServer>>;

/** The effects that a call of a server may have; a server has no probe. */
export type McpEffect = Exclude<Effect, 'probe'>;

/** Stands between the name of a server and that of its tool, in the name that a model knows. */
export const MCP_NAME_SEPARATOR = '__';

/** A tool of a server: its name there, and its description for a model, whose name is `<server>__<tool>`. */
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
  /** The answer to the question that the server asked in this call, which continues with it; missing: it begins. */
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

/** The end of a run of a call: its result, or the question with whose answer the call continues. */
export type McpServerAnswer = McpResult | ServerQuestion;

/** Receives the news of the servers. Its methods must not throw. */
export interface McpListener {
  /** The server has these tools now. */
  tools(list: McpToolList): void;
  /** The server has no connection; called once until it has one again. Its tools come as soon as it has. */
  lost(server: string, why: string): void;
  /** A warning for the log. */
  warn(message: string): void;
}

/** The connections to some servers, on this thread or on another one. */
export interface McpConnections {
  /**
   * Sets the servers: new and changed ones are started, missing ones are ended. Rejects with `ConfigError` when the
   * package of the client is not installed.
   */
  configure(servers: McpServerMap): Promise<void>;
  /**
   * Calls a tool. Rejects with `TroupeError` when there is no connection in time, when too many calls are open, and for
   * a call that the server refused. A `once` call whose outcome is unknown is a result that says so.
   */
  call(call: McpCall, hooks: McpCallHooks): Promise<McpServerAnswer>;
  /** Ends all servers; resolves when none of their processes is left. */
  close(): Promise<void>;
}
