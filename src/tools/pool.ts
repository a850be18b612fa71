/** Tool calls as a shard sees them: a call goes out, exactly one outcome comes back, in time, whatever the tool does. */
import type { ToolDescription, ToolOutcome } from './tool.ts';

/** Where a tool's code runs: in a tool thread, from a module's export; or on the host thread, as a value. */
export type ToolPlace =
  | { readonly kind: 'thread'; readonly url: string; readonly exportName: string }
  | { readonly kind: 'host'; readonly agent: string };

/** One call to run. `id` is unique within the shard's life. */
export interface ToolRun {
  readonly id: number;
  readonly session: string;
  readonly callId: string;
  readonly key: string;
  readonly toolName: string;
  readonly place: ToolPlace;
  readonly input: unknown;
  /**
   * Milliseconds from when the tool begins; it is over at this plus `TOOL_GRACE_MS` at the latest. Waiting for a thread does
   * not count: a call must not time out because its neighbours are slow.
   */
  readonly timeoutMs: number;
  /** `probe`: ask the tool's `probe` first, and run only if it answers `undefined`. */
  readonly mode: 'run' | 'probe';
  /** Runs of this tool at once, from its description; missing: as many as there are threads. */
  readonly concurrency?: number;
}

/** What a pool tells its owner, on the owner's thread, never synchronously from within `run`. */
export interface ToolPoolListener {
  /** Exactly once a run: finished, failed, timed out, thread dead or cancelled. */
  finished(id: number, outcome: ToolOutcome): void;
  progress(id: number, data: unknown): void;
}

/** A tool found in a module. */
export interface FoundTool {
  readonly exportName: string;
  readonly description: ToolDescription;
}

/** Where tool calls run. */
export interface ToolPool {
  /** Starts a run, or queues it. Never throws: a failure is an outcome. */
  run(run: ToolRun): void;
  /** Aborts a run; its outcome is a failure whose content is `reason`. Unknown ids are ignored. */
  cancel(id: number, reason: string): void;
  /** The run waits, runs, or its outcome is about to be told: an outcome will come. False for one that was told, and for any other. */
  holds(id: number): boolean;
  /**
   * The tools a module exports, loaded in a tool thread. Rejects with `ConfigError` naming the module and the export when
   * it cannot be loaded, exports no tool, or one has a bad name or schema (rules R29 to R33).
   */
  describe(url: string): Promise<readonly FoundTool[]>;
  /** Aborts what runs and ends the threads. */
  close(): Promise<void>;
}
