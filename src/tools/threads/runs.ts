/**
 * The runs of a pool that run on tool threads. A thread receives several runs at once and runs them one by one. A
 * message for each run, with its promises, signals and timers, would cost many times the work of a small tool.
 *
 * Owns: which runs wait, which thread has which run, their deadlines. Does not own: the threads
 * (`threads/task-pool.ts`), the order of waiting runs (`run-queue.ts`), delivering outcomes to the listener.
 *
 * R1 A run completes exactly once, by its thread's report or by its thread's end. A run that had not begun does not end
 *    with the thread, and waits again.
 * R2 A run ends at its timeout plus `TOOL_GRACE_MS`, counted from when the tool begins: its signal is aborted at the
 *    timeout, its thread killed `TOOL_KILL_MS` later. It begins when the thread reports it, or otherwise with the end
 *    of the previous run.
 * R3 No run waits behind a slow one while a thread is free: runs that were handed over for `BATCH_MS` and have not
 *    begun are shared again.
 * R4 A thread is killed for its current run: it begins no other run after the decision.
 * R5 A run that its thread has left ends even if its outcome was lost on the way. It ends at the next report about a
 *    later run, or `TOOL_KILL_MS` after the end of its batch. If neither comes, it ends at the second check after its
 *    deadline.
 */
