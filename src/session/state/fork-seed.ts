/** The state in which a fork begins, as plain data. `history/fork-seed.ts` makes it. */
import type { Memory } from './memory.ts';
import type { LoggedMessage } from './messages.ts';
import type { SessionState } from './state.ts';
import type { PlainTasks } from './tasks.ts';

/** Members of a state that a fork copies unchanged. */
export const SAME = [
  'agent',
  'version',
  'depth',
  'prompt',
  'grants',
  'floor',
  'hiddenFloor',
  'epoch',
  'fingerprint',
  'traits',
  'fallback',
  'isReturning',
  'system',
  'thoughtFloor',
  'nextMessageSeq',
  'nextPendingId',
  'nextTurn',
  'nextHalfStep',
] as const;

/**
 * The state in which a fork begins. The seed shares its messages with the parent's state, because messages never
 * change.
 */
export interface ForkSeed extends Readonly<Pick<SessionState, (typeof SAME)[number]>> {
  readonly sealedSeq: number;
  /** Ids of calls of the provider's own tools in the last answer that have no result; missing: there are none. */
  readonly awaitedUses?: readonly string[];
  readonly messages: readonly LoggedMessage[];
  readonly hidden: readonly LoggedMessage[];
  readonly goal?: { readonly description: string; readonly completed: boolean };
  /** The parent's memory of messages that left the parent's window before the fork. */
  readonly memory?: Memory;
  readonly tasks: PlainTasks;
  readonly compactions: readonly (readonly [number, { readonly task: number | undefined; readonly at?: number }])[];
}
