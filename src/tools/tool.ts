/** What a tool is: the type an embedder writes and `tool()`, which checks nothing yet and infers everything. */
import type { Json } from '../base/json.ts';

/**
 * What a crash may do to a running call. `pure` runs again; `keyed` runs again with the same `key`; `once` never runs again
 * and is answered "outcome unknown"; `probe` asks the tool's own `probe` what happened.
 */
export type Effect = 'pure' | 'keyed' | 'once' | 'probe';

/** What `run` is given beside its input. */
export interface ToolContext {
  /** Aborted at the timeout, on interrupt and on close. */
  readonly signal: AbortSignal;
  /** The session's id. */
  readonly session: string;
  /** The model's id of this call. */
  readonly callId: string;
  /** Stable for this call across crashes and restarts: an idempotency key for the outside world. */
  readonly key: string;
  /** Milliseconds this call may take from its start; missing in tool threads, where the pool keeps the time. */
  readonly timeoutMs?: number;
  /** Tells subscribers how far the call is; ephemeral, newest wins. */
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

/** A JSON Schema of an object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A tool, as an embedder writes it. `Input` is what `run` gets after validation. */
export interface Tool<Input = unknown> {
  readonly name: string;
  readonly description: string;
  readonly input: StandardSchema<Input> | JsonSchema;
  readonly effect?: Effect;
  /** Milliseconds; default `settings.timeouts.tool`. */
  readonly timeoutMs?: number;
  /** Lets the model set the call's timeout. */
  readonly adjustableTimeout?: boolean;
  /** False: the result is not cut to `settings.tools.maxToolResponseChars` (it is still bounded by `limits`). */
  readonly truncate?: boolean;
  /** Runs of this tool at once, per shard. */
  readonly concurrency?: number;
  /** One line for the list of tools in the system prompt of sessions that enrichers watch; missing: it is not in that list. */
  readonly snippet?: string;
  /** Rules of its use, a sentence each, for the same prompt. */
  readonly guidelines?: readonly string[];
  run(input: Input, context: ToolContext): unknown;
  /**
   * `effect: 'probe'` only: what happened to the call with this key; `undefined` when it did not happen. Not asked while a run
   * of the call is still at work on this host.
   */
  probe?(call: { readonly key: string; readonly input: Input }): unknown;
}

/** Any tool, whatever its input: `run` and `probe` are methods, so that a tool of a narrower input is one. */
export type AnyTool = Tool<unknown>;

/** A tool told to the rest of the runtime: plain data, crosses threads. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, Json>>;
  readonly effect: Effect;
  /** Milliseconds; missing: the setting. */
  readonly timeoutMs?: number;
  readonly adjustableTimeout: boolean;
  readonly truncate: boolean;
  readonly concurrency?: number;
  readonly snippet?: string;
  readonly guidelines?: readonly string[];
}

/**
 * How one call ended, as data: never a throw (rule of the tool boundary). `content` is the text for the model, decorated,
 * sanitised, not yet truncated. `kind` says why a failure is one.
 */
export interface ToolOutcome {
  readonly content: string;
  readonly success: boolean;
  readonly ms: number;
}

/** Options of `tool()`: those of `Tool`, with `run`'s input inferred from the schema. */
export type ToolOptions<Input> = Tool<Input>;

/** Returns the tool itself, typed by its schema. Bad names and schemas are refused by `open`, which names them. */
export function tool<Input>(options: ToolOptions<Input> & { readonly input: StandardSchema<Input> }): Tool<Input>;
export function tool(
  options: ToolOptions<Readonly<Record<string, unknown>>> & { readonly input: JsonSchema },
): Tool<Readonly<Record<string, unknown>>>;
export function tool<Input>(options: ToolOptions<Input>): Tool<Input> {
  return options;
}
