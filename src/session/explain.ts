/** Explains what a session is doing, or why it does nothing: exactly one reason for each state. Pure. */
import type { ErrorShape } from '../base/errors.ts';
import { isPreparing } from './rules/memory.ts';
import { approvalsExpireAt, isRefusedRequest, waitingPhase, waitsForApprovalOnly } from './rules/run-loop.ts';
import { type WaitingCall, waitingCalls } from './rules/waiting-calls.ts';
import type { SessionState } from './state/state.ts';

/** The reason, and a sentence for people. */
export interface Explanation {
  readonly reason:
    | 'nothing_waits'
    | 'paused'
    | 'blocked'
    | 'agent_missing'
    | 'queued'
    | 'waiting_for_model'
    | 'waiting_for_governor'
    | 'waiting_for_retry'
    | 'waiting_for_tools'
    | 'waiting_for_listener'
    | 'waiting_for_approval'
    | 'waiting_for_answer'
    | 'suspended'
    | 'preparing'
    | 'starting';
  readonly detail: string;
  /**
   * Only for a session that is blocked by a refused request: the shape of that request, as it would be sent now,
   * without its texts.
   */
  readonly request?: RequestShape;
}

/** The shape of a request; `dumpRequest` makes it. */
export interface RequestShape {
  readonly model: string;
  /** Names of the tools. */
  readonly tools: readonly string[];
  /** The number of messages in the request. `messages` has only the last ones. */
  readonly messageCount: number;
  /** Each message as its role and its blocks with their sizes; `index`: its position in the request, from 0. */
  readonly messages: readonly { readonly index: number; readonly shape: string }[];
}

/** Facts outside the state that determine the reason. */
export interface Surroundings {
  readonly now: number;
  /** The reason for a block that is not in the session's log; missing: there is no such block. */
  readonly block?: ErrorShape | undefined;
  /** True while the session moves to another version of its agent. */
  readonly isMoving?: boolean;
  readonly isQueued: boolean;
  /** True if no session begins to work any more, because another process takes the store over. */
  readonly isHandingOver?: boolean;
  /** Why the governor (the queue of model calls) holds back the session's call; missing: no call is held back. */
  readonly governorWait?: string | undefined;
  /**
   * Milliseconds a call waits for a person before it is denied (`agent({ approvals })`, `settings.approvals`); null or
   * missing: forever.
   */
  readonly approvalsMs?: number | null;
}

/** The reason, from the state and the facts outside it. */
export function explain(state: SessionState, outside: Surroundings): Explanation {
  const { block } = outside;
  if (block?.code === 'agent_missing') return { reason: 'agent_missing', detail: block.message };
  if (state.state === 'awaiting') return explainAwaiting(state, outside);
  if (state.held !== undefined) {
    return { reason: 'waiting_for_listener', detail: 'the listener asked about this message has not answered yet' };
  }
  if (waitsForApprovalOnly(state)) {
    const isQuestion = waitingPhase(state) === 'question';
    return {
      reason: isQuestion ? 'waiting_for_answer' : 'waiting_for_approval',
      detail: `${waitingDetails(state)}${approvalDetails(state, outside.approvalsMs ?? null)}`,
    };
  }
  if (state.state === 'executing' && state.openCalls.size > 0) {
    const names = [...state.openCalls.values()].map((call) => call.name).join(', ');
    return { reason: 'waiting_for_tools', detail: `${state.openCalls.size} calls run: ${names}` };
  }
  if (state.enrichment !== undefined) return { reason: 'preparing', detail: 'its next turn is being prepared' };
  if (state.paused) return { reason: 'paused', detail: 'pause() was called; resume() continues' };
  if (state.blocked !== undefined) {
    return { reason: 'blocked', detail: explainBlocked(state.blocked) };
  }
  if (block !== undefined) return { reason: 'blocked', detail: `${block.message}; resume() tries again` };
  if (state.suspended !== undefined && !state.mailbox.some((entry) => entry.type === 'user_message')) {
    const calls = `${state.openCalls.size} calls are pending`;
    return { reason: 'suspended', detail: `${state.suspended.reason}; ${calls}; a message or resume() continues` };
  }
  const waiting = state.mailbox.filter((entry) => entry.kind === 'active').length;
  if (waiting === 0 && state.state === 'idle') return { reason: 'nothing_waits', detail: atRest(state.mailbox.length) };
  if (outside.isMoving === true) {
    return { reason: 'preparing', detail: 'the upgrade function of its agent runs; the turn begins after that' };
  }
  if (isPreparing(state.memory)) {
    return { reason: 'preparing', detail: 'the oldest messages are being summed up; the turn begins after that' };
  }
  if (state.queued) {
    const detail = 'its parent has as many sub-agents at work as it may (subagents.maxActive); it waits in line';
    return { reason: 'queued', detail };
  }
  if (outside.isHandingOver === true) {
    return { reason: 'queued', detail: 'another process takes the store over; the session continues there' };
  }
  if (outside.isQueued) {
    const detail = 'other sessions use up the admission (limits.liveSessions, limits.liveBytes); it waits in line';
    return { reason: 'queued', detail };
  }
  return { reason: 'starting', detail: `${waiting} entries are about to be promoted` };
}

