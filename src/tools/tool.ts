/**
 * The definition of a tool: the type of the value that a program writes, and `tool()`, which infers the type of the
 * tool's input. `open` checks each tool.
 */
import type { Json } from '../base/json.ts';
import type { ResultBlock } from '../base/messages.ts';
import type { ServerQuestion } from './server-question.ts';

/**
 * Says what happens to a running call if the process crashes, or if another call ends the tool thread. `pure` runs
 * again. `keyed` runs again with the same `key`. `once` never runs again and is answered "outcome unknown". `probe`
 * asks the tool's own `probe` for the outcome.
 */
export type Effect = 'pure' | 'keyed' | 'once' | 'probe';

/** The arguments of `run` besides its input. */
export interface ToolContext {
  /** Aborted at the timeout, on interrupt and on close. */
  readonly signal: AbortSignal;
  /** The session's id. */
  readonly session: string;
  /** The model's id of this call. */
  readonly callId: string;
  /**
   * An idempotency key for external systems. It stays the same for this call across crashes and restarts. The key
   * differs after the session was deleted and created again, and in another store.
   */
  readonly key: string;
  /**
   * The number of this attempt, from 1. It is above 1 if the tool's `retry` has run the call again. After a crash it
   * starts at 1 again.
   */
  readonly attempt: number;
  /** Milliseconds that this call may take from its start. Missing on tool threads, where the pool ends late calls. */
  readonly timeoutMs?: number;
  /**
   * Publishes the call's progress to subscribers. Progress is not stored. A newer update replaces an update that has
   * not been sent yet.
   */
  readonly progress: (data: unknown) => void;
}

/** The part of the Standard Schema interface that is used (https://standardschema.dev, version 1). */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}
/** A Standard Schema's answer. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly unknown[] | undefined }[] };

/**
 * The kinds of failed attempts that may be repeated. `failure`: the tool threw. `timeout`: it ran out of time. `lost`:
 * its thread or process died, or its result did not arrive.
 */
export type ToolFailure = 'failure' | 'timeout' | 'lost';

/**
 * Says when and how often a failed call runs again. `timeoutMs` holds for each attempt; every attempt has the same
 * `key`.
 */
export interface ToolRetry {
  /** The number of attempts, the first one included; 1 to 10. */
  readonly attempts: number;
  /** Milliseconds before the second attempt; default 500. */
  readonly baseMs?: number;
  /** Each wait is this many times the previous one; default 2. */
  readonly factor?: number;
  /** The longest wait in ms, before up to 15 % random jitter is added; default 30,000. */
  readonly maximumMs?: number;
  /** The kinds of failed attempts that are repeated; default: all. */
  readonly on?: readonly ToolFailure[];
}

