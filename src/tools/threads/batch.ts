/**
 * The pool's view of its threads. A **batch** is the calls that a thread was handed in one message. A **shift** is a
 * thread's work from its first batch until every call of every batch has ended. A **line** (`ThreadLine`) carries
 * messages to a thread while its shift runs.
 */
import { strict as assert } from 'node:assert';
import { TOOL_ABANDONED_MAX, TOOL_THREAD_CALLS_MAX } from '../../base/bounds.ts';
import type { Deadline } from '../../base/deadline-queue.ts';
import { defined } from '../../base/defined.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import type { ThreadLine } from '../../threads/task-pool.ts';
import { BatchCursor } from '../batch-cursor.ts';
import type { OpenRun } from '../open-run.ts';
import type { ThreadBatchTask, ThreadCall } from './protocol.ts';

/**
 * The work that is due at a deadline: checking the runs of a batch, or moving runs that have not begun to free threads.
 */
export type Due = ThreadBatch | 'share';

/** One run of a batch. */
export interface BatchPlace {
  readonly batch: ThreadBatch;
  readonly at: number;
}

/** Calls handed to one thread in one message. */
export class ThreadBatch {
  readonly shift: ThreadShift;
  readonly runs: readonly OpenRun[];
  readonly cursor: BatchCursor;
  /** Monotonic ms at which the batch was handed over. */
  readonly handedAt: number;
  /** True if the batch joined a shift that was already running. Such a batch was sent over the thread's line. */
  readonly hasJoined: boolean;
  /** The number of runs that were not taken back. */
  end: number;
  /** The number of runs that the thread no longer has: they were answered, or will begin again on another thread. */
  left = 0;
  /** The number of outcomes that the thread has reported, or that are known to be lost (R5). */
  reported = 0;
  /** The next check of the batch's runs. */
  deadline: Deadline<Due> | undefined;

  constructor(shift: ThreadShift, runs: readonly OpenRun[], handedAt: number) {
    this.shift = shift;
    this.runs = runs;
    this.cursor = BatchCursor.before(runs.length);
    this.handedAt = handedAt;
    this.hasJoined = shift.batches.size > 0;
    this.end = runs.length;
    shift.cursor ??= this.cursor;
    shift.batches.add(this);
    for (const open of runs) shift.enter(open);
  }

  /** True if the thread has none of the batch's runs any more. */
  get isOver(): boolean {
    return this.left >= this.end;
  }

  /** The number of runs at work; at most one if the runs begin one after another. */
  get running(): number {
    return this.shift.isAlone ? Math.min(1, this.end - this.left) : this.end - this.left;
  }

  /** The number of runs that have not begun. The first run of a shift counts as begun. */
  get waiting(): number {
    return this.end - Math.min(this.end, Math.max(this.cursor.claimed, this.hasJoined ? 0 : 1));
  }

  /** Takes back the runs that the thread has not begun, from the index `from` on. Returns them, in order. */
  takeBack(from: number): readonly OpenRun[] {
    const first = this.cursor.takeBack(from);
    const taken = this.runs.slice(first, this.end);
    this.end = first;
    for (const open of taken) this.shift.leave(open);
    return taken;
  }

  /** The message to the thread. */
  task(resultBytesMax: number): ThreadBatchTask {
    const calls: ThreadCall[] = [];
    for (const { run, mode } of this.runs) {
      const { id, session, callId, key, toolName, place, input, attempt, fileKey } = run;
      if (place.kind !== 'thread') continue;
      const { url, exportName, options } = place;
      calls.push({
        run: { id, session, callId, key, toolName, input, mode, attempt, ...defined({ fileKey }) },
        url,
        exportName,
        ...defined({ options }),
      });
    }
    const { shift, handedAt, cursor } = this;
    const { number, isAlone } = shift;
    return {
      kind: 'run',
      shift: number,
      calls,
      isSequential: isAlone,
      handedAt,
      cursor: cursor.memory,
      resultBytesMax,
    };
  }
}

/** A shift of a thread; see the head of the file. */
export class ThreadShift {
  readonly number: number;
  /** Aborted to end the thread. */
  readonly kill: LazyAbort = new LazyAbort();
  /** The batches with runs that are not over; the last batch stays until the shift has ended. */
  readonly batches: Set<ThreadBatch> = new Set();
  /** Runs that were answered although their tools still work, by id. */
  readonly abandoned: Map<number, BatchPlace> = new Map();
  /** The cursor of the first batch. This cursor shows when the thread takes no further batch. */
  cursor: BatchCursor | undefined;
  /** True if the runs of the shift begin one after another, because each needs the thread alone. */
  isAlone: boolean;
  /** True if the thread receives no more runs, so that it becomes free for a run that needs a thread alone. */
  isDraining = false;
  /** True if its thread is to be replaced once its runs are over. */
  isRetired = false;
  /** True if the thread did not begin a batch in time. The thread then receives no more runs until it sends a note. */
  isDeaf = false;
  /** True if the thread has finished the shift. Reports of its runs may still be in flight. */
  isLeft = false;
  /** Monotonic ms at which a check found the shift without runs. */
  idleSince: number | undefined;
  /** The line to the thread, once the thread has begun the shift. */
  line: ThreadLine | undefined;
  /** The number of runs that are not over. */
  calls = 0;
  /** The number of runs of each tool that are not over. */
  readonly #lanes = new Map<string, number>();

