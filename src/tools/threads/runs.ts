/**
 * The runs of a pool whose place is a tool thread. A thread is handed several at once and runs them one by one: a message for
 * each of them, with its promises, signals and timers, would cost many times what a small tool does.
 *
 * Owns: which runs wait, which thread has which, their deadlines. Does not own: the threads (`threads/task-pool.ts`), the order of
 * waiting runs (`run-queue.ts`), the outcome's way to the listener.
 *
 * R1 a run is told over exactly once, by its thread's word or by its thread's end; one that was not begun has no part in
 *    that end and waits again.
 * R2 a run is over at its timeout plus `TOOL_GRACE_MS`, counted from when the tool begins: its signal is aborted at the
 *    timeout, its thread killed `TOOL_KILL_MS` later. It begins when the thread says so, or else with the end of the run before.
 * R3 no run waits behind a slow one while a thread is free: what has been out for `BATCH_MS` is shared again.
 * R4 a thread is killed for the run it is on: it begins no other from the decision on.
 * R5 a run whose thread has left it is over, though its outcome was lost on the way: at the next word about a later run,
 *    `TOOL_KILL_MS` after the end of its batch, or at the second look after its deadline where none of these comes.
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

/** Milliseconds after which the calls that a thread was handed and has not begun may go to a free thread. */
const BATCH_MS = 5;

/** Told for a run whose thread has left it, and whose outcome never came (R5). */
const LOST = 'The result of this call was lost on its way from the tool thread. It may have taken effect.';

/** What thread runs need. */
export interface ThreadRunsOptions {
  readonly threads: number;
  readonly tasks: TaskPool;
  readonly clock: Clock;
  readonly resultBytesMax: number;
  /** Takes a run's outcome. */
  readonly over: (open: OpenRun, outcome: ToolOutcome) => void;
  readonly progress: (id: number, data: unknown) => void;
}

/** What a thread says about a run. */
export type RunNote = Exclude<ThreadNote, { kind: 'noise' }>;

/** See the head of the file. */
export class ThreadRuns {
  readonly #options: ThreadRunsOptions;
  readonly #queue = new RunQueue<OpenRun>();
  /** Runs with a thread, begun or not, by their id; where a run stands in its batch. */
  readonly #handed = new Map<number, { readonly batch: ThreadBatch; readonly at: number }>();
  readonly #batches = new Set<ThreadBatch>();
  /** Runs whose message could not be sent together with others. */
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

