/**
 * Checks the form of a message from outside. A message that passes can be stored, shown and sent in a legal request.
 * Pure.
 */
import { KEY_CHARACTERS_MAX } from '../../base/bounds.ts';
import { type ContentPlace, checkBlocks } from '../../base/content-rules.ts';
import { describeValue, InvalidArgumentError } from '../../base/errors.ts';
import type { HistoryDraft } from '../../base/history-message.ts';
import { isRecord, type Json } from '../../base/json.ts';

const REASONING_TYPES: ReadonlySet<string> = new Set(['text', 'summary', 'encrypted']);

/**
 * A message in a form that may be stored. Throws `InvalidArgumentError` (`invalid_argument`) that names the wrong
 * field, or `ContentError` that names the block.
 */
export function checkMessage(value: unknown, name = 'message'): HistoryDraft {
  if (!isRecord(value)) throw wrong(name, 'an object', value);
  const { id, createdAt, taskId } = value;
  if (id !== undefined) checkId(id, `${name}.id`);
  if (createdAt !== undefined && typeof createdAt !== 'string' && typeof createdAt !== 'number') {
    throw wrong(`${name}.createdAt`, 'a number or a string', createdAt);
  }
  if (taskId !== undefined && taskId !== null && !(Number.isSafeInteger(taskId) && Number(taskId) >= 0)) {
    throw wrong(`${name}.taskId`, 'a whole number', taskId);
  }
  const draft = value as unknown as HistoryDraft;
  switch (value['role']) {
    case 'system':
      checkText(value['content'], `${name}.content`);
      return draft;
    case 'user':
      checkContent(value['content'], `${name}.content`, 'history');
      return draft;
    case 'assistant':
      return checkAssistant(draft, name);
    case 'tool':
      checkText(value['toolCallId'], `${name}.toolCallId`);
      checkContent(value['content'], `${name}.content`, 'result');
      checkOptionalText(value['error'], `${name}.error`);
      checkOptionalText(value['errorType'], `${name}.errorType`);
      if (value['name'] !== undefined) checkText(value['name'], `${name}.name`);
      return value['name'] === undefined ? { ...draft, name: '' } : draft;
    default:
      throw wrong(`${name}.role`, '"system", "user", "assistant" or "tool"', value['role']);
  }
}

/** Returns `id` if it can be the id of a message; throws `InvalidArgumentError` otherwise. */
export function checkId(id: unknown, name = 'id'): string {
  if (typeof id === 'string' && id !== '' && id.length <= KEY_CHARACTERS_MAX) return id;
  throw wrong(name, `a string of 1 to ${KEY_CHARACTERS_MAX} characters`, id);
}

/** The error for an argument of the wrong form. */
export function wrong(name: string, wanted: string, value: unknown): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', `${name} must be ${wanted}, got ${describeValue(value)}`);
}

function checkAssistant(draft: HistoryDraft, name: string): HistoryDraft {
  const content: unknown = draft['content'] ?? '';
  checkText(content, `${name}.content`);
  const { toolCalls, reasoning, blocks, reasoningContent, tokenUsage } = draft;
  checkOptionalText(reasoningContent, `${name}.reasoningContent`);
  if (tokenUsage !== undefined && tokenUsage !== null && !isRecord(tokenUsage)) {
    throw wrong(`${name}.tokenUsage`, 'an object', tokenUsage);
  }
  for (const [index, part] of listOf(reasoning, `${name}.reasoning`).entries()) {
    const type = isRecord(part) ? part['type'] : part;
    if (typeof type === 'string' && REASONING_TYPES.has(type)) continue;
    throw wrong(`${name}.reasoning[${index}].type`, '"text", "summary" or "encrypted"', type);
  }
  const calls = listOf(toolCalls, `${name}.toolCalls`).map((call, index) =>
    checkCall(call, `${name}.toolCalls[${index}]`),
  );
  const { toolCalls: _calls, blocks: _blocks, tokenUsage: _usage, reasoning: _reasoning, ...rest } = draft;
  const kept = listOf(blocks, `${name}.blocks`);
  checkBlocks(kept, `${name}.blocks`, 'answer');
  const own = kept.length === 0 ? calls : callsOf(kept);
  return {
    ...rest,
    content,
    ...(own.length === 0 ? {} : { toolCalls: own }),
    ...(Array.isArray(reasoning) && reasoning.length > 0 ? { reasoning } : {}),
    ...(isRecord(tokenUsage) ? { tokenUsage } : {}),
    ...(kept.length === 0 ? {} : { blocks: kept }),
  };
}

/**
 * The calls among the blocks of an answer. They replace `toolCalls`, because the blocks describe the answer completely.
 */
function callsOf(blocks: readonly unknown[]): readonly Record<string, unknown>[] {
  return blocks.flatMap((block) =>
    isRecord(block) && block['type'] === 'tool_use'
      ? [{ callId: block['id'], name: block['name'], arguments: JSON.stringify(block['input'] ?? {}) }]
      : [],
  );
}

function checkCall(call: unknown, name: string): Record<string, unknown> {
  if (!isRecord(call)) throw wrong(name, 'an object', call);
  checkText(call['callId'], `${name}.callId`);
  checkText(call['name'], `${name}.name`);
  const given = call['arguments'] ?? '';
  // Some clients keep the input itself instead of its JSON text.
  if (isRecord(given)) return { ...call, arguments: JSON.stringify(given) };
  checkText(given, `${name}.arguments`);
  return { ...call, arguments: given };
}

function checkContent(content: unknown, name: string, place: ContentPlace): void {
  if (typeof content === 'string') return;
  if (!Array.isArray(content)) throw wrong(name, 'a string or a list of blocks', content);
  checkBlocks(content, name, place);
}

function listOf(value: unknown, name: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw wrong(name, 'a list', value);
  return value;
}

function checkText(value: unknown, name: string): void {
  if (typeof value !== 'string') throw wrong(name, 'a string', value);
}

function checkOptionalText(value: unknown, name: string): void {
  if (value !== undefined && value !== null) checkText(value, name);
}

/** The members of an object. Throws `InvalidArgumentError` for any other value. */
export function checkMembers(value: unknown, name: string): Readonly<Record<string, Json>> {
  if (!isRecord(value)) throw wrong(name, 'an object', value);
  return value as Readonly<Record<string, Json>>;
}
