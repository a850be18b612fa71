/**
 * The types of a supervisor's decisions: its state, its inputs, its actions. Types only. Everything is plain data and
 * can be cloned, compared and stored. Times are monotonic ms.
 */
import type { ChildSpec, ChildSpecInput, SupervisorOptions } from './child-spec.ts';
import type { ChildTable, TableRow } from './child-table.ts';

/**
 * Why a child ended. `normal`: it had nothing left to do. `shutdown`: it was asked to end. `transientFault`: a service
 * it needs is away for a while (429, 529, a timeout); waiting helps. `error`: it failed. `killed`: it did not end by
 * itself.
 */
export interface ExitReason {
  readonly kind: 'normal' | 'shutdown' | 'transientFault' | 'error' | 'killed';
  readonly message?: string;
}

/**
 * The status of a child. `exited`: it ended while a group was being restarted, and its end is not handled yet.
 * `waiting`: a timer will start it; `counted` says whether that restart uses up intensity.
 */
export type ChildStatus =
  | { readonly name: 'starting'; readonly isNew: boolean }
  | { readonly name: 'running'; readonly since: number }
  | { readonly name: 'stopping'; readonly forget: boolean; readonly killed: boolean }
  | { readonly name: 'exited'; readonly reason: ExitReason }
  | { readonly name: 'waiting'; readonly counted: boolean }
  | { readonly name: 'stopped' };

/**
 * One child. `run` is the number of its current life. Numbers rise over all children, so a completion can name the run
 * that it completes.
 */
export interface Child extends TableRow {
  readonly spec: ChildSpec;
  readonly run: number;
  readonly status: ChildStatus;
  /** Transient faults since the child last ran for long enough to count as recovered. */
  readonly faults: number;
}

/** Why a supervisor stops: on request, or because it gives up and its own supervisor must act. */
export type StopCause =
  | { readonly kind: 'requested' }
  | { readonly kind: 'intensity' | 'childFailure' | 'startFailed'; readonly id: string; readonly reason: ExitReason };

/** The phase of the supervisor. Lists of ids are walked from `next`; each step waits for its child's answer. */
export type Phase =
  /** The phase before the input `begin`. */
  | { readonly name: 'new' }
  | { readonly name: 'starting'; readonly ids: readonly string[]; readonly next: number }
  | { readonly name: 'running' }
  | {
      readonly name: 'restarting';
      readonly step: 'stop' | 'start';
      /** Ids of the group, right to left while stopping, left to right while starting. */
      readonly ids: readonly string[];
      readonly next: number;
      /** The child whose end began the walk. */
      readonly cause: string;
      readonly counted: boolean;
    }
  | { readonly name: 'stopping'; readonly ids: readonly string[]; readonly next: number; readonly cause: StopCause }
  | { readonly name: 'stopped' };

/** The whole state of a supervisor. */
export interface SupervisorState {
  readonly options: SupervisorOptions;
  readonly phase: Phase;
  readonly children: ChildTable<Child>;
  /** Times at which the counted restarts of the current period were decided, ascending. */
  readonly restarts: readonly number[];
  /**
   * Inputs that arrived while a group was being restarted, and that can wait: ends of children outside the group,
   * timers, requests.
   */
  readonly deferred: readonly SupervisorInput[];
  readonly nextRun: number;
  readonly nextOrder: number;
  /** Number of answers for a run that had already ended; such answers are dropped. */
  readonly stale: number;
}

/** The inputs of a supervisor. */
export type SupervisorInput =
  /** Begins the first start, left to right. Once, before any other input. */
  | { readonly type: 'begin' }
  | { readonly type: 'childStarted'; readonly id: string; readonly run: number }
  | {
      readonly type: 'startFailed' | 'childExited';
      readonly id: string;
      readonly run: number;
      readonly reason: ExitReason;
    }
  /** A timer asked for by `scheduleRestart` or `scheduleKill` has fired. */
  | { readonly type: 'timer'; readonly timer: 'restart' | 'kill'; readonly id: string; readonly run: number }
  | { readonly type: 'addChild'; readonly spec: ChildSpecInput }
  | { readonly type: 'removeChild'; readonly id: string }
  | { readonly type: 'shutdown' };

/** Why a request was refused. */
export type Refusal = 'duplicate' | 'invalid' | 'limit' | 'unknown' | 'stopping';

/** The reported fact about a child: it ended, could not be started, had to be killed, or is no longer watched. */
export type ReportEvent = 'exited' | 'startFailed' | 'killed' | 'removed';

/** An action for the supervisor's host. Actions are performed in order. */
export type SupervisorAction =
  /** Start the child, and answer with `childStarted` or `startFailed` of this run. */
  | { readonly type: 'start'; readonly id: string; readonly run: number }
  /**
   * Start a child that ran before; answer in the same way. `cause`: the child whose failure led to this restart.
   * `counted`: the restart used up intensity.
   */
  | {
      readonly type: 'restart';
      readonly id: string;
      readonly run: number;
      readonly cause: string;
      readonly counted: boolean;
    }
  /** Ask the child to end. Answer with `childExited`, or `startFailed` if it was still being started. */
  | { readonly type: 'stop'; readonly id: string; readonly run: number }
  /** End the child at once; the answer is the same as for `stop`. */
  | { readonly type: 'kill'; readonly id: string; readonly run: number }
  /** Send the `timer` input of this name after `delayMs`; with 0 it follows the entries already in the mailbox. */
  | {
      readonly type: 'scheduleRestart' | 'scheduleKill';
      readonly id: string;
      readonly run: number;
      readonly delayMs: number;
    }
  | {
      readonly type: 'report';
      readonly event: ReportEvent;
      readonly id: string;
      readonly run: number;
      readonly reason: ExitReason;
    }
  | { readonly type: 'refuse'; readonly id: string; readonly refusal: Refusal; readonly message: string }
  /** All children are gone and the supervisor gives up, with exit reason shutdown: its own supervisor decides. */
  | { readonly type: 'escalate'; readonly cause: StopCause; readonly reason: ExitReason }
  /** All children are gone, as requested. */
  | { readonly type: 'stopped' };