import { TOOL_KILL_MS, TOOL_LOAD_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { type Deadline, DeadlineQueue } from '../../base/deadline-queue.ts';
import { type TaskPool, type ThreadLine, threadDeathOf } from '../../threads/task-pool.ts';
import { BATCH_CALLS_MAX } from '../batch-cursor.ts';
import { failure, type OpenRun } from '../open-run.ts';
import { nameAndMessage } from '../result-text.ts';
import { RunQueue } from '../run-queue.ts';
import type { ToolOutcome } from '../tool.ts';
import { timeoutText } from '../tool-execution.ts';
import { type Due, ThreadBatch } from './batch.ts';
import type { ThreadAbort, ThreadFinished, ThreadNote } from './protocol.ts';

/** Milliseconds after which calls that a thread was handed and has not begun may move to a free thread. */
const BATCH_MS = 5;

/** The answer of a run that its thread has left, and whose outcome never came (R5). */
const LOST = 'The result of this call was lost on its way from the tool thread. It may have taken effect.';

/** The dependencies of thread runs. */
export interface ThreadRunsOptions {
  readonly threads: number;
  readonly tasks: TaskPool;
  readonly clock: Clock;
  readonly resultBytesMax: number;
  /** Takes a run's outcome. */
  readonly over: (open: OpenRun, outcome: ToolOutcome) => void;
  readonly progress: (id: number, data: unknown) => void;
}

/** A thread's report about a run. */
export type RunNote = Exclude<ThreadNote, { kind: 'noise' }>;

/** See the head of the file. */
export class ThreadRuns {
  readonly #options: ThreadRunsOptions;
  readonly #queue = new RunQueue<OpenRun>();
  /** Runs with a thread, begun or not, by their id, with their index in the batch. */
  readonly #handed = new Map<number, { readonly batch: ThreadBatch; readonly at: number }>();
  readonly #batches = new Set<ThreadBatch>();
  /** Runs of a batch whose message could not be sent. Each is sent alone. */
  readonly #alone = new Set<OpenRun>();
  readonly #deadlines: DeadlineQueue<Due>;
  #share: Deadline<Due> | undefined;
  #isPumping = false;
  #isClosed = false;

  constructor(options: ThreadRunsOptions) {
    this.#options = options;
    this.#deadlines = new DeadlineQueue(options.clock, (due) => {
      if (due === 'share') this.#shareNow();
      else this.#due(due);
    });
  }

  /** The number of runs that are known to have begun: one for each thread at work. */
  get running(): number {
    let running = 0;
    for (const { current } of this.#batches) if (current !== undefined) running += 1;
    return running;
  }

  /** Queues a run for a thread. */
  add(open: OpenRun): void {
    this.#queue.add(open);
    this.#pumpSoon();
  }

  /** Answers a run that has not begun; asks a begun run to stop. */
  cancel(open: OpenRun, reason: string): void {
    const place = this.#handed.get(open.run.id);
    if (place !== undefined) this.#takeBack(place.batch, place.at);
    if (this.#queue.remove(open)) this.#end(open, failure(reason, 0));
    else if (place !== undefined) this.#decide(open, place.batch, reason);
    this.#pumpSoon();
  }

  /** Stops beginning runs. The owner answers the open runs, and closes the threads. */
  close(): void {
    this.#isClosed = true;
    for (const batch of this.#batches) this.#notDue(batch);
    for (const { batch } of this.#handed.values()) this.#notDue(batch);
    this.#unshare();
  }

  /** Handles a thread's report. */
  hear(note: RunNote, line: ThreadLine): void {
    const place = this.#handed.get(note.id);
    const open = place?.batch.runs[place.at];
    if (place === undefined || open === undefined) return;
    const { batch } = place;
    batch.line = line;
    if (note.kind === 'finished') this.#finished(note);
    else if (note.kind === 'fault') this.#decide(open, batch, note.content, note.stack);
    else if (note.kind === 'progress') {
      if (open.phase === 'running') this.#options.progress(note.id, note.data);
    } else if (open.phase === 'ending') this.#abort(open, batch);
    else if (note.kind === 'loading') this.#load(open, batch);
    else this.#begin(open, batch);
  }

  /** Hands runs over in a microtask: runs that are added together are handed over together. */
  #pumpSoon(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    const { threads } = this.#options;
    if (this.#isClosed || this.#batches.size >= threads) return;
    // A thread takes only its share, even while others are busy: they become free before one thread could run
    // everything.
    const share = Math.min(BATCH_CALLS_MAX, Math.ceil(this.#queue.ready / threads));
    while (this.#batches.size < threads) {
      const runs = this.#take(share);
      if (runs.length > 0) this.#hand(runs);
      else if (!this.#shareAgain()) return;
    }
  }

  #take(count: number): readonly OpenRun[] {
    const runs: OpenRun[] = [];
    while (runs.length < count) {
      const open = this.#queue.take();
      if (open === undefined) break;
      if (!this.#alone.has(open)) runs.push(open);
      else {
        if (runs.length > 0) this.#queue.putBack(open);
        else runs.push(open);
        break;
      }
    }
    return runs;
  }

  /**
   * Gives a free thread half of the runs that another thread was handed and has not begun (R3). Returns false when
   * there are none yet.
   */
  #shareAgain(): boolean {
    let longest: ThreadBatch | undefined;
    for (const batch of this.#batches) {
      if (batch.waiting > (longest?.waiting ?? 0)) longest = batch;
    }
    if (longest === undefined) return false;
    const now = this.#options.clock.monotonic();
    if (now < longest.handedAt + BATCH_MS) {
      this.#share ??= this.#deadlines.add('share', now, longest.handedAt + BATCH_MS - now);
      return false;
    }
    this.#takeBack(longest, longest.end - Math.ceil(longest.waiting / 2));
    const runs = this.#take(BATCH_CALLS_MAX);
    if (runs.length > 0) this.#hand(runs);
    return runs.length > 0;
  }

  #shareNow(): void {
    this.#share = undefined;
    this.#pump();
  }

  #unshare(): void {
    if (this.#share !== undefined) this.#deadlines.remove(this.#share);
    this.#share = undefined;
  }

  #takeBack(batch: ThreadBatch, from: number): void {
    for (const open of batch.takeBack(from)) {
      open.phase = 'waiting';
      this.#handed.delete(open.run.id);
      this.#queue.putBack(open);
    }
  }

  #hand(runs: readonly OpenRun[]): void {
    const now = this.#options.clock.monotonic();
    const batch = new ThreadBatch(runs, now);
    this.#batches.add(batch);
    for (const [at, open] of runs.entries()) {
      open.phase = 'handed';
      this.#handed.set(open.run.id, { batch, at });
    }
    const { current } = batch;
    if (current !== undefined) this.#load(current, batch);
    void this.#work(batch);
  }

  async #work(batch: ThreadBatch): Promise<void> {
    const { tasks, resultBytesMax } = this.#options;
    try {
      const last = await tasks.run(batch.task(resultBytesMax), { abort: batch.kill });
      this.#left(batch, last as ThreadFinished | undefined);
    } catch (error) {
      this.#failed(batch, error);
    }
    this.#batches.delete(batch);
    if (!batch.isLeft) this.#notDue(batch);
    if (this.#batches.size === 0) this.#unshare();
    this.#pump();
  }

  /** Handles a batch that ended early, most likely because its thread died (R1). */
  #failed(batch: ThreadBatch, error: unknown): void {
    const death = threadDeathOf(error);
    const { claimed } = batch.cursor;
    if (claimed === 0 && death === undefined && !batch.kill.isAborted && batch.end > 1) {
      // One of these runs cannot be sent, and it is unknown which.
      for (const open of batch.runs) this.#alone.add(open);
      this.#takeBack(batch, 0);
      return;
    }
    // If a thread ends before its first call began, that call ends too: retrying the call could continue forever.
    this.#takeBack(batch, claimed === 0 ? 1 : 0);
    const text = death === undefined ? nameAndMessage(error) : `tool worker died: ${death}`;
    for (let open = batch.current; open !== undefined; open = batch.current) {
      batch.head += 1;
      this.#over(open, failure(text, this.#elapsed(open)));
    }
  }

  /**
   * Notes that the thread has finished the batch. Its answer takes another path than its reports and may overtake them,
   * so missing reports get more time (R5).
   */
  #left(batch: ThreadBatch, last: ThreadFinished | undefined): void {
    batch.isLeft = true;
    const open = batch.runs.find(({ run }) => run.id === last?.id);
    if (open !== undefined && last !== undefined && this.#handed.has(last.id)) this.#over(open, last.outcome);
    if (this.#isOwed(batch)) this.#dueIn(TOOL_KILL_MS, batch);
    else this.#notDue(batch);
  }

  /** True if a run of the batch has no outcome yet. */
  #isOwed(batch: ThreadBatch): boolean {
    return batch.runs.some(({ run }) => this.#handed.get(run.id)?.batch === batch);
  }

  #finished({ id, outcome }: ThreadFinished): void {
    const place = this.#handed.get(id);
    const open = place?.batch.runs[place.at];
    if (place === undefined || open === undefined) return;
    const { batch, at } = place;
    // A thread reports outcomes in order: it reported all earlier runs before this one, so a missing report is lost
    // (R5).
    while (batch.head < at) this.#lost(batch);
    batch.head = at + 1;
    this.#over(open, outcome);
    this.#goOn(batch);
  }

  /** Ends the run at the head of the batch without a report (R5). */
  #lost(batch: ThreadBatch): void {
    const open = batch.runs[batch.head];
    batch.head += 1;
    if (open !== undefined && this.#handed.get(open.run.id)?.batch === batch)
      this.#over(open, failure(LOST, this.#elapsed(open)));
  }

  /** Called after a run has ended: the thread has begun the next run or will begin it. */
  #goOn(batch: ThreadBatch): void {
    if (batch.isLeft) {
      if (!this.#isOwed(batch)) this.#notDue(batch);
      return;
    }
    const { current } = batch;
    if (current === undefined) this.#notDue(batch);
    else if (current.phase === 'ending') this.#dueIn(TOOL_KILL_MS, batch);
    else this.#begin(current, batch);
    if (this.#batches.size < this.#options.threads) this.#pumpSoon();
  }

  #over(open: OpenRun, outcome: ToolOutcome): void {
    this.#handed.delete(open.run.id);
    this.#queue.release(open);
    this.#end(open, open.decided === undefined ? outcome : failure(open.decided, this.#elapsed(open), open.stack));
  }

  #end(open: OpenRun, outcome: ToolOutcome): void {
    this.#alone.delete(open);
    this.#options.over(open, outcome);
  }

  #load(open: OpenRun, batch: ThreadBatch): void {
    open.phase = 'loading';
    open.startedAt = this.#options.clock.monotonic();
    this.#dueIn(TOOL_LOAD_MS, batch);
  }

  /** Notes that the tool has begun: its time counts from here (R2). */
  #begin(open: OpenRun, batch: ThreadBatch): void {
    open.phase = 'running';
    open.startedAt = this.#options.clock.monotonic();
    this.#dueIn(open.run.timeoutMs, batch);
  }

  /** Decides the run's answer, asks the tool to stop, and sets a deadline for that (R1, R2, R4). */
  #decide(open: OpenRun, batch: ThreadBatch, content: string, stack?: string): void {
    if (open.phase === 'ending') return;
    open.phase = 'ending';
    open.decided = content;
    open.stack = stack;
    this.#takeBack(batch, batch.runs.indexOf(open) + 1);
    if (open === batch.current) this.#dueIn(TOOL_KILL_MS, batch);
    this.#abort(open, batch);
  }

  #abort(open: OpenRun, batch: ThreadBatch): void {
    const abort: ThreadAbort = { id: open.run.id, reason: open.decided ?? '' };
    batch.line?.post(abort);
  }

  #dueIn(delayMs: number, batch: ThreadBatch): void {
    if (this.#isClosed) return;
    const before = batch.deadline;
    batch.deadline = this.#deadlines.add(batch, this.#options.clock.monotonic(), delayMs);
    // The old deadline is removed only after the new one is added, because the timer is not touched while another
    // deadline waits.
    if (before !== undefined) this.#deadlines.remove(before);
  }

  #notDue(batch: ThreadBatch): void {
    if (batch.deadline !== undefined) this.#deadlines.remove(batch.deadline);
    batch.deadline = undefined;
  }

  #due(batch: ThreadBatch): void {
    const { current } = batch;
    batch.deadline = undefined;
    if (batch.isLeft) {
      while (batch.head < batch.runs.length) this.#lost(batch);
      return;
    }
    // All runs were taken back before the thread began any, and the thread has not reported that.
    if (current === undefined) return batch.kill.abort();
    const { toolName, timeoutMs, place } = current.run;
    if (current.phase === 'running') this.#decide(current, batch, timeoutText(toolName, timeoutMs));
    else if (current.phase === 'loading') {
      const url = place.kind === 'thread' ? place.url : '';
      this.#decide(current, batch, `tool worker died: ${url} was not loaded in ${TOOL_LOAD_MS / 1_000} seconds`);
    } else if (batch.cursor.claimed <= batch.head + 1) batch.kill.abort();
    else if (batch.awaited !== current) {
      // The thread has left the run, and its report is in flight.
      batch.awaited = current;
      this.#dueIn(TOOL_KILL_MS, batch);
    } else {
      this.#lost(batch);
      this.#goOn(batch);
    }
  }

  #elapsed(open: OpenRun): number {
    return Math.max(0, Math.round(this.#options.clock.monotonic() - open.startedAt));
  }
}
