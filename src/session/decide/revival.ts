/**
 * Revives children. A child that has ended works again if a message reaches it, its suspended run resumes, or its
 * spawner continues its task. The child first takes a place among its parent's working children, as a new child does.
 * Later the child ends again. A `completed` end stays; any other end is replaced by the new one. Pure.
 */
import { CONTINUE_TASK } from '../rules/child-texts.ts';
import { hasActive, mayBegin } from '../rules/mailbox.ts';
import { hasEnded, isOpenChild, mustQueue } from '../state/child-link.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';

/** The gate of a claim: an ended child that could begin a turn waits for a place. Undefined for any other session. */
export function reviveEnded(state: SessionState, environment: Environment): Decision | undefined {
  if (state.state !== 'idle' || !needsPlace(state, environment) || !mayBegin(state)) return undefined;
  return { records: [{ type: 'revived' }], effects: [asksForPlace(state)] };
}

/** True for an ended child, because it has given up its place. A child whose parent was deleted needs no place. */
export function needsPlace(state: SessionState, environment: Environment): boolean {
  return state.parent !== undefined && hasEnded(state) && environment.exists(state.parent);
}

/** Asks the parent for a place, in the same batch. */
export function asksForPlace({ id }: SessionState): Effect {
  return { type: 'sendToParent', input: { type: 'childRevived', child: id } };
}

/** Gives the child a place at once, or queues it behind the children that wait already. Runs in the parent. */
export function decideChildRevived(state: SessionState, id: string, environment: Environment): Decision {
  const child = state.children.get(id);
  const start: Effect = { type: 'sendToChild', child: id, input: { type: 'start' } };
  if (child === undefined || isOpenChild(child)) return { records: [], effects: [start] };
  // `limits.spawnsWaiting` is not checked: the child's message is accepted already, and `limits.children` bounds the
  // queue.
  if (mustQueue(state, environment.agent.maxActiveChildren)) {
    return { records: [{ type: 'childRevived', child: id, queued: true }], effects: [] };
  }
  return { records: [{ type: 'childRevived', child: id }], effects: [start] };
}

/**
 * A cancelled or failed child continues its task. Nothing happens to a child that works, has completed, or has a
 * message to work on already, so a repeated request changes nothing.
 */
export function decideContinue(state: SessionState): Decision {
  if (!hasEnded(state) || state.exit?.reason === 'completed' || hasActive(state)) return NOTHING;
  return {
    records: [{ type: 'accepted', id: state.nextPendingId, entry: { type: 'user_message', content: CONTINUE_TASK } }],
    effects: [WAKE],
  };
}
