/** The head of a session in the journal: a summary for lists, and the address of a snapshot of its state. */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import {
  SESSION_STATES,
  SESSION_STATUSES,
  type SessionStateName,
  type SessionStatus,
  TURN_OUTCOMES,
} from '../../events/event.ts';
import { statusOf } from '../../session/rules/status.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { SessionSummary } from '../protocol/protocol.ts';

/** A stored state: the address of its text, and the position of the last transition in it. */
export interface SnapshotReference {
  readonly address: string;
  readonly position: number;
}

/** The contents of a session's head. */
export interface HeadData {
  readonly summary: SessionSummary;
  readonly snapshot?: SnapshotReference;
  /** Address of a fork's beginning, once the beginning is stored apart from the shared log. */
  readonly base?: string;
  /** The version of its agent that the session needs; missing: it can run with any version. */
  readonly needs?: string;
  /** Epoch ms at which the first of the stored archived messages left the window; missing: there are none. */
  readonly departed?: number;
  /** True if the session is blocked for a reason in its log. `runtime.resume()` looks for these sessions. */
  readonly blocked?: true;
}

/** Version of the text form. */
const HEAD_FORMAT = 1;

const schema = z.object({
  v: z.literal(HEAD_FORMAT),
  summary: z.object({
    id: z.string(),
    agent: z.string(),
    version: z.string().optional(),
    parent: z.string().optional(),
    name: z.string().optional(),
    state: z.enum(SESSION_STATES),
    // A head of an earlier version may lack the optional members.
    status: z.enum(SESSION_STATUSES).optional(),
    lastOutcome: z.enum(TURN_OUTCOMES).optional(),
    lastError: z
      .object({ name: z.string(), code: z.string(), message: z.string(), retryable: z.boolean().optional() })
      .optional(),
    mailbox: z.number(),
    deadLetters: z.number().optional(),
    messageCount: z.number().optional(),
    createdAt: z.number().optional(),
    updatedAt: z.number(),
  }),
  snapshot: z.object({ address: z.string(), position: z.number() }).optional(),
  base: z.string().optional(),
  needs: z.string().optional(),
  departed: z.number().optional(),
  blocked: z.literal(true).optional(),
});

export function encodeHead(head: HeadData): string {
  return JSON.stringify({ v: HEAD_FORMAT, ...head });
}

/** Throws `StoreCorruptError` for a text that is not a head. */
export function decodeHead(text: string): HeadData {
  try {
    const { summary, ...rest } = schema.parse(JSON.parse(text));
    const { status = earlierStatus(summary.state, rest.blocked) } = summary;
    return { ...rest, summary: { ...summary, status } } as HeadData;
  } catch (error) {
    throw new StoreCorruptError('a session head cannot be read', { cause: error });
  }
}

/** The status for a head of an earlier version. Such a head has no status. */
function earlierStatus(state: SessionStateName, blocked: true | undefined): SessionStatus {
  if (blocked === true) return 'blocked';
  return state === 'idle' ? 'idle' : 'running';
}

/** The text of a head in which each address of a snapshot or a beginning is replaced. Throws like `decodeHead`. */
export function movedHead(text: string, moved: (address: string) => string): string {
  const { snapshot, base, ...head } = decodeHead(text);
  return encodeHead({
    ...head,
    ...(snapshot === undefined ? {} : { snapshot: { ...snapshot, address: moved(snapshot.address) } }),
    ...(base === undefined ? {} : { base: moved(base) }),
  });
}

/** True for the head of a session that is blocked for a reason in its log. */
export function isHeadBlocked(text: string): boolean {
  return decodeHead(text).blocked === true;
}

/** The summary of a state, as lists show it. */
export function summaryOf(state: SessionState): SessionSummary {
  const { id, agent = '', version, parent, name, last, spoken, createdAt, updatedAt } = state;
  return {
    id,
    agent,
    ...defined({ version, parent, name }),
    state: state.state,
    status: statusOf(state),
    ...defined({ lastOutcome: last?.outcome, lastError: last?.error }),
    mailbox: state.mailbox.length,
    ...(state.deadLetters.length === 0 ? {} : { deadLetters: state.deadLetters.length }),
    ...defined({ messageCount: spoken }),
    createdAt,
    updatedAt,
  };
}
