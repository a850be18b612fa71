/** Which sessions a list of a directory has. A server filters its list itself. Pure. */
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';

/** See the head of the file. A missing member lets every session pass. */
export interface SessionFilter {
  readonly state?: string | undefined;
  /** One of these. */
  readonly status?: readonly string[] | undefined;
  readonly outcome?: string | undefined;
  readonly agent?: string | undefined;
  /** Only children of this session; empty: only sessions without a parent. */
  readonly parent?: string | undefined;
  /** Only sessions that changed after this time, in epoch ms. */
  readonly since?: number | undefined;
}

/** True if a list with this filter has the session. */
export function passes(session: SessionSummary, filter: SessionFilter): boolean {
  const { state, status, outcome, agent, parent, since } = filter;
  return (
    (state === undefined || session.state === state) &&
    (status === undefined || status.includes(session.status)) &&
    (outcome === undefined || session.lastOutcome === outcome) &&
    (agent === undefined || session.agent === agent) &&
    (parent === undefined || (session.parent ?? '') === parent) &&
    (since === undefined || session.updatedAt > since)
  );
}
