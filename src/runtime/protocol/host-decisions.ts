/**
 * What the host thread decides for its sessions: what listeners say at a message boundary, which calls need a person, what
 * guardrails make of a request and of an answer. One question, one answer; plain data both ways.
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

/** What a session thread asks. */
export type HostQuestion = { readonly agent: string; readonly session: string } & (
  | {
      readonly type: 'boundary';
      /** Told to the listeners; none where they are not to be told. */
      readonly messages: readonly HistoryMessage[];
      /** Asked about, one by one; none where the agent has no predicate. */
      readonly calls: readonly HeldCall[];
    }
  | { readonly type: 'guard_before'; readonly messages: readonly HistoryMessage[] }
  | { readonly type: 'guard_after'; readonly message: AssistantMessage }
);

/** Its answer, by the type of the question. */
export type HostWord =
  | { readonly type: 'boundary'; readonly word: BoundaryWord }
  | { readonly type: 'guard_before'; readonly word: GuardWord<readonly HistoryMessage[]> }
  | { readonly type: 'guard_after'; readonly word: GuardWord<AssistantMessage> };

/** The functions an embedder gave, by agent. */
export interface HostDecisions {
  readonly listeners?: WaitingListeners;
  readonly guardrails?: ReadonlyMap<string, Guardrails>;
  readonly approvals?: ReadonlyMap<string, ApprovalPredicate>;
}

/** Answers a question. Rejects with `ConfigError` (`config`) that names what threw, or returned what it may not. */
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
    listeners === undefined ? Promise.resolve(undefined) : listeners.tell(session, messages),
  );
  // Nothing of a run that stops here starts: nobody need be asked about its calls.
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

/** What leaves the host is plain JSON, as it is stored: a clone would keep what the log cannot. */
function plain<T>(word: GuardWord<T>): GuardWord<T> {
  if (word.verdict !== 'transform') return word;
  try {
    return { verdict: 'transform', value: toPlainJson(word.value) as T };
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new ConfigError(`a guardrail made something that cannot be stored: ${error.message}`, { cause: error });
  }
}
