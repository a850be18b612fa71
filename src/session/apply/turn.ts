/**
 * The course of a turn: its half-steps begin, are retried, and end. The end of the turn settles the receipts of its
 * messages. Changes the given state in place, as `apply` does; otherwise pure. Keeps S3 of `state.ts`: there is a
 * current call exactly while a session is awaiting.
 */
import { defined } from '../../base/defined.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { addUsage, NO_USAGE, type TurnAgent, textOf, type Usage } from '../../base/messages.ts';
import { areStartsMany, beginTurnTask, trimStarts } from '../history/tasks.ts';
import { unpin } from '../rules/goals.ts';
import { isRefusedRequest, outcomeOfReason } from '../rules/run-loop.ts';
import { livingContainer } from '../state/container.ts';
import { failedTurn } from '../state/last-turn.ts';
import type { RecordOf } from '../state/records.ts';
import type { ReceiptState, SessionState } from '../state/state.ts';
import { forgetPrepared } from './enrichment.ts';
import { countSpoken, type Fold } from './fold.ts';
import { promoteAll } from './mailbox.ts';
import { activate } from './tasks.ts';

/** A half-step begins. The entries that it claims become messages. */
export function applyClaimed(fold: Fold, record: RecordOf<'claimed'>): void {
  const { state } = fold;
  if (state.state === 'awaiting') throw new Error('T1/T2: claimed while awaiting');
  if (state.enrichment !== undefined) throw new Error('S7: claimed while it is prepared');
  if (state.prepared !== undefined) forgetPrepared(state, record.entries);
  if (state.unnamed) state.unnamed = false;
  if (record.turn !== undefined) {
    beginTurn(state, record.turn, record.agent);
    state.failure = undefined;
    beginTurnTask(state.tasks, state.nextMessageSeq, fold.at);
    if (areStartsMany(state.tasks, state.messages.length + state.hidden.length)) {
      trimStarts(state.tasks, [state.messages, state.hidden]);
    }
  }
  state.draft = undefined;
  fold.enter('awaiting');
  state.container = livingContainer(state.container, fold.at);
  const { halfStep } = record;
  state.current = { halfStep, attempt: 1, ...promoteAll(fold, record.entries) };
  state.nextHalfStep = halfStep + 1;
  if (state.turn !== undefined) {
    state.turn.halfSteps += 1;
    state.turn.pauses = 0;
  }
}

/** Begins a turn. `agent`: the agent of the turn, if the agent has a version. */
export function beginTurn(state: SessionState, id: number, agent: TurnAgent | undefined): void {
  const counts = { usage: NO_USAGE, halfSteps: 0, pauses: 0, marked: false };
  state.turn = { id, ...defined({ agent }), entries: [], text: '', joins: false, ...counts };
  state.nextTurn = id + 1;
  if (state.revived !== undefined) state.revived = 'working';
}

/** The model is called again to continue a paused answer. */
export function continuePaused(state: SessionState, halfStep: number): void {
  const { turn } = state;
  state.current = { halfStep: halfStep + 1, attempt: 1 };
  state.nextHalfStep = halfStep + 2;
  if (turn === undefined) return;
  turn.pauses += 1;
  turn.halfSteps += 1;
}

/** Counts the tokens of an answer for the session and for its turn, even if the answer is not stored. */
export function countUsage(state: SessionState, usage: Usage): void {
  state.usage = addUsage(state.usage, usage);
  if (state.turn !== undefined) state.turn.usage = addUsage(state.turn.usage, usage);
}

/** A model call failed and is retried, after a wait or at once. */
export function applyRetried(fold: Fold, record: RecordOf<'retried'>): void {
  const { current } = fold.state;
  if (current?.halfStep !== record.halfStep) throw new Error('S3: a retry of no current half-step');
  current.attempt = record.attempt + 1;
  current.retryAt = fold.at + record.waitMs;
  current.retryWaitMs = record.waitMs;
  // The next attempt is sent with the messages of the current epoch.
  delete current.outdated;
  if (record.fallsBack === true) current.attemptsBefore = record.attempt;
  if (record.usage !== undefined) countUsage(fold.state, record.usage);
  if (fold.counts()) {
    fold.publish({
      type: 'llm.retry',
      attempt: record.attempt,
      waitMs: record.waitMs,
      ...(record.code === undefined ? {} : { code: record.code }),
      ...(record.detail === undefined ? {} : { detail: record.detail }),
      ...(record.status === undefined ? {} : { status: record.status }),
      ...(record.repaired === undefined ? {} : { repaired: record.repaired }),
    });
  }
  if (fold.counts()) fold.publish({ type: 'session.state', state: 'awaiting', phase: 'retrying' });
}

/**
 * A half-step failed. The order is that of Δ10: first bounced messages leave, then the state changes, then the failure
 * is published.
 */
