/**
 * Turns a model's answer into messages and open calls. Changes the given state in place, as `apply` does; otherwise
 * pure. Keeps S4 and S6 of `state.ts`.
 */
import type { AnswerDraft } from '../../base/answer-draft.ts';
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import { addUsage, isThought, lostUsage, type ToolUseBlock } from '../../base/messages.ts';
import { answerText } from '../rules/answer.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import { awaitedUses } from '../rules/server-uses.ts';
import type { LoggedMessage, OpenCall } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { callLabel, estimateCall, estimateContent, estimateTokens } from '../state/tokens.ts';
import type { Fold } from './fold.ts';
import { holdAnswer } from './run-loop.ts';
import { continuePaused, countUsage, finishTurn, turnName } from './turn.ts';

/**
 * The model answered the current half-step. The calls of the answer are open now. Without calls, the turn continues or
 * ends.
 */
export function applyResponded(fold: Fold, record: RecordOf<'responded'>): void {
  const { state } = fold;
  if (state.current?.halfStep !== record.halfStep) throw new Error('S3: an answer to no current half-step');
  state.sealedSeq = state.nextMessageSeq - 1;
  state.isReturning = false;
  state.draft = undefined;
  countUsage(state, record.usage);
  if (record.container !== undefined) state.container = record.container;
  const text = answerText(record.content);
  const turn = state.turn;
  if (turn !== undefined) {
    const hasText = text.trim() !== '';
    if (hasText) turn.text = turn.joins ? turn.text + text : text;
    turn.joins = record.then === 'pause' && (turn.joins || hasText);
  }
  const firstSeq = state.nextMessageSeq;
  const isUnbound = record.unbound === true || state.current.outdated === true;
  const earlier = state.awaitedUses;
  // `awaitedUses` is cleared first. Otherwise `appendAnswer` would open an epoch for its parts (see `Fold.place`).
  state.awaitedUses = undefined;
  appendAnswer(fold, record, text);
  state.awaitedUses = awaitedUses(record.content, earlier);
  const losesThoughts = record.lacksThoughts === true || (isUnbound && record.content.some(isThought));
  if (losesThoughts || hasPassedOver(state, earlier)) fold.openEpoch();
  // A structured answer is always held, because it is judged at its boundary, usually in the same batch.
  if (record.held === true || record.then === 'form') {
    holdAnswer(state, record, firstSeq);
    fold.enter('executing');
    return;
  }
  if (record.then === 'tools') {
    state.current = undefined;
    fold.enter('executing');
    for (const call of record.calls) {
      if (call.refused !== undefined) continue;
      const open = state.openCalls.get(call.id);
      if (fold.counts()) fold.publish({ type: 'tool.started', toolUseId: call.id, toolName: open?.name ?? '' });
    }
  } else if (record.then === 'pause') {
    continuePaused(state, record.halfStep);
  } else {
    finishTurn(fold, record.stop, record.stopDetails);
  }
}

/**
 * A model call ended without an answer. The record of an interrupted call may come after the next turn has begun.
 * In that case only the event has the partial text; the state keeps no draft.
 */
export function applyLost(fold: Fold, record: RecordOf<'lost'>): void {
  const { state } = fold;
  const { turn, attempt, reason, text, thinking, truncated, usage } = record;
  const isCurrent = state.turn === undefined || state.turn.id === turn;
  if (usage !== undefined) {
    const counted = lostUsage(usage);
    state.usage = addUsage(state.usage, counted);
    if (state.turn?.id === turn) state.turn.usage = addUsage(state.turn.usage, counted);
  }
  if (isCurrent && (text !== '' || thinking !== undefined)) {
    const draft: AnswerDraft = { turn: turnName(turn), text, ...defined({ thinking, truncated }), lost: reason };
    state.draft = draft;
  }
  if (fold.counts()) {
    fold.publish({
      type: 'llm.lost',
      turn: turnName(turn),
      attempt,
      reason,
      text,
      ...defined({ thinking, truncated, usage }),
    });
  }
}

/**
 * True if the provider was asked to run a waiting call, and the answer lacks the result of that call. False while a
 * paused answer is continued, because the result may still come in a later part.
 */
function hasPassedOver({ awaitedUses: awaited, turn }: SessionState, earlier: readonly string[] | undefined): boolean {
  return turn?.pauses === 0 && earlier?.some((id) => awaited?.includes(id)) === true;
}

/** Appends the messages of an answer. The first message has the usage, even if the answer has no text (Δ17). */
function appendAnswer(fold: Fold, record: RecordOf<'responded'>, text: string): void {
  const { state } = fold;
  const before = state.messages.length;
  let isFirst = true;
  if (text.trim() !== '') {
    appendPart(fold, { type: 'agent_message', content: text, tokens: estimateTokens(text) }, record, isFirst);
    isFirst = false;
  }
  let calls = 0;
  for (const block of record.content) {
    if (block.type !== 'tool_use') continue;
    const use: ToolUseBlock = block;
    // `record.calls` has an entry for each call among the blocks, in order.
    const timeoutMs = record.calls[calls]?.timeoutMs;
    calls += 1;
    const draft: Draft<MessageDraft> = {
      type: 'tool_call',
      content: callLabel(use.name),
      tokens: estimateCall(use),
      toolUseId: use.id,
      toolName: use.name,
      input: use.input,
    };
    if (timeoutMs !== undefined) draft.timeoutMs = timeoutMs;
    const { seq } = appendPart(fold, draft, record, isFirst);
    isFirst = false;
    const open: Draft<OpenCall> = { id: use.id, name: use.name, input: use.input, seq, at: fold.at };
    if (timeoutMs !== undefined) open.timeoutMs = timeoutMs;
    state.openCalls.set(use.id, open);
  }
  // An answer without text and calls (only thoughts, or blocks of the provider's tools) still becomes a message.
  if (isFirst && record.content.length > 0) {
    const content = record.content;
    appendPart(fold, { type: 'agent_message', content, tokens: estimateContent(content) }, record, isFirst);
  }
  fold.said(state.messages.length - before);
}

/** Appends one message of an answer. The first message has the blocks and the usage of the whole answer. */
function appendPart(
  fold: Fold,
  draft: Draft<MessageDraft>,
  { content, usage }: RecordOf<'responded'>,
  isFirst: boolean,
): LoggedMessage {
  if (isFirst) {
    draft.blocks = content;
    draft.usage = usage;
  } else {
    draft.inAnswer = true;
  }
  return fold.append(draft);
}
