/**
 * Message boundaries: which verdicts an answer needs before its calls start, and what follows from them. Also handles a
 * suspended run and how it continues (contract of the conversation handle, run loop). Pure.
 *
 * An answer is held if a verdict may be needed: of listeners, of a step limit, or of a person who must allow calls. A
 * boundary that needs no verdict from outside is passed in the same batch; any other verdict is requested after the
 * flush.
 */

import { defined } from '../../base/defined.ts';
import { type ErrorShape, errorShape, LimitError, TurnFailedError } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { fillOpenCalls } from '../history/fill-calls.ts';
import { hasActive, mayBegin, type Selection } from '../rules/mailbox.ts';
import { lastAnswerText, stepsSinceUser } from '../rules/run-loop.ts';
import { answerCall, correctionText, judgeForm, misfitError } from '../rules/structured-answer.ts';
import type { Held, SuspensionReason } from '../state/boundary.ts';
import { hasEnded } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from '../state/decision.ts';
import type { BoundaryVerdict, Effect, Environment, Unjudged } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { RecordOf, SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { endRound } from './end-round.ts';
import { asksForPlace, needsPlace } from './revival.ts';
import { exitDecision, failureToParent } from './supervision.ts';

/** Runs the decision at a boundary: after an answer that was just held, or at a boundary that recovery finds. */
export const AT_BOUNDARY: Effect = Object.freeze({ type: 'again', input: Object.freeze({ type: 'boundary' }) });
const PROCEED: BoundaryVerdict = Object.freeze({ approve: NO_RECORDS });

/** Whether an answer is held: its calls wait, or the turn's end waits, for the verdict at its boundary. */
export function isHeldAnswer(environment: Environment, hasCalls: boolean): boolean {
  return environment.isGated === true || (hasCalls && environment.agent.holdsCalls === true);
}

/**
 * A round is complete and the session waits for listeners: its results become messages, and the listeners get them
 * before the model.
 */
export function gatherResults(selection: Selection): Decision {
  const entries = selection.responses.map((entry) => entry.id);
  return { records: [{ type: 'gathered', entries }], effects: [AT_BOUNDARY] };
}

/**
 * At a boundary: verdicts are requested if any are needed; otherwise the boundary is passed at once. `verdict`: the
 * verdicts that have arrived.
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

/** A listener or a predicate threw: the turn fails, stored messages stay, and none of its calls has started. */
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

/** A structured answer ends the turn, or is corrected in the next half-step, or fails the turn after the last correction. */
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

/** The results of an answer's calls: that of the call which gives the answer, and a notice for every other call. */
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
 * True if the step limit is reached. It is checked when the answer is stored, and only for an answer with calls: a
 * final text at the limit is a normal end.
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
    // An edit may have answered every call since. The model must still get the results.
    effects: [state.openCalls.size === 0 ? WAKE : { type: 'again', input: { type: 'dispatch', refused } }],
  };
}

/**
 * The run stops here. Everything stored stays, and no further call starts; with `fill` in the settings each of these
 * calls is answered with a placeholder. A child ends with its run.
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
 * A child that goes idle with nothing waiting has finished: its last text is its reply, sent once. `output`: the
 * structured reply, of which `text` is the text.
 */
export function exitOnIdle(state: SessionState, text: string, output?: Json): Decision {
  if (state.parent === undefined || hasEnded(state) || hasActive(state)) return NOTHING;
  const reply = text.trim() === '' ? (state.turn?.text ?? '') : text;
  return exitDecision(state, { reason: 'completed', reply, ...defined({ output }) });
}

/**
 * Ends an idle child whose last waiting entries left without a turn, because they were recalled or set aside. Only
 * these entries kept the child from finishing (it may be paused). Nothing else would ever end it, and its parent waits.
 * `gone`: ids of the entries that left.
 */
export function exitWithout(state: SessionState, gone: readonly number[]): Decision {
  if (state.parent === undefined || hasEnded(state)) return NOTHING;
  if (state.state !== 'idle' || state.restartAt !== undefined) return NOTHING;
  const mailbox = state.mailbox.filter((entry) => !gone.includes(entry.id));
  if (mayBegin({ ...state, mailbox })) return NOTHING;
  // A child that was to work again and did not begin ends as before.
  if (state.exit !== undefined && state.revived !== 'working') return exitDecision(state, state.exit);
  if (state.suspended !== undefined) return NOTHING;
  return exitDecision(state, { reason: 'completed', reply: lastAnswerText(state) });
}

/**
 * Only a user's message wakes a suspended session, or `resume` once a child has its place. Pending calls run first, and
 * the message joins the half-step that takes their results. If no call is left, the message gets a normal turn.
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
  return { records: [{ type: 'continued', turn: state.nextTurn }], effects };
}

/**
 * `resume()` of a suspended run: the run continues from its position. `resume` also lifts a pause or a block. A child
 * whose run ended it waits for a place first.
 */
export function resumeSuspended(state: SessionState, environment: Environment): Decision {
  const resumed: readonly SessionRecord[] =
    state.paused || state.blocked !== undefined ? [{ type: 'resumed' }] : NO_RECORDS;
  if (needsPlace(state, environment)) {
    return { records: [...resumed, { type: 'revived', resumes: true }], effects: [asksForPlace(state)] };
  }
  // A child with a message to work on waits already.
  if (state.queued) return { records: resumed, effects: [] };
  if (!environment.admits) {
    const error = new LimitError('the run cannot go on now: its agent is missing, or too many sessions run', {
      retryable: true,
      data: { limit: 'liveSessions' },
    });
    return { records: [], effects: [{ type: 'refused', error: errorShape(error) }] };
  }
  const run = continueRun(state);
  return { records: [...resumed, ...run.records], effects: run.effects };
}
