/**
 * The calls of a session that wait for a person, in the form of the queue of all sessions (`runtime.waiting`). Pure.
 */
import { defined } from '../../base/defined.ts';
import type { SessionState } from '../state/state.ts';
import { type WaitingCall, waitingCallNamed, waitingCalls } from './waiting-calls.ts';

/** A tool call that waits for a person, with its session. */
export interface QueuedCall extends WaitingCall {
  readonly session: string;
  /** The session at the top of the tree, if a sub-agent made the call. */
  readonly root?: string;
  readonly agent: string;
  /** Epoch ms at which the call ends without a decision; missing: it waits forever. */
  readonly expiresAt?: number;
}

/** A queued call, with the seq of its message. */
export interface NumberedWait {
  readonly seq: number;
  readonly call: QueuedCall;
}

/**
 * True if a call of the session waits for a person. A question to the parent does not count, although a person may
 * answer it.
 */
export function isPersonAwaited(state: SessionState): boolean {
  return state.approvals !== undefined && state.approvals.waiting.length > 0 && waitingCalls(state).some(isForPerson);
}

/** The calls of a session that wait for a person, in call order. `expiresMs`: how long calls of its agent may wait. */
export function queuedCalls(state: SessionState, expiresMs: number | null): readonly NumberedWait[] {
  const root = rootIdOf(state);
  return waitingCalls(state)
    .filter(isForPerson)
    .flatMap((wait): readonly NumberedWait[] => {
      const open = waitingCallNamed(state, wait.callId);
      if (open === undefined) return [];
      const expiresAt = expiresMs === null ? undefined : wait.at + expiresMs;
      const call = { session: state.id, ...defined({ root }), agent: state.agent ?? '', ...wait };
      return [{ seq: open.seq, call: { ...call, ...defined({ expiresAt }) } }];
    });
}

function isForPerson({ asked }: WaitingCall): boolean {
  return asked !== 'parent';
}

/** The session at the top of a sub-agent's tree; undefined for other sessions. Each level of a tree adds an id part. */
export function rootIdOf({ id, parent, depth }: SessionState): string | undefined {
  if (parent === undefined) return undefined;
  const parts = id.split(':');
  return parts.slice(0, Math.max(1, parts.length - depth)).join(':');
}
