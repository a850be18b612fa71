/**
 * The runs of a pool on tool threads. A thread receives several runs in one message, a batch (see `batch.ts`), and
 * begins them in order. A message for each run would cost many times the work of a small tool.
 *
 * Owns: which runs wait, which thread has which run. Does not own: the threads (`threads/task-pool.ts`), the order of
 * waiting runs (`run-queue.ts`), their deadlines (`deadlines.ts`), delivering outcomes to the listener.
 *
 * R1 A run completes exactly once: by its thread's report, at its deadline, or by the end of its thread.
 * R2 A run ends no later than `TOOL_GRACE_MS` after its timeout, which counts from its tool's beginning. Its signal is
 *    aborted at the timeout, and the run is answered `TOOL_KILL_MS` later. A tool that still works then is left
 *    running; its run is called abandoned. Time in which another run is known to hold the event loop does not count.
 * R3 No run waits behind a slow one while a thread is free: `BATCH_MS` after the handover, free threads get a share of
 *    the runs that have not begun. A thread whose loop is held receives no more runs.
 * R4 A thread is ended only for one of three reasons: it does not start in `TOOL_LOAD_MS`, its loop does not answer in
 *    `TOOL_KILL_MS`, or only abandoned runs are left on it. After that decision the thread begins no other run.
 * R5 A run that has ended on its thread completes even if its outcome was lost on the way. It then completes when the
 *    thread reports the end of a later run, or when a check after its deadline finds that it ended `TOOL_KILL_MS` ago.
 * R6 When a thread dies, the run that held its loop fails. The other runs begin again elsewhere, if their effect
 *    allows: a `probe` asks its tool first, and a `once` run is answered as unknown. If it is not known which run held
 *    the loop, each begins again on a thread that it has to itself.
 * R7 A run begins again at most `TOOL_REPEATS_MAX` times beside other runs, and then once more alone on a thread.
 * R8 A `once` run shares its thread only with abandoned runs, unless its tool has a concurrency above 1.
 * R9 A run of a `probe` tool does not begin while an earlier run of its call is at work. If the earlier run was
 *    abandoned, its thread receives no more runs, and is ended once its other runs are over.
 * R10 If there is a `BeginGate`, runs are handed over only while the gate is open, and `once` runs one at a time.
 */
import { TOOL_REPEATS_MAX } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { type Deadline, DeadlineQueue } from '../../base/deadline-queue.ts';
import { OUTCOME_UNKNOWN } from '../../session/rules/tool-texts.ts';
import { type TaskPool, type ThreadLine, threadDeathOf } from '../../threads/task-pool.ts';
import { BATCH_CALLS_MAX } from '../batch-cursor.ts';
import type { BeginGate } from '../begin-gate.ts';
import { failure, type OpenRun } from '../open-run.ts';
import { nameAndMessage } from '../result-text.ts';
import { RunQueue } from '../run-queue.ts';
import type { ToolOutcome } from '../tool.ts';
import {
  type BatchPlace,
  byCalls,
  type Due,
  elapsedOf,
  isDecided,
  longestOf,
  runAt,
  runningIn,
  ThreadBatch,
  ThreadShift,
} from './batch.ts';
import { RunDeadlines } from './deadlines.ts';
import { EarlierRuns } from './earlier-runs.ts';
import type { ThreadFinished, ThreadNote } from './protocol.ts';

/** Calls that a thread has not begun this many milliseconds after the handover may move to a free thread. */
const BATCH_MS = 5;
/** The answer of a run that has ended on its thread, but whose outcome never arrived (R5). */
const LOST = 'The result of this call was lost on its way from the tool thread. It may have taken effect.';

/** The dependencies of thread runs. */
export interface ThreadRunsOptions {
  readonly threads: number;
  readonly tasks: TaskPool;
  /** True if each run has its own process in place of a thread. The process ends with the run. */
  readonly isSingle?: true;
  readonly clock: Clock;
  readonly gate: BeginGate | undefined;
  readonly resultBytesMax: number;
  /** Takes a run's outcome. */
  readonly over: (open: OpenRun, outcome: ToolOutcome) => void;
  readonly progress: (id: number, data: unknown) => void;
  /** Called after runs were handed to threads. */
  readonly handed: () => void;
}

/** A thread's report about a shift or a run. */
export type RunNote = Exclude<ThreadNote, { kind: 'noise' }>;

