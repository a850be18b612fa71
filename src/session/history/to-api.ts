/**
 * Converts a history to messages in a general form for a model's API (`history.toApi`). Messages outside the given
 * tasks are left out, and so are fields that are not sent. Each call gets exactly one result. Answers get an empty
 * `reasoningContent` if other answers have one, or if the caller says that the provider requires it. The same history
 * gives the same bytes, because prompt caches compare bytes. Pure, except for `withReasoningPad`.
 */
import type { HistoryCall, HistoryMessage, ReasoningPart, ToolMessage } from '../../base/history-message.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { MISSING_RESULT } from '../rules/tool-texts.ts';
import { callsOf } from './repair.ts';

/** The options of `toApi`. */
export interface ToApiOptions {
  /** True: every assistant message gets a `reasoningContent`. */
  readonly forceReasoningPad?: boolean;
  /** Only messages of these tasks, and those without a task, are included; null: all messages. */
  readonly taskChain?: readonly number[] | null;
}

/** One message of the result. */
export interface ApiMessage {
  readonly role: HistoryMessage['role'];
  readonly content: string | readonly ContentBlock[];
  readonly toolCalls?: readonly HistoryCall[];
  readonly reasoning?: readonly ReasoningPart[];
  readonly reasoningContent?: string | null;
  readonly toolCallId?: string;
  readonly name?: string;
  /** Present if the result is a failure. */
  readonly error?: string;
}

/** The text that replaces images without data if nothing else is left. */
const IMAGE_GONE = '[image no longer available]';

/** The messages for a model's API, in the form that the head of the file describes. */
export function toApi(messages: readonly HistoryMessage[], options: ToApiOptions = {}): readonly ApiMessage[] {
  const { taskChain } = options;
  const chain = taskChain === undefined || taskChain === null ? undefined : new Set(taskChain);
  // Task 0 is a normal task here. A message without a task belongs to all tasks.
  const onChain =
    chain === undefined
      ? messages
      : messages.filter(({ taskId }) => taskId === undefined || taskId === null || chain.has(taskId));
  return padReasoning(paired(onChain), options.forceReasoningPad ?? false);
}

/** Places one result for each call directly after its assistant message, and drops results without a call. */
function paired(messages: readonly HistoryMessage[]): readonly ApiMessage[] {
  const sent: ApiMessage[] = [];
  const used = new Set<HistoryMessage>();
  for (let index = 0; index < messages.length; index += 1) {
    const message = messages[index];
    if (message === undefined || message.role === 'tool') continue;
    sent.push(stripped(message));
    if (message.role === 'assistant') sent.push(...resultsOf(messages, index, used));
  }
  return sent;
}

/**
 * The results for the calls of the message at `index`. First come the results that directly follow the message, in
 * their order. Each other call gets a later result, or a notice if there is none.
 */
function resultsOf(
  messages: readonly HistoryMessage[],
  index: number,
  used: Set<HistoryMessage>,
): readonly ApiMessage[] {
  const calls = callsOf(messages[index]).filter(({ callId }) => callId !== '');
  const wanted = new Map(calls.map((call) => [call.callId, call]));
  if (wanted.size === 0) return [];
  const results: ApiMessage[] = [];
  const take = (result: ToolMessage): void => {
    used.add(result);
    wanted.delete(result.toolCallId);
    results.push(stripped(result));
  };
  for (let next = index + 1; next < messages.length; next += 1) {
    const result = messages[next];
    if (result?.role !== 'tool') break;
    if (wanted.has(result.toolCallId) && !used.has(result)) take(result);
  }
  for (const call of [...wanted.values()]) {
    const later = messages.find(
      (message, place): message is ToolMessage =>
        place > index && message.role === 'tool' && message.toolCallId === call.callId && !used.has(message),
    );
    if (later !== undefined) take(later);
    else results.push({ role: 'tool', content: MISSING_RESULT, toolCallId: call.callId, name: call.name });
  }
  return results;
}

/** The message with only the fields that are sent. */
function stripped(message: HistoryMessage): ApiMessage {
  const content = withoutHoles(message.content);
  if (message.role === 'assistant') {
    const { toolCalls, reasoning, reasoningContent } = message;
    return {
      role: 'assistant',
      content,
      ...(toolCalls === undefined || toolCalls.length === 0
        ? {}
        : { toolCalls: toolCalls.map(({ callId, name, arguments: given }) => ({ callId, name, arguments: given })) }),
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(reasoningContent === undefined ? {} : { reasoningContent }),
    };
  }
  if (message.role !== 'tool') return { role: message.role, content };
  const { toolCallId, name, error } = message;
  return { role: 'tool', content, toolCallId, name, ...(typeof error === 'string' ? { error } : {}) };
}

/** A content without the images whose data was removed; a notice if no other block is left. */
export function withoutHoles(content: string | readonly ContentBlock[]): string | readonly ContentBlock[] {
  if (typeof content === 'string' || !content.some(isHole)) return content;
  const kept = content.filter((block) => !isHole(block));
  return kept.length === 0 ? IMAGE_GONE : kept;
}

/** True for an image block without its data. */
function isHole(block: ContentBlock): boolean {
  if (block.type !== 'image') return false;
  const { type, data } = block.source;
  return type === 'base64' && (typeof data !== 'string' || data === '');
}

/**
 * Adds an empty `reasoningContent` to assistant messages without that field, if `force` is set or any assistant message
 * has a text in the field. The text may be empty; null is no text. Otherwise the list itself is returned. The given
 * messages are never changed.
 */
export function padReasoning<M extends { readonly role: string; readonly reasoningContent?: string | null }>(
  messages: readonly M[],
  force = false,
): readonly M[] {
  const isAssistant = (message: M): boolean => message.role === 'assistant';
  const hasEvidence = messages.some(
    (message) => isAssistant(message) && message.reasoningContent !== undefined && message.reasoningContent !== null,
  );
  if (!force && !hasEvidence) return messages;
  return messages.map((message) =>
    isAssistant(message) && message.reasoningContent === undefined ? { ...message, reasoningContent: '' } : message,
  );
}

const PAD_SIGNS: readonly string[] = ['thinking', 'must be passed back', 'must be provided'];

/** True for the error of a provider that refused a request because assistant messages lack their reasoning. */
export function wantsReasoningPad(error: unknown): boolean {
  if (!(error instanceof Error) || Reflect.get(error, 'status') !== 400) return false;
  const text = error.message.toLowerCase();
  return text.includes('reasoning_content') && PAD_SIGNS.some((sign) => text.includes(sign));
}

/**
 * Makes a call, and repeats it with padding if the first attempt was refused for missing reasoning. Use it only with
 * providers that accept `reasoningContent`. Rejects with the error of the last attempt.
 */
export async function withReasoningPad<T>(call: (forceReasoningPad: boolean) => Promise<T>): Promise<T> {
  try {
    return await call(false);
  } catch (error) {
    if (!wantsReasoningPad(error)) throw error;
    return call(true);
  }
}
