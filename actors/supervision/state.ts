/**
 * The types of a supervisor's decisions: its state, its inputs, its actions. Types only. Everything is plain data and
 * can be cloned, compared and stored. Times are monotonic ms.
 */

import type { ChildTable, TableRow } from './child-table.ts';
import type { ChildSpec, ChildSpecInput, SupervisorOptions } from './supervisor-options.ts';

/**
 * Why a child ended. `normal`: it had nothing left to do. `shutdown`: it was asked to end. `transientFault`: a service
 * that it needs was not available (429, 529, a timeout), so waiting helps. `error`: it failed. `killed`: it did not end
 * by itself.
 */
export interface ExitReason {
  readonly kind: 'normal' | 'shutdown' | 'transientFault' | 'error' | 'killed';
  readonly message?: string;
}

/**
 * The status of a child. `isNew`: `addChild` began this start; if it fails, the child is removed. `exited`: the child
 * ended during a walk (see `Phase`), and its end is not handled yet. `waiting`: a timer will start it. `counted`: the
 * restart counts towards `intensity`. `forget`: the child is removed when it has ended.
 */
export type ChildStatus =
  | { readonly name: 'starting'; readonly isNew: boolean }
  | { readonly name: 'running'; readonly since: number }
  | { readonly name: 'stopping'; readonly forget: boolean; readonly killed: boolean }
  | { readonly name: 'exited'; readonly reason: ExitReason }
  | { readonly name: 'waiting'; readonly counted: boolean }
  | { readonly name: 'stopped' };

/**
 * One child. `run`: the number of its latest start, which its answers name; 0 before its first start. The starts of all
 * children are numbered in one sequence.
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

/**
 * The phase of the supervisor. A phase with `ids` is a walk: it starts or stops these children one by one. `next` is
 * the index of the current child; the walk waits for this child's answer.
 */
export type Phase =
  /** The phase before the input `begin`. */
  | { readonly name: 'new' }
  | { readonly name: 'starting'; readonly ids: readonly string[]; readonly next: number }
  | { readonly name: 'running' }
  | {
      readonly name: 'restarting';
      readonly step: 'stop' | 'start';
      /** Ids of the group: in reverse order of start while stopping, in the order of start while starting. */
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
   * Inputs that wait for the end of a walk: ends of children that the walk did not stop, restart timers, requests.
   */
  readonly deferred: readonly SupervisorInput[];
  readonly nextRun: number;
  readonly nextOrder: number;
  /** Number of answers and timers that were dropped, because their run had ended or the child's status had changed. */
  readonly stale: number;
}

/** The inputs of a supervisor. */
export type SupervisorInput =
  /** Begins the first start of the children, in their order. Sent once, before any other input. */
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

/** A reported fact about a child: it ended, could not be started, had to be killed, or was removed. */
export type ReportEvent = 'exited' | 'startFailed' | 'killed' | 'removed';

/** An action for the supervisor's host. Actions are performed in order. */
export type SupervisorAction =
  /** Start the child, and answer with `childStarted` or `startFailed` of this run. */
  | { readonly type: 'start'; readonly id: string; readonly run: number }
  /**
   * Start a child that ran before; answer as for `start`. `cause`: the child whose end led to this restart.
   * `counted`: the restart counts towards `intensity`.
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
  /** Send the `timer` input for this action after `delayMs`. With 0, the input comes after inputs that already wait. */
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
  /** All children are gone, and the supervisor gives up. Its own supervisor decides what follows. */
  | { readonly type: 'escalate'; readonly cause: StopCause; readonly reason: ExitReason }
  /** All children are gone, as requested. */
  | { readonly type: 'stopped' };
