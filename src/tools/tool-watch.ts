/**
 * Watches the event loop of the host thread while tools given as values run there, and reports the tools that hold the
 * loop. While a tool holds the loop, neither the program nor the runtime can run.
 *
 * Owns: which tools run, the count of reports. Does not own: the tools, the loop.
 *
 * V1 The part of a call until its first wait is measured, so the tool that causes a block there is known. A later block
 *    is reported with the names of all tools that ran at that time. One of them is likely the cause.
 * V2 A block is reported once. A tool is logged at most once in `TOOL_BLOCK_LOG_MS`, but every block is counted.
 * V3 While no tool runs, nothing is watched.
 */
import { TOOL_BLOCK_LOG_MS, TOOL_BLOCK_MS, TOOL_WATCH_INTERVAL_MS } from '../base/bounds.ts';
import { type LoopWatch, watchLoop } from '../threads/loop-watch.ts';

/** A block of the loop. */
export interface ToolBlock {
  /** The tool that held the loop. If that tool is not known: all tools that ran while the loop was held. */
  readonly tools: readonly string[];
  /** False if other tools, or the program itself, may have held the loop. */
  readonly isKnown: boolean;
  readonly ms: number;
}

/** See the head of the file. */
export class ToolWatch {
  readonly #log: (block: ToolBlock) => void;
  readonly #running = new Map<string, number>();
  /** The monotonic ms at which the tools of each report were last logged. */
  readonly #loggedAt = new Map<string, number>();
  #loop: LoopWatch | undefined;
  #isStarting = false;
  #blocks = 0;

  /** `log` takes the blocks that are due for a log line. Must not throw. */
  constructor(log: (block: ToolBlock) => void) {
    this.#log = log;
  }

  /** The number of blocks so far. */
  get blocks(): number {
    return this.#blocks;
  }

  /** Begins a call: `start` is the part until its first wait. */
  begin(tool: string, start: () => void): void {
    // A block before this call belongs to the calls that ran before it.
    this.#loop?.look();
    this.#running.set(tool, (this.#running.get(tool) ?? 0) + 1);
    const startedAt = performance.now();
    this.#isStarting = true;
    start();
    this.#isStarting = false;
    const ms = performance.now() - startedAt;
    if (this.#running.size > 0) this.#loop ??= this.#watch();
    if (ms < TOOL_BLOCK_MS) return;
    // The watch must not report the measured block again (V2).
    this.#loop?.forget();
    this.#report({ tools: [tool], isKnown: true, ms: Math.round(ms) });
  }

  /** Notes the end of a call. Call it once for each `begin`, possibly from within `begin`. */
  ended(tool: string): void {
    // The loop may have been blocked in the tick in which the last call ends, so the watch looks once more before it
    // ends.
    if (!this.#isStarting) this.#loop?.look();
    const left = (this.#running.get(tool) ?? 0) - 1;
    if (left > 0) this.#running.set(tool, left);
    else this.#running.delete(tool);
    if (this.#running.size > 0) return;
    this.#loop?.end();
    this.#loop = undefined;
  }

  #watch(): LoopWatch {
    return watchLoop((ms) => this.#report({ tools: [...this.#running.keys()], isKnown: false, ms }), {
      stallMs: TOOL_BLOCK_MS,
      intervalMs: TOOL_WATCH_INTERVAL_MS,
    });
  }

  #report(block: ToolBlock): void {
    this.#blocks += 1;
    const names = block.tools.join('\n');
    const now = performance.now();
    if (now - (this.#loggedAt.get(names) ?? Number.NEGATIVE_INFINITY) < TOOL_BLOCK_LOG_MS) return;
    this.#loggedAt.set(names, now);
    this.#log(block);
  }
}
