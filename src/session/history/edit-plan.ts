/**
 * Plans each operation on a history: which messages leave, change and are added. A plan is made from a request and a
 * state. Throws `InvalidArgumentError`, `LimitError` or `SessionBusyError`; then nothing has changed. Pure.
 */
import { EXTENSION_EVENT_BYTES_MAX, EXTENSION_EVENTS_MAX } from '../../base/bounds.ts';
import { InvalidArgumentError, SessionBusyError } from '../../base/errors.ts';
import type { HistoryDraft, HistoryMessage } from '../../base/history-message.ts';
import type { Json } from '../../base/json.ts';
import type { EditRequest } from '../state/edit-request.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import { expandResults } from './carried-results.ts';
import { EditDraft, type EditPlan, isTransient } from './edit-draft.ts';
import type { HistoryEntry } from './history-form.ts';
import { checkMessage } from './message-check.ts';
import { planUpdate, replaceMessage } from './plan-update.ts';
import { answeredIds, callsOf, INTERRUPTED_RESULT, interruptedResult, pruneOrphans } from './repair.ts';

/** Plans one operation on the history of this state. Throws as the head of the file says. */
export function planEdit(state: SessionState, request: EditRequest, environment: Environment): EditPlan {
  return planOn(draftOf(state, environment), request, environment);
}

/** A draft of this state's history. */
export function draftOf(state: SessionState, environment: Environment): EditDraft {
  return new EditDraft(state, {
    now: environment.now,
    messageBytesMax: environment.limits.messageBytes,
    transients: environment.transients,
  });
}

/** Plans an operation on a draft. The plan has all changes of the draft, also those of operations planned before. */
export function planOn(draft: EditDraft, request: EditRequest, environment: Environment): EditPlan {
  const { state } = draft;
  const { operation } = request;
  switch (operation) {
    case 'add':
    case 'append':
      return planAdd(draft, request);
    case 'set':
    case 'replaceAll':
    case 'seed':
      return planReplace(draft, request, environment.settings.repair.onSeed);
    case 'unset':
      draft.clear();
      return draft.plan(operation, undefined);
    case 'remove':
      return planRemove(draft, request.id);
    case 'update':
      return planUpdate(draft, request);
    case 'discardPendingToolCalls':
      return planDiscard(draft);
    case 'replaceSystemPrompt':
      return planSystemPrompt(draft, request);
    case 'popLast': {
      const last = draft.entries.at(-1);
      if (last !== undefined) draft.remove(last);
      return draft.plan(operation, last?.message ?? null);
    }
    case 'deleteWhere': {
      checkUnmoved(state, request.epoch);
      const ids = new Set(request.ids);
      removeAll(
        draft,
        draft.entries.filter((entry) => ids.has(entry.message.id)),
      );
      return draft.plan(operation, undefined);
    }
    case 'mutateLastMatching':
      return planMutation(draft, request);
    case 'truncateFrom':
      if (!Number.isSafeInteger(request.index) || request.index < 0) {
        throw new InvalidArgumentError('invalid_index', `index must be a whole number from 0, got ${request.index}`);
      }
      return planTruncation(draft, operation, request.index);
    case 'truncateFromCreatedAt':
      return planTruncation(
        draft,
        operation,
        draft.entries.findIndex(
          ({ message }) => message.role === 'user' && String(message.createdAt) === request.createdAt,
        ),
      );
    case 'rollbackBefore':
      return planTruncation(draft, operation, indexOf(draft.entries, request.id));
    case 'attachToToolResult':
      return planAttachment(draft, request);
    case 'settleInterrupted':
      return planSettlement(draft, request.trails);
    case 'addExtensionEvent':
      return planExtensionEvent(draft, request.event);
  }
}

type Request<O extends EditRequest['operation']> = Extract<EditRequest, { operation: O }>;

