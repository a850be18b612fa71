/** One run of a tool pool, from its acceptance to its outcome. */
import type { ToolRun } from './pool.ts';
import type { QueuedRun } from './run-queue.ts';
import type { ToolOutcome } from './tool.ts';

/**
 * The phase of a run. `handed`: with a thread, behind other calls. `loading`: the thread has reached it, the tool has
 * not begun. `ending`: its outcome is decided, its tool has not settled.
 */
export type RunPhase = 'waiting' | 'handed' | 'loading' | 'running' | 'ending';

/** See the head of the file. */
export interface OpenRun extends QueuedRun {
  readonly run: ToolRun;
  phase: RunPhase;
  /** Monotonic ms at which the phase `running` began; before that, at which the previous phase began. */
  startedAt: number;
  /** The answer of the run, once the pool has decided it. */
  decided: string | undefined;
  /** The stack of what the tool threw, if that decided the run. */
  stack: string | undefined;
}

/** A run that waits. */
export function openRun(run: ToolRun, lane: string, concurrency: number | undefined): OpenRun {
  return { run, lane, concurrency, phase: 'waiting', startedAt: 0, decided: undefined, stack: undefined };
}

/** The lane of a run: its tool. */
export function laneOf({ place, toolName }: ToolRun): string {
  return place.kind === 'host' ? `host\n${place.agent}\n${toolName}` : threadLane(place.url, place.exportName);
}

/** The lane of a module's export. */
export function threadLane(url: string, exportName: string): string {
  return `${url}\n${exportName}`;
}

/** An outcome that did not come from the tool. */
export function failure(content: string, ms: number, stack?: string): ToolOutcome {
  return stack === undefined ? { content, success: false, ms } : { content, success: false, ms, stack };
}
