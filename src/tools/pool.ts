/**
 * The shard's interface to tool calls: a call leaves, and exactly one outcome comes back before its deadline, whatever
 * the tool does.
 */
import type { AnsweredElicitation } from '../session/state/elicitation.ts';
import type { McpEffect } from './mcp/protocol.ts';
import type { Effect, ToolDescription, ToolOutcome } from './tool.ts';

/**
 * A tool's code on a tool thread. With `options` (a JSON text) the export is a function that makes the tool from these
 * options.
 */
export interface ThreadPlace {
  readonly kind: 'thread';
  readonly url: string;
  readonly exportName: string;
  readonly options?: string;
  /** `process`: each call runs in a child process. */
  readonly isolation?: 'process';
}

/**
 * The place where a tool's code runs. `thread`: on a tool thread, from a module's export. `host`: on the host thread,
 * as a value. `mcp`: at an MCP server, which the host thread calls.
 */
export type ToolPlace =
  | ThreadPlace
  | { readonly kind: 'host'; readonly agent: string }
  | { readonly kind: 'mcp'; readonly server: string; readonly tool: string; readonly effect: McpEffect };

/** One call to run. `id` is unique among all runs of the shard. */
export interface ToolRun {
  readonly id: number;
  readonly session: string;
  readonly callId: string;
  readonly key: string;
  readonly toolName: string;
  readonly place: ToolPlace;
  readonly input: unknown;
  /**
   * Milliseconds that the tool may work. The run ends no later than `TOOL_GRACE_MS` after that. Waiting for a thread
   * does not count: a call must not time out because other calls are slow.
   */
  readonly timeoutMs: number;
  /** `probe`: call the tool's `probe` first, and run only if it answers `undefined`. */
  readonly mode: 'run' | 'probe';
  /** The number of the attempt, from 1; see `ToolContext`. */
  readonly attempt: number;
  /** For a tool of an MCP server: the answer that the call continues with. Missing: the call begins. */
  readonly elicited?: AnsweredElicitation;
  /** The key of an encrypted file that the run reads, as hexadecimal digits; see `file-key.ts`. */
  readonly fileKey?: string;
  /** Decides whether the run may begin again when another call ends its thread, and whether it needs a thread alone. */
  readonly effect: Effect;
  /** Maximum simultaneous runs of this tool, from its description; if missing, the default of its effect. */
  readonly concurrency?: number;
}

/** Receives outcomes and progress from a pool, on the owner's thread, never synchronously from within `run`. */
export interface ToolPoolListener {
  /** Called exactly once per run: finished, failed, timed out, thread dead or cancelled. */
  finished(id: number, outcome: ToolOutcome): void;
  progress(id: number, data: unknown): void;
}

/** A tool found in a module. */
export interface FoundTool {
  readonly exportName: string;
  readonly description: ToolDescription;
}

/** Runs tool calls. */
export interface ToolPool {
  /** Starts a run, or queues it. Never throws: a failure is an outcome. */
  run(run: ToolRun): void;
  /** Aborts a run; its outcome is a failure whose content is `reason`. Unknown ids are ignored. */
  cancel(id: number, reason: string): void;
  /**
   * True while an outcome will come: the run waits, runs, or is about to be reported. False once the outcome was
   * reported, and for unknown ids.
   */
  holds(id: number): boolean;
  /**
   * The tools that a module exports. The module is loaded on a tool thread. If Node does not load a native addon of the
   * module on a thread, the module is loaded in a tool process. Rejects with a `ConfigError` when the module cannot be
   * loaded, exports no tool, or exports a tool with a bad name or schema. The error names the module and, for a bad
   * tool, the export.
   */
  describe(url: string): Promise<readonly FoundTool[]>;
  /** Aborts running calls and ends the threads. */
  close(): Promise<void>;
}
