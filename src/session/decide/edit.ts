/**
 * An operation on the history (an edit): its record, and its consequences for a round of tools in progress. Pure.
 *
 * The history is not edited during a model call in flight, because the answer belongs to the request that was sent.
 * While tools run, an edit may remove their calls. Removed calls are cancelled, and if no call of the round remains,
 * the turn ends (S4, A7). The same applies to calls that are held or wait for a person; see `edited-calls.ts`.
 */
import { errorShape, KeyReusedError, LimitError, SessionBusyError, TroupeError } from '../../base/errors.ts';
import type { EditPlan, EditRecord } from '../history/edit-draft.ts';
import { planEdit } from '../history/edit-plan.ts';
import { changedCalls, revokedCalls } from '../history/edited-calls.ts';
import { loggedForm, wireId } from '../history/logged-form.ts';
import { type ImagesProblem, imagesProblem } from '../rules/images.ts';
import { type Decision, NO_RECORDS, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { exitDecision } from './supervision.ts';

/** The reason for cancelling a call whose assistant message was removed. */
const CALL_GONE = 'the call was taken out of the history';

/** Runs one operation. The caller gets its outcome as the effect `result`, or `refused`. */
export function decideEdit(
  state: SessionState,
  input: Extract<Input, { type: 'edit' }>,
  environment: Environment,
): Decision {
  const { request, key, fingerprint = '' } = input;
  const known = key === undefined ? undefined : state.editKeys?.get(key);
  if (known !== undefined) {
    if (known.fingerprint === fingerprint) return answered({ type: 'result', value: known.value });
    return refused(new KeyReusedError(`key ${JSON.stringify(key)} was used for another operation`, { data: { key } }));
  }
  if (state.state === 'awaiting') {
    return refused(new SessionBusyError('the history cannot be edited while a model call is in flight'));
  }
  let plan: EditPlan;
  try {
    plan = planEdit(state, request, environment);
  } catch (error) {
    if (error instanceof TroupeError) return refused(error);
    throw error;
  }
  const images = imagesAfter(state, plan, environment.agent.imagesMax);
  if (images !== undefined) {
    return refused(new LimitError(images.text, { data: { limit: images.limit, value: images.value } }));
  }
  const effects: Effect[] = [];
  if (plan.transients !== undefined) effects.push({ type: 'transients', list: plan.transients });
  const { record, value } = plan;
  if (record === undefined) return { records: NO_RECORDS, effects: [...effects, { type: 'result', value }] };
  const keyed: EditRecord =
    key === undefined ? record : { ...record, key, fingerprint, ...(value === undefined ? {} : { value }) };
  const after = afterEdit(state, record);
  return {
    records: [keyed, ...after.records],
    effects: [...effects, ...after.effects, { type: 'result', value }, ...(mayGoOn(state) ? [WAKE] : [])],
  };
}

/**
 * Why the images that an edit adds do not fit beside the images that stay in the window; undefined if they fit (R61).
 */
export function imagesAfter(
  state: SessionState,
  { record, transients = [] }: EditPlan,
  imagesMax: number | undefined,
): ImagesProblem | undefined {
  const { added = [], updated = [], removed = [] } = record ?? {};
  const contents = [...added, ...updated, ...transients]
    .flatMap(({ message }) => (typeof message.content === 'string' ? [] : loggedForm(message)))
    .flatMap(({ content }) => (typeof content === 'string' ? [] : content));
  return imagesProblem(state, contents, imagesMax, new Set([...removed, ...updated.map(({ seq }) => seq)]));
}

/**
 * True if the edit may let the session continue, because it ended a round, a suspension, or a block by a refused
 * request.
 */
function mayGoOn(state: SessionState): boolean {
  return state.state === 'executing' || state.suspended !== undefined || state.blocked !== undefined;
}

/** The consequences of an edit for running calls, for waiting results, and for a task whose turn has not begun. */
export function afterEdit(state: SessionState, record: EditRecord): Decision {
  const records: SessionRecord[] = [];
  const effects: Effect[] = [];
  const removed = new Set(record.removed ?? []);
  const gone = new Set([...removedCalls(state, record, removed), ...revokedCalls(state, changedCalls(state, record))]);
  const over = new Set([...gone, ...answeredCalls(record)]);
  for (const id of over) {
    if (state.openCalls.has(id)) effects.push({ type: 'cancelTool', callId: id, reason: CALL_GONE });
  }
  let ends = false;
  for (const { id, seed, type, toolUseId } of state.mailbox) {
    if (type === 'tool_response' && toolUseId !== undefined && over.has(toolUseId)) {
      records.push({ type: 'dropped', id, reason: CALL_GONE });
    } else if (seed !== undefined && removed.has(seed)) {
      // The task's message is removed, so a half-step for the task would have no content.
      records.push({ type: 'dropped', id, reason: 'its message was taken out of the history' });
      ends = true;
    }
  }
  if (state.state === 'executing' && isRoundOver(state, record, { gone, removed })) {
    records.push({ type: 'closed', entries: [], reason: 'cancelled' });
    ends = true;
  }
  if (!ends) return { records, effects };
  const exit = exitDecision(state, { reason: 'cancelled', reply: '' });
  return { records: [...records, ...exit.records], effects: [...effects, ...exit.effects] };
}

/** Calls whose message is removed, or whose message no longer contains them. */
function removedCalls(state: SessionState, record: EditRecord, removed: ReadonlySet<number>): ReadonlySet<string> {
  const gone = new Set<string>();
  for (const { seq, type, toolUseId } of state.messages) {
    if (type === 'tool_call' && toolUseId !== undefined && removed.has(seq)) gone.add(toolUseId);
  }
  for (const { seq, message } of record.updated ?? []) {
    const kept = new Set(loggedForm(message).map((part) => part.toolUseId));
    for (const id of callsAt(state, seq)) if (!kept.has(id)) gone.add(id);
  }
  return gone;
}

/** The calls of the answer that begins at a seq. */
function callsAt(state: SessionState, seq: number): readonly string[] {
  const ids: string[] = [];
  let index = state.messages.findIndex((message) => message.seq === seq);
  for (let message = state.messages[index]; message !== undefined; message = state.messages[index]) {
    if (message.seq !== seq && message.inAnswer !== true) break;
    if (message.type === 'tool_call' && message.toolUseId !== undefined) ids.push(message.toolUseId);
    index += 1;
  }
  return ids;
}

/** Calls whose results the edit adds. */
function answeredCalls(record: EditRecord): readonly string[] {
  return (record.added ?? []).flatMap(({ message }) => (message.role === 'tool' ? [wireId(message.toolCallId)] : []));
}

/** True if the model has no result of the round left to read, or if no message is left to send. */
function isRoundOver(
  state: SessionState,
  record: EditRecord,
  { gone, removed }: { readonly gone: ReadonlySet<string>; readonly removed: ReadonlySet<number> },
): boolean {
  if (gone.size > 0) {
    const waiting = state.mailbox.flatMap(({ type, toolUseId }) => (type === 'tool_response' ? [toolUseId] : []));
    const owed = [...state.openCalls.keys(), ...waiting, ...heldResults(state)];
    const left = owed.some((id) => id !== undefined && !gone.has(id));
    if (!left) return true;
  }
  const isEmpty = state.messages.every((message) => message.prompt === true || removed.has(message.seq));
  return isEmpty && (record.added ?? []).every(({ message }) => message.role === 'system');
}

/** Calls whose results are held at a boundary: they are in the history, but the model has not been called with them. */
function heldResults({ held, messages, callIds }: SessionState): readonly string[] {
  if (held?.at !== 'results') return [];
  const ids: string[] = [];
  for (const { seq, type, toolUseId } of messages) {
    const isResult = seq >= held.firstSeq && type === 'tool_response' && toolUseId !== undefined;
    if (isResult && callIds.has(toolUseId)) ids.push(toolUseId);
  }
  return ids;
}

function answered(effect: Effect): Decision {
  return { records: NO_RECORDS, effects: [effect] };
}

function refused(error: TroupeError): Decision {
  return answered({ type: 'refused', error: errorShape(error) });
}