  /** Runs that have begun, as far as is known: one for each thread at work. */
  get running(): number {
    let running = 0;
    for (const { current } of this.#batches) if (current !== undefined) running += 1;
    return running;
  }

  /** Lets a run wait for a thread. */
  add(open: OpenRun): void {
    this.#queue.add(open);
    this.#pumpSoon();
  }

  /** Answers a run that was not begun; asks one that runs to stop. */
  cancel(open: OpenRun, reason: string): void {
    const place = this.#handed.get(open.run.id);
    if (place !== undefined) this.#takeBack(place.batch, place.at);
    if (this.#queue.remove(open)) this.#end(open, failure(reason, 0));
    else if (place !== undefined) this.#decide(open, place.batch, reason);
    this.#pumpSoon();
  }

  /** Begins nothing more. Whoever owns the runs answers them, and closes the threads. */
  close(): void {
    this.#isClosed = true;
    for (const batch of this.#batches) this.#notDue(batch);
    for (const { batch } of this.#handed.values()) this.#notDue(batch);
    this.#unshare();
  }

  /** Takes a thread's word. */
  hear(note: RunNote, line: ThreadLine): void {
    const place = this.#handed.get(note.id);
    const open = place?.batch.runs[place.at];
    if (place === undefined || open === undefined) return;
    const { batch } = place;
    batch.line = line;
    if (note.kind === 'finished') this.#finished(note);
    else if (note.kind === 'fault') this.#decide(open, batch, note.content);
    else if (note.kind === 'progress') {
      if (open.phase === 'running') this.#options.progress(note.id, note.data);
    } else if (open.phase === 'ending') this.#abort(open, batch);
    else if (note.kind === 'loading') this.#load(open, batch);
    else this.#begin(open, batch);
  }

  /** After the turn in which runs come: they are handed over together. */
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
    // What the threads at work leave is for them: they are free again before a thread that got it all would be done.
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

  /** Gives a free thread half of what another was handed and has not begun (R3); false when there is nothing of the kind yet. */
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

  /** The batch is over before its end: by its thread's death, most likely (R1). */
  #failed(batch: ThreadBatch, error: unknown): void {
    const death = threadDeathOf(error);
    const { claimed } = batch.cursor;
    if (claimed === 0 && death === undefined && !batch.kill.isAborted && batch.end > 1) {
      // One of them cannot be sent, and there is no telling which.
      for (const open of batch.runs) this.#alone.add(open);
      this.#takeBack(batch, 0);
      return;
    }
    // A thread that ends before its first call ends that call: if it were tried again, it could go on for ever.
    this.#takeBack(batch, claimed === 0 ? 1 : 0);
    const text = death === undefined ? nameAndMessage(error) : `tool worker died: ${death}`;
    for (let open = batch.current; open !== undefined; open = batch.current) {
      batch.head += 1;
      this.#over(open, failure(text, this.#elapsed(open)));
    }
  }

  /** The thread is done with the batch. Its answer comes another way than its words, and may overtake them: they have time (R5). */
  #left(batch: ThreadBatch, last: ThreadFinished | undefined): void {
    batch.isLeft = true;
    const open = batch.runs.find(({ run }) => run.id === last?.id);
    if (open !== undefined && last !== undefined && this.#handed.has(last.id)) this.#over(open, last.outcome);
    if (this.#isOwed(batch)) this.#dueIn(TOOL_KILL_MS, batch);
    else this.#notDue(batch);
  }

  /** A run of the batch has no outcome yet. */
  #isOwed(batch: ThreadBatch): boolean {
    return batch.runs.some(({ run }) => this.#handed.get(run.id)?.batch === batch);
  }

  #finished({ id, outcome }: ThreadFinished): void {
    const place = this.#handed.get(id);
    const open = place?.batch.runs[place.at];
    if (place === undefined || open === undefined) return;
    const { batch, at } = place;
    // A thread tells its outcomes in order: what it left before this one it told as well (R5).
    while (batch.head < at) this.#lost(batch);
    batch.head = at + 1;
    this.#over(open, outcome);
    this.#goOn(batch);
  }

  /** The run the batch stands at is over without a word of it (R5). */
  #lost(batch: ThreadBatch): void {
    const open = batch.runs[batch.head];
    batch.head += 1;
    if (open !== undefined && this.#handed.get(open.run.id)?.batch === batch)
      this.#over(open, failure(LOST, this.#elapsed(open)));
  }

  /** A run is over: the thread is on the next one, or will be. */
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
    this.#end(open, open.decided === undefined ? outcome : failure(open.decided, this.#elapsed(open)));
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

  /** The tool has begun: its time counts from here (R2). */
  #begin(open: OpenRun, batch: ThreadBatch): void {
    open.phase = 'running';
    open.startedAt = this.#options.clock.monotonic();
    this.#dueIn(open.run.timeoutMs, batch);
  }

  /** Settles what the run will be answered, asks the tool to stop, and sees to it that it does (R1, R2, R4). */
  #decide(open: OpenRun, batch: ThreadBatch, content: string): void {
    if (open.phase === 'ending') return;
    open.phase = 'ending';
    open.decided = content;
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
    // After the new one is there: the timer is left alone where another deadline waits.
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
    // All was taken back before the thread began anything, and it has not even said so.
    if (current === undefined) return batch.kill.abort();
    const { toolName, timeoutMs, place } = current.run;
    if (current.phase === 'running') this.#decide(current, batch, timeoutText(toolName, timeoutMs));
    else if (current.phase === 'loading') {
      const url = place.kind === 'thread' ? place.url : '';
      this.#decide(current, batch, `tool worker died: ${url} was not loaded in ${TOOL_LOAD_MS / 1_000} seconds`);
    } else if (batch.cursor.claimed <= batch.head + 1) batch.kill.abort();
    else if (batch.awaited !== current) {
      // The thread has left the run, and its word is on the way.
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
