/** Guardrails and approvals as an embedder gives them: functions on the host thread, and the checks of what they return. */
import { ConfigError, describeValue } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import type { GuardWord } from '../../session/state/inputs.ts';

/**
 * What a guardrail says: `'pass'` (or nothing), what stands in the place of what it was shown, or why it goes no further.
 */
export type GuardrailVerdict<T> = 'pass' | undefined | { readonly transform: T } | { readonly block: string };

/** Stands before each model call; is shown the history it would be made with. What it throws fails the turn. Host thread. */
export type BeforeGuardrail = (context: {
  readonly session: string;
  readonly messages: readonly HistoryMessage[];
}) => GuardrailVerdict<readonly HistoryMessage[]> | Promise<GuardrailVerdict<readonly HistoryMessage[]>>;

/** Stands after each answer, before it is stored; is shown the message it would become. What it throws fails the turn. */
export type AfterGuardrail = (context: {
  readonly session: string;
  readonly message: AssistantMessage;
}) => GuardrailVerdict<AssistantMessage> | Promise<GuardrailVerdict<AssistantMessage>>;

/** Guardrails of an agent, each list in its order. */
export interface Guardrails {
  readonly before?: readonly BeforeGuardrail[];
  readonly after?: readonly AfterGuardrail[];
}

/** A call of the model that may need a person. */
export interface ApprovalCall {
  readonly session: string;
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
}

/** Says whether a call needs a person's decision. What it throws fails the turn. Host thread. */
export type ApprovalPredicate = (call: ApprovalCall) => boolean | Promise<boolean>;

/** One after the other, each shown what the one before it made of it; a block ends the chain. Rejects with what one threw. */
export async function runGuardrails<T>(
  value: T,
  guardrails: readonly ((value: T) => unknown)[],
  check: (transformed: unknown) => T,
): Promise<GuardWord<T>> {
  let current = value;
  let isChanged = false;
  for (const guardrail of guardrails) {
    const verdict = await guardrail(current);
    if (verdict === undefined || verdict === 'pass') continue;
    if (isRecord(verdict) && typeof verdict['block'] === 'string')
      return { verdict: 'block', reason: verdict['block'] };
    if (!isRecord(verdict) || !('transform' in verdict)) {
      throw new ConfigError(
        `a guardrail must return "pass", { transform } or { block }, got ${describeValue(verdict)}`,
      );
    }
    current = check(verdict['transform']);
    isChanged = true;
  }
  return isChanged ? { verdict: 'transform', value: current } : { verdict: 'pass' };
}

const ROLES: ReadonlySet<unknown> = new Set(['system', 'user', 'assistant', 'tool']);

/** Messages a guardrail made. Throws `ConfigError` for what is no history. */
export function checkMessages(value: unknown): readonly HistoryMessage[] {
  if (!Array.isArray(value))
    throw new ConfigError(`a guardrail must transform to messages, got ${describeValue(value)}`);
  return value.map((message: unknown, index) => {
    if (!isRecord(message) || !ROLES.has(message['role'])) {
      throw new ConfigError(`message ${index} of a guardrail has no role, got ${describeValue(message)}`);
    }
    const isText = typeof message['content'] === 'string';
    const mayHoldBlocks = message['role'] === 'user' || message['role'] === 'tool';
    if (!isText && !(mayHoldBlocks && Array.isArray(message['content']))) {
      throw new ConfigError(`content of message ${index} of a guardrail is ${describeValue(message['content'])}`);
    }
    checkCalls(message, index);
    return message as HistoryMessage;
  });
}

function checkCalls(message: Readonly<Record<string, unknown>>, index: number): void {
  const calls = message['toolCalls'];
  if (message['role'] === 'tool' && typeof message['toolCallId'] !== 'string') {
    throw new ConfigError(`message ${index} of a guardrail is a result without a toolCallId`);
  }
  if (calls === undefined) return;
  const isCall = (call: unknown): boolean =>
    isRecord(call) && ['callId', 'name', 'arguments'].every((field) => typeof call[field] === 'string');
  if (!Array.isArray(calls) || !calls.every(isCall)) {
    throw new ConfigError(`toolCalls of message ${index} of a guardrail are ${describeValue(calls)}`);
  }
}

/** The assistant message a guardrail made. Throws `ConfigError` for what is none. */
export function checkReply(value: unknown): AssistantMessage {
  const [message] = checkMessages([value]);
  if (message?.role !== 'assistant')
    throw new ConfigError('a guardrail must transform a reply to an assistant message');
  return message;
}
