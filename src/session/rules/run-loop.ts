/**
 * What the run loop remembers of a session beside its calls: an answer that is held at a message boundary, a run that was
 * suspended, calls that wait for a person, a turn that failed. Types, and readings of a state. Pure.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { historyMessages } from '../history/history-form.ts';
import type { Continuation, DispatchedCall } from '../state/records.ts';
import type { LoggedMessage, SessionState } from '../state/state.ts';
import { answerText } from './answer.ts';

/** Why a run stopped at a boundary with everything kept: on request of a listener, or at the agent's step limit. */
export type SuspensionReason = 'interrupted' | 'max_steps';

/**
 * A message boundary at which the session waits. `answer`: an answer is stored and nothing of it has started; `results`: a
 * round's results are stored and the model was not called yet; `resume`: the calls of a suspended run are about to start.
 */
export interface Held {
  readonly at: 'answer' | 'results' | 'resume';
  /** The half-step that was answered: with `at` it names the boundary. */
  readonly halfStep: number;
  /** Seq of the first message of the boundary. */
  readonly firstSeq: number;
  readonly next: Continuation;
  readonly stop: string;
  readonly calls: readonly HeldCall[];
}

/** A call of a held answer. */
export interface HeldCall extends DispatchedCall {
  /** It asks for something else than when it was held: whoever was asked about it was asked about another. */
  readonly isChanged?: true;
}

/** A run that stopped at a boundary: its calls without a result wait in `openCalls`, none of them was started. */
export interface Suspension {
  readonly reason: SuspensionReason;
  /** What the listener gave as its reason, verbatim. */
  readonly detail?: string | null;
  /** Calls that are not run but answered with a failure when it goes on, by id. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** Calls that wait for a person, and what persons said lately. */
export interface Approvals {
  /** Call ids, in call order. Each is open and was not started. */
  readonly waiting: readonly string[];
  /** Epoch ms since when they wait; missing in states stored before it was kept. */
  readonly since?: number;
  /** The last decisions, oldest first, so that one told twice is known. */
  readonly decided: readonly { readonly id: string; readonly allow: boolean }[];
}

/** The last turn failed: what a deferred rollback goes by. */
export interface TurnFailure {
  readonly error: ErrorShape;
  /** Epoch ms. */
  readonly at: number;
}

/** How a turn ended where it did not simply complete. */
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

/** The API refused the request itself, not who asked or for which model: sent again it is refused again (F35). */
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

/** The outcome a turn's reason stands for; undefined: it completed. */
export function outcomeOfReason(reason: string): TurnOutcomeName | undefined {
  if (COMPLETED_STOPS.has(reason)) return undefined;
  return OUTCOMES.get(reason) ?? 'other';
}

/** The call waits for a person. */
export function isWaitingForApproval(state: SessionState, callId: string): boolean {
  return state.approvals?.waiting.includes(callId) === true;
}

/** Epoch ms at which the calls that wait for a person are denied; undefined: none waits, or they wait for ever. */
export function approvalsExpireAt(
  { approvals, updatedAt }: SessionState,
  expiresMs: number | null,
): number | undefined {
  if (expiresMs === null || approvals === undefined || approvals.waiting.length === 0) return undefined;
  return (approvals.since ?? updatedAt) + expiresMs;
}

/** Everything that is still open waits for persons: nothing runs, and nothing will until one of them has spoken. */
export function waitsForApprovalOnly(state: SessionState): boolean {
  const waiting = state.approvals?.waiting.length ?? 0;
  return waiting > 0 && waiting === state.openCalls.size;
}

/** Model answers since the last message of a user's own, in the window: what a step limit counts. */
export function stepsSinceUser(state: SessionState): number {
  let steps = 0;
  for (let index = state.messages.length - 1; index >= 0; index -= 1) {
    const message = state.messages[index];
    if (message === undefined || isRealUserMessage(message)) break;
    if (message.blocks !== undefined) steps += 1;
  }
  return steps;
}

/** A user's own words: not what a program put there in his name. */
export function isRealUserMessage(message: LoggedMessage): boolean {
  return message.type === 'user_message' && message.history?.systemInjected !== true;
}

/** Text of the last answer in the window; `''` where it has none, or there is none. */
export function lastAnswerText(state: SessionState): string {
  for (let index = state.messages.length - 1; index >= 0; index -= 1) {
    const blocks = state.messages[index]?.blocks;
    if (blocks !== undefined) return answerText(blocks);
  }
  return '';
}

/** The messages of the boundary at which the session is held, as a listener is told of them; none where it is not. */
export function boundaryMessages(state: SessionState): readonly HistoryMessage[] {
  const { held, messages } = state;
  if (held === undefined || held.at === 'resume') return [];
  let start = messages.length;
  while (start > 0 && (messages[start - 1]?.seq ?? 0) >= held.firstSeq) start -= 1;
  return historyMessages({ ...state, messages: messages.slice(start) });
}
