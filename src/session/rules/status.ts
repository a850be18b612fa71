/** The status of a session in one word, for lists and for people. Pure. */
import type { SessionStatus } from '../../events/event.ts';
import type { SessionState } from '../state/state.ts';
import { isSummarising } from './memory.ts';
import { waitsForApprovalOnly } from './run-loop.ts';

/** The status of a state: the first value of `SESSION_STATUSES` that applies. */
export function statusOf(state: SessionState): SessionStatus {
  if (state.blocked !== undefined) return 'blocked';
  if (waitsForApprovalOnly(state)) return 'waiting';
  if (isAtWork(state)) return 'running';
  if (state.suspended !== undefined) return 'suspended';
  if (state.paused) return 'paused';
  if (state.queued) return 'queued';
  return state.last?.outcome === 'failed' || state.exit?.reason === 'failed' ? 'failed' : 'idle';
}

function isAtWork({ state, restartAt, enrichment, memory }: SessionState): boolean {
  return state !== 'idle' || restartAt !== undefined || enrichment !== undefined || isSummarising(memory);
}
