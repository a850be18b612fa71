/** What a fork begins with, as plain data. How it is made is in `history/fork-seed.ts`. */
import type { Memory } from './memory.ts';
import type { LoggedMessage } from './messages.ts';
import type { SessionState } from './state.ts';
import type { PlainTasks } from './tasks.ts';

/** Members of a state that a fork takes over as they are. */
export const SAME = [
  'agent',
  'depth',
  'prompt',
  'grants',
  'floor',
  'hiddenFloor',
  'epoch',
  'fingerprint',
  'system',
  'thoughtFloor',
  'nextMessageSeq',
  'nextPendingId',
  'nextTurn',
  'nextHalfStep',
] as const;

/** A beginning of a session, as plain data. Shares its messages with the state it was taken from: they do not change. */
export interface ForkSeed extends Readonly<Pick<SessionState, (typeof SAME)[number]>> {
  readonly sealedSeq: number;
  readonly messages: readonly LoggedMessage[];
  readonly hidden: readonly LoggedMessage[];
  readonly goal?: { readonly description: string; readonly completed: boolean };
  /** What the parent remembers of what left its window before. */
  readonly memory?: Memory;
  readonly tasks: PlainTasks;
  readonly compactions: readonly (readonly [number, { readonly task: number | undefined }])[];
}
