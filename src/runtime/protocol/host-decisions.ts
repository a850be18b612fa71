/**
 * The host thread's decisions for its sessions: verdicts of listeners at a message boundary, calls that need a person,
 * and guardrails of a request and of an answer. Each question has one answer. Both are plain data.
 */
import { asError, ConfigError } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { NotPlainError, toPlainJson } from '../../base/json.ts';
import type { BoundaryWord, GuardWord } from '../../session/state/inputs.ts';
import { type ApprovalPredicate, checkMessages, checkReply, type Guardrails, runGuardrails } from './guardrails.ts';
import type { WaitingListeners } from './waiting-listeners.ts';

/** A call of a held answer. */
export interface HeldCall {
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
}

/** A question of a session thread. */
export type HostQuestion = { readonly agent: string; readonly session: string } & (
  | {
      readonly type: 'boundary';
      /** Passed to the listeners; empty when the listeners are not notified. */
      readonly messages: readonly HistoryMessage[];
      /** Shown to the approval predicate one by one; empty when the agent has no predicate. */
      readonly calls: readonly HeldCall[];
    }
  | { readonly type: 'guard_before'; readonly messages: readonly HistoryMessage[] }
  | { readonly type: 'guard_after'; readonly message: AssistantMessage }
);

/** The answer, by the type of the question. */
export type HostWord =
  | { readonly type: 'boundary'; readonly word: BoundaryWord }
  | { readonly type: 'guard_before'; readonly word: GuardWord<readonly HistoryMessage[]> }
  | { readonly type: 'guard_after'; readonly word: GuardWord<AssistantMessage> };

/** The functions that an embedder gave, by agent. */
export interface HostDecisions {
  readonly listeners?: WaitingListeners;
  readonly guardrails?: ReadonlyMap<string, Guardrails>;
  readonly approvals?: ReadonlyMap<string, ApprovalPredicate>;
}

/**
 * Answers a question. Rejects with `ConfigError` (`config`) that names the function that threw or returned a forbidden
 * value.
 */
export async function decideOnHost(decisions: HostDecisions, question: HostQuestion): Promise<HostWord> {
  const { agent, session } = question;
  switch (question.type) {
    case 'boundary':
      return { type: 'boundary', word: await atBoundary(decisions, question) };
    case 'guard_before': {
      const before = decisions.guardrails?.get(agent)?.before ?? [];
      const steps = before.map(
        (guardrail) => (messages: readonly HistoryMessage[]) => guardrail({ session, messages }),
      );
      const word = await named(`a guardrail of agent ${JSON.stringify(agent)}`, () =>
        runGuardrails(question.messages, steps, checkMessages),
      );
      return { type: 'guard_before', word: plain(word) };
    }
    case 'guard_after': {
      const after = decisions.guardrails?.get(agent)?.after ?? [];
      const steps = after.map((guardrail) => (message: AssistantMessage) => guardrail({ session, message }));
      const word = await named(`a guardrail of agent ${JSON.stringify(agent)}`, () =>
        runGuardrails(question.message, steps, checkReply),
      );
      return { type: 'guard_after', word: plain(word) };
    }
  }
}

async function atBoundary(
  { listeners, approvals }: HostDecisions,
  { agent, session, messages, calls }: Extract<HostQuestion, { type: 'boundary' }>,
): Promise<BoundaryWord> {
  const interrupt = await named(`a listener of session ${JSON.stringify(session)}`, () =>
    listeners === undefined ? Promise.resolve(undefined) : listeners.notify(session, messages),
  );
  // A run that stops here starts no calls, so its calls need no approval.
  if (interrupt !== undefined) return { interrupt, approve: [] };
  const needsPerson = approvals?.get(agent);
  const approve: string[] = [];
  for (const { callId, name, input } of needsPerson === undefined ? [] : calls) {
    const isNeeded = await named(`approve of agent ${JSON.stringify(agent)}`, () =>
      needsPerson?.({ session, callId, name, input }),
    );
    if (isNeeded === true) approve.push(callId);
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
 * Values leave the host as the plain JSON that is stored: a structured clone would keep values that the log cannot
 * hold.
 */
function plain<T>(word: GuardWord<T>): GuardWord<T> {
  if (word.verdict !== 'transform') return word;
  try {
    return { verdict: 'transform', value: toPlainJson(word.value) as T };
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new ConfigError(`a guardrail made something that cannot be stored: ${error.message}`, { cause: error });
  }
}
