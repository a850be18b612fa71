/** The calls of a session that wait for a person, as a queue over all sessions shows them. Pure. */
import { defined } from '../../base/defined.ts';
import type { SessionState } from '../state/state.ts';
import { approvalsExpireAt } from './run-loop.ts';

/** A tool call that waits for a person. */
export interface WaitingCall {
  readonly session: string;
  /** The session at the top of the tree, if the call is of a sub-agent. */
  readonly root?: string;
  readonly agent: string;
  readonly callId: string;
  readonly toolName: string;
  /** The question to the person. `approval`: whether the call may run. */
  readonly kind: 'approval';
  /** The input of the model. */
  readonly input: unknown;
  /** Epoch ms at which the call began to wait. */
  readonly at: number;
  /** Epoch ms at which the call is denied without a decision; missing: it waits forever. */
  readonly expiresAt?: number;
}

/** A waiting call, and the seq of its message. */
export interface NumberedWait {
  readonly seq: number;
  readonly call: WaitingCall;
}

/** True if a call of the session waits for a person. */
export function isPersonAwaited({ approvals }: SessionState): boolean {
  return approvals !== undefined && approvals.waiting.length > 0;
}

/** The waiting calls of a session, in call order. `expiresMs`: `settings.approvals.expiresMs`. */
export function waitingCalls(state: SessionState, expiresMs: number | null): readonly NumberedWait[] {
  const { id, approvals } = state;
  if (approvals === undefined) return [];
  const root = rootIdOf(state);
  const expiresAt = approvalsExpireAt(state, expiresMs);
  return approvals.waiting.flatMap((callId) => {
    const open = state.openCalls.get(callId);
    if (open === undefined) return [];
    const call: WaitingCall = {
      session: id,
      ...defined({ root }),
      agent: state.agent ?? '',
      callId,
      toolName: open.name,
      kind: 'approval',
      input: open.input,
      at: approvals.since ?? state.updatedAt,
      ...defined({ expiresAt }),
    };
    return [{ seq: open.seq, call }];
  });
}

/** The session at the top of a sub-agent's tree; undefined for other sessions. Each level of a tree adds a part to the id. */
export function rootIdOf({ id, parent, depth }: SessionState): string | undefined {
  if (parent === undefined) return undefined;
  const parts = id.split(':');
  return parts.slice(0, Math.max(1, parts.length - depth)).join(':');
}