export function applyFailed(fold: Fold, record: RecordOf<'failed'>): void {
  const { state } = fold;
  const { current } = state;
  const named = typeof record.bounced === 'number' ? [record.bounced] : (record.bounced ?? []);
  const bounced = (current?.bouncing ?? []).filter(({ entry }) => named.includes(entry));
  for (const { messageSeq } of bounced) if (messageSeq !== undefined) removeMessage(fold, messageSeq, 'bounced');
  if (record.blocks === true) state.blocked = record.error;
  if (state.fallback !== undefined) state.fallback = { ...state.fallback, hasFailed: true };
  // The API refuses a request that names a deleted container, so the container may be the reason for this refusal.
  if (isRefusedRequest(record.error)) state.container = undefined;
  // Bounced messages have already left the history. Other messages of the half-step are still there.
  state.failure = bounced.length === 0 || current?.keeps === true ? { error: record.error, at: fold.at } : undefined;
  fold.enter('idle');
  for (const { content, messageSeq } of bounced) {
    if (!fold.counts()) continue;
    const removed = messageSeq === undefined ? {} : { messageSeq };
    fold.publish({ type: 'bounce_back', content: textOf(content), error: record.error, ...removed });
  }
  failTurn(fold, record.error);
  if (record.blocks === true && record.error.code === 'model_authentication') {
    if (fold.counts()) fold.publish({ type: 'authentication_required', error: record.error });
  }
}

function removeMessage(fold: Fold, seq: number, reason: string): void {
  const { state } = fold;
  const index = state.messages.findIndex((message) => message.seq === seq);
  if (index === -1) return;
  const [removed] = state.messages.splice(index, 1);
  if (state.goals !== undefined) unpin(state, [seq]);
  state.tokens -= removed?.tokens ?? 0;
  if (removed !== undefined) countSpoken(state, removed, -1);
  const next = state.messages[index];
  // The next message is now the first one after the answered request (A8).
  if (removed?.opens === true && next !== undefined) state.messages[index] = { ...next, opens: true };
  if (fold.counts()) fold.publish({ type: 'message.removed', messageSeq: seq, reason });
}

/** A guardrail blocked the half-step: the turn ends as failed, and an answer is not stored. */
export function applyBlocked(fold: Fold, record: RecordOf<'blocked'>): void {
  const { state } = fold;
  if (state.current?.halfStep !== record.halfStep) throw new Error('S3: a block of no current half-step');
  if (record.usage !== undefined) countUsage(state, record.usage);
  fold.enter('idle');
  failTurn(fold, record.error);
}

/** A round of calls ends without another model call. */
export function applyClosed(fold: Fold, record: RecordOf<'closed'>): void {
  promoteAll(fold, record.entries);
  if (record.error === undefined) {
    finishTurn(fold, record.reason, undefined, record.output);
    return;
  }
  fold.enter('idle');
  failTurn(fold, record.error);
}

/**
 * The turn ends without a failure. The receipts of its messages get the turn's text, or say that the turn was
 * cancelled. `stopDetails`: the stop details of the last answer. `output`: the structured answer, whose JSON is the
 * turn's text.
 */
export function finishTurn(fold: Fold, reason: string, stopDetails?: Json, output?: Json): void {
  const { state } = fold;
  const { turn, interruptReason } = state;
  state.current = undefined;
  state.turn = undefined;
  fold.enter('idle');
  if (turn === undefined) return;
  state.last = { outcome: reason === 'cancelled' ? 'interrupted' : 'answered' };
  if (fold.countsAnnounced()) {
    const outcome = outcomeOfReason(reason);
    const ended = { type: 'turn.finished', turn: turnName(turn.id), reason, usage: turn.usage } as const;
    fold.announce({ ...ended, ...defined({ outcome, stopDetails, output, agent: turn.agent }) }, turn);
  }
  const receipt: ReceiptState =
    reason === 'cancelled'
      ? { status: 'cancelled', turn: turn.id, ...defined({ reason: interruptReason }) }
      : output === undefined
        ? { status: 'answered', turn: turn.id, text: turn.text }
        : { status: 'answered', turn: turn.id, text: JSON.stringify(output), output };
  for (const id of turn.entries) fold.settle(id, receipt);
  if (state.tasks.wished !== undefined) activate(fold, state.tasks.wished);
}

/** The turn ends as failed; the session is already idle. */
function failTurn(fold: Fold, error: ErrorShape): void {
  const { state } = fold;
  const turn = state.turn;
  state.current = undefined;
  state.turn = undefined;
  if (turn === undefined) return;
  state.last = failedTurn(error);
  if (fold.countsAnnounced()) {
    fold.announce({ type: 'turn.failed', turn: turnName(turn.id), error, ...defined({ agent: turn.agent }) }, turn);
  }
  for (const id of turn.entries) fold.settle(id, { status: 'failed', turn: turn.id, error });
  if (state.tasks.wished !== undefined) activate(fold, state.tasks.wished);
}

/** A turn's name in events. */
export function turnName(id: number): string {
  return `turn-${id}`;
}
