/**
 * Decides at message boundaries: which verdicts an answer needs before its calls start, and what follows from the
 * verdicts. Also suspends runs (a run is the half-steps of a turn) and continues them (contract of the conversation
 * handle, run loop). Pure.
 *
 * An answer is held if listeners, a step limit or a person may have to decide before it continues. If no function of
 * the embedder has to be asked, the boundary is passed in the same batch. Otherwise the verdict is requested after the
 * flush.
 */

import { defined } from '../../base/defined.ts';
import { type ErrorShape, errorShape, LimitError, TurnFailedError } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { fillOpenCalls } from '../history/fill-calls.ts';
import { turnStart } from '../rules/epoch.ts';
import { hasActive, mayBegin, type Selection } from '../rules/mailbox.ts';
import { lastAnswerText, stepsSinceUser } from '../rules/run-loop.ts';
import { answerCall, correctionText, judgeForm, misfitError } from '../rules/structured-answer.ts';
import type { Held, SuspensionReason } from '../state/boundary.ts';
import { hasEnded } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { RecordOf, SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import type { BoundaryVerdict, Unjudged } from '../state/verdicts.ts';
import { endRound } from './end-round.ts';
import { asksForPlace, needsPlace } from './revival.ts';
import { exitDecision, failureToParent } from './supervision.ts';

/** Makes the session decide at the boundary at which it is held. */
export const AT_BOUNDARY: Effect = Object.freeze({ type: 'again', input: Object.freeze({ type: 'boundary' }) });
const PROCEED: BoundaryVerdict = Object.freeze({ approve: NO_RECORDS });

/** True if an answer is held: its calls, or the end of the turn, must wait for the verdict at the boundary. */
export function isHeldAnswer(environment: Environment, hasCalls: boolean): boolean {
  return environment.isGated === true || (hasCalls && environment.agent.holdsCalls === true);
}

/**
 * Holds the session at the end of a round. The results become messages, and listeners get them before the model does.
 */
export function gatherResults(selection: Selection): Decision {
  const entries = selection.responses.map((entry) => entry.id);
  return { records: [{ type: 'gathered', entries }], effects: [AT_BOUNDARY] };
}

/**
 * Handles a boundary at which the session is held. If a verdict is needed, the embedder's functions are asked for it.
 * Otherwise the session passes the boundary at once. `verdict`: the verdict, once it has arrived.
 */
export function decideBoundary(
  state: SessionState,
  environment: Environment,
  verdict?: BoundaryVerdict | Unjudged,
): Decision {
  const { held } = state;
  if (held === undefined) return { records: [], effects: [{ type: 'stale', what: 'boundary' }] };
  if (verdict !== undefined) {
    return 'error' in verdict
      ? failAtBoundary(state, verdict.error, environment)
      : pass(state, held, verdict, environment);
  }
  const { at, halfStep } = held;
  const notifiesListeners = environment.isGated === true && at !== 'resume';
  const startsCalls = held.next === 'tools' && at !== 'results' && !isOverLimit(state, held, environment);
  const asksApproval = startsCalls && environment.agent.approval === 'function';
  if (!notifiesListeners && !asksApproval) return pass(state, held, PROCEED, environment);
  return { records: [], effects: [{ type: 'consult', on: 'boundary', at, halfStep, notifiesListeners, asksApproval }] };
}

/** Fails the turn, for example because a listener threw. Its messages stay, and none of the held calls starts. */
function failAtBoundary(state: SessionState, error: ErrorShape, environment: Environment): Decision {
  const ended = endRound(state, environment, {
    firstId: state.nextPendingId,
    notice: `Not executed: the turn failed (${error.message}).`,
    error,
  });
  const failure = failureToParent(state, error, environment);
  return { records: [...ended.records, ...failure.records], effects: failure.effects };
}

function pass(state: SessionState, held: Held, verdict: BoundaryVerdict, environment: Environment): Decision {
  const { interrupt } = verdict;
  if (interrupt !== undefined) return suspend(state, 'interrupted', interrupt.reason, environment);
  if (isOverLimit(state, held, environment)) return suspend(state, 'max_steps', undefined, environment);
  if (held.at === 'results') return { records: [{ type: 'proceeded' }], effects: [WAKE] };
  if (held.next === 'tools') return startCalls(held, verdict, state, environment);
  if (held.next === 'pause') {
    const halfStep = held.halfStep + 1;
    return { records: [{ type: 'proceeded' }], effects: [{ type: 'callModel', halfStep, attempt: 1 }] };
  }
  if (held.next === 'form') return judgeHeld(state, held, environment);
  const exit = exitOnIdle(state, lastAnswerText(state));
  return { records: [{ type: 'proceeded' }, ...exit.records], effects: [...exit.effects, WAKE] };
}

/**
 * A structured answer that fits ends the turn. Otherwise the model must correct it, or the turn fails after the last
 * correction.
 */
function judgeHeld(state: SessionState, held: Held, environment: Environment): Decision {
  const { answer } = environment.agent;
  if (answer === undefined) {
    const gone = new TurnFailedError('the agent no longer asks for a structured answer', { code: 'answer_invalid' });
    return failAtBoundary(state, errorShape(gone), environment);
  }
  const call = answerCall(state, held, answer);
  const verdict = judgeForm(state, held, answer, call);
  if (verdict.type === 'fits') return takeAnswer(state, verdict.value, call);
  if (verdict.type === 'none') return failAtBoundary(state, errorShape(verdict.error), environment);
  const corrections = state.turn?.corrections ?? 0;
  if (corrections >= environment.limits.answerCorrections) {
    return failAtBoundary(state, errorShape(misfitError(verdict.issues, corrections)), environment);
  }
  const text = correctionText(verdict.issues, answer);
  if (call === undefined) return { records: [{ type: 'corrected', text }], effects: [WAKE] };
  const results = resultsOf(state, call, { content: text, success: false });
  return { records: [{ type: 'corrected' }, ...results], effects: [WAKE] };
}

const TAKEN = 'The answer was taken.';

/** The answer fits: the turn ends without another model call. A parent gets the answer's text. */
function takeAnswer(state: SessionState, value: Json, call: OpenCall | undefined): Decision {
  const results = call === undefined ? [] : resultsOf(state, call, { content: TAKEN, success: true });
  const text = JSON.stringify(value);
  const exit = exitOnIdle(state, text, value);
  const said: Effect[] =
    state.parent === undefined
      ? []
      : [{ type: 'sendToParent', input: { type: 'subagentSaid', child: state.id, content: text } }];
  const closed: SessionRecord = {
    type: 'closed',
    entries: results.map(({ id }) => id),
    reason: 'completed',
    output: value,
  };
  return { records: [...results, closed, ...exit.records], effects: [...said, ...exit.effects, WAKE] };
}

const NOT_BESIDE_ANSWER = 'Not executed: the same message gave the final answer.';

/** The results of an answer's calls: `result` for the call that gives the answer, and a notice for every other call. */
function resultsOf(
  state: SessionState,
  answering: OpenCall,
  result: { readonly content: string; readonly success: boolean },
): readonly RecordOf<'accepted'>[] {
  return [...state.openCalls.values()].map((call, index) => {
    const { content, success } = call === answering ? result : { content: NOT_BESIDE_ANSWER, success: false };
    const source = { type: 'tool', name: call.name } as const;
    const entry = { type: 'tool_response', content, source, toolUseId: call.id, success } as const;
    return { type: 'accepted', id: state.nextPendingId + index, entry };
  });
}

/**
 * True if the step limit is reached. The limit is checked only at an answer with calls, because a final text at the
 * limit is a normal end.
 */
function isOverLimit(state: SessionState, held: Held, { agent }: Environment): boolean {
  if (agent.maxSteps === undefined || held.at !== 'answer' || held.next !== 'tools') return false;
  return stepsSinceUser(state) >= agent.maxSteps;
}

function startCalls(held: Held, verdict: BoundaryVerdict, state: SessionState, environment: Environment): Decision {
  const { approval } = environment.agent;
  const refused: Record<string, string> = {};
  const approve: string[] = [];
  for (const { id, refused: why, isChanged } of held.calls) {
    const call = state.openCalls.get(id);
    if (call === undefined) continue;
    if (why !== undefined) {
      refused[id] = why;
      continue;
    }
    // A call of an unknown tool is answered at once: there is nothing to approve.
    if (environment.agent.tool(call.name) === undefined) continue;
    const needsPerson =
      approval === 'function' ? isChanged === true || verdict.approve.includes(id) : approval?.has(call.name) === true;
    if (needsPerson) approve.push(id);
  }
  return {
    records: [approve.length === 0 ? { type: 'proceeded' } : { type: 'proceeded', approve }],
    // An edit may have answered every call meanwhile. The model must still get the results.
    effects: [state.openCalls.size === 0 ? WAKE : { type: 'again', input: { type: 'dispatch', refused } }],
  };
}

/**
 * Suspends the run. All messages stay, and no further call starts. If `settings.repair.onInterrupt` is `fill`, each
 * open call is answered with a placeholder. A child whose run is suspended ends.
 */
function suspend(
  state: SessionState,
  reason: SuspensionReason,
  detail: string | null | undefined,
  environment: Environment,
): Decision {
  const filled = environment.settings.repair.onInterrupt === 'fill' ? fillOpenCalls(state, environment) : undefined;
  const suspended: SessionRecord = {
    type: 'suspended',
    reason,
    ...(detail === undefined ? {} : { detail }),
    ...(filled === undefined ? {} : { healed: filled.ids }),
  };
  const stopped = filled === undefined ? [suspended] : [filled.record, suspended];
  if (state.parent === undefined) return { records: stopped, effects: [WAKE] };
  if (reason === 'interrupted') {
    const exit = exitDecision(state, { reason: 'cancelled', reply: '' });
    return { records: [...stopped, ...exit.records], effects: [...exit.effects, WAKE] };
  }
  const failure = failureToParent(state, errorShape(stepLimitError(environment)), environment);
  return { records: [...stopped, ...failure.records], effects: failure.effects };
}

function stepLimitError({ agent }: Environment): LimitError {
  return new LimitError(`the run reached its step limit of ${agent.maxSteps ?? 0} (maxSteps)`, {
    data: { limit: 'maxSteps', reason: 'max_steps' },
  });
}

/**
 * Ends a child that becomes idle while no active entry waits. Its last text is its reply. `output`: the structured
 * reply, whose text is `text`.
 */
export function exitOnIdle(state: SessionState, text: string, output?: Json): Decision {
  if (state.parent === undefined || hasEnded(state) || hasActive(state)) return NOTHING;
  const reply = text.trim() === '' ? (state.turn?.text ?? '') : text;
  return exitDecision(state, { reason: 'completed', reply, ...defined({ output }) });
}

/**
 * Ends an idle child whose last waiting entries left without a turn, because they were recalled or set aside. Only
 * these entries kept the child from finishing, so nothing else would ever end it, and its parent would wait forever.
 * `gone`: ids of the entries that left.
 */
export function exitWithout(state: SessionState, gone: readonly number[]): Decision {
  if (state.parent === undefined || hasEnded(state)) return NOTHING;
  if (state.state !== 'idle' || state.restartAt !== undefined) return NOTHING;
  const mailbox = state.mailbox.filter((entry) => !gone.includes(entry.id));
  if (mayBegin({ ...state, mailbox })) return NOTHING;
  // A child that was revived and did not begin to work gets its previous end again.
  if (state.exit !== undefined && state.revived !== 'working') return exitDecision(state, state.exit);
  if (state.suspended !== undefined) return NOTHING;
  return exitDecision(state, { reason: 'completed', reply: lastAnswerText(state) });
}

/**
 * Continues a suspended run if a user's message waits, or if a child that `resume` revived has its place. No other
 * entry wakes the session. The pending calls run first, and the message joins the half-step that promotes their
 * results. If no call is left, the message gets a normal turn.
 */
export function continueSuspended(state: SessionState): Decision {
  if (state.revived === 'resumed') return continueRun(state);
  const user = state.mailbox.some((entry) => entry.type === 'user_message');
  if (!user) return NOTHING;
  if (state.openCalls.size === 0) return { records: [{ type: 'continued' }], effects: [WAKE] };
  return continueRun(state);
}

/** The run continues from its position: with its pending calls, or with the model. */
function continueRun(state: SessionState): Decision {
  const effects = [state.openCalls.size === 0 ? WAKE : AT_BOUNDARY];
  return { records: [{ type: 'continued', ...turnStart(state) }], effects };
}

/**
 * `resume()` of a suspended run: the run continues from its position. A pause or a block is lifted as well. A child
 * that has ended waits for a place first.
 */
export function resumeSuspended(state: SessionState, environment: Environment): Decision {
  const resumed: readonly SessionRecord[] =
    state.paused || state.blocked !== undefined ? [{ type: 'resumed' }] : NO_RECORDS;
  if (needsPlace(state, environment)) {
    return { records: [...resumed, { type: 'revived', resumes: true }], effects: [asksForPlace(state)] };
  }
  // A queued child waits for its place already, with a message to work on.
  if (state.queued) return { records: resumed, effects: [] };
  if (!environment.admits) {
    const error = new LimitError('the run cannot continue now: its agent is missing, or too many sessions run', {
      retryable: true,
      data: { limit: 'liveSessions' },
    });
    return { records: [], effects: [{ type: 'refused', error: errorShape(error) }] };
  }
  const run = continueRun(state);
  return { records: [...resumed, ...run.records], effects: run.effects };
}
