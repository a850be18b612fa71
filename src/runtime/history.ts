/** The history of a session as its embedder works on it. An address, as `Session` is: making one costs nothing. */
import type { HistoryMessage } from '../base/history-message.ts';
import type { RequestMessage } from '../models/provider.ts';
import type { TaskMove } from '../session/history/decide-tasks.ts';
import type { TaskSummary } from '../session/history/task-view.ts';
import { type CompressOptions, compressNow, readChunk, readChunks } from './compression-handle.ts';
import * as tasks from './history-tasks.ts';
import type { ChunkInfo, CompressionResult } from './protocol.ts';

/** See the head of the file. */
export class History {
  readonly #at: tasks.HistoryAddress;

  constructor(at: tasks.HistoryAddress) {
    this.#at = at;
  }

  /** Begins a task below the active one; resolves with its id. Every user turn begins one by itself. */
  startTask(title?: string): Promise<number> {
    return tasks.startTask(this.#at, title);
  }

  /** Goes back to the parent of the active task. */
  undo(): Promise<TaskMove> {
    return tasks.undo(this.#at);
  }

  /** Goes to any task: forward again, or to another branch. */
  switchTo(id: number): Promise<TaskMove> {
    return tasks.switchTo(this.#at, id);
  }

  /** Ids of the tasks begun below one. */
  children(id: number): Promise<readonly number[]> {
    return tasks.children(this.#at, id);
  }

  /** The last tasks, ascending by id; 10 by default. */
  taskHistory(limit?: number): Promise<readonly TaskSummary[]> {
    return tasks.taskHistory(this.#at, limit);
  }

  /** What a model would be sent now. */
  activeMessages(): Promise<readonly RequestMessage[]> {
    return tasks.activeMessages(this.#at);
  }

  /** The highest id given to a task. */
  currentTaskId(): Promise<number> {
    return tasks.currentTaskId(this.#at);
  }

  /** The active task; 0 is the root. */
  activeTaskId(): Promise<number> {
    return tasks.activeTaskId(this.#at);
  }

  /**
   * Compresses the conversation now, if it is worth it; resolves when that is over and durable. `reason` of one that was not made:
   * `disabled`, `busy` (the session is not idle), `not_needed`, or why the summary failed; the history is then as it was. Rejects
   * with `ConfigError` (bad option), `StoreFullError`, `CancelledError` (closed, deleted).
   */
  async compress(options: CompressOptions = {}): Promise<CompressionResult> {
    return compressNow(this.#at, options);
  }

  /** The archived parts of the conversation, oldest first. */
  chunks(): Promise<readonly ChunkInfo[]> {
    return readChunks(this.#at);
  }

  /**
   * The messages of an archived part, as they were; `undefined` when there is none of this number (from 1). Rejects with
   * `InvalidArgumentError` (`invalid_index`) for what is no such number.
   */
  async chunk(number: number): Promise<readonly HistoryMessage[] | undefined> {
    return readChunk(this.#at, number);
  }
}
