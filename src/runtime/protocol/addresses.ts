/** The names that requests use for a session and for an accepted message. Plain data. */
import type { SessionKey } from '../../journal/position.ts';

/** The session that a request is for. */
export interface OfSession {
  readonly session: string;
  /**
   * The agent for a session that does not exist yet. Missing: the session must exist. Empty: the request names no agent
   * although several are defined, so no session is created.
   */
  readonly agent?: string;
  /** True if the embedder named the agent. Then an existing session must have this agent. */
  readonly isNamed?: true;
}

/** An accepted message of one incarnation of a session. */
export interface ReceiptName {
  readonly pendingId: number;
  /** The journal's key of the session. It survives restarts and is never reused. */
  readonly incarnation: SessionKey;
}
