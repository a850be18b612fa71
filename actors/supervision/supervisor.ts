/**
 * Supervision as a pure state machine with the semantics of the supervisor of Erlang/OTP. It serves the sub-agents of a
 * session, which stop and start at once (`family-supervisor.ts`). As part of `troupe/actors` it also serves an
 * embedder's own children, which take time to start and stop.
 *
 * Owns: which children there are, in which order, which of them run, and the consequences when one ends.
 * Does not own: the children, clocks, timers or threads. Its host performs the actions and returns the answers as
 * inputs. A host feeds one input at a time, in order, and performs all actions of a decision before it feeds the next.
 *
 *  S1  Children start in their order and stop in reverse. Each step waits for the answer to the previous step.
 *  S2  Counted restarts never exceed `intensity` within `periodMs`. If one more restart would be needed, the supervisor
 *      stops all children and then escalates.
 *  S3  After a transient fault the child waits for its back-off and restarts; this restart is not counted.
 *  S4  A failed restart is tried again by a timer, so that a waiting shutdown is served first. The timer takes 0 ms, or
 *      the back-off if the failure was a transient fault.
 *  S5  A child's answer counts only for the run that it names. A run is asked to end at most once, and killed at most
 *      once.
 *  S6  After a shutdown each running child is stopped exactly once, and no child is started.
 *
 * Source of the rules: Erlang/OTP, stdlib, supervisor (decision by reason and restart type, strategies, intensity).
 */
import { ConfigError } from '../../src/base/errors.ts';
import { countRestart } from '../../src/base/restart-intensity.ts';
import { backoffMs } from './backoff.ts';
import { EMPTY_TABLE, rowOf, withoutRow, withRow } from './child-table.ts';
import { downChild, handleRequest } from './requests.ts';
import type { Child, ExitReason, StopCause, SupervisorAction, SupervisorInput, SupervisorState } from './state.ts';
import { type ChildSpecInput, childSpec, supervisorOptions } from './supervisor-options.ts';
import {
  advance,
  beginGroup,
  beginStarting,
  beginStopping,
  childGone,
  type Draft,
  report,
  setChild,
  settle,
  startChild,
} from './walk.ts';

/** A decision: the next state, and the host's actions in order. */
export interface SupervisionDecision {
  readonly state: SupervisorState;
  readonly actions: readonly SupervisorAction[];
}

/**
 * A supervisor that has not begun; `specs` are in the order of start. Throws `ConfigError` for bad options, a bad spec,
 * two children of one id, or more children than `childrenMax`.
 */
export function supervisorState(specs: readonly ChildSpecInput[], options: unknown = {}): SupervisorState {
  const checked = supervisorOptions(options);
  if (specs.length > checked.childrenMax) {
    throw new ConfigError(`supervision: ${specs.length} children, at most ${checked.childrenMax} are allowed`);
  }
  let children: SupervisorState['children'] = EMPTY_TABLE;
  specs.forEach((input, index) => {
    const spec = childSpec(input);
    if (rowOf(children, spec.id) !== undefined)
      throw new ConfigError(`two children have the id ${JSON.stringify(spec.id)}`);
    children = withRow(children, downChild(spec, index + 1));
  });
  return {
    options: checked,
    phase: { name: 'new' },
    children,
    restarts: [],
    deferred: [],
    nextRun: 1,
    nextOrder: specs.length + 1,
    stale: 0,
  };
}

/** Handles one input at `now` (monotonic ms). Never throws; `state` is not changed. */
export function decideSupervision(state: SupervisorState, input: SupervisorInput, now: number): SupervisionDecision {
  const draft: Draft = { ...state, now, actions: [] };
  handle(draft, input);
  advance(draft);
  // Deferred inputs are served when the walk is over. If one of them begins another walk, the rest waits again.
  while (draft.phase.name === 'running' && draft.deferred.length > 0) {
    const [waiting, ...others] = draft.deferred;
    draft.deferred = others;
    // If a walk has handled the child since, the input needs no action and does not count as stale.
    if (waiting !== undefined && isCurrent(draft, waiting)) handle(draft, waiting);
    advance(draft);
  }
  const { now: _now, actions, ...next } = draft;
  return { state: next, actions };
}

