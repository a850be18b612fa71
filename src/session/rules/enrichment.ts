/** The enricher's run that a session waits for. Pure. */
import type { SessionState } from '../state/state.ts';

/** The session waits for the run with this number. */
export function isEnricherDue(state: SessionState, run: number): boolean {
  const summary = state.memory?.summarising;
  return state.enrichment?.run === run || (summary?.run === run && summary.ended === undefined);
}