/** A JSON Schema of an object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A tool, as a program defines it. `Input` is the input of `run` after validation. */
export interface Tool<Input = unknown> {
  readonly name: string;
  readonly description: string;
  readonly input: StandardSchema<Input> | JsonSchema;
  readonly effect?: Effect;
  /** Milliseconds; default `settings.timeouts.tool`. */
  readonly timeoutMs?: number;
  /** True lets the model set the call's timeout. */
  readonly adjustableTimeout?: boolean;
  /** False: the result is not cut to `settings.tools.maxToolResponseChars`. The result is still bounded in bytes. */
  readonly truncate?: boolean;
  /**
   * A result with more characters is shortened. Default: `toolResultChars` of the agent, else
   * `settings.tools.maxToolResponseChars`. Not together with `truncate: false`.
   */
  readonly maxResultChars?: number;
  /**
   * UTF-8 bytes of the result that the model receives. Default: `limits.toolResultBytes`. A larger value has no effect.
   */
  readonly maxResultBytes?: number;
  /**
   * The bound on simultaneous runs of this tool, per shard. Without this bound a tool thread runs up to 64 calls of a
   * `pure`, `keyed` or `probe` tool at a time. A call of a `once` tool then has its thread to itself. With a bound
   * above 1 a `once` tool shares threads. If another call ends such a thread, the outcome of the `once` calls on that
   * thread is unknown. Tools given as values have no default bound.
   */
  readonly concurrency?: number;
  /**
   * `process`: each call runs in a child process with its own process group. A native crash fails that call alone, and
   * every process that the call started ends with it. Only for tools given by URL. Default: tool threads.
   */
  readonly isolation?: 'process';
  /**
   * Runs a failed call again, for tools that are `pure` or `keyed`. A call that returns `{ error }` has an answer for
   * the model and is not repeated. A call that throws an error whose `retryable` is false is not repeated either. The
   * wait between two attempts holds no thread and does not count for `concurrency`.
   */
  readonly retry?: ToolRetry;
  /**
   * True if the model sees the tool only after a tool search has found it. The agent then needs a `serverTool` that
   * searches tools. A sub-agent that has no such `serverTool` sees the tool at once.
   */
  readonly deferLoading?: boolean;
  /**
   * One line for the list of tools in the system prompt of sessions with enrichers; if missing, the tool is not in that
   * list.
   */
  readonly snippet?: string;
  /** Rules for the tool's use, one line each, for the system prompt of sessions with enrichers. */
  readonly guidelines?: readonly string[];
  /**
   * Returns text, a value that becomes JSON, or blocks (`content()`); may be asynchronous. An object with its own
   * `error` is a failure.
   */
  run(input: Input, context: ToolContext): unknown;
  /**
   * For `effect: 'probe'` only: the outcome of the call with this key; `undefined` if the call did not take effect. Not
   * called while a run of the call is still at work on this host.
   */
  probe?(call: { readonly key: string; readonly input: Input }): unknown;
}

/**
 * Any tool, whatever its input. `run` and `probe` are methods, so that a tool with a narrower input can be assigned to
 * this type.
 */
export type AnyTool = Tool<unknown>;

/** A tool's description for the rest of the runtime: plain data that can be sent to threads. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, Json>>;
  readonly effect: Effect;
  /** Milliseconds; if missing, the setting applies. */
  readonly timeoutMs?: number;
  readonly adjustableTimeout: boolean;
  readonly truncate: boolean;
  readonly maxResultChars?: number;
  readonly maxResultBytes?: number;
  readonly concurrency?: number;
  readonly isolation?: 'process';
  readonly retry?: Required<ToolRetry>;
  readonly deferLoading?: true;
  readonly snippet?: string;
  readonly guidelines?: readonly string[];
}

/**
 * The outcome of one call, as data. A failed call has an outcome too. `content` is the text for the model, sanitised,
 * not yet truncated; it is empty if the result has blocks.
 */
export interface ToolOutcome {
  readonly content: string;
  readonly blocks?: readonly ResultBlock[];
  /** The question of the call's MCP server. The call has no result yet: it waits, and continues with the answer. */
  readonly asks?: ServerQuestion;
  readonly success: boolean;
  readonly ms: number;
  /** How the attempt failed. Missing: it did not fail, or another attempt would fail in the same way. */
  readonly failed?: ToolFailure;
  /** The stack of the error that the tool threw; for the runtime's log, never for the model. */
  readonly stack?: string;
}

/** Options of `tool()`: those of `Tool`, with `run`'s input inferred from the schema. */
export type ToolOptions<Input> = Tool<Input>;

/** Returns the tool itself, typed by its schema. `open` refuses bad names and schemas, and its error says which. */
export function tool<Input>(options: ToolOptions<Input> & { readonly input: StandardSchema<Input> }): Tool<Input>;
export function tool(
  options: ToolOptions<Readonly<Record<string, unknown>>> & { readonly input: JsonSchema },
): Tool<Readonly<Record<string, unknown>>>;
export function tool<Input>(options: ToolOptions<Input>): Tool<Input> {
  return options;
}
