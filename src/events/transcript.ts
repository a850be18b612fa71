/**
 * Renders a conversation as lines of text for an enricher's model. The lines follow the columns `melete` and `mneme` of
 * the rendering table (contract §10.5). `melete` prepares a turn, so it gets shortened texts. `mneme` remembers
 * messages, so it gets whole messages with their numbers. Waiting entries are shortened for both. Pure.
 */
import { describeValue } from '../base/errors.ts';
import { isServerUse, type Message, type Pending } from '../base/messages.ts';
import { cutMiddle } from './shortening.ts';
import { isThought, shownText, thoughtOf } from './view-modes.ts';

/** The enricher that the lines are for. */
export type TranscriptReader = 'melete' | 'mneme';

/** Lines for messages in order, then for waiting entries. Successive calls are one line for `mneme`. */
export function transcript(
  messages: readonly Message[],
  pending: readonly Pending[],
  reader: TranscriptReader,
): readonly string[] {
  const lines: string[] = [];
  let calls = 0;
  const endRun = (): void => {
    if (calls > 0) lines.push(calls === 1 ? '[1 tool called]' : `[${calls} tools called]`);
    calls = 0;
  };
  for (const message of messages) {
    if (reader === 'mneme' && message.type === 'tool_call' && !isThought(message)) {
      calls += 1;
      continue;
    }
    const line = reader === 'melete' ? meleteLine(message) : mnemeLine(message);
    if (line !== null) {
      endRun();
      lines.push(line);
    }
    // The provider ran these calls while the model wrote the answer.
    const served = (message.blocks ?? []).filter(isServerUse);
    if (reader === 'melete') lines.push(...served.map(servedLine));
    else calls += served.length;
  }
  endRun();
  for (const entry of pending) {
    const line = pendingLine(entry, reader);
    if (line !== null) lines.push(line);
  }
  return lines;
}

function meleteLine(message: Message): string | null {
  const text = shownText(message.content);
  switch (message.type) {
    case 'user_message':
      return `User: ${cutMiddle(text)}`;
    case 'agent_message':
      return `Assistant: ${cutMiddle(text)}`;
    case 'system_message':
      return null;
    case 'tool_call':
      if (isThought(message)) return `Think: ${thoughtOf(message).content}`;
      return `Tool call: ${message.toolName ?? ''}(${JSON.stringify(message.input ?? {})})`;
    case 'tool_response':
      if (isThought(message)) return null;
      return message.success === false ? '❌' : '✅';
    default:
      throw noRow(message.type);
  }
}

function servedLine(use: object): string {
  const { name = '', input = {} } = use as { readonly name?: unknown; readonly input?: unknown };
  return `Tool call: ${String(name)}(${JSON.stringify(input)})`;
}

function mnemeLine(message: Message): string | null {
  const text = shownText(message.content);
  switch (message.type) {
    case 'user_message':
      return `message ${message.seq} User: ${text}`;
    case 'agent_message':
      return `message ${message.seq} Assistant: ${text}`;
    case 'system_message':
      return `message ${message.seq} System: ${text}`;
    case 'tool_call':
      return `message ${message.seq} Think: ${thoughtOf(message).content}`;
    case 'tool_response':
      return null;
    default:
      throw noRow(message.type);
  }
}

function pendingLine(entry: Pending, reader: TranscriptReader): string | null {
  const name = entry.source.name ?? '';
  const text = cutMiddle(shownText(entry.content));
  switch (entry.type) {
    case 'user_message':
      return `User (pending): ${text}`;
    case 'tool_response':
      return `tool_response ${entry.toolUseId ?? ''} (pending): ${text}`;
    case 'subagent':
      return `Sub-agent ${name} (pending): ${text}`;
    case 'from_mneme':
      // Mneme does not receive its own recalls.
      return reader === 'mneme' ? null : `Mneme recalled (pending): ${text}`;
    case 'from_melete_skill':
      return reader === 'mneme' ? null : `Melete activated skill: ${name}`;
    case 'from_melete_workflow':
      return reader === 'mneme' ? null : `Melete activated workflow: ${name}`;
    case 'from_melete_goal':
      return reader === 'mneme' ? null : `Melete logged goal ${name}: ${text}`;
    default:
      throw noRow(entry.type);
  }
}

function noRow(type: never): Error {
  return new Error(`a transcript has no form for ${describeValue(type)}`);
}
