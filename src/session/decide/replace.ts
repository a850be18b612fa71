/**
 * A message that replaces an earlier one, because the user edited it or wants another answer. The earlier message and
 * everything after it leave the history, and the new message is accepted. Both happen in one transition, so a crash
 * cannot separate them. Pure.
 *
 * If the earlier message still waits, it is recalled, and nothing is interrupted. Otherwise the session is interrupted
 * first, because the answer in flight belongs to a message that leaves. Every reason to refuse the new message is
 * checked before anything is removed.
 */
import { InvalidArgumentError, TroupeError } from '../../base/errors.ts';
import { planEdit } from '../history/edit-plan.ts';
import { messageId } from '../history/history-form.ts';
import { waitsToBegin } from '../rules/mailbox.ts';
import { type Decision, refuse, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input, ReplacedMessage } from '../state/inputs.ts';
import { type MailboxEntry, messageKey } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { decideEdit } from './edit.ts';
import { decideInterrupt, decideRecall } from './interrupt.ts';

type Send = Extract<Input, { type: 'send' }>;

const REASON = 'the message that it answers was replaced';

/**
 * Replaces an earlier message (see the head of the file). `refusalOf`: why the session in a given state cannot accept
 * the new message, or undefined.
 */
export function decideReplacing(
  state: SessionState,
  input: Send & { readonly replaces: ReplacedMessage },
  parts: {
    readonly environment: Environment;
    readonly refusalOf: (after: SessionState) => TroupeError | undefined;
  },
): Decision {
  const { environment, refusalOf } = parts;
  const { type, entry, bytes, replaces, hasInterrupted } = input;
  const send: Effect = { type: 'again', input: { type, entry, bytes } };
  const waiting = waitingEntry(state, replaces);
  if (waiting !== undefined) {
    const refusal = refusalOf(withoutEntry(state, waiting));
    if (refusal !== undefined) return refuse(refusal);
    return followedBy(decideRecall(state, waiting.id), send);
  }
  const id = idOf(state, replaces);
  if (id === undefined) return refuse(notFound(replaces));
  const request = { operation: 'rollbackBefore', id } as const;
  if (hasInterrupted === true) {
    const edited = decideEdit(state, { type: 'edit', request }, environment);
    return edited.effects.some((effect) => effect.type === 'refused') ? edited : followedBy(edited, send);
  }
  try {
    const removed = new Set(planEdit(state, request, environment).record?.removed);
    const messages = state.messages.filter(({ seq }) => !removed.has(seq));
    const refusal = refusalOf({ ...state, messages });
    if (refusal !== undefined) return refuse(refusal);
  } catch (error) {
    if (error instanceof TroupeError) return refuse(error);
    throw error;
  }
  const next: Effect = { type: 'again', input: { ...input, hasInterrupted: true } };
  // A child that waits to begin has no work to interrupt. An interrupt would only cancel its waiting entries.
  if (waitsToBegin(state)) return { records: [], effects: [next] };
  return followedBy(decideInterrupt(state, REASON, environment), next);
}

/** The waiting entry of the earlier message; undefined if the message is not in the mailbox. */
function waitingEntry({ mailbox }: SessionState, replaces: ReplacedMessage): MailboxEntry | undefined {
  if (!('key' in replaces)) return undefined;
  return mailbox.find(({ type, seed, key }) => type === 'user_message' && seed === undefined && key === replaces.key);
}

/** The history id of the earlier message; undefined if the conversation does not have the message now. */
function idOf({ messages }: SessionState, replaces: ReplacedMessage): string | undefined {
  const found = messages.findLast(
    (message) =>
      message.type === 'user_message' &&
      ('id' in replaces ? messageId(message) === replaces.id : messageKey(message) === replaces.key),
  );
  return found === undefined ? undefined : messageId(found);
}

function withoutEntry(state: SessionState, gone: MailboxEntry): SessionState {
  const mailbox = state.mailbox.filter(({ id }) => id !== gone.id);
  return { ...state, mailbox, mailboxBytes: state.mailboxBytes - gone.bytes };
}

/**
 * A decision that is followed by another input. The decision's own `result` is dropped, because no request waits for
 * it. Its wake-up is dropped too, so that no half-step is claimed before the next input.
 */
function followedBy({ records, effects }: Decision, next: Effect): Decision {
  const kept = effects.filter((effect) => effect.type !== 'result' && effect !== WAKE);
  return { records, effects: [...kept, next] };
}

function notFound(replaces: ReplacedMessage): InvalidArgumentError {
  const [name, value] = 'key' in replaces ? ['key', replaces.key] : ['id', replaces.id];
  return new InvalidArgumentError(
    'message_not_found',
    `the conversation has no message with the ${name} ${JSON.stringify(value)} to replace: send it without \`replaces\``,
    { data: { [name]: value } },
  );
}
