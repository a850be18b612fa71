/**
 * Builds the questions that a session thread asks its host. The effect of the session names the kind of question, and
 * the session's state supplies the content.
 */
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import { awaitsVerdict, boundaryMessages } from '../../session/rules/run-loop.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { Question } from '../../session/state/verdicts.ts';

/** A tool call from a model answer that the session holds until its verdict. */
export interface HeldCall {
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
}

/**
 * A question from a session thread to its host. `on` says what the host judges, as in `Question`. `agent`: the key of
 * the session's definition.
 */
export type HostQuestion = { readonly agent: string; readonly session: string } & (
  | {
      readonly on: 'boundary';
      /** The messages for the listeners; empty when the listeners are not notified. */
      readonly messages: readonly HistoryMessage[];
      /** The calls that the approval predicate judges one by one; empty when the agent has no predicate. */
      readonly calls: readonly HeldCall[];
    }
  | { readonly on: 'request'; readonly messages: readonly HistoryMessage[] }
  | { readonly on: 'answer'; readonly message: AssistantMessage }
);

/**
 * The question for the session's present state; undefined when the session no longer awaits the verdict. `agent`: the
 * key of the agent's definition.
 */
export function hostQuestion(state: SessionState, question: Question, agent: string): HostQuestion | undefined {
  if (!awaitsVerdict(state, question)) return undefined;
  const of = { agent, session: state.id };
  switch (question.on) {
    case 'boundary':
      return {
        ...of,
        on: 'boundary',
        messages: question.notifiesListeners ? boundaryMessages(state) : [],
        calls: question.asksApproval ? heldCalls(state) : [],
      };
    case 'request':
      return { ...of, on: 'request', messages: historyMessages(state) };
    case 'answer':
      return { ...of, on: 'answer', message: question.message };
  }
}

function heldCalls(state: SessionState): readonly HeldCall[] {
  return (state.held?.calls ?? []).flatMap(({ id, refused }) => {
    const call = refused === undefined ? state.openCalls.get(id) : undefined;
    return call === undefined ? [] : [{ callId: id, name: call.name, input: call.input }];
  });
}
