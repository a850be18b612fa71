/**
 * Guardrails and approvals as an embedder gives them: functions on the host thread, and the checks of their return
 * values.
 */
import { ConfigError, describeValue } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { checkMessage, wrong } from '../../session/history/message-check.ts';
import type { GuardVerdict } from '../../session/state/verdicts.ts';

/**
 * The verdict of a guardrail: `'pass'` (or nothing), a replacement for the value that it received, or the reason for a
 * block.
 */
export type GuardrailVerdict<T> = 'pass' | undefined | { readonly transform: T } | { readonly block: string };

/** Runs before each model call and receives the history of that call. If it throws, the turn fails. Host thread. */
export type BeforeGuardrail = (context: {
  readonly session: string;
  readonly messages: readonly HistoryMessage[];
}) => GuardrailVerdict<readonly HistoryMessage[]> | Promise<GuardrailVerdict<readonly HistoryMessage[]>>;

/**
 * Runs after each answer, before the answer is stored. It receives the message that would be stored. If it throws, the
 * turn fails. Host thread.
 */
export type AfterGuardrail = (context: {
  readonly session: string;
  readonly message: AssistantMessage;
}) => GuardrailVerdict<AssistantMessage> | Promise<GuardrailVerdict<AssistantMessage>>;

/** The guardrails of an agent; each list is in order. */
export interface Guardrails {
  readonly before?: readonly BeforeGuardrail[];
  readonly after?: readonly AfterGuardrail[];
}

/** A tool call that may need a person's decision. */
export interface ApprovalCall {
  readonly session: string;
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
}

/** Decides whether a call needs a person's decision. If it throws, the turn fails. Host thread. */
export type ApprovalPredicate = (call: ApprovalCall) => boolean | Promise<boolean>;

/**
 * Runs guardrails one after the other; each receives the result of the previous guardrail. A block ends the chain.
 * Rejects with the error that a guardrail threw.
 */
export async function runGuardrails<T>(
  value: T,
  guardrails: readonly ((value: T) => unknown)[],
  check: (transformed: unknown) => T,
): Promise<GuardVerdict<T>> {
  let current = value;
  let isChanged = false;
  for (const guardrail of guardrails) {
    const verdict = await guardrail(current);
    if (verdict === undefined || verdict === 'pass') continue;
    if (isRecord(verdict) && typeof verdict['block'] === 'string') return { type: 'block', reason: verdict['block'] };
    if (!isRecord(verdict) || !('transform' in verdict)) {
      throw new ConfigError(
        `a guardrail must return "pass", { transform } or { block }, got ${describeValue(verdict)}`,
      );
    }
    current = check(verdict['transform']);
    isChanged = true;
  }
  return isChanged ? { type: 'transform', value: current } : { type: 'pass' };
}

/**
 * Messages that a guardrail returned. Throws `ConfigError` for a value that is not a history, and the errors of
 * `checkMessage` for a message that could not be stored and sent.
 */
export function checkMessages(value: unknown): readonly HistoryMessage[] {
  if (!Array.isArray(value))
    throw new ConfigError(`a guardrail must transform to messages, got ${describeValue(value)}`);
  return value.map((message: unknown, index) => {
    const name = `message ${index} of a guardrail`;
    const checked = checkMessage(message, name);
    if (!isRecord(message)) throw wrong(name, 'an object', message);
    if (message['role'] === 'tool') return checked as unknown as HistoryMessage;
    if (message['role'] === 'assistant') checkCalls(message, name);
    // The message itself is returned, so that it equals the stored message if the guardrail did not change it.
    return message as unknown as HistoryMessage;
  });
}

/**
 * Throws unless `content` and the `arguments` of each call are texts. The text of `arguments` becomes the input of the
 * call.
 */
function checkCalls({ content, toolCalls }: Readonly<Record<string, unknown>>, name: string): void {
  if (typeof content !== 'string') throw wrong(`${name}.content`, 'a string', content);
  if (!Array.isArray(toolCalls)) return;
  for (const call of toolCalls) {
    if (isRecord(call) && typeof call['arguments'] === 'string') continue;
    throw wrong(`${name}.toolCalls[].arguments`, 'a string', call);
  }
}

/** The assistant message that a guardrail returned. Throws `ConfigError` for any other value. */
export function checkReply(value: unknown): AssistantMessage {
  const [message] = checkMessages([value]);
  if (message?.role !== 'assistant')
    throw new ConfigError('a guardrail must transform a reply to an assistant message');
  return message;
}
