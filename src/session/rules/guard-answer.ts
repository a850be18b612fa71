/** The question to the guardrails after a call. It has the answer in the form that guardrails receive. Pure. */
import type { AssistantMessage } from '../../base/history-message.ts';
import { historyEntries } from '../history/history-form.ts';
import type { Decision } from '../state/decision.ts';
import type { Environment } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import type { AnsweredInput } from '../state/verdicts.ts';
import { answerText, storableAnswer } from './answer.ts';

/**
 * The effect that asks the guardrails about an answer. Undefined if the agent has no such guardrails, or if they have
 * judged this answer already.
 */
export function guardAnswer(state: SessionState, input: AnsweredInput, environment: Environment): Decision | undefined {
  if (environment.agent.guards?.after !== true || input.isGuarded === true) return undefined;
  const message = answerMessage(state, input, environment.now);
  return {
    records: [],
    effects: [{ type: 'consult', on: 'answer', halfStep: input.halfStep, message, answer: input }],
  };
}

/** The answer as it would be stored, as a message of the history. Only text, calls and reasoning are shown. */
function answerMessage(state: SessionState, input: AnsweredInput, now: number): AssistantMessage {
  const { stop, halfStep } = input;
  const { content } = storableAnswer(input.content, {
    stop,
    halfStep,
    taken: state.callIds,
    awaited: state.awaitedUses,
    timeoutMsOf: () => undefined,
  });
  const logged: LoggedMessage = {
    seq: state.nextMessageSeq,
    at: now,
    type: 'agent_message',
    content: answerText(content),
    tokens: 0,
    usage: input.usage,
    blocks: content,
  };
  const [entry] = historyEntries({ ...state, messages: [logged] });
  if (entry?.message.role !== 'assistant') throw new Error('an answer that is no assistant message');
  const { blocks: _blocks, ...shown } = entry.message;
  return shown as AssistantMessage;
}
