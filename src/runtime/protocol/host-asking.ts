/**
 * Translates between a session's effects and the host's decisions: an effect becomes a question, an answer becomes an
 * input.
 */
import type { ErrorShape } from '../../base/errors.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import { boundaryMessages } from '../../session/rules/run-loop.ts';
import type { Effect, Input } from '../../session/state/inputs.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { HeldCall, HostQuestion, HostWord } from './host-decisions.ts';

/** An effect that asks the host. */
export type Asking = Extract<Effect, { type: 'consult' | 'guardBefore' | 'guardAfter' }>;

/** True for an effect that asks the host. */
export function isAsking(effect: Effect): effect is Asking {
  return effect.type === 'consult' || effect.type === 'guardBefore' || effect.type === 'guardAfter';
}

/** The question, for the session's present state; undefined when the session has moved past it and needs no answer. */
export function questionOf(state: SessionState, asking: Asking): HostQuestion | undefined {
  const of = { agent: state.agent ?? '', session: state.id };
  if (asking.type === 'consult') {
    const { held } = state;
    if (held === undefined || held.at !== asking.at || held.halfStep !== asking.halfStep) return undefined;
    return {
      ...of,
      type: 'boundary',
      messages: asking.notifiesListeners ? boundaryMessages(state) : [],
      calls: asking.asksApproval ? heldCalls(state) : [],
    };
  }
  if (state.current?.halfStep !== asking.halfStep) return undefined;
  if (asking.type === 'guardAfter') return { ...of, type: 'guard_after', message: asking.message };
  return { ...of, type: 'guard_before', messages: historyMessages(state) };
}

function heldCalls(state: SessionState): readonly HeldCall[] {
  return (state.held?.calls ?? []).flatMap(({ id, refused }) => {
    const call = refused === undefined ? state.openCalls.get(id) : undefined;
    return call === undefined ? [] : [{ callId: id, name: call.name, input: call.input }];
  });
}

/** The input that brings the answer to the session. */
export function answerOf(asking: Asking, word: HostWord): Input {
  if (asking.type === 'consult' && word.type === 'boundary') {
    return { type: 'consulted', at: asking.at, halfStep: asking.halfStep, word: word.word };
  }
  if (asking.type === 'guardBefore' && word.type === 'guard_before') {
    return { type: 'guardedBefore', halfStep: asking.halfStep, word: word.word };
  }
  if (asking.type === 'guardAfter' && word.type === 'guard_after') {
    return { type: 'guardedAfter', answer: asking.answer, word: word.word };
  }
  throw new Error(`the host answered ${word.type} to ${asking.type}`);
}

/** The input that reports a missing answer to the session. */
export function failureOf(asking: Asking, error: ErrorShape): Input {
  if (asking.type !== 'consult') return { type: 'guardFailed', halfStep: asking.halfStep, error };
  return { type: 'consulted', at: asking.at, halfStep: asking.halfStep, error };
}
