/** Accepts messages into the mailbox, within its bounds, once for each key, and by their delivery policies. Pure. */
import { ContentError, KeyReusedError, LimitError, SessionBusyError, type TroupeError } from '../../base/errors.ts';
import { imagesProblem } from '../rules/images.ts';
import { checkEntry, hasActive, mailboxRefusal } from '../rules/mailbox.ts';
import { type Decision, refuse, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { MailboxEntry } from '../state/messages.ts';
import type { Entry, SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { denyForInput } from './approval.ts';
import { withPreparationGivenUp } from './enrichment.ts';
import { interruptRecords } from './interrupt.ts';
import { decideReplacing } from './replace.ts';

/**
 * Accepts a message. The table shows what each delivery policy does on arrival, in an idle and in a busy session. A
 * session is busy if it is not idle, or if an active entry waits. `selectEntries` applies the policies when a half-step
 * selects entries.
 *
 * | policy | idle | busy |
 * | --- | --- | --- |
 * | ride | starts a turn | waits; the oldest waiting entry joins the next half-step, one per half-step |
 * | steer | starts a turn | waits; all `steer` entries join the next half-step together, before a `ride` entry |
 * | turn | starts a turn | waits until idle, then has a separate turn |
 * | interrupt | starts a turn | cancels work in flight, then has a separate turn before all waiting entries |
 * | merge | starts a turn | waits; all waiting `merge` entries become one message |
 * | latest | starts a turn | drops the waiting `latest` entries and waits in their place |
 * | reject | starts a turn | refused with `SessionBusyError` |
 */
export function decideSend(
  state: SessionState,
  input: Extract<Input, { type: 'send' }>,
  environment: Environment,
): Decision {
  const { entry } = input;
  const known = entry.key === undefined ? undefined : state.keys.get(entry.key);
  if (known !== undefined) {
    if (known.fingerprint !== (entry.fingerprint ?? '')) {
      return refuse(
        new KeyReusedError(`key ${JSON.stringify(entry.key)} was used with other content`, {
          data: { key: entry.key },
        }),
      );
    }
    return { records: [], effects: [{ type: 'accepted', pendingId: known.id, seq: known.seq, duplicate: true }] };
  }
  const { replaces } = input;
  if (replaces !== undefined) {
    const isRefused = (after: SessionState): TroupeError | undefined => refusalOf(after, input, environment);
    return decideReplacing(state, { ...input, replaces }, { environment, refusalOf: isRefused });
  }
  const refusal = refusalOf(state, input, environment);
  if (refusal !== undefined) return refuse(refusal);
  return accept(state, entry, environment);
}

function refusalOf(
  state: SessionState,
  input: Extract<Input, { type: 'send' }>,
  environment: Environment,
): TroupeError | undefined {
  const { limits } = environment;
  try {
    checkEntry(input.entry);
  } catch (error) {
    if (error instanceof ContentError) return error;
    throw error;
  }
  if (input.bytes > limits.messageBytes) {
    return new LimitError(`message of ${input.bytes} bytes is over limits.messageBytes (${limits.messageBytes})`, {
      data: { limit: 'messageBytes', value: input.bytes },
    });
  }
  const images = imagesProblem(state, input.entry.content, environment.agent.imagesMax);
  if (images !== undefined) {
    return new LimitError(images.text, { data: { limit: images.limit, value: images.value } });
  }
  const full = mailboxRefusal(state, input.bytes, environment);
  if (full !== undefined) return full;
  if (input.entry.deliver === 'reject' && isBusy(state)) {
    return new SessionBusyError(`session ${JSON.stringify(state.id)} is ${state.state}`, {
      data: { state: state.state },
    });
  }
  return undefined;
}

/** True if the session is not idle, or if an active entry waits: a message sent now would share the next half-step. */
function isBusy(state: SessionState): boolean {
  return state.state !== 'idle' || hasActive(state);
}

const INTERRUPTING = 'a message with deliver "interrupt" arrived';

/** Accepts an entry that was not refused, as its delivery policy says. */
export function accept(state: SessionState, entry: Entry, environment: Environment): Decision {
  const id = state.nextPendingId;
  const record: SessionRecord = { type: 'accepted', id, entry };
  const accepted: Effect = { type: 'accepted', pendingId: id, seq: 0, duplicate: false };
  const denied = entry.type === 'user_message' ? denyForInput(state, id + 1, environment) : [];
  if (entry.deliver === 'latest') return replace(state, [record, ...denied], accepted);
  if (entry.deliver === 'interrupt' && state.state !== 'idle') {
    const interrupted = interruptRecords(state, INTERRUPTING, id + 1, environment);
    return { records: [record, ...interrupted.records], effects: [...interrupted.effects, accepted, WAKE] };
  }
  const decision = { records: [record, ...denied], effects: [accepted, WAKE] };
  // The entry whose turn is being prepared waits again, behind this entry.
  const isOvertaken = entry.deliver === 'interrupt' && state.enrichment !== undefined;
  return isOvertaken ? withPreparationGivenUp(state, decision) : decision;
}

/**
 * A `latest` entry replaces the waiting `latest` entries. If a turn was being prepared for one of them, the preparation
 * is given up.
 */
function replace(state: SessionState, records: readonly SessionRecord[], accepted: Effect): Decision {
  const dropped = replacedBy(state);
  const decision = { records: [...dropped, ...records], effects: [accepted, WAKE] };
  const entry = state.enrichment?.entry;
  const isGone = entry !== undefined && dropped.some((each) => each.type === 'dropped' && each.id === entry);
  return isGone ? withPreparationGivenUp(state, decision) : decision;
}

/** The entries that a `latest` entry replaces. */
function replacedBy(state: SessionState): readonly SessionRecord[] {
  const records: SessionRecord[] = [];
  for (const waiting of state.mailbox) {
    if (isReplaceable(waiting)) records.push({ type: 'dropped', id: waiting.id, reason: 'replaced' });
  }
  return records;
}

function isReplaceable(entry: MailboxEntry): boolean {
  return entry.type === 'user_message' && entry.deliver === 'latest';
}
