/**
 * Sends a dead letter again, or drops a dead letter (S9). `rules/promotion.ts` says which entries become dead letters.
 * Pure.
 */
import { ContentError, InvalidArgumentError } from '../../base/errors.ts';
import { checkEntry, mailboxRefusal } from '../rules/mailbox.ts';
import { promotionError } from '../rules/promotion.ts';
import { contentOf } from '../rules/waiting-content.ts';
import { type Decision, refuse } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { DeadLetterEntry } from '../state/letters.ts';
import type { Content, MailboxEntry } from '../state/messages.ts';
import type { Entry } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { accept } from './send.ts';

/**
 * Sends a dead letter again, as a new entry with the letter's content. Without `as`, a letter that still cannot be
 * promoted is refused, because it would only be set aside again. For a letter that was sent again before, the reply
 * names the entry that the letter became.
 */
export function decideResendLetter(
  state: SessionState,
  { letter: id, as }: Extract<Input, { type: 'resendLetter' }>,
  environment: Environment,
): Decision {
  const resent = state.resentLetters?.find(({ letter }) => letter === id);
  if (resent !== undefined) {
    const { pendingId, seq } = resent;
    return { records: [], effects: [{ type: 'accepted', pendingId, seq, duplicate: true }] };
  }
  const letter = state.deadLetters.find(({ entry }) => entry.id === id);
  if (letter === undefined) {
    return refuse(
      new InvalidArgumentError('letter_not_found', `the session has no dead letter ${id}`, { data: { id } }),
    );
  }
  const problem = as === 'user' ? undefined : ownFormProblem(letter.entry);
  if (problem !== undefined) {
    return refuse(
      new ContentError(`dead letter ${id} ${problem}; it can be sent as a user's message`, { data: { letter: id } }),
    );
  }
  const entry = entryOf(letter, as, contentOf(letter.entry, environment.readContent));
  try {
    checkEntry(entry);
  } catch (cause) {
    if (cause instanceof ContentError) return refuse(cause);
    throw cause;
  }
  const full = mailboxRefusal(state, letter.entry.bytes, environment);
  return full === undefined ? accept(state, entry, environment) : refuse(full);
}

/** Why a letter cannot be sent in its own form; undefined if it can. */
function ownFormProblem(entry: MailboxEntry): string | undefined {
  // The call was closed when its result was accepted, so a second result would have no call.
  if (entry.type === 'tool_response') return 'is the result of a call that is closed';
  const error = promotionError(entry);
  return error === undefined ? undefined : `still cannot be promoted (${error.message})`;
}

/** The new entry. It has no delivery options, because the sender chose them for another moment. */
function entryOf({ entry }: DeadLetterEntry, as: 'user' | undefined, content: Content): Entry {
  if (as === 'user') return { type: 'user_message', content, letter: entry.id };
  const { type, source } = entry;
  return { type, content, source, letter: entry.id };
}

/** Drops a dead letter. The result is false if there is no such letter, because it was dropped or sent again. */
export function decideDropLetter(state: SessionState, id: number): Decision {
  const isThere = state.deadLetters.some(({ entry }) => entry.id === id);
  return {
    records: isThere ? [{ type: 'letterDropped', id }] : [],
    effects: [{ type: 'result', value: isThere }],
  };
}
