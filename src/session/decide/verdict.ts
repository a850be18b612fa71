/**
 * Applies the verdicts of an embedder's functions. Listeners and approval predicates judge at a message boundary.
 * Guardrails judge before a model call and after its answer. These functions run outside the session. The effect
 * `consult` asks them, and the input `verdict` brings the verdict. An answer is stored only after the guardrails have
 * judged it. If a crash loses an answer before that, no caller has seen the answer, and the call is repeated. Pure.
 *
 * A person's decision about a call is not a verdict (see `approval.ts`).
 */
import { type ErrorShape, errorShape, TurnFailedError } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { isThought, type Usage } from '../../base/messages.ts';
import { loggedForm } from '../history/logged-form.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { historyReplacement } from '../rules/history-replacement.ts';
import { awaitsVerdict } from '../rules/run-loop.ts';
import { type Decision, NO_RECORDS } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import type { AnsweredInput, GuardVerdict } from '../state/verdicts.ts';
import { failureDecision } from './answer.ts';
import { decideBoundary } from './run-loop.ts';
import { failureToParent } from './supervision.ts';

/** Applies a verdict. The verdict is dropped if its boundary, request or answer is no longer the current one. */
export function decideVerdict(
  state: SessionState,
  input: Extract<Input, { type: 'verdict' }>,
  environment: Environment,
): Decision {
  if (!awaitsVerdict(state, input)) return { records: [], effects: [{ type: 'stale', what: 'verdict' }] };
  if (input.on === 'boundary') return decideBoundary(state, environment, input.verdict);
  // A guardrail that threw fails the half-step as a failed model call would.
  if ('error' in input.verdict) return failureDecision(state, input.verdict.error, environment);
  return input.on === 'request'
    ? judgeRequest(state, input.halfStep, input.verdict, environment)
    : judgeAnswer(state, input.answer, input.verdict, environment);
}

/** Applies the verdict of the guardrails before a call. Their changes are one edit before the call. */
function judgeRequest(
  state: SessionState,
  halfStep: number,
  verdict: GuardVerdict<readonly HistoryMessage[]>,
  environment: Environment,
): Decision {
  if (verdict.type === 'block') return block(state, { phase: 'before', reason: verdict.reason }, environment);
  if (verdict.type === 'pass') {
    return { records: NO_RECORDS, effects: [callOrEvaluate(state, environment, halfStep, state.epoch)] };
  }
  const edited = historyReplacement(state, verdict.value, 'guardrail', environment.now);
  const passed: Input = { type: 'verdict', on: 'request', halfStep, verdict: { type: 'pass' } };
  return {
    records: edited === undefined ? NO_RECORDS : [edited],
    effects: [{ type: 'again', input: passed }],
  };
}

/**
 * Applies the verdict of the guardrails after a call. The answer is stored as it came, or as the guardrails changed it,
 * or not at all.
 */
function judgeAnswer(
  state: SessionState,
  answer: AnsweredInput,
  verdict: GuardVerdict<AssistantMessage>,
  environment: Environment,
): Decision {
  if (verdict.type === 'block') {
    return block(state, { phase: 'after', reason: verdict.reason, usage: answer.usage }, environment);
  }
  const passed: Input = { ...answer, isGuarded: true };
  if (verdict.type === 'pass') return { records: [], effects: [{ type: 'again', input: passed }] };
  const { blocks: _blocks, ...message } = verdict.value;
  const [first] = loggedForm(message as HistoryMessage);
  // The model's own thoughts stay with its answer, because the model may require them (R20). Thoughts of other vendors'
  // models are dropped: those vendors refuse a thought whose following text or call was changed.
  const answered: readonly unknown[] = Array.isArray(answer.content) ? answer.content : [];
  const thoughts = answered.filter((block) => isRecord(block) && isThought(block) && block['origin'] === undefined);
  const content = [...thoughts, ...(first.blocks ?? [])];
  return { records: [], effects: [{ type: 'again', input: { ...passed, content } }] };
}

function block(
  state: SessionState,
  what: { readonly phase: 'before' | 'after'; readonly reason: string; readonly usage?: Usage },
  environment: Environment,
): Decision {
  const error = blockError(what.phase, what.reason);
  const blocked: SessionRecord = {
    type: 'blocked',
    halfStep: state.current?.halfStep ?? 0,
    error,
    ...(what.usage === undefined ? {} : { usage: what.usage }),
  };
  const failure = failureToParent(state, error, environment);
  return { records: [blocked, ...failure.records], effects: failure.effects };
}

function blockError(phase: 'before' | 'after', reason: string): ErrorShape {
  const what = phase === 'before' ? 'request' : 'reply';
  return errorShape(
    new TurnFailedError(`a guardrail blocked the ${what}: ${reason}`, {
      data: { reason: 'guardrail', phase, detail: reason },
    }),
  );
}