function planAdd(draft: EditDraft, request: Request<'add' | 'append'>): EditPlan {
  const { operation, message, silent } = request;
  const drafts = expandResults([message], draft.entries);
  if (operation === 'append' && drafts[0]?.role === 'user') dropDangling(draft);
  draft.reserve(drafts);
  const isKept = message['transient'] !== true;
  if (!isKept && drafts.some(({ role }) => role !== 'user')) {
    // A system message would change the prompt. An assistant message would make a request end with the model's text.
    throw new InvalidArgumentError('invalid_argument', `only a user message can be transient, got ${message.role}`);
  }
  const named = drafts.map((each) => (isKept ? draft.add(each) : draft.addTransient(each)));
  const first = named[0];
  const value = operation === 'add' ? first?.message : first?.handle;
  return draft.plan(operation, value, { notifies: !silent });
}

/**
 * Removes the last message if its calls have no results, because a new user message follows. The message stays if one
 * of its calls is open, or if a result waits in the mailbox.
 */
function dropDangling(draft: EditDraft): void {
  const last = draft.entries.at(-1);
  if (last === undefined || callsOf(last.message).length === 0) return;
  const { state } = draft;
  if (!last.logged.some(({ toolUseId }) => isBeingAnswered(state, toolUseId))) draft.remove(last);
}

/** True if the call is open, or if its result waits in the mailbox. */
function isBeingAnswered(state: SessionState, toolUseId: string | undefined): boolean {
  if (toolUseId === undefined) return false;
  return state.openCalls.has(toolUseId) || state.mailbox.some((entry) => entry.toolUseId === toolUseId);
}

/**
 * True if the call will be answered without further input: it is open, or its result waits, and the run is not
 * suspended.
 */
function isRunning(state: SessionState, toolUseId: string | undefined): boolean {
  return state.suspended === undefined && isBeingAnswered(state, toolUseId);
}

function planReplace(
  draft: EditDraft,
  { operation, messages }: Request<'set' | 'replaceAll' | 'seed'>,
  prunes: boolean,
): EditPlan {
  draft.clear();
  const drafts = expandResults(
    messages.filter((message) => message['transient'] !== true),
    [],
  );
  // The drafts lack ids and times. That does not matter here, because only calls and results are compared.
  const looked = drafts as readonly HistoryDraft[] as readonly HistoryMessage[];
  const kept = operation === 'seed' ? pruneOrphans(looked, { enabled: prunes }) : looked;
  draft.reserve(kept);
  for (const each of kept) draft.add(each);
  const reason = operation === 'seed' && kept !== looked ? { reason: 'repair' } : {};
  return draft.plan(operation, undefined, reason);
}

function planRemove(draft: EditDraft, id: string): EditPlan {
  const target = draft.entries[indexOf(draft.entries, id)];
  if (target === undefined) return { value: null };
  if (target.message.role === 'tool') {
    throw new InvalidArgumentError(
      'tool_message_not_removable',
      `message ${JSON.stringify(id)} is the result of a call: it leaves with its assistant message`,
      { data: { id } },
    );
  }
  draft.remove(target);
  draft.removeResults(new Set(callsOf(target.message).map((call) => call.callId)));
  return draft.plan('remove', target.message);
}

function removeAll(draft: EditDraft, entries: readonly HistoryEntry[]): void {
  for (const entry of entries) draft.remove(entry);
}

function planDiscard(draft: EditDraft): EditPlan {
  const answered = answeredIds(draft.entries.map((entry) => entry.message));
  const filled: string[] = [];
  for (const entry of draft.entries) {
    if (isTransient(entry)) continue;
    for (const call of callsOf(entry.message)) {
      if (answered.has(call.callId) || isRunning(draft.state, call.callId)) continue;
      const { id: _id, ...placeholder } = interruptedResult(call, '', draft.now);
      draft.add(placeholder, entry.seq);
      filled.push(call.callId);
    }
  }
  return draft.plan('discardPendingToolCalls', filled);
}

