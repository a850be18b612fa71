/**
 * The runs of a pool that run on the host thread.
 *
 * Owns: which of these runs wait or run, and their deadlines. Does not own: the tools, and the delivery of outcomes to
 * the listener.
 *
 * H1 A run completes exactly once, and no later than `TOOL_GRACE_MS` after its timeout. A host tool cannot be killed,
 *    so its call is answered by then even if the tool still runs.
 * H2 A run begins only while the gate does not hold runs back.
 */
import { TOOL_KILL_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { type Deadline, DeadlineQueue } from '../base/deadline-queue.ts';
import type { BeginGate } from './begin-gate.ts';
import type { HostRunner } from './host-tools.ts';
import { failure, type OpenRun } from './open-run.ts';
import { nameAndMessage } from './result-text.ts';
import { RunQueue } from './run-queue.ts';
import type { ToolFailure, ToolOutcome } from './tool.ts';
import { timeoutText } from './tool-execution.ts';

/** The dependencies of host runs. */
export interface HostRunsOptions {
  readonly clock: Clock;
  /** Missing: a run may always begin. */
  readonly gate: BeginGate | undefined;
  /** The host's runner; if missing, every run fails. */
  readonly hostRunner: HostRunner | undefined;
  /** Takes a run's outcome. */
  readonly over: (open: OpenRun, outcome: ToolOutcome) => void;
}

/** See the head of the file. */
export class HostRuns {
  readonly #options: HostRunsOptions;
  readonly #queue = new RunQueue<OpenRun>();
  readonly #deadlines: DeadlineQueue<OpenRun>;
  /** The runs that have begun, and the deadline of each. */
  readonly #begun = new Map<OpenRun, Deadline<OpenRun>>();
  #isClosed = false;

  constructor(options: HostRunsOptions) {
    this.#options = options;
    this.#deadlines = new DeadlineQueue(options.clock, (open) => this.#due(open));
  }

  /** The number of runs that have begun. */
  get running(): number {
    return this.#begun.size;
  }

  /**
   * Begins a run. Queues the run instead if its tool has reached its bound of simultaneous unanswered runs, or if the
   * gate holds runs back. A tool that still works after its deadline has been answered, and no longer counts.
   */
  add(open: OpenRun): void {
    this.#queue.add(open);
    this.#pump();
  }

  /** Answers a waiting run at once; asks a begun run to stop. */
  cancel(open: OpenRun, reason: string): void {
    if (open.phase !== 'waiting') {
      this.#decide(open, reason);
      return;
    }
    this.#queue.remove(open);
    this.#options.over(open, failure(reason, 0));
    this.#pump();
  }

  /** Asks running tools to stop, and begins nothing more. The owner of the runs answers them. */
  close(): void {
    this.#isClosed = true;
    for (const [open, deadline] of this.#begun) {
      this.#deadlines.remove(deadline);
      this.#abort(open, 'The runtime is closing');
    }
    this.#begun.clear();
  }

  #pump(): void {
    if (this.#isClosed || this.#options.gate?.holds(() => this.#pump()) === true) return;
    for (let open = this.#queue.take(false); open !== undefined; open = this.#queue.take(false)) void this.#run(open);
  }

  async #run(open: OpenRun): Promise<void> {
    const { clock, hostRunner } = this.#options;
    open.phase = 'running';
    open.startedAt = clock.monotonic();
    this.#begun.set(open, this.#deadlines.add(open, open.startedAt, open.run.timeoutMs));
    let outcome: ToolOutcome;
    try {
      if (hostRunner === undefined) throw new Error('no host runs tools here');
      outcome = await hostRunner.run(open.run);
    } catch (error) {
      outcome = failure(nameAndMessage(error), this.#elapsed(open));
    }
    this.#over(open, outcome);
  }

  #due(open: OpenRun): void {
    const { toolName, timeoutMs } = open.run;
    if (open.phase === 'running') this.#decide(open, timeoutText(toolName, timeoutMs), 'timeout');
    else this.#over(open, failure(open.decided ?? '', this.#elapsed(open)));
  }

  #decide(open: OpenRun, content: string, failed?: ToolFailure): void {
    const before = this.#begun.get(open);
    if (open.phase === 'ending' || before === undefined) return;
    open.phase = 'ending';
    open.decided = content;
    open.failed = failed;
    this.#begun.set(open, this.#deadlines.add(open, this.#options.clock.monotonic(), TOOL_KILL_MS));
    this.#deadlines.remove(before);
    this.#abort(open, content);
  }

  #abort(open: OpenRun, reason: string): void {
    // The result of the abort is ignored: if the host cannot abort the tool, the call is answered at its deadline.
    void Promise.resolve(this.#options.hostRunner?.abort(open.run.id, reason)).catch(() => undefined);
  }

  #over(open: OpenRun, outcome: ToolOutcome): void {
    // The deadline is absent for a run that was already answered, or that was open when the pool was closed.
    const deadline = this.#begun.get(open);
    if (deadline === undefined) return;
    this.#begun.delete(open);
    this.#deadlines.remove(deadline);
    const { decided, failed } = open;
    this.#options.over(open, decided === undefined ? outcome : failure(decided, this.#elapsed(open), failed));
    this.#queue.release(open);
    this.#pump();
  }

  #elapsed(open: OpenRun): number {
    return Math.max(0, Math.round(this.#options.clock.monotonic() - open.startedAt));
  }
}
