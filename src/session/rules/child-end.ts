/**
 * Whether a sub-agent has ended, and whether there is a place for one that is to work. It may end more than once: it can
 * work again. Pure.
 */
import type { Exit } from '../state/child-link.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import { mayBegin, mayStart } from './mailbox.ts';

/** True for a child that has ended and does not work again. */
export function hasEnded({ exit, revived }: Pick<SessionState, 'exit' | 'revived'>): boolean {
  return exit !== undefined && revived === undefined;
}

/**
 * How a child ended, for its spawner. Undefined while it works: for the first time, or again after a task that it did
 * not complete. The end of a completed child stands, whatever it is asked later.
 */
export function endOfChild({ exit, revived }: Pick<SessionState, 'exit' | 'revived'>): Exit | undefined {
  return revived === undefined || exit?.reason === 'completed' ? exit : undefined;
}

/** True if a child must wait for a place: as many as may be are at work, or others wait before it. */
export function mustQueue({ childrenAtWork, childQueue }: SessionState, { agent }: Environment): boolean {
  return childrenAtWork >= agent.maxActiveChildren || childQueue.size > 0;
}

/** True for a child that is to work and has not begun: it waits for a place, or to be admitted. */
export function waitsToBegin(state: SessionState): boolean {
  if (state.parent === undefined || hasEnded(state) || state.state !== 'idle') return false;
  return state.queued || (state.restartAt === undefined && mayStart(state) && mayBegin(state));
}
