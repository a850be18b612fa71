/**
 * The window of a session in the form that `session.history` shows. The logged messages of one answer become one
 * assistant message, and each result becomes one `tool` message, in the order of the conversation. Pure. The result
 * shares no objects that could change with the state.
 */
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import type { AssistantMessage, HistoryCall, HistoryMessage, ReasoningPart } from '../../base/history-message.ts';
import { type ContentBlock, textOf } from '../../base/messages.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { REASONING_FORMAT } from './logged-form.ts';
import { taskOf } from './tasks.ts';

/** A message of the history, and the logged messages that it consists of. */
export interface HistoryEntry {
  readonly message: HistoryMessage;
  /** Seq of the first logged message. Records identify the entry by this seq. */
  readonly seq: number;
  /** All logged messages of the entry, in order. */
  readonly logged: readonly LoggedMessage[];
}

/** The visible history, oldest first. It has no transient messages: see `transient.ts`. */
export function historyEntries(state: SessionState): readonly HistoryEntry[] {
  const entries: HistoryEntry[] = [];
  const { messages } = state;
  for (let index = 0; index < messages.length; index += 1) {
    const first = messages[index];
    if (first === undefined) break;
    const logged: LoggedMessage[] = [first];
    while (first.blocks !== undefined && messages[index + 1]?.inAnswer === true) {
      index += 1;
      logged.push(messages[index] as LoggedMessage);
    }
    entries.push({ message: historyForm(logged as [LoggedMessage], taskAt(state, first)), seq: first.seq, logged });
  }
  return entries;
}

export function historyMessages(state: SessionState): readonly HistoryMessage[] {
  return historyEntries(state).map((entry) => entry.message);
}

/** The history message of the given logged messages. */
export function historyMessage(
  state: SessionState,
  logged: readonly [LoggedMessage, ...LoggedMessage[]],
): HistoryMessage {
  return historyForm(logged, taskAt(state, logged[0]));
}

/** The history id of a logged message: the id it was given, or `m<seq>`. */
export function messageId(message: LoggedMessage): string {
  const given = message.history?.id;
  return typeof given === 'string' && given !== '' ? given : `m${message.seq}`;
}

/** The task a message belongs to; undefined if it belongs to none. */
function taskAt(state: SessionState, message: LoggedMessage): number | undefined {
  return taskOf(state.tasks, message);
}

/** The history message for the logged messages of one answer, or for one other logged message. */
function historyForm(logged: readonly [LoggedMessage, ...LoggedMessage[]], taskId: number | undefined): HistoryMessage {
  const [first] = logged;
  const base: Draft<{ id: string; createdAt: number | string; taskId?: number }> = {
    id: messageId(first),
    createdAt: first.history?.createdAt ?? first.at,
  };
  if (taskId !== undefined) base.taskId = taskId;
  if (first.history !== undefined) return { ...first.history, ...base };
  switch (first.type) {
    case 'user_message':
      return { ...base, ...defined({ key: first.key }), role: 'user', content: first.content };
    case 'system_message':
      return { ...base, role: 'user', content: `[system] ${textOf(first.content)}`, systemInjected: true };
    case 'tool_response':
      return {
        ...base,
        role: 'tool',
        content: first.content,
        toolCallId: first.toolUseId ?? '',
        name: first.toolName ?? '',
        ...(first.success === false ? { error: textOf(first.content), errorType: 'execution_error' } : {}),
        ...(first.phantom === true ? { systemInjected: true } : {}),
      };
    case 'tool_call':
    case 'agent_message':
      return first.phantom === true ? deliveryOf(first, base) : answerOf(logged, base);
  }
}

type Base = Pick<HistoryMessage, 'id' | 'createdAt' | 'taskId'>;

/** The call of a phantom pair as an injected assistant message. Such a pair shows a mailbox entry to the model. */
function deliveryOf(call: LoggedMessage, base: Base): AssistantMessage {
  const toolCalls = [callOf(call.toolUseId ?? '', call.toolName ?? '', call.input)];
  return { ...base, role: 'assistant', content: '', toolCalls, systemInjected: true };
}

function answerOf(logged: readonly [LoggedMessage, ...LoggedMessage[]], base: Base): AssistantMessage {
  const [first] = logged;
  const blocks = first.blocks ?? (typeof first.content === 'string' ? [] : first.content);
  const texts: string[] = [];
  const toolCalls: HistoryCall[] = [];
  const reasoning: ReasoningPart[] = [];
  for (const block of blocks) {
    if (block.type === 'text') texts.push(block.text);
    else if (block.type === 'tool_use') toolCalls.push(callOf(block.id, block.name, block.input));
    else if (block.type === 'thinking') {
      reasoning.push({
        type: 'text',
        format: block.origin?.provider ?? REASONING_FORMAT,
        text: block.thinking,
        signature: block.signature,
      });
    } else if (block.type === 'redacted_thinking') {
      reasoning.push({ type: 'encrypted', format: REASONING_FORMAT, data: block.data });
    }
  }
  return {
    ...base,
    role: 'assistant',
    content: blocks.length === 0 ? textOf(first.content) : texts.join(''),
    ...(toolCalls.length === 0 ? {} : { toolCalls }),
    ...(reasoning.length === 0 ? {} : { reasoning }),
    ...(first.usage === undefined ? {} : { tokenUsage: first.usage }),
    ...(isCanonical(blocks) ? {} : { blocks }),
  };
}

function callOf(callId: string, name: string, input: unknown): HistoryCall {
  return { callId, name, arguments: JSON.stringify(input ?? {}) };
}

/**
 * True if content, calls and reasoning describe the answer completely: reasoning first, at most one plain text, then
 * calls, nothing else.
 */
function isCanonical(blocks: readonly ContentBlock[]): boolean {
  let rank = 0;
  for (const block of blocks) {
    const next = canonicalRank(block);
    if (next < rank || next === 0 || (next === rank && next === TEXT_RANK)) return false;
    rank = next;
  }
  return true;
}

const TEXT_RANK = 2;

function canonicalRank(block: ContentBlock): number {
  if ('origin' in block) return 0;
  switch (block.type) {
    case 'thinking':
    case 'redacted_thinking':
      return 1;
    case 'text':
      return 'citations' in block ? 0 : TEXT_RANK;
    case 'tool_use':
      return 3;
    default:
      return 0;
  }
}