function explainBlocked(error: ErrorShape): string {
  if (!isRefusedRequest(error)) {
    const code = error.data?.['errorCode'];
    return `${typeof code === 'string' ? `${code}: ` : ''}${error.message}; resume() continues`;
  }
  const ways = 'an edit of the history, resume() or settings.recovery.rollbackFailed unblocks it';
  return `its request was refused: ${error.message}; ${ways}`;
}

function explainAwaiting(state: SessionState, { now, governorWait }: Surroundings): Explanation {
  const retryAt = state.current?.retryAt;
  if (retryAt !== undefined && retryAt > now) {
    const seconds = Math.ceil((retryAt - now) / 1_000);
    return { reason: 'waiting_for_retry', detail: `attempt ${state.current?.attempt ?? 0} starts in ${seconds} s` };
  }
  if (governorWait !== undefined) return { reason: 'waiting_for_governor', detail: governorWait };
  return { reason: 'waiting_for_model', detail: 'a model call is in flight' };
}

/** The detail for a session without active entries. Background entries, such as goals, begin no turn. */
function atRest(accompanying: number): string {
  if (accompanying === 0) return 'the mailbox is empty';
  return `${accompanying} ${accompanying === 1 ? 'entry goes' : 'entries go'} along with the next message`;
}

/** The waiting calls, grouped by the method that decides or answers them. */
function waitingDetails(state: SessionState): string {
  const waiting = waitingCalls(state);
  const calls = (what: string, of: readonly WaitingCall[]): readonly string[] =>
    of.length === 0 ? [] : [`${what}: ${of.map(({ callId, toolName }) => `${toolName} (${callId})`).join(', ')}`];
  return [
    ...calls(
      'approve() decides',
      waiting.filter(({ kind }) => kind === 'approval'),
    ),
    ...calls(
      'answer() answers',
      waiting.filter(({ asked }) => asked === 'human'),
    ),
    ...calls(
      'its parent or answer() answers',
      waiting.filter(({ asked }) => asked === 'parent'),
    ),
  ].join('; ');
}

/** The time at which undecided calls are denied, and the number of users' messages that wait for the decision. */
function approvalDetails(state: SessionState, expiresMs: number | null): string {
  const expiresAt = approvalsExpireAt(state, expiresMs);
  const expiry = expiresAt === undefined ? '' : `; denied at ${new Date(expiresAt).toISOString()} if undecided`;
  const messages = state.mailbox.filter((entry) => entry.type === 'user_message').length;
  return messages === 0 ? expiry : `${expiry}; ${messages} of the user's messages wait for that`;
}
