/**
 * The host thread's answers to questions of its sessions. It asks the listeners at a message boundary, the predicate
 * that says which calls need a person, and the guardrails of a request or an answer. Each question has one verdict.
 * Questions and verdicts are plain data.
 */
import { asError, ConfigError, describeValue } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { NotPlainError, toPlainJson } from '../../base/json.ts';
import type { BoundaryVerdict, GuardVerdict } from '../../session/state/verdicts.ts';
import { type ApprovalPredicate, checkMessages, checkReply, type Guardrails, runGuardrails } from './guardrails.ts';
import type { HostQuestion } from './host-question.ts';
import type { WaitingListeners } from './waiting-listeners.ts';

/** The verdict on a question about a boundary, a request or an answer. */
export type HostVerdict = BoundaryVerdict | GuardVerdict<readonly HistoryMessage[]> | GuardVerdict<AssistantMessage>;

/** The functions that an embedder gave, by agent. */
export interface HostDecisions {
  readonly listeners?: WaitingListeners;
  readonly guardrails?: ReadonlyMap<string, Guardrails>;
  readonly approvals?: ReadonlyMap<string, ApprovalPredicate>;
}

/**
 * Answers a question. Rejects with a `ConfigError` (`config`) that names the function that threw or returned a
 * forbidden value.
 */
export async function decideOnHost(decisions: HostDecisions, question: HostQuestion): Promise<HostVerdict> {
  const { agent, session } = question;
  const { before = [], after = [] } = decisions.guardrails?.get(agent) ?? {};
  switch (question.on) {
    case 'boundary':
      return atBoundary(decisions, question);
    case 'request': {
      const steps = before.map(
        (guardrail) => (messages: readonly HistoryMessage[]) => guardrail({ session, messages }),
      );
      return guarded(agent, () => runGuardrails(question.messages, steps, checkMessages));
    }
    case 'answer': {
      const steps = after.map((guardrail) => (message: AssistantMessage) => guardrail({ session, message }));
      return guarded(agent, () => runGuardrails(question.message, steps, checkReply));
    }
  }
}

async function atBoundary(
  { listeners, approvals }: HostDecisions,
  { agent, session, messages, calls }: Extract<HostQuestion, { on: 'boundary' }>,
): Promise<BoundaryVerdict> {
  const interrupt = await named(`a listener of session ${JSON.stringify(session)}`, () =>
    listeners === undefined ? Promise.resolve(undefined) : listeners.notify(session, messages),
  );
  // A run that a listener stops here starts no calls, so its calls need no approval.
  if (interrupt !== undefined) return { interrupt, approve: [] };
  const needsPerson = approvals?.get(agent);
  const approve: string[] = [];
  for (const { callId, name, input } of needsPerson === undefined ? [] : calls) {
    const isNeeded = await named(`approve of agent ${JSON.stringify(agent)}`, () =>
      needsPerson?.({ session, callId, name, input }),
    );
    // A forgotten `return` must not let a call run that a person should see.
    if (typeof isNeeded !== 'boolean')
      throw new ConfigError(
        `approve of agent ${JSON.stringify(agent)} must return true or false, got ${describeValue(isNeeded)}`,
      );
    if (isNeeded) approve.push(callId);
  }
  return { approve };
}

async function named<T>(what: string, run: () => T | Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw new ConfigError(`${what} threw: ${asError(error).message}`, { cause: error });
  }
}

/**
 * The verdict of an agent's guardrails, with a changed value as the plain JSON that is stored. A structured clone would
 * keep values that the log cannot hold.
 */
async function guarded<T>(agent: string, run: () => Promise<GuardVerdict<T>>): Promise<GuardVerdict<T>> {
  const verdict = await named(`a guardrail of agent ${JSON.stringify(agent)}`, run);
  if (verdict.type !== 'transform') return verdict;
  try {
    return { type: 'transform', value: toPlainJson(verdict.value) as T };
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new ConfigError(`a guardrail returned a value that cannot be stored: ${error.message}`, { cause: error });
  }
}
