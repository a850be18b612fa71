/**
 * Applies the records about a run (the half-steps of a turn). These records hold the run at a message boundary, suspend
 * it, continue it, or decide about its calls. Changes the given state in place, as `apply` does; otherwise pure. Keeps
 * S4 of `state.ts`: held calls have not started.
 */
import { APPROVALS_REMEMBERED_MAX } from '../../base/bounds.ts';
import type { Phase } from '../../events/event.ts';
import { continuedCall, nextQuestionId } from '../rules/elicitation.ts';
import { lastAnswerText, waitingPhase } from '../rules/run-loop.ts';
import { questionOf, withWaiting } from '../rules/waiting-calls.ts';
import type { Approvals, DecidedCall, Suspension } from '../state/boundary.ts';
import type { OpenCall } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { ReceiptState, SessionState } from '../state/state.ts';
import { estimateTokens } from '../state/tokens.ts';
import { endRunLoop, type Fold } from './fold.ts';
import { promoteAll } from './mailbox.ts';
import { beginTurn, continuePaused, finishTurn, turnName } from './turn.ts';

const NO_APPROVALS: Approvals = Object.freeze({ waiting: [], decided: [] });

/** Holds an answer at its boundary. `firstSeq`: seq of the answer's first message. */
export function holdAnswer(state: SessionState, record: RecordOf<'responded'>, firstSeq: number): void {
  const { halfStep, then, stop, stopDetails, calls } = record;
  state.current = undefined;
  const held = { at: 'answer', halfStep, firstSeq, next: then, stop, calls } as const;
  state.held = stopDetails === undefined ? held : { ...held, stopDetails };
}

/** A round's results become messages, and the session is held at their boundary. */
export function applyGathered(fold: Fold, record: RecordOf<'gathered'>): void {
  const { state } = fold;
  const firstSeq = state.nextMessageSeq;
  promoteAll(fold, record.entries);
  const halfStep = state.nextHalfStep - 1;
  state.held = { at: 'results', halfStep, firstSeq, next: 'tools', stop: '', calls: [] };
}

/** The held run continues. */
export function applyProceeded(fold: Fold, record: RecordOf<'proceeded'>): void {
  const { state } = fold;
  const { held } = state;
  if (held === undefined) throw new Error('no boundary is held, so none can proceed');
  if (held.at === 'results') {
    state.held = undefined;
  } else if (held.next === 'tools') {
    startHeldCalls(fold, record);
  } else if (held.next === 'pause') {
    state.held = undefined;
    fold.enter('awaiting');
    continuePaused(state, held.halfStep);
  } else {
    finishTurn(fold, held.stop, held.stopDetails);
  }
}

/**
 * A structured answer did not fit its form. The answer stays in the conversation, and the model corrects it in the next
 * half-step.
 */
export function applyCorrected(fold: Fold, { text }: RecordOf<'corrected'>): void {
  const { state } = fold;
  const { held, turn } = state;
  if (held?.next !== 'form') throw new Error('no structured answer is held, so none is corrected');
  state.held = undefined;
  if (turn !== undefined) turn.corrections = (turn.corrections ?? 0) + 1;
  if (text !== undefined) fold.append({ type: 'system_message', content: text, tokens: estimateTokens(text) });
}

/** The calls of a held answer start, except for those that wait for a person. */
function startHeldCalls(fold: Fold, record: RecordOf<'proceeded'>): void {
  const { state } = fold;
  const calls = state.held?.calls ?? [];
  state.held = undefined;
  const waiting = record.approve ?? [];
  for (const { id, refused } of calls) {
    const call = state.openCalls.get(id);
    if (call === undefined || refused !== undefined || waiting.includes(id)) continue;
    fold.countAndPublish({ type: 'tool.started', toolUseId: id, toolName: call.name });
  }
  if (waiting.length === 0) return;
  state.approvals = { waiting, since: fold.at, decided: state.approvals?.decided ?? [] };
  for (const id of waiting) {
    const call = state.openCalls.get(id);
    if (call === undefined) throw new Error(`S4: call ${id} waits for a person and is not open`);
    if (fold.countsAnnounced()) {
      fold.announce({ type: 'approval.required', toolUseId: id, toolName: call.name, input: call.input });
    }
  }
  fold.countAndPublish({ type: 'session.state', state: 'executing', phase: 'approval' });
}

/** The held run is suspended, and its turn ends. */
export function applySuspended(fold: Fold, record: RecordOf<'suspended'>): void {
  const { state } = fold;
  const { turn } = state;
  const { reason, detail, healed } = record;
  state.suspended = suspensionOf(state, record);
  state.state = 'idle';
  state.interruptRequested = false;
  state.interruptReason = undefined;
  state.turn = undefined;
  endRunLoop(state);
  fold.countAndPublish({ type: 'session.state', state: 'idle', phase: 'suspended' });
  if (turn === undefined) return;
  state.last = { outcome: 'suspended' };
  const ended = {
    type: 'turn.finished',
    turn: turnName(turn.id),
    reason,
    usage: turn.usage,
    outcome: reason,
  } as const;
  if (fold.countsAnnounced()) {
    fold.announce(healed === undefined ? ended : { ...ended, healedToolCallIds: healed }, turn);
  }
  const receipt: ReceiptState = {
    status: 'suspended',
    turn: turn.id,
    reason,
    ...(detail === undefined ? {} : { detail }),
    text: lastAnswerText(state),
  };
  for (const id of turn.entries) fold.settle(id, receipt);
}

