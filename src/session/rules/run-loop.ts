/**
 * Answers questions about the run (the half-steps of a turn) of a session. The run may be held at a boundary, be
 * suspended, have calls that wait for a decision, or have failed. The functions only read a state. Pure.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Settings } from '../../base/settings.ts';
import { historyMessages } from '../history/history-form.ts';
import type { AgentFacts } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import type { Judged, Question } from '../state/verdicts.ts';
import { answerText } from './answer.ts';
import { waitingCalls } from './waiting-calls.ts';

/** The outcome of a turn that did not complete normally. */
export type TurnOutcomeName =
  | 'max_steps'
  | 'interrupted'
  | 'length'
  | 'content_filter'
  | 'context_window'
  | 'malformed_output'
  | 'error'
  | 'other';

const BAD_REQUEST = 400;

/**
 * True if the API refused the request itself, independent of credentials and model, so that the same request would be
 * refused again (F35).
 */
export function isRefusedRequest(error: ErrorShape | undefined): boolean {
  return error?.code === 'model_invalid_request' && error.data?.['status'] === BAD_REQUEST;
}

const COMPLETED_STOPS: ReadonlySet<string> = new Set(['end_turn', 'stop_sequence', 'tool_use', 'completed']);

const OUTCOMES: ReadonlyMap<string, TurnOutcomeName> = new Map([
  ['interrupted', 'interrupted'],
  ['cancelled', 'interrupted'],
  ['max_steps', 'max_steps'],
  ['max_tokens', 'length'],
  ['refusal', 'content_filter'],
  ['model_context_window_exceeded', 'context_window'],
]);

/** The outcome of a turn that ended for this reason; undefined if the turn completed. */
export function outcomeOfReason(reason: string): TurnOutcomeName | undefined {
  if (COMPLETED_STOPS.has(reason)) return undefined;
  return OUTCOMES.get(reason) ?? 'other';
}

/**
 * True while the session waits for the verdict on this question (A5). A request is judged only before its first
 * attempt, because a retry sends the same request.
 */
export function awaitsVerdict({ held, current }: SessionState, question: Question | Judged): boolean {
  if (question.on === 'boundary') return held?.at === question.at && held.halfStep === question.halfStep;
  return current?.halfStep === question.halfStep && (question.on === 'answer' || current.attempt === 1);
}

/** True if the call waits for a decision: for an approval, or for the answer to its question. */
export function isWaitingForApproval(state: SessionState, callId: string): boolean {
  return state.approvals?.waiting.includes(callId) === true;
}

/** How long calls of a session wait for a decision, and what a user's message does to them meanwhile. */
export function approvalPolicy({
  agent,
  settings,
}: {
  readonly agent?: Pick<AgentFacts, 'approvals'> | undefined;
  readonly settings: Pick<Settings, 'approvals'>;
}): Settings['approvals'] {
  return agent?.approvals ?? settings.approvals;
}

/** Epoch ms at which the first waiting call expires; undefined if no call waits, or if calls wait forever. */
export function approvalsExpireAt(state: SessionState, expiresMs: number | null): number | undefined {
  if (expiresMs === null || state.approvals === undefined) return undefined;
  let first: number | undefined;
  for (const { at } of waitingCalls(state)) first = Math.min(first ?? at, at);
  return first === undefined ? undefined : first + expiresMs;
}

/** The phase of a session while calls wait for decisions; undefined if no call waits. */
export function waitingPhase({ approvals }: Pick<SessionState, 'approvals'>): 'approval' | 'question' | undefined {
  const waiting = approvals?.waiting.length ?? 0;
  if (waiting === 0) return undefined;
  return waiting > (approvals?.questions?.length ?? 0) ? 'approval' : 'question';
}

/** True if all open calls wait for a decision, so that nothing runs until one of them is decided. */
export function waitsForApprovalOnly(state: SessionState): boolean {
  const waiting = state.approvals?.waiting.length ?? 0;
  return waiting > 0 && waiting === state.openCalls.size;
}

/** The number of model answers after the last message in the window that the user wrote. A step limit bounds it. */
export function stepsSinceUser(state: SessionState): number {
  let steps = 0;
  for (let index = state.messages.length - 1; index >= 0; index -= 1) {
    const message = state.messages[index];
    if (message === undefined || isRealUserMessage(message)) break;
    if (message.blocks !== undefined) steps += 1;
  }
  return steps;
}

/** True for a user's message that no program marked as injected (`systemInjected`). */
export function isRealUserMessage(message: LoggedMessage): boolean {
  return message.type === 'user_message' && message.history?.systemInjected !== true;
}

/** The text of the last answer in the window; `''` if that answer has no text, or if there is no answer. */
export function lastAnswerText(state: SessionState): string {
  for (let index = state.messages.length - 1; index >= 0; index -= 1) {
    const blocks = state.messages[index]?.blocks;
    if (blocks !== undefined) return answerText(blocks);
  }
  return '';
}

/** The messages at the boundary that holds the session, in the form for listeners; empty if the session is not held. */
export function boundaryMessages(state: SessionState): readonly HistoryMessage[] {
  const { held, messages } = state;
  if (held === undefined || held.at === 'resume') return [];
  let start = messages.length;
  while (start > 0 && (messages[start - 1]?.seq ?? 0) >= held.firstSeq) start -= 1;
  return historyMessages({ ...state, messages: messages.slice(start) });
}
