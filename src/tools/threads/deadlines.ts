/**
 * The deadlines of runs on tool threads (R2, R4 and R5 of `runs.ts`). A batch (see `batch.ts`) has one deadline: the
 * earliest time at which one of its runs could need attention. The check then reads the state of each run from the
 * marks that the thread leaves in shared memory (`batch-cursor.ts`). So a run that ends in time costs nothing here.
 *
 * Owns: the time of each batch's next check, the decisions about runs. Does not own: the runs, the threads' shifts.
 */
import { TOOL_KILL_MS, TOOL_LOAD_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import type { DeadlineQueue } from '../../base/deadline-queue.ts';
import type { OpenRun } from '../open-run.ts';
import type { ToolFailure } from '../tool.ts';
import { timeoutText } from '../tool-execution.ts';
import type { BatchPlace, Due, ThreadBatch, ThreadShift } from './batch.ts';
import type { ThreadAbort } from './protocol.ts';

/** The owner of the runs. */
export interface RunOwner {
  /** True if the batch's thread has the run, and the run has no outcome yet. */
  owns(open: OpenRun, batch: ThreadBatch): boolean;
  /** Takes back the runs of a batch that have not begun. */
  takeBack(batch: ThreadBatch): void;
  /** Answers a run whose tool still works. */
  abandon(open: OpenRun, place: BatchPlace): void;
  /** Answers a run that has ended but whose outcome was lost. */
  lost(open: OpenRun): void;
  /** Hands waiting runs to threads, in a later microtask. */
  pump(): void;
}

/** The answer of a run, decided before its tool has ended. */
export interface Decided {
  readonly content: string;
  readonly failed?: ToolFailure | undefined;
  readonly stack?: string | undefined;
}

/** See the head of the file. */
export class RunDeadlines {
  readonly #due: DeadlineQueue<Due>;
  readonly #clock: Clock;
  readonly #owner: RunOwner;
  #isClosed = false;

  constructor(due: DeadlineQueue<Due>, clock: Clock, owner: RunOwner) {
    this.#due = due;
    this.#clock = clock;
    this.#owner = owner;
  }

  /** Sets the deadline of a batch that is handed over. */
  begin(batch: ThreadBatch): void {
    let delayMs = batch.hasJoined ? TOOL_KILL_MS : TOOL_LOAD_MS;
    for (const { run } of batch.runs) delayMs = Math.min(delayMs, run.timeoutMs);
    this.#dueIn(batch, delayMs);
  }

  /** Waits for the missing reports of a batch whose thread has finished its shift (R5). */
  left(batch: ThreadBatch): void {
    this.drop(batch);
    this.#dueIn(batch, TOOL_KILL_MS);
  }

  /** Removes the deadline of a batch. */
  drop(batch: ThreadBatch): void {
    if (batch.deadline !== undefined) this.#due.remove(batch.deadline);
    batch.deadline = undefined;
  }

  /** Sets no further deadline. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * Decides a run's answer for good: the run was cancelled, or threw an uncaught error. Asks the tool to stop. The
   * first answer stays.
   */
  decide(open: OpenRun, place: BatchPlace, { content, failed, stack }: Decided): void {
    open.isFinal = true;
    if (open.phase === 'ending') return;
    open.stack = stack;
    this.#decide(open, place, content, failed);
  }

  /**
   * Aborts the signals of those runs of a batch whose answers are already decided. Called when the pool can reach their
   * thread for the first time.
   */
  abortDecided({ shift, runs }: ThreadBatch): void {
    for (const open of runs) if (open.phase === 'ending') this.#abort(open, shift);
  }

  /** Handles the runs of a batch that need attention now, and sets the batch's next deadline. */
  check(batch: ThreadBatch): void {
    batch.deadline = undefined;
    const now = this.#clock.monotonic();
    let next = Number.POSITIVE_INFINITY;
    for (let at = 0; at < batch.end; at += 1) {
      const open = batch.runs[at];
      if (open === undefined || !this.#owner.owns(open, batch)) continue;
      next = Math.min(next, this.#nextOf(open, { batch, at }, now));
    }
    if (batch.isOver) next = this.#nextOfIdle(batch, now);
    if (Number.isFinite(next)) this.#dueIn(batch, next - now);
  }

  /** Handles a run that may need attention now. Returns the time of the run's next check. */
  #nextOf(open: OpenRun, place: BatchPlace, now: number): number {
    const { batch, at } = place;
    if (batch.shift.kill.isAborted) return Number.POSITIVE_INFINITY;
    const mark = batch.cursor.markOf(at);
    if (mark.state === 'ended' || batch.shift.isLeft) return this.#nextOfEnded(open, batch.shift, now);
    if (open.phase === 'ending') return this.#nextOfEnding(open, place, now);
    if (mark.state === 'unbegun') return this.#nextOfUnbegun(open, batch, now);
    const beganAt = batch.handedAt + mark.ms;
    const { toolName, timeoutMs, place: source } = open.run;
    const dueAt = beganAt + (mark.state === 'loading' ? TOOL_LOAD_MS : timeoutMs);
    // The tool may begin at any moment, and its timeout counts from then.
    if (now < dueAt) return mark.state === 'loading' ? Math.min(dueAt, now + timeoutMs) : dueAt;
    // A run that cannot continue because another run holds the loop is not late (R2).
    if (this.#holderBeside(open, batch.shift) !== undefined) return now + TOOL_KILL_MS;
    if (mark.state === 'running') this.#decide(open, place, timeoutText(toolName, timeoutMs), 'timeout');
    else {
      // The thread receives no more runs, because every later call of the module would wait for the same load.
      batch.shift.isRetired = true;
      const url = source.kind === 'thread' ? source.url : '';
      const content = `tool worker died: ${url} was not loaded in ${TOOL_LOAD_MS / 1_000} seconds`;
      this.#decide(open, place, content, 'lost');
    }
    return now + TOOL_KILL_MS;
  }

  #nextOfEnded(open: OpenRun, shift: ThreadShift, now: number): number {
    if (open.endSeenAt === undefined && !shift.isLeft) {
      open.endSeenAt = now;
      return now + TOOL_KILL_MS;
    }
    this.#owner.lost(open);
    return Number.POSITIVE_INFINITY;
  }

  #nextOfEnding(open: OpenRun, place: BatchPlace, now: number): number {
    const { batch, at } = place;
    const dueAt = open.decidedAt + TOOL_KILL_MS;
    if (now < dueAt) return dueAt;
    const isHeldUp = this.#holderBeside(open, batch.shift) !== undefined;
    if (batch.cursor.isAborted(at) || (isHeldUp && open.isFinal)) {
      this.#owner.abandon(open, place);
      return Number.POSITIVE_INFINITY;
    }
    // The deadline of the run that holds the loop decides about the thread.
    if (isHeldUp) return now + TOOL_KILL_MS;
    batch.shift.kill.abort();
    return Number.POSITIVE_INFINITY;
  }

  #nextOfUnbegun(open: OpenRun, batch: ThreadBatch, now: number): number {
    const { shift, hasJoined, handedAt, cursor } = batch;
    const soonest = now + open.run.timeoutMs;
    if (cursor.claimed > 0) return soonest;
    const dueAt = handedAt + (hasJoined ? TOOL_KILL_MS : TOOL_LOAD_MS);
    if (now < dueAt) return Math.min(soonest, dueAt);
    if (!hasJoined) {
      // The thread has not started in time.
      shift.kill.abort();
      return Number.POSITIVE_INFINITY;
    }
    // Something holds the thread's loop, although no call of this batch has begun.
    shift.isDeaf = true;
    this.#owner.takeBack(batch);
    if (shift.calls === 0) shift.kill.abort();
    this.#owner.pump();
    return Number.POSITIVE_INFINITY;
  }

  /**
   * Checks a shift without runs. Such a shift ends by itself. If the report of its end was lost, the thread is ended.
   */
  #nextOfIdle({ shift, handedAt }: ThreadBatch, now: number): number {
    if (shift.calls > 0 || shift.abandoned.size > 0 || shift.isLeft) return Number.POSITIVE_INFINITY;
    shift.idleSince ??= shift.line === undefined ? handedAt + TOOL_LOAD_MS - TOOL_KILL_MS : now;
    const dueAt = shift.idleSince + TOOL_KILL_MS;
    if (now < dueAt) return dueAt;
    shift.kill.abort();
    return Number.POSITIVE_INFINITY;
  }

  /** Another run that is known to hold the loop, unless that run was abandoned. */
  #holderBeside(open: OpenRun, shift: ThreadShift): OpenRun | undefined {
    const { holder } = shift;
    return holder === undefined || holder === open || shift.abandoned.has(holder.run.id) ? undefined : holder;
  }

  #decide(open: OpenRun, place: BatchPlace, content: string, failed: ToolFailure | undefined): void {
    const { shift } = place.batch;
    open.phase = 'ending';
    open.decided = content;
    open.failed = failed;
    open.decidedAt = this.#clock.monotonic();
    for (const batch of shift.batches) this.#owner.takeBack(batch);
    this.#dueIn(place.batch, TOOL_KILL_MS);
    this.#abort(open, shift);
    this.#owner.pump();
  }

  #abort(open: OpenRun, { line }: ThreadShift): void {
    const abort: ThreadAbort = { kind: 'abort', id: open.run.id, reason: open.decided ?? '' };
    line?.post(abort);
  }

  /** Sets the deadline of a batch, unless the batch has an earlier deadline. */
  #dueIn(batch: ThreadBatch, delayMs: number): void {
    if (this.#isClosed) return;
    const now = this.#clock.monotonic();
    const before = batch.deadline;
    if (before !== undefined && before.at <= now + delayMs) return;
    batch.deadline = this.#due.add(batch, now, delayMs);
    // The new deadline is added before the old one is removed: as long as the queue has a deadline, it keeps its timer.
    if (before !== undefined) this.#due.remove(before);
  }
}