  /** `isSingle`: the thread receives no run after its first one. */
  constructor(number: number, isAlone: boolean, isSingle: boolean = false) {
    this.number = number;
    this.isAlone = isAlone;
    this.isRetired = isSingle;
  }

  /** True if the thread can take more calls now: it has begun all its calls, and no call holds its event loop. */
  get isReady(): boolean {
    if (!this.mayGrow || this.line === undefined || this.isDeaf || this.cursor?.isOver === true) return false;
    for (const { cursor } of this.batches) if (!cursor.isLoopFree) return false;
    return true;
  }

  /** True if the thread may take more calls once its loop is free. */
  get mayGrow(): boolean {
    if (this.isAlone || this.isDraining || this.isRetired || this.isLeft || this.kill.isAborted) return false;
    return this.calls < TOOL_THREAD_CALLS_MAX;
  }

  /**
   * True if the thread may run one more call of this tool. `chosen`: how many calls of each tool are about to be handed
   * over. If the run fits, it is counted in `chosen`.
   */
  fits({ lane, perThread }: OpenRun, chosen: Map<string, number>): boolean {
    const more = chosen.get(lane) ?? 0;
    const isAllowed = (this.#lanes.get(lane) ?? 0) + more < perThread;
    if (isAllowed) chosen.set(lane, more + 1);
    return isAllowed;
  }

  /** The run that is known to hold the loop, open or abandoned. */
  get holder(): OpenRun | undefined {
    for (const { cursor, runs } of this.batches) {
      if (cursor.holder !== undefined) return runs[cursor.holder];
    }
    for (const { batch } of this.abandoned.values()) {
      if (batch.cursor.holder !== undefined) return batch.runs[batch.cursor.holder];
    }
    return undefined;
  }

  /** Counts a run that was handed over. */
  enter({ lane }: OpenRun): void {
    this.calls += 1;
    this.idleSince = undefined;
    if (!this.isAlone) this.#lanes.set(lane, (this.#lanes.get(lane) ?? 0) + 1);
  }

  /** Counts a run that the thread no longer has. */
  leave({ lane }: OpenRun): void {
    this.calls -= 1;
    const others = (this.#lanes.get(lane) ?? 0) - 1;
    if (others > 0) this.#lanes.set(lane, others);
    else this.#lanes.delete(lane);
  }

  /** Notes a run that was answered although its tool still works. */
  abandon(open: OpenRun, place: BatchPlace): void {
    this.abandoned.set(open.run.id, place);
    if (this.abandoned.size >= TOOL_ABANDONED_MAX) this.isRetired = true;
  }
}

/** Shifts by the number of their calls, the fewest first. */
export function byCalls(shifts: readonly ThreadShift[]): readonly ThreadShift[] {
  return shifts.toSorted((a, b) => a.calls - b.calls);
}

/** The batch with the most runs that have not begun. */
export function longestOf(shifts: Iterable<ThreadShift>): ThreadBatch | undefined {
  let longest: ThreadBatch | undefined;
  for (const { batches } of shifts) {
    for (const batch of batches) if (batch.waiting > (longest?.waiting ?? 0)) longest = batch;
  }
  return longest;
}

/** The number of runs at work. */
export function runningIn(shifts: Iterable<ThreadShift>): number {
  let running = 0;
  for (const { batches } of shifts) for (const batch of batches) running += batch.running;
  return running;
}

/** The run at an index of a batch. */
export function runAt({ batch, at }: BatchPlace): OpenRun {
  const open = batch.runs[at];
  assert(open !== undefined, 'a place is in its batch');
  return open;
}

/**
 * Milliseconds that a run's tool has worked; 0 before the tool began. `place`: the run's batch and index, if a thread
 * has the run.
 */
export function elapsedOf(open: OpenRun, place: BatchPlace | undefined, now: number): number {
  const mark = place?.batch.cursor.markOf(place.at);
  if (place !== undefined && mark !== undefined && 'ms' in mark) open.startedAt = place.batch.handedAt + mark.ms;
  return open.startedAt === 0 ? 0 : Math.max(0, Math.round(now - open.startedAt));
}

/**
 * True if the outcome that the pool decided for a run counts. It counts if the run was cancelled or threw, or if its
 * tool had noticed the abort.
 */
export function isDecided(open: OpenRun, { batch, at }: BatchPlace): boolean {
  return open.decided !== undefined && (open.isFinal || batch.cursor.isAborted(at));
}