/** See the head of the file. */
export class ThreadRuns {
  readonly #options: ThreadRunsOptions;
  readonly #queue = new RunQueue<OpenRun>();
  /** Runs that were handed to a thread, begun or not, by their id. */
  readonly #handed = new Map<number, BatchPlace>();
  /** The threads at work, by the number of the shift. */
  readonly #shifts = new Map<number, ThreadShift>();
  /** Abandoned runs whose thread lives, by their id. */
  readonly #abandoned = new Map<number, BatchPlace>();
  readonly #earlier = new EarlierRuns();
  /** Runs that are sent alone: those for a process, and those of a batch whose message could not be sent. */
  readonly #single = new Set<OpenRun>();
  readonly #due: DeadlineQueue<Due>;
  readonly #deadlines: RunDeadlines;
  #lastShift = 0;
  #share: Deadline<Due> | undefined;
  #isPumping = false;
  #isClosed = false;

  constructor(options: ThreadRunsOptions) {
    this.#options = options;
    const { clock } = options;
    this.#due = new DeadlineQueue(clock, (due) => {
      if (due !== 'share') return this.#deadlines.check(due);
      this.#share = undefined;
      this.#pump();
    });
    this.#deadlines = new RunDeadlines(this.#due, clock, {
      owns: (open, batch) => this.#handed.get(open.run.id)?.batch === batch,
      takeBack: (batch) => this.#takeBack(batch, 0),
      abandon: (open, place) => this.#abandon(open, place),
      lost: (open) => this.#over(open, failure(LOST, this.#elapsed(open), 'lost')),
      pump: () => this.#pumpSoon(),
    });
  }

  /** The number of runs that have begun and not ended, or are about to begin on their thread. */
  get running(): number {
    return runningIn(this.#shifts.values());
  }

  /** Queues a run for a thread. */
  add(open: OpenRun): void {
    if (this.#options.isSingle === true) this.#single.add(open);
    const earlier = this.#earlier.hold(open);
    if (earlier === undefined) this.#queue.add(open);
    else this.#retireFor(runAt(earlier), earlier);
    this.#pumpSoon();
  }

  /** Answers a run that has not begun; asks a begun run to stop. */
  cancel(open: OpenRun, reason: string): void {
    const place = this.#handed.get(open.run.id);
    if (place !== undefined) this.#takeBack(place.batch, place.at);
    if (this.#earlier.remove(open) || this.#queue.remove(open)) this.#end(open, failure(reason, 0));
    else if (place !== undefined) this.#deadlines.decide(open, place, { content: reason });
    this.#pumpSoon();
  }

  /** Stops beginning runs. The owner answers the open runs, and closes the threads. */
  close(): void {
    this.#isClosed = true;
    this.#deadlines.close();
    for (const { batches } of this.#shifts.values()) for (const batch of batches) this.#deadlines.drop(batch);
    for (const { batch } of this.#handed.values()) this.#deadlines.drop(batch);
    this.#unshare();
  }

  /** Handles a thread's report. Reports of a thread that no longer has the run are ignored. */
  hear(note: RunNote, line: ThreadLine): void {
    if (note.kind === 'opened' || note.kind === 'ready') {
      const shift = this.#shifts.get(note.shift);
      if (shift !== undefined) this.#heardOf(shift, line);
      return;
    }
    const place = this.#handed.get(note.id) ?? this.#abandoned.get(note.id);
    if (place === undefined || place.batch.shift.line !== line) return;
    const open = runAt(place);
    place.batch.shift.isDeaf = false;
    if (note.kind === 'finished') this.#finished(note, open, place);
    else if (this.#abandoned.has(note.id)) return;
    else if (note.kind === 'fault') this.#deadlines.decide(open, place, note);
    else if (open.phase === 'handed') this.#options.progress(note.id, note.data);
  }

  #heardOf(shift: ThreadShift, line: ThreadLine): void {
    shift.isDeaf = false;
    if (shift.line === undefined) {
      shift.line = line;
      // Sends the aborts of calls that were cancelled before the thread could be reached.
      for (const batch of shift.batches) this.#deadlines.abortDecided(batch);
    }
    if (this.#isWaiting) this.#pumpSoon();
  }

  get #isWaiting(): boolean {
    return this.#queue.ready(false) + this.#queue.ready(true) > 0;
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
    if (this.#isClosed) return;
    if (!this.#isWaiting || this.#options.gate?.holds(() => this.#pump()) !== true) this.#handOver();
    this.#options.handed();
  }

  #handOver(): void {
    const { threads, gate } = this.#options;
    // A thread receives only its share, because busy threads become free before one thread could run all waiting runs.
    const share = (isAlone: boolean): number =>
      Math.min(BATCH_CALLS_MAX, Math.ceil(this.#queue.ready(isAlone) / threads));
    const alone = gate === undefined ? share(true) : Math.min(1, share(true));
    const shared = share(false);
    while (this.#shifts.size < threads) {
      const { isAloneFirst } = this.#queue;
      const runs = this.#take(isAloneFirst, isAloneFirst ? alone : shared);
      if (runs.length > 0) this.#hand(runs, isAloneFirst);
      else if (!this.#shareAgain()) return;
    }
    this.#drain();
    if (this.#queue.ready(false) > 0) this.#joinReady();
  }

  #take(isAlone: boolean, count: number, fits?: (open: OpenRun) => boolean): readonly OpenRun[] {
    const runs: OpenRun[] = [];
    while (runs.length < count) {
      const open = this.#queue.take(isAlone, fits);
      if (open === undefined) break;
      if (!this.#single.has(open)) runs.push(open);
      else {
        if (runs.length > 0) this.#queue.putBack(open);
        else runs.push(open);
        break;
      }
    }
    return runs;
  }

  /** Gives runs to threads at work whose loop is free. Asks the other threads to report when their loop is free. */
  #joinReady(): void {
    const ready = byCalls([...this.#shifts.values()].filter((shift) => shift.isReady));
    const share = Math.min(BATCH_CALLS_MAX, Math.ceil(this.#queue.ready(false) / Math.max(1, ready.length)));
    for (const shift of ready) this.#join(shift, share);
    if (this.#queue.ready(false) === 0) return;
    for (const shift of this.#shifts.values()) {
      if (!shift.mayGrow) continue;
      for (const { cursor } of shift.batches) cursor.wish();
      // The loop may have become free between the check and the wish.
      if (shift.isReady && !ready.includes(shift)) this.#join(shift, share);
    }
  }

  #join(shift: ThreadShift, count: number): void {
    const chosen = new Map<string, number>();
    const runs = this.#take(false, count, (open) => shift.fits(open, chosen));
    if (runs.length === 0) return;
    for (const batch of shift.batches) if (batch.isOver) this.#forget(batch);
    const batch = this.#batchOf(shift, runs);
    try {
      shift.line?.post(batch.task(this.#options.resultBytesMax));
    } catch (error) {
      this.#unsendable(batch, error);
    }
  }

  /**
   * Frees a thread for a run that needs one alone: the thread with the fewest calls receives no more runs. Only one
   * thread is freed at a time, so that other runs can use the other threads.
   */
  #drain(): void {
    const shifts = [...this.#shifts.values()];
    const isWanted = this.#queue.ready(true) > 0;
    const draining = shifts.find((shift) => shift.isDraining);
    if (!isWanted || this.#shifts.size < this.#options.threads) {
      if (draining !== undefined) draining.isDraining = false;
      return;
    }
    if (draining !== undefined) return;
    const [fewest] = byCalls(shifts.filter(({ isAlone }) => !isAlone));
    if (fewest === undefined) return;
    fewest.isDraining = true;
    this.#settle(fewest);
  }

  /**
   * Gives a free thread half of the runs that another thread was handed and has not begun (R3). Returns false if no
   * runs may be moved yet.
   */
  #shareAgain(): boolean {
    const longest = longestOf(this.#shifts.values());
    if (longest === undefined) return false;
    const now = this.#options.clock.monotonic();
    if (now < longest.handedAt + BATCH_MS) {
      this.#share ??= this.#due.add('share', now, longest.handedAt + BATCH_MS - now);
      return false;
    }
    const { isAlone } = longest.shift;
    this.#takeBack(longest, longest.end - Math.ceil(longest.waiting / 2));
    const runs = this.#take(isAlone, BATCH_CALLS_MAX);
    if (runs.length > 0) this.#hand(runs, isAlone);
    return runs.length > 0;
  }

  #unshare(): void {
    if (this.#share !== undefined) this.#due.remove(this.#share);
    this.#share = undefined;
  }

  #takeBack(batch: ThreadBatch, from: number): void {
    for (const open of batch.takeBack(from)) {
      open.phase = 'waiting';
      this.#handed.delete(open.run.id);
      this.#queue.putBack(open);
      this.#stopped(open);
    }
  }

  /** Begins a shift of a free thread. */
  #hand(runs: readonly OpenRun[], isAlone: boolean): void {
    this.#lastShift += 1;
    const shift = new ThreadShift(this.#lastShift, isAlone, this.#options.isSingle);
    this.#shifts.set(shift.number, shift);
    void this.#work(shift, this.#batchOf(shift, runs));
  }

  #batchOf(shift: ThreadShift, runs: readonly OpenRun[]): ThreadBatch {
    const batch = new ThreadBatch(shift, runs, this.#options.clock.monotonic());
    for (const [at, open] of runs.entries()) {
      open.phase = 'handed';
      const place = { batch, at };
      this.#handed.set(open.run.id, place);
      this.#earlier.began(open, place);
    }
    this.#deadlines.begin(batch);
    return batch;
  }

  async #work(shift: ThreadShift, batch: ThreadBatch): Promise<void> {
    const { tasks, resultBytesMax } = this.#options;
    try {
      const last = await tasks.run(batch.task(resultBytesMax), { abort: shift.kill });
      this.#left(shift, last as ThreadFinished | undefined);
    } catch (error) {
      this.#failed(shift, error);
    }
    this.#shifts.delete(shift.number);
    for (const [id, place] of shift.abandoned) {
      this.#abandoned.delete(id);
      this.#stopped(runAt(place));
    }
    if (this.#shifts.size === 0) this.#unshare();
    this.#pump();
  }

  /** Handles a shift that ended early, most likely because its thread died (R1, R6). */
  #failed(shift: ThreadShift, error: unknown): void {
    const death = threadDeathOf(error);
    const isDead = death !== undefined || shift.kill.isAborted;
    for (const batch of shift.batches) {
      const hasBegun = batch.hasJoined || batch.cursor.claimed > 0;
      if (!hasBegun && !isDead && batch.end > 0) this.#unsendable(batch, error);
      // If a thread ends before its first call began, that call fails: it might end each thread that it is handed to.
      this.#takeBack(batch, hasBegun ? 0 : 1);
    }
    const text = death === undefined ? nameAndMessage(error) : `tool worker died: ${death}`;
    const failed = isDead ? 'lost' : undefined;
    const { holder } = shift;
    const places = [...shift.batches].flatMap((batch) => this.#owned(batch));
    const suspects = places.filter(({ batch, at }) => batch.cursor.endOf(at) === 0);
    const isAlone = suspects.length + shift.abandoned.size === 1;
    for (const place of places) {
      const open = runAt(place);
      const isGuilty = holder === undefined ? isAlone && suspects.includes(place) : holder === open;
      if (!isDead || isGuilty || isDecided(open, place)) this.#over(open, failure(text, this.#elapsed(open), failed));
      else this.#repeat(open, place, isAlone || holder !== undefined);
    }
    for (const batch of [...shift.batches]) this.#forget(batch);
  }

  /** Sends the runs of a batch one by one, because one of them cannot be sent and it is unknown which. */
  #unsendable(batch: ThreadBatch, error: unknown): void {
    const [only] = batch.runs;
    if (batch.end > 1) for (const open of batch.runs) this.#single.add(open);
    else if (only !== undefined && this.#handed.has(only.run.id)) this.#over(only, failure(nameAndMessage(error), 0));
    this.#takeBack(batch, 0);
    this.#pumpSoon();
  }

  /** Begins a run again after another run ended its thread (R6, R7). `isKnown`: it is known which run that was. */
  #repeat(open: OpenRun, place: BatchPlace, isKnown: boolean): void {
    open.decided = undefined;
    open.failed = undefined;
    if (open.run.effect === 'once') {
      this.#over(open, failure(OUTCOME_UNKNOWN, this.#elapsed(open)));
      return;
    }
    this.#release(open, place);
    open.phase = 'waiting';
    open.startedAt = 0;
    open.endSeenAt = undefined;
    open.repeats += 1;
    open.isAlone ||= !isKnown || open.repeats > TOOL_REPEATS_MAX;
    if (open.run.effect === 'probe') open.mode = 'probe';
    this.#queue.putBack(open);
  }

  /**
   * Notes that the thread has finished the shift. The thread's answer takes another path than its reports and may
   * overtake them, so missing reports get more time (R5).
   */
  #left(shift: ThreadShift, last: ThreadFinished | undefined): void {
    shift.isLeft = true;
    const place = last === undefined ? undefined : this.#handed.get(last.id);
    if (place?.batch.shift === shift && last !== undefined) this.#over(runAt(place), last.outcome);
    for (const batch of [...shift.batches]) {
      // Takes back calls that joined too late.
      this.#takeBack(batch, 0);
      this.#forget(batch);
      if (!batch.isOver) this.#deadlines.left(batch);
    }
  }

  /** The runs of a batch that were handed over and have no outcome yet, with their places. */
  #owned(batch: ThreadBatch): readonly BatchPlace[] {
    return batch.runs.flatMap(({ run }) => {
      const place = this.#handed.get(run.id);
      return place?.batch === batch ? [place] : [];
    });
  }

  #finished({ id, outcome }: ThreadFinished, open: OpenRun, place: BatchPlace): void {
    const { batch, at } = place;
    const { shift, cursor } = batch;
    batch.reported += 1;
    const order = cursor.endOf(at);
    if (order > batch.reported) {
      // A thread reports ends in order. So an earlier end whose report is missing here was lost (R5).
      batch.reported = order;
      for (const other of this.#owned(batch)) {
        const end = cursor.endOf(other.at);
        if (end > 0 && end < order) this.#over(runAt(other), failure(LOST, this.#elapsed(runAt(other)), 'lost'));
      }
    }
    if (this.#abandoned.delete(id)) {
      shift.abandoned.delete(id);
      this.#stopped(open);
    } else this.#over(open, outcome);
    if (this.#shifts.size < this.#options.threads || (this.#isWaiting && shift.isReady)) this.#pumpSoon();
  }

  /** Answers a run whose tool still works (R2). */
  #abandon(open: OpenRun, place: BatchPlace): void {
    const { shift } = place.batch;
    shift.abandon(open, place);
    this.#abandoned.set(open.run.id, place);
    this.#over(open, failure(open.decided ?? '', this.#elapsed(open)));
    this.#retireFor(open, place);
    this.#pumpSoon();
  }

  /** Ends a thread once its runs are over, if another run of an abandoned call waits for that (R9). */
  #retireFor(open: OpenRun, { batch: { shift } }: BatchPlace): void {
    if (!shift.abandoned.has(open.run.id) || !this.#earlier.isAwaited(open)) return;
    shift.isRetired = true;
    this.#settle(shift);
  }

  /** Notes that a run is no longer at work, so that later runs of its call may begin (R9). */
  #stopped(open: OpenRun): void {
    for (const later of this.#earlier.ended(open)) this.#queue.add(later);
  }

  /** Ends a thread that has only abandoned runs, if it is to be replaced. Otherwise the thread takes more runs. */
  #settle(shift: ThreadShift): void {
    if (shift.calls > 0 || shift.abandoned.size === 0) return;
    if (shift.isRetired || shift.isDraining) shift.kill.abort();
    else shift.isAlone = false;
  }

  #over(open: OpenRun, outcome: ToolOutcome): void {
    const place = this.#handed.get(open.run.id);
    const { decided, failed, stack } = open;
    const answer = decided === undefined ? outcome : failure(decided, this.#elapsed(open), failed, stack);
    if (place !== undefined) this.#release(open, place);
    this.#queue.release(open);
    this.#end(open, answer);
    if (place !== undefined) this.#settle(place.batch.shift);
  }

  /** Takes a run from its thread. A shift keeps its last batch, whose deadline notices if the shift never ends. */
  #release(open: OpenRun, { batch }: BatchPlace): void {
    this.#handed.delete(open.run.id);
    if (!batch.shift.abandoned.has(open.run.id)) this.#stopped(open);
    batch.left += 1;
    batch.shift.leave(open);
    if (batch.isOver && (batch.shift.batches.size > 1 || batch.shift.isLeft)) this.#forget(batch);
  }

  #forget(batch: ThreadBatch): void {
    batch.shift.batches.delete(batch);
    this.#deadlines.drop(batch);
  }

  #end(open: OpenRun, outcome: ToolOutcome): void {
    this.#single.delete(open);
    this.#options.over(open, outcome);
  }

  #elapsed(open: OpenRun): number {
    return elapsedOf(open, this.#handed.get(open.run.id), this.#options.clock.monotonic());
  }
}
