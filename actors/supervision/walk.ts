/**
 * Walks a supervisor's children, with one draft of the next state per decision. A walk starts children in their order,
 * or stops them in reverse. Each step handles one child, and waits for the answer of the previous child.
 */

import { type ChildTable, rowOf, rowsInOrder, withoutRow, withRow } from './child-table.ts';
import type {
  Child,
  ExitReason,
  Phase,
  ReportEvent,
  StopCause,
  SupervisorAction,
  SupervisorInput,
  SupervisorState,
} from './state.ts';
import type { Shutdown } from './supervisor-options.ts';

/** The next state while it is being decided. A draft lives within one decision; the original state never changes. */
export interface Draft {
  readonly options: SupervisorState['options'];
  readonly now: number;
  readonly actions: SupervisorAction[];
  phase: Phase;
  children: ChildTable<Child>;
  restarts: readonly number[];
  deferred: readonly SupervisorInput[];
  nextRun: number;
  nextOrder: number;
  stale: number;
}

/** Replaces a child by a changed copy. */
export function setChild(draft: Draft, child: Child, change: Partial<Child>): void {
  draft.children = withRow(draft.children, { ...child, ...change });
}

/** Reports an event of a child. */
export function report(draft: Draft, event: ReportEvent, child: Child, reason: ExitReason): void {
  draft.actions.push({ type: 'report', event, id: child.id, run: child.run, reason });
}

/** Starts a child under a new run. `again`: it ran before, and restarts because of the child `cause`. */
export function startChild(
  draft: Draft,
  child: Child,
  again?: { readonly cause: string; readonly counted: boolean },
  isNew: boolean = false,
): void {
  const run = draft.nextRun;
  draft.nextRun += 1;
  setChild(draft, child, { run, status: { name: 'starting', isNew } });
  if (again === undefined) draft.actions.push({ type: 'start', id: child.id, run });
  else draft.actions.push({ type: 'restart', id: child.id, run, cause: again.cause, counted: again.counted });
}

/**
 * Asks a child to end, in the way and within the time that its spec sets. `forget`: the spec is removed together with
 * the child.
 */
export function stopChild(draft: Draft, child: Child, forget: boolean): void {
  const { id, run } = child;
  const shutdown: Shutdown = child.spec.shutdown;
  const killed = shutdown === 'brutalKill';
  setChild(draft, child, { status: { name: 'stopping', forget, killed } });
  draft.actions.push({ type: killed ? 'kill' : 'stop', id, run });
  if (typeof shutdown === 'number') draft.actions.push({ type: 'scheduleKill', id, run, delayMs: shutdown });
}

/**
 * Handles a child that ended and is not started again: a temporary child is forgotten, any other keeps its position.
 */
export function settle(draft: Draft, child: Child): void {
  if (child.spec.restart === 'temporary') draft.children = withoutRow(draft.children, child.id);
  else setChild(draft, child, { status: { name: 'stopped' }, faults: 0 });
}

/** Handles the end of a child that was asked to end. A failure of such a child is reported only here. */
export function childGone(draft: Draft, child: Child, reason: ExitReason): void {
  if (reason.kind === 'error' || reason.kind === 'transientFault') report(draft, 'exited', child, reason);
  if (child.status.name === 'stopping' && child.status.forget) {
    draft.children = withoutRow(draft.children, child.id);
    report(draft, 'removed', child, reason);
  } else {
    settle(draft, child);
  }
}

/** Begins the first start of all children. */
export function beginStarting(draft: Draft): void {
  draft.phase = { name: 'starting', ids: rowsInOrder(draft.children).map((child) => child.id), next: 0 };
}

/** Begins to stop and restart the children that the strategy restarts with `failed`, which has already ended. */
export function beginGroup(draft: Draft, failed: Child, counted: boolean): void {
  const rows = rowsInOrder(draft.children);
  const group = draft.options.strategy === 'restForOne' ? rows.filter((row) => row.order >= failed.order) : rows;
  const ids = group.map((row) => row.id).reverse();
  draft.phase = { name: 'restarting', step: 'stop', ids, next: 0, cause: failed.id, counted };
}

/** Begins to stop all children. Deferred requests are refused; the walk itself handles deferred ends of children. */
export function beginStopping(draft: Draft, cause: StopCause): void {
  for (const input of draft.deferred) {
    if (input.type === 'removeChild') refuseStopping(draft, input.id);
    if (input.type === 'addChild') refuseStopping(draft, input.spec.id);
  }
  draft.deferred = [];
  const ids = rowsInOrder(draft.children).map((child) => child.id);
  draft.phase = { name: 'stopping', ids: ids.reverse(), next: 0, cause };
}

/** Refuses a request because the supervisor ends. */
export function refuseStopping(draft: Draft, id: string): void {
  draft.actions.push({ type: 'refuse', id, refusal: 'stopping', message: 'the supervisor is stopping' });
}

/** Walks until a step has to wait for a child, or the walk is over. Each iteration handles one child. */
export function advance(draft: Draft): void {
  for (let { phase } = draft; isWalk(phase); phase = draft.phase) {
    const id = phase.ids[phase.next];
    if (id === undefined) {
      finishWalk(draft, phase);
      continue;
    }
    const child = rowOf(draft.children, id);
    const stops = phase.name === 'stopping' || (phase.name === 'restarting' && phase.step === 'stop');
    const passed = child === undefined || (stops ? isDown(draft, child) : isUp(draft, child, phase));
    if (!passed) return;
    draft.phase = { ...phase, next: phase.next + 1 };
  }
}

type Walk = Extract<Phase, { readonly ids: readonly string[] }>;

function isWalk(phase: Phase): phase is Walk {
  return phase.name === 'starting' || phase.name === 'restarting' || phase.name === 'stopping';
}

/** True when the child is down. Otherwise asks it to end, unless it was asked before, and returns false. */
function isDown(draft: Draft, child: Child): boolean {
  switch (child.status.name) {
    case 'starting':
    case 'running':
      stopChild(draft, child, false);
      return false;
    case 'stopping':
      return false;
    case 'exited':
      childGone(draft, child, child.status.reason);
      return true;
    case 'waiting':
      settle(draft, child);
      return true;
    case 'stopped':
      return true;
  }
}

/** True when the child is up, or its end or restart is handled later. Starts a stopped child, and returns false. */
function isUp(draft: Draft, child: Child, phase: Walk): boolean {
  if (child.status.name === 'starting') return false;
  if (child.status.name !== 'stopped') return true;
  startChild(draft, child, phase.name === 'restarting' ? phase : undefined);
  return false;
}

function finishWalk(draft: Draft, phase: Walk): void {
  if (phase.name === 'restarting' && phase.step === 'stop') {
    draft.phase = { ...phase, step: 'start', ids: [...phase.ids].reverse(), next: 0 };
  } else if (phase.name !== 'stopping') {
    draft.phase = { name: 'running' };
  } else {
    draft.phase = { name: 'stopped' };
    const reason: ExitReason = { kind: 'shutdown', message: describeCause(phase.cause) };
    if (phase.cause.kind === 'requested') draft.actions.push({ type: 'stopped' });
    else draft.actions.push({ type: 'escalate', cause: phase.cause, reason });
  }
}

function describeCause(cause: StopCause): string {
  switch (cause.kind) {
    case 'requested':
      return 'asked to stop';
    case 'intensity':
      return `too many restarts, the last of ${cause.id}`;
    case 'childFailure':
      return `${cause.id} failed`;
    case 'startFailed':
      return `${cause.id} could not be started`;
  }
}