function planSystemPrompt(draft: EditDraft, { text, extra }: Request<'replaceSystemPrompt'>): EditPlan {
  const known = draft.entries.find((entry) => entry.message.role === 'system' && !isTransient(entry));
  const { id: _id, createdAt: _createdAt, ...fields } = extra;
  // The contract merges `extra` last, so a `content` in `extra` replaces the text.
  const prompt = checkMessage({ content: text, ...fields, role: 'system' }, 'extra');
  if (known === undefined) draft.add(prompt, 0);
  else replaceMessage(draft, known, { ...prompt, id: known.message.id, createdAt: draft.now });
  return draft.plan('replaceSystemPrompt', undefined);
}

function planMutation(draft: EditDraft, { id, message, epoch }: Request<'mutateLastMatching'>): EditPlan {
  checkUnmoved(draft.state, epoch);
  const target = draft.entries[indexOf(draft.entries, id)];
  if (target === undefined) throw moved();
  if (message.role !== target.message.role) {
    throw new InvalidArgumentError(
      'invalid_argument',
      `a ${target.message.role} message stays one, got ${JSON.stringify(message.role)}`,
    );
  }
  replaceMessage(draft, target, { ...message, id, createdAt: message.createdAt ?? target.message.createdAt });
  return draft.plan('mutateLastMatching', undefined);
}

/** Removes all messages from an index on; -1: removes no message. */
function planTruncation(draft: EditDraft, operation: string, index: number): EditPlan {
  if (index !== -1) removeAll(draft, draft.entries.slice(index));
  return draft.plan(operation, undefined);
}

/** Fields of a result that have a meaning already, so that no metadata may have these names. */
const RESULT_FIELDS: ReadonlySet<string> = new Set([
  ...['id', 'role', 'content', 'createdAt', 'taskId', 'toolCallId', 'name', 'error', 'errorType', 'transient'],
]);

function planAttachment(draft: EditDraft, { callId, key, value }: Request<'attachToToolResult'>): EditPlan {
  if (key === '' || RESULT_FIELDS.has(key)) {
    throw new InvalidArgumentError('invalid_argument', `${JSON.stringify(key)} is not a field for metadata`);
  }
  const target = draft.entries.findLast(({ message }) => message.role === 'tool' && message.toolCallId === callId);
  if (target !== undefined) draft.annotate(target, { ...target.message, [key]: value } as HistoryMessage);
  return draft.plan('attachToToolResult', undefined);
}

function planSettlement(draft: EditDraft, trails: Readonly<Record<string, Json>>): EditPlan {
  const last = draft.entries.at(-1);
  const calls = callsOf(last?.message);
  const isAnswered = last?.logged.some(({ toolUseId }) => isRunning(draft.state, toolUseId)) === true;
  if (!isAnswered) {
    for (const call of calls) {
      const { id: _id, ...settled } = interruptedResult(call, '', draft.now);
      const hasTrail = Object.hasOwn(trails, call.callId);
      draft.add({ ...settled, content: INTERRUPTED_RESULT, ...(hasTrail ? { trail: trails[call.callId] } : {}) });
    }
  }
  return draft.plan('settleInterrupted', undefined);
}

/** Attaches an event to the newest message. The value is false if the event is too large, or if there is no message. */
function planExtensionEvent(draft: EditDraft, event: Json): EditPlan {
  const newest = draft.entries.at(-1);
  if (newest === undefined || Buffer.byteLength(JSON.stringify(event)) > EXTENSION_EVENT_BYTES_MAX) {
    return { value: false };
  }
  const known = newest.message['extEvents'];
  const extEvents = [...(Array.isArray(known) ? known : []), event].slice(-EXTENSION_EVENTS_MAX);
  draft.annotate(newest, { ...newest.message, extEvents } as HistoryMessage);
  return draft.plan('addExtensionEvent', true);
}

function indexOf(entries: readonly HistoryEntry[], id: string): number {
  return entries.findIndex((entry) => entry.message.id === id);
}

/**
 * Throws `SessionBusyError` if the history has changed since the caller found its messages, which was in `epoch`.
 * Appended messages do not count as a change.
 */
function checkUnmoved(state: SessionState, epoch: number): void {
  if (state.epoch !== epoch) throw moved();
}

function moved(): SessionBusyError {
  return new SessionBusyError('the history was changed meanwhile', { data: { moved: true } });
}