/** The facts that are kept about a suspended run. */
function suspensionOf(state: SessionState, record: RecordOf<'suspended'>): Suspension {
  const refused: Record<string, string> = {};
  for (const call of state.held?.calls ?? []) if (call.refused !== undefined) refused[call.id] = call.refused;
  return {
    reason: record.reason,
    ...(record.detail === undefined ? {} : { detail: record.detail }),
    ...(Object.keys(refused).length === 0 ? {} : { refused }),
  };
}

export function applyContinued(fold: Fold, record: RecordOf<'continued'>): void {
  const { state } = fold;
  const { suspended } = state;
  if (suspended === undefined) throw new Error('no run is suspended, so none can continue');
  state.suspended = undefined;
  if (record.turn === undefined) return;
  beginTurn(state, record.turn, record.agent);
  if (state.openCalls.size > 0) holdPending(state, suspended);
  fold.enter('executing');
}

/** Holds the open calls of the run again. The verdict at this boundary says which of them need a person. */
function holdPending(state: SessionState, suspended: Suspension): void {
  const refused = suspended.refused ?? {};
  const calls = [...state.openCalls.keys()].map((id) => {
    const why = Object.hasOwn(refused, id) ? refused[id] : undefined;
    return why === undefined ? { id } : { id, refused: why };
  });
  const halfStep = state.nextHalfStep - 1;
  state.held = { at: 'resume', halfStep, firstSeq: state.nextMessageSeq, next: 'tools', stop: '', calls };
}

/** A call asks a question and waits for the answer. */
export function applyAsked(fold: Fold, record: RecordOf<'asked'>): void {
  const { state } = fold;
  const { type: _type, ...asked } = record;
  const { callId, form, elicitation, ...shown } = asked;
  const call = state.openCalls.get(callId);
  if (call === undefined) throw new Error(`S4: call ${callId} asks and is not open`);
  const { approvals = NO_APPROVALS } = state;
  const before = waitingPhase(state);
  const id = nextQuestionId(call);
  const question = { ...asked, ...(id === callId ? {} : { id }), at: fold.at };
  const questions = [...(approvals.questions ?? []), question];
  state.approvals = { ...approvals, waiting: [...approvals.waiting, callId], questions };
  const schema = form === undefined ? {} : { schema: form.schema };
  const server = elicitation === undefined ? {} : { server: elicitation.server };
  const place = { toolUseId: id, toolName: call.name };
  const event = { type: 'question.asked', ...place, ...shown, ...schema, ...server } as const;
  // A question to the parent is not announced outside, because the parent gets it as a message.
  if (record.asked === 'parent') fold.countAndPublish(event);
  else if (fold.countsAnnounced()) fold.announce(event);
  publishPhase(fold, before);
}

/** The parent's answer to a question did not fit its form. */
export function applyMisanswered({ state }: Fold, { callId }: RecordOf<'misanswered'>): void {
  const { approvals } = state;
  if (approvals?.questions === undefined) throw new Error(`call ${callId} asks nothing`);
  const questions = approvals.questions.map((each) =>
    each.callId === callId ? { ...each, misfits: (each.misfits ?? 0) + 1 } : each,
  );
  state.approvals = { ...approvals, questions };
}

/**
 * A waiting call got its decision. For a denied call and for a model's question, the next record is the call's result.
 * After a question of an MCP server, the call continues with the response instead.
 */
export function applyDecided(fold: Fold, record: RecordOf<'decided'>): void {
  const { state } = fold;
  const { callId, allow, answer, response } = record;
  const { approvals } = state;
  const call = state.openCalls.get(callId);
  if (call === undefined || approvals?.waiting.includes(callId) !== true) {
    throw new Error(`call ${callId} does not wait for a decision`);
  }
  const question = questionOf(state, callId);
  const isQuestion = question !== undefined;
  const decision = {
    id: question?.id ?? callId,
    allow,
    ...(isQuestion ? { isQuestion } : {}),
    ...(answer === undefined ? {} : { answer }),
  } satisfies DecidedCall;
  const before = waitingPhase(state);
  const decided = [...approvals.decided, decision].slice(-APPROVALS_REMEMBERED_MAX);
  state.approvals = { ...withWaiting(approvals, (id) => id !== callId), decided };
  if (record.by !== undefined) {
    fold.countAndPublish({
      type: 'approval.decided',
      toolUseId: decision.id,
      toolName: call.name,
      allow,
      by: record.by,
    });
  }
  if (allow && !isQuestion) {
    if (record.input !== undefined) state.openCalls.set(callId, { ...call, input: record.input } satisfies OpenCall);
    fold.countAndPublish({ type: 'tool.started', toolUseId: callId, toolName: call.name });
  }
  if (response !== undefined && question !== undefined) {
    state.openCalls.set(callId, continuedCall(call, question, response) ?? call);
  }
  publishPhase(fold, before);
}

/** Publishes the phase if it differs from `before`. */
function publishPhase(fold: Fold, before: Phase | undefined): void {
  const phase = waitingPhase(fold.state);
  if (phase === before) return;
  fold.countAndPublish({ type: 'session.state', state: 'executing', ...(phase === undefined ? {} : { phase }) });
}
