/** Fixed texts that a model receives in place of a result. Pure. */
import { NEAREST_NAMES_MAX } from '../../base/bounds.ts';
import { nearestNames } from '../../base/near-names.ts';

const SECOND_MS = 1_000;

/** The result of a call that was cancelled by an interrupt. Exported, because a program may search for it. */
export const INTERRUPT_NOTICE = 'Interrupted: your human wants your attention. This call was cancelled.';

/**
 * Adds to a notice, such as `INTERRUPT_NOTICE`, that the outcome of the cancelled call is unknown. Used for a call of a
 * tool with effects (`once`, `keyed`, `probe`) that had started and had not returned: its effect may have happened.
 */
export function outcomeUnknown(notice: string): string {
  return `${notice} Outcome unknown: the call had started, and may or may not have taken effect; it was not run again.`;
}

/** The result of a call that may or may not have taken effect before a crash (effect `once`). */
export const OUTCOME_UNKNOWN =
  'Outcome unknown: the execution was lost in a restart. The call may or may not have taken effect; it was not run again.';

/** The result of a call whose own result was lost: its deadline has passed and no pool holds it. */
export function lostResultText(toolName: string, timeoutMs: number): string {
  const seconds = timeoutMs / SECOND_MS;
  return `The call of ${toolName} timed out after ${seconds} seconds without a result. It may have taken effect.`;
}

/** The text sent as the result of a call whose result is missing after a crash, an edit or an import. */
export const MISSING_RESULT = '{"error":"Tool result missing (interrupted)"}';

/** The result of a call that a person did not allow. */
export function deniedText(reason: string | undefined): string {
  const why = reason === undefined || reason.trim() === '' ? '.' : `: ${reason}`;
  return `Denied: your human did not allow this call${why}`;
}

/**
 * The reason for denying a call that waited for a person when a user's message came
 * (`settings.approvals.onInput: 'deny'`).
 */
export const DENIED_FOR_INPUT = 'they sent a message instead of deciding.';

/** The reason for denying a call that no person decided in time. */
export function expiredReason(expiresMs: number): string {
  return `nobody decided within ${Math.round(expiresMs / SECOND_MS)} seconds.`;
}

/** The result of a call that still waited when a person denied another call of the same answer. */
export const APPROVAL_SKIPPED = 'Denied: not executed, as your human denied another call of this answer.';

/** The result of a question that will not be answered. `why`: the reason, as a sentence without its full stop. */
export function unansweredText(why: string): string {
  return `Not answered: ${why}.`;
}

/** Reasons why a question has no answer, for `unansweredText`. */
export const UNANSWERED = {
  input: 'your human sent a message instead of answering',
  denied: 'your human denied another call of this answer',
  parentEnded: 'the agent that gave you your task has ended or begun again, so decide it yourself',
  noParent: 'there is no agent that gave you a task, so decide it yourself',
} as const;

/** The reason that `unansweredText` gives if a person declined to answer. */
export function declinedWhy(reason: string | undefined): string {
  return `your human declined to answer${reason === undefined || reason.trim() === '' ? '' : `: ${reason}`}`;
}

/** The reason that `unansweredText` gives if no answer came in time. */
export function expiredWhy(expiresMs: number): string {
  return `no answer came within ${Math.round(expiresMs / SECOND_MS)} seconds`;
}

/** Replaces a blank result. A mailbox entry must have content, and without the entry the round never closes (Δ19). */
export const BLANK_RESULT = '(no output)';

/** The answer to a call of a tool that does not exist or is not granted, with the nearest names (F28). */
export function unknownToolText(name: string, known: readonly string[]): string {
  const nearest = nearestNames(name, known, NEAREST_NAMES_MAX);
  return nearest.length === 0 ? `Unknown tool: ${name}` : `Unknown tool: ${name}. Nearest tools: ${nearest.join(', ')}`;
}