function handle(draft: Draft, input: SupervisorInput): void {
  switch (input.type) {
    case 'begin':
      if (draft.phase.name === 'new') beginStarting(draft);
      return;
    case 'shutdown':
      return handleShutdown(draft);
    case 'addChild':
    case 'removeChild':
      return handleRequest(draft, input);
    case 'childStarted':
    case 'startFailed':
    case 'childExited':
    case 'timer':
      return handleAnswer(draft, input);
  }
}

/**
 * Handles a shutdown at once, even between the steps of a walk. A supervisor that was giving up then counts as asked to
 * stop.
 */
function handleShutdown(draft: Draft): void {
  const { phase } = draft;
  if (phase.name === 'stopped') return;
  if (phase.name === 'stopping') draft.phase = { ...phase, cause: { kind: 'requested' } };
  else beginStopping(draft, { kind: 'requested' });
}

type Answer = Extract<SupervisorInput, { readonly run: number }>;

function handleAnswer(draft: Draft, input: Answer): void {
  const child = rowOf(draft.children, input.id);
  const isRepeated = child?.status.name === 'exited' && draft.phase.name !== 'running';
  if (child === undefined || isRepeated || !isCurrent(draft, input)) {
    draft.stale += 1;
    return;
  }
  switch (input.type) {
    case 'childStarted':
      // A child that was asked to end while it started answers by ending.
      if (child.status.name === 'starting') setChild(draft, child, { status: { name: 'running', since: draft.now } });
      return;
    case 'startFailed':
      return handleStartFailed(draft, child, input.reason);
    case 'childExited':
      if (child.status.name === 'starting') return handleStartFailed(draft, child, input.reason);
      return handleExit(draft, child, input.reason, input);
    case 'timer':
      return input.timer === 'kill' ? handleKillTimer(draft, child) : handleRestartTimer(draft, child, input);
  }
}

function isCurrent(draft: Draft, input: SupervisorInput): boolean {
  if (!('run' in input)) return true;
  const child = rowOf(draft.children, input.id);
  return child !== undefined && child.run === input.run && isAwaited(child, input);
}

/** True if a child in this status can give this answer. A deferred end is handled again with the status `exited`. */
function isAwaited(child: Child, input: Answer): boolean {
  const { name } = child.status;
  if (input.type === 'timer' && input.timer === 'restart') return name === 'waiting';
  if (input.type === 'timer') return child.status.name === 'stopping' && !child.status.killed;
  if (input.type === 'childExited') return name !== 'waiting' && name !== 'stopped';
  return name === 'starting' || name === 'stopping';
}

function handleExit(draft: Draft, child: Child, reason: ExitReason, input: Answer): void {
  if (child.status.name === 'stopping') return childGone(draft, child, reason);
  if (draft.phase.name === 'running') return decideExit(draft, child, reason);
  // If the walk reaches this child later, the child counts as stopped. Otherwise its end is handled after the walk.
  setChild(draft, child, { status: { name: 'exited', reason: reason }, faults: faultsAfter(draft, child) });
  if (draft.phase.name !== 'stopping') draft.deferred = [...draft.deferred, input];
}

