/** Plans the change of one message in place, and the removal of results whose calls the message no longer has. Pure. */
import { InvalidArgumentError } from '../../base/errors.ts';
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import type { Json } from '../../base/json.ts';
import type { EditRequest } from '../state/edit-request.ts';
import type { EditDraft, EditPlan } from './edit-draft.ts';
import type { HistoryEntry } from './history-form.ts';
import { checkMessage } from './message-check.ts';
import { callsOf } from './repair.ts';

/** The fields that `update` may change, by role; any other field is ignored. */
const FIELDS: Readonly<Record<HistoryMessage['role'], ReadonlySet<string>>> = {
  system: new Set(['content']),
  user: new Set(['content', 'files']),
  assistant: new Set([
    ...['content', 'toolCalls', 'tokenUsage', 'structuredOutput', 'reasoning', 'reasoningContent'],
    ...['finishReason', 'finishReasonRaw'],
  ]),
  tool: new Set(['content', 'name', 'error', 'errorType']),
};
/** Fields whose content is also in the `blocks` of an answer. If such a field changes, the blocks are dropped. */
const SAID_BY_BLOCKS: ReadonlySet<string> = new Set(['content', 'toolCalls', 'reasoning']);

/** Plans an update. The request names a message, or the call of a result. Throws `InvalidArgumentError`. */
export function planUpdate(draft: EditDraft, request: Extract<EditRequest, { operation: 'update' }>): EditPlan {
  const target = targetOf(draft, request);
  const { message } = target;
  const changes = Object.entries(request.attributes).filter(([field]) => FIELDS[message.role].has(field));
  if (changes.length === 0) return { value: message };
  const { blocks, ...rest } = message as HistoryMessage & { readonly blocks?: Json };
  const isResaid = changes.some(([field]) => SAID_BY_BLOCKS.has(field));
  const next = {
    ...rest,
    ...(blocks === undefined || isResaid ? {} : { blocks }),
    ...Object.fromEntries(changes),
  } as unknown as HistoryDraft;
  const changed = replaceMessage(draft, target, next);
  return draft.plan('update', changed);
}

function targetOf(draft: EditDraft, { id, toolCallId }: Extract<EditRequest, { operation: 'update' }>): HistoryEntry {
  if (id === undefined && toolCallId === undefined) {
    throw new InvalidArgumentError('lookup_key_required', 'update needs an id or a toolCallId');
  }
  if (id !== undefined && toolCallId !== undefined) {
    throw new InvalidArgumentError(
      'lookup_key_ambiguous',
      `update takes an id or a toolCallId, got ${JSON.stringify(id)} and ${JSON.stringify(toolCallId)}`,
    );
  }
  const target = draft.entries.find(({ message }) =>
    id === undefined ? message.role === 'tool' && message.toolCallId === toolCallId : message.id === id,
  );
  if (target !== undefined) return target;
  const key = id === undefined ? 'toolCallId' : 'id';
  throw new InvalidArgumentError(
    'message_not_found',
    `there is no message with the ${key} ${JSON.stringify(id ?? toolCallId)}`,
    { data: { [key]: id ?? toolCallId } },
  );
}

/**
 * Replaces a message by another, and removes the results of calls that the new message does not have. The draft stays
 * as it is if both messages are equal. Returns the new message. Throws `InvalidArgumentError` or `ContentError` if the
 * new message cannot be stored.
 */
export function replaceMessage(draft: EditDraft, target: HistoryEntry, next: HistoryDraft): HistoryMessage {
  const { message } = target;
  const checked = { ...checkMessage(next), id: message.id } as HistoryMessage;
  const isSame = sameMessage(message, checked);
  if (isSame) return message;
  draft.update(target, checked);
  const kept = new Set(callsOf(checked).map((call) => call.callId));
  const dropped = callsOf(message).flatMap(({ callId }) => (kept.has(callId) ? [] : [callId]));
  draft.removeResults(new Set(dropped));
  return checked;
}

function sameMessage(a: HistoryMessage, b: HistoryMessage): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => JSON.stringify(a[key]) === JSON.stringify(b[key]));
}
