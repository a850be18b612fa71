/**
 * Takes results of calls out of users' messages. In the Messages API a user's message carries the results. In the
 * history each result is a separate `tool` message. Pure.
 */
import type { HistoryDraft } from '../../base/history-message.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { textOf } from '../../base/messages.ts';
import type { HistoryEntry } from './history-form.ts';
import { callsOf } from './repair.ts';

/**
 * The messages, with each result as a separate message. The rest of the user's message follows its results. `known`:
 * the history so far, which has the names of the calls.
 */
export function expandResults(
  drafts: readonly HistoryDraft[],
  known: readonly HistoryEntry[],
): readonly HistoryDraft[] {
  if (!drafts.some((draft) => draft.role === 'user' && carried(draft).length > 0)) return drafts;
  const names = new Map<string, string>();
  for (const { message } of known) for (const call of callsOf(message)) names.set(call.callId, call.name);
  return drafts.flatMap((draft) => {
    if (draft.role === 'assistant' && Array.isArray(draft['toolCalls'])) {
      for (const call of draft['toolCalls']) names.set(String(call.callId), String(call.name));
    }
    return draft.role === 'user' ? expanded(draft, names) : [draft];
  });
}

function carried(draft: HistoryDraft): readonly Extract<ContentBlock, { type: 'tool_result' }>[] {
  const content = draft['content'];
  if (!Array.isArray(content)) return [];
  return (content as readonly ContentBlock[]).filter((block) => block.type === 'tool_result');
}

function expanded(draft: HistoryDraft, names: ReadonlyMap<string, string>): readonly HistoryDraft[] {
  const results = carried(draft);
  if (results.length === 0) return [draft];
  const { id, content, ...fields } = draft;
  const others = (content as readonly ContentBlock[]).filter((block) => block.type !== 'tool_result');
  const messages: HistoryDraft[] = results.map((block) => {
    const text = block.content ?? '';
    return {
      ...fields,
      role: 'tool',
      content: text,
      toolCallId: block.tool_use_id,
      name: names.get(block.tool_use_id) ?? '',
      ...(block.is_error === true ? { error: textOf(text), errorType: 'execution_error' } : {}),
    };
  });
  if (others.length > 0) messages.push({ ...fields, role: 'user', content: others });
  const [first, ...rest] = messages;
  // The first of the new messages gets the original id.
  return first === undefined ? [] : [id === undefined ? first : { ...first, id }, ...rest];
}
