/**
 * Applies a history edit to the messages of a session: they leave, change in place, or are added. The record names the
 * affected messages, so a replay need not search for them. Changes the given state in place, as `apply` does; otherwise
 * pure.
 *
 * Invariants:
 *  H1 an edit is atomic: its messages, `tokens`, `callIds` and open calls change together (S4, S6);
 *  H2 a message never changes its seq, and no seq is given twice. The number of an imported id `m<n>` also counts as
 *     given;
 *  H3 an edit that changes or moves anything before the end opens an epoch (A8). An edit that only adds at the end
 *     opens an epoch in two cases: it adds a system message, or the result of a call in an answered request.
 */

import type { HistoryMessage } from '../../base/history-message.ts';
import { loggedForm, ownSeq, placeOf } from '../history/logged-form.ts';
import { nextFreeId } from '../rules/answer.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

type Edited = Extract<SessionRecord, { type: 'edited' }>;

/** The messages that an edit changed, for events. */
export interface EditOutcome {
  readonly removed: readonly LoggedMessage[];
  readonly added: readonly LoggedMessage[];
  readonly updated: readonly LoggedMessage[];
  /** The added messages, grouped by history message. */
  readonly groups: readonly (readonly [LoggedMessage, ...LoggedMessage[]])[];
  /** True if anything before the end changed, so that a new epoch opens. */
  readonly opensEpoch: boolean;
}

/**
 * Applies an edit. `append`: the fold's method that adds one message at the end, so that an added message is like any
 * other.
 */
export function applyEdit(
  state: SessionState,
  record: Edited,
  at: number,
  append: (draft: MessageDraft) => LoggedMessage,
): EditOutcome {
  const removed = remove(state, record.removed ?? []);
  const updated = (record.updated ?? []).flatMap(({ seq, message }) => replace(state, seq, loggedForm(message), at));
  const annotated = (record.annotated ?? []).map(({ seq, message }) => annotate(state, seq, message));
  const added: LoggedMessage[] = [];
  const groups: (readonly [LoggedMessage, ...LoggedMessage[]])[] = [];
  /**
   * For each `after`: the seq of the last message inserted there. The next message with the same `after` follows that
   * message.
   */
  const behind = new Map<number, number>();
  for (const { message, after } of record.added ?? []) {
    const parts = withFreeIds(state, loggedForm(message));
    let group: readonly LoggedMessage[];
    if (after === undefined) {
      group = parts.map(append);
    } else {
      group = insert(state, behind.get(after) ?? after, parts, at);
      behind.set(after, group[0]?.seq ?? after);
    }
    for (const part of group) {
      added.push(part);
      // A call with an added result is no longer open (S4).
      if (part.type === 'tool_response' && part.toolUseId !== undefined) state.openCalls.delete(part.toolUseId);
    }
    const [first, ...others] = group;
    if (first !== undefined) groups.push([first, ...others]);
    reserveSeq(state, message.id);
  }
  const touchesPrompt = [...removed, ...added, ...updated].some((message) => message.prompt === true);
  if (touchesPrompt) state.promptCount = state.messages.filter((message) => message.prompt === true).length;
  return {
    removed,
    added,
    updated: [...updated, ...annotated],
    groups,
    opensEpoch:
      removed.length > 0 ||
      updated.length > 0 ||
      behind.size > 0 ||
      touchesPrompt ||
      added.some((message) => answersSealed(state, message)),
  };
}

/** True for the result of a call in an answered request. That request had a placeholder; the result takes its place. */
function answersSealed(state: SessionState, message: LoggedMessage): boolean {
  if (message.type !== 'tool_response' || state.sealedSeq === 0) return false;
  const call = state.messages.find((each) => each.type === 'tool_call' && each.toolUseId === message.toolUseId);
  return call !== undefined && call.seq <= state.sealedSeq;
}

function remove(state: SessionState, seqs: readonly number[]): readonly LoggedMessage[] {
  if (seqs.length === 0) return [];
  const gone = new Set(seqs);
  const removed = state.messages.filter((message) => gone.has(message.seq));
  state.messages = state.messages.filter((message) => !gone.has(message.seq));
  for (const message of removed) leave(state, message);
  return removed;
}

/** Adjusts the state for a message that leaves the window. */
function leave(state: SessionState, message: LoggedMessage): void {
  state.tokens -= message.tokens;
  if (message.type !== 'tool_call' || message.toolUseId === undefined) return;
  state.callIds.delete(message.toolUseId);
  state.openCalls.delete(message.toolUseId);
}

function enter(state: SessionState, message: LoggedMessage): void {
  state.tokens += message.tokens;
  if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.add(message.toolUseId);
}

