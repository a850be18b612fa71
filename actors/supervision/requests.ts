/**
 * Handles requests to a supervisor: to add and start a child, or to stop and remove a child. While the supervisor runs,
 * it serves requests. While it starts or stops children one by one (a walk), requests wait. When it ends, it refuses
 * them.
 */
import { SUPERVISOR_REQUESTS_MAX } from '../../src/base/bounds.ts';
import { rowOf, withoutRow } from './child-table.ts';
import type { Child, Refusal, SupervisorInput } from './state.ts';
import { type ChildSpec, type ChildSpecInput, childSpec } from './supervisor-options.ts';
import { type Draft, refuseStopping, report, startChild, stopChild } from './walk.ts';

type Request = Extract<SupervisorInput, { readonly type: 'addChild' | 'removeChild' }>;

/** Serves a request, or keeps it until the walk is over, or refuses it. */
export function handleRequest(draft: Draft, input: Request): void {
  const { name } = draft.phase;
  const id = input.type === 'addChild' ? input.spec.id : input.id;
  if (name === 'stopping' || name === 'stopped') return refuseStopping(draft, id);
  if (name !== 'running') return deferRequest(draft, input, id);
  if (input.type === 'addChild') addChild(draft, input.spec);
  else removeChild(draft, id);
}

function deferRequest(draft: Draft, input: Request, id: string): void {
  const waiting = draft.deferred.filter((each) => each.type === 'addChild' || each.type === 'removeChild').length;
  if (waiting < SUPERVISOR_REQUESTS_MAX) draft.deferred = [...draft.deferred, input];
  else refuse(draft, id, 'limit', `${waiting} requests wait already`);
}

function addChild(draft: Draft, input: ChildSpecInput): void {
  let spec: ChildSpec;
  try {
    spec = childSpec(input);
  } catch (error) {
    return refuse(draft, String(input.id), 'invalid', error instanceof Error ? error.message : String(error));
  }
  if (rowOf(draft.children, spec.id) !== undefined) {
    return refuse(draft, spec.id, 'duplicate', `there is a child ${JSON.stringify(spec.id)} already`);
  }
  const { childrenMax } = draft.options;
  if (draft.children.size >= childrenMax) return refuse(draft, spec.id, 'limit', `at most ${childrenMax} children`);
  const child = downChild(spec, draft.nextOrder);
  draft.nextOrder += 1;
  startChild(draft, child, undefined, true);
}

function removeChild(draft: Draft, id: string): void {
  const child = rowOf(draft.children, id);
  if (child === undefined) return refuse(draft, id, 'unknown', `there is no child ${JSON.stringify(id)}`);
  const { name } = child.status;
  if (name === 'stopping') return;
  if (name === 'running' || name === 'starting') return stopChild(draft, child, true);
  draft.children = withoutRow(draft.children, id);
  report(draft, 'removed', child, { kind: 'shutdown' });
}

function refuse(draft: Draft, id: string, refusal: Refusal, message: string): void {
  draft.actions.push({ type: 'refuse', id, refusal, message });
}

/** A child that has not run yet. `order`: its position in the order of start. */
export function downChild(spec: ChildSpec, order: number): Child {
  return { id: spec.id, order, spec, run: 0, faults: 0, status: { name: 'stopped' } };
}
