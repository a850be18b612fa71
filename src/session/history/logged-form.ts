/**
 * The logged form of a history message. An assistant message becomes one logged message for its text and one for each
 * call; any other message becomes one logged message. Requests are rendered from the logged form, which is made only of
 * fields that may be sent. Pure.
 */

import { withoutOrigin } from '../../base/block-origin.ts';
import type { Draft } from '../../base/draft.ts';
import type { AssistantMessage, HistoryMessage, ToolMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, isThought, type ToolUseBlock } from '../../base/messages.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import type { LoggedMessage } from '../state/messages.ts';
import { callLabel, estimateCall, estimateContent, estimateTokens } from '../state/tokens.ts';
import { withoutHoles } from './to-api.ts';

/** Reasoning parts of this format are blocks of the Messages API. */
export const REASONING_FORMAT = 'anthropic';

/**
 * The logged messages of one history message, in order; at least one. The first logged message has the history message
 * itself (`history`).
 */
export function loggedForm(message: HistoryMessage): readonly [MessageDraft, ...MessageDraft[]] {
  switch (message.role) {
    case 'system':
      return [
        {
          type: 'system_message',
          content: message.content,
          tokens: estimateTokens(message.content),
          prompt: true,
          history: message,
        },
      ];
    case 'user':
      return [
        {
          type: 'user_message',
          content: userContent(message.content),
          tokens: estimateContent(message.content),
          source: { type: 'user' },
          history: message,
        },
      ];
    case 'tool':
      return [toolResponse(message)];
    case 'assistant':
      return assistantParts(message);
  }
}

/**
 * The content of a user's message without results of calls. An update or an import may leave a result there. Such a
 * result is not sent, because it answers no call of the previous message (R04).
 */
function userContent(content: string | readonly ContentBlock[]): string | readonly ContentBlock[] {
  if (typeof content === 'string' || content.every((block) => block.type !== 'tool_result'))
    return withoutHoles(content);
  return withoutHoles(content.filter((block) => block.type !== 'tool_result'));
}

function toolResponse(message: ToolMessage): MessageDraft {
  const name = wireName(message.name);
  return {
    type: 'tool_response',
    content: withoutHoles(message.content),
    tokens: estimateContent(message.content),
    toolUseId: wireId(message.toolCallId),
    toolName: name,
    success: message.error === undefined || message.error === null,
    source: { type: 'tool', name },
    history: message,
  };
}

function assistantParts(message: AssistantMessage): readonly [MessageDraft, ...MessageDraft[]] {
  const blocks = assistantBlocks(message);
  const parts: Draft<MessageDraft>[] = [];
  if (message.content.trim() !== '') {
    parts.push({ type: 'agent_message', content: message.content, tokens: estimateTokens(message.content) });
  }
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    parts.push({
      type: 'tool_call',
      content: callLabel(block.name),
      tokens: estimateCall(block),
      toolUseId: block.id,
      toolName: block.name,
      input: block.input,
    });
  }
  const [first, ...others] = parts;
  const head: Draft<MessageDraft> = first ?? {
    type: 'agent_message',
    content: message.content,
    tokens: estimateContent(blocks),
  };
  head.blocks = blocks;
  head.history = message;
  if (message.tokenUsage !== undefined) head.usage = message.tokenUsage;
  for (const part of others) part.inAnswer = true;
  return [head, ...others];
}

/**
 * The blocks of an assistant message that are sent: its own `blocks`, or its text and then its calls. Reasoning and
 * origins that an embedder gave stay in the history message and are not sent. The API would refuse every later request
 * if it did not accept the signature of the reasoning (R21).
 */
function assistantBlocks(message: AssistantMessage): readonly ContentBlock[] {
  if (message.blocks !== undefined) return message.blocks.filter((block) => !isThought(block)).flatMap(withoutOrigin);
  const blocks: ContentBlock[] = [];
  if (message.content.trim() !== '') blocks.push({ type: 'text', text: message.content });
  for (const call of message.toolCalls ?? []) {
    const use: ToolUseBlock = {
      type: 'tool_use',
      id: wireId(call.callId),
      name: wireName(call.name),
      input: inputOf(call.arguments),
    };
    blocks.push(use);
  }
  return blocks;
}

/** The input of a call, parsed from its arguments. Empty and unreadable arguments give an empty input. */
function inputOf(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const input: unknown = JSON.parse(text);
    return isRecord(input) ? input : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

const ID_CHARACTERS_MAX = 128;

/** A call id in the form that the API accepts (R07). A call and its result keep equal ids. */
export function wireId(callId: string): string {
  const legal = callId.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, ID_CHARACTERS_MAX);
  return legal === '' ? '_' : legal;
}

/** A tool's name in the form the API accepts (R29). */
function wireName(name: string): string {
  return wireId(name);
}

const OWN_ID = /^m([1-9]\d{0,14})$/;

/** The position of a message in the conversation: ascending, and equal for the parts of one answer. */
export function placeOf(message: LoggedMessage): number {
  return message.place ?? message.seq;
}

/** The number in an id of the runtime's own form, `m<n>`; 0 for any other id. */
export function ownSeq(id: string): number {
  const match = OWN_ID.exec(id);
  return match === null ? 0 : Number(match[1]);
}