/** Replaces the metadata of a message. Requests with the message stay the same, byte for byte. */
function annotate(state: SessionState, seq: number, message: HistoryMessage): LoggedMessage {
  const index = state.messages.findIndex((each) => each.seq === seq);
  const known = state.messages[index];
  if (known === undefined) throw new Error(`H1: a note on message ${seq}, which is not there`);
  const noted: LoggedMessage = { ...known, history: message };
  state.messages[index] = noted;
  return noted;
}

/**
 * Replaces a message by other logged parts. The first part gets the seq of the old first part, because this seq
 * identifies the message. A later part keeps its seq if it is a call that was among the old later parts. All other
 * parts get new seqs.
 */
function replace(
  state: SessionState,
  seq: number,
  parts: readonly MessageDraft[],
  at: number,
): readonly LoggedMessage[] {
  const start = state.messages.findIndex((message) => message.seq === seq);
  const first = state.messages[start];
  if (first === undefined) throw new Error(`H1: an update of message ${seq}, which is not there`);
  let end = start + 1;
  while (first.blocks !== undefined && state.messages[end]?.inAnswer === true) end += 1;
  const old = state.messages.slice(start, end);
  const later = old.slice(1);
  for (const message of old) if (message.type === 'tool_call') state.callIds.delete(message.toolUseId ?? '');
  const placed = withFreeIds(state, parts).map((part, index): LoggedMessage => {
    const same =
      index === 0 ? first : later.find((each) => part.toolUseId !== undefined && each.toolUseId === part.toolUseId);
    const next = {
      ...part,
      seq: same?.seq ?? takeSeq(state),
      at: same?.at ?? at,
      place: placeOf(first),
    } as LoggedMessage;
    return index === 0 && first.opens === true ? { ...next, opens: true } : next;
  });
  const open = new Map(
    old.flatMap(({ toolUseId }) => {
      const call = toolUseId === undefined ? undefined : state.openCalls.get(toolUseId);
      return call === undefined ? [] : [[call.id, call] as const];
    }),
  );
  for (const message of old) leave(state, message);
  for (const message of placed) {
    enter(state, message);
    const call = message.toolUseId === undefined ? undefined : open.get(message.toolUseId);
    if (call !== undefined) state.openCalls.set(call.id, call);
  }
  state.messages.splice(start, old.length, ...placed);
  return placed;
}

/**
 * Gives the calls of a message unique ids. An imported history may repeat an id, but a request must not (R05). The ids
 * of hidden calls are not used either.
 */
function withFreeIds(state: SessionState, parts: readonly MessageDraft[]): readonly MessageDraft[] {
  const own = new Set<string>();
  const ids = parts.map(({ type, toolUseId }) => {
    if (type !== 'tool_call' || toolUseId === undefined) return undefined;
    const isTaken = state.callIds.has(toolUseId) || own.has(toolUseId);
    const id = isTaken ? nextFreeId(toolUseId, own, state.callIds) : toolUseId;
    own.add(id);
    return id;
  });
  if (parts.every((part, index) => ids[index] === undefined || ids[index] === part.toolUseId)) return parts;
  // The blocks contain the same calls as the parts, in the same order.
  const inOrder = ids.filter((id) => id !== undefined);
  return parts.map((part, index): MessageDraft => {
    const id = ids[index];
    let next = 0;
    const blocks = part.blocks?.map((block) => {
      if (block.type !== 'tool_use') return block;
      next += 1;
      return { ...block, id: inOrder[next - 1] ?? block.id };
    });
    return { ...part, ...(id === undefined ? {} : { toolUseId: id }), ...(blocks === undefined ? {} : { blocks }) };
  });
}

/** Inserts parts directly after the whole message that has the seq `after`; 0: before all messages. */
function insert(
  state: SessionState,
  after: number,
  parts: readonly MessageDraft[],
  at: number,
): readonly LoggedMessage[] {
  const { messages } = state;
  let index = after === 0 ? 0 : messages.findIndex((message) => message.seq === after) + 1;
  if (after !== 0 && index === 0) throw new Error(`H1: an insertion after message ${after}, which is not there`);
  while (messages[index]?.inAnswer === true) index += 1;
  const before = messages[index - 1];
  const next = messages[index];
  const low = before === undefined ? (next === undefined ? 0 : placeOf(next) - 1) : placeOf(before);
  const high = next === undefined ? low + 1 : placeOf(next);
  const placed = parts.map((part): LoggedMessage => {
    return { ...part, seq: takeSeq(state), at, place: low + (high - low) / 2 } as LoggedMessage;
  });
  for (const message of placed) enter(state, message);
  messages.splice(index, 0, ...placed);
  return placed;
}

function takeSeq(state: SessionState): number {
  const seq = state.nextMessageSeq;
  state.nextMessageSeq += 1;
  return seq;
}

/** Skips the seq in an imported id `m<n>`, so that the id is never generated a second time (H2). */
function reserveSeq(state: SessionState, id: string): void {
  const seq = ownSeq(id);
  if (seq >= state.nextMessageSeq) state.nextMessageSeq = seq + 1;
}
