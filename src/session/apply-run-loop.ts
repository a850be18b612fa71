/**
 * How the run loop's records change a session's state: what `apply.ts` calls for them. Pure but linear, as `apply`. The
 * events are told by the fold itself, so that live and replayed sessions cannot differ.
 */
import { APPROVALS_REMEMBERED_MAX } from '../base/bounds.ts';
import type { EventBody } from '../events/event.ts';
import type { SessionRecord } from './records.ts';
import type { Suspension } from './run-loop-state.ts';
import type { OpenCall, SessionState } from './state.ts';

type RecordOf<T extends SessionRecord['type']> = Extract<SessionRecord, { type: T }>;

/** Counts a durable event and tells it. */
export type Telling = (body: EventBody) => void;

/** Holds an answer at its boundary. `firstSeq`: of the answer's first message. */
export function holdAnswer(state: SessionState, record: RecordOf<'responded'>, firstSeq: number): void {
  const { halfStep, then, stop, calls } = record;
  state.current = undefined;
  state.held = { at: 'answer', halfStep, firstSeq, next: then, stop, calls };
}

/** Holds the results just promoted at their boundary. */
export function holdResults(state: SessionState, firstSeq: number): void {
  const halfStep = state.nextHalfStep - 1;
  state.held = { at: 'results', halfStep, firstSeq, next: 'tools', stop: '', calls: [] };
}

/** The suspended run goes on: what it left open is held once more, until it is known which of it needs a person. */
export function holdPending(state: SessionState, suspended: Suspension): void {
  const refused = suspended.refused ?? {};
  const calls = [...state.openCalls.keys()].map((id) => {
    const why = Object.hasOwn(refused, id) ? refused[id] : undefined;
    return why === undefined ? { id } : { id, refused: why };
  });
  const halfStep = state.nextHalfStep - 1;
  state.held = { at: 'resume', halfStep, firstSeq: state.nextMessageSeq, next: 'tools', stop: '', calls };
}

/** The calls of a held answer start, but for those that wait for a person. */
export function startHeldCalls(state: SessionState, record: RecordOf<'proceeded'>, tell: Telling): void {
  const calls = state.held?.calls ?? [];
  state.held = undefined;
  const waiting = record.approve ?? [];
  for (const { id, refused } of calls) {
    const call = state.openCalls.get(id);
    if (call === undefined || refused !== undefined || waiting.includes(id)) continue;
    tell({ type: 'tool.started', toolUseId: id, toolName: call.name });
  }
  if (waiting.length === 0) return;
  state.approvals = { waiting, decided: state.approvals?.decided ?? [] };
  for (const id of waiting) {
    const call = state.openCalls.get(id);
    if (call === undefined) throw new Error(`S4: call ${id} waits for a person and is not open`);
    tell({ type: 'approval.required', toolUseId: id, toolName: call.name, input: call.input });
  }
  tell({ type: 'session.state', state: 'executing', phase: 'approval' });
}

/** What a run leaves behind when it is suspended. */
export function suspensionOf(state: SessionState, record: RecordOf<'suspended'>): Suspension {
  const refused: Record<string, string> = {};
  for (const call of state.held?.calls ?? []) if (call.refused !== undefined) refused[call.id] = call.refused;
  return {
    reason: record.reason,
    ...(record.detail === undefined ? {} : { detail: record.detail }),
    ...(Object.keys(refused).length === 0 ? {} : { refused }),
  };
}

/** A person decided a call. A denied one is answered by the record that follows. */
export function decideCall(state: SessionState, record: RecordOf<'decided'>, tell: Telling): void {
  const { callId, allow } = record;
  const { waiting = [], decided = [] } = state.approvals ?? {};
  const call = state.openCalls.get(callId);
  if (call === undefined || !waiting.includes(callId)) throw new Error(`call ${callId} does not wait for a person`);
  const left = waiting.filter((id) => id !== callId);
  state.approvals = { waiting: left, decided: [...decided, { id: callId, allow }].slice(-APPROVALS_REMEMBERED_MAX) };
  if (allow) {
    if (record.input !== undefined) state.openCalls.set(callId, { ...call, input: record.input } satisfies OpenCall);
    tell({ type: 'tool.started', toolUseId: callId, toolName: call.name });
  }
  if (left.length === 0) tell({ type: 'session.state', state: 'executing' });
}

/** The turn is over: nothing is held, and nobody is asked any more. */
export function endRunLoop(state: SessionState): void {
  state.held = undefined;
  const { approvals } = state;
  if (approvals !== undefined && approvals.waiting.length > 0) state.approvals = { ...approvals, waiting: [] };
}
