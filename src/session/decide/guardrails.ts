/**
 * Guardrails before a model call and after its answer. They run outside; this file decides when they are asked and what
 * follows. An answer is stored only after they have passed it. If a crash loses it, no caller has seen it, and the call
 * is repeated. Pure.
 */
import { type ErrorShape, errorShape, TurnFailedError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { isThought, type Usage } from '../../base/messages.ts';
import { loggedForm } from '../history/logged-form.ts';
import { replaceHistory } from '../rules/replace-history.ts';
import type { Decision } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { failureDecision } from './answer.ts';
import { failureToParent } from './supervision.ts';

/** The verdict of the guardrails after the call. */
export function decideGuardedAfter(
  state: SessionState,
  input: Extract<Input, { type: 'guardedAfter' }>,
  environment: Environment,
): Decision {
  const { word, answer } = input;
  if (state.current?.halfStep !== answer.halfStep) return { records: [], effects: [{ type: 'stale', what: 'answer' }] };
  if (word.verdict === 'block') {
    return block(state, { phase: 'after', reason: word.reason, usage: answer.usage }, environment);
  }
  const passed: Input = { ...answer, isGuarded: true };
  if (word.verdict === 'pass') return { records: [], effects: [{ type: 'again', input: passed }] };
  const { blocks: _blocks, ...message } = word.value;
  const [first] = loggedForm(message as HistoryMessage);
  // The model's own thoughts stay with the rest of its answer: the model may require them (R20).
  const answered: readonly unknown[] = Array.isArray(answer.content) ? answer.content : [];
  const thoughts = answered.filter((block) => isRecord(block) && isThought(block));
  const content = [...thoughts, ...(first.blocks ?? [])];
  return { records: [], effects: [{ type: 'again', input: { ...passed, content } }] };
}

/** The verdict of the guardrails before the call: their changes are one edit, and the call follows it. */
export function decideGuardedBefore(
  state: SessionState,
  input: Extract<Input, { type: 'guardedBefore' }>,
  environment: Environment,
): Decision {
  const { word, halfStep } = input;
  if (state.current?.halfStep !== halfStep || state.current.attempt !== 1) {
    return { records: [], effects: [{ type: 'stale', what: 'guardrail' }] };
  }
  if (word.verdict === 'block') return block(state, { phase: 'before', reason: word.reason }, environment);
  const edited = word.verdict === 'pass' ? undefined : replaceHistory(state, word.value, 'guardrail', environment.now);
  return {
    records: edited === undefined ? [] : [edited],
    effects: [{ type: 'again', input: { type: 'callGuarded', halfStep } }],
  };
}

/** A guardrail threw: the half-step fails as a model call would. */
export function decideGuardFailure(
  state: SessionState,
  input: Extract<Input, { type: 'guardFailed' }>,
  environment: Environment,
): Decision {
  if (state.current?.halfStep !== input.halfStep) {
    return { records: [], effects: [{ type: 'stale', what: 'guardrail' }] };
  }
  return failureDecision(state, input.error, environment);
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