/** Decides about the end of a child: `onChildFailure` first, then OTP's table of reason and restart type. */
function decideExit(draft: Draft, child: Child, reason: ExitReason): void {
  const ended: Child = { ...child, faults: faultsAfter(draft, child) };
  const failed = reason.kind !== 'normal' && reason.kind !== 'shutdown';
  const { onChildFailure } = draft.options;
  if (failed && onChildFailure === 'ignore') return settle(draft, ended);
  if (failed || ended.spec.restart === 'permanent') report(draft, 'exited', ended, reason);
  if (failed && onChildFailure === 'report') return settle(draft, ended);
  if (failed && onChildFailure === 'escalate')
    return giveUp(draft, ended, { kind: 'childFailure', id: ended.id, reason });
  const restarts = ended.spec.restart === 'permanent' || (ended.spec.restart === 'transient' && failed);
  if (!restarts) return settle(draft, ended);
  if (reason.kind === 'transientFault') return waitForRestart(draft, ended, reason);
  countAndRestart(draft, ended, reason);
}

/**
 * The child's transient faults so far. A child that ran for at least the longest back-off has recovered, so its next
 * fault counts as the first.
 */
function faultsAfter(draft: Draft, child: Child): number {
  const recovered = child.status.name === 'running' && draft.now - child.status.since >= draft.options.backoff.maxMs;
  return recovered ? 0 : child.faults;
}

function countAndRestart(draft: Draft, child: Child, reason: ExitReason): void {
  const verdict = countRestart(draft.restarts, draft.now, draft.options);
  draft.restarts = verdict.restarts;
  if (verdict.allowed) restart(draft, child, true);
  else giveUp(draft, child, { kind: 'intensity', id: child.id, reason });
}

function restart(draft: Draft, child: Child, counted: boolean): void {
  if (draft.options.strategy === 'oneForOne') return startChild(draft, child, { cause: child.id, counted });
  setChild(draft, child, { status: { name: 'stopped' } });
  beginGroup(draft, child, counted);
}

function giveUp(draft: Draft, child: Child, cause: StopCause): void {
  settle(draft, child);
  beginStopping(draft, cause);
}

/**
 * Sets the timer for a child's restart: its back-off after a transient fault, otherwise 0 ms. In the second case the
 * restart is counted when the timer fires.
 */
function waitForRestart(draft: Draft, child: Child, reason: ExitReason): void {
  const { id, run } = child;
  const isFault = reason.kind === 'transientFault';
  const faults = isFault ? child.faults + 1 : child.faults;
  setChild(draft, child, { faults, status: { name: 'waiting', counted: !isFault } });
  const delayMs = isFault ? backoffMs(draft.options.backoff, id, faults) : 0;
  draft.actions.push({ type: 'scheduleRestart', id, run, delayMs });
}

function handleStartFailed(draft: Draft, child: Child, reason: ExitReason): void {
  const { phase } = draft;
  if (child.status.name === 'stopping') return childGone(draft, child, reason);
  report(draft, 'startFailed', child, reason);
  if (phase.name === 'starting') return giveUp(draft, child, { kind: 'startFailed', id: child.id, reason });
  if (child.status.name === 'starting' && child.status.isNew) {
    draft.children = withoutRow(draft.children, child.id);
    return;
  }
  // The group stays partly down until the child's timer begins a new attempt for the group.
  if (phase.name === 'restarting' && phase.ids[phase.next] === child.id) draft.phase = { name: 'running' };
  waitForRestart(draft, child, reason);
}

function handleRestartTimer(draft: Draft, child: Child, input: Answer): void {
  if (child.status.name !== 'waiting') return;
  if (draft.phase.name === 'running') {
    if (child.status.counted) countAndRestart(draft, child, { kind: 'error', message: 'could not be started' });
    else restart(draft, child, false);
  } else if (draft.phase.name !== 'stopping') {
    draft.deferred = [...draft.deferred, input];
  }
}

function handleKillTimer(draft: Draft, child: Child): void {
  if (child.status.name !== 'stopping') return;
  setChild(draft, child, { status: { ...child.status, killed: true } });
  draft.actions.push({ type: 'kill', id: child.id, run: child.run });
  report(draft, 'killed', child, { kind: 'killed', message: `did not end within ${child.spec.shutdown} ms` });
}
